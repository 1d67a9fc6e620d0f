//! The Discord of the tests refuses what Discord refuses: a client that misbehaves is told so in Discord's words.

use std::time::Duration;

use serde_json::{Value, json};
use support::discord::{APPLICATION, BOT, CHANNEL, Discord, OTHER_CHANNEL, PERSON, Said, Setup, TOKEN};
use support::{RawHttp, WebSocket, eventually};

const GATEWAY: &str = "/?v=10&encoding=json";
/// Guilds, messages, direct messages, and the words of messages.
const INTENTS: u64 = 1 | 1 << 9 | 1 << 12 | 1 << 15;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

fn identify(token: &str, intents: Value) -> Value {
    json!({ "op": 2, "d": { "token": token, "intents": intents, "properties": { "os": "linux" } } })
}

/// A server whose limits a test does not meet by chance.
fn server() -> Discord {
    Discord::with(Setup { messages: (1_000, Duration::from_secs(1)), global_a_second: 10_000, ..Setup::default() })
}

async fn connect(discord: &Discord, path: &str) -> WebSocket {
    WebSocket::connect(discord.address(), path, &[]).await.unwrap_or_else(|refused| panic!("{refused:?}"))
}

/// A client that is ready, and what it was told of its session.
async fn ready(discord: &Discord) -> (WebSocket, Value) {
    let mut socket = connect(discord, GATEWAY).await;
    assert_eq!(socket.next().await.expect("hello")["op"], 10);
    socket.send(&identify(TOKEN, json!(INTENTS))).await;
    let ready = socket.next().await.expect("ready");
    assert_eq!(ready["t"], "READY");
    assert_eq!(socket.next().await.expect("the server")["t"], "GUILD_CREATE");
    (socket, ready["d"].clone())
}

/// Sends frames after the hello; the code that the connection is closed with.
fn check_closed(path: &str, setup: Setup, frames: &[Value], code: u16) {
    let discord = Discord::with(setup);
    block_on(async {
        let mut socket = connect(&discord, path).await;
        for frame in frames {
            socket.send(frame).await;
        }
        while socket.next().await.is_some() {}
    });
    eventually("the close is counted", || (!discord.counts().closed.is_empty()).then_some(()));
    assert_eq!(discord.counts().closed, [code], "{frames:?}");
}

#[test]
fn the_gateway_closes_for_what_discord_closes_for() {
    let check = |frames: &[Value], code| check_closed(GATEWAY, Setup::default(), frames, code);
    check(&[identify("wrong", json!(INTENTS))], 4_004);
    check(&[identify(TOKEN, Value::Null)], 4_013);
    check(&[identify(TOKEN, json!(1_u64 << 40))], 4_013);
    check(&[identify(TOKEN, json!(1 | 1 << 1))], 4_014);
    check(&[json!({ "op": 2, "d": { "token": TOKEN, "intents": 1 } })], 4_002);
    check(&[json!({ "op": 3, "d": {} })], 4_003);
    check(&[json!({ "op": 99 })], 4_001);
    check(&[json!("x".repeat(5_000))], 4_002);
    check(&[identify(TOKEN, json!(1)), identify(TOKEN, json!(1))], 4_005);
    check(&vec![json!({ "op": 1, "d": null }); 121], 4_008);
    check(&[json!({ "op": 1, "d": "three" })], 4_002);
    let without = Setup { message_content: false, ..Setup::default() };
    check_closed(GATEWAY, without, &[identify(TOKEN, json!(INTENTS))], 4_014);
    check_closed("/?v=9&encoding=json", Setup::default(), &[], 4_012);
}

#[test]
fn a_heartbeat_that_is_late_ends_the_connection() {
    let quick = Setup { heartbeat: Duration::from_millis(200), ..Setup::default() };
    check_closed(GATEWAY, quick, &[identify(TOKEN, json!(INTENTS))], 4_009);
}

#[test]
fn a_second_identify_within_five_seconds_is_an_invalid_session() {
    // Of a longer time than Discord's: what lies between the two may take a busy machine a while.
    let discord = Discord::with(Setup { identify_every: Duration::from_secs(3_600), ..Setup::default() });
    block_on(async {
        let (_first, _) = ready(&discord).await;
        let mut second = connect(&discord, GATEWAY).await;
        second.next().await.expect("hello");
        second.send(&identify(TOKEN, json!(INTENTS))).await;
        assert_eq!(second.next().await.expect("an answer"), json!({ "op": 9, "d": false, "s": null, "t": null }));
    });
    assert_eq!(discord.counts().identifies, 2);
}

#[test]
fn a_session_is_resumed_with_what_was_missed_and_only_with_its_own_words() {
    let discord = server();
    block_on(async {
        let (first, session) = ready(&discord).await;
        drop(first);
        eventually("the connection is gone", || (discord.connected() == 0).then_some(()));
        discord.say(Said::to_bot("missed"));
        let mut second = connect(&discord, GATEWAY).await;
        second.next().await.expect("hello");
        let resume = |id: &Value, seq: u64| json!({ "op": 6, "d": { "token": TOKEN, "session_id": id, "seq": seq } });
        second.send(&resume(&session["session_id"], 2)).await;
        let missed = second.next().await.expect("what was missed");
        assert_eq!((missed["t"].as_str(), missed["s"].as_u64()), (Some("MESSAGE_CREATE"), Some(3)));
        assert_eq!(second.next().await.expect("the end of it")["t"], "RESUMED");
        for (id, seq, answer) in [(json!("session-0"), 1, json!(9)), (session["session_id"].clone(), 99, Value::Null)] {
            let mut bad = connect(&discord, GATEWAY).await;
            bad.next().await.expect("hello");
            bad.send(&resume(&id, seq)).await;
            // A number that was never given closes the connection (4007).
            assert_eq!(bad.next().await.map_or(Value::Null, |frame| frame["op"].clone()), answer);
        }
    });
    let counts = discord.counts();
    assert_eq!((counts.identifies, counts.resumes, counts.resumed), (1, 3, 1));
    eventually("the close is counted", || (discord.counts().closed == [4_007]).then_some(()));
}

#[test]
fn events_come_twice_or_in_the_wrong_order_when_a_test_wants_it() {
    let discord = server();
    block_on(async {
        let (mut socket, _) = ready(&discord).await;
        discord.double_next(1);
        discord.say(Said::here("one"));
        discord.swap_next();
        discord.say(Said::here("two"));
        discord.say(Said::here("three"));
        let mut seen = Vec::new();
        for _ in 0..4 {
            let frame = socket.next().await.expect("an event");
            seen.push((frame["s"].as_u64().expect("a number"), frame["d"]["content"].clone()));
        }
        let expected = [(3, "one"), (3, "one"), (5, "three"), (4, "two")];
        assert_eq!(seen, expected.map(|(seq, text)| (seq, json!(text))));
        discord.ask_to_reconnect();
        assert_eq!(socket.next().await.expect("a frame")["op"], 7);
    });
}

/// One request; its status, its headers in lower case, and its body.
fn ask(discord: &Discord, method: &str, path: &str, headers: &str, body: &Value) -> (u16, String, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let kind = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
    let length = body.len();
    let request = format!(
        "{method} /api/v10{path} HTTP/1.1\r\nhost: discord\r\nconnection: close\r\n{headers}{kind}content-length: {length}\r\n\r\n{body}"
    );
    let answer = RawHttp::connect(discord.address()).send(request).read_to_end();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status");
    (status, head.to_ascii_lowercase(), serde_json::from_str(body).unwrap_or(Value::Null))
}

fn bot() -> String {
    format!("authorization: Bot {TOKEN}\r\nuser-agent: DiscordBot (test, 1)\r\n")
}

fn check(discord: &Discord, method: &str, path: &str, body: Value, status: u16, code: u64) {
    let (got, _, answer) = ask(discord, method, path, &bot(), &body);
    assert_eq!((got, answer["code"].as_u64().unwrap_or(0)), (status, code), "{method} {path} {body}: {answer}");
}

#[test]
fn requests_are_refused_with_discords_codes() {
    let discord = server();
    let messages = format!("/channels/{CHANNEL}/messages");
    let wrong = "authorization: Bot wrong\r\nuser-agent: DiscordBot (test, 1)\r\n";
    assert_eq!(ask(&discord, "POST", &messages, wrong, &json!({ "content": "x" })).0, 401);
    let nameless = format!("authorization: Bot {TOKEN}\r\n");
    assert_eq!(ask(&discord, "POST", &messages, &nameless, &json!({ "content": "x" })).0, 403);
    check(&discord, "POST", &messages, json!({ "content": "hello" }), 200, 0);
    check(&discord, "POST", &messages, json!({ "content": " " }), 400, 50_006);
    check(&discord, "POST", &messages, json!({}), 400, 50_006);
    check(&discord, "POST", &messages, json!({ "content": "한".repeat(2_000) }), 200, 0);
    check(&discord, "POST", &messages, json!({ "content": "x".repeat(2_001) }), 400, 50_035);
    check(&discord, "POST", &messages, json!({ "content": "x", "nonce": "n".repeat(26) }), 400, 50_035);
    let unknown = json!({ "content": "x", "message_reference": { "message_id": "5" } });
    check(&discord, "POST", &messages, unknown, 400, 50_035);
    let label =
        json!([{ "type": 1, "components": [{ "type": 2, "style": 1, "label": "x".repeat(81), "custom_id": "a" }] }]);
    check(&discord, "POST", &messages, json!({ "content": "x", "components": label }), 400, 50_035);
    check(&discord, "POST", "/channels/4/messages", json!({ "content": "x" }), 404, 10_003);
    check(&discord, "PATCH", &format!("{messages}/4"), json!({ "content": "x" }), 404, 10_008);
    let theirs = discord.say(Said::here("mine"));
    check(&discord, "PATCH", &format!("{messages}/{theirs}"), json!({ "content": "x" }), 403, 50_005);
    check(&discord, "GET", "/nothing", Value::Null, 404, 0);
    check(&discord, "POST", "/interactions/5/token/callback", json!({ "type": 5 }), 404, 10_062);
    check(&discord, "POST", "/users/@me/channels", json!({ "recipient_id": "4" }), 400, 50_033);
    discord.fail_next(1, 502);
    check(&discord, "POST", &messages, json!({ "content": "x" }), 502, 0);
}

#[test]
fn a_nonce_makes_one_message() {
    let discord = server();
    let path = format!("/channels/{CHANNEL}/messages");
    let body = json!({ "content": "once", "nonce": "n-1", "enforce_nonce": true });
    let (_, _, first) = ask(&discord, "POST", &path, &bot(), &body);
    let (_, _, second) = ask(&discord, "POST", &path, &bot(), &body);
    assert_eq!(first["id"], second["id"]);
    assert_eq!(discord.sent().len(), 1);
    assert_eq!(discord.counts().by_nonce["n-1"], 2);
    ask(&discord, "POST", &path, &bot(), &json!({ "content": "again", "nonce": "n-1" }));
    assert_eq!(discord.sent().len(), 2, "a nonce that is not enforced only names");
}

#[test]
fn a_nonce_is_forgotten_after_a_while() {
    let discord = Discord::with(Setup { nonces_for: Duration::ZERO, ..Setup::default() });
    let path = format!("/channels/{CHANNEL}/messages");
    let body = json!({ "content": "once", "nonce": "n-1", "enforce_nonce": true });
    let (_, _, first) = ask(&discord, "POST", &path, &bot(), &body);
    let (_, _, second) = ask(&discord, "POST", &path, &bot(), &body);
    assert_ne!(first["id"], second["id"]);
    assert_eq!((discord.sent().len(), discord.counts().by_nonce["n-1"]), (2, 2));
}

#[test]
fn limits_are_told_in_headers_before_and_by_a_refusal_after() {
    let discord = Discord::with(Setup { messages: (2, Duration::from_secs(3_600)), ..Setup::default() });
    let path = format!("/channels/{CHANNEL}/messages");
    let send = |path: &str| ask(&discord, "POST", path, &bot(), &json!({ "content": "x" }));
    let (_, head, _) = send(&path);
    assert!(head.contains("x-ratelimit-limit: 2\r\n") && head.contains("x-ratelimit-remaining: 1\r\n"), "{head}");
    assert!(send(&path).1.contains("x-ratelimit-remaining: 0\r\n"));
    let (status, head, body) = send(&path);
    assert_eq!((status, body["global"].as_bool()), (429, Some(false)));
    let after = body["retry_after"].as_f64().filter(|after| *after > 3_000.0);
    let whole = format!("retry-after: {:.0}\r\n", after.unwrap_or_else(|| panic!("{body}")).ceil());
    assert!(head.contains(&whole) && head.contains("x-ratelimit-scope: user\r\n"), "{head}");
    assert_eq!(send(&format!("/channels/{OTHER_CHANNEL}/messages")).0, 200, "another channel has a bucket of its own");
    let all = Discord::with(Setup { global_a_second: 1, ..Setup::default() });
    let again = || ask(&all, "GET", &format!("/channels/{CHANNEL}"), &bot(), &Value::Null);
    let refused = eventually("one is too much", || Some(again()).filter(|(status, ..)| *status == 429));
    assert_eq!(refused.2["global"], true);
    assert!(refused.1.contains("x-ratelimit-global: true\r\n") && refused.1.contains("x-ratelimit-scope: global\r\n"));
    assert!(discord.counts().limited == 1 && all.counts().limited > 0);
}

#[test]
fn an_interaction_is_acknowledged_once_and_in_time() {
    let discord = server();
    block_on(async {
        let (mut socket, _) = ready(&discord).await;
        let id = discord.command("ask", &[("text", "hi")]);
        let event = socket.next().await.expect("an event");
        assert_eq!((&event["t"], &event["d"]["id"]), (&json!("INTERACTION_CREATE"), &json!(id.to_string())));
        let token = event["d"]["token"].as_str().expect("a token").to_owned();
        let callback = format!("/interactions/{id}/{token}/callback");
        let original = format!("/webhooks/{APPLICATION}/{token}/messages/@original");
        check(&discord, "PATCH", &original, json!({ "content": "too soon" }), 404, 10_015);
        check(&discord, "POST", &callback, json!({ "type": 99 }), 400, 50_035);
        check(&discord, "POST", &callback, json!({ "type": 5 }), 204, 0);
        check(&discord, "POST", &callback, json!({ "type": 5 }), 400, 40_060);
        check(&discord, "PATCH", &original, json!({ "content": "here" }), 200, 0);
        discord.age(id, Duration::from_secs(16 * 60));
        check(&discord, "PATCH", &original, json!({ "content": "much later" }), 404, 10_015);
        let acted = discord.acted(id);
        assert_eq!(acted.callback, Some(json!({ "type": 5 })));
        assert_eq!(acted.original, Some(json!({ "content": "here" })));
        let late = discord.command("ask", &[("text", "later")]);
        let token = socket.next().await.expect("an event")["d"]["token"].as_str().expect("a token").to_owned();
        discord.age(late, Duration::from_secs(4));
        check(&discord, "POST", &format!("/interactions/{late}/{token}/callback"), json!({ "type": 5 }), 404, 10_062);
    });
}

#[test]
fn messages_of_people_are_veiled_without_the_privilege() {
    let discord = Discord::with(Setup { message_content: false, ..Setup::default() });
    block_on(async {
        let mut socket = connect(&discord, GATEWAY).await;
        socket.next().await.expect("hello");
        socket.send(&identify(TOKEN, json!(INTENTS & !(1 << 15)))).await;
        socket.next().await.expect("ready");
        socket.next().await.expect("the server");
        discord.say(Said::here("a secret"));
        discord.say(Said::to_bot("hello"));
        discord.say(Said::direct("hello"));
        let mut contents = Vec::new();
        for _ in 0..3 {
            contents.push(socket.next().await.expect("a message")["d"]["content"].clone());
        }
        assert_eq!(contents, [json!(""), json!(format!("<@{BOT}> hello")), json!("hello")]);
        let person = json!({ "id": PERSON.to_string(), "username": "x", "bot": true });
        discord.say(Said::here("beep").by(person));
        assert_eq!(socket.next().await.expect("a message")["d"]["author"]["bot"], true);
    });
}
