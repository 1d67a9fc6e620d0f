//! One question, several surfaces: whoever answers first, on one network, on another or over the API, closes it everywhere.

use serde_json::{Value, json};
use support::slack::{self, Slack};
use support::telegram::{self, Telegram};
use support::{TestHost, eventually};

const SCRIPT: &str = r#"{ rules: [
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "so it is" }] },
    { agent: "ruda", when: "ask me later", steps: [{ say: "[NEED_HUMAN: Which port?]", delayMs: 5000 }] },
    { agent: "ruda", when: "ask me", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
  ], otherwise: "heard" }"#;

fn both() -> (Telegram, Slack, TestHost) {
    let (telegram, slack) = (Telegram::start(), Slack::start());
    let host = TestHost::scripted_with(SCRIPT, |file| {
        file["channels"]["telegram"] = telegram.channel(&json!({ "requestsPerSecond": 10_000 }));
        file["channels"]["slack"] = slack.channel(&json!({}));
    });
    host.channel_is("telegram", "ready");
    host.channel_is("slack", "ready");
    (telegram, slack, host)
}

/// Asks on Telegram; the question's id, and its message.
fn asked(telegram: &Telegram, host: &TestHost) -> (String, telegram::Sent) {
    telegram.say(telegram::Said::direct("ask me"));
    let asks = || telegram.sent().into_iter().find(|sent| sent.markup["inline_keyboard"].is_array());
    let message = host.eventually("the question is there", asks);
    let id = host.asked(1)[0]["id"].as_str().expect("an id").to_owned();
    (id, message)
}

/// The message of a question says how it ended, and has no buttons any more.
fn closed(host: &TestHost, telegram: &Telegram, message: &telegram::Sent, words: &str) {
    let shown = host.eventually("the message says so", || {
        telegram.sent().into_iter().find(|sent| sent.number == message.number && sent.text.contains("Answered by"))
    });
    assert!(shown.text.contains(words) && shown.markup["inline_keyboard"] == json!([]), "{shown:#?}");
}

fn answer_of(host: &TestHost, id: &str) -> Value {
    host.eventually("the question is closed", || (host.questions().is_empty()).then_some(()));
    host.question(id)["answer"].clone()
}

#[test]
fn a_question_of_one_network_is_answered_from_another_and_closed_on_both_and_in_the_api() {
    let (telegram, slack, host) = both();
    let (id, message) = asked(&telegram, &host);
    let trigger = slack.command("/answer", &format!("#{id} the answer of a person"));
    let replies =
        host.eventually("it is passed on", || Some(slack.replies(&trigger)).filter(|replies| !replies.is_empty()));
    assert!(replies[0]["text"].as_str().is_some_and(|said| said.contains("passed on")), "{replies:?}");
    let given = answer_of(&host, &id);
    assert!(given["text"].as_str().is_some_and(|said| said.contains("the answer of a person")), "{given}");
    host.eventually("who asked goes on where it was asked", || {
        telegram.sent().iter().any(|sent| sent.text == "so it is").then_some(())
    });
    closed(&host, &telegram, &message, "the answer of a person");
    // Late: it is closed, so what is said now is a message like any other.
    telegram.say(telegram::Said::direct("too late").replying(message.number));
    host.eventually("it is heard", || telegram.sent().iter().any(|sent| sent.text == "heard").then_some(()));
    assert_eq!(host.question(&id)["answer"], given, "the first answer stands");
    let late = host.call("human.answer", json!({ "id": id, "answer": "9090" })).expect_err("it is closed");
    assert!(late["message"].is_string(), "{late}");
}

#[test]
fn a_question_that_the_api_answers_is_closed_on_the_networks() {
    let (telegram, slack, host) = both();
    let (id, message) = asked(&telegram, &host);
    host.call("human.answer", json!({ "id": id, "answer": "the answer of a person" })).expect("taken");
    let given = answer_of(&host, &id);
    host.eventually("who asked goes on", || telegram.sent().iter().any(|sent| sent.text == "so it is").then_some(()));
    closed(&host, &telegram, &message, "the answer of a person");
    telegram.say(telegram::Said::direct("8080").replying(message.number));
    slack.command("/answer", "8081");
    host.eventually("both are messages like any other", || {
        let rows = host.history("agent:ruda:direct:7");
        rows.iter().any(|row| row["content"].to_string().contains("8080")).then_some(())
    });
    assert_eq!(host.question(&id)["answer"], given, "the first answer stands");
    assert!(host.questions().is_empty());
}

#[test]
fn a_question_of_slack_is_answered_by_its_button_and_closed_for_the_api() {
    let (_telegram, slack, host) = both();
    slack.say(slack::Said::to_bot("ask me"));
    let asks = || slack.sent().into_iter().find(|sent| !sent.body["blocks"].is_null());
    let message = host.eventually("the question is there", asks);
    let id = host.asked(1)[0]["id"].as_str().expect("an id").to_owned();
    slack.press(&message, "Answer");
    let form = host.eventually("a form opens", || slack.forms().pop());
    slack.submit(&form, "the answer of a person");
    let given = answer_of(&host, &id);
    assert_eq!((&given["text"], &given["by"]), (&json!("the answer of a person"), &json!("Eden")), "{given}");
    host.call("human.answer", json!({ "id": id, "answer": "9090" })).expect_err("it is closed");
    host.eventually("the agent goes on", || slack.sent().iter().any(|sent| sent.text == "so it is").then_some(()));
}

#[test]
fn a_question_in_a_thread_of_slack_is_found_by_the_commands_of_its_channel() {
    let (_telegram, slack, host) = both();
    slack.say(slack::Said::to_bot("ask me"));
    let asks = || slack.sent().into_iter().find(|sent| has_buttons(&sent.body));
    let message = host.eventually("the question is there", asks);
    assert!(message.thread.is_some(), "an answer opens a thread: {message:#?}");
    let id = host.asked(1)[0]["id"].as_str().expect("an id").to_owned();
    host.eventually("it is known to be there", || (host.channel("slack")["delivered"] == 1).then_some(()));
    let list = slack.command("/questions", "");
    let listed =
        host.eventually("the questions are shown", || Some(slack.replies(&list)).filter(|replies| !replies.is_empty()));
    assert!(listed[0]["text"].as_str().is_some_and(|said| said.contains(&id)), "{listed:?}");
    slack.command("/answer", "the answer of a person");
    let given = answer_of(&host, &id);
    assert!(given["text"].as_str().is_some_and(|said| said.contains("the answer of a person")), "{given}");
    host.eventually("who asked goes on in the thread", || {
        let goes_on = |sent: &slack::Sent| sent.text == "so it is" && sent.thread == message.thread;
        slack.sent().iter().any(goes_on).then_some(())
    });
    host.eventually("its buttons are gone", || {
        let shown = slack.sent().into_iter().find(|sent| sent.time == message.time)?;
        (!has_buttons(&shown.body)).then_some(())
    });
}

/// One question that both networks show: two runs for one task ask at the same moment. None where one of them was so late that the task had
/// begun to wait, and its question is one of its own.
fn on_both() -> Option<(Telegram, Slack, TestHost, telegram::Sent, slack::Sent)> {
    let (telegram, slack, host) = both();
    host.begin("ruda", &["choose"]);
    telegram.say(telegram::Said::direct("ask me later"));
    slack.say(slack::Said::to_bot("ask me later"));
    // The clock stands still, so that both wait for the same moment.
    let received = |name: &str| host.channel(name)["received"] == 1;
    let running = || host.call("status", json!({})).expect("status")["runs"] == 2;
    eventually("both are heard", || (received("telegram") && received("slack") && running()).then_some(()));
    std::thread::sleep(std::time::Duration::from_millis(300));
    host.clock.advance(std::time::Duration::from_secs(6));
    let asks = || telegram.sent().into_iter().find(|sent| sent.markup["inline_keyboard"].is_array());
    let on_telegram = host.eventually("the question is on Telegram", asks);
    let asks = || slack.sent().into_iter().find(|sent| has_buttons(&sent.body));
    let on_slack = host.eventually("the question is on Slack", asks);
    (host.questions().len() == 1).then_some((telegram, slack, host, on_telegram, on_slack))
}

fn has_buttons(body: &Value) -> bool {
    body["blocks"].as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "actions"))
}

#[test]
fn one_question_on_two_networks_is_answered_on_one_and_closed_on_the_other_and_in_the_api() {
    let found = (0..5).find_map(|_| on_both());
    let (telegram, slack, host, on_telegram, on_slack) = found.expect("both asked at once in one of five tries");
    let id = host.asked(1)[0]["id"].as_str().expect("an id").to_owned();
    slack.press(&on_slack, "Answer");
    let form = host.eventually("a form opens", || slack.forms().pop());
    slack.submit(&form, "the answer of a person");
    let given = answer_of(&host, &id);
    assert_eq!((&given["text"], &given["by"]), (&json!("the answer of a person"), &json!("Eden")), "{given}");
    closed(&host, &telegram, &on_telegram, "the answer of a person");
    host.eventually("its buttons are gone on Slack", || {
        let shown = slack.sent().into_iter().find(|sent| sent.time == on_slack.time)?;
        (!has_buttons(&shown.body)).then_some(())
    });
    assert_eq!(host.question(&id)["state"], "answered");
    host.call("human.answer", json!({ "id": id, "answer": "9090" })).expect_err("it is closed");
    let goes_on = |texts: Vec<String>| texts.iter().any(|text| text == "so it is");
    host.eventually("both who asked go on", || {
        let on_telegram = goes_on(telegram.sent().into_iter().map(|sent| sent.text).collect());
        let on_slack = goes_on(slack.sent().into_iter().map(|sent| sent.text).collect());
        (on_telegram && on_slack).then_some(())
    });
}
