//! Every way a task may go, and every way it may not.

use chela_taskfile::Priority;

use super::*;

/// Tasks by name and status, in the order in which they were made; `x<y` is one that depends on another.
struct Team(BTreeMap<String, Arc<Task>>);

impl Team {
    fn of(tasks: &[(&str, Status)]) -> Self {
        let mut board = BTreeMap::new();
        for ((name, status), n) in tasks.iter().zip(1..) {
            let (name, dependency) = name.split_once('<').map_or((*name, None), |(name, on)| (name, Some(on)));
            let mut task = Task::new(format!("task_{name}"), name, format!("t{n}"));
            task.status = status.clone();
            task.depends_on = dependency.map(|on| format!("task_{on}")).into_iter().collect();
            board.insert(task.id.clone(), Arc::new(task));
        }
        Self(board)
    }

    fn decide(&self, op: Op) -> Result<Decided, Refused> {
        let is_open = |id: &str| match id {
            "task_elsewhere" => Some(true),
            "task_done" => Some(false),
            id => self.0.get(id).map(|task| !task.status.is_terminal()),
        };
        Board { tasks: &self.0, is_open: &is_open, now: "t9".into() }.decide(op)
    }
}

/// `name status, name status` of what changed, and the events.
fn shown(decided: &Decided) -> (String, String) {
    let task = |changed: &Changed| format!("{} {}", changed.task.id.trim_start_matches("task_"), changed.task.status);
    let events = decided.changed.iter().flat_map(|changed| changed.told.iter().map(|(kind, _)| kind.as_str()));
    (decided.changed.iter().map(task).collect::<Vec<_>>().join(", "), events.collect::<Vec<_>>().join(" "))
}

#[track_caller]
fn check(tasks: &[(&str, Status)], op: Op, expected: &str, events: &str) -> Decided {
    let decided = Team::of(tasks).decide(op).unwrap_or_else(|refused| panic!("{refused}"));
    assert_eq!(shown(&decided), (expected.to_owned(), events.to_owned()));
    assert!(decided.changed.iter().all(|changed| changed.task.last_activity == "t9"));
    decided
}

#[track_caller]
fn refuse(tasks: &[(&str, Status)], op: Op, said: &str) {
    let refused = Team::of(tasks).decide(op).expect_err("refused").to_string();
    assert!(refused.contains(said), "{refused}");
}

fn new(name: &str) -> Box<Task> {
    Box::new(Task::new(format!("task_{name}"), name, "t9"))
}

fn complete(name: &str) -> Op {
    Op::Complete { task: Some(format!("task_{name}")), summary: None, warnings: vec![] }
}

const ACTIVE: (&str, Status) = ("a", Status::InProgress);

#[test]
fn a_task_starts_at_once_unless_something_is_in_the_way() {
    check(&[], Op::Start(new("b"), Approval::NotNeeded), "b in_progress", "task.started");
    let queued = check(&[ACTIVE], Op::Start(new("b"), Approval::NotNeeded), "b pending", "task.updated");
    assert!(queued.answer["message"].as_str().is_some_and(|said| said.contains("task_a is in progress")));
    check(&[], Op::Start(new("b"), Approval::Needed), "b pending_approval", "task.updated");
    let waiting = |on: &str| Box::new(Task { depends_on: vec![on.into()], ..*new("b") });
    check(&[], Op::Start(waiting("task_elsewhere"), Approval::NotNeeded), "b pending", "task.updated");
    check(&[], Op::Start(waiting("task_done"), Approval::NotNeeded), "b in_progress", "task.started");
    refuse(&[], Op::Start(waiting("task_x"), Approval::NotNeeded), "there is no task task_x");
}

#[test]
fn when_the_active_task_ends_the_oldest_pending_starts_and_then_the_backlog() {
    let pending = [ACTIVE, ("c", Status::Pending), ("b", Status::Pending)];
    let decided = check(&pending, complete("a"), "a completed, c in_progress", "task.completed task.started");
    assert_eq!(decided.answer["nextTaskId"], "task_c");
    let waiting = [ACTIVE, ("c<elsewhere", Status::Pending), ("b<a", Status::Pending)];
    check(&waiting, complete("a"), "a completed, b in_progress", "task.completed task.started");
    let backlog = [ACTIVE, ("c", Status::Backlog)];
    check(&backlog, complete("a"), "a completed, c in_progress", "task.completed task.backlog_picked task.started");
    check(&[ACTIVE], complete("a"), "a completed", "task.completed");
    let two = [ACTIVE, ("b", Status::InProgress), ("c", Status::Pending)];
    check(&two, complete("a"), "a completed", "task.completed");
}

#[test]
fn only_a_task_in_progress_is_completed() {
    for status in [Status::Pending, Status::Backlog, Status::PendingApproval] {
        refuse(&[("a", status)], complete("a"), "only a task in progress can be completed");
    }
    refuse(&[("a", Status::Blocked)], complete("a"), "resume it with task_resume");
    refuse(&[("a", Status::Completed)], complete("a"), "it is over already");
    refuse(&[], Op::Complete { task: None, summary: None, warnings: vec![] }, "no task is in progress");
    refuse(&[ACTIVE], complete("z"), "there is no task task_z");
}

#[test]
fn any_open_task_can_be_cancelled_and_only_work_can_fail() {
    let cancel = |as_failed| Op::Cancel { task: Some("task_a".into()), reason: Some("no\nneed".into()), as_failed };
    for status in [Status::Pending, Status::Backlog, Status::PendingApproval, Status::InProgress, Status::Blocked] {
        let decided = check(&[("a", status)], cancel(false), "a cancelled", "task.cancelled");
        assert_eq!(decided.changed[0].task.outcome.as_ref().map(|outcome| &*outcome.reason), Some("no need"));
    }
    check(&[ACTIVE], cancel(true), "a failed", "task.failed");
    refuse(&[("a", Status::Pending)], cancel(true), "only a task in progress or blocked can fail");
    refuse(&[("a", Status::Failed)], cancel(false), "it is over already");
}

#[test]
fn a_blocked_task_makes_room_and_comes_back() {
    let block = |name: &str| Op::Block {
        task: Some(format!("task_{name}")),
        blocked: Blocked { reason: "no key".into(), kind: "external".into(), ..Blocked::default() },
    };
    let tasks = [ACTIVE, ("b", Status::Pending), ("c", Status::Backlog)];
    check(&tasks, block("a"), "a blocked, b in_progress", "task.blocked task.started");
    check(&[ACTIVE, ("c", Status::Backlog)], block("a"), "a blocked", "task.blocked");
    refuse(&[("a", Status::Pending)], block("a"), "only a task in progress can be blocked");
    let resume = |task: Option<&str>| Op::Resume { task: task.map(str::to_owned), progress: None };
    check(&[("a", Status::Blocked)], resume(None), "a in_progress", "task.resumed");
    let busy = check(
        &[("a", Status::Blocked), ("b", Status::InProgress)],
        resume(Some("task_a")),
        "a pending",
        "task.resumed",
    );
    assert!(busy.changed[0].task.blocked.is_none());
    refuse(&[ACTIVE], resume(Some("task_a")), "only a blocked or a pending task");
    refuse(&[("a<elsewhere", Status::Pending)], resume(Some("task_a")), "waits for task_elsewhere");
}

#[test]
fn approval_and_the_backlog_lead_to_pending_and_then_to_work() {
    let approve = || Op::Approve { task: "task_a".into(), by: "seum".into() };
    check(&[("a", Status::PendingApproval)], approve(), "a in_progress", "task.approved task.started");
    check(&[("a", Status::PendingApproval), ("b", Status::InProgress)], approve(), "a pending", "task.approved");
    refuse(&[ACTIVE], approve(), "only a task that waits for approval");
    let pick = |task: Option<&str>| Op::PickFromBacklog { task: task.map(str::to_owned) };
    let mut team = Team::of(&[("a", Status::Backlog), ("b", Status::Backlog), ("c<elsewhere", Status::Backlog)]);
    let urgent = |id: &str, team: &mut Team| {
        let task = team.0.get_mut(id).expect("there");
        *task = Arc::new(Task { priority: Priority::Urgent, ..Task::clone(task) });
    };
    assert_eq!(shown(&team.decide(pick(None)).expect("picked")).0, "a in_progress");
    urgent("task_b", &mut team);
    urgent("task_c", &mut team);
    assert_eq!(shown(&team.decide(pick(None)).expect("picked")).0, "b in_progress");
    refuse(&[("c<elsewhere", Status::Backlog)], pick(None), "waits for another");
    refuse(&[("c<elsewhere", Status::Backlog)], pick(Some("task_c")), "waits for task_elsewhere");
    refuse(&[ACTIVE], pick(None), "the backlog is empty");
    refuse(&[ACTIVE], pick(Some("task_a")), "only a task of the backlog");
}

#[test]
fn steps_and_progress_are_told_and_a_repeated_step_changes_nothing() {
    let mut team = Team::of(&[ACTIVE]);
    let apply = |team: &mut Team, change: Change, progress: Option<&str>| {
        let op = Op::Update { task: None, change: Some(change), progress: progress.map(str::to_owned) };
        let decided = team.decide(op).unwrap_or_else(|refused| panic!("{refused}"));
        for changed in &decided.changed {
            team.0.insert(changed.task.id.clone(), Arc::new(changed.task.clone()));
        }
        decided
    };
    apply(&mut team, Change::Set(vec![("파악".into(), None), ("추가".into(), None)]), None);
    let done = apply(&mut team, Change::Complete(None), None);
    let (kind, facts) = &done.changed[0].told[0];
    assert_eq!((*kind, &facts["action"], &facts["stepId"]), (Kind::TaskUpdated, &json!("complete_step"), &json!("s1")));
    assert_eq!(facts["stepsProgress"]["done"], 1);
    assert_eq!(team.0["task_a"].progress.last().map(String::as_str), Some("[s1] 파악 — 완료"));
    assert!(apply(&mut team, Change::Complete(Some("s1".into())), None).changed.is_empty());
    apply(&mut team, Change::Skip(Some("s2".into())), Some("Phase 2에서 진행"));
    assert_eq!(team.0["task_a"].progress.last().map(String::as_str), Some("[s2] Phase 2에서 진행"));
    refuse(&[ACTIVE], Op::Update { task: None, change: None, progress: None }, "say what changed");
    refuse(&[ACTIVE], Op::Update { task: None, change: None, progress: Some(" \n".into()) }, "is empty");
    refuse(
        &[("a", Status::Completed)],
        Op::Update { task: Some("task_a".into()), change: None, progress: Some("x".into()) },
        "it is over",
    );
}

#[test]
fn an_unblock_is_asked_for_three_times_then_passed_on_and_then_given_up() {
    let mut team = Team::of(&[("a", Status::Blocked)]);
    let mut seen = Vec::new();
    let stages = [Unblock::Request(1), Unblock::Request(2), Unblock::Request(3), Unblock::Escalate, Unblock::Fail];
    for (nth, stage) in stages.into_iter().enumerate() {
        for other in stages.into_iter().filter(|other| *other != stage) {
            let refused = team.decide(Op::RequestUnblock { task: "task_a".into(), stage: other });
            assert!(refused.is_err(), "{other:?} as the {nth}th");
        }
        let decided = team.decide(Op::RequestUnblock { task: "task_a".into(), stage }).expect("asked");
        let changed = &decided.changed[0];
        let blocked = changed.task.blocked.clone().expect("blocked");
        seen.push(format!("{} {} {}", changed.told[0].0.as_str(), blocked.requests, blocked.escalation));
        team.0.insert("task_a".into(), Arc::new(changed.task.clone()));
    }
    let expected = [
        "unblock.requested 1 requested",
        "unblock.requested 2 requested",
        "unblock.requested 3 requested",
        "unblock.requested 3 escalated",
        "unblock.failed 3 failed",
    ];
    assert_eq!(seen, expected);
}
