//! How a team works, seen through the monitor: asking several at once, helpers, pauses, rework, and the same work by other agents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chela::event::{Kind, Role};
use serde_json::{Value, json};
use support::{TestDir, TestHost, eventually};

const NOW: u64 = 1_700_000_000_000;
const HOUR: Duration = Duration::from_secs(3_600);

fn team() -> TestHost {
    let dir = TestDir::with_config(|config| {
        let agent = |id: &str| json!({ "id": id });
        config["agents"]["list"] = json!([agent("eden"), agent("seum"), agent("ieum"), agent("nuri")]);
        config["agents"]["default"] = json!("eden");
        config["teams"] = json!([]);
    });
    start(dir, NOW)
}

fn start(dir: TestDir, now: u64) -> TestHost {
    let host = TestHost::start_at(dir, now).unwrap_or_else(|(error, _)| panic!("it starts: {error}"));
    // The index is there once this answers.
    host.get("/api/stats");
    host
}

fn main_key(agent: &str) -> String {
    format!("agent:{agent}:main")
}

/// A message between two main agents of a session.
fn said(session: &str, from: &str, to: &str, text: &str) -> Value {
    json!({
        "workSessionId": session, "conversationId": format!("{session}:{from}:{to}"), "fromAgent": from, "toAgent": to,
        "fromSessionType": "main", "toSessionType": "main", "message": text,
    })
}

fn ended(session: &str, from: &str, to: &str) -> Value {
    json!({ "workSessionId": session, "conversationId": format!("{session}:{from}:{to}"), "fromAgent": from, "toAgent": to })
}

/// Every event that a query finds, as soon as there are `count`; decisions about them, however many there were, left aside.
fn events(host: &TestHost, query: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{query} finds {count}"), || {
        let (status, page) = host.get(&format!("/api/events?limit=500&{query}"));
        assert_eq!(status, 200, "{page}");
        let rows = page["events"].as_array()?.iter().filter(|event| event["type"] != "policy.decided");
        let rows: Vec<Value> = rows.cloned().collect();
        (rows.len() == count).then_some(rows)
    })
}

fn types(events: &[Value]) -> BTreeMap<&str, usize> {
    let mut types = BTreeMap::new();
    for event in events {
        *types.entry(event["type"].as_str().expect("a type")).or_default() += 1;
    }
    types
}

/// The status of a session; empty before there is one.
fn status_of(host: &TestHost, session: &str) -> String {
    let (_, body) = host.get(&format!("/api/work-sessions/{session}"));
    body["status"].as_str().unwrap_or_default().to_owned()
}

fn becomes(host: &TestHost, session: &str, status: &str) {
    eventually(&format!("{session} is {status}"), || (status_of(host, session) == status).then_some(()));
}

#[test]
fn one_asks_three_and_all_of_it_is_one_session_with_its_events_apart_by_role() {
    let host = team();
    let asked = ["seum", "ieum", "nuri"];
    host.emit("eden", Kind::TaskStarted, json!({ "workSessionId": "ws_1", "taskId": "task_1", "title": "결제" }));
    for to in asked {
        host.emit("eden", Kind::A2aSend, said("ws_1", "eden", to, "결제 모듈을 나누어 구현합시다"));
        host.emit("eden", Kind::JobCreated, json!({ "workSessionId": "ws_1", "jobId": format!("job_{to}") }));
    }
    let helper = json!({ "workSessionId": "ws_1", "runId": "r1", "childSessionKey": "agent:seum:subagent:x" });
    host.emit("seum", Kind::A2aSpawn, helper.clone());
    host.emit("seum", Kind::A2aSpawnResult, helper);
    // They come back in another order than they were asked.
    for from in ["nuri", "seum", "ieum"] {
        let mut answer = said("ws_1", "eden", from, "다 했습니다");
        (answer["fromAgent"], answer["toAgent"]) = (json!(from), json!("eden"));
        host.emit(from, Kind::A2aResponse, answer);
        host.emit("eden", Kind::A2aComplete, ended("ws_1", "eden", from));
        host.emit("eden", Kind::A2aDelivery, json!({ "workSessionId": "ws_1" }));
    }
    host.emit("eden", Kind::TaskCompleted, json!({ "workSessionId": "ws_1", "taskId": "task_1" }));

    let all = events(&host, "workSessionId=ws_1", 1 + 6 + 2 + 9 + 1);
    let of = |role: &str, count: usize| events(&host, &format!("workSessionId=ws_1&role={role}"), count);
    let conversation = of("conversation.main", 9);
    assert_eq!(types(&conversation), [("a2a.send", 3), ("a2a.response", 3), ("a2a.complete", 3)].into());
    let delegation = of("delegation.subagent", 2);
    assert_eq!(types(&delegation), [("a2a.spawn", 1), ("a2a.spawn_result", 1)].into());
    let orchestration = of("orchestration.task", 5);
    assert_eq!(types(&orchestration), [("task.started", 1), ("job.created", 3), ("task.completed", 1)].into());
    let system = of("system.observability", 3);
    assert_eq!(types(&system), [("a2a.delivery", 3)].into());
    let places = |events: &[Value]| events.iter().map(|event| event["seq"].as_i64()).collect::<BTreeSet<_>>();
    let apart = [conversation, delegation, orchestration, system].concat();
    assert_eq!((apart.len(), places(&apart)), (all.len(), places(&all)), "each event has one role");

    let (_, page) = host.get("/api/work-sessions?limit=500");
    assert_eq!(page["workSessions"].as_array().map(Vec::len), Some(1), "{page}");
    let (_, session) = host.get("/api/work-sessions/ws_1");
    let names: BTreeSet<&str> =
        session["participants"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    assert_eq!(names, ["eden", "ieum", "nuri", "seum"].into());
    assert_eq!(session["roleCounts"]["conversation.main"], 9, "{session}");
    assert_eq!((&session["threadCounts"]["resolved"], &session["threadCounts"]["blocked"]), (&json!(3), &json!(0)));
    assert_eq!((&session["status"], &session["taskIds"]), (&json!("QUIET"), &json!(["task_1"])));
}

#[test]
fn only_what_main_agents_say_to_each_other_is_conversation() {
    let host = team();
    let keys = |from: String, to: String| json!({ "workSessionId": "ws_keys", "sessionKey": from, "targetSessionKey": to, "message": "m" });
    // Written by the gateway of today, with roles; and by writers that gave none.
    host.emit("eden", Kind::A2aSend, said("ws_main", "eden", "seum", "말"));
    let mut to_helper = said("ws_helper", "eden", "seum", "말");
    to_helper["eventRole"] = json!("delegation.subagent");
    host.emit("eden", Kind::A2aSend, to_helper);
    host.emit(
        "eden",
        Kind::A2aAutoRoute,
        json!({ "workSessionId": "ws_main", "fromAgent": "eden", "toAgent": "seum" }),
    );
    let dir = host.stop();
    let old = [
        ("main to main", keys(main_key("eden"), main_key("seum")), true),
        ("main to helper", keys(main_key("eden"), "agent:seum:subagent:1".into()), false),
        ("helper to main", keys("agent:seum:subagent:1".into(), main_key("eden")), false),
        (
            "both of the team",
            json!({ "workSessionId": "ws_names", "fromAgent": "eden", "toAgent": "nuri", "message": "m" }),
            true,
        ),
        (
            "a stranger",
            json!({ "workSessionId": "ws_stranger", "fromAgent": "eden", "toAgent": "worker-7", "message": "m" }),
            false,
        ),
        ("nobody", json!({ "workSessionId": "ws_nobody", "message": "m" }), false),
    ];
    let mut log = std::fs::read_to_string(dir.state.event_log()).expect("readable");
    for (what, data, _) in &old {
        let mut event = support::events::event("a2a.send", NOW, data.clone());
        event["what"] = json!(what);
        log += &format!("{event}\n");
    }
    std::fs::write(dir.state.event_log(), log).expect("written");

    let host = start(dir, NOW);
    let expected: BTreeSet<&str> = old.iter().filter(|(_, _, main)| *main).map(|(what, ..)| *what).collect();
    let conversation = events(&host, "role=conversation.main", expected.len() + 1);
    let found: BTreeSet<&str> = conversation.iter().filter_map(|event| event["what"].as_str()).collect();
    assert_eq!(found, expected);
    for event in &conversation {
        assert!(["a2a.send", "a2a.response", "a2a.complete"].contains(&event["type"].as_str().expect("a type")));
    }
    let (_, page) = host.get("/api/work-sessions?role=conversation.main");
    let listed: BTreeSet<&str> = page["workSessions"]
        .as_array()
        .expect("sessions")
        .iter()
        .map(|session| session["workSessionId"].as_str().expect("an id"))
        .collect();
    assert_eq!(listed, ["ws_keys", "ws_main", "ws_names"].into());
    // Nothing is lost by that: helpers are found where helpers are looked for.
    let delegation = events(&host, "role=delegation.subagent", 1 + old.len() - expected.len());
    assert_eq!(delegation.len(), 5);
}

#[test]
fn a_session_falls_quiet_goes_on_is_archived_after_a_day_and_goes_on_again() {
    let host = team();
    host.emit("eden", Kind::A2aSend, said("ws_1", "eden", "seum", "시작합니다"));
    becomes(&host, "ws_1", "ACTIVE");
    host.emit("eden", Kind::A2aComplete, ended("ws_1", "eden", "seum"));
    becomes(&host, "ws_1", "QUIET");
    host.clock.advance(HOUR);
    host.emit("eden", Kind::A2aSend, said("ws_1", "eden", "seum", "한 가지 더"));
    becomes(&host, "ws_1", "ACTIVE");
    host.emit("eden", Kind::A2aComplete, ended("ws_1", "eden", "seum"));
    becomes(&host, "ws_1", "QUIET");
    host.clock.advance(24 * HOUR);
    assert_eq!(status_of(&host, "ws_1"), "QUIET", "a day to the millisecond");
    host.clock.advance(Duration::from_millis(1));
    assert_eq!(status_of(&host, "ws_1"), "ARCHIVED");
    // What only observes does not wake it.
    host.emit("eden", Kind::A2aDelivery, json!({ "workSessionId": "ws_1" }));
    events(&host, "workSessionId=ws_1&type=a2a.delivery", 1);
    assert_eq!(status_of(&host, "ws_1"), "ARCHIVED");
    host.emit("eden", Kind::A2aSend, said("ws_1", "eden", "seum", "다시 봅시다"));
    becomes(&host, "ws_1", "ACTIVE");
    let (_, session) = host.get("/api/work-sessions/ws_1");
    assert_eq!((&session["startedAt"], &session["messageCount"]), (&json!(NOW), &json!(3)), "{session}");
}

#[test]
fn the_same_work_has_the_same_category_whoever_does_it() {
    let host = team();
    let intents: [(&str, [&str; 3]); 4] = [
        (
            "infra_ops",
            [
                "배포 후 서버 장애가 났습니다",
                "롤백하고 재시작해 주세요",
                "모니터링 알람을 확인했고 서버를 재시작했습니다",
            ],
        ),
        (
            "qa_validation",
            ["회귀 테스트를 돌려 주세요", "테스트 케이스 세 개가 실패합니다", "버그를 재현했고 QA 검증을 마쳤습니다"],
        ),
        (
            "legal_compliance",
            [
                "개인정보 처리방침을 검토해 주세요",
                "약관과 라이선스의 법적 위험을 확인합니다",
                "GDPR 준수 항목을 정리했습니다",
            ],
        ),
        (
            "growth_marketing",
            ["마케팅 캠페인 문구를 준비합시다", "광고 전환율과 SEO를 봅니다", "SNS 홍보 캠페인을 시작했습니다"],
        ),
    ];
    // Two who talk, the same two the other way round, three in a row, and one with three others.
    let teams: [[(&str, &str); 3]; 4] = [
        [("eden", "seum"), ("seum", "eden"), ("eden", "seum")],
        [("seum", "eden"), ("eden", "seum"), ("seum", "eden")],
        [("nuri", "ieum"), ("ieum", "eden"), ("eden", "nuri")],
        [("ieum", "eden"), ("ieum", "seum"), ("ieum", "nuri")],
    ];
    let say = |category: &str, team: usize, (from, to): (&str, &str), text: &str| {
        host.emit(from, Kind::A2aSend, said(&format!("ws_{category}_{team}"), from, to, text));
    };
    for (category, texts) in &intents {
        for (team, pairs) in teams.iter().enumerate() {
            pairs.iter().zip(texts).for_each(|(pair, text)| say(category, team, *pair, text));
        }
    }
    // From here on the classifier is shown all three messages; said once more, the last of them has it asked.
    events(&host, "type=a2a.send", intents.len() * teams.len() * 3);
    host.clock.advance(Duration::from_secs(10));
    for (category, texts) in &intents {
        (0..teams.len()).for_each(|team| say(category, team, teams[team][2], texts[2]));
    }
    for (category, _) in &intents {
        let primaries: Vec<String> = (0..teams.len())
            .map(|team| {
                host.eventually("the classifier has seen all of it", || {
                    let (_, session) = host.get(&format!("/api/work-sessions/ws_{category}_{team}"));
                    let seen = session["classification"]["at"].as_u64().is_some_and(|at| at >= NOW + 10_000);
                    session["collabCategory"].as_str().filter(|_| seen).map(str::to_owned)
                })
            })
            .collect();
        assert_eq!(primaries, vec![(*category).to_owned(); teams.len()]);
    }
}

#[test]
fn rework_and_what_comes_after_a_pause_stay_in_the_session() {
    let host = team();
    host.emit("eden", Kind::TaskStarted, json!({ "workSessionId": "ws_1", "taskId": "task_1", "title": "로그인" }));
    host.emit("eden", Kind::A2aSend, said("ws_1", "eden", "seum", "[Goal] 로그인 구현"));
    host.emit("eden", Kind::A2aComplete, ended("ws_1", "eden", "seum"));
    host.emit("eden", Kind::TaskCompleted, json!({ "workSessionId": "ws_1", "taskId": "task_1" }));
    becomes(&host, "ws_1", "QUIET");
    // Later emitters know the task, not its session.
    let of_task = |more: Value| {
        let mut data = json!({ "taskId": "task_1" });
        data.as_object_mut().expect("an object").extend(chela::bus::data(more));
        data
    };
    host.emit("eden", Kind::TaskUpdated, of_task(json!({ "action": "rework" })));
    becomes(&host, "ws_1", "ACTIVE");
    host.emit("eden", Kind::HumanQueryRequested, of_task(json!({ "question": "어느 쪽으로?" })));
    host.emit("eden", Kind::TaskBlocked, of_task(json!({ "kind": "input" })));
    events(&host, "taskId=task_1", 5);
    // Overnight, over a restart, and past the day after which it counts as archived.
    let host = start(host.stop(), NOW + 25 * 3_600_000);
    assert_eq!(status_of(&host, "ws_1"), "ARCHIVED");
    host.emit("eden", Kind::HumanQueryAnswered, of_task(json!({})));
    host.emit("eden", Kind::TaskResumedAfterHumanQuery, of_task(json!({})));
    host.emit("eden", Kind::A2aSend, said("ws_1", "eden", "nuri", "이어서 부탁해요"));
    becomes(&host, "ws_1", "ACTIVE");
    let all = events(&host, "workSessionId=ws_1", 4 + 3 + 3);
    assert!(all.iter().all(|event| event["data"]["workSessionId"] == "ws_1"));
    let (_, page) = host.get("/api/work-sessions");
    assert_eq!(page["workSessions"].as_array().map(Vec::len), Some(1), "no session beside it: {page}");
    assert_eq!(page["workSessions"][0]["title"], "로그인 구현");
}

#[test]
fn every_event_of_a_gateway_says_its_role() {
    let host = team();
    host.block_on(host.plugins().loaded());
    host.dir.edit_config(|config| config["limits"]["requestsBurst"] = json!(2_001));
    host.call("config.reload", json!({})).expect("applied");
    host.dir.edit_config(|config| config["nonsense"] = json!(1));
    host.call("config.reload", json!({})).expect_err("refused");
    host.load("classifier", "no-such-file.wasm", json!({})).expect_err("refused");
    host.load("classifier", &support::path_of(&support::guest("steady")), json!({ "category": "infra_ops" }))
        .expect("loaded");
    host.emit("eden", Kind::A2aSend, said("ws_1", "eden", "seum", "배포"));
    host.eventually("it is decided", || (!host.told("policy.decided").is_empty()).then_some(()));
    let dir = host.stop();
    let mut seen = BTreeSet::new();
    for event in dir.events() {
        let kind = event["type"].as_str().expect("a type").to_owned();
        let role = event["data"]["eventRole"].as_str().and_then(Role::parse);
        let own = Kind::ALL.iter().find(|own| own.as_str() == kind).map(|own| own.role());
        assert_eq!((role.is_some(), role), (true, own), "{event}");
        seen.insert(kind);
    }
    for kind in [
        "gateway.started",
        "gateway.stopped",
        "config.applied",
        "config.refused",
        "plugin.loaded",
        "plugin.rejected",
        "plugin.swapped",
        "policy.decided",
    ] {
        assert!(seen.contains(kind), "no {kind} among {seen:?}");
    }
}
