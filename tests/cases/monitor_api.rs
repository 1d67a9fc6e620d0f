//! The monitor's paths over HTTP: pages, filters, search, overrides, refusals, and the document that describes them.

use serde_json::{Value, json};
use support::events::{event, old_system_with_jobs, with_log};
use support::{TestDir, TestHost, chela};

const NOW: u64 = 1_700_000_000_000;
const MINUTE: u64 = 60_000;

fn talk(session: &str, from: &str, to: &str, text: &str) -> Value {
    json!({
        "workSessionId": session, "conversationId": format!("c-{session}"), "fromAgent": from, "toAgent": to, "message": text,
        "eventRole": "conversation.main",
    })
}

/// Thirty sessions of two events each, a minute apart.
fn thirty() -> TestHost {
    let mut lines = Vec::new();
    for n in 0..30_u64 {
        let session = format!("ws_{n:02}");
        let at = NOW - 30 * MINUTE + n * MINUTE;
        lines.push(event(
            "a2a.send",
            at,
            talk(&session, "eden", "seum", &format!("메시지 {n} 배포를 부탁해요. 배포 후 장애 대응이 필요합니다")),
        ));
        let kind = if n % 3 == 0 { "a2a.complete" } else { "a2a.response" };
        lines.push(event(kind, at + 1, talk(&session, "seum", "eden", "Understood, deploying now")));
    }
    TestHost::start_at(with_log(&lines), NOW).unwrap_or_else(|(error, _)| panic!("it starts: {error}"))
}

fn ids(page: &Value) -> Vec<String> {
    let sessions = page["workSessions"].as_array().unwrap_or_else(|| panic!("no sessions in {page}"));
    sessions.iter().map(|session| session["workSessionId"].as_str().expect("an id").to_owned()).collect()
}

/// Every page of a list, one after the other.
fn pages(host: &TestHost, path: &str, rows: &str, next: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), None::<String>);
    for _ in 0..200 {
        let with = cursor.map(|cursor| format!("&{next}={cursor}")).unwrap_or_default();
        let (status, page) = host.get(&format!("{path}{with}"));
        assert_eq!(status, 200, "{page}");
        all.extend(page[rows].as_array().expect("rows").iter().cloned());
        match page["nextCursor"].as_str() {
            Some(more) => cursor = Some(more.to_owned()),
            None => return all,
        }
    }
    panic!("{path} never ends");
}

#[test]
fn sessions_come_latest_first_in_pages_that_leave_out_and_repeat_nothing() {
    let host = thirty();
    let rows = pages(&host, "/api/work-sessions?limit=7", "workSessions", "cursor");
    let found: Vec<&str> = rows.iter().map(|row| row["workSessionId"].as_str().expect("an id")).collect();
    let expected: Vec<String> = (0..30).rev().map(|n| format!("ws_{n:02}")).collect();
    assert_eq!(found, expected);
    let quiet = pages(&host, "/api/work-sessions?limit=4&status=QUIET", "workSessions", "cursor");
    assert_eq!(quiet.len(), 10);
    let active =
        pages(&host, "/api/work-sessions?limit=4&status=ACTIVE&role=conversation.main", "workSessions", "cursor");
    assert_eq!(active.len(), 20);
    let completed = pages(&host, "/api/work-sessions?limit=4&type=a2a.complete,a2a.spawn", "workSessions", "cursor");
    assert_eq!(completed.len(), 10);
}

#[test]
fn a_session_is_archived_after_a_day_and_active_again_with_news() {
    let host = thirty();
    host.clock.advance(std::time::Duration::from_millis(24 * 60 * MINUTE + MINUTE));
    let (_, page) = host.get("/api/work-sessions?status=ACTIVE,QUIET");
    assert_eq!(ids(&page), Vec::<String>::new());
    let data = talk("ws_03", "eden", "seum", "다시 시작합니다");
    host.emit("eden", chela::event::Kind::A2aSend, data);
    let active = support::eventually("the news are there", || {
        let (_, page) = host.get("/api/work-sessions?status=ACTIVE");
        Some(ids(&page)).filter(|ids| !ids.is_empty())
    });
    assert_eq!(active, ["ws_03"]);
}

#[test]
fn events_come_newest_first_or_from_a_place_or_a_time_on() {
    let host = thirty();
    let newest = pages(&host, "/api/events?role=conversation.main&limit=7", "events", "cursor");
    assert_eq!(newest.len(), 60);
    assert!(newest.is_sorted_by_key(|event| std::cmp::Reverse(event["seq"].as_i64())));
    let since = NOW - 10 * MINUTE;
    let oldest = pages_since(&host, &format!("/api/events?role=conversation.main&limit=7&since={since}"));
    assert_eq!(oldest.len(), 20, "ten sessions of two events");
    assert!(oldest.is_sorted_by_key(|event| event["seq"].as_i64()));
    let iso = chela::clock::Timestamp(since).to_string();
    assert_eq!(pages_since(&host, &format!("/api/events?role=conversation.main&limit=50&since={iso}")), oldest);
    let sends = pages(&host, "/api/events?type=a2a.send,a2a.complete&limit=7", "events", "cursor");
    assert_eq!(sends.len(), 40);
    assert!(sends.is_sorted_by_key(|event| std::cmp::Reverse(event["seq"].as_i64())), "two types in one order");
    let (_, of_one) = host.get("/api/events?workSessionId=ws_07");
    assert_eq!(of_one["events"].as_array().map(Vec::len), Some(2));
    let (_, none) = host.get("/api/events?workSessionId=ws_never&type=a2a.send");
    assert_eq!(none, json!({ "events": [], "nextCursor": null }));
}

/// Oldest first: the next page begins at `since=` what the page before said.
fn pages_since(host: &TestHost, path: &str) -> Vec<Value> {
    let (base, since) = path.split_once("&since=").expect("since comes last");
    let (mut all, mut since) = (Vec::new(), since.to_owned());
    loop {
        let (status, page) = host.get(&format!("{base}&since={since}"));
        assert_eq!(status, 200, "{page}");
        all.extend(page["events"].as_array().expect("events").iter().cloned());
        match page["nextCursor"].as_str() {
            Some(more) => since = more.to_owned(),
            None => return all,
        }
    }
}

#[test]
fn words_are_found_by_their_beginnings_with_what_stands_around_them() {
    let host = thirty();
    let all = pages(&host, "/api/work-sessions?limit=7&q=%EB%B0%B0%ED%8F%AC", "workSessions", "cursor");
    assert_eq!(all.len(), 30, "a word of two syllables finds the one with its particle, each session once");
    assert!(all[0]["matches"][0]["passage"].as_str().expect("a passage").contains("배포를"), "{}", all[0]);
    let (_, english) = host.get("/api/work-sessions?q=DEPLOY%20under&limit=3");
    assert_eq!(english["workSessions"].as_array().map(Vec::len), Some(3), "{english}");
    let (_, one) = host.get("/api/work-sessions?q=%EB%A9%94%EC%8B%9C%EC%A7%80%2017");
    assert_eq!(ids(&one), ["ws_17"]);
    let (_, filtered) = host.get("/api/work-sessions?q=deploying&status=QUIET&limit=500");
    assert_eq!(filtered["workSessions"].as_array().map(Vec::len), Some(10));
    for nothing in ["q=%EC%97%86%EB%8A%94%EB%A7%90", "q=%22%2A", "q=loying"] {
        let (status, page) = host.get(&format!("/api/work-sessions?{nothing}"));
        assert_eq!((status, ids(&page).len()), (200, 0), "{nothing}");
    }
}

#[test]
fn a_search_names_each_session_once_however_much_matches() {
    let say =
        |session: &str, n: u64| event("a2a.send", NOW - MINUTE * 600 + n, talk(session, "eden", "seum", "a needle"));
    let mut lines = Vec::new();
    lines.extend(["ws_a", "ws_b", "ws_a", "ws_c"].into_iter().zip(0..).map(|(session, n)| say(session, n)));
    // More of one session than one request looks at.
    lines.extend((10..20_600).map(|n| say("ws_long", n)));
    lines
        .extend(["ws_d", "ws_b", "ws_e", "ws_d", "ws_f"].into_iter().zip(30_000..).map(|(session, n)| say(session, n)));
    let host = TestHost::start_at(with_log(&lines), NOW).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    host.eventually("all of it is read", || (host.get("/api/work-sessions/ws_f").0 == 200).then_some(()));
    for limit in [1, 2, 3, 50] {
        let path = format!("/api/work-sessions?q=needle&limit={limit}");
        let found = ids(&json!({ "workSessions": pages(&host, &path, "workSessions", "cursor") }));
        assert_eq!(found, ["ws_f", "ws_d", "ws_e", "ws_b", "ws_long", "ws_c", "ws_a"], "in pages of {limit}");
    }
    let (status, refused) = host.get("/api/work-sessions?q=needle&cursor=q7.1");
    assert_eq!((status, &refused["error"]["field"]), (400, &json!("cursor")));
}

#[test]
fn sessions_are_classified_and_an_operator_s_word_stands_over_it() {
    let host = thirty();
    let categorised = || {
        let (_, session) = host.get("/api/work-sessions/ws_05");
        session["collabCategory"].as_str().map(|category| (category.to_owned(), session.clone()))
    };
    let (category, session) = host.eventually("the classifier has spoken", categorised);
    assert_eq!(category, "infra_ops", "{session}");
    assert!(session["categoryVersion"].as_str().expect("a version").starts_with("rules "), "{session}");
    let (_, page) = host.get("/api/work-sessions?viewCategory=infra_ops&limit=500");
    assert!(ids(&page).contains(&"ws_05".to_owned()));
    let (_, events) = host.get("/api/events?viewCategory=infra_ops&workSessionId=ws_05");
    assert_eq!(events["events"][0]["data"]["collabCategory"], "infra_ops", "events show their session's category");

    let patch = |body: Value| {
        let answer = host.request("PATCH", "/api/work-sessions/ws_05/category", &[], body.to_string().as_bytes());
        (answer.status, answer.json())
    };
    let (status, changed) = patch(json!({ "collabCategory": "legal_compliance", "updatedBy": "mina", "extra": 1 }));
    assert_eq!((status, &changed["error"]["code"]), (400, &json!("invalid_parameter")), "unknown fields are refused");
    let (status, changed) = patch(json!({ "collabCategory": "legal_compliance", "updatedBy": "mina" }));
    assert_eq!(
        (status, &changed["collabCategory"], &changed["categorySource"]),
        (200, &json!("legal_compliance"), &json!("manual_override"))
    );
    let (_, page) = host.get("/api/work-sessions?viewCategory=legal_compliance");
    assert_eq!(ids(&page), ["ws_05"]);
    let file: Value =
        serde_json::from_slice(&std::fs::read(host.dir.state.category_overrides()).expect("written")).expect("JSON");
    assert_eq!(
        (&file["ws_05"]["collabCategory"], &file["ws_05"]["updatedBy"]),
        (&json!("legal_compliance"), &json!("mina"))
    );
    assert!(file["ws_05"]["updatedAt"].as_str().expect("a time").starts_with("20"));
    let (status, back) = patch(json!({ "collabCategory": null }));
    assert_eq!((status, &back["collabCategory"]), (200, &json!("infra_ops")));
    let (_, stats) = host.get("/api/stats?days=2");
    assert_eq!(stats["total"]["workSessions"], 30, "{stats}");
    assert_eq!(stats["total"]["categories"]["legal_compliance"], Value::Null, "taken back");
}

#[test]
fn an_override_that_somebody_else_writes_is_taken_up_and_a_broken_file_is_not_written_over() {
    let host = thirty();
    let path = host.dir.state.category_overrides();
    std::fs::write(&path, r#"{"ws_02": {"collabCategory": "biz_strategy", "updatedAt": "2026-01-01T00:00:00Z"}}"#)
        .expect("written");
    support::eventually("it is shown", || {
        let (_, page) = host.get("/api/work-sessions?viewCategory=biz_strategy");
        (ids(&page) == ["ws_02"]).then_some(())
    });
    std::fs::write(&path, "{ broken").expect("written");
    let answer = host.request("PATCH", "/api/work-sessions/ws_02/category", &[], br#"{"collabCategory": "infra_ops"}"#);
    assert_eq!(answer.status, 503);
    assert!(
        answer.json()["error"]["message"].as_str().expect("words").contains("work-session-category-overrides.json")
    );
    assert_eq!(std::fs::read_to_string(&path).expect("readable"), "{ broken");
    std::fs::remove_file(&path).expect("mended");
}

#[test]
fn what_may_not_be_asked_is_refused_by_name() {
    let host = thirty();
    let check = |path: &str, status: u16, code: &str, field: Option<&str>| {
        let (found, body) = host.get(path);
        assert_eq!((found, body["error"]["code"].as_str()), (status, Some(code)), "{path}: {body}");
        assert_eq!(body["error"]["field"].as_str(), field, "{path}: {body}");
        assert!(body["error"]["message"].as_str().is_some_and(|said| said.len() > 10), "{body}");
    };
    check("/api/events?limit=0", 400, "invalid_parameter", Some("limit"));
    check("/api/events?limit=501", 400, "invalid_parameter", Some("limit"));
    check("/api/events?limit=ten", 400, "invalid_parameter", Some("limit"));
    check("/api/events?role=conversation", 400, "invalid_parameter", Some("role"));
    check("/api/events?since=yesterday", 400, "invalid_parameter", Some("since"));
    check("/api/events?since=-5", 400, "invalid_parameter", Some("since"));
    check("/api/events?cursor=x", 400, "invalid_parameter", Some("cursor"));
    check("/api/events?cursor=1:2&since=5", 400, "invalid_parameter", Some("cursor"));
    check("/api/events?viewCategory=cooking", 400, "invalid_parameter", Some("viewCategory"));
    check("/api/events?stauts=ACTIVE", 400, "invalid_parameter", Some("stauts"));
    check("/api/events?limit=5&limit=6", 400, "invalid_parameter", Some("limit"));
    check("/api/work-sessions?status=active", 400, "invalid_parameter", Some("status"));
    check("/api/work-sessions?threadState=stuck", 400, "invalid_parameter", Some("threadState"));
    check("/api/work-sessions?q=", 400, "invalid_parameter", Some("q"));
    check(&format!("/api/work-sessions?q={}", "x".repeat(201)), 400, "invalid_parameter", Some("q"));
    check("/api/work-sessions?cursor=1.x", 400, "invalid_parameter", Some("cursor"));
    check("/api/work-sessions?type=", 400, "invalid_parameter", Some("type"));
    check("/api/stats?days=0", 400, "invalid_parameter", Some("days"));
    check("/api/health?verbose=1", 400, "invalid_parameter", Some("verbose"));
    check("/api/work-sessions/ws_never", 404, "unknown_id", None);
    check("/api/agents/nobody/tasks", 404, "unknown_id", None);
    check("/api/agents/ruda/tasks/task_never", 404, "unknown_id", None);
    check("/api/jobs/job_never", 404, "unknown_id", None);
    check("/ws", 400, "invalid_parameter", Some("Upgrade"));
    let change = |path: &str, headers: &[(&str, &str)], body: &str| {
        let answer = host.request("PATCH", path, headers, body.as_bytes());
        (answer.status, answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let path = "/api/work-sessions/ws_05/category";
    assert_eq!(change(path, &[], r#"{"collabCategory":"cooking"}"#), (400, "invalid_parameter".into()));
    assert_eq!(change(path, &[], r#"{"updatedBy":"x"}"#), (400, "invalid_parameter".into()));
    assert_eq!(change(path, &[], "nonsense"), (400, "invalid_parameter".into()));
    assert_eq!(change(path, &[], &"x".repeat(70_000)), (413, "body_too_large".into()));
    assert_eq!(
        change(path, &[("Authorization", "Bearer a-token-of-somebody-else")], "{}"),
        (401, "token_wrong".into())
    );
    let unknown = change("/api/work-sessions/ws_never/category", &[], r#"{"collabCategory":"infra_ops"}"#);
    assert_eq!(unknown, (404, "unknown_id".into()));
}

#[test]
fn reads_are_open_to_this_machine_on_the_monitor_s_port_alone_and_only_where_the_configuration_says_so() {
    use chela::client::Client;
    use chela::port::Port;
    for (open, expected) in [(false, 401), (true, 200)] {
        let host = TestHost::start_with(|config| config["monitor"]["openReads"] = json!(open));
        let ask = |port: Port, verb: &str, path: &str| {
            let client = Client::new(host.address(port), None);
            host.block_on(client.send(verb.parse().expect("a verb"), path, &[], Vec::new())).expect("an answer").status
        };
        assert_eq!(ask(Port::Monitor, "GET", "/api/agents"), expected);
        assert_eq!(ask(Port::Gateway, "GET", "/api/agents"), 401);
        assert_eq!(ask(Port::Monitor, "PATCH", "/api/work-sessions/x/category"), 401);
        assert_eq!(ask(Port::Monitor, "GET", "/metrics"), 401);
    }
}

#[test]
fn the_document_is_printed_without_a_gateway_as_one_answers_it() {
    let dir = TestDir::empty();
    let printed = chela(&dir.state, &["openapi"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert_eq!(chela(&dir.state, &["openapi", "--json"]).json(), printed.json());
    assert_eq!(dir.files(), Vec::<String>::new(), "and makes nothing");
    let (_, answered) = TestHost::start().get("/api/openapi.json");
    assert_eq!(printed.json(), answered);
}

#[test]
fn every_operation_answers_as_the_document_says() {
    let host = TestHost::start_at(old_system_with_jobs(), 1_771_318_800_000)
        .unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    support::eventually("its jobs are taken over", || (host.get("/api/jobs/run-9c41d2").0 == 200).then_some(()));
    let (_, document) = host.get("/api/openapi.json");
    let mut called = 0;
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (verb, operation) in operations.as_object().expect("operations") {
            for (id, expected) in [("there", "200"), ("never", "404")] {
                let Some(url) = filled(path, id == "there") else { continue };
                let body = match verb.as_str() {
                    "patch" => r#"{"collabCategory":"infra_ops"}"#,
                    "post" if path.starts_with("/api/human-queries/") => r#"{"answer":"8080"}"#,
                    "post" => r#"{"taskId":"task_20260213_oauth","agentId":"eden","progress":"확인"}"#,
                    _ => "",
                };
                if id == "never" && !path.contains('{') {
                    continue;
                }
                // The index is there once this answers.
                host.get("/api/stats");
                let answer = host.request(&verb.to_uppercase(), &url, &[], body.as_bytes());
                assert_eq!(answer.status.to_string(), expected, "{verb} {url}: {}", answer.json());
                let response = &operation["responses"][expected];
                assert!(response.is_object(), "{verb} {path} does not say what {expected} is");
                let schema = &response["content"]["application/json"]["schema"];
                let whole = json!({ "$ref": schema["$ref"], "components": document["components"] });
                let validator = jsonschema::validator_for(&whole).expect("a schema");
                let problems: Vec<String> = validator
                    .iter_errors(&answer.json())
                    .map(|error| format!("{}: {error}", error.instance_path()))
                    .collect();
                assert!(problems.is_empty(), "{verb} {url}: {problems:?}");
                called += 1;
            }
        }
    }
    assert!(called >= 29, "{called} calls");
}

/// A path with names of the fixture, or with ones that nothing has; none where such a thing is no error.
fn filled(path: &str, there: bool) -> Option<String> {
    let session = "ws_b94e21c7-03da-4d58-8f2e-6a1c7e5d9042";
    let id = match (there, path) {
        (false, _) => "never",
        // Nobody of the old system asks people; `human_answers` has one that is there.
        (true, "/api/human-queries/{id}/answer") => return None,
        (true, path) if path.starts_with("/api/agents/") || path.starts_with("/api/workspace/") => "eden",
        (true, path) if path.starts_with("/api/jobs/") => "run-9c41d2",
        (true, path) if path.starts_with("/api/tasks/") => "task_20260213_oauth",
        (true, _) => session,
    };
    let path = path.replace("{id}", id).replace("{path}", "tasks/task_20260213_oauth.md");
    Some(path.replace("{taskId}", if there { "task_20260213_oauth" } else { "task_never" }))
}

#[test]
fn the_old_monitors_header_opens_the_api_and_nothing_else() {
    let host = TestHost::start();
    let token = host.token.clone();
    let client = chela::client::Client::new(host.address(chela::port::Port::Monitor), None);
    let ask = |path: &str, token: &str| {
        let headers = [("X-Task-Monitor-Token", token)];
        host.block_on(client.send("GET".parse().expect("a method"), path, &headers, vec![])).expect("an answer").status
    };
    assert_eq!(ask("/api/health", &token), 200);
    assert_eq!(ask("/api/health", "a-token-of-somebody-else"), 401);
    assert_eq!(ask("/metrics", &token), 401);
}
