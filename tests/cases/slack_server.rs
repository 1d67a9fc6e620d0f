//! The Slack of the tests refuses what Slack refuses: a client that misbehaves is told so in Slack's words.

use serde_json::{Value, json};
use support::slack::{APP_TOKEN, BOT_TOKEN, CHANNEL, PERSON, Said, Slack};
use support::{RawHttp, WebSocket, eventually};

/// One request; its status and its body.
fn ask(slack: &Slack, token: &str, method: &str, body: &Value) -> (u16, Value) {
    let (kind, body) = match body {
        Value::String(form) => ("application/x-www-form-urlencoded", form.clone()),
        body => ("application/json", body.to_string()),
    };
    let request = format!(
        "POST /api/{method} HTTP/1.1\r\nhost: slack\r\nconnection: close\r\nauthorization: Bearer {token}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = RawHttp::connect(slack.address()).send(request).read_to_end();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn check(method: &str, body: Value, word: &str) {
    let slack = Slack::start();
    let (_, answer) = ask(&slack, BOT_TOKEN, method, &body);
    assert_eq!(answer["error"].as_str().unwrap_or("ok"), word, "{method} {body}: {answer}");
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

#[test]
fn tokens_open_only_what_they_are_for() {
    let slack = Slack::start();
    let word = |token: &str, method: &str| ask(&slack, token, method, &json!({})).1["error"].clone();
    assert_eq!(word("", "auth.test"), "not_authed");
    assert_eq!(word("xoxb-other", "auth.test"), "invalid_auth");
    assert_eq!(word(APP_TOKEN, "auth.test"), "not_allowed_token_type");
    assert_eq!(word(BOT_TOKEN, "apps.connections.open"), "not_allowed_token_type");
    assert_eq!(word(BOT_TOKEN, "chat.nothing"), "unknown_method");
    assert_eq!(slack.counts().refused_tokens, 4);
}

#[test]
fn messages_are_refused_for_what_slack_refuses_them_for() {
    let to = |channel: &str, text: &str| json!({ "channel": channel, "text": text });
    check("chat.postMessage", to(CHANNEL, "hello"), "ok");
    check("chat.postMessage", to("C0NONE", "hello"), "channel_not_found");
    check("chat.postMessage", to(CHANNEL, " "), "no_text");
    check("chat.postMessage", to(CHANNEL, &"x".repeat(40_001)), "msg_too_long");
    let with = |name: &str, value: Value| {
        let mut body = to(CHANNEL, "x");
        body[name] = value;
        body
    };
    check("chat.postMessage", with("thread_ts", json!("1.000001")), "thread_not_found");
    check("chat.postMessage", with("metadata", json!({ "event_type": 7 })), "invalid_metadata_format");
    let section = |text: &str| json!([{ "type": "section", "text": { "type": "mrkdwn", "text": text } }]);
    check("chat.postMessage", with("blocks", section(&"x".repeat(3_001))), "invalid_blocks");
    let button = |label: &str| json!([{ "type": "actions", "elements": [{ "type": "button", "action_id": "a", "text": { "type": "plain_text", "text": label } }] }]);
    check("chat.postMessage", with("blocks", button("Yes")), "ok");
    check("chat.postMessage", with("blocks", button(&"x".repeat(76))), "invalid_blocks");
    check("chat.update", json!({ "channel": CHANNEL, "ts": "1.1", "text": "x" }), "message_not_found");
    check("chat.delete", json!({ "channel": CHANNEL, "ts": "1.1" }), "message_not_found");
    check("views.open", json!({ "trigger_id": "1", "view": {} }), "expired_trigger_id");
    check("users.info", json!("user=U0NONE"), "user_not_found");
    check("conversations.open", json!({ "users": PERSON }), "ok");
}

#[test]
fn a_ticket_is_good_once_and_an_envelope_comes_until_it_is_acknowledged() {
    let slack = Slack::start();
    slack.say(Said::direct("before anybody listens"));
    let url = ask(&slack, APP_TOKEN, "apps.connections.open", &json!({})).1["url"].clone();
    let path = url
        .as_str()
        .and_then(|url| url.split_once("/link"))
        .map(|(_, rest)| format!("/link{rest}"))
        .expect("an address");
    block_on(async {
        let connect = |path: String| async move {
            WebSocket::connect(slack_address(&url), &path, &[]).await.unwrap_or_else(|refused| panic!("{refused:?}"))
        };
        let mut socket = connect(path.clone()).await;
        assert_eq!(socket.next().await.expect("hello")["type"], "hello");
        let envelope = socket.next().await.expect("what nobody heard");
        assert_eq!(envelope["payload"]["event"]["text"], "before anybody listens");
        socket.send(&json!({ "envelope_id": envelope["envelope_id"] })).await;
        socket.send(&json!({ "envelope_id": envelope["envelope_id"] })).await;
        socket.send(&json!({ "envelope_id": "env-none" })).await;
    });
    eventually("it is acknowledged", || {
        (slack.unacknowledged() == 0 && slack.counts().wrongly_acknowledged == 2).then_some(())
    });
    block_on(async {
        let mut second =
            WebSocket::connect(slack.address(), &path, &[]).await.unwrap_or_else(|refused| panic!("{refused:?}"));
        assert_eq!(second.next().await, None, "the ticket was used");
    });
}

fn slack_address(url: &Value) -> std::net::SocketAddr {
    let rest = url.as_str().and_then(|url| url.strip_prefix("ws://")).expect("an address");
    rest.split('/').next().and_then(|address| address.parse().ok()).expect("an address")
}

#[test]
fn what_was_said_is_found_by_its_note_and_what_is_too_much_waits() {
    let slack = Slack::start();
    slack.limit(1);
    let note = json!({ "event_type": "x", "event_payload": { "key": "k1" } });
    let body = json!({ "channel": CHANNEL, "text": "hello", "metadata": note });
    let sent = ask(&slack, BOT_TOKEN, "chat.postMessage", &body).1;
    assert_eq!(ask(&slack, BOT_TOKEN, "chat.postMessage", &body).0, 429);
    let look = format!("channel={CHANNEL}&oldest=0.000000&limit=200&include_all_metadata=true");
    let found = ask(&slack, BOT_TOKEN, "conversations.history", &json!(look)).1;
    assert_eq!(found["messages"][0]["metadata"]["event_payload"]["key"], "k1");
    assert_eq!(found["messages"][0]["ts"], sent["ts"]);
    let late = format!("channel={CHANNEL}&oldest=99999999999.000000");
    assert_eq!(ask(&slack, BOT_TOKEN, "conversations.history", &json!(late)).1["messages"], json!([]));
}
