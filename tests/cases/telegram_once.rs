//! A message whose answer never came is there once: found where Telegram has it, sent again where it has not.

use std::time::Duration;

use serde_json::{Value, json};
use support::telegram::{FEW, GROUP, OTHER_PERSON, PERSON, Said, Sent, Telegram};
use support::{Binary, TestDir, TestHost, eventually};

const SCRIPT: &str = r#"{ rules: [{ when: "ask me", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
        { when: "slow", steps: [{ say: "late", delayMs: 5000 }] }], otherwise: "heard" }"#;

fn channel(telegram: &Telegram) -> Value {
    telegram.channel(&json!({ "requestsPerSecond": 10_000, "typing": false }))
}

/// A gateway that has talked once with everybody.
fn host(telegram: &Telegram) -> TestHost {
    let own = channel(telegram);
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["telegram"] = own);
    host.channel_is("telegram", "ready");
    telegram.say(Said::direct("hello"));
    telegram.say(Said::to_bot("hello"));
    telegram.say(Said::among_few("hello"));
    host.eventually("everybody is answered", || (telegram.sent().len() == 3).then_some(()));
    host
}

/// Waits until nothing is left to deliver; gives what is there since the first three.
fn settled(host: &TestHost, telegram: &Telegram, count: usize) -> Vec<Sent> {
    host.eventually("it is there", || (telegram.sent().len() >= 3 + count).then_some(()));
    host.eventually("and known to be there", || (host.channel("telegram")["undelivered"] == 0).then_some(()));
    let sent = telegram.sent();
    assert_eq!(sent.len(), 3 + count, "{sent:#?}");
    assert!(sent.iter().all(|sent| sent.edits == 0), "a look changes nothing: {sent:#?}");
    sent[3..].to_vec()
}

fn looks(telegram: &Telegram) -> usize {
    let is_look = |path: &str| path.ends_with("/editMessageReplyMarkup");
    telegram.requests().iter().filter(|asked| is_look(&asked.path)).count()
}

fn send(host: &TestHost, to: &str, words: &str) {
    let key = &words[..words.len().min(64)];
    let send = json!({ "to": to, "channel": "telegram", "message": words, "idempotencyKey": key });
    host.call("send", send).expect("taken");
}

#[test]
fn a_message_that_was_made_before_the_connection_broke_is_found_and_the_rest_follows() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    for (nth, chat) in [PERSON, GROUP, FEW].into_iter().enumerate() {
        telegram.lose_next_sends(1);
        let place = if chat > 0 { "direct" } else { "channel" };
        send(&host, &format!("{place}:{chat}"), &format!("words {nth}"));
        assert_eq!(settled(&host, &telegram, nth + 1)[nth].chat, chat);
    }
    assert!(looks(&telegram) >= 3);
    telegram.lose_next_sends(2);
    send(&host, &format!("direct:{PERSON}"), &"word ".repeat(1_500));
    let sent = settled(&host, &telegram, 5);
    assert!(sent[3].text.len() > sent[4].text.len(), "both parts, in their order");
}

#[test]
fn a_message_that_never_arrived_is_sent_once_more_and_others_do_not_wait_for_that() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    telegram.drop_next_sends(1);
    send(&host, &format!("direct:{PERSON}"), "dropped");
    host.eventually("it is dropped", || {
        (telegram.requests().iter().filter(|asked| asked.json["text"] == "dropped").count() == 1).then_some(())
    });
    send(&host, &format!("direct:{OTHER_PERSON}"), "meanwhile");
    let sent = settled(&host, &telegram, 2);
    assert_eq!((sent[0].text.as_str(), sent[1].text.as_str()), ("meanwhile", "dropped"));
    assert!(looks(&telegram) >= 32, "it was looked for: {}", looks(&telegram));
}

#[test]
fn a_question_whose_button_is_pressed_before_its_answer_came_is_there_once_and_its_buttons_go() {
    let telegram = Telegram::start();
    let host = host(&telegram);
    telegram.lose_next_sends(1);
    telegram.say(Said::direct("ask me"));
    let asks = || telegram.sent().into_iter().find(|sent| sent.markup["inline_keyboard"].is_array());
    let question = host.eventually("the question is there", asks);
    let press = telegram.press(&question, "Answer");
    let shown = host.eventually("the press is acknowledged", || telegram.acknowledged(&press));
    assert!(shown.contains("Reply to this message"), "{shown}");
    let sent = settled(&host, &telegram, 1);
    telegram.say(Said::direct("8080").replying(sent[0].number));
    let is_closed = |sent: &Sent| sent.number == question.number && sent.text.contains("Answered by Eden");
    let closed = host.eventually("it is closed", || telegram.sent().into_iter().find(is_closed));
    assert_eq!(closed.markup["inline_keyboard"], json!([]));
}

/// The gateway is killed while an answer is on its way to it, or while a message is on its way from it.
#[test]
fn a_kill_between_the_message_and_its_answer_leaves_it_there_once() {
    let telegram = Telegram::start();
    let own = channel(&telegram);
    let dir = TestDir::scripted(SCRIPT, |file| file["channels"]["telegram"] = own);
    let gateway = Binary::serve(&dir);
    telegram.say(Said::direct("hello"));
    telegram.say(Said::to_bot("hello"));
    eventually("both are answered", || (telegram.sent().len() == 2).then_some(()));
    telegram.answer_sends_late(Duration::from_secs(60));
    telegram.say(Said::direct("and?"));
    telegram.say(Said::to_bot("and?"));
    eventually("both are answered again", || (telegram.sent().len() == 4).then_some(()));
    gateway.kill();
    telegram.answer_sends_late(Duration::ZERO);
    telegram.say(Said::direct("meanwhile"));
    let gateway = Binary::serve(&dir);
    eventually("what was said meanwhile is answered", || (telegram.sent().len() >= 5).then_some(()));
    eventually("nothing waits any more", || {
        let list = gateway.method(&dir, "channel.list", json!({})).expect("a list");
        (list["channels"][0]["undelivered"] == 0).then_some(())
    });
    gateway.terminate();
    let sent = telegram.sent();
    assert!(sent.len() == 5 && sent.iter().all(|sent| sent.edits == 0), "{sent:#?}");
}

/// A gateway that ends takes no message any more, and the adapter is given it again while it does.
#[test]
fn what_is_said_while_a_gateway_drains_is_heard_by_the_next() {
    let telegram = Telegram::start();
    let own = channel(&telegram);
    let dir = TestDir::scripted(SCRIPT, |file| file["channels"]["telegram"] = own);
    let mut gateway = Binary::serve(&dir);
    telegram.say(Said::direct("slow"));
    eventually("it is heard", || {
        let list = gateway.method(&dir, "channel.list", json!({})).expect("a list");
        (list["channels"][0]["received"] == 1).then_some(())
    });
    gateway.signal(rustix::process::Signal::TERM);
    eventually("it drains", || gateway.stderr().contains("stopping").then_some(()));
    telegram.say(Said::to_bot("in between"));
    assert_eq!(gateway.finished().code, Some(0));
    let gateway = Binary::serve(&dir);
    let texts = || telegram.sent().into_iter().map(|sent| sent.text).collect::<Vec<String>>();
    eventually("both are answered", || {
        ["late", "heard"].iter().all(|said| texts().iter().any(|text| text == said)).then_some(())
    });
    gateway.terminate();
    assert_eq!(texts().len(), 2, "{:#?}", telegram.sent());
}
