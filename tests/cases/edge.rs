//! The door: who comes in, how much they may ask, and what they are told when they may not.

use std::time::Duration;

use chela::client::Client;
use chela::port::Port;
use serde_json::{Value, json};
use support::{RawHttp, TestHost};

const READ: &str = "a-token-that-may-read";

#[test]
fn a_name_or_a_page_that_is_not_ours_is_refused_even_with_the_token() {
    let host = TestHost::start_with(|config| {
        config["gateway"]["allowedHosts"] = json!(["chela.example"]);
        config["gateway"]["allowedOrigins"] = json!(["https://page.example"]);
    });
    let own = format!("http://{}", host.address(Port::Gateway));
    let check = |headers: &[(&str, &str)], expected: (u16, &str)| {
        let answer = host.request("GET", "/api/health", headers, b"");
        let code = answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned();
        assert_eq!((answer.status, code.as_str()), expected, "{headers:?}");
    };
    check(&[], (200, ""));
    check(&[("Host", "localhost:1234")], (200, ""));
    check(&[("Host", "chela.example")], (200, ""));
    check(&[("Host", "evil.example")], (421, "host"));
    check(&[("Origin", &own)], (200, ""));
    check(&[("Origin", "https://page.example")], (200, ""));
    check(&[("Origin", "https://evil.example")], (403, "origin"));
    check(&[("Origin", "null")], (403, "origin"));
    check(&[("Origin", &own), ("Origin", "https://evil.example")], (403, "origin"));
}

#[test]
fn a_request_with_no_host_or_two_hosts_is_refused() {
    let host = TestHost::start();
    let address = host.address(Port::Gateway);
    let check = |request: &str, expected: &str| {
        let status = RawHttp::connect(address).send(request).read_status();
        assert!(status.contains(expected), "{request:?}: {status}");
    };
    check("GET /healthz HTTP/1.0\r\n\r\n", "421");
    check("GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "421");
    check("GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "421");
    check("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", "200");
}

#[test]
fn a_client_past_its_rate_waits_and_probes_still_answer() {
    let host = TestHost::start_with(|config| {
        config["limits"]["requestsPerSecond"] = json!(1);
        config["limits"]["requestsBurst"] = json!(3);
    });
    let ask = || host.request("GET", "/api/health", &[], b"");
    // As many as anybody at the address, and as many again with the token.
    assert_eq!([(); 6].map(|()| ask().status), [200; 6]);
    let refused = ask();
    assert_eq!((refused.status, refused.headers["retry-after"].to_str().expect("text")), (429, "1"));
    assert_eq!(refused.json()["error"]["code"], "rate");
    assert_eq!(host.request("GET", "/healthz", &[], b"").status, 200);
    host.clock.advance(Duration::from_secs(1));
    assert_eq!(ask().status, 200);
}

#[test]
fn strangers_at_an_address_take_nothing_from_who_shows_a_good_token_there() {
    let host = TestHost::start_with(|config| {
        config["limits"]["requestsPerSecond"] = json!(1);
        config["limits"]["requestsBurst"] = json!(3);
    });
    let stranger = Client::new(host.address(Port::Gateway), None);
    let ask = || {
        let asked = stranger.send("GET".parse().expect("a verb"), "/api/health", &[], Vec::new());
        host.block_on(asked).expect("an answer").status
    };
    assert_eq!([ask(), ask(), ask(), ask()], [401, 401, 401, 429]);
    assert_eq!(host.request("GET", "/api/health", &[], b"").status, 200);
}

#[test]
fn a_body_past_its_size_is_refused_whether_it_says_so_or_not() {
    let host = TestHost::start_with(|config| config["limits"]["bodyBytes"] = json!(1024));
    let answer = host.request("POST", "/rpc", &[], &[b' '; 1025]);
    assert_eq!((answer.status, answer.json()["error"]["code"].clone()), (413, json!("body_too_large")));
    let fits = format!("{:<1024}", r#"{"method":"health"}"#);
    assert_eq!(host.request("POST", "/rpc", &[], fits.as_bytes()).status, 200);

    let mut chunked = RawHttp::connect(host.address(Port::Gateway));
    let token = host.token.clone();
    chunked.send(format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    chunked.send(format!("800\r\n{}\r\n", " ".repeat(2048)));
    assert_eq!(chunked.read_status(), "HTTP/1.1 413 Payload Too Large");
}

#[test]
fn a_body_that_does_not_come_is_waited_for_only_so_long() {
    let host = TestHost::start_with(|config| config["limits"]["bodyTimeoutMs"] = json!(5_000));
    let mut slow = RawHttp::begin(host.address(Port::Gateway), &host.token, 10);
    slow.send("{");
    let reader = std::thread::spawn(move || slow.read_to_end());
    host.eventually("the answer is there", || reader.is_finished().then_some(()));
    let answer = reader.join().expect("the client");
    assert!(answer.contains("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("body_too_slow"), "{answer}");
}

#[test]
fn a_head_past_its_size_is_refused() {
    let host = TestHost::start();
    let address = host.address(Port::Gateway);
    let long = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: {}", "x".repeat(100_000));
    let answer = RawHttp::connect(address).send(long).read_to_end();
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(200));
    let answer = RawHttp::connect(address).send(many).read_status();
    assert!(answer.contains("431"), "{answer}");
}

#[test]
fn a_head_that_does_not_end_holds_a_connection_only_so_long() {
    let host = TestHost::start_with(|config| config["limits"]["headTimeoutMs"] = json!(100));
    let ended = RawHttp::connect(host.address(Port::Gateway)).send("GET /healthz HTTP/1.1\r\nHos").read_to_end();
    assert!(!ended.contains(" 200 "), "{ended}");
}

#[test]
fn connections_past_the_limit_are_told_why() {
    let host = TestHost::start_with(|config| config["limits"]["connections"] = json!(2));
    let address = host.address(Port::Monitor);
    let mut held = [RawHttp::connect(address), RawHttp::connect(address)];
    for connection in &mut held {
        connection.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!(connection.read_status(), "HTTP/1.1 200 OK");
    }
    let refused = RawHttp::connect(address).send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").read_to_end();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("raise `limits.connections`"), "{refused}");
    drop(held);
    support::eventually("there is room again", || {
        let status = RawHttp::connect(address).send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").read_status();
        status.contains("200").then_some(())
    });
}

#[test]
fn garbage_is_answered_or_closed_and_harms_nobody() {
    let host = TestHost::start();
    let address = host.address(Port::Gateway);
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    for round in 1..=200 {
        let bytes: Vec<u8> = (0..round * 7)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 33) as u8
            })
            .collect();
        let mut client = RawHttp::connect(address);
        client.send(&bytes).send("\r\n\r\n");
        let status = client.read_status();
        assert!(status.is_empty() || status.contains("400") || status.contains("431"), "{status:?} for {bytes:?}");
    }
    assert_eq!(host.request("GET", "/healthz", &[], b"").status, 200);
}

#[test]
fn a_frame_that_is_none_is_refused_by_what_is_wrong_with_it() {
    let host = TestHost::start();
    let check = |body: &str, expected: &str| {
        let answer = host.request("POST", "/rpc", &[], body.as_bytes());
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["code"]), (400, &json!("INVALID_REQUEST")), "{body}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(expected), "{body}: {message}");
    };
    check("", "not JSON");
    check("nonsense", "not JSON");
    check("[]", "must be of type object, not array");
    check("{}", "the key `method` is missing");
    check(r#"{"method":1}"#, "method: must be of type string");
    check(r#"{"method":"health","parms":{}}"#, "unknown key `parms`; did you mean `params`?");
    check(r#"{"type":"event","method":"health"}"#, "type: must be one of `req`");
    check(r#"{"method":"no.such"}"#, "unknown method: no.such");
    check(r#"{"method":"health","params":[]}"#, "invalid health params: at root: must be of type object");
    check(r#"{"method":"health","params":{"bogus":1}}"#, "invalid health params: at bogus: unknown key `bogus`");
    check(&format!(r#"{{"method":"health","params":{}}}"#, "[".repeat(100_000)), "not JSON");
    check(&format!(r#"{{"method":"{}"}}"#, "x".repeat(5_000)), "method: ");
}

#[test]
fn an_answer_repeats_the_id_of_its_request() {
    let host = TestHost::start();
    let answer = host.request("POST", "/rpc", &[], br#"{"type":"req","id":"2:abc","method":"health"}"#).json();
    assert_eq!((&answer["type"], &answer["id"], &answer["ok"]), (&json!("res"), &json!("2:abc"), &json!(true)));
}

#[test]
fn unknown_paths_and_verbs_are_named() {
    let host = TestHost::start();
    let check = |method: &str, path: &str, status: u16, expected: &str| {
        let answer = host.request(method, path, &[], b"");
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer.status, status, "{method} {path}");
        assert!(message.contains(expected), "{message}");
    };
    check("GET", "/nowhere", 404, "/nowhere leads nowhere on the gateway listener");
    check("DELETE", "/rpc", 405, "/rpc does not take DELETE");
    check("GET", "/%ff%fe/../%00", 404, "leads nowhere");
}

#[test]
fn a_change_is_audited_before_it_is_made_and_a_question_is_not() {
    let host = TestHost::start_with(|config| {
        config["gateway"]["auth"]["tokens"] = json!({ "reader": { "token": READ, "scope": "operator.read" } });
    });
    host.call("health", json!({})).expect("answered");
    host.call("config.reload", json!({})).expect("answered");
    let refused = Client::new(host.address(Port::Gateway), Some(READ.into()));
    host.block_on(refused.call("config.reload", json!({}))).expect_err("a reader changes nothing");
    let audit = std::fs::read_to_string(host.dir.state.audit_log()).expect("an audit log");
    let lines: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{audit}");
    assert_eq!((&lines[0]["who"], &lines[0]["method"]), (&json!("owner"), &json!("config.reload")));
    assert_eq!((&lines[1]["id"], &lines[1]["ok"]), (&lines[0]["id"], &json!(true)));
}

#[test]
fn a_change_that_cannot_be_audited_is_not_made() {
    let dir = TestHost::start().stop();
    std::fs::remove_file(dir.state.audit_log()).expect("removable");
    std::os::unix::fs::symlink("/dev/full", dir.state.audit_log()).expect("a link");
    let Ok(host) = TestHost::start_in(dir) else { panic!("an audit log that opens is enough to start") };
    host.dir.edit_config(|config| config["limits"]["requestsBurst"] = json!(7));
    let error = host.call("config.reload", json!({})).expect_err("refused");
    assert_eq!((&error["code"], &error["retryable"]), (&json!("UNAVAILABLE"), &json!(true)));
    let applied = host.call("config.get", json!({})).expect("answered");
    assert_eq!(applied["config"]["limits"]["requestsBurst"], 2_000, "not by this call");
}

#[test]
fn a_caller_that_hangs_up_does_not_stop_a_change_halfway() {
    let host = TestHost::start();
    let body = r#"{"method":"config.reload"}"#;
    for _ in 0..50 {
        RawHttp::connect(host.address(Port::Gateway)).send(format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            host.token,
            body.len()
        ));
    }
    let dir = host.stop();
    let audit = std::fs::read_to_string(dir.state.audit_log()).expect("an audit log");
    let (done, asked): (Vec<&str>, Vec<&str>) = audit.lines().partition(|line| line.contains("\"ok\":"));
    assert_eq!(done.len(), asked.len(), "{audit}");
}

#[test]
fn a_client_that_does_not_read_is_let_go() {
    let host = TestHost::start_with(|config| {
        config["limits"]["writeTimeoutMs"] = json!(100);
        config["limits"]["requestsBurst"] = json!(1_000_000);
    });
    let gauge = || {
        let text = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
        text.lines().find_map(|line| line.strip_prefix("chela_connections{listener=\"gateway\"} ")?.parse::<u32>().ok())
    };
    let mut deaf = RawHttp::connect(host.address(Port::Gateway));
    support::eventually("it is held", || (gauge() == Some(2)).then_some(()));
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", host.token);
    // Asks for far more than the buffers between us hold, and reads nothing.
    let asking = std::thread::spawn(move || {
        for _ in 0..20_000 {
            deaf.send(&request);
        }
        deaf
    });
    support::eventually("it is let go", || (gauge() == Some(1)).then_some(()));
    drop(asking.join().expect("the client"));
}

#[test]
fn a_connection_that_has_become_a_socket_is_counted_until_it_ends() {
    let host = TestHost::start();
    let sockets = || {
        let text = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
        text.lines().find_map(|line| line.strip_prefix("chela_sockets ")?.parse::<u32>().ok())
    };
    assert_eq!(sockets(), Some(0));
    let client = host.client(Port::Gateway);
    let open = [host.block_on(client.open()), host.block_on(client.open())].map(|socket| socket.expect("connected"));
    assert_eq!(sockets(), Some(2));
    for socket in open {
        host.block_on(socket.close());
    }
    support::eventually("they have ended", || (sockets() == Some(0)).then_some(()));
}

#[test]
fn a_listed_page_may_ask_and_read() {
    let host = TestHost::start_with(|config| {
        config["gateway"]["allowedOrigins"] = json!(["https://page.example"]);
        config["limits"]["requestsBurst"] = json!(3);
    });
    let page = ("Origin", "https://page.example");
    let asked = host.request("OPTIONS", "/rpc", &[page, ("Access-Control-Request-Method", "POST")], b"");
    assert_eq!(asked.status, 204);
    assert_eq!(asked.headers["access-control-allow-origin"], "https://page.example");
    assert!(asked.headers["access-control-allow-headers"].to_str().expect("text").contains("authorization"));
    let answer = host.request("GET", "/api/health", &[page], b"");
    assert_eq!((answer.status, &answer.headers["vary"]), (200, &"origin".parse().expect("a value")));
    let foreign = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
    let refused = host.request("OPTIONS", "/rpc", &foreign, b"");
    assert_eq!(refused.status, 403);
    assert!(!refused.headers.contains_key("access-control-allow-origin"));
    // A listed page may read why it was refused, too.
    let wrong = host.request("GET", "/api/health", &[page, ("Authorization", "Bearer a-token-of-somebody-else")], b"");
    assert_eq!(
        (wrong.status, &wrong.headers["access-control-allow-origin"]),
        (401, &"https://page.example".parse().expect("a value"))
    );
    let hasty = host.request("GET", "/api/health", &[page, ("Authorization", "Bearer a-token-of-somebody-else")], b"");
    assert_eq!(
        (hasty.status, &hasty.headers["access-control-expose-headers"]),
        (429, &"retry-after".parse().expect("a value"))
    );
}
