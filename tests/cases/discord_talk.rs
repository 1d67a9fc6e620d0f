//! People on Discord and agents talk, through the real component and a Discord that refuses what Discord refuses.

use std::time::Duration;

use serde_json::json;
use support::TestHost;
use support::discord::{CHANNEL, Discord, Said, Setup, THREAD};

const SCRIPT: &str = r#"{ rules: [
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "so it is" }] },
    { agent: "ruda", when: "ask me", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
  ], otherwise: "heard" }"#;

/// Limits that a test does not meet unless it wants to.
fn discord() -> Discord {
    Discord::with(Setup { messages: (10_000, Duration::from_secs(1)), global_a_second: 10_000, ..Setup::default() })
}

fn host(discord: &Discord) -> TestHost {
    let config = json!({ "requestsPerSecond": 10_000 });
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["discord"] = discord.channel(&config));
    host.channel_is("discord", "ready");
    host
}

#[test]
fn a_mention_is_answered_as_a_reply_in_its_channel_thread_or_direct_message() {
    let discord = discord();
    let host = host(&discord);
    let here = discord.say(Said::to_bot("hello"));
    host.eventually("the answer is there", || (discord.sent().len() == 1).then_some(()));
    discord.say(Said::here("not for the bot"));
    discord.say(Said::to_bot("and here").within(THREAD));
    host.eventually("the thread is answered", || (discord.sent().len() == 2).then_some(()));
    discord.say(Said::direct("in private"));
    host.eventually("the person is answered", || (discord.sent().len() == 3).then_some(()));
    let sent = discord.sent();
    assert_eq!((sent[0].channel, sent[0].text.as_str(), sent[1].channel), (CHANNEL, "heard", THREAD));
    assert_eq!(sent[0].body["message_reference"]["message_id"], json!(here.to_string()));
    assert!(!discord.typed().is_empty(), "it was seen that somebody works");
    assert_eq!(discord.counts().identifies, 1);
}

#[test]
fn what_breaks_is_resumed_and_nothing_is_lost_or_said_twice() {
    let discord = discord();
    let host = host(&discord);
    for round in 0..6 {
        match round {
            0 => discord.cut(),
            1 => discord.double_next(3),
            2 => discord.swap_next(),
            3 => discord.lose_next_answers(1),
            4 => discord.fail_next(2, 502),
            _ => discord.ask_to_reconnect(),
        }
        discord.say(Said::to_bot(&format!("a{round}")));
        discord.say(Said::to_bot(&format!("b{round}")));
        let all = (round + 1) * 2;
        host.eventually("both are answered", || (discord.sent().len() >= all).then_some(()));
        assert_eq!(discord.sent().len(), all, "round {round}");
    }
    let counts = discord.counts();
    assert_eq!(counts.identifies, 1, "{counts:?}");
    assert!(counts.resumed >= 1, "{counts:?}");
}

#[test]
fn a_command_is_acknowledged_in_time_and_answered_where_it_was_given() {
    let discord = discord();
    let host = host(&discord);
    let asked = discord.command("ask", &[("text", "what is new?")]);
    host.eventually("it is answered", || discord.acted(asked).original);
    assert_eq!(discord.acted(asked).callback.expect("acknowledged")["type"], 5);
    assert_eq!(discord.acted(asked).original.expect("an answer")["content"], "heard");
    let tasks = discord.command("tasks", &[]);
    host.eventually("the tasks are shown", || discord.acted(tasks).original);
    assert_eq!(discord.acted(tasks).callback.expect("acknowledged")["data"]["flags"], 64);
}

#[test]
fn a_question_is_answered_by_its_button() {
    let discord = discord();
    let host = host(&discord);
    discord.say(Said::to_bot("ask me"));
    let asks = |discord: &Discord| discord.sent().into_iter().find(|sent| !sent.body["components"].is_null());
    let question = host.eventually("the question is there", || asks(&discord));
    let pressed = discord.press(&question, "Answer");
    let form = host.eventually("a form opens", || discord.acted(pressed).callback.map(|_| discord.acted(pressed)));
    discord.submit(&form, &question, "the answer of a person");
    host.eventually("the agent goes on", || discord.sent().iter().any(|sent| sent.text == "so it is").then_some(()));
}

#[test]
fn a_wrong_token_needs_a_person_and_no_second_attempt() {
    let discord = discord();
    let host = TestHost::scripted_with(SCRIPT, |file| {
        let mut channel = discord.channel(&json!({}));
        channel["grants"]["secrets"]["discord-token"]["value"] = json!("wrong");
        file["channels"]["discord"] = channel;
    });
    host.channel_is("discord", "needs-auth");
    assert_eq!((discord.counts().identifies, discord.counts().closed), (1, vec![4_004]));
}
