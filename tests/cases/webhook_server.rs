//! The program of the tests is as careful as a receiver should be: it takes what is signed, once, and refuses the rest.

use serde_json::{Value, json};
use support::RawHttp;
use support::webhook::{KEY, Program, sign};

const NOW: u64 = 1_800_000_000_000;

/// One post to the program; its status, none when the connection broke before there was one.
fn post(program: &Program, body: &Value, signature: &str) -> Option<u16> {
    let body = body.to_string();
    let request = format!(
        "POST /in HTTP/1.1\r\nhost: program\r\nconnection: close\r\nx-chela-signature: {signature}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = RawHttp::connect(program.address()).send(request).read_to_end();
    answer.split_whitespace().nth(1).and_then(|status| status.parse().ok())
}

fn signed(key: &str, body: &Value) -> String {
    format!("sha256={}", sign(key, body.to_string().as_bytes()))
}

#[test]
fn only_what_is_signed_with_the_key_is_taken() {
    let program = Program::start();
    program.goes_by(|| NOW);
    let body = json!({ "at": NOW, "id": "1", "part": 0, "text": "hello" });
    assert_eq!(post(&program, &body, ""), Some(401));
    assert_eq!(post(&program, &body, &signed("another key", &body)), Some(401));
    assert_eq!(post(&program, &json!({ "id": "2" }), &signed(KEY, &body)), Some(401), "of another body");
    assert_eq!((program.messages().len(), program.unsigned()), (0, 3));
    assert_eq!(post(&program, &body, &signed(KEY, &body)), Some(200));
    assert_eq!(program.messages(), [body]);
}

#[test]
fn what_comes_again_is_taken_once_and_faults_come_as_they_were_wished_for() {
    let program = Program::start();
    program.goes_by(|| NOW);
    let body = json!({ "at": NOW, "id": "1", "part": 0, "text": "hello" });
    let send = |body: &Value| post(&program, body, &signed(KEY, body));
    program.fail_next(1, 503, Some(2));
    assert_eq!(send(&body), Some(503));
    program.lose_next_answers(1);
    assert_eq!(send(&body), None, "taken, and nobody hears of it");
    assert_eq!(send(&body), Some(200));
    assert_eq!((program.messages().len(), program.repeated(), program.needless()), (1, 1, 0));
    assert_eq!(send(&json!({ "at": NOW, "id": "1", "part": 1, "text": "more" })), Some(200));
    assert_eq!(program.messages().len(), 2);
    assert_eq!(send(&body), Some(200));
    assert_eq!((program.messages().len(), program.repeated(), program.needless()), (2, 2, 1), "for no reason");
}

#[test]
fn what_is_signed_at_another_time_is_not_taken() {
    let program = Program::start();
    program.goes_by(|| NOW);
    for at in [json!(null), json!(NOW - 300_001), json!(NOW + 300_001), json!("now")] {
        let body = json!({ "at": at, "id": "1", "part": 0, "text": "hello" });
        assert_eq!(post(&program, &body, &signed(KEY, &body)), Some(403), "{at}");
    }
    let body = json!({ "at": NOW - 300_000, "id": "1", "part": 0, "text": "hello" });
    assert_eq!(post(&program, &body, &signed(KEY, &body)), Some(200));
    assert_eq!((program.messages().len(), program.stale()), (1, 4));
}
