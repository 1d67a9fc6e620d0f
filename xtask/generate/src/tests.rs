//! What every generated log keeps.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use serde_json::Value;

use crate::{Options, generate};

struct Told {
    text: String,
    json: Value,
    legacy: bool,
}

impl Told {
    fn kind(&self) -> &str {
        self.json["type"].as_str().expect("a type is a text")
    }

    fn ts(&self) -> u64 {
        self.json["ts"].as_u64().expect("a time is a number")
    }

    fn data(&self, key: &str) -> Option<&str> {
        self.json["data"][key].as_str()
    }
}

fn log(options: &Options) -> Vec<Told> {
    let mut lines = Vec::new();
    let Ok(()) = generate::<Infallible>(options, |line| {
        let json: Value = serde_json::from_str(line.text).expect("every line is JSON");
        assert_eq!(json["ts"], line.ts_ms);
        lines.push(Told { text: line.text.to_owned(), json, legacy: line.legacy });
        Ok(())
    });
    lines
}

fn day() -> Vec<Told> {
    log(&Options::new(20_000, 7))
}

#[test]
fn the_same_options_give_the_same_bytes() {
    let write = |seed| {
        let mut bytes = Vec::new();
        crate::write(&Options::new(3_000, seed), &mut bytes).expect("memory takes everything");
        bytes
    };
    assert_eq!(write(5), write(5));
    assert_ne!(write(5), write(6));
}

#[test]
fn there_are_as_many_lines_as_asked_for() {
    for events in [0, 1, 2, 999] {
        assert_eq!(log(&Options::new(events, 3)).len() as u64, events);
    }
}

#[test]
fn a_line_is_what_serde_json_would_write() {
    for line in day() {
        assert_eq!(serde_json::to_string(&line.json).expect("JSON"), line.text);
        let keys: Vec<&str> = line.json.as_object().expect("an object").keys().map(String::as_str).collect();
        let expected: &[&str] = &["id", "type", "agentId", "ts", "data"];
        assert_eq!(keys, if line.legacy { &expected[1..] } else { expected });
    }
}

#[test]
fn a_writer_that_fails_ends_it() {
    let mut left = 3;
    let ended = generate(&Options::new(100, 1), |_| {
        left -= 1;
        if left == 0 { Err("full") } else { Ok(()) }
    });
    assert_eq!((ended, left), (Err("full"), 0));
}

#[test]
fn times_never_decrease_and_the_last_is_as_asked_for() {
    let options = Options { until_ms: 1_800_000_000_000, ..Options::new(20_000, 2) };
    let lines = log(&options);
    let mut latest = 0;
    for line in lines.iter().filter(|line| !line.legacy) {
        assert!(line.ts() >= latest, "{}", line.text);
        latest = line.ts();
    }
    assert_eq!(lines.last().map(Told::ts), Some(options.until_ms));
    assert!(lines.iter().all(|line| line.ts() <= options.until_ms));
    let span_ms = options.until_ms - lines[0].ts();
    assert!((options.span_ms * 8 / 10..options.span_ms * 13 / 10).contains(&span_ms), "{span_ms}");
}

#[test]
fn ids_are_unique_and_tell_their_time() {
    let mut seen = HashSet::new();
    for line in day().iter().filter(|line| !line.legacy) {
        let id = line.json["id"].as_str().expect("lines of ours have ids");
        assert!(seen.insert(id.to_owned()), "{id} twice");
        if !id.starts_with("job:") {
            let ms = u64::from_str_radix(&id.replace('-', "")[..12], 16).expect("hexadecimal");
            assert_eq!((ms, &id[14..15]), (line.ts(), "7"));
        }
    }
}

#[test]
fn the_share_of_legacy_lines_is_as_asked_for() {
    for per_mille in [0, 50, 300, 1_000] {
        let lines = log(&Options { legacy_per_mille: per_mille, ..Options::new(20_000, 4) });
        let legacy = lines.iter().filter(|line| line.legacy).count() as u32 * 1_000 / 20_000;
        assert!(legacy.abs_diff(per_mille) <= 20, "{legacy} of 1,000, not {per_mille}");
    }
}

#[test]
fn legacy_lines_have_neither_role_nor_id_nor_work_session() {
    for line in day().iter().filter(|line| line.legacy) {
        for key in ["eventRole", "workSessionId", "fromSessionType", "toSessionType"] {
            assert_eq!(line.json["data"].get(key), None, "{}", line.text);
        }
    }
}

#[test]
fn a_work_sessions_events_all_carry_its_id() {
    let mut owners = HashMap::new();
    let without = ["milestone.sync_failed", "plugin.loaded", "config.applied"];
    for line in day().iter().filter(|line| !line.legacy) {
        let Some(session) = line.data("workSessionId") else {
            assert!(without.contains(&line.kind()), "{}", line.text);
            continue;
        };
        for key in ["conversationId", "taskId", "runId", "jobId"] {
            if let Some(name) = line.data(key) {
                assert_eq!(owners.entry(name.to_owned()).or_insert(session.to_owned()), session, "{}", line.text);
            }
        }
    }
}

#[test]
fn roles_follow_types() {
    for line in day().iter().filter(|line| !line.legacy) {
        let sub = [line.data("fromSessionType"), line.data("toSessionType")].contains(&Some("subagent"));
        let expected = match line.kind() {
            "a2a.spawn" | "a2a.spawn_result" => "delegation.subagent",
            "a2a.send" | "a2a.response" | "a2a.complete" if sub => "delegation.subagent",
            "a2a.send" | "a2a.response" | "a2a.complete" => "conversation.main",
            "a2a.delivery" | "milestone.sync_failed" | "plugin.loaded" | "config.applied" | "policy.decided" => {
                "system.observability"
            }
            _ => "orchestration.task",
        };
        assert_eq!(line.data("eventRole"), Some(expected), "{}", line.text);
    }
}

#[test]
fn texts_stay_within_their_limits() {
    let lines = day();
    let longest = |key: &str| lines.iter().filter_map(|line| line.data(key)).map(|text| text.chars().count()).max();
    assert!((1_000..=4_000).contains(&longest("message").expect("messages")));
    assert_eq!(longest("replyPreview"), Some(200));
}

#[test]
fn lines_are_about_as_long_as_real_ones() {
    let lines = day();
    let mean = lines.iter().map(|line| line.text.len() + 1).sum::<usize>() / lines.len();
    assert!((350..=480).contains(&mean), "{mean}");
}

#[test]
fn every_promised_type_occurs() {
    let lines = day();
    let kinds: HashSet<&str> = lines.iter().map(Told::kind).collect();
    for kind in [
        "a2a.send a2a.response a2a.complete a2a.spawn a2a.spawn_result a2a.auto_route a2a.delivery",
        "task.started task.updated task.completed task.cancelled task.approved task.blocked task.resumed",
        "task.backlog_added task.backlog_picked task.abandoned task.resumed_after_human_query",
        "continuation.sent continuation.backoff continuation.self_driving continuation.stop_guard_blocked",
        "unblock.requested unblock.failed plan.submitted plan.approved plan.rejected",
        "human_query.requested human_query.answered zombie.detected zombie.abandoned",
        "job.created job.retried job.completed job.failed",
        "milestone.sync_failed plugin.loaded config.applied policy.decided",
    ]
    .iter()
    .flat_map(|row| row.split(' '))
    {
        assert!(kinds.contains(kind), "no {kind}");
    }
    assert!(kinds.iter().any(|kind| kind.starts_with("legacy.")));
}

#[test]
fn every_promised_shape_occurs() {
    let lines = day();
    let any = |what: &str, is: &dyn Fn(&Told) -> bool| assert!(lines.iter().any(is), "no line {what}");
    any("of turn 5", &|line| line.json["data"]["turn"] == 5);
    any("that was announced", &|line| line.json["data"]["announced"] == true);
    any("that was not announced", &|line| line.json["data"]["announced"] == false);
    any("of a failed sub-agent", &|line| line.kind() == "a2a.spawn_result" && line.data("status") == Some("error"));
    any("of a sub-agent's sub-agent", &|line| line.json["data"]["depth"] == 2 && line.data("parentRunId").is_some());
    any("of a late response", &|line| line.json["data"]["late"] == true);
    any("with a label", &|line| line.data("label").is_some());
    any("with a goal", &|line| line.data("message").is_some_and(|text| text.starts_with("[Goal] ")));
    any("with a category", &|line| line.data("collabCategory").is_some() && line.data("categorySource").is_some());
    any("about a policy", &|line| line.kind() == "policy.decided" && line.data("workSessionId").is_some());
    any("that waited too long", &|line| {
        line.data("replyPreview") == Some("[outcome] blocked: 응답을 받지 못했습니다 (대기 시간 300초 초과)")
            && line.data("outcome") == Some("blocked")
            && line.data("waitStatus") == Some("timeout")
    });
    any("of session keys alone", &|line| {
        line.legacy && line.data("sessionKey").is_some() && line.data("fromAgent").is_none()
    });
    any("with a field that nobody knows", &|line| line.legacy && line.json["data"].get("meta").is_some());
}

#[test]
fn sessions_are_wide_and_long_and_taken_up_again() {
    let lines = day();
    let (mut pairs, mut length, mut last) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut taken_up = 0;
    for line in &lines {
        let Some(session) = line.data("workSessionId") else { continue };
        if let Some(previous) = line.data("previousWorkSessionId") {
            taken_up += 1;
            assert!(line.ts() > last[previous] + 24 * 3_600_000, "{}", line.text);
        }
        *length.entry(session).or_insert(0) += 1;
        last.insert(session, line.ts());
        if line.kind() == "a2a.send" && line.data("toSessionType") == Some("main") {
            let others: &mut HashSet<_> = pairs.entry(session).or_default();
            others.insert((line.data("fromAgent"), line.data("conversationId")));
        }
    }
    assert!(pairs.values().any(|others| others.len() >= 3), "nobody asked three");
    assert!(length.values().any(|&events| events > 200), "no long session");
    assert!(taken_up > 0, "no session was taken up again");
    let until = lines.last().expect("lines").ts();
    let recent = last.values().filter(|&&ts| until - ts < 24 * 3_600_000).count();
    assert!(recent > 20 && recent < last.len() - 20, "{recent} of {} sessions are not archived", last.len());
}

#[test]
fn a_smaller_team_keeps_to_itself() {
    let few: HashSet<&str> = crate::agents()[..5].iter().map(|agent| agent.id).collect();
    for line in log(&Options { agents: 5, ..Options::new(3_000, 9) }) {
        let by = line.json["agentId"].as_str().expect("a text");
        assert!(by == "system" || few.contains(by), "{}", line.text);
    }
}
