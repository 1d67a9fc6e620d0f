//! The protocol over a real WebSocket: who comes in, what is refused and how, and that nobody harms another.

use std::time::Duration;

use chela::client::{Error, Frame, Socket};
use chela::port::Port;
use serde_json::{Value, json};
use support::{RawHttp, Talk, TestHost, WebSocket};

fn connect_params(token: &str) -> Value {
    json!({
        "minProtocol": 4, "maxProtocol": 4, "auth": { "token": token },
        "client": { "id": "cli", "version": "1", "platform": "linux", "mode": "cli" },
    })
}

fn dial(host: &TestHost) -> Socket {
    let mut socket = host.block_on(host.client(Port::Gateway).dial()).expect("a socket");
    let challenge = host.block_on(socket.next()).expect("a frame");
    assert!(matches!(&challenge, Frame::Told { name, payload, seq: None }
        if name == "connect.challenge" && payload["nonce"].is_string() && payload["ts"].is_u64()));
    socket
}

/// What comes until the end: the messages of refusals, then how it was closed.
fn rest(host: &TestHost, socket: &mut Socket) -> (Vec<String>, Option<u16>, String) {
    let mut said = Vec::new();
    loop {
        match host.block_on(socket.next()).expect("a frame") {
            Frame::Answer { outcome, .. } => said.push(outcome.expect_err("refused").message),
            Frame::Told { .. } => {}
            Frame::End { code, reason } => return (said, code, reason),
        }
    }
}

#[test]
fn the_first_frame_decides_and_every_failure_ends_as_documented() {
    let host = TestHost::start();
    let check = |first: String, said: &str, code: u16, reason: &str| {
        let mut socket = dial(&host);
        host.block_on(socket.send_text(first)).expect("sent");
        let (heard, closed, why) = rest(&host, &mut socket);
        match said {
            "" => assert!(heard.is_empty(), "{heard:?}"),
            said => assert!(heard[0].starts_with(said), "{heard:?}"),
        }
        assert_eq!(closed, Some(code), "{why}");
        assert!(why.starts_with(reason), "{why}");
    };
    let request = |method: &str, params: Value| {
        json!({ "type": "req", "id": "1", "method": method, "params": params }).to_string()
    };
    check("no json".into(), "", 1000, "");
    check("[]".into(), "", 1008, "invalid request frame");
    check(json!({ "type": "req", "method": "connect" }).to_string(), "", 1008, "invalid request frame");
    check(request("health", json!({})), "invalid handshake: first request must be connect", 1008, "invalid handshake");
    check(
        request("connect", connect_params("a wrong token!!!")),
        "unauthorized: gateway token mismatch",
        1008,
        "unauthorized",
    );
    check(request("connect", json!({ "x": 1 })), "invalid connect params", 1008, "invalid connect params");
    let mut old = connect_params(&host.token);
    old["maxProtocol"] = json!(3);
    old["minProtocol"] = json!(1);
    check(request("connect", old), "protocol mismatch", 1002, "protocol mismatch");
    check(format!("\"{}\"", "x".repeat(70_000)), "", 1009, "more than 65536 bytes");
    assert_eq!(host.connect().request("health", json!({})).expect("others are served")["ok"], true);
}

#[test]
fn whoever_does_not_say_who_it_is_is_let_go() {
    let host = TestHost::start();
    let mut socket = dial(&host);
    // The wait begins once the challenge was sent.
    let (said, code, reason) = {
        let host = &host;
        let ended = host.spawn(async move {
            loop {
                if let Ok(Frame::End { code, reason }) = socket.next().await {
                    return (Vec::<String>::new(), code, reason);
                }
            }
        });
        host.eventually("the time is up", || ended.is_finished().then_some(()));
        host.block_on(ended).expect("ended")
    };
    assert_eq!((said.len(), code, reason.as_str()), (0, Some(1008), "handshake timeout"));
}

#[test]
fn a_hello_tells_what_there_is_and_requests_are_answered_by_their_id() {
    let host = TestHost::start();
    let mut talk = host.connect();
    let hello = talk.socket.hello.clone();
    assert_eq!((&hello["type"], &hello["protocol"]), (&json!("hello-ok"), &json!(4)));
    assert_eq!(hello["snapshot"]["sessionDefaults"]["mainSessionKey"], "agent:ruda:main");
    let methods = hello["features"]["methods"].as_array().expect("a list");
    for method in ["health", "agent", "chat.send", "sessions.list", "config.patch", "events.subscribe"] {
        assert!(methods.contains(&json!(method)), "{method}");
    }
    let (one, two) = (talk.send("health", json!({})), talk.send("agents.list", json!({})));
    assert_eq!(talk.answer(&two).expect("answered")["defaultId"], "ruda");
    assert_eq!(talk.answer(&one).expect("answered")["ok"], true);
}

#[test]
fn bad_requests_are_refused_by_name_and_the_connection_stays() {
    let host = TestHost::start();
    let mut talk = host.connect();
    let check = |talk: &mut support::Talk<'_>, method: &str, params: Value, expected: &str| match talk
        .request(method, params)
    {
        Err(Error::Refused(error)) => assert!(error.message.contains(expected), "{}", error.message),
        other => panic!("{other:?}"),
    };
    check(&mut talk, "no.such", json!({}), "unknown method: no.such");
    check(&mut talk, "health", json!({ "bogus": 1 }), "invalid health params");
    check(&mut talk, "chat.send", json!({ "sessionKey": "main" }), "invalid chat.send params");
    check(&mut talk, "connect", json!({}), "connected already");
    check(
        &mut talk,
        "chat.send",
        json!({ "sessionKey": "agent:ruda:", "message": "x", "idempotencyKey": "k" }),
        "is not a session key",
    );
    check(
        &mut talk,
        "agent",
        json!({ "agentId": "nobody", "message": "x", "idempotencyKey": "k" }),
        "unknown agent id",
    );
    check(&mut talk, "agent", json!({ "message": "x", "idempotencyKey": "" }), "a key has 1 to 200 bytes");
    host.block_on(talk.socket.send_text(r#"{"type":"req","id":"9","method":7}"#.into())).expect("sent");
    assert!(
        matches!(talk.answer("9"), Err(Error::Refused(error)) if error.message.starts_with("invalid request frame"))
    );
    assert_eq!(talk.request("health", json!({})).expect("still served")["ok"], true);
}

#[test]
fn scopes_of_a_connection_are_those_it_asked_for() {
    let host = TestHost::start();
    let mut socket = dial(&host);
    let mut params = connect_params(&host.token);
    params["scopes"] = json!(["operator.read"]);
    host.block_on(socket.request("connect", params)).expect("comes in");
    let refused = host.block_on(socket.request("config.reload", json!({})));
    let Err(Error::Refused(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.message, "missing scope: operator.admin");
    assert_eq!(error.details.expect("details")["missingScope"], "operator.admin");
    assert!(host.block_on(socket.request("agents.list", json!({}))).is_ok());
}

#[test]
fn pages_of_other_sites_and_other_names_do_not_get_a_socket() {
    let host = TestHost::start();
    let address = host.address(Port::Gateway);
    for (headers, status) in [([("origin", "https://evil.example")], 403), ([("host", "evil.example")], 421)] {
        let refused = host.block_on(WebSocket::connect(address, "/", &headers));
        assert_eq!(refused.err().map(|refused| refused.status), Some(status), "{headers:?}");
    }
    assert!(host.block_on(WebSocket::connect(address, "/any/path", &[])).is_ok(), "at any path");
    let plain =
        RawHttp::connect(address).send("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n").read_to_end();
    assert!(plain.starts_with("HTTP/1.1 400") && plain.contains("speaks WebSocket"), "{plain}");
}

/// The next frame, while time passes.
fn frame_in_time(host: &TestHost, talk: &mut Talk<'_>) -> Frame {
    host.block_on(async {
        let next = talk.socket.next();
        tokio::pin!(next);
        loop {
            tokio::select! {
                frame = &mut next => return frame.expect("a frame"),
                () = tokio::time::sleep(Duration::from_millis(20)) => host.clock.advance(Duration::from_secs(1)),
            }
        }
    })
}

#[test]
fn ticks_come_numbered_and_silence_ends_a_connection() {
    let host = TestHost::start();
    let mut talk = host.connect();
    let mut silent = host.block_on(WebSocket::connect(host.address(Port::Gateway), "/", &[])).expect("a socket");
    host.block_on(silent.next()).expect("the challenge");
    host.block_on(
        silent.send(&json!({ "type": "req", "id": "1", "method": "connect", "params": connect_params(&host.token) })),
    );
    host.block_on(silent.next()).expect("the hello");
    let mut last = None;
    for _ in 0..2 {
        match frame_in_time(&host, &mut talk) {
            Frame::Told { seq, .. } => {
                assert_eq!(seq, Some(last.map_or(1, |last: u64| last + 1)), "no gap and no repetition");
                last = seq;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_flood_is_slowed_down_and_harms_nobody_else() {
    let host = TestHost::start_with(|config| {
        config["limits"]["requestsPerSecond"] = json!(50);
        config["limits"]["requestsBurst"] = json!(50);
    });
    let mut talk = host.connect();
    let ids: Vec<String> = (0..80).map(|_| talk.send("health", json!({}))).collect();
    let mut refused = 0;
    for id in ids {
        let (socket, clock) = (&mut talk.socket, host.clock.clone());
        let answer = host.block_on(async {
            let answer = socket.answer(&id);
            tokio::pin!(answer);
            loop {
                tokio::select! {
                    answer = &mut answer => break answer,
                    // So slowly that nobody waits out what is too much, however long the frames are on their way.
                    () = tokio::time::sleep(Duration::from_millis(5)) => clock.advance(Duration::from_millis(2)),
                }
            }
        });
        match answer {
            Ok(answer) => assert_eq!(answer["ok"], true),
            Err(Error::Refused(error)) => {
                assert!(error.message.starts_with("rate limit exceeded for health"), "{}", error.message);
                assert!(error.retry_after_ms.is_some_and(|ms| ms > 0));
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
}

#[test]
fn frames_past_the_limit_end_the_connection_and_a_stop_says_goodbye() {
    let host = TestHost::start_with(|config| config["limits"]["frameBytes"] = json!(65_536));
    let mut talk = host.connect();
    let params = json!({ "sessionKey": "main", "message": "x".repeat(80_000), "idempotencyKey": "k" });
    host.block_on(talk.socket.send("chat.send", params)).ok();
    let (_, code, _) = rest(&host, &mut talk.socket);
    assert_eq!(code, Some(1009));
    let client = host.client(Port::Gateway);
    let mut socket = host.block_on(client.open()).expect("connected");
    let heard = host.spawn(async move {
        let mut heard = Vec::new();
        while let Ok(frame) = socket.next().await {
            match frame {
                Frame::Told { name, .. } => heard.push(name),
                Frame::End { code, .. } => return (heard, code),
                Frame::Answer { .. } => {}
            }
        }
        (heard, None)
    });
    let seen = std::sync::Arc::new(std::sync::Mutex::new(None));
    let told = seen.clone();
    host.spawn(async move { *told.lock().expect("unpoisoned") = heard.await.ok() });
    drop(talk);
    host.stop();
    let (heard, code) = seen.lock().expect("unpoisoned").take().expect("it heard the end");
    assert!(heard.contains(&"shutdown".to_owned()), "{heard:?}");
    assert_eq!(code, Some(1012));
}

#[test]
fn the_event_log_is_followed_by_types() {
    let host = TestHost::start();
    let mut talk = host.connect();
    talk.request("events.subscribe", json!({ "types": ["task."] })).expect("subscribed");
    host.begin("eden", &["write it down"]);
    let heard = talk.until(|name, _| name == "log.event");
    let event = &heard.last().expect("an event").1["event"];
    assert_eq!((&event["type"], &event["agentId"]), (&json!("task.started"), &json!("eden")));
    assert!(host.call("events.subscribe", json!({ "types": [] })).is_err(), "needs a connection that stays");
}

#[test]
fn presence_and_logs_are_told_and_the_wire_s_own_task_rows_too() {
    let host = TestHost::start();
    let mut talk = host.connect();
    let present = talk.request("system-presence", json!({})).expect("a list");
    assert_eq!(present[0]["mode"], "cli");
    let tail = talk.request("logs.tail", json!({ "limit": 5 })).expect("lines");
    assert!(tail["lines"].is_array() && tail["cursor"].is_u64());
    host.begin("eden", &["write it down"]);
    let listed = talk.request("tasks.list", json!({ "agentId": "eden" })).expect("tasks");
    assert_eq!(listed["tasks"][0]["status"], "running");
    let id = listed["tasks"][0]["id"].as_str().expect("an id").to_owned();
    let cancelled = talk.request("tasks.cancel", json!({ "taskId": id, "reason": "no" })).expect("cancelled");
    assert_eq!((&cancelled["cancelled"], &cancelled["task"]["status"]), (&json!(true), &json!("cancelled")));
}

#[test]
fn of_many_clients_everybody_is_told_of_the_latest_and_who_asks_sees_more() {
    let host = TestHost::start();
    let mut held: Vec<_> = (0..25).map(|_| host.connect()).collect();
    let count = |list: &Value| list.as_array().map(Vec::len);
    host.eventually("all are seen by who asks", || {
        (count(&held[0].request("system-presence", json!({})).expect("a list")) == Some(25)).then_some(())
    });
    let mut late = dial(&host);
    let hello = host.block_on(late.request("connect", connect_params(&host.token))).expect("comes in");
    assert_eq!(count(&hello["snapshot"]["presence"]), Some(20));
}

#[test]
fn a_connection_ends_with_its_token() {
    let eye = "fedcba9876543210";
    let host = TestHost::start_with(|config| {
        config["gateway"]["auth"]["tokens"] = json!({ "eye": { "token": eye, "scope": "operator.read" } });
    });
    let mut watching = dial(&host);
    host.block_on(watching.request("connect", connect_params(eye))).expect("comes in");
    let mut owner = host.connect();
    let bearer = format!("Bearer {eye}");
    let address = host.address(Port::Monitor);
    let mut following =
        host.block_on(WebSocket::connect(address, "/ws", &[("authorization", &bearer)])).expect("a follower");
    host.dir.edit_config(|config| config["gateway"]["auth"]["tokens"] = json!({}));
    host.call("config.reload", json!({})).expect("read");
    let (said, code, why) = rest(&host, &mut watching);
    assert_eq!((said.len(), code), (0, Some(1008)), "{why}");
    assert!(why.contains("the token of this connection"), "{why}");
    assert!(owner.request("health", json!({})).is_ok(), "others stay");
    while host.block_on(following.next()).is_some() {}
    assert!(
        following.closed().is_some_and(|why| why.contains("the token of this follower")),
        "{:?}",
        following.closed()
    );
}
