//! The index: made from the log, made again when it is missing, of another version or broken, and never older than what was acknowledged.

use std::fs;
use std::time::Duration;

use chela::event::Kind;
use serde_json::{Value, json};
use support::events::{event, old_system, with_log};
use support::{TestDir, TestHost, guest, path_of};

const NOW: u64 = 1_700_000_000_000;

fn start(dir: TestDir) -> TestHost {
    TestHost::start_at(dir, NOW).unwrap_or_else(|(error, _)| panic!("it starts: {error}"))
}

/// Everything the API shows of sessions and of the events of agents, but for what depends on when it was asked.
fn shown(host: &TestHost) -> Value {
    let (_, sessions) = host.get("/api/work-sessions?limit=500");
    let details: Vec<Value> = sessions["workSessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .map(|session| {
            let mut detail =
                host.get(&format!("/api/work-sessions/{}", session["workSessionId"].as_str().expect("an id"))).1;
            for field in [
                "collabCategory",
                "collabSecondary",
                "collabSubTags",
                "categoryConfidence",
                "categorySource",
                "categoryVersion",
                "categoryReason",
                "classification",
            ] {
                detail.as_object_mut().expect("an object").remove(field);
            }
            detail
        })
        .collect();
    json!(details)
}

fn log_of(sessions: u64) -> Vec<Value> {
    let mut lines = Vec::new();
    for n in 0..sessions * 6 {
        let session = format!("ws_{}", n % sessions);
        let data = json!({ "workSessionId": session, "conversationId": format!("c{}", n % (2 * sessions)), "fromAgent": "eden", "toAgent": "seum",
            "message": format!("메시지 {n}"), "eventRole": "conversation.main", "taskId": format!("task_{}", n % 7) });
        lines.push(event(["a2a.send", "a2a.response", "a2a.complete"][(n % 3) as usize], NOW - 1_000_000 + n, data));
    }
    lines
}

#[test]
fn an_index_that_is_missing_broken_or_of_another_version_is_made_again_and_shows_the_same() {
    let host = start(with_log(&log_of(40)));
    let before = shown(&host);
    assert_eq!(before.as_array().map(Vec::len), Some(40));
    let mut dir = host.stop();
    type Damage = fn(&std::path::Path);
    let damage: [(&str, Damage); 4] = [
        ("missing", |path| fs::remove_dir_all(path.parent().expect("a folder")).expect("removed")),
        ("not a database", |path| fs::write(path, "nonsense").expect("written")),
        ("empty", |path| fs::write(path, "").expect("written")),
        ("of another version", |path| {
            let mut bytes = fs::read(path).expect("readable");
            // Where SQLite keeps the number that an application gives its layout.
            bytes[60..64].copy_from_slice(&9_999_u32.to_be_bytes());
            fs::write(path, bytes).expect("written");
        }),
    ];
    for (what, harm) in damage {
        harm(&dir.state.event_index());
        let host = start(dir);
        assert_eq!(shown(&host), before, "{what}");
        dir = host.stop();
    }
}

#[test]
fn a_log_that_was_replaced_is_read_anew() {
    let host = start(with_log(&log_of(5)));
    assert_eq!(shown(&host).as_array().map(Vec::len), Some(5));
    let dir = host.stop();
    support::events::write_log(&dir, &log_of(9)[20..]);
    let host = start(dir);
    assert_eq!(shown(&host).as_array().map(Vec::len), Some(9));
}

#[test]
fn a_session_that_grows_over_restarts_adds_up_as_if_read_at_once() {
    use std::io::Write;
    let lines = log_of(12);
    let whole = shown(&start(with_log(&lines)));
    let mut dir = with_log(&lines[..10]);
    for part in [10..25, 25..50, 50..72] {
        let host = start(dir);
        host.get("/api/stats");
        dir = host.stop();
        let mut log = fs::OpenOptions::new().append(true).open(dir.state.event_log()).expect("opens");
        lines[part].iter().for_each(|line| writeln!(log, "{line}").expect("written"));
    }
    let placeless = |value: &Value| {
        let mut value = value.clone();
        for session in value.as_array_mut().expect("sessions") {
            session["lastSeq"] = json!(0);
            session["threads"]
                .as_array_mut()
                .expect("threads")
                .iter_mut()
                .for_each(|thread| thread["lastSeq"] = json!(0));
        }
        value
    };
    assert_eq!(placeless(&shown(&start(dir))), placeless(&whole), "between the lines are those of the gateways");
}

#[test]
fn lines_that_are_no_events_are_counted_and_harm_no_other() {
    let dir = old_system();
    let mut log = fs::read(dir.state.event_log()).expect("readable");
    log.extend_from_slice(b"\xff\xfe not text\n{\"type\":\"a2a.send\",\"ts\":1}\n[1,2]\n{\"ts\":5}\n\n");
    log.extend_from_slice(
        format!("{{\"type\":\"big\",\"ts\":2,\"data\":{{\"message\":\"{}\"}}}}\n", "x".repeat(10 * 1024 * 1024))
            .as_bytes(),
    );
    log.extend_from_slice(
        b"{\"type\":\"after.the.big.one\",\"ts\":1771310000000,\"data\":{\"workSessionId\":\"ws_late\"}}\n",
    );
    fs::write(dir.state.event_log(), log).expect("written");
    let host = start(dir);
    let (_, page) = host.get("/api/events?workSessionId=ws_late");
    assert_eq!(page["events"][0]["type"], "after.the.big.one");
    let (_, health) = host.get("/api/health");
    assert_eq!(health["monitor"]["malformedLines"], 1 + 4, "{health}");
}

#[test]
fn a_clock_that_was_set_back_or_far_ahead_hides_nothing() {
    let talk = |n: u64| json!({ "workSessionId": format!("ws_{n}"), "fromAgent": "a", "toAgent": "b", "message": "말", "eventRole": "conversation.main" });
    let year = 365 * 24 * 3_600_000_u64;
    let host = start(with_log(&[
        event("a2a.send", NOW - 5_000, talk(1)),
        event("a2a.send", NOW + year, talk(2)),
        event("a2a.send", NOW - 3_000, talk(3)),
        event("a2a.send", NOW - 4_000, talk(4)),
    ]));
    let since = |ms: u64| {
        let (_, page) = host.get(&format!("/api/events?role=conversation.main&since={ms}"));
        let rows = page["events"].as_array().expect("events").iter();
        rows.map(|event| event["data"]["workSessionId"].as_str().expect("an id").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(since(NOW - 5_000), ["ws_1", "ws_2", "ws_3", "ws_4"], "in the order of the log");
    assert_eq!(since(NOW - 3_500), ["ws_2", "ws_3"]);
    assert_eq!(since(NOW), ["ws_2"]);
    let (_, page) = host.get("/api/work-sessions?status=ACTIVE");
    assert_eq!(page["workSessions"].as_array().map(Vec::len), Some(4));
}

#[test]
fn another_classifier_is_asked_again_about_roles_that_no_writer_gave() {
    let mut lines = log_of(40);
    for (n, line) in lines.iter_mut().enumerate() {
        line["data"].as_object_mut().expect("data").remove("eventRole");
        line["data"]["fromSessionKey"] = json!(if n % 4 == 0 { "agent:eden:subagent:1f" } else { "agent:eden:main" });
    }
    let mut given = log_of(1).remove(0);
    given["data"]["workSessionId"] = json!("ws_given");
    lines.push(given);
    let host = start(with_log(&lines));
    // `words` tells by session keys; `steady` calls everything a delegation.
    host.load("classifier", &path_of(&guest("words")), json!({})).expect("loaded");
    host.eventually("roles are those of the session keys", || (roles(&host) == (181, 60)).then_some(()));
    let body = br#"{"collabCategory": "qa_validation"}"#;
    assert_eq!(host.request("PATCH", "/api/work-sessions/ws_3/category", &[], body).status, 200);
    host.load("classifier", &path_of(&guest("steady")), json!({})).expect("loaded");
    host.eventually("roles are those of the new classifier", || {
        // Whatever is being made, everything is answered meanwhile.
        assert_eq!(host.get("/api/work-sessions?limit=500").1["workSessions"].as_array().map(Vec::len), Some(41));
        (roles(&host) == (1, 240)).then_some(())
    });
    let (_, session) = host.get("/api/work-sessions/ws_0");
    assert_eq!(session["roleCounts"]["delegation.subagent"], 6, "{session}");
    let (_, session) = host.get("/api/work-sessions/ws_3");
    assert_eq!(
        (&session["collabCategory"], &session["categorySource"]),
        (&json!("qa_validation"), &json!("manual_override"))
    );
    host.eventually("it is in place", || {
        host.get("/api/health").1["monitor"].get("renewalPercent").is_none().then_some(())
    });
    let left: Vec<_> = fs::read_dir(host.dir.state.index())
        .expect("readable")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains("next")), "{left:?}");
    assert_eq!(roles(&start(host.stop())), (1, 240), "a restart keeps them");
}

/// How many events are conversations of main agents, and how many delegations.
fn roles(host: &TestHost) -> (usize, usize) {
    let of = |role: &str| {
        let (_, page) = host.get(&format!("/api/events?role={role}&limit=500"));
        page["events"].as_array().map_or(0, Vec::len)
    };
    (of("conversation.main"), of("delegation.subagent"))
}

#[test]
fn another_classifier_classifies_again_without_a_change_of_the_log() {
    let mut lines = log_of(70);
    for line in &mut lines {
        line["data"]["message"] = json!("배포 후 장애 대응이 필요합니다. 서버를 재시작하고 롤백하세요.");
    }
    let host = start(with_log(&lines));
    let of_category = |key: &str| {
        host.get(&format!("/api/work-sessions?viewCategory={key}&limit=500")).1["workSessions"]
            .as_array()
            .map_or(0, Vec::len)
    };
    host.eventually("all are classified", || (of_category("infra_ops") == 70).then_some(()));
    let log = fs::read(host.dir.state.event_log()).expect("readable");
    host.load("classifier", &path_of(&guest("steady")), json!({ "category": "biz_strategy" })).expect("loaded");
    host.eventually("all are classified again", || (of_category("biz_strategy") == 70).then_some(()));
    assert_eq!(of_category("infra_ops"), 0);
    let after = fs::read(host.dir.state.event_log()).expect("readable");
    assert!(after.starts_with(&log), "the log only grows");
    host.eventually("it says that none is left", || {
        (host.get("/api/health").1["monitor"]["leftToClassify"] == 0).then_some(())
    });
    let decided = host.told("policy.decided").len();
    assert!(decided < 20, "what was there before is classified without an event for each: {decided}");
}

#[test]
fn a_task_named_after_the_last_message_counts_for_the_category_as_in_a_new_index() {
    let host = start(with_log(&[]));
    let session = |host: &TestHost| host.get("/api/work-sessions/ws_1").1;
    let talk = json!({ "workSessionId": "ws_1", "fromAgent": "eden", "toAgent": "seum", "message": "안녕하세요, 부탁이 있어요" });
    host.emit("eden", Kind::A2aSend, talk);
    host.eventually("it is classified", || session(&host)["classification"].is_object().then_some(()));
    assert_eq!(session(&host)["collabCategory"], Value::Null);
    let title = "배포 후 장애 대응: 서버 재시작과 롤백, kubernetes deploy";
    host.emit("eden", Kind::TaskStarted, json!({ "workSessionId": "ws_1", "taskId": "task_1", "title": title }));
    host.eventually("the task is there", || (session(&host)["eventCount"] == 2).then_some(()));
    // Longer than the silence after which the classifier is asked.
    host.clock.advance(Duration::from_secs(20));
    host.eventually("it counts", || (session(&host)["collabCategory"] == "infra_ops").then_some(()));
    let dir = host.stop();
    fs::remove_dir_all(dir.state.index()).expect("removed");
    let host = start(dir);
    host.eventually("it counts", || (session(&host)["collabCategory"] == "infra_ops").then_some(()));
}

#[test]
fn a_classifier_that_had_no_answer_is_asked_again_without_news() {
    let host = start(with_log(&[]));
    host.load("classifier", &path_of(&guest("unruly")), json!({})).expect("loaded");
    let session = || host.get("/api/work-sessions/ws_1").1;
    let talk = json!({ "workSessionId": "ws_1", "fromAgent": "eden", "toAgent": "seum", "message": "!decline-first" });
    host.emit("eden", Kind::A2aSend, talk);
    let found = host.eventually("it was asked again", || {
        host.clock.advance(Duration::from_secs(5));
        Some(session()).filter(|session| session["collabCategory"] == "infra_ops")
    });
    assert_eq!(found["eventCount"], 1, "and nobody had to say anything");
    let asked_at = found["classification"]["at"].as_u64().expect("a time");
    assert!(asked_at >= NOW + 60_000, "not at once: {found}");
    assert!(!host.told("plugin.fallback").is_empty(), "it had no answer before");
}

#[test]
fn a_log_whose_end_was_lost_and_grew_again_is_read_anew() {
    let lines = log_of(3);
    let host = start(with_log(&lines));
    host.eventually("all of it is shown", || (shown(&host).as_array().map(Vec::len) == Some(3)).then_some(()));
    let dir = host.stop();
    let path = dir.state.event_log();
    let whole = fs::read_to_string(&path).expect("readable");
    // A power cut took the last lines away; others of the same length came in their place.
    let (kept, lost) = whole.split_at(whole.len() / 2);
    let (ended, rest) = (kept.rfind('\n').expect("lines") + 1, lost.len());
    let mut text = kept[..ended].to_owned();
    let other = event(
        "a2a.send",
        NOW,
        json!({ "workSessionId": "ws_other", "message": "x".repeat(whole.len() - ended + rest) }),
    );
    text.push_str(&format!("{other}\n"));
    fs::write(&path, text).expect("written");
    let host = start(dir);
    let found = host.eventually("what is there now is shown", || {
        let (status, session) = host.get("/api/work-sessions/ws_other");
        (status == 200).then_some(session)
    });
    assert_eq!(found["eventCount"], 1);
    let (_, page) = host.get("/api/events?type=a2a.complete&limit=500");
    let there = text_lines(&host, "a2a.complete");
    assert_eq!(page["events"].as_array().map(Vec::len), Some(there), "and what is gone is not");
}

/// How many lines of the log are of a type.
fn text_lines(host: &TestHost, kind: &str) -> usize {
    host.dir.event_types().iter().filter(|known| *known == kind).count()
}

#[test]
fn what_a_removed_file_of_the_log_said_leaves_the_index_while_the_gateway_runs() {
    let line = |n: u64, session: &str| {
        let data = json!({ "workSessionId": session, "conversationId": format!("c_{session}"), "fromAgent": "eden", "toAgent": "seum",
            "message": format!("메시지 {n}"), "eventRole": "conversation.main" });
        event("a2a.send", NOW - 1_000_000 + n, data).to_string()
    };
    let dir = with_log(&[]);
    let closed = |number: u64| dir.state.logs().join(format!("coordination-events.2023-11.{number}.ndjson"));
    for (number, session) in [(1, "ws_old"), (2, "ws_new")] {
        let lines: String = (0..50).map(|n| format!("{}\n", line(number * 100 + n, session))).collect();
        fs::write(closed(number), lines).expect("written");
    }
    let (first, host) = (closed(1), start(dir));
    let status = |session: &str| host.get(&format!("/api/work-sessions/{session}")).0;
    assert_eq!((status("ws_old"), status("ws_new")), (200, 200));
    fs::remove_file(first).expect("removed, as the gateway does itself once a day");
    host.clock.advance(Duration::from_secs(2 * 3_600));
    host.eventually("it is forgotten", || (status("ws_old") == 404).then_some(()));
    assert_eq!(status("ws_new"), 200);
}
