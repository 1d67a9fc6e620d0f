//! Views as a team of three leaves them, and as hostile writers would like to leave them.

pub(crate) mod operating;

use crate::*;

pub(crate) const NOW: u64 = 1_794_821_400_000;
pub(crate) const HOSTILE: &str = "<script>alert(1)</script> \u{202e}../../etc 🦀 \"onload=x' </textarea></p>";

pub(crate) fn shell(lang: Lang, path: &str) -> Shell {
    Shell {
        lang,
        theme: Theme::Auto,
        deployment: "Chela".into(),
        path: path.into(),
        who: Some(Who { name: "owner".into(), may_write: true, may_admin: true }),
        notice: None,
        open_questions: 2,
        names: vec![("42".into(), "Eden".into())],
    }
}

pub(crate) fn face(id: &str) -> Face {
    let (name, emoji) = match id {
        "ruda" => ("Ruda", "🦀"),
        "eden" => ("Eden", "🌱"),
        _ => ("Seum", "🛠"),
    };
    Face { id: id.into(), name: name.into(), emoji: Some(emoji.into()), colour: Some("#d9480f".into()) }
}

pub(crate) fn card(id: &str, title: &str, status: &str) -> TaskCard {
    TaskCard {
        id: id.into(),
        title: title.into(),
        status: status.into(),
        priority: if id.ends_with('1') { "urgent".into() } else { "medium".into() },
        agent: face("eden"),
        steps: Some(Steps { done: 2, total: 5 }),
        step: Some("(s3) Write the tests".into()),
        blocked: (status == "blocked").then(|| "Under which name is the service to be reached?".into()),
        question: (status == "blocked").then(|| "Under which name is the service to be reached?".into()),
        activity: "2026-11-16T09:30:00.000Z".into(),
    }
}

pub(crate) fn question(id: &str, text: &str) -> QuestionCard {
    QuestionCard {
        id: id.into(),
        question: text.into(),
        asker: face("ruda"),
        task: Some(("task_1".into(), "Set up the service".into())),
        context: Some("Eden is stuck: the service has no name yet.".into()),
        asked_at: NOW,
        deadline: Some(NOW + 3_600_000),
        default_answer: None,
        state: QuestionState::Open,
        answer: None,
    }
}

pub(crate) fn agent_card(id: &str, state: AgentState) -> AgentCard {
    let task = (state != AgentState::Idle)
        .then(|| card("task_1", "Set up the service and tell everybody where it is", "in_progress"));
    AgentCard {
        face: face(id),
        role: if id == "ruda" { "orchestrator".into() } else { "worker".into() },
        team: Some("Demo team".into()),
        state,
        queue: 1,
        task,
    }
}

pub(crate) fn job() -> JobRow {
    JobRow {
        id: "job-1".into(),
        from: face("ruda"),
        to: face("seum"),
        status: "FAILED".into(),
        turn: 2,
        error: Some("the model did not answer within 300 s".into()),
        at: NOW,
        work_session: Some("ws_1".into()),
    }
}

pub(crate) fn overview_of(text: &str) -> Overview {
    let days = (0..14).map(|day| Day { day: format!("2026-11-{:02}", day + 3), events: (day * 37) % 100 }).collect();
    Overview {
        agents: vec![
            agent_card("ruda", AgentState::Working),
            agent_card("eden", AgentState::WaitsForPerson),
            agent_card("seum", AgentState::Idle),
        ],
        teams: vec![TeamTotal {
            name: "Demo team".into(),
            colour: Some("#d9480f".into()),
            agents: 3,
            working: 1,
            steps: Steps { done: 4, total: 9 },
        }],
        questions: vec![question("q1", text), question("q2", "Release on Friday?")],
        more_questions: false,
        jobs: vec![job()],
        failed_jobs: 1,
        open: [3, 1, 2, 1],
        activity: Indexed::Ready(days),
        spread: [("개발/구현", "Engineering", 12, 600, 500), ("인프라/운영", "Infrastructure", 8, 400, 500)]
            .map(|(ko, en, sessions, share, share_before)| Spread {
                ko: ko.into(),
                en: en.into(),
                sessions,
                share,
                share_before,
            })
            .to_vec(),
    }
}

pub(crate) fn questions_of(text: &str) -> Questions {
    Questions {
        state: QuestionState::Open,
        questions: vec![question("q1", text), question("q2", "1. Port?\n2. **Region**?")],
        next: None,
    }
}

pub(crate) fn tasks_of(text: &str) -> Tasks {
    let titles = [
        "Draft the plan",
        text,
        "Measure the cold start",
        "A title that is long enough to need a second and even a third line on a small card",
    ];
    let columns = Column::ALL
        .into_iter()
        .map(|column| BoardColumn {
            column,
            cards: titles
                .iter()
                .enumerate()
                .map(|(at, title)| {
                    card(
                        &format!("task_{}{at}", column.as_str()),
                        title,
                        if column == Column::Closed { "failed" } else { column.as_str() },
                    )
                })
                .collect(),
            total: (!column.is_over()).then_some(4),
            next: Some(format!("/tasks?column={}", column.as_str())),
        })
        .collect();
    Tasks {
        filter: TasksFilter::default(),
        agents: vec![face("ruda"), face("eden"), face("seum")],
        columns,
        indexing: None,
    }
}

pub(crate) fn task_of(text: &str) -> TaskDetail {
    let step = |id: &str, status: &str| StepRow {
        id: id.into(),
        content: format!("Step {id}: {text}"),
        status: status.into(),
        is_first: id == "s1",
        is_last: id == "s4",
    };
    TaskDetail {
        card: card("task_1", text, "blocked"),
        description: format!("{text}\n\n- one\n- **two**"),
        steps: vec![step("s1", "done"), step("s2", "skipped"), step("s3", "in_progress"), step("s4", "pending")],
        steps_total: 4,
        progress: vec!["Task started".into(), text.into()],
        blocked: Some(Blocker { reason: text.into(), kind: "input".into(), ..Blocker::default() }),
        created: "2026-11-16T09:00:00.000Z".into(),
        created_by: Some("ruda".into()),
        depends_on: vec![("task_0".into(), text.into()), ("task_00".into(), String::new())],
        work_session: Some("ws_1".into()),
        question: Some(question("q1", text)),
        ..TaskDetail::default()
    }
}

pub(crate) fn bubbles(text: &str) -> Vec<Bubble> {
    let said = |id: &str, side: Side, from: &str, text: &str| Bubble {
        id: id.into(),
        side,
        from: face(from),
        to: Some("Eden".into()),
        at: NOW,
        text: text.into(),
        ..Bubble::default()
    };
    vec![
        said("1", Side::Right, "ruda", "Please **draft** the plan, <@42>.\n\n```\ncargo test\n```"),
        Bubble { tools: vec!["files_write".into()], ..said("2", Side::Left, "eden", text) },
        Bubble { failed: true, ..said("3", Side::Left, "seum", "The model did not answer within 300 s.") },
        Bubble {
            question: Some(question("q1", "Which port?")),
            cut: 900,
            ..said("4", Side::Left, "ruda", "I have to ask.")
        },
    ]
}

pub(crate) fn session_of(text: &str) -> SessionCard {
    SessionCard {
        id: "ws_1".into(),
        title: text.into(),
        status: "ACTIVE".into(),
        category: Some("engineering_build".into()),
        overridden: true,
        tags: vec!["wasm".into(), text.into()],
        participants: vec![face("ruda"), face("eden")],
        activity: NOW,
        messages: 12,
        threads: [1, 1, 0],
        passages: Vec::new(),
    }
}

pub(super) fn categories() -> Vec<CategoryBadge> {
    let row =
        |key: &str, ko: &str, en: &str| CategoryBadge { key: key.into(), ko: ko.into(), en: en.into(), sessions: 3 };
    vec![
        row("engineering_build", "개발/구현", "Engineering"),
        row("infra_ops", "인프라/운영", "Infrastructure and operations"),
        row("qa_validation", "QA/검증", "Quality assurance"),
    ]
}

pub(crate) fn conversations_of(text: &str) -> Conversations {
    Conversations {
        filter: SessionsFilter {
            category: Some("all".into()),
            text: Some(text.chars().take(100).collect()),
            ..SessionsFilter::default()
        },
        categories: categories(),
        uncategorised: 2,
        all: 9,
        agents: vec![face("ruda"), face("eden")],
        sessions: Indexed::Ready(Listed::Latest(vec![
            session_of(text),
            SessionCard { overridden: false, category: None, ..session_of("Release 0.2") },
        ])),
        next: Some("1.2".into()),
    }
}

pub(crate) fn conversation_of(text: &str) -> Conversation {
    let thread = |key: &str, state: &str| ThreadRow {
        key: key.into(),
        participants: vec![face("ruda"), face("eden")],
        state: state.into(),
        messages: 4,
        last: Some(text.into()),
        at: NOW,
    };
    Conversation {
        session: session_of(text),
        categories: categories(),
        threads: vec![thread("conv:1", "active"), thread("conv:2", "blocked")],
        thread: None,
        bubbles: bubbles(text),
        older: Some("0:99".into()),
        is_latest: true,
        tasks: vec![("task_1".into(), text.into())],
        tasks_left: 2,
        why: Some(operating::why_of(text)),
    }
}

pub(crate) fn chat_of(text: &str) -> Chat {
    Chat {
        agents: vec![face("ruda"), face("seum")],
        agent: Some(face("ruda")),
        session: "agent:ruda:main".into(),
        bubbles: bubbles(text),
        older: Some(7),
        is_latest: true,
        running: true,
        waiting: vec![text.into()],
        open: vec![("q1".into(), text.into()), ("q2".into(), text.into())],
        key: "k1".into(),
    }
}

pub(crate) fn agent_of(text: &str) -> AgentDetail {
    AgentDetail {
        card: agent_card("eden", AgentState::WaitsForPerson),
        avatar: Some(format!("data:image/png;base64,{text}")),
        tokens_today: 12_345,
        kept: Kept {
            enabled: true,
            next: Some(("self-driving".into(), NOW)),
            last: Some(("sent".into(), text.into(), NOW)),
            in_a_row: Some((2, 20)),
            without_progress: Some((1, 30)),
        },
        tasks: vec![card("task_1", text, "in_progress"), card("task_2", "Release 0.2", "backlog")],
        tasks_total: 14,
        questions: vec![question("q1", text)],
        jobs: vec![job()],
        sessions: vec![("agent:eden:main".into(), NOW)],
        chat: Some(face("ruda")),
    }
}

/// Every view, filled with a text.
pub(crate) fn every(shell: &Shell, text: &str) -> Vec<(&'static str, Page)> {
    let turns = TaskTab::Conversation { turns: bubbles(text), total: 4, older: Some("1.1.1.r".into()), later: true };
    let row = EventRow {
        kind: "human_query.requested".into(),
        agent: "ruda".into(),
        at: NOW,
        said: text.into(),
        human: true,
    };
    let events = TaskTab::Events { events: Indexed::Ready(vec![row]), next: None, later: false };
    let first = Conversations {
        filter: SessionsFilter::default(),
        sessions: Indexed::Ready(Listed::Nothing),
        next: None,
        ..conversations_of(text)
    };
    let grouped = Conversations {
        filter: SessionsFilter { category: Some("all".into()), grouped: true, ..SessionsFilter::default() },
        sessions: Indexed::Ready(Listed::Groups(vec![("engineering_build".into(), vec![session_of(text)], true)])),
        next: None,
        ..conversations_of(text)
    };
    let none = Overview {
        agents: Vec::new(),
        teams: Vec::new(),
        questions: Vec::new(),
        more_questions: false,
        jobs: Vec::new(),
        failed_jobs: 0,
        open: [0; 4],
        activity: Indexed::Indexing(40),
        spread: Vec::new(),
    };
    let mut views = vec![
        ("login", login(shell, text)),
        ("problem", problem(shell, &Said { said: text.into(), detail: Some(text.into()) }, false)),
        (
            "refused",
            refused(
                shell,
                &Said { said: text.into(), detail: Some(text.into()) },
                &[("title".into(), text.into()), ("description".into(), text.into())],
                "/tasks",
            ),
        ),
        ("overview", overview(shell, &overview_of(text))),
        ("empty", overview(shell, &none)),
        ("questions", questions(shell, &questions_of(text))),
        ("tasks", tasks(shell, &tasks_of(text))),
        ("task", task(shell, &task_of(text), &TaskTab::Details, None)),
        ("task-dialog", task(shell, &task_of(text), &TaskTab::Details, Some(TaskDialog::Cancel))),
        ("task-conversation", task(shell, &task_of(text), &turns, None)),
        ("task-events", task(shell, &task_of(text), &events, None)),
        ("conversations-first", conversations(shell, &first)),
        ("conversations-groups", conversations(shell, &grouped)),
        ("conversations", conversations(shell, &conversations_of(text))),
        ("conversation", conversation(shell, &conversation_of(text))),
        ("chat", chat(shell, &chat_of(text))),
        ("agent", agent(shell, &agent_of(text))),
    ];
    views.extend(operating::every(shell, text));
    views
}
