//! Whatever a network, or someone who pretends to be it, could send: none of it stops the adapter, and each is answered within bounds.

use chela_adapters::{handle, spoil};
use chela_sdk::Plugin;
use chela_sdk::channel::{Channel, Health, HttpResponse, Input, Outbound, Output, SocketClosed, SocketText};
use discord::Discord;
use serde_json::{Value, json};

fn connection(outputs: &[Output]) -> Option<String> {
    outputs.iter().find_map(|output| match output {
        Output::OpenSocket(open) => Some(open.connection.clone()),
        _ => None,
    })
}

fn frame(connection: &str, data: impl ToString) -> Input {
    Input::SocketText(SocketText { connection: connection.to_owned(), data: data.to_string() })
}

/// An adapter that is ready, and the name of its connection.
fn ready() -> (Discord, String) {
    let mut adapter = Discord::configure(r#"{"direct": "open", "requireMention": false}"#).expect("accepted");
    let opened = handle(&mut adapter, 1_000, vec![Input::Started(false)]);
    let name = connection(&opened).expect("a connection");
    let ready = json!({ "op": 0, "t": "READY", "s": 1, "d": {
        "session_id": "abc", "resume_gateway_url": "wss://gateway.discord.gg",
        "user": { "id": "1", "username": "chela" }, "application": { "id": "2" },
    } });
    let hello = json!({ "op": 10, "d": { "heartbeat_interval": 41_250 } });
    handle(&mut adapter, 1_100, vec![frame(&name, hello), frame(&name, ready)]);
    (adapter, name)
}

fn samples() -> Vec<Value> {
    let author = json!({ "id": "7", "username": "eden", "global_name": "Eden" });
    let buttons = json!([{ "type": 1, "components": [{ "type": 2, "label": "Yes", "custom_id": "choice:0:q1" }] }]);
    vec![
        json!({ "op": 10, "d": { "heartbeat_interval": 45_000 } }),
        json!({ "op": 0, "t": "GUILD_CREATE", "s": 2, "d": { "id": "9", "channels": [{ "id": "10", "type": 0, "name": "general" }],
            "threads": [{ "id": "11", "type": 11, "parent_id": "10", "name": "plans" }],
            "roles": [{ "id": "5", "name": "crew", "tags": { "bot_id": "1" } }] } }),
        json!({ "op": 0, "t": "MESSAGE_CREATE", "s": 3, "d": { "id": "100", "channel_id": "10", "guild_id": "9", "author": author,
            "member": { "nick": "E" }, "content": "<@1> hello <#10> <@&5>", "mentions": [{ "id": "1", "username": "chela" }],
            "mention_roles": ["5"], "attachments": [{ "filename": "a.png", "url": "https://cdn.example/a.png" }],
            "message_reference": { "message_id": "99" }, "referenced_message": { "author": { "id": "1" } }, "type": 19,
            "sticker_items": [{ "name": "wave" }], "message_snapshots": [{ "message": { "content": "said" } }] } }),
        json!({ "op": 0, "t": "INTERACTION_CREATE", "s": 4, "d": { "id": "200", "type": 2, "token": "tok", "channel_id": "10",
            "guild_id": "9", "channel": { "id": "10", "type": 0, "name": "general" }, "member": { "user": author },
            "data": { "name": "ask", "options": [{ "name": "text", "type": 3, "value": "hi" }] } } }),
        json!({ "op": 0, "t": "INTERACTION_CREATE", "s": 5, "d": { "id": "201", "type": 3, "token": "tok", "channel_id": "10",
            "guild_id": "9", "member": { "user": author }, "message": { "id": "150", "content": "?", "components": buttons },
            "data": { "custom_id": "choice:0:q1", "component_type": 2 } } }),
        json!({ "op": 0, "t": "INTERACTION_CREATE", "s": 6, "d": { "id": "202", "type": 5, "token": "tok", "channel_id": "10",
            "user": author, "message": { "id": "150", "content": "?" }, "data": { "custom_id": "answer:q1",
            "components": [{ "components": [{ "custom_id": "words", "value": "yes" }] }] } } }),
        json!({ "op": 0, "t": "RESUMED", "s": 7, "d": {} }),
        json!({ "op": 0, "t": "THREAD_LIST_SYNC", "s": 8, "d": { "threads": [{ "id": "12", "type": 11 }] } }),
        json!({ "op": 1, "d": null }),
        json!({ "op": 7, "d": null }),
        json!({ "op": 9, "d": true }),
        json!({ "op": 11 }),
    ]
}

#[test]
fn malformed_frames_never_stop_the_adapter() {
    let samples = samples();
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut adapter, mut name) = ready();
        let mut now_ms = 2_000;
        for _ in 0..random.usize(1..5) {
            let mut sample = samples[random.usize(0..samples.len())].clone();
            for _ in 0..random.usize(1..4) {
                spoil(&mut sample, &mut random);
            }
            let mut text = sample.to_string();
            if random.u8(0..8) == 0 {
                let cut = text.char_indices().map(|(at, _)| at).nth(random.usize(0..text.len())).unwrap_or(0);
                text.truncate(cut);
            }
            now_ms += random.u64(0..10_000);
            let outputs = handle(&mut adapter, now_ms, vec![frame(&name, text)]);
            assert!(outputs.len() <= 64 + 16, "{} outputs for one input (seed {seed})", outputs.len());
            name = connection(&outputs).unwrap_or(name);
        }
        let state = adapter.snapshot();
        assert!(state.bytes.len() < 200_000, "the state is bounded (seed {seed})");
        adapter.restore(state).expect("what it wrote it can read");
    }
}

#[test]
fn malformed_answers_never_stop_the_adapter() {
    for seed in 0..5_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut adapter, _) = ready();
        let question = None;
        let outbound = Outbound {
            id: "d1".into(),
            target: ["channel:10", "direct:7", "channel:10:thread:11"][random.usize(0..3)].into(),
            text: "word ".repeat(random.usize(1..1_000)),
            reply_to: "100".into(),
            edits: vec!["5".into(), "x".into()],
            question,
        };
        let mut outputs = handle(&mut adapter, 2_000, vec![Input::Deliver(outbound)]);
        for round in 0..12 {
            let ids = outputs.iter().filter_map(|output| match output {
                Output::HttpRequest(request) => Some(request.id.clone()),
                _ => None,
            });
            let mut answer = |id: String| {
                let mut body =
                    json!({ "id": "500", "message": "no", "code": 10_003, "retry_after": 0.5, "global": false });
                spoil(&mut body, &mut random);
                let words = ["0", "NaN", "-3", "1e99", "abc", ""];
                let word = || words[fastrand::usize(0..words.len())].to_owned();
                let names = ["x-ratelimit-remaining", "x-ratelimit-reset-after", "x-ratelimit-bucket", "retry-after"];
                Input::HttpResponse(HttpResponse {
                    id,
                    status: [0, 200, 204, 400, 403, 404, 418, 429, 500, 503, 999][random.usize(0..11)],
                    headers: names.iter().map(|name| ((*name).to_owned(), word())).collect(),
                    body: body.to_string().into_bytes(),
                    error: String::new(),
                    refused: random.u8(0..10) == 0,
                    sent: random.bool(),
                })
            };
            let mut inputs: Vec<Input> = ids.map(&mut answer).collect();
            inputs.push(answer("call-99".into()));
            inputs.push(answer("nonsense".into()));
            inputs.push(Input::Timer("rest".into()));
            outputs = handle(&mut adapter, 3_000 + round * 86_500_000, inputs);
        }
    }
}

#[test]
fn a_huge_message_is_taken_within_bounds() {
    let (mut adapter, name) = ready();
    let huge = json!({ "op": 0, "t": "MESSAGE_CREATE", "s": 2, "d": { "id": "100", "channel_id": "10",
        "author": { "id": "7", "username": "x".repeat(1_000_000) }, "content": "y".repeat(10_000_000) } });
    let outputs = handle(&mut adapter, 2_000, vec![frame(&name, huge)]);
    let taken = outputs.iter().find_map(|output| match output {
        Output::Inbound(inbound) => Some(inbound),
        _ => None,
    });
    let taken = taken.expect("a message");
    assert!(taken.text.len() <= 8_000 && taken.sender_name.len() <= 100);
    assert!(adapter.snapshot().bytes.len() < 20_000);
}

#[test]
fn whatever_closes_the_connection_leads_to_one_attempt_or_to_none() {
    for code in (0..=5_000).chain([u16::MAX]) {
        let (mut adapter, name) = ready();
        let closed = SocketClosed { connection: name, code, reason: "\u{0}x".into(), refused: false };
        let outputs = handle(&mut adapter, 60_000, vec![Input::SocketClosed(closed)]);
        let timers =
            outputs.iter().filter(|output| matches!(output, Output::SetTimer(timer) if timer.name == "connect"));
        let is_final = matches!(code, 4_004 | 4_010..=4_014);
        assert_eq!(timers.count(), usize::from(!is_final), "code {code}");
    }
}

#[test]
fn a_message_that_is_too_large_is_not_asked_for_again() {
    let closed = |name: &str| SocketClosed {
        connection: name.to_owned(),
        code: 1_009,
        reason: "a message of 9 bytes, and 8 are taken".into(),
        refused: false,
    };
    let (mut adapter, name) = ready();
    handle(&mut adapter, 60_000, vec![Input::SocketClosed(closed(&name))]);
    let outputs = handle(&mut adapter, 70_000, vec![Input::Timer("connect".into())]);
    let name = connection(&outputs).expect("another attempt");
    let hello = json!({ "op": 10, "d": { "heartbeat_interval": 41_250 } });
    let sent = handle(&mut adapter, 70_100, vec![frame(&name, hello)]);
    let opens = |output: &Output| format!("{output:?}").contains(r#"{\"op\":2,"#);
    assert!(sent.iter().any(opens), "a new session, not the one with that message: {sent:?}");
    let outputs = handle(&mut adapter, 70_200, vec![Input::SocketClosed(closed(&name))]);
    let gave_up = |output: &Output| matches!(output, Output::Status(status) if status.health == Health::Failed && status.detail.contains("frameBytes"));
    assert!(outputs.iter().any(gave_up), "a person decides: {outputs:?}");
    assert!(!outputs.iter().any(|output| matches!(output, Output::SetTimer(_))), "no attempt follows: {outputs:?}");
}
