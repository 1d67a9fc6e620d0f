//! One version of an adapter takes over from another: the socket stays, nothing is lost, nothing comes twice.

use serde_json::{Value, json};
use support::TestHost;
use support::chat::Chat;

const SCRIPT: &str = r#"{ rules: [], otherwise: "heard" }"#;

fn users(host: &TestHost) -> usize {
    let rows = host.call("chat.history", json!({ "sessionKey": "agent:ruda:relay:channel:7", "limit": 1_000 }));
    let rows = rows.expect("rows")["messages"].as_array().expect("rows").clone();
    rows.iter().filter(|row| row["role"] == "user").count()
}

#[test]
fn swaps_under_traffic_keep_the_socket_and_every_message() {
    const SWAPS: u64 = 12;
    const EACH: u64 = 10;
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    for swap in 0..SWAPS {
        for n in 0..EACH {
            chat.message(swap * EACH + n + 1, "hello");
        }
        host.swap_relay(&chat, json!({ "label": format!("v{swap}") }), false).expect("swapped");
    }
    let all = usize::try_from(SWAPS * EACH).expect("few");
    host.eventually("every message is answered", || (chat.delivered().len() >= all).then_some(()));
    host.eventually("every answer is delivered", || (host.channel("relay")["undelivered"] == 0).then_some(()));
    assert_eq!((chat.opened().len(), chat.heard("hello").len()), (1, 1), "one socket all the time");
    let mut answered: Vec<String> = chat.heard("deliver").iter().map(|frame| frame["replyTo"].to_string()).collect();
    answered.sort();
    answered.dedup();
    assert_eq!((answered.len(), chat.delivered().len(), users(&host)), (all, all, all), "each once");
    let last = chat.heard("ack").pop().expect("an acknowledgement");
    assert_eq!(last["seq"], SWAPS * EACH);
    let restored: Vec<u64> = chat.heard("ack").iter().filter_map(|ack| ack["restored"].as_u64()).collect();
    assert!(restored.iter().any(|restored| *restored > 1), "versions went on from each other's state: {restored:?}");
}

#[test]
fn a_version_that_refuses_the_state_does_not_take_over_unless_it_may_begin_anew() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.message(1, "hello");
    host.eventually("it is acknowledged", || (!chat.heard("ack").is_empty()).then_some(()));
    let said = host.swap_relay(&chat, json!({ "label": "b", "refuses": true }), false).expect_err("refused");
    assert!(said.contains("goes on") && said.contains("takes no state") && said.contains("--fresh"), "{said}");
    chat.message(2, "still here");
    let ack = host.eventually("the old one serves", || chat.heard("ack").get(1).cloned());
    assert_eq!((ack["label"].as_str(), chat.opened().len()), (Some("a"), 1));
    host.swap_relay(&chat, json!({ "label": "b", "refuses": true }), true).expect("swapped");
    host.eventually("the new one begins anew", || (chat.heard("hello").len() == 2).then_some(()));
    let hello: Value = chat.heard("hello").pop().expect("a hello");
    assert_eq!((&hello["label"], &hello["seq"]), (&json!("b"), &json!(0)));
}

#[test]
fn a_version_that_traps_on_probation_gives_way_to_the_one_before_and_the_message_is_taken_once() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    host.swap_relay(&chat, json!({ "label": "b", "trap": true }), false).expect("swapped");
    // Its first call goes well, the second does not.
    chat.message(1, "one");
    host.eventually("it is acknowledged", || (chat.heard("ack").len() == 1).then_some(()));
    chat.message(2, "two");
    let ack = host.eventually("the version before took it", || chat.heard("ack").get(1).cloned());
    assert_eq!((&ack["label"], &ack["seq"]), (&json!("a"), &json!(2)));
    host.eventually("both are answered", || (chat.delivered().len() == 2).then_some(()));
    assert_eq!((chat.opened().len(), users(&host)), (1, 2));
    assert_eq!(host.told("plugin.rolled_back").len(), 1);
    assert_eq!(host.slot("channel:relay")["state"], "serving");
}

#[test]
fn an_adapter_that_traps_goes_on_from_its_checkpoint_with_a_new_socket() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.message(5, "hello");
    host.eventually("it is acknowledged", || (!chat.heard("ack").is_empty()).then_some(()));
    chat.send(json!({ "op": "panic" }));
    let hello = host.eventually("it is back", || chat.heard("hello").get(1).cloned());
    assert_eq!(hello["seq"], 5);
    host.channel_is("relay", "ready");
    assert!(!host.told("plugin.trapped").is_empty());
    chat.message(6, "again");
    host.eventually("it works", || (chat.heard("ack").len() == 2).then_some(()));
}
