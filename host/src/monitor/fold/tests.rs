//! What sessions and threads add up to, case by case.

use serde_json::{Value, json};

use super::*;

const HOUR: u64 = 3_600_000;

/// Folds events `(type, ts, data)` as one session with its threads.
fn fold(events: &[(&str, u64, Value)]) -> (Session, BTreeMap<String, Thread>) {
    let (mut session, mut threads) = (Session::default(), BTreeMap::<String, Thread>::new());
    for (at, (kind, ts, data)) in events.iter().enumerate() {
        let text = json!({ "type": kind, "ts": ts, "data": data }).to_string();
        let line = Line::parse(text.as_bytes()).expect("an event");
        let role = line.given_role().unwrap_or(if kind.starts_with("task.") || kind.starts_with("job.") {
            Role::Orchestration
        } else {
            Role::Conversation
        });
        let fact = Fact { seq: i64::try_from(at).expect("few"), len: 1, role, line: &line };
        let key = thread_key(&line);
        session.add(&fact, &key);
        let thread = threads.entry(key).or_default();
        let before = (thread.events > 0).then_some(thread.state);
        thread.add(&fact);
        session.thread_changed(before, thread.state);
    }
    (session, threads)
}

fn status_of(events: &[(&str, u64, Value)], now: u64) -> Status {
    let (session, _) = fold(events);
    status(session.activity, session.terminal, session.open_until(), now)
}

fn talk(from: &str, to: &str) -> Value {
    json!({ "fromAgent": from, "toAgent": to, "conversationId": "c1", "message": "배포 부탁해요" })
}

#[test]
fn a_session_is_quiet_after_its_end_active_again_with_news_and_archived_after_a_day() {
    let send = ("a2a.send", 0, talk("eden", "seum"));
    let done = ("a2a.complete", HOUR, talk("seum", "eden"));
    let news = ("a2a.send", 2 * HOUR, talk("eden", "seum"));
    assert_eq!(status_of(std::slice::from_ref(&send), 1), Status::Active);
    assert_eq!(status_of(&[send.clone(), done.clone()], HOUR + 1), Status::Quiet);
    assert_eq!(status_of(&[send.clone(), done.clone(), news.clone()], 2 * HOUR), Status::Active);
    assert_eq!(status_of(&[send.clone(), done.clone()], 25 * HOUR), Status::Quiet, "a day to the millisecond");
    assert_eq!(status_of(&[send.clone(), done.clone()], 25 * HOUR + 1), Status::Archived);
    assert_eq!(status_of(&[send, done, news], 25 * HOUR + 1), Status::Active, "the news are younger than a day");
}

#[test]
fn an_open_send_keeps_a_session_from_being_quiet_for_an_hour() {
    let open = ("a2a.send", 0, json!({ "fromAgent": "eden", "toAgent": "ieum", "conversationId": "c2" }));
    let spawned = ("a2a.spawn", 0, json!({ "runId": "r1" }));
    let done = ("a2a.complete", 10, talk("seum", "eden"));
    assert_eq!(status_of(&[open.clone(), done.clone()], HOUR - 1), Status::Active);
    assert_eq!(status_of(&[open, done.clone()], HOUR), Status::Quiet);
    assert_eq!(status_of(&[spawned.clone(), done.clone()], 20), Status::Active);
    let result = ("a2a.spawn_result", 30, json!({ "runId": "r1", "status": "error" }));
    assert_eq!(status_of(&[spawned, done, result], 40), Status::Quiet);
}

#[test]
fn only_some_events_count_as_activity() {
    let done = ("task.completed", 5, json!({}));
    let check = |after: (&str, u64, Value), activity: u64, terminal: bool| {
        let (session, _) = fold(&[done.clone(), after.clone()]);
        assert_eq!((session.activity, session.terminal), (activity, terminal), "{after:?}");
    };
    check(("task.updated", 9, json!({})), 9, false);
    check(("job.completed", 9, json!({})), 5, true);
    check(("a2a.delivery", 9, json!({})), 5, true);
    check(("a2a.response", 9, json!({ "late": true })), 5, true);
    check(("policy.decided", 9, json!({ "eventRole": "system.observability" })), 5, true);
    check(("task.failed", 9, json!({})), 9, true);
    check(("task.resumed", 3, json!({})), 5, false);
}

#[test]
fn threads_are_conversations_else_pairs_else_types_by_the_hour() {
    let key = |data: Value| {
        let text = json!({ "type": "a2a.send", "ts": HOUR + 5, "data": data }).to_string();
        thread_key(&Line::parse(text.as_bytes()).expect("an event"))
    };
    assert_eq!(key(json!({ "conversationId": "c", "fromAgent": "b", "toAgent": "a" })), "conv:c");
    assert_eq!(key(json!({ "fromAgent": "b", "toAgent": "a" })), "pair:a_b");
    assert_eq!(key(json!({ "fromAgent": "a", "toAgent": "b" })), "pair:a_b");
    assert_eq!(key(json!({ "sessionKey": "agent:b:main", "targetSessionKey": "agent:a:main" })), "pair:a_b");
    assert_eq!(key(json!({ "fromAgent": "a" })), "event:a2a.send:1970-01-01T01");
}

#[test]
fn a_thread_is_blocked_by_its_last_response_and_resolved_by_its_end() {
    let response = |outcome: Option<&str>| ("a2a.response", 1, json!({ "conversationId": "c", "outcome": outcome }));
    let send = ("a2a.send", 1, json!({ "conversationId": "c" }));
    let end = ("a2a.complete", 1, json!({ "conversationId": "c" }));
    let check = |events: &[(&str, u64, Value)], expected: ThreadState| {
        let (session, threads) = fold(events);
        assert_eq!(threads["conv:c"].state, expected, "{events:?}");
        assert_eq!(session.thread_states.iter().sum::<u32>(), 1);
    };
    check(std::slice::from_ref(&send), ThreadState::Active);
    check(&[send.clone(), response(None)], ThreadState::Active);
    check(&[send.clone(), response(Some("blocked"))], ThreadState::Blocked);
    check(&[send.clone(), response(Some("blocked")), end.clone()], ThreadState::Blocked);
    check(&[send.clone(), response(Some("blocked")), response(None), end.clone()], ThreadState::Resolved);
    check(&[send.clone(), end.clone(), send.clone()], ThreadState::Active);
    check(&[send.clone(), response(Some("blocked")), send.clone()], ThreadState::Blocked);
    check(&[send.clone(), response(Some("blocked")), end.clone(), send.clone()], ThreadState::Blocked);
    check(&[send.clone(), response(Some("blocked")), send, response(None), end], ThreadState::Resolved);
}

#[test]
fn a_title_is_the_label_else_the_goal_else_the_first_words_else_a_name_for_all() {
    let check = |events: &[(&str, u64, Value)], expected: &str| assert_eq!(fold(events).0.title(), expected);
    let said = |text: &str| ("a2a.send", 1, json!({ "message": text }));
    check(&[], title::NONE);
    check(&[said("task_17")], title::NONE);
    check(&[said("[outcome] blocked: x"), said("둘째"), said("셋째")], "둘째");
    check(&[said("첫째"), said("[Goal] 목표")], "목표");
    check(&[said("[Goal] 목표"), ("task.started", 2, json!({ "label": "이름" }))], "이름");
    check(&[("task.started", 2, json!({ "label": "task_3" })), said("말")], "말");
}

#[test]
fn the_classifier_sees_the_first_two_and_last_six_messages_of_main_conversations() {
    let mut events: Vec<(&str, u64, Value)> = (0..12)
        .map(|n| ("a2a.send", n, json!({ "message": format!("m{n}"), "fromAgent": "a", "toAgent": "b" })))
        .collect();
    events.push(("a2a.send", 20, json!({ "message": "aside", "eventRole": "delegation.subagent" })));
    events.push(("task.started", 21, json!({ "title": "결제" })));
    let text_at = |(seq, _): Spot| Some(events[usize::try_from(seq).expect("few")].2["message"].as_str()?.to_owned());
    let conversation = fold(&events).0.conversation(text_at).expect("something was said");
    assert_eq!(conversation.texts, ["m0", "m1", "m6", "m7", "m8", "m9", "m10", "m11"]);
    assert_eq!((conversation.participants, conversation.tags), (vec!["a".into(), "b".into()], vec!["결제".into()]));
    let long = ("a2a.send", 1, json!({ "message": "가".repeat(4_000) }));
    let shown = fold(&vec![long; 20]).0.conversation(|_| Some("가".repeat(4_000))).expect("something was said");
    assert!(shown.texts.iter().map(String::len).sum::<usize>() <= 4096);
    assert_eq!(fold(&[("task.started", 1, json!({}))]).0.conversation(|_| None), None);
}

#[test]
fn every_list_of_a_session_has_an_end() {
    let mut events = Vec::new();
    for n in 0..2_000_u64 {
        let name = format!("agent{n}");
        let data = json!({ "fromAgent": name, "toAgent": name, "conversationId": name, "taskId": name, "runId": name, "message": name });
        events.push(("a2a.send", n, data));
    }
    let (session, _) = fold(&events);
    assert_eq!(
        (session.open.len(), session.participants.len(), session.tasks.len()),
        (OPEN_MAX, PARTICIPANTS_MAX, TASKS_MAX)
    );
    assert!(session.open.contains_key("conv:agent1999"), "the newest are kept");
    assert!(serde_json::to_string(&session).expect("plain JSON").len() < 64 * 1024);
}

#[test]
fn a_person_s_choice_in_the_log_is_kept() {
    let chosen = json!({ "collabCategory": "infra_ops", "categorySource": "manual", "collabSubTags": ["배포"] });
    let (session, _) = fold(&[
        ("a2a.send", 1, chosen),
        ("a2a.send", 2, json!({ "collabCategory": "biz_strategy", "categorySource": "rule" })),
    ]);
    let manual = session.manual.expect("chosen");
    assert_eq!((manual.category.as_str(), manual.sub_tags), ("infra_ops", vec!["배포".to_owned()]));
}
