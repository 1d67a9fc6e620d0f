//! Whatever a network, or someone who pretends to be it, could send: none of it stops the adapter, and each is answered within bounds.

use chela_adapters::{handle, spoil};
use chela_sdk::Plugin;
use chela_sdk::channel::{Channel, HttpResponse, Input, Outbound, Output, Question};
use serde_json::{Value, json};
use telegram::Telegram;

/// What the host takes of one call with one input.
const OUTPUTS_MAX: usize = 64 + 16;

fn answer(id: &str, status: u16, body: impl ToString) -> Input {
    let (headers, error) = (vec![("retry-after".to_owned(), "NaN".to_owned())], String::new());
    Input::HttpResponse(HttpResponse {
        id: id.to_owned(),
        status,
        headers,
        body: body.to_string().into_bytes(),
        error,
        refused: false,
        sent: status != 0,
    })
}

fn requests(outputs: &[Output]) -> Vec<String> {
    let id = |output: &Output| match output {
        Output::HttpRequest(request) => Some(request.id.clone()),
        _ => None,
    };
    outputs.iter().filter_map(id).collect()
}

fn poll(outputs: &[Output]) -> Option<String> {
    requests(outputs).into_iter().find(|id| id.starts_with("poll-"))
}

/// An adapter that is ready, and the name of its poll.
fn ready() -> (Telegram, String) {
    let mut adapter =
        Telegram::configure(r#"{"direct": "open", "requireMention": false, "commands": false}"#).expect("accepted");
    handle(&mut adapter, 1_000, vec![Input::Started(false)]);
    let me = json!({ "ok": true, "result": { "id": 1, "username": "chela_bot" } });
    let outputs = handle(&mut adapter, 1_100, vec![answer("me-1", 200, me)]);
    let poll = poll(&outputs).expect("a poll");
    (adapter, poll)
}

fn samples() -> Vec<Value> {
    let (eden, crew) =
        (json!({ "id": 7, "first_name": "Eden" }), json!({ "id": -100_123, "type": "supergroup", "title": "Crew" }));
    let buttons = json!({ "inline_keyboard": [[{ "text": "Yes", "callback_data": "choice:0:q1" }]] });
    vec![
        json!({ "update_id": 5, "message": { "message_id": 10, "date": 1, "chat": crew, "from": eden, "text": "@chela_bot hi 😀",
            "entities": [{ "type": "mention", "offset": 0, "length": 10 }], "message_thread_id": 7, "is_topic_message": true,
            "reply_to_message": { "message_id": 9, "from": { "id": 1 } }, "forward_origin": {} } }),
        json!({ "update_id": 6, "edited_message": { "message_id": 10, "date": 1, "edit_date": 2, "chat": crew, "from": eden,
            "text": "other words" } }),
        json!({ "update_id": 7, "callback_query": { "id": "90", "from": eden, "data": "choice:0:q1",
            "message": { "message_id": 50, "chat": crew, "reply_markup": buttons, "message_thread_id": 7, "is_topic_message": true } } }),
        json!({ "update_id": 8, "message": { "message_id": 11, "chat": { "id": 7, "type": "private" }, "from": eden, "caption": "look",
            "photo": [{}], "document": { "file_name": "a" }, "sticker": { "emoji": "x" }, "location": { "latitude": 1.0, "longitude": 2.0 } } }),
        json!({ "update_id": 9, "message": { "message_id": 12, "chat": crew, "from": eden, "migrate_to_chat_id": -1005 } }),
        json!({ "update_id": 10, "message": { "message_id": 13, "chat": crew, "from": eden, "text": "/answer q1 yes" } }),
        json!({ "update_id": 11, "message": { "message_id": 14, "chat": crew, "from": eden, "text": "/start" } }),
    ]
}

#[test]
fn malformed_updates_never_stop_the_adapter() {
    let samples = samples();
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut adapter, mut name) = ready();
        let mut now_ms = 2_000;
        for _ in 0..random.usize(1..5) {
            let updates: Vec<Value> =
                (0..random.usize(0..6)).map(|_| samples[random.usize(0..samples.len())].clone()).collect();
            let mut body = json!({ "ok": true, "result": updates });
            for _ in 0..random.usize(1..4) {
                spoil(&mut body, &mut random);
            }
            let mut text = body.to_string();
            if random.u8(0..6) == 0 {
                let cut = text.char_indices().map(|(at, _)| at).nth(random.usize(0..text.len())).unwrap_or(0);
                text.truncate(cut);
            }
            now_ms += random.u64(0..100_000);
            let outputs = handle(&mut adapter, now_ms, vec![answer(&name, 200, text)]);
            assert!(outputs.len() <= OUTPUTS_MAX, "{} outputs for one input (seed {seed})", outputs.len());
            let next =
                poll(&outputs).or_else(|| poll(&handle(&mut adapter, now_ms, vec![Input::Timer("poll".into())])));
            name = next.unwrap_or_else(|| panic!("it goes on (seed {seed})"));
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
        let outbound = Outbound {
            id: "d1".into(),
            target: ["channel:-100123", "direct:7", "channel:-100123:thread:11"][random.usize(0..3)].into(),
            text: "word ".repeat(random.usize(1..2_000)),
            reply_to: ["", "7.10", "x.y.z", "-100123.5.6"][random.usize(0..4)].into(),
            edits: vec!["7.5".into(), "x".into()],
            question: random
                .bool()
                .then(|| Question { id: "q".repeat(random.usize(0..80)), choices: vec!["a".into()] }),
        };
        let mut outputs = handle(&mut adapter, 2_000, vec![Input::Deliver(outbound)]);
        for round in 0..12 {
            let mut one = |id: String| {
                let mut body = json!({ "ok": random.bool(), "result": { "message_id": 5 }, "error_code": 400, "description": "no",
                    "parameters": { "retry_after": 1, "migrate_to_chat_id": -5 } });
                spoil(&mut body, &mut random);
                answer(&id, [0, 200, 204, 400, 401, 403, 404, 409, 429, 500, 999][random.usize(0..11)], body)
            };
            let mut inputs: Vec<Input> = requests(&outputs).into_iter().map(&mut one).collect();
            inputs.extend(["call-99", "nonsense", "poll-x", "me-0", "-"].map(|id| one(id.to_owned())));
            inputs.push(Input::Timer("calls".into()));
            inputs.push(Input::Timer("poll".into()));
            outputs = handle(&mut adapter, 3_000 + round * 86_500_000, inputs);
        }
    }
}

#[test]
fn as_many_updates_as_were_asked_for_fit_into_one_answer() {
    let (mut adapter, name) = ready();
    let press = |n: i64| {
        json!({ "update_id": n, "callback_query": { "id": n.to_string(), "from": { "id": 7 }, "data": "choice:0:q1",
            "message": { "message_id": 50, "chat": { "id": -n, "type": "group" },
                "reply_markup": { "inline_keyboard": [[{ "text": "Yes", "callback_data": "choice:0:q1" }]] } } } })
    };
    let updates: Vec<Value> = (1..=100).map(press).collect();
    let outputs = handle(&mut adapter, 2_000, vec![answer(&name, 200, json!({ "ok": true, "result": updates }))]);
    assert!(outputs.len() <= OUTPUTS_MAX, "{} outputs", outputs.len());
    let taken = outputs.iter().filter(|output| matches!(output, Output::Inbound(_))).count();
    assert_eq!(taken, 32, "no more than were asked for");
}

#[test]
fn a_huge_message_is_taken_within_bounds() {
    let (mut adapter, name) = ready();
    let huge = json!({ "ok": true, "result": [{ "update_id": 1, "message": { "message_id": 1, "chat": { "id": 7, "type": "private" },
        "from": { "id": 7, "first_name": "x".repeat(1_000_000) }, "text": "y".repeat(5_000_000) } }] });
    let outputs = handle(&mut adapter, 2_000, vec![answer(&name, 200, huge)]);
    let taken = outputs.iter().find_map(|output| match output {
        Output::Inbound(inbound) => Some(inbound),
        _ => None,
    });
    let taken = taken.expect("a message");
    assert!(taken.text.len() <= 8_000 && taken.sender_name.len() <= 100);
    assert!(adapter.snapshot().bytes.len() < 20_000);
}

/// How often a look is asked on, whatever comes back, before the message is sent again or the host is told to ask again.
#[test]
fn malformed_answers_to_a_look_end_it() {
    let said = [
        "Bad Request: message to edit not found",
        "Bad Request: message can't be edited",
        "Bad Request: chat not found",
        "MESSAGE_NOT_MODIFIED",
        "",
    ];
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut adapter, name) = ready();
        let number = [10, 2_147_483_640, 9_000_000_000_000_000_000_i64][random.usize(0..3)];
        let heard = json!({ "ok": true, "result": [{ "update_id": 1, "message": { "message_id": number, "date": 1,
            "chat": { "id": 7, "type": "private" }, "from": { "id": 7 }, "text": "hi" } }] });
        let outbound = Outbound {
            id: "d1".into(),
            target: "direct:7".into(),
            text: "words".into(),
            reply_to: String::new(),
            edits: Vec::new(),
            question: random.bool().then(|| Question { id: "q".into(), choices: vec!["a".into()] }),
        };
        let inputs = vec![answer(&name, 200, heard), Input::Deliver(outbound.clone())];
        let mut outputs = handle(&mut adapter, 2_000, inputs);
        let (mut looks, mut now_ms) = (0, 3_000);
        while !outputs.iter().any(|output| matches!(output, Output::Delivered(_))) {
            let mut inputs = Vec::new();
            for output in &outputs {
                let Output::HttpRequest(request) = output else { continue };
                let shown = format!("{request:?}");
                looks += usize::from(shown.contains("editMessageReplyMarkup"));
                if shown.contains("sendMessage") {
                    // Of what makes a message no answer ever comes.
                    inputs.push(answer(&request.id, 0, ""));
                } else if shown.contains("editMessageReplyMarkup") {
                    let mut body = json!({ "ok": false, "error_code": 400, "description": said[random.usize(0..5)],
                        "result": { "message_id": 11, "text": "other words" }, "parameters": { "retry_after": 1 } });
                    (0..random.usize(0..3)).for_each(|_| spoil(&mut body, &mut random));
                    let status = [0, 200, 400, 400, 400, 400, 403, 429, 500][random.usize(0..9)];
                    inputs.push(answer(&request.id, status, body));
                }
            }
            // An answer of nothing is one of which it is not known whether it was sent.
            for input in &mut inputs {
                if let Input::HttpResponse(response) = input {
                    response.sent = true;
                }
            }
            inputs.push(Input::Timer("calls".into()));
            now_ms += 10_000;
            outputs = handle(&mut adapter, now_ms, inputs);
            assert!(looks < 1_000 && now_ms < 10_000_000_000, "{looks} looks (seed {seed})");
        }
        let state = adapter.snapshot();
        assert!(state.bytes.len() < 5_000, "the state is bounded (seed {seed})");
        adapter.restore(state).expect("what it wrote it can read");
    }
}
