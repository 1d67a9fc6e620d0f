//! The program of the tests is as careful as a receiver should be: it takes what is signed, once, and refuses the rest.

use serde_json::{Value, json};
use support::RawHttp;
use support::webhook::{KEY, Program, sign};

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
    let body = json!({ "id": "1", "part": 0, "text": "hello" });
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
    let body = json!({ "id": "1", "part": 0, "text": "hello" });
    let send = |body: &Value| post(&program, body, &signed(KEY, body));
    program.fail_next(1, 503, Some(2));
    assert_eq!(send(&body), Some(503));
    program.lose_next_answers(1);
    assert_eq!(send(&body), None, "taken, and nobody hears of it");
    assert_eq!(send(&body), Some(200));
    assert_eq!((program.messages().len(), program.repeated()), (1, 1));
    assert_eq!(send(&json!({ "id": "1", "part": 1, "text": "more" })), Some(200));
    assert_eq!(program.messages().len(), 2);
}
