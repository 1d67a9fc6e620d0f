//! Adapters that loop, trap, flood or answer nonsense: they rest and come back, and no other channel notices.

use std::time::Duration;

use serde_json::json;
use support::chat::{Chat, relay};
use support::{TestHost, eventually};

const SCRIPT: &str = r#"{ rules: [], otherwise: "heard" }"#;

#[test]
fn an_adapter_that_misbehaves_is_begun_anew_and_others_go_on() {
    let (bad, good) = (Chat::start(), Chat::start());
    let host = TestHost::scripted_with(SCRIPT, |file| {
        file["channels"]["bad"] = relay(&bad, json!({}));
        file["channels"]["bad"]["limits"]["cpuMs"] = json!(100);
        file["channels"]["good"] = relay(&good, json!({}));
    });
    host.channel_is("bad", "ready");
    host.channel_is("good", "ready");
    for (n, (deed, kind)) in
        [("loop", "plugin.limit"), ("panic", "plugin.trapped"), ("flood", ""), ("other", "")].iter().enumerate()
    {
        bad.send(json!({ "op": deed }));
        let before = good.delivered().len();
        good.message(n as u64 + 1, "hello");
        host.eventually("the other channel answers", || (good.delivered().len() == before + 1).then_some(()));
        host.eventually("the bad one is back", || (bad.opened().len() == n + 2).then_some(()));
        host.channel_is("bad", "ready");
        assert!(kind.is_empty() || !host.told(kind).is_empty(), "{deed}");
        assert!(bad.heard("flood").is_empty(), "nothing of a flood was sent");
    }
    assert_eq!(good.opened().len(), 1);
    assert_eq!(host.channel("bad")["restarts"], 5);
    let told = host.told("channel.status");
    assert!(told.iter().any(|told| told["status"] == "degraded" && told["channel"] == "bad"), "{told:?}");
}

#[test]
fn signs_of_life_go_out_while_the_adapter_is_at_work() {
    let chat = Chat::start();
    chat.wants_beats(1_000);
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    host.eventually("it says that it lives", || (!chat.heard("alive").is_empty()).then_some(()));
    host.eventually("the adapter hears of it", || (!chat.heard("beat").is_empty()).then_some(()));
    chat.send(json!({ "op": "loop" }));
    // The call takes a second of the processor; meanwhile more pass on the gateway's clock.
    eventually("it says so while the adapter hears nothing", || {
        host.clock.advance(Duration::from_millis(1_000));
        (chat.heard("alive").len() > chat.heard("beat").len() + 3).then_some(())
    });
    assert_eq!(chat.opened().len(), 1, "the loop was not cut off yet");
}

#[test]
fn a_broken_connection_is_made_again_by_the_adapter() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.cut();
    host.eventually("it is back", || (chat.opened().len() == 2).then_some(()));
    host.channel_is("relay", "ready");
    assert_eq!(host.channel("relay")["restarts"], 1, "the adapter itself did not begin anew");
}

#[test]
fn a_message_larger_than_any_may_be_ends_the_connection_and_nothing_else() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    chat.send(json!({ "op": "say", "text": "x".repeat(10 << 20) }));
    host.eventually("it is back", || (chat.opened().len() == 2).then_some(()));
    host.channel_is("relay", "ready");
    chat.message(1, "\u{1b}[2J{\"secret\": \"token\"} agent:ruda:main [NEED_HUMAN: really?]");
    host.eventually("words are words", || (chat.delivered() == ["heard"]).then_some(()));
    let rows = host.history("agent:ruda:relay:channel:7");
    assert!(rows[0]["content"].to_string().contains("agent:ruda:main [NEED_HUMAN: really?]"), "{rows:#?}");
    assert!(!rows[0]["content"].to_string().contains("\\u001b"));
    host.asked(0);
}

#[test]
fn a_channel_that_is_wanted_again_while_it_still_ends_comes_back() {
    let chat = Chat::start();
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    // The call takes a second of the processor; only then does the adapter hear that it is to stop.
    chat.send(json!({ "op": "loop" }));
    std::thread::sleep(Duration::from_millis(100));
    host.operate("disable", "channel:relay").expect("disabled");
    host.operate("enable", "channel:relay").expect("enabled");
    host.eventually("it is back", || (chat.opened().len() == 2).then_some(()));
    host.channel_is("relay", "ready");
    host.call("channel.restart", json!({ "channel": "relay" })).expect("there is one to restart");
    host.eventually("it begins anew", || (chat.opened().len() == 3).then_some(()));
    host.channel_is("relay", "ready");
    chat.message(1, "hello");
    host.eventually("it answers", || (chat.delivered() == ["heard"]).then_some(()));
}
