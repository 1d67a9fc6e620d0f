//! The door: who comes in, how much they may ask, and what they are told when they may not.

use std::time::Duration;

use chela::client::Client;
use chela::edge::{Access, methods, routes};
use chela::port::Port;
use chela::scope::Scope;
use serde_json::{Value, json};
use support::{RawHttp, TestHost};

const READ: &str = "a-token-that-may-read";
const WRITE: &str = "a-token-that-may-write";

/// A gateway with a token of each width beside the owner's.
fn host_with_tokens() -> TestHost {
    TestHost::start_with(|config| {
        config["gateway"]["auth"]["tokens"] = json!({
            "reader": { "token": READ, "scope": "operator.read" },
            "writer": { "token": WRITE, "scope": "operator.write" },
        });
    })
}

/// Every way to knock, with the scope it has: none at all, none that counts, and the three.
fn knocks(host: &TestHost) -> Vec<(Option<String>, Option<Scope>)> {
    vec![
        (None, None),
        (Some("a-token-of-somebody-else".into()), None),
        (Some(READ.into()), Some(Scope::Read)),
        (Some(WRITE.into()), Some(Scope::Write)),
        (Some(host.token.clone()), Some(Scope::Admin)),
    ]
}

#[test]
fn every_route_asks_for_its_scope_on_every_listener_it_is_on() {
    let host = host_with_tokens();
    // Those of the hub alone are for people: see `hub_door`.
    for route in routes().list().iter().filter(|route| route.ports != [Port::Hub]) {
        for port in Port::ALL {
            for (token, held) in knocks(&host) {
                let client = Client::new(host.address(port), token.clone());
                let answer = host.block_on(client.send(route.method.clone(), route.path, &[], Vec::new()));
                let status = answer.expect("an answer").status;
                let expected: &[u16] = match (route.ports.contains(&port), route.access, held) {
                    // There it reads like the id of a task, which takes GET.
                    (false, _, _) if route.path == "/api/tasks/update" => &[405],
                    // And there it is a page.
                    (false, _, _) if route.path == "/" && port == Port::Hub => &[200, 303, 401],
                    (false, _, _) => &[404],
                    // A socket is not asked for.
                    (true, Access::Open, _) if route.path == "/" => &[400],
                    // No webhook is granted.
                    (true, Access::Open, _) if route.path.starts_with("/hooks/") => &[404],
                    (true, Access::Open, _) => &[200],
                    (true, _, None) => &[401],
                    (true, Access::Needs(needed), Some(held)) if !held.holds(needed) => &[403],
                    // Nor are there the parameters that these ask for.
                    (true, Access::Needs(_), Some(_)) if route.path.starts_with("/admin/plugins/") => &[400],
                    (true, Access::Watching, Some(held)) if !held.holds(Scope::Read) => &[403],
                    // A path's own names stand for things that are not there; a socket is not asked for; the log may still be read.
                    (true, Access::Watching | Access::Needs(_), Some(_))
                        if route.path.starts_with("/api/") || route.path == "/ws" =>
                    {
                        &[200, 400, 404, 503]
                    }
                    // An empty body names no tool, and is no conversation.
                    (true, Access::Needs(_), Some(_))
                        if ["/tools/invoke", "/v1/chat/completions"].contains(&route.path) =>
                    {
                        &[400]
                    }
                    (true, Access::Watching | Access::Needs(_), Some(_)) => &[200],
                    // An empty body is no frame: the door is passed, the method table is not.
                    (true, Access::PerMethod, Some(_)) => &[400],
                    (true, Access::Page(_), Some(_)) => unreachable!("only the hub has pages"),
                };
                assert!(
                    expected.contains(&status),
                    "{} {} on {port:?} by {held:?}: {status}",
                    route.method,
                    route.path
                );
            }
        }
    }
}

#[test]
fn the_table_of_routes_is_as_it_was_agreed() {
    let row = |route: &chela::edge::Route| {
        let access = match route.access {
            Access::Open => "open",
            Access::PerMethod => "per method",
            Access::Needs(scope) => scope.as_str(),
            Access::Watching => "watching",
            Access::Page(_) => "page",
        };
        let ports: Vec<&str> = route.ports.iter().map(|port| port.as_str()).collect();
        format!("{} {} | {access} | {}", route.method, route.path, ports.join(" "))
    };
    let routes = routes();
    let table: Vec<String> = routes.list().iter().filter(|route| route.ports != [Port::Hub]).map(row).collect();
    assert_eq!(
        table,
        [
            "GET /healthz | open | gateway monitor hub",
            "GET /health | open | gateway monitor hub",
            "GET /startupz | open | gateway monitor hub",
            "GET /startup | open | gateway monitor hub",
            "GET /readyz | open | gateway monitor hub",
            "GET /ready | open | gateway monitor hub",
            "GET /admin/plugins | operator.read | gateway",
            "GET /admin/plugins/logs | operator.read | gateway",
            "POST /admin/plugins/upload | operator.admin | gateway",
            "GET /api/plugins | watching | gateway monitor hub",
            "POST /admin/plugins/load | operator.admin | gateway",
            "POST /admin/plugins/unload | operator.admin | gateway",
            "POST /admin/plugins/disable | operator.admin | gateway",
            "POST /admin/plugins/enable | operator.admin | gateway",
            "POST /admin/plugins/accept | operator.admin | gateway",
            "POST /admin/plugins/rollback | operator.admin | gateway",
            "POST /admin/plugins/release | operator.admin | gateway",
            "GET /api/health | watching | gateway monitor hub",
            "GET /api/agents | watching | gateway monitor hub",
            "GET /api/events | watching | gateway monitor hub",
            "GET /api/work-sessions | watching | gateway monitor hub",
            "GET /api/work-sessions/{id} | watching | gateway monitor hub",
            "PATCH /api/work-sessions/{id}/category | operator.write | gateway monitor hub",
            "GET /api/jobs | watching | gateway monitor hub",
            "GET /api/jobs/{id} | watching | gateway monitor hub",
            "GET /api/stats | watching | gateway monitor hub",
            "GET /api/openapi.json | watching | gateway monitor hub",
            "GET /ws | watching | gateway monitor hub",
            "GET /api/agents/{id}/tasks | watching | gateway monitor hub",
            "GET /api/agents/{id}/tasks/{taskId} | watching | gateway monitor hub",
            "GET /api/agents/{id}/current | watching | gateway monitor hub",
            "GET /api/agents/{id}/blocked | watching | gateway monitor hub",
            "GET /api/agents/{id}/history | watching | gateway monitor hub",
            "GET /api/agents/{id}/plans | watching | gateway monitor hub",
            "GET /api/team-state | watching | gateway monitor hub",
            "GET /api/tasks | watching | gateway monitor hub",
            "GET /api/tasks/{id} | watching | gateway monitor hub",
            "GET /api/milestones | watching | gateway monitor hub",
            "GET /api/todos | watching | gateway monitor hub",
            "GET /api/human-queries | watching | gateway monitor hub",
            "POST /api/human-queries/{id}/answer | operator.write | gateway hub",
            "GET /api/tasks/{id}/conversation | watching | gateway monitor hub",
            "GET /api/workspace/{id}/files | watching | gateway monitor hub",
            "GET /api/workspace/{id}/files/{*path} | watching | gateway monitor hub",
            "POST /tools/invoke | operator.write | gateway",
            "POST /api/tasks/update | operator.write | gateway hub",
            "POST /v1/chat/completions | operator.write | gateway",
            "GET /v1/models | operator.read | gateway",
            "GET /api/channels | watching | gateway monitor hub",
            "GET /hooks/{channel}/{*path} | open | gateway",
            "POST /hooks/{channel}/{*path} | open | gateway",
            "GET / | open | gateway",
            "POST /rpc | per method | gateway",
            "GET /metrics | operator.read | gateway monitor",
        ]
    );
}

#[test]
fn every_method_asks_for_its_scope() {
    let host = host_with_tokens();
    // The index is there once this answers.
    host.get("/api/stats");
    let table: Vec<(&str, Scope)> = methods().list().collect();
    assert_eq!(
        table,
        [
            ("agent", Scope::Write),
            ("agent.identity.get", Scope::Read),
            ("agent.wait", Scope::Write),
            ("agents.list", Scope::Read),
            ("backup.hold", Scope::Admin),
            ("backup.release", Scope::Admin),
            ("channel.list", Scope::Read),
            ("channel.restart", Scope::Admin),
            ("channels.status", Scope::Read),
            ("chat.abort", Scope::Write),
            ("chat.history", Scope::Read),
            ("chat.send", Scope::Write),
            ("commands.list", Scope::Read),
            ("config.get", Scope::Read),
            ("config.patch", Scope::Admin),
            ("config.reload", Scope::Admin),
            ("cron.list", Scope::Read),
            ("device.pair.list", Scope::Admin),
            ("events.list", Scope::Read),
            ("events.subscribe", Scope::Read),
            ("health", Scope::Read),
            ("human.answer", Scope::Write),
            ("human.get", Scope::Read),
            ("human.pending", Scope::Read),
            ("jobs.cancel", Scope::Write),
            ("jobs.get", Scope::Read),
            ("jobs.list", Scope::Read),
            ("jobs.retry", Scope::Write),
            ("last-heartbeat", Scope::Read),
            ("logs.tail", Scope::Read),
            ("models.list", Scope::Read),
            ("plugin.accept", Scope::Admin),
            ("plugin.approval.list", Scope::Read),
            ("plugin.disable", Scope::Admin),
            ("plugin.enable", Scope::Admin),
            ("plugin.load", Scope::Admin),
            ("plugin.logs", Scope::Read),
            ("plugin.release", Scope::Admin),
            ("plugin.rollback", Scope::Admin),
            ("plugin.slots", Scope::Read),
            ("plugin.unload", Scope::Admin),
            ("question.list", Scope::Read),
            ("send", Scope::Write),
            ("sessions.abort", Scope::Write),
            ("sessions.compact", Scope::Admin),
            ("sessions.create", Scope::Write),
            ("sessions.delete", Scope::Admin),
            ("sessions.describe", Scope::Read),
            ("sessions.list", Scope::Read),
            ("sessions.messages.subscribe", Scope::Read),
            ("sessions.messages.unsubscribe", Scope::Read),
            ("sessions.patch", Scope::Write),
            ("sessions.preview", Scope::Read),
            ("sessions.reset", Scope::Admin),
            ("sessions.resolve", Scope::Read),
            ("sessions.send", Scope::Write),
            ("sessions.subscribe", Scope::Read),
            ("skills.status", Scope::Read),
            ("status", Scope::Read),
            ("system-presence", Scope::Read),
            ("task.conversation", Scope::Read),
            ("taskSuggestions.list", Scope::Read),
            ("tasks.cancel", Scope::Write),
            ("tasks.get", Scope::Read),
            ("tasks.list", Scope::Read),
            ("tools.catalog", Scope::Read),
            ("tools.effective", Scope::Read),
            ("tools.invoke", Scope::Write),
            ("why", Scope::Read),
            ("work-sessions.get", Scope::Read),
            ("work-sessions.list", Scope::Read),
        ]
    );
    for (method, needed) in table {
        for (token, held) in knocks(&host).into_iter().filter(|(_, held)| held.is_some()) {
            let client = Client::new(host.address(Port::Gateway), token);
            let outcome = host.block_on(client.call(method, json!({})));
            let holds = held.is_some_and(|held| held.holds(needed));
            match outcome {
                Ok(_) => assert!(holds, "{method} answered {held:?}"),
                // Past the scope, these ask for parameters.
                Err(chela::client::Error::Refused(error)) if takes_parameters(method) && holds => {
                    assert!(error.message.starts_with(&format!("invalid {method} params")), "{error:?}");
                }
                Err(chela::client::Error::Refused(error)) => {
                    assert!(!holds, "{method} refused {held:?}: {error:?}");
                    assert_eq!(error.message, format!("missing scope: {needed}"));
                    let details = error.details.expect("details");
                    assert_eq!((&details["code"], &details["missingScope"]), (&json!("MISSING_SCOPE"), &json!(needed)));
                }
                Err(error) => panic!("{method} by {held:?}: {error}"),
            }
        }
    }
}

fn takes_parameters(method: &str) -> bool {
    let asking = [
        "agent",
        "agent.wait",
        "backup.release",
        "channel.restart",
        "chat.abort",
        "chat.history",
        "chat.send",
        "config.patch",
        "events.subscribe",
        "jobs.cancel",
        "jobs.get",
        "jobs.retry",
        "send",
        "sessions.abort",
        "sessions.delete",
        "sessions.compact",
        "sessions.describe",
        "sessions.messages.subscribe",
        "sessions.messages.unsubscribe",
        "sessions.patch",
        "sessions.preview",
        "sessions.reset",
        "sessions.resolve",
        "sessions.send",
        "tasks.cancel",
        "tasks.get",
        "tools.effective",
        "tools.invoke",
        "why",
        "work-sessions.get",
    ];
    let groups = ["plugin.", "human.", "task."].iter().any(|group| method.starts_with(group));
    (groups && !["plugin.approval.list", "human.pending"].contains(&method)) || asking.contains(&method)
}

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
    assert_eq!([ask().status, ask().status, ask().status], [200; 3]);
    let refused = ask();
    assert_eq!((refused.status, refused.headers["retry-after"].to_str().expect("text")), (429, "1"));
    assert_eq!(refused.json()["error"]["code"], "rate");
    assert_eq!(host.request("GET", "/healthz", &[], b"").status, 200);
    host.clock.advance(Duration::from_secs(1));
    assert_eq!(ask().status, 200);
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
    let host = host_with_tokens();
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
    let mut deaf = RawHttp::connect(host.address(Port::Gateway));
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n", host.token);
    // Asks for far more than the buffers between us hold, and reads nothing.
    let asking = std::thread::spawn(move || {
        for _ in 0..20_000 {
            deaf.send(&request);
        }
        deaf
    });
    let gauge = || {
        let text = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
        text.lines().find_map(|line| line.strip_prefix("chela_connections{listener=\"gateway\"} ")?.parse::<u32>().ok())
    };
    support::eventually("it is held", || (gauge() == Some(2)).then_some(()));
    support::eventually("it is let go", || (gauge() == Some(1)).then_some(()));
    drop(asking.join().expect("the client"));
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
    let hasty = host.request("GET", "/api/health", &[page], b"");
    assert_eq!(
        (hasty.status, &hasty.headers["access-control-expose-headers"]),
        (429, &"retry-after".parse().expect("a value"))
    );
}
