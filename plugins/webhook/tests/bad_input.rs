//! Whatever a program, or someone who pretends to be it, could send: none of it stops the adapter, and each call is answered once.

use chela_adapters::{handle, spoil};
use chela_sdk::Plugin;
use chela_sdk::channel::{Channel, HttpResponse, Input, Outbound, Output, Question, WebhookRequest, wire};
use serde_json::{Value, json};
use webhook::Webhook;

const NOW_MS: u64 = 1_700_000_000_000;

fn ready(config: &str) -> Webhook {
    let mut adapter = Webhook::configure(config).expect("accepted");
    handle(&mut adapter, NOW_MS, vec![Input::Started(false)]);
    adapter
}

fn call(id: &str, body: Vec<u8>, verified: bool) -> Input {
    let (method, path, query, headers) = ("POST".to_owned(), "messages".to_owned(), String::new(), Vec::new());
    Input::Webhook(WebhookRequest { id: id.to_owned(), method, path, query, headers, body, verified })
}

fn message(id: &str) -> Value {
    json!({ "id": id, "at": NOW_MS, "text": "hello", "sender": { "id": "ci", "name": "CI" }, "target": "channel:build:thread:7",
        "agent": "ruda", "replyTo": "m0", "command": { "name": "tasks", "arguments": { "agent": "ruda" } } })
}

/// The status of the only answer, and how many messages came of it.
fn answered(outputs: &[Output]) -> (u16, usize) {
    let statuses: Vec<u16> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::WebhookResponse(response) => Some(response.status),
            _ => None,
        })
        .collect();
    assert_eq!(statuses.len(), 1, "one answer for a call");
    (statuses[0], outputs.iter().filter(|output| matches!(output, Output::Inbound(_))).count())
}

#[test]
fn malformed_calls_are_answered_once_and_taken_only_when_they_are_whole() {
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut adapter = ready("{}");
        for n in 0..random.usize(1..4) {
            let mut body = message(&format!("m{n}"));
            for _ in 0..random.usize(1..4) {
                spoil(&mut body, &mut random);
            }
            let mut bytes = body.to_string().into_bytes();
            if random.u8(0..4) == 0 {
                bytes.truncate(random.usize(0..bytes.len()));
            }
            if random.u8(0..8) == 0 && !bytes.is_empty() {
                let at = random.usize(0..bytes.len());
                bytes[at] = random.u8(..);
            }
            let verified = random.u8(0..5) > 0;
            let outputs = handle(&mut adapter, NOW_MS, vec![call("w1", bytes, verified)]);
            let (status, taken) = answered(&outputs);
            assert_eq!(
                taken,
                usize::from(status == 202 && outputs.iter().any(|output| matches!(output, Output::Inbound(_))))
            );
            assert!(verified || (status == 401 && taken == 0), "seed {seed}: {status}");
            for output in &outputs {
                if let Output::Inbound(inbound) = output {
                    assert!(wire::is_target(&inbound.target) && wire::is_id(&inbound.sender_id), "seed {seed}");
                    assert!(!inbound.id.is_empty() && inbound.id.len() <= 100, "seed {seed}");
                }
            }
        }
        let state = adapter.snapshot();
        assert!(state.bytes.len() < 50_000, "the state is bounded (seed {seed})");
        adapter.restore(state).expect("what it wrote it can read");
    }
}

#[test]
fn a_flood_is_refused_and_ends_with_its_minute() {
    let mut adapter = ready(r#"{"messagesPerMinute": 50}"#);
    let mut counts = [0, 0];
    for n in 0..1_000 {
        let mut body = message(&format!("m{n}"));
        body["command"] = Value::Null;
        let (status, taken) =
            answered(&handle(&mut adapter, NOW_MS + n, vec![call("w", body.to_string().into_bytes(), true)]));
        match status {
            202 => counts[0] += taken,
            429 => counts[1] += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(counts, [50, 950]);
    let mut later = message("later");
    later["at"] = json!(NOW_MS + 61_000);
    let (status, _) =
        answered(&handle(&mut adapter, NOW_MS + 61_000, vec![call("w", later.to_string().into_bytes(), true)]));
    assert_eq!(status, 202);
    assert!(adapter.snapshot().bytes.len() < 10_000);
}

#[test]
fn only_what_is_near_now_is_taken_whatever_the_clocks_say() {
    let mut adapter = ready(r#"{"windowSeconds": 60}"#);
    for (n, at) in [0, 1, NOW_MS - 60_001, NOW_MS + 60_001, u64::MAX].into_iter().enumerate() {
        let mut body = message(&format!("m{n}"));
        body["at"] = json!(at);
        let outputs = handle(&mut adapter, NOW_MS, vec![call("w", body.to_string().into_bytes(), true)]);
        assert_eq!(answered(&outputs), (403, 0), "{at}");
    }
    for (n, at) in [NOW_MS - 60_000, NOW_MS, NOW_MS + 60_000].into_iter().enumerate() {
        let mut body = message(&format!("good{n}"));
        body["at"] = json!(at);
        let outputs = handle(&mut adapter, NOW_MS, vec![call("w", body.to_string().into_bytes(), true)]);
        assert_eq!(answered(&outputs), (202, 1), "{at}");
    }
}

#[test]
fn malformed_answers_never_stop_the_adapter() {
    for seed in 0..5_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut adapter = ready(r#"{"url": "https://x.example/in", "typing": true, "charactersMax": 200}"#);
        let outbound = Outbound {
            id: "d1".into(),
            target: "channel:build".into(),
            text: "word ".repeat(random.usize(1..200)),
            reply_to: "m1".into(),
            edits: vec!["a".into()],
            question: random.bool().then(|| Question { id: "q1".into(), choices: vec!["Yes".into()] }),
        };
        let mut outputs = handle(&mut adapter, NOW_MS, vec![Input::Deliver(outbound)]);
        for round in 0..12 {
            let ids: Vec<String> = outputs
                .iter()
                .filter_map(|output| match output {
                    Output::HttpRequest(request) => Some(request.id.clone()),
                    _ => None,
                })
                .collect();
            let mut inputs: Vec<Input> = Vec::new();
            for id in ids.into_iter().chain(["call-99".to_owned(), "x".to_owned()]) {
                let mut body = json!({ "id": "r1" });
                spoil(&mut body, &mut random);
                let after = ["", "5", "NaN", "-1", "1e99", "Wed"][random.usize(0..6)].to_owned();
                inputs.push(Input::HttpResponse(HttpResponse {
                    id,
                    status: [0, 200, 202, 204, 301, 400, 401, 404, 408, 410, 425, 429, 500, 503, 999]
                        [random.usize(0..15)],
                    headers: vec![("Retry-After".to_owned(), after)],
                    body: body.to_string().into_bytes(),
                    error: "broken".into(),
                    refused: random.u8(0..10) == 0,
                    sent: random.bool(),
                }));
            }
            inputs.push(Input::Timer("calls".into()));
            outputs = handle(&mut adapter, NOW_MS + 1_000 + round * 86_500_000, inputs);
        }
    }
}
