//! People on Telegram and agents talk, through the real component and a Telegram that refuses what Telegram refuses.

use serde_json::json;
use support::TestHost;
use support::telegram::{FORUM, GROUP, OTHER_PERSON, PERSON, Said, Sent, TOKEN, TOPIC, Telegram};

const SCRIPT: &str = r#"{ rules: [
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "so it is" }] },
    { agent: "ruda", when: "ask me", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
    { when: "be long", steps: [{ say: "LONG" }] },
  ], otherwise: "heard" }"#;

fn host(telegram: &Telegram) -> TestHost {
    let script = SCRIPT.replace("LONG", &"**word** `code` 한국어 ".repeat(400));
    let config = json!({ "requestsPerSecond": 10_000 });
    let host = TestHost::scripted_with(&script, |file| file["channels"]["telegram"] = telegram.channel(&config));
    host.channel_is("telegram", "ready");
    host
}

fn answered(host: &TestHost, telegram: &Telegram, count: usize) -> Vec<Sent> {
    host.eventually("the answers are there", || (telegram.sent().len() >= count).then_some(()));
    let sent = telegram.sent();
    assert_eq!(sent.len(), count, "{sent:#?}");
    sent
}

#[test]
fn a_message_is_answered_as_a_reply_in_its_group_topic_or_private_chat() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    let here = telegram.say(Said::to_bot("hello"));
    telegram.say(Said::here("not for the bot"));
    answered(&host, &telegram, 1);
    telegram.say(Said::to_bot("and here").in_topic());
    answered(&host, &telegram, 2);
    telegram.say(Said::direct("in private"));
    let sent = answered(&host, &telegram, 3);
    assert_eq!((sent[0].chat, sent[0].text.as_str(), sent[0].topic), (GROUP, "heard", None));
    assert_eq!(sent[0].body["reply_parameters"]["message_id"], here);
    assert_eq!((sent[1].chat, sent[1].topic, sent[2].chat), (FORUM, Some(TOPIC), PERSON));
    host.eventually("it was seen that somebody works", || (!telegram.typed().is_empty()).then_some(()));
    assert!(!host.history(&format!("agent:ruda:telegram:channel:{FORUM}:thread:{TOPIC}")).is_empty());
    assert_eq!(telegram.counts().commands_set, 1);
    host.eventually("every update is confirmed", || (telegram.unconfirmed() == 0).then_some(()));
}

#[test]
fn a_long_answer_is_cut_and_marked_and_an_edited_message_is_heard_again() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    let number = telegram.say(Said::direct("be long"));
    host.eventually("all of it is there", || {
        let sent = telegram.sent();
        let words: usize = sent.iter().map(|sent| sent.text.matches("word").count()).sum();
        (words == 400).then_some(())
    });
    let sent = telegram.sent();
    assert!(
        sent.len() >= 2 && sent[0].body["entities"].as_array().is_some_and(|marks| marks.len() == 100),
        "{}",
        sent.len()
    );
    assert!(!sent[0].text.contains('*') || sent[0].body["entities"].as_array().map(Vec::len) == Some(100));
    let before = sent.len();
    telegram.edit(number, Said::direct("something else"));
    answered(&host, &telegram, before + 1);
    let rows = host.history(&format!("agent:ruda:direct:{PERSON}"));
    assert!(rows.iter().any(|row| row["content"].to_string().contains("(edited) something else")), "{rows:#?}");
}

#[test]
fn what_breaks_is_tried_again_and_no_update_is_lost_or_taken_twice() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    for round in 0..6 {
        match round {
            0 => telegram.lose_next_polls(2),
            1 => telegram.repeat_next(3),
            2 => telegram.conflict_next(2),
            3 => telegram.fail_next(2, 502),
            4 => telegram.fail_next(1, 500),
            _ => {}
        }
        telegram.say(Said::to_bot(&format!("a{round}")));
        telegram.say(Said::to_bot(&format!("b{round}")));
        answered(&host, &telegram, (round + 1) * 2);
    }
    let rows = host.history(&format!("agent:ruda:telegram:channel:{GROUP}"));
    assert_eq!(rows.iter().filter(|row| row["role"] == "user").count(), 12);
    assert!(telegram.counts().conflicts >= 2);
}

#[test]
fn a_chat_that_must_wait_waits_and_others_do_not() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    telegram.limit(1);
    for n in 0..3 {
        let send = json!({ "to": format!("channel:{GROUP}"), "channel": "telegram", "message": format!("g{n}"), "idempotencyKey": format!("g{n}") });
        host.call("send", send).expect("taken");
    }
    let other = json!({ "to": format!("direct:{OTHER_PERSON}"), "channel": "telegram", "message": "other", "idempotencyKey": "o" });
    host.call("send", other).expect("taken");
    let sent = answered(&host, &telegram, 4);
    let of_group: Vec<&str> = sent.iter().filter(|sent| sent.chat == GROUP).map(|sent| sent.text.as_str()).collect();
    assert_eq!(of_group, ["g0", "g1", "g2"], "in their order");
    assert!(sent[..2].iter().any(|sent| sent.chat == OTHER_PERSON), "{sent:#?}");
    assert!(telegram.counts().limited >= 1);
}

#[test]
fn what_telegram_refuses_is_told_and_a_group_that_moved_is_followed() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    telegram.block(OTHER_PERSON);
    telegram.migrate(-5, GROUP);
    let send = |to: &str, key: &str| {
        host.call("send", json!({ "to": to, "channel": "telegram", "message": key, "idempotencyKey": key }))
            .expect("taken");
    };
    send(&format!("direct:{OTHER_PERSON}"), "blocked");
    let refused = host.eventually("it is told", || host.told("channel.refused").pop());
    assert!(refused["reason"].as_str().is_some_and(|said| said.contains("blocked by the user")), "{refused}");
    send("channel:-5", "moved");
    let sent = answered(&host, &telegram, 1);
    assert_eq!((sent[0].chat, sent[0].text.as_str()), (GROUP, "moved"));
    send("channel:-404", "nowhere");
    host.eventually("an unknown chat is told too", || (host.told("channel.refused").len() == 2).then_some(()));
    host.eventually("nothing waits", || (host.channel("telegram")["undelivered"] == 0).then_some(()));
}

#[test]
fn a_question_is_answered_by_a_reply_and_commands_are_answered() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    telegram.say(Said::to_bot("ask me"));
    let asks = || telegram.sent().into_iter().find(|sent| sent.markup["inline_keyboard"].is_array());
    let question = host.eventually("the question is there", asks);
    let press = telegram.press(&question, "Answer");
    let shown = host.eventually("the press is acknowledged", || telegram.acknowledged(&press));
    assert!(shown.contains("Reply to this message"), "{shown}");
    telegram.say(Said::here("the answer of a person").replying(question.number));
    host.eventually("the agent goes on", || telegram.sent().iter().any(|sent| sent.text == "so it is").then_some(()));
    assert!(host.questions().is_empty());
    let closed = host.eventually("the question is closed where it stands", || {
        telegram.sent().into_iter().find(|sent| sent.number == question.number && sent.edits > 0)
    });
    assert!(closed.text.contains("Answered by Eden") && closed.markup["inline_keyboard"] == json!([]), "{closed:#?}");
    let before = telegram.sent().len();
    telegram.say(Said::direct("/tasks"));
    let sent = answered(&host, &telegram, before + 1);
    assert!(sent[before].text.contains("has no open task"), "{}", sent[before].text);
}

#[test]
fn a_wrong_token_needs_a_person_and_a_webhook_that_is_set_is_told() {
    let telegram = Telegram::start();
    let host = TestHost::scripted_with(SCRIPT, |file| {
        let mut channel = telegram.channel(&json!({}));
        channel["grants"]["secrets"]["telegram-token"]["value"] = json!("701:wrong");
        file["channels"]["telegram"] = channel;
    });
    let view = host.channel_is("telegram", "needs-auth");
    assert!(!view["detail"].to_string().contains("701:wrong") && telegram.requests().len() == 1, "{view}");
    drop(host);
    telegram.set_webhook();
    let with_hook = TestHost::scripted_with(SCRIPT, |file| file["channels"]["telegram"] = telegram.channel(&json!({})));
    with_hook.eventually("it is told what is in the way", || {
        let view = with_hook.channel("telegram");
        let told = view["detail"].as_str().is_some_and(|said| said.contains("deleteWebhook"));
        (told && view["status"] == "stopped").then_some(())
    });
    drop(with_hook);
    let config = json!({ "deleteWebhook": true });
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["telegram"] = telegram.channel(&config));
    telegram.say(Said::direct("hello"));
    answered(&host, &telegram, 1);
    let seen = host.events().iter().map(ToString::to_string).collect::<String>();
    assert!(!seen.contains(TOKEN) && !seen.contains("3q2_telegram"), "the token is in no event");
}
