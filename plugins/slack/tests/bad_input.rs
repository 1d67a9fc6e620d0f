//! Whatever a network, or someone who pretends to be it, could send: none of it stops the adapter, and each is answered within bounds.

use chela_adapters::{handle, spoil};
use chela_sdk::Plugin;
use chela_sdk::channel::{Channel, HttpResponse, Input, Outbound, Output, Question, SocketClosed, SocketText};
use serde_json::{Value, json};
use slack::Slack;

fn answer(id: &str, status: u16, body: impl ToString) -> Input {
    let headers = vec![("Retry-After".to_owned(), ["1", "NaN", "x"][id.len() % 3].to_owned())];
    let (id, error) = (id.to_owned(), String::new());
    Input::HttpResponse(HttpResponse {
        id,
        status,
        headers,
        body: body.to_string().into_bytes(),
        error,
        refused: false,
        sent: status != 0,
    })
}

fn frame(connection: &str, data: impl ToString) -> Input {
    Input::SocketText(SocketText { connection: connection.to_owned(), data: data.to_string() })
}

fn requests(outputs: &[Output]) -> Vec<String> {
    let id = |output: &Output| match output {
        Output::HttpRequest(request) => Some(request.id.clone()),
        _ => None,
    };
    outputs.iter().filter_map(id).collect()
}

/// An adapter that is ready, and the name of its socket.
fn ready() -> (Slack, String) {
    let mut adapter = Slack::configure(r#"{"direct": "open", "requireMention": false}"#).expect("accepted");
    handle(&mut adapter, 1_000, vec![Input::Started(false)]);
    let me = json!({ "ok": true, "user_id": "U1", "bot_id": "B1", "user": "chela", "team_id": "T1" });
    handle(&mut adapter, 1_100, vec![answer("me-1", 200, me)]);
    let opened = json!({ "ok": true, "url": "wss://wss-primary.slack.com/link/?ticket=1" });
    let outputs = handle(&mut adapter, 1_200, vec![answer("open-2", 200, opened)]);
    let name = outputs.iter().find_map(|output| match output {
        Output::OpenSocket(open) => Some(open.connection.clone()),
        _ => None,
    });
    let name = name.expect("a socket");
    handle(&mut adapter, 1_300, vec![frame(&name, json!({ "type": "hello" }))]);
    (adapter, name)
}

fn samples() -> Vec<Value> {
    let event = |event: Value| {
        json!({ "type": "events_api", "envelope_id": "e-1", "accepts_response_payload": false,
            "payload": { "team_id": "T1", "event_id": "Ev1", "event": event } })
    };
    let buttons =
        json!([{ "type": "actions", "elements": [{ "type": "button", "action_id": "choice-0", "value": "q1" }] }]);
    vec![
        json!({ "type": "hello", "num_connections": 1 }),
        event(json!({ "type": "message", "channel": "C1", "channel_type": "channel", "user": "U7", "ts": "17.0001",
            "thread_ts": "16.0001", "text": "<@U1> hello <#C2|x> <https://x.example|y> &lt;", "files": [{ "name": "a", "permalink": "https://x.example/a" }] })),
        event(
            json!({ "type": "app_mention", "channel": "C1", "user": "U7", "ts": "17.0002", "text": "<@U1> hello <@U8>" }),
        ),
        event(
            json!({ "type": "message", "channel": "D1", "channel_type": "im", "user": "U7", "ts": "17.0003", "text": "hi" }),
        ),
        event(
            json!({ "type": "message", "subtype": "bot_message", "channel": "C1", "bot_id": "B9", "ts": "17.0004", "text": "hi" }),
        ),
        event(json!({ "type": "user_change", "user": { "id": "U7", "profile": { "display_name": "Eden" } } })),
        json!({ "type": "slash_commands", "envelope_id": "e-2", "accepts_response_payload": true, "payload": { "command": "/ask",
            "text": "@ruda hi", "user_id": "U7", "user_name": "eden", "channel_id": "C1", "team_id": "T1", "trigger_id": "1.2.a",
            "response_url": "https://hooks.slack.com/commands/1" } }),
        json!({ "type": "interactive", "envelope_id": "e-3", "payload": { "type": "block_actions", "user": { "id": "U7", "name": "eden" },
            "trigger_id": "3.4.b", "channel": { "id": "C1" }, "message": { "ts": "17.0005", "thread_ts": "16.0001", "text": "?", "blocks": buttons },
            "actions": [{ "action_id": "choice-0", "value": "q1", "action_ts": "18.1", "text": { "text": "Yes" } }] } }),
        json!({ "type": "interactive", "envelope_id": "e-4", "payload": { "type": "view_submission", "user": { "id": "U7" },
            "view": { "id": "V1", "callback_id": "answer", "private_metadata": "{\"question\":\"q1\",\"channel\":\"C1\",\"time\":\"17.0005\"}",
                "state": { "values": { "answer": { "words": { "value": "yes" } } } } } } }),
        json!({ "type": "disconnect", "reason": "refresh_requested" }),
        json!({ "type": "disconnect", "reason": "warning" }),
    ]
}

#[test]
fn malformed_frames_never_stop_the_adapter() {
    let samples = samples();
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut adapter, name) = ready();
        let mut now_ms = 2_000;
        for _ in 0..random.usize(1..5) {
            let mut sample = samples[random.usize(0..samples.len())].clone();
            for _ in 0..random.usize(1..4) {
                spoil(&mut sample, &mut random);
            }
            let mut text = sample.to_string();
            if random.u8(0..6) == 0 {
                let cut = text.char_indices().map(|(at, _)| at).nth(random.usize(0..text.len())).unwrap_or(0);
                text.truncate(cut);
            }
            now_ms += random.u64(0..10_000);
            let outputs = handle(&mut adapter, now_ms, vec![frame(&name, text)]);
            assert!(outputs.len() <= 64 + 16, "{} outputs for one input (seed {seed})", outputs.len());
        }
        let state = adapter.snapshot();
        assert!(state.bytes.len() < 300_000, "the state is bounded (seed {seed}): {}", state.bytes.len());
        adapter.restore(state).expect("what it wrote it can read");
    }
}

#[test]
fn malformed_answers_never_stop_the_adapter() {
    for seed in 0..5_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut adapter, name) = ready();
        let outbound = Outbound {
            id: "d1".into(),
            target: ["channel:C1", "direct:U7", "channel:C1:thread:17.0001"][random.usize(0..3)].into(),
            text: "word ".repeat(random.usize(1..2_000)),
            reply_to: ["", "C1.17.0001", "command.1.2.a"][random.usize(0..3)].into(),
            edits: vec!["C1.17.0002".into(), "x".into()],
            question: random.bool().then(|| Question { id: "q1".into(), choices: vec!["Yes".into()] }),
        };
        let command = samples().remove(6);
        let mut outputs = handle(&mut adapter, 2_000, vec![frame(&name, command), Input::Deliver(outbound)]);
        for round in 0..12 {
            let mut one = |id: String| {
                let words =
                    ["ratelimited", "internal_error", "channel_not_found", "message_not_found", "missing_scope", ""];
                let mut body = json!({ "ok": random.bool(), "ts": "19.1", "error": words[random.usize(0..6)], "channel": { "id": "D7" },
                    "user": { "name": "eden" }, "messages": [{ "ts": "19.1", "metadata": { "event_payload": { "key": "k" } } }] });
                spoil(&mut body, &mut random);
                answer(&id, [0, 200, 200, 200, 302, 400, 403, 429, 500, 503, 999][random.usize(0..11)], body)
            };
            let mut inputs: Vec<Input> = requests(&outputs).into_iter().map(&mut one).collect();
            inputs.extend(["call-99", "nonsense", "open-x", "me-0", "-"].map(|id| one(id.to_owned())));
            inputs.push(Input::Timer("calls".into()));
            inputs.push(Input::Timer("connect".into()));
            inputs.push(Input::Timer("patience".into()));
            outputs = handle(&mut adapter, 3_000 + round * 86_500_000, inputs);
        }
        adapter.snapshot();
    }
}

#[test]
fn every_envelope_is_acknowledged_once_whatever_is_in_it() {
    let samples = samples();
    for seed in 0..5_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut adapter, name) = ready();
        let mut sample = samples[random.usize(1..9)].clone();
        let payload = sample.get_mut("payload").expect("a payload");
        spoil(payload, &mut random);
        let outputs = handle(&mut adapter, 2_000, vec![frame(&name, &sample)]);
        let acknowledged = outputs.iter().filter(|output| matches!(output, Output::SendSocket(_))).count();
        assert_eq!(acknowledged, 1, "seed {seed}: {sample}");
        let kept = outputs.iter().any(|output| matches!(output, Output::Checkpoint));
        let taken = outputs.iter().any(|output| matches!(output, Output::Inbound(_)));
        assert!(kept || !taken, "what is taken is kept with the acknowledgement");
    }
}

#[test]
fn a_huge_message_is_taken_within_bounds() {
    let (mut adapter, name) = ready();
    let huge = json!({ "type": "events_api", "envelope_id": "e", "payload": { "event": { "type": "message", "channel": "D1", "channel_type": "im",
        "user": "U7", "ts": "17.1", "text": "y".repeat(5_000_000) } } });
    handle(&mut adapter, 2_000, vec![frame(&name, huge)]);
    let user = json!({ "ok": true, "user": { "name": "x".repeat(1_000_000) } });
    let outputs = handle(&mut adapter, 2_100, vec![answer("call-1", 200, user)]);
    let taken = outputs.iter().find_map(|output| match output {
        Output::Inbound(inbound) => Some(inbound),
        _ => None,
    });
    let taken = taken.expect("a message");
    assert!(taken.text.len() <= 40_000 && taken.sender_name.len() <= 100);
    assert!(adapter.snapshot().bytes.len() < 20_000);
}

#[test]
fn whatever_closes_the_socket_leads_to_one_attempt() {
    for code in (0..=5_000).chain([u16::MAX]) {
        let (mut adapter, name) = ready();
        let closed = SocketClosed { connection: name, code, reason: "\u{0}x".into(), refused: false };
        let outputs = handle(&mut adapter, 60_000, vec![Input::SocketClosed(closed)]);
        let timers =
            outputs.iter().filter(|output| matches!(output, Output::SetTimer(timer) if timer.name == "connect"));
        assert_eq!(timers.count(), 1, "code {code}");
    }
}
