//! `chela events`, `sessions work` and `why`: the real binary asks a real gateway, in text and in JSON, in Korean, and over a restart.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::events::{event, old_system, with_log};
use support::{Binary, Finished, TestDir, TestHost, chela, chela_command, eventually};

/// Sessions of the fixture.
const OAUTH: &str = "ws_7d0c3a52-8e1b-4f7a-b1c4-2f6e9d0a5b31";
const RELEASE: &str = "ws_b94e21c7-03da-4d58-8f2e-6a1c7e5d9042";

fn refused(finished: Finished, code: i32, expected: &str) {
    assert_eq!(finished.code, Some(code), "{finished:#?}");
    assert!(finished.stderr.contains(expected), "{}", finished.stderr);
    assert_eq!(finished.stdout, "");
}

/// What a command printed, a JSON object a line.
fn objects(finished: &Finished) -> Vec<Value> {
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

fn done(finished: Finished) -> String {
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.stdout
}

#[test]
fn events_are_a_page_with_the_newest_last() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    let shown = chela(&dir.state, &["events", "--work-session", OAUTH, "--type", "a2a.send,a2a.response"]);
    let text = done(shown);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("TIME (UTC)"), "{text}");
    assert_eq!(lines.len(), 8, "{text}");
    assert!(lines[1].contains("a2a.send") && lines[1].contains("eden -> seum") && lines[1].contains(OAUTH), "{text}");
    assert!(
        lines[1]
            .ends_with("[Goal] OAuth 로그인 구현 Google strategy부터 부탁드립니다. 기존 JWT 미들웨어는 그대로 둡니다."),
        "{text}"
    );
    assert!(lines[7].ends_with("확인했습니다. token refresh만 추가해 주세요."), "{text}");

    let rows = objects(&chela(&dir.state, &["events", "--work-session", OAUTH, "--limit", "3", "--json"]));
    let ts: Vec<u64> = rows.iter().map(|row| row["ts"].as_u64().expect("a time")).collect();
    assert_eq!(ts, [1_770_984_900_000, 1_770_985_140_000, 1_770_985_800_000]);
    let of_task = objects(&chela(&dir.state, &["events", "--task", "task_20260217_capture", "--json"]));
    assert_eq!(of_task.len(), 1);
    assert_eq!(of_task[0]["data"]["blockedReason"], "화면 녹화 권한이 없습니다");
    let delegated = objects(&chela(&dir.state, &["events", "--role", "delegation.subagent", "--json"]));
    assert_eq!(delegated.len(), 7);
    let of_category =
        chela(&dir.state, &["events", "--category", "engineering_build", "--work-session", RELEASE, "--json"]);
    assert_eq!(objects(&of_category).len(), 3);
    assert_eq!(done(chela(&dir.state, &["events", "--task", "task_never"])).trim(), "no such events");
    serving.terminate();
}

#[test]
fn a_page_says_where_the_next_one_begins() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    let walk = |flag: &str, first: &[&str]| {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut arguments = vec!["events", "--work-session", OAUTH, "--limit", "5", "--json"];
            match &cursor {
                Some(cursor) => arguments.extend([flag, cursor.as_str()]),
                None => arguments.extend(first),
            }
            let page = chela(&dir.state, &arguments);
            all.push(objects(&page).iter().map(|row| row["seq"].as_i64().expect("a place")).collect::<Vec<_>>());
            let next =
                page.stderr.split_once(&format!("the same with {flag} ")).map(|(_, rest)| rest.trim().to_owned());
            match next {
                Some(next) => cursor = Some(next),
                None => return all,
            }
        }
    };
    let forward = walk("--since", &["--since", "2026-02-01"]).concat();
    assert_eq!(forward.len(), 14);
    assert!(forward.is_sorted());
    let mut backward = walk("--before", &[]);
    backward.reverse();
    assert_eq!(backward.concat(), forward, "each page with the newest last");
    serving.terminate();
}

#[test]
fn lines_fit_a_terminal_also_in_korean() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    for arguments in [&["events"][..], &["sessions", "work"], &["sessions", "work", "-q", "로그인"]] {
        let output = chela_command(&dir.state).args(arguments).env("COLUMNS", "80").output().expect("runs");
        let text = String::from_utf8(output.stdout).expect("whole characters");
        assert!(text.lines().count() > 3, "{text}");
        for line in text.lines() {
            assert!(columns_of(line) <= 80, "{} columns: {line}", columns_of(line));
        }
    }
    serving.terminate();
}

/// Hangul takes two columns, what else is in the fixture takes one.
fn columns_of(line: &str) -> usize {
    line.chars().map(|c| if ('가'..='힣').contains(&c) { 2 } else { 1 }).sum()
}

#[test]
fn work_sessions_are_listed_and_filtered() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    let text = done(chela(&dir.state, &["sessions", "work"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("STATUS") && lines[0].ends_with("ID"), "{text}");
    assert_eq!(lines.len(), 10, "nine sessions under a head: {text}");
    let release = lines.iter().find(|line| line.ends_with(RELEASE)).expect("the release");
    assert!(release.contains("engineering_build") && release.contains("seum, ieum"), "{release}");
    assert!(release.contains("1.4.2 릴리스 전에 결제 회귀 점검 한 번만 더"), "{release}");

    let ids = |arguments: &[&str]| -> Vec<String> {
        let listed = chela(&dir.state, &[&["sessions", "work", "--json"], arguments].concat());
        assert_eq!(listed.code, Some(0), "{listed:#?}");
        let rows = listed.json()["workSessions"].as_array().expect("a list").clone();
        rows.iter().map(|row| row["workSessionId"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(&["--thread-state", "blocked"]), [OAUTH]);
    done(chela(&dir.state, &["sessions", "work", "category", RELEASE, "legal_compliance"]));
    assert_eq!(ids(&["--category", "legal_compliance"]), [RELEASE]);
    assert_eq!(ids(&["--status", "archived", "--type", "a2a.spawn", "--role", "delegation.subagent"]).len(), 2);
    assert_eq!(ids(&["--sub-tag", "없는태그"]), Vec::<String>::new());

    let first = chela(&dir.state, &["sessions", "work", "--limit", "5", "--json"]).json();
    let cursor = first["nextCursor"].as_str().expect("there is more");
    assert_eq!(ids(&["--limit", "5", "--cursor", cursor]).len(), 4);
    let noted = chela(&dir.state, &["sessions", "work", "--limit", "5"]);
    assert!(noted.stderr.contains(&format!("the same with --cursor {cursor}")), "{noted:#?}");

    let found = done(chela(&dir.state, &["sessions", "work", "-q", "반올림"]));
    assert!(found.contains("ieum: ") && found.contains("환불 금액 반올림 1건"), "{found}");
    assert_eq!(done(chela(&dir.state, &["sessions", "work", "-q", "없는말"])).trim(), "no such work sessions");
    serving.terminate();
}

#[test]
fn one_work_session_is_shown_with_its_threads_and_last_messages() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    let text = done(chela(&dir.state, &["sessions", "work", "show", OAUTH]));
    for expected in [
        "OAuth 로그인 구현",
        "task_20260213_oauth",
        "14, 7 of them messages",
        "Threads",
        "blocked",
        "conv:8c2d4f61-7e3a-4b95-90c8-d5a1f7e3b264",
        "Last messages",
        "기존 세션 쿠키를 쓰는 곳을 모두 찾아 줘",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    let document = chela(&dir.state, &["--json", "sessions", "work", "show", OAUTH]).json();
    assert_eq!(document["workSession"]["threads"].as_array().map(Vec::len), Some(6), "{document}");
    let messages = document["messages"].as_array().expect("a list");
    assert!(messages.is_sorted_by_key(|event| event["seq"].as_i64()) && messages.len() > 5, "{messages:?}");
    let elsewhere = chela(&dir.state, &["sessions", "work", "--json", "show", OAUTH]);
    assert_eq!(elsewhere.json()["workSession"]["workSessionId"], OAUTH, "wherever --json stands");
    refused(
        chela(&dir.state, &["sessions", "work", "--status", "QUIET", "show", OAUTH]),
        2,
        "filters are for the list",
    );
    let legacy = done(chela(&dir.state, &["sessions", "work", "show", "legacy:conv:conv-0112:2026-01-12"]));
    assert!(legacy.contains("세움님, 정산 배치가 어제 새벽에 두 번 돌았습니다."), "{legacy}");
    serving.terminate();
}

#[test]
fn a_person_says_which_category_a_session_has_and_takes_it_back() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    let category = |arguments: &[&str]| chela(&dir.state, &[&["sessions", "work", "category"], arguments].concat());
    let said = done(category(&[OAUTH, "legal_compliance", "--by", "미나"]));
    assert_eq!(said.trim(), format!("{OAUTH}: legal_compliance (manual_override, said by 미나)"));
    let shown = chela(&dir.state, &["sessions", "work", "show", OAUTH, "--json"]).json();
    assert_eq!(shown["workSession"]["categoryUpdatedBy"], "미나");
    let back = category(&[OAUTH, "--clear", "--json"]);
    assert_eq!(back.code, Some(0), "{back:#?}");
    assert_ne!(back.json()["categorySource"], "manual_override");
    refused(category(&[OAUTH, "cooking"]), 2, "KEY: \"cooking\" is no category of this deployment; there is ");
    refused(category(&[OAUTH, "infra_ops", "--by", ""]), 2, "--by: a name has 1 to 128 characters");
    refused(category(&["ws_never", "infra_ops"]), 1, "there is no work session ws_never");
    refused(category(&[OAUTH]), 2, "<KEY>");
    refused(category(&[OAUTH, "infra_ops", "--clear"]), 2, "cannot be used with");
    serving.terminate();
}

/// Decisions about a session, a task of it and a job.
fn decided(ts: u64, slot: &str, export: &str, answer: Value, about: Value) -> Value {
    let mut data = json!({
        "slot": slot, "export": export, "answer": answer, "micros": 34, "digest": "d1935c", "eventRole": "system.observability",
        "plugin": { "name": "rules", "version": "0.1.0", "hash": "9f8e7d6c", "source": "builtin:rules" },
    });
    data.as_object_mut().expect("an object").extend(about.as_object().expect("an object").clone());
    event("policy.decided", ts, data)
}

fn with_decisions() -> TestDir {
    let talk = json!({ "workSessionId": "ws_1", "taskId": "task_1", "fromAgent": "eden", "toAgent": "seum",
        "message": "배포를 부탁해요. 배포 후 장애 대응이 필요합니다. Deploying the server, kubernetes rollback", "eventRole": "conversation.main" });
    let blocked = json!({ "verdict": "block", "reason": "두 단계가 남아 있습니다" });
    with_log(&[
        event("a2a.send", 1_700_000_000_000, talk.clone()),
        event("a2a.send", 1_700_000_000_500, talk),
        decided(
            1_700_000_001_000,
            "classifier",
            "categories",
            json!([{ "primary": "infra_ops" }]),
            json!({ "workSessionId": "ws_1" }),
        ),
        decided(
            1_700_000_002_000,
            "guard:stop-guard",
            "before-tool-call",
            blocked,
            json!({ "workSessionId": "ws_1", "taskId": "task_1" }),
        ),
        event("job.created", 1_700_000_003_000, json!({ "jobId": "run-1", "workSessionId": "ws_1" })),
    ])
}

#[test]
fn why_tells_what_decided() {
    let dir = with_decisions();
    let serving = Binary::serve(&dir);
    let why = |id: &str| chela(&dir.state, &["why", id]);
    let text = eventually("the classifier has spoken", || {
        let text = done(why("ws_1"));
        text.contains("its answer").then_some(text)
    });
    for expected in [
        "ws_1 배포를 부탁해요. 배포 후 장애 대응이 필요합니다.",
        "category    infra_ops",
        "classifier  rules 0.1.0",
        "source      ",
        "confidence  0.",
        "reason      ",
        "guard:stop-guard before-tool-call",
        "rules 0.1.0, 9f8e7d6c",
        "d1935c",
        "두 단계가 남아 있습니다",
        "34 µs",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
    let (first, last) = (text.find("classifier categories"), text.find("guard:stop-guard before-tool-call"));
    assert!(first < last && first.is_some(), "newest last: {text}");

    done(chela(&dir.state, &["sessions", "work", "category", "ws_1", "qa_validation", "--by", "mina"]));
    let text = done(why("ws_1"));
    assert!(text.contains("category    qa_validation") && text.contains("mina said so at 20"), "{text}");
    assert!(text.contains("its answer  infra_ops"), "what was overruled is told too: {text}");

    let task = done(why("task_1"));
    assert!(task.starts_with("task task_1, of the work session ws_1 (`chela why ws_1`)"), "{task}");
    assert!(task.contains("guard:stop-guard") && !task.contains("classifier categories"), "{task}");
    let job = chela(&dir.state, &["why", "run-1", "--json"]).json();
    assert_eq!((&job["kind"], &job["decisions"]), (&json!("job"), &json!([])));
    assert!(done(why("run-1")).contains("No decision that names it is in the event log."));
    refused(why("ws_never"), 1, "there is no work session ws_never");
    refused(
        why("run-never"),
        1,
        "there is no work session, and no task or job in the event log, with the id run-never",
    );
    serving.terminate();
}

#[test]
fn what_may_not_be_asked_is_told_of_the_argument() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    let check = |arguments: &[&str], code: i32, expected: &str| refused(chela(&dir.state, arguments), code, expected);
    check(&["events", "--role", "conversation"], 2, "--role: \"conversation\" is none of conversation.main, ");
    check(&["events", "--category", "cooking"], 2, "--category: \"cooking\" is no category of this deployment");
    check(&["events", "--since", "yesterday"], 2, "--since: must be milliseconds since 1970, an ISO time ");
    check(&["events", "--limit", "501"], 2, "--limit: must be a whole number from 1 to 500");
    check(&["events", "--follow", "--role", "nobody"], 2, "--role: \"nobody\" is none of ");
    check(&["events", "--task", "a", "--job", "b"], 2, "cannot be used with");
    check(&["sessions", "work", "--status", "asleep"], 2, "--status: \"ASLEEP\" is none of ACTIVE, QUIET, ARCHIVED");
    check(&["sessions", "work", "--cursor", "x"], 2, "--cursor: not a `nextCursor` of this list");
    check(&["sessions", "work", "-q", " "], 2, "-q: there is nothing to look for");
    check(&["sessions", "work", "show", "ws_never"], 1, "there is no work session ws_never");
    check(&["sessions", "wrok"], 2, "Usage");
    let told = chela(&dir.state, &["sessions", "work", "show", "ws_never", "--json"]);
    assert_eq!((told.code, &told.json()["error"]["exitCode"]), (Some(1), &json!(1)));
    serving.terminate();
    for arguments in [
        &["events"][..],
        &["events", "--follow"],
        &["sessions", "work"],
        &["sessions", "work", "show", "x"],
        &["why", "x"],
    ] {
        check(arguments, 69, "no gateway serves ");
    }
}

#[test]
fn the_monitor_s_listener_is_enough_for_what_is_not_a_method() {
    let dir = old_system();
    let mut serving = Binary::spawn(&dir, &["--gateway", "off", "--monitor", "0", "--hub", "off"]);
    serving.wait_until_ready();
    assert_eq!(objects(&chela(&dir.state, &["events", "--work-session", OAUTH, "--json"])).len(), 14);
    refused(chela(&dir.state, &["why", OAUTH]), 69, "has the listener off that this asks");
    serving.terminate();
}

/// `chela events --follow`, with what it has printed so far.
struct Follower {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Follower {
    fn start(dir: &TestDir, name: &str, arguments: &[&str]) -> Self {
        let (stdout, stderr) = (dir.scratch().join(format!("{name}.out")), dir.scratch().join(format!("{name}.err")));
        let child = chela_command(&dir.state)
            .args(["events", "--follow"])
            .args(arguments)
            .stdout(File::create(&stdout).expect("a file"))
            .stderr(File::create(&stderr).expect("a file"))
            .spawn()
            .expect("the binary runs");
        Self { child, stdout, stderr }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.stdout).expect("readable")
    }

    fn noted(&self) -> String {
        fs::read_to_string(&self.stderr).expect("readable")
    }

    fn wait_for(&self, what: &str, count: usize) {
        eventually(&format!("{what} is told {count} times: {}", self.noted()), || {
            (self.said().matches(what).count() >= count).then_some(())
        });
    }

    /// Ctrl-C, and how it ended.
    fn interrupt(mut self) -> (Option<i32>, String) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid");
        kill_process(pid, Signal::INT).expect("a child of ours");
        let status = eventually("it has ended", || self.child.try_wait().expect("a child of ours"));
        (status.code(), self.said())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_follower_sees_what_comes_and_goes_on_after_a_restart() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    let rename = |name: &str| dir.edit_config(|config| config["deployment"]["name"] = json!(name));
    let text = Follower::start(&dir, "text", &["-n", "2"]);
    let of_type = Follower::start(&dir, "type", &["--type", "config.applied, gateway.started", "--json"]);
    let of_session = Follower::start(&dir, "session", &["--work-session", OAUTH, "--json", "--since", "2026-02-13"]);
    text.wait_for("TIME (UTC)", 1);
    of_type.wait_for("gateway.started", 1);
    of_session.wait_for(OAUTH, 14);
    rename("first");
    of_type.wait_for("config.applied", 1);
    text.wait_for("config.applied", 1);

    serving.terminate();
    eventually("the break is told", || of_type.noted().contains("connecting again").then_some(()));
    eventually("that there is none is told", || of_type.noted().contains("waiting for it").then_some(()));
    let again = Binary::serve(&dir);
    of_type.wait_for("gateway.started", 2);
    eventually("it says so", || of_type.noted().contains("connected again").then_some(()));
    rename("second");
    of_type.wait_for("config.applied", 2);
    text.wait_for("gateway.stopped", 1);

    let (code, said) = of_type.interrupt();
    assert_eq!(code, Some(0));
    let rows: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect();
    let kinds: Vec<&str> = rows.iter().filter_map(|row| row["type"].as_str()).collect();
    assert_eq!(
        kinds,
        ["gateway.started", "config.applied", "gateway.started", "config.applied"],
        "each once, no others"
    );
    assert!(rows.is_sorted_by_key(|row| row["seq"].as_i64()));
    let (code, said) = of_session.interrupt();
    assert_eq!((code, said.lines().count()), (Some(0), 14), "{said}");
    assert_eq!(text.interrupt().0, Some(0));
    again.terminate();
}

#[test]
fn a_follower_ends_with_its_reader() {
    let dir = old_system();
    let serving = Binary::serve(&dir);
    let mut command = chela_command(&dir.state);
    let mut child = command.args(["events", "--follow"]).stdout(Stdio::piped()).spawn().expect("runs");
    drop(child.stdout.take());
    let status = eventually("it has ended", || child.try_wait().expect("a child of ours"));
    assert!(status.success());
    serving.terminate();
}

#[test]
fn methods_answer_as_the_paths_do() {
    let host = TestHost::start_at(old_system(), 1_771_318_800_000).unwrap_or_else(|(error, _)| panic!("{error}"));
    // Other sessions are classified meanwhile, perhaps between two questions.
    let same = |path: &str, method: &str, params: Value| {
        eventually(&format!("{method} {params} answers as {path}"), || {
            (host.get(path).1 == host.call(method, params.clone()).expect("an answer")).then_some(())
        });
    };
    host.get("/api/stats");
    for id in [OAUTH, RELEASE] {
        host.eventually("it is classified", || {
            host.get(&format!("/api/work-sessions/{id}")).1["classification"].is_object().then_some(())
        });
    }
    same(
        &format!("/api/events?workSessionId={OAUTH}&type=a2a.send,a2a.complete&limit=4"),
        "events.list",
        json!({ "workSessionId": OAUTH, "type": ["a2a.send", "a2a.complete"], "limit": 4 }),
    );
    same(
        "/api/events?role=conversation.main&since=1770984000000",
        "events.list",
        json!({ "role": "conversation.main", "since": 1_770_984_000_000_u64 }),
    );
    same("/api/work-sessions?status=QUIET,ACTIVE", "work-sessions.list", json!({ "status": ["QUIET", "ACTIVE"] }));
    same("/api/work-sessions?q=OAuth", "work-sessions.list", json!({ "q": "OAuth" }));
    same(&format!("/api/work-sessions/{RELEASE}"), "work-sessions.get", json!({ "id": RELEASE }));
    let why = host.call("why", json!({ "id": RELEASE })).expect("an answer");
    assert_eq!(why["workSession"]["categorySource"], "manual_override");
    let said = &why["workSession"]["classification"];
    assert!(said["version"].as_str().is_some_and(|by| by.starts_with("rules ")) && said["at"].is_u64(), "{why}");

    let refused = |method: &str, params: Value, code: &str, field: Value| {
        let error = host.call(method, params).expect_err("refused");
        assert_eq!((&error["details"]["code"], &error["details"]["field"]), (&json!(code), &field), "{error}");
        assert_eq!(error["code"], "INVALID_REQUEST");
    };
    refused("events.list", json!({ "role": "nobody" }), "invalid_parameter", json!("role"));
    refused("events.list", json!({ "limit": 501 }), "invalid_parameter", json!("limit"));
    refused("work-sessions.list", json!({ "viewCategory": ["cooking"] }), "invalid_parameter", json!("viewCategory"));
    refused("work-sessions.get", json!({ "id": "ws_never" }), "unknown_id", Value::Null);
    refused("why", json!({ "id": "run-never" }), "unknown_id", Value::Null);
    let unknown = host.call("events.list", json!({ "stauts": "x" })).expect_err("refused");
    assert!(unknown["message"].as_str().is_some_and(|said| said.contains("stauts")), "{unknown}");
}
