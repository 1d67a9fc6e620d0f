//! One version of an adapter takes over from another: the socket stays, nothing is lost, nothing comes twice.

use chela::plugins::From;
use serde_json::{Value, json};
use support::chat::{Chat, relay};
use support::components::stamped;
use support::{TestHost, guest, guest_bytes, path_of};

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

/// A gateway whose configuration leaves it to commands what serves the channel `relay`.
fn host_without_source(chat: &Chat) -> TestHost {
    let mut own = relay(chat, json!({}));
    own.as_object_mut().expect("an object").remove("source");
    TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own)
}

fn configure(host: &TestHost, label: Value) {
    host.dir.edit_config(|file| file["channels"]["relay"]["config"]["label"] = label);
}

/// Who takes the next message.
fn label(host: &TestHost, chat: &Chat) -> Value {
    let nth = chat.heard("ack").len();
    chat.message(nth as u64 + 1, "hello");
    host.eventually("it is acknowledged", || chat.heard("ack").get(nth).cloned())["label"].clone()
}

#[test]
fn what_was_loaded_by_a_command_takes_up_what_its_channel_is_configured_to_later() {
    let chat = Chat::start();
    let host = host_without_source(&chat);
    let swapped = |count: usize| {
        host.eventually("it is taken up", || (host.told("plugin.swapped").len() == count).then_some(()));
    };
    host.load_with("channel:relay", From::Source(path_of(&guest("relay"))), None, false).expect("loaded");
    host.channel_is("relay", "ready");
    assert_eq!(label(&host, &chat), "a");
    configure(&host, json!("b"));
    swapped(1);
    assert_eq!(label(&host, &chat), "b");
    // What a command says later stands, whatever else changes, until the channel is configured anew.
    host.swap_relay(&chat, json!({ "label": "c" }), false).expect("swapped");
    let applied = host.told("config.applied").len();
    host.dir.edit_config(|file| file["channels"]["relay"]["routing"] = json!({ "agent": "ruda" }));
    host.eventually("it is applied", || (host.told("config.applied").len() > applied).then_some(()));
    assert_eq!(label(&host, &chat), "c");
    configure(&host, json!("d"));
    swapped(3);
    assert_eq!((label(&host, &chat), chat.opened().len()), (json!("d"), 1), "on one socket");
    // It is also so after the entry was away.
    host.dir.edit_config(|file| drop(file["channels"].as_object_mut().and_then(|channels| channels.remove("relay"))));
    let dir = host.stop();
    let mut own = relay(&chat, json!({ "label": "e" }));
    own.as_object_mut().expect("an object").remove("source");
    dir.edit_config(|file| file["channels"] = json!({ "relay": own }));
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.channel_is("relay", "ready");
    assert_eq!(label(&host, &chat), "e", "and over a restart");
}

#[test]
fn a_configuration_that_an_adapter_refuses_is_told_until_it_is_mended_and_what_served_serves() {
    let chat = Chat::start();
    let host = host_without_source(&chat);
    let problem = |host: &TestHost| host.slot("channel:relay")["problem"].as_str().map(str::to_owned);
    let refused = |host: &TestHost| {
        let said = host.eventually("it is told", || problem(host));
        assert!(said.contains("configuration"), "{said}");
        assert_eq!(label(host, &chat), "a");
    };
    host.load_with("channel:relay", From::Source(path_of(&guest("relay"))), None, false).expect("loaded");
    host.channel_is("relay", "ready");
    configure(&host, json!(7));
    refused(&host);
    host.operate("disable", "channel:relay").expect("disabled");
    // While it still ends it looks ready, and nobody would take what is said to it.
    host.eventually("it has ended", || (host.channel("relay")["connections"] == json!([])).then_some(()));
    host.operate("enable", "channel:relay").expect("enabled");
    host.channel_is("relay", "ready");
    refused(&host);
    let host = TestHost::start_in(host.stop()).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.channel_is("relay", "ready");
    refused(&host);
    configure(&host, json!("a"));
    host.eventually("it is as it was", || problem(&host).is_none().then_some(()));
    configure(&host, json!("b"));
    host.eventually("it is taken up", || (label(&host, &chat) == "b").then_some(()));
}

#[test]
fn a_version_that_was_rolled_back_does_not_come_back_with_another_configuration() {
    let chat = Chat::start();
    let host = host_without_source(&chat);
    let hash = || host.slot("channel:relay")["plugin"]["hash"].clone();
    let bytes = |stamp: &str| stamped(&guest_bytes("relay"), stamp);
    host.upload("channel:relay", "relay.wasm", bytes("one")).expect("loaded");
    let first = hash();
    host.upload("channel:relay", "relay.wasm", bytes("two")).expect("swapped");
    assert_ne!(hash(), first);
    host.operate("rollback", "channel:relay").expect("rolled back");
    host.channel_is("relay", "ready");
    configure(&host, json!("b"));
    host.eventually("it is taken up", || (label(&host, &chat) == "b").then_some(()));
    // Also when the files of `plugins/` are looked at again.
    let other = host.dir.state.plugins().join("other.txt");
    std::fs::write(&other, "x").and_then(|()| std::fs::remove_file(&other)).expect("written");
    assert_eq!(label(&host, &chat), "b");
    assert_eq!((hash(), host.slot("channel:relay")["problem"].clone()), (first, Value::Null));
}
