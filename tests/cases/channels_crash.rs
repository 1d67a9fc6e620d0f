//! A real gateway is killed while a chat network talks to it: what was acknowledged is there, every message is taken once, every answer
//! gets to people.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use support::chat::{Chat, relay};
use support::{Binary, TestDir, eventually};

const SCRIPT: &str = r#"{ rules: [], otherwise: "heard" }"#;
const MESSAGES: u64 = 60;
const KILLS: usize = 6;

#[test]
fn kills_under_a_stream_of_messages_lose_nothing_and_repeat_nothing() {
    let chat = Chat::start();
    let own = relay(&chat, serde_json::json!({}));
    let dir = TestDir::scripted(SCRIPT, |file| file["channels"]["relay"] = own);
    let mut chance = fastrand::Rng::with_seed(7);
    chat.writes(MESSAGES);
    // Counted before the start: it may have said hello before it is known to be ready.
    let greeted = || {
        let before = chat.heard("hello").len();
        let gateway = Binary::serve(&dir);
        let hello = eventually("it says hello", || chat.heard("hello").get(before).cloned());
        (gateway, hello)
    };
    for _ in 0..KILLS {
        let (gateway, _) = greeted();
        std::thread::sleep(Duration::from_millis(chance.u64(0..60)));
        gateway.kill();
    }
    let acks = chat.heard("ack");
    let (gateway, hello) = greeted();
    let acknowledged = |before: &[Value]| before.iter().filter_map(|ack| ack["seq"].as_u64()).max().unwrap_or(0);
    assert!(hello["seq"].as_u64() >= Some(acknowledged(&acks)), "what was acknowledged is on record: {hello}");
    let answers = || {
        let mut answers: BTreeMap<String, usize> = BTreeMap::new();
        for frame in chat.heard("deliver") {
            *answers.entry(frame["replyTo"].as_str().expect("a message").to_owned()).or_default() += 1;
        }
        answers
    };
    let all = usize::try_from(MESSAGES).expect("few");
    eventually("every message is answered", || (answers().len() == all).then_some(()));
    eventually("nothing waits any more", || {
        let list = gateway.method(&dir, "channel.list", serde_json::json!({})).expect("a list");
        (list["channels"][0]["undelivered"] == 0).then_some(())
    });
    gateway.terminate();
    let rows = dir.transcript("ruda");
    let asked: Vec<&Value> = rows.iter().filter(|row| row["role"] == "user").collect();
    assert_eq!(asked.len(), all, "each is taken once");
    // What was on its way at a kill may go out again under its id; never more than once for each kill.
    assert!(answers().values().all(|times| *times <= KILLS + 1), "{:?}", answers());
}
