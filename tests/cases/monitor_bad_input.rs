//! What should not come: parameters, ids, bodies, lines and clocks, each answered by name or passed over, and none of them the end.

use std::fs;
use std::io::Write;

use chela::event::Kind;
use chela::port::Port;
use serde_json::{Value, json};
use support::events::{event, with_log};
use support::{RawHttp, TestDir, TestHost};

const NOW: u64 = 1_700_000_000_000;

fn start(dir: TestDir, now: u64) -> TestHost {
    let host = TestHost::start_at(dir, now).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    host.get("/api/stats");
    host
}

fn talk(session: &str) -> Value {
    json!({ "workSessionId": session, "fromAgent": "eden", "toAgent": "seum", "message": "배포합니다", "eventRole": "conversation.main" })
}

/// Asks for a path as its bytes are, and gives the status and the body.
fn ask(host: &TestHost, verb: &str, path: &str, body: &[u8]) -> (u16, Value) {
    let head = format!(
        "{verb} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        host.token,
        body.len()
    );
    let answer = RawHttp::connect(host.address(Port::Gateway)).send(head).send(body).read_to_end();
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let body = serde_json::from_str(body).unwrap_or_else(|_| panic!("{verb} {path} is not answered in JSON: {answer}"));
    (status.unwrap_or_else(|| panic!("no status in {answer}")), body)
}

/// A refusal as programs read it.
fn assert_refused(asked: &str, status: u16, body: &Value) {
    let error = &body["error"];
    assert!((400..500).contains(&status), "{asked}: {status} {body}");
    assert!(
        error["code"].is_string() && error["message"].as_str().is_some_and(|said| said.len() > 10),
        "{asked}: {body}"
    );
}

#[test]
fn whatever_a_parameter_is_it_is_taken_or_refused_by_its_name() {
    let host = start(with_log(&[event("a2a.send", NOW, talk("ws_1"))]), NOW);
    let (_, document) = host.get("/api/openapi.json");
    let long = "x".repeat(6_000);
    let many = ["a"; 40].join(",");
    let values = [
        "",
        "%00",
        "%ff",
        "%C3%28",
        "%ED%A0%80",
        "%",
        "%zz",
        "-1",
        "0",
        "1",
        "+1",
        "18446744073709551616",
        "1e9",
        "NaN",
        "null",
        "%7B%7D",
        "..%2F..",
        "%22%20OR%201",
        "%EB%B0%B0%ED%8F%AC",
        "%F0%9F%98%80",
        "1:2",
        "q1.2",
        "1.2",
        "2026-13-45",
        &long,
        &many,
    ];
    let task = host.begin("eden", &["a"]);
    let (mut taken, mut refused) = (0, 0);
    for (path, operations) in document["paths"].as_object().expect("paths") {
        let parameters = operations["get"]["parameters"].as_array().into_iter().flatten();
        let names = parameters
            .filter(|parameter| parameter["in"] == "query")
            .filter_map(|parameter| parameter["name"].as_str());
        for name in names {
            for value in values {
                let id = if path.starts_with("/api/workspace/") { "eden" } else { &task };
                let path = path.replace("{id}", id).replace("{path}", &format!("tasks/{task}.md"));
                let asked = format!("{path}?{name}={value}");
                let (status, body) = ask(&host, "GET", &asked, b"");
                if status == 200 {
                    taken += 1;
                    continue;
                }
                assert_refused(&asked, status, &body);
                assert_eq!((status, &body["error"]["field"]), (400, &json!(name)), "{asked}: {body}");
                refused += 1;
            }
        }
    }
    assert!(taken > 50 && refused > 150, "{taken} taken, {refused} refused");
    let (status, body) = ask(&host, "GET", "/api/work-sessions?q=a&cursor=1.2", b"");
    assert_eq!((status, &body["error"]["field"]), (400, &json!("cursor")), "the cursor of another list: {body}");
    let (status, body) = ask(&host, "GET", "/api/work-sessions?cursor=q1.2", b"");
    assert_eq!((status, &body["error"]["field"]), (400, &json!("cursor")), "the cursor of a search: {body}");
}

#[test]
fn whatever_an_id_is_it_is_unknown_or_refused() {
    let host = start(with_log(&[event("a2a.send", NOW, talk("ws_1"))]), NOW);
    let (_, document) = host.get("/api/openapi.json");
    let long = "x".repeat(6_000);
    for (path, operations) in
        document["paths"].as_object().expect("paths").iter().filter(|(path, _)| path.contains('{'))
    {
        for verb in operations.as_object().expect("operations").keys().filter(|verb| *verb == "get" || *verb == "patch")
        {
            for id in [
                "%00",
                "%ff",
                "%C3%28",
                "%ED%A0%80",
                "..%2F..%2Fetc%2Fpasswd",
                "%2e%2e",
                "%F0%9F%98%80",
                "a%20b",
                "%25",
                "'",
                "*",
                &long,
            ] {
                let asked = path.replace("{id}", id).replace("{taskId}", id).replace("{path}", id);
                let (status, body) = ask(&host, &verb.to_uppercase(), &asked, br#"{"collabCategory":"infra_ops"}"#);
                assert_refused(&asked, status, &body);
                assert!(status == 404 || status == 400, "{asked}: {status} {body}");
            }
        }
    }
    assert_eq!(host.get("/api/work-sessions/ws_1").0, 200);
}

#[test]
fn whatever_a_body_is_the_category_changes_only_by_a_good_one() {
    let host = start(with_log(&[event("a2a.send", NOW, talk("ws_1"))]), NOW);
    let long = format!("{{\"collabCategory\":\"infra_ops\",\"updatedBy\":\"{}\"}}", "x".repeat(129));
    let deep = format!("{{\"collabCategory\":{}1{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let bodies: [(&[u8], u16); 14] = [
        (b"", 400),
        (b"null", 400),
        (b"5", 400),
        (b"[]", 400),
        (b"[\"infra_ops\"]", 400),
        (b"\"infra_ops\"", 400),
        (b"{}", 400),
        (b"{\"collabCategory\":5}", 400),
        (b"{\"collabCategory\":\"\"}", 400),
        (b"{\"collabCategory\":\"INFRA_OPS\"}", 400),
        (b"{\"collabCategory\":\"infra_ops\",\"updatedBy\":\"\"}", 400),
        (b"{\"collabCategory\":\"\xff\"}", 400),
        (long.as_bytes(), 400),
        (deep.as_bytes(), 400),
    ];
    for (body, expected) in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        let (status, answer) = ask(&host, "PATCH", "/api/work-sessions/ws_1/category", body);
        assert_eq!((status, &answer["error"]["code"]), (expected, &json!("invalid_parameter")), "{shown}: {answer}");
        assert!(answer["error"]["field"].is_string(), "{shown}: {answer}");
    }
    assert!(!host.dir.state.category_overrides().exists());
    let (status, _) = ask(&host, "PATCH", "/api/work-sessions/ws_1/category", br#"{"collabCategory":"infra_ops"}"#);
    assert_eq!(status, 200);
}

#[test]
fn lines_that_could_not_be_shown_are_counted_and_halves_of_characters_are_mended() {
    let dir = with_log(&[event("a2a.send", NOW, talk("ws_1"))]);
    let mut log = fs::OpenOptions::new().append(true).open(dir.state.event_log()).expect("opens");
    let good = |session: &str, more: &str| {
        format!(
            "{{\"type\":\"a2a.send\",\"ts\":{NOW},{more}\"data\":{{\"workSessionId\":\"{session}\",\"message\":\"m\"}}}}\n"
        )
    };
    let mut add = |line: &[u8]| log.write_all(line).expect("written");
    let mut not_text = good("ws_bad", "\"extra\":\"?\",").into_bytes();
    let at = not_text.iter().position(|byte| *byte == b'?').expect("there");
    not_text[at] = 0xff;
    add(&not_text);
    add(good("ws_bad", "\"extra\":1e999,").as_bytes());
    add(good("ws_bad", &format!("\"extra\":{}{},", "[".repeat(50_000), "]".repeat(50_000))).as_bytes());
    add(b"[\"an id\",\"a2a.send\",\"eden\",5,{\"workSessionId\":\"ws_bad\"}]\n");
    add(b"\xef\xbb\xbf{\"type\":\"a2a.send\",\"ts\":5,\"data\":{\"workSessionId\":\"ws_bad\"}}\n");
    add(good("ws_twice", "\"ts\":5,\"type\":\"task.updated\",").as_bytes());
    add(good("ws_half", "\"note\":\"\\ud83d\",").replace("\"m\"", "\"half a face \\ud83d\"").as_bytes());
    add(good("ws_nul", "\"\\u0000\":\"\\u0000\",").as_bytes());
    add(good("ws_noid", "\"id\":\"\",").as_bytes());
    add(good("ws_noid", "\"id\":\"\",").as_bytes());
    add(good("ws_after", "").replace('\n', "\r\n").as_bytes());

    drop(log);
    let host = start(dir, NOW);
    let (_, health) = host.get("/api/health");
    assert_eq!(health["monitor"]["malformedLines"], 5, "{health}");
    assert_eq!(host.get("/api/work-sessions/ws_bad").0, 404);
    let served = |session: &str| {
        let (_, page) = host.get(&format!("/api/events?workSessionId={session}"));
        page["events"].as_array().expect("events").clone()
    };
    assert_eq!(
        (served("ws_twice")[0]["ts"].as_u64(), &served("ws_twice")[0]["type"]),
        (Some(5), &json!("task.updated")),
        "the last counts"
    );
    let half = &served("ws_half")[0];
    assert_eq!((&half["note"], &half["data"]["message"]), (&json!("\u{fffd}"), &json!("half a face \u{fffd}")));
    assert_eq!(served("ws_nul")[0]["\u{0}"], "\u{0}");
    assert_eq!(served("ws_noid").len(), 2, "an empty id is none");
    assert_eq!(served("ws_after").len(), 1);
    let (_, found) = host.get("/api/work-sessions?q=face");
    assert_eq!(found["workSessions"][0]["workSessionId"], "ws_half", "{found}");
}

#[test]
fn a_gateway_whose_clock_was_set_back_goes_on_where_it_was() {
    let host = start(TestDir::with_config(|_| {}), NOW);
    let places = |host: &TestHost, query: &str, count: usize| -> Vec<(i64, String)> {
        support::eventually("all are there", || {
            let (_, page) = host.get(&format!("/api/events?type=task.updated{query}"));
            let rows = page["events"].as_array().expect("events").clone();
            let shown = |event: &Value| (event["seq"].as_i64().expect("a place"), event["data"]["n"].to_string());
            (rows.len() == count).then(|| rows.iter().map(shown).collect())
        })
    };
    let emit =
        |host: &TestHost, n: u64| host.emit("eden", Kind::TaskUpdated, json!({ "n": n, "workSessionId": "ws_1" }));
    (1..=3).for_each(|n| emit(&host, n));
    let before = places(&host, "", 3);
    // Two months back: the month of a segment goes back with it.
    let earlier = NOW - 60 * 24 * 3_600_000;
    let host = start(host.stop(), earlier);
    (4..=6).for_each(|n| emit(&host, n));
    let all = places(&host, "", 6);
    let numbers: Vec<&str> = all.iter().map(|(_, n)| n.as_str()).collect();
    assert_eq!(numbers, ["6", "5", "4", "3", "2", "1"], "the order of the log is the order of things");
    assert_eq!(all[3..], before[..], "places stay what they were");
    let rest = places(&host, &format!("&since={}:{}", before[0].0 >> 32, before[0].0 & 0xffff_ffff), 3);
    assert_eq!(rest.iter().map(|(_, n)| n.as_str()).collect::<Vec<_>>(), ["4", "5", "6"]);
    let (_, session) = host.get("/api/work-sessions/ws_1");
    assert_eq!(
        (&session["status"], &session["eventCount"], &session["startedAt"]),
        (&json!("ACTIVE"), &json!(6), &json!(earlier))
    );
    let host = start(host.stop(), NOW);
    assert_eq!(places(&host, "", 6), all, "and forward again");
}

#[test]
fn what_is_in_the_way_of_the_log_or_its_index_is_named() {
    let refused = |spoil: fn(&TestDir)| {
        let dir = TestDir::with_config(|_| {});
        fs::create_dir_all(dir.state.logs()).expect("made");
        spoil(&dir);
        let Err((error, dir)) = TestHost::start_in(dir) else { panic!("it cannot start") };
        assert!(!dir.state.run_file().exists());
        let error = whole(&error);
        assert!(error.contains(&dir.state.path().display().to_string()), "the place is named: {error}");
        error
    };
    let said = refused(|dir| {
        fs::remove_dir_all(dir.state.logs()).expect("removed");
        fs::write(dir.state.logs(), "in the way").expect("written");
    });
    assert!(said.contains("cannot write in"), "{said}");
    let said = refused(|dir| fs::create_dir(dir.state.event_log()).expect("made"));
    assert!(said.contains("cannot open the event log"), "{said}");
    let said = refused(|dir| {
        let folder = dir.state.event_index();
        let folder = folder.parent().expect("a folder");
        if folder.exists() {
            fs::remove_dir_all(folder).expect("removed");
        }
        fs::write(folder, "in the way").expect("written");
    });
    assert!(said.contains("cannot write in"), "{said}");
}

/// An error with everything that led to it.
fn whole(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
