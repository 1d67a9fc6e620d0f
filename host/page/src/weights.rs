//! Every view as full as its caps allow, with texts that grow most when they become HTML: none is heavier than a page may be.

use crate::fixtures::operating as of;
use crate::fixtures::{self, shell};
use crate::*;

/// The longest titles that the gatherers make, and texts as long as the stores take them.
const TITLE: usize = 160;
const LONG: usize = 60_000;

/// Texts that become several times as long.
fn texts() -> [String; 5] {
    ["가나다 ", "\"&\" ", "`a` ", "|a|b\n", "plain words, "].map(|piece| piece.repeat(LONG / piece.len()))
}

fn check(name: &str, shell: &Shell, page: &Page) {
    let bytes = page.whole(shell).len();
    assert!(bytes < caps::PAGE_BYTES_MAX, "{name} of {} has {bytes} bytes", shell.path);
    if std::env::var_os("CHELA_WEIGHTS").is_some() {
        println!("{name} {bytes}");
    }
}

fn many<T: Clone>(one: &T, count: usize, mut named: impl FnMut(&mut T, usize)) -> Vec<T> {
    let mut all = vec![one.clone(); count];
    all.iter_mut().enumerate().for_each(|(at, one)| named(one, at));
    all
}

fn id(at: usize) -> String {
    format!("0192f3a4-7c1e-7b6a-9d2f-{at:012}")
}

#[test]
fn milestones_and_todos_stay_small_however_many_there_are() {
    for text in texts() {
        let title: String = text.chars().take(500).collect();
        let item = |at: usize| ListRow { id: id(at), ..of::list_row("", &title, "todo") };
        let mut view = of::milestones_of(&title);
        view.rows = many(&view.rows[0].clone(), caps::MILESTONES, |one, at| {
            (one.row, one.description) = (item(at), text.clone());
            one.items = if at == 0 { (0..caps::ITEMS).map(|nth| item(1_000 + nth)).collect() } else { Vec::new() };
            one.items_total = 5_000;
        });
        (view.edited, view.deleted) = (None, None);
        let plain = shell(Lang::Ko, "/milestones?open=1");
        check("milestones", &plain, &milestones(&plain, &view));
        let full = shell(Lang::Ko, &format!("/milestones?full=about-{}", id(0)));
        check("milestones whole", &full, &milestones(&full, &view));
        let mut edited = of::chosen(RowKind::Milestone, &title);
        edited.description = text.chars().take(20_000).collect();
        view.edited = Some(edited);
        check("milestones edited", &plain, &milestones(&plain, &view));
        let mut view = of::todos_of(&title);
        view.rows = (0..caps::TODOS).map(item).collect();
        check("todos", &plain, &todos(&plain, &view));
    }
}

#[test]
fn what_was_said_stays_small_also_where_one_text_is_asked_for_whole() {
    for text in texts() {
        let title: String = text.chars().take(TITLE).collect();
        let said = |full: bool| {
            let mut all = many(&fixtures::bubbles("")[1], caps::BUBBLES, |one, at| {
                one.id = id(at);
                one.text = clip(&text, caps::BUBBLE_BYTES);
                one.cut = LONG - caps::BUBBLE_BYTES;
                one.tools = vec!["sessions_send".into(); 24];
            });
            if full {
                all[3].text = text.clone();
            }
            all[7].question = Some(fixtures::question("q7", &text));
            all
        };
        for path in ["/chat".to_owned(), format!("/chat?full={}", id(3)), format!("/chat?full={}&at=40000", id(3))] {
            let shell = shell(Lang::Ko, &path);
            let bubbles = said(path.contains("full"));
            check(
                "chat",
                &shell,
                &chat(
                    &shell,
                    &Chat { bubbles: bubbles.clone(), waiting: vec![text.clone(); 10], ..fixtures::chat_of(&title) },
                ),
            );
            let mut view = Conversation { bubbles: bubbles.clone(), why: None, ..fixtures::conversation_of(&title) };
            view.threads = many(&view.threads[0].clone(), caps::THREADS, |one, at| one.key = id(at));
            check("conversation", &shell, &conversation(&shell, &view));
            let tab = TaskTab::Conversation { turns: bubbles, total: 9_999, older: None, later: true };
            check("task conversation", &shell, &task(&shell, &full_task(&text), &tab, None));
        }
    }
}

fn full_task(text: &str) -> TaskDetail {
    let mut view = fixtures::task_of(&text.chars().take(TITLE).collect::<String>());
    let step = view.steps[3].clone();
    view.steps = many(&step, caps::STEPS, |one, at| {
        (one.id, one.content) = (format!("s{at}"), text.chars().take(1_000).collect())
    });
    view.progress = vec![text.chars().take(4_000).collect(); caps::PROGRESS_LINES];
    (view.steps_total, view.progress_from) = (200, 90);
    (view.description, view.context) = (text.to_owned(), Some(text.to_owned()));
    view.outcome = Some(("completed".into(), text.to_owned(), text.to_owned()));
    view.blocked = Some(Blocker { reason: text.to_owned(), action: text.to_owned(), ..Blocker::default() });
    view.depends_on = vec![(id(0), text.chars().take(TITLE).collect()); caps::TITLES];
    view.question = Some(fixtures::question("q1", text));
    view
}

#[test]
fn a_task_stays_small_and_shows_every_text_whole() {
    for text in texts() {
        let view = full_task(&text);
        for full in
            ["", "?full=description", "?full=line-91", "?full=step-s3", "?full=summary", "?full=q-q1", "?dialog=cancel"]
        {
            let shell = shell(Lang::Ko, &format!("/tasks/1{full}"));
            check("task", &shell, &task(&shell, &view, &TaskTab::Details, Some(TaskDialog::Cancel)));
            let unasked = TaskDetail { question: None, ..view.clone() };
            check("task blocked", &shell, &task(&shell, &unasked, &TaskTab::Details, None));
        }
    }
}

#[test]
fn boards_graphs_and_overviews_stay_small_at_their_caps() {
    for text in texts() {
        let title: String = title_of(&text);
        let shell = shell(Lang::Ko, "/tasks?agent=eden&q=%EA%B0%80");
        let cards = |count: usize, status: &str| {
            many(&fixtures::card("task_1", &title, status), count, |one, at| {
                one.id = format!("task_{}", id(at));
                one.step = Some(text.chars().take(1_000).collect());
            })
        };
        let mut view = fixtures::tasks_of(&title);
        for column in &mut view.columns {
            column.cards = cards(
                caps::COLUMN_CARDS,
                if column.column == Column::Closed { "failed" } else { column.column.as_str() },
            );
        }
        check("board", &shell, &tasks(&shell, &view));
        view.columns.truncate(1);
        view.columns[0].cards = cards(caps::SINGLE_CARDS, "in_progress");
        check("column", &shell, &tasks(&shell, &view));
        let mut view = of::canvas_of(&title);
        view.nodes = many(&view.nodes[0].clone(), caps::NODES, |one, at| {
            one.tasks = cards(if at < caps::GRAPH_TASKS - caps::NODES { 2 } else { 1 }, "blocked");
            (one.face.id, one.left) = (id(at), 9);
        });
        check("canvas", &shell, &canvas(&shell, &view));
        let mut view = of::schedule_of(&title);
        view.bars = many(&view.bars[0].clone(), caps::BARS, |one, at| {
            one.card = cards(1, "blocked").remove(0);
            one.card.id = id(at);
            one.depends_on = (0..20).map(id).collect();
        });
        check("schedule", &shell, &schedule(&shell, &view));
        let mut view = fixtures::overview_of(&text);
        view.agents = many(&view.agents[0].clone(), 400, |one, at| {
            (one.face.id, one.task) = (id(at), Some(cards(1, "blocked").remove(0)));
        });
        view.questions = many(&fixtures::question("q", &text), 10, |one, at| one.id = id(at));
        check("overview", &shell, &overview(&shell, &view));
        let mut view = fixtures::questions_of(&text);
        view.questions = many(&fixtures::question("q", &text), caps::QUESTIONS, |one, at| one.id = id(at));
        check("questions", &shell, &questions(&shell, &view));
        let mut view = fixtures::agent_of(&text);
        view.questions = many(&fixtures::question("q", &text), 10, |one, at| one.id = id(at));
        view.tasks = cards(20, "blocked");
        check("agent", &shell, &agent(&shell, &view));
        let mut view = fixtures::conversations_of(&title);
        let row = SessionCard { passages: vec![title.clone(); 3], ..fixtures::session_of(&title) };
        view.sessions = Indexed::Ready(Listed::Latest(many(&row, caps::SESSIONS, |one, at| one.id = id(at))));
        check("conversations", &shell, &conversations(&shell, &view));
    }
}

#[test]
fn what_operators_look_at_stays_small_at_its_caps() {
    for text in texts() {
        let title = title_of(&text);
        let plain = shell(Lang::Ko, "/plugins/classifier");
        let config = text.repeat(2);
        let mut view = of::slot_of(&title);
        view.rules = Some(Rules::Text(text.chars().cycle().take(RULES_BYTES_MAX / 3).collect()));
        (view.config, view.typed_config) = (config, None);
        if let Some(tried) = &mut view.tried {
            tried.rows = many(&tried.rows[0].clone(), caps::TRIED, |one, at| one.session = Some(id(at)));
        }
        view.logs = vec![("info".into(), text.clone(), 1); 30];
        for path in ["/plugins/classifier", "/plugins/classifier?edit=rules", "/plugins/classifier?edit=config"] {
            let shell = shell(Lang::Ko, path);
            check("slot", &shell, &slot(&shell, &view));
        }
        let mut view = of::settings_of(&title);
        view.text = text.repeat(2);
        view.rows = many(&view.rows[0].clone(), 200, |one, at| (one.path, one.said) = (id(at), clip(&text, 400)));
        for path in ["/settings?section=limits", "/settings?section=limits&edit=1"] {
            let shell = shell(Lang::Ko, path);
            check("settings", &shell, &settings(&shell, &view));
        }
        let mut view = of::events_of(&title);
        view.shown = Indexed::Ready(EventsShown::Lines {
            lines: (0..caps::EVENT_LINES as u64)
                .map(|at| of::line(at, "orchestration.task", "task.updated", EventSort::Plain, &title))
                .collect(),
            next: None,
        });
        view.raw = Some(text.clone());
        check("events", &plain, &events(&plain, &view));
        let mut view = of::tree_of(&title);
        if let Indexed::Ready(EventsShown::Tree { branches, .. }) = &mut view.shown {
            branches[0].branches.clear();
            *branches = many(&branches[0].clone(), caps::BRANCHES, |one, at| one.key = id(at));
        }
        check("tree", &plain, &events(&plain, &view));
        let mut view = of::jobs_of(&title);
        view.jobs = many(&view.jobs[0].clone(), caps::JOBS, |one, at| {
            (one.row.id, one.row.error) = (id(at), Some(text.clone()))
        });
        check("jobs", &plain, &jobs(&plain, &view));
        let mut view = of::job_of(&text);
        view.turns = many(&view.turns[0].clone(), 20, |one, at| (one.turn, one.error) = (at as u32, text.clone()));
        if let Indexed::Ready(why) = &mut view.why {
            why.decisions = vec![why.decisions[1].clone(); caps::DECISIONS];
        }
        for path in ["/jobs/1", "/jobs/1?full=message", "/jobs/1?full=turn-3"] {
            let shell = shell(Lang::Ko, path);
            check("job", &shell, &job(&shell, &view));
        }
        for path in ["notes/plan.md", "notes/plan.txt"] {
            let file =
                WorkspaceShown::File { text: text.chars().take(32_000).collect(), bytes: 99_999, from: 0, next: None };
            check("file", &plain, &workspace(&plain, &of::workspace_of(file, path)));
        }
        let rows = many(&FileRow { name: text.chars().take(85).collect(), is_folder: false }, caps::FILES, |_, _| {});
        let folder = WorkspaceShown::Folder { rows, from: 0, total: 9_000, more: true };
        check("folder", &plain, &workspace(&plain, &of::workspace_of(folder, &"폴더/".repeat(100))));
    }
}
