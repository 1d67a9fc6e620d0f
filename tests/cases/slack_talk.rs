//! People on Slack and agents talk, through the real component and a Slack that refuses what Slack refuses.

use serde_json::{Value, json};
use support::TestHost;
use support::slack::{CHANNEL, OTHER_CHANNEL, OTHER_PERSON, PERSON, Said, Sent, Slack};

const SCRIPT: &str = r#"{ rules: [
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "so it is" }] },
    { agent: "ruda", when: "ask me", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
  ], otherwise: "heard" }"#;

fn host(slack: &Slack) -> TestHost {
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["slack"] = slack.channel(&json!({})));
    host.channel_is("slack", "ready");
    host
}

fn answered(host: &TestHost, slack: &Slack, count: usize) -> Vec<Sent> {
    host.eventually("the answers are there", || (slack.sent().len() >= count).then_some(()));
    let sent = slack.sent();
    assert_eq!(sent.len(), count, "{sent:#?}");
    sent
}

#[test]
fn a_mention_is_answered_in_its_thread_and_a_person_directly() {
    let slack = Slack::start();
    let host = host(&slack);
    let here = slack.say(Said::to_bot("hello"));
    slack.say(Said::here("not for the bot"));
    answered(&host, &slack, 1);
    slack.say(Said::here("and further, without a mention").within(&here));
    answered(&host, &slack, 2);
    slack.say(Said::direct("in private"));
    let sent = answered(&host, &slack, 3);
    assert_eq!(
        (sent[0].channel.as_str(), sent[0].text.as_str(), sent[0].thread.as_deref()),
        (CHANNEL, "heard", Some(&*here))
    );
    assert_eq!((sent[1].thread.as_deref(), sent[2].thread.as_deref()), (Some(&*here), None));
    let rows = host.history(&format!("agent:ruda:slack:channel:{CHANNEL}:thread:{here}"));
    assert_eq!(rows.iter().filter(|row| row["role"] == "user").count(), 2, "{rows:#?}");
    assert!(!host.history(&format!("agent:ruda:direct:{PERSON}")).is_empty());
    host.eventually("all is acknowledged", || (slack.unacknowledged() == 0).then_some(()));
    assert_eq!((slack.counts().sockets, slack.counts().wrongly_acknowledged), (1, 0));
}

#[test]
fn what_breaks_is_made_anew_and_nothing_is_lost_or_said_twice() {
    let slack = Slack::start();
    let host = host(&slack);
    for round in 0..7 {
        match round {
            0 => slack.cut(),
            1 => slack.double_next(4),
            2 => slack.lose_next_answers(1),
            3 => slack.fail_next(2, 502),
            4 => slack.disconnect("refresh_requested"),
            5 => slack.disconnect("warning"),
            _ => {}
        }
        slack.say(Said::to_bot(&format!("a{round}")));
        slack.say(Said::to_bot(&format!("b{round}")));
        answered(&host, &slack, (round + 1) * 2);
    }
    host.eventually("all is acknowledged", || (slack.unacknowledged() == 0).then_some(()));
    assert!(slack.counts().sockets >= 2, "{:?}", slack.counts());
}

#[test]
fn a_channel_that_must_wait_waits_and_what_is_refused_is_told() {
    let slack = Slack::start();
    let host = host(&slack);
    slack.limit(1);
    let send = |to: String, key: &str| {
        host.call("send", json!({ "to": to, "channel": "slack", "message": key, "idempotencyKey": key }))
            .expect("taken");
    };
    (0..3).for_each(|n| send(format!("channel:{CHANNEL}"), &format!("g{n}")));
    send(format!("direct:{OTHER_PERSON}"), "other");
    let sent = answered(&host, &slack, 4);
    let of_channel: Vec<&str> =
        sent.iter().filter(|sent| sent.channel == CHANNEL).map(|sent| sent.text.as_str()).collect();
    assert_eq!(of_channel, ["g0", "g1", "g2"], "in their order");
    assert!(slack.counts().limited >= 1);
    slack.refuse_next(1, "is_archived");
    send(format!("channel:{OTHER_CHANNEL}"), "archived");
    let refused = host.eventually("it is told", || host.told("channel.refused").pop());
    assert!(refused["reason"].as_str().is_some_and(|said| said.contains("is_archived")), "{refused}");
    host.eventually("nothing waits", || (host.channel("slack")["undelivered"] == 0).then_some(()));
}

#[test]
fn a_question_is_answered_by_its_form_and_commands_where_they_were_given() {
    let slack = Slack::start();
    let host = host(&slack);
    slack.say(Said::to_bot("ask me"));
    let asks = || slack.sent().into_iter().find(|sent| !sent.body["blocks"].is_null());
    let question = host.eventually("the question is there", asks);
    slack.press(&question, "Answer");
    let form = host.eventually("a form opens", || slack.forms().pop());
    slack.submit(&form, "the answer of a person");
    host.eventually("the agent goes on", || slack.sent().iter().any(|sent| sent.text == "so it is").then_some(()));
    let shown = host.eventually("its buttons are gone", || {
        let sent = slack.sent().into_iter().find(|sent| sent.time == question.time)?;
        (!sent.body["blocks"].to_string().contains("button")).then_some(sent)
    });
    assert!(shown.text.contains("Which port?"), "{}", shown.text);
    let tasks = slack.command("/tasks", "");
    let replies =
        host.eventually("the tasks are shown", || Some(slack.replies(&tasks)).filter(|replies| !replies.is_empty()));
    assert_eq!(replies[0]["response_type"], "ephemeral");
    let asked = slack.command("/ask", "what is new?");
    let replies =
        host.eventually("it is answered", || Some(slack.replies(&asked)).filter(|replies| !replies.is_empty()));
    assert_eq!((&replies[0]["text"], &replies[0]["response_type"]), (&json!("heard"), &json!("in_channel")));
    let help: Vec<Value> = {
        let unknown = slack.command("/chela", "");
        host.eventually("help comes at once", || Some(slack.replies(&unknown)).filter(|replies| !replies.is_empty()))
    };
    assert!(help[0]["text"].as_str().is_some_and(|said| said.contains("/ask")));
}

#[test]
fn a_question_that_answers_a_command_loses_its_button_once_it_is_over() {
    let slack = Slack::start();
    let host = host(&slack);
    let asked = slack.command("/ask", "ask me");
    let has_button = |sent: &Sent| sent.body["blocks"].to_string().contains("button");
    let question = host.eventually("the question is there", || slack.sent().into_iter().find(has_button));
    assert!(slack.replies(&asked).is_empty(), "an address gives it no name: {:?}", slack.replies(&asked));
    let id = host.asked(1)[0]["id"].as_str().expect("an id").to_owned();
    host.call("human.answer", json!({ "id": id, "answer": "the answer of a person" })).expect("taken");
    let shown = host.eventually("its button is gone", || {
        slack.sent().into_iter().find(|sent| sent.time == question.time && !has_button(sent))
    });
    assert!(shown.text.contains("Answered by"), "{}", shown.text);
    let sent = answered(&host, &slack, 2);
    assert_eq!(sent[1].text, "so it is");
}

#[test]
fn wrong_tokens_need_a_person_and_a_switch_that_is_off_is_told() {
    for (secret, whose) in [("slack-bot-token", "the bot's token"), ("slack-app-token", "the app's token")] {
        let slack = Slack::start();
        let host = TestHost::scripted_with(SCRIPT, |file| {
            let mut channel = slack.channel(&json!({}));
            channel["grants"]["secrets"][secret]["value"] = json!("xoxb-wrong");
            file["channels"]["slack"] = channel;
        });
        let view = host.channel_is("slack", "needs-auth");
        assert!(view["detail"].as_str().is_some_and(|said| said.contains(whose)), "{view}");
        assert_eq!((slack.counts().refused_tokens, slack.counts().sockets), (1, 0));
    }
    let slack = Slack::start();
    let host = host(&slack);
    slack.disconnect("link_disabled");
    let view = host.channel_is("slack", "stopped");
    assert!(view["detail"].as_str().is_some_and(|said| said.contains("Socket Mode is switched off")), "{view}");
}
