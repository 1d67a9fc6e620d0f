//! What holds of every page, whatever is written into it.

use crate::fixtures::{self, HOSTILE, every, shell};
use crate::*;

#[test]
fn no_word_lacks_a_language() {
    for ((name, ko), (_, en)) in Lang::Ko.words().all().into_iter().zip(Lang::En.words().all()) {
        assert!(!ko.trim().is_empty() && !en.trim().is_empty(), "{name}");
        assert!(en.is_ascii() || en.contains('…'), "{name} is English: {en}");
    }
}

#[test]
fn what_others_write_is_text_on_every_page() {
    for lang in Lang::ALL {
        let shell = Shell { notice: Some(Notice::Refused(HOSTILE.into())), ..shell(lang, "/tasks?q=%3Cscript%3E") };
        for (name, page) in every(&shell, HOSTILE) {
            let html = page.whole(&shell);
            assert_eq!(html.matches("<script").count(), 1, "{name}: the one of ours");
            let html = without_fields(&html);
            for forbidden in ["<script>alert", "\"onload", "</textarea></p>", " onload=", "javascript:", "style=\""] {
                assert!(!html.contains(forbidden), "{name} has {forbidden}");
            }
            assert!(!html.contains("[outcome]"), "{name}");
        }
    }
}

/// A page without what its fields for long texts hold: in there, nothing but an end of the field is read as anything.
fn without_fields(html: &str) -> String {
    let parts = html.split("<textarea").enumerate();
    let shown = parts
        .map(|(at, part)| if at == 0 { part } else { part.split_once("</textarea>").map_or(part, |(_, rest)| rest) });
    shown.collect()
}

/// What is written for machines, which no Korean reader of these views should have to know.
#[test]
fn views_of_a_deployment_speak_korean_where_there_are_words() {
    let raw = [
        "onFailure",
        ">hash<",
        ">id<",
        " id<",
        ">block<",
        ">builtin<",
        ">allow<",
        ">integer<",
        ">string<",
        ">boolean<",
        ">array<",
        ">object<",
        "host api.example",
        "secret token",
        ">serving<",
        ">degraded<",
        ">todo<",
        ">in_progress<",
        ">done<",
        "operator<",
    ];
    let views = ["plugins", "slot", "slot-refused", "milestones", "todos", "workspace", "channels", "settings"];
    let shell = shell(Lang::Ko, "/");
    for (name, page) in every(&shell, "배포").into_iter().filter(|(name, _)| views.contains(name)) {
        let html = page.whole(&shell);
        let found: Vec<_> = raw.iter().filter(|word| html.contains(**word)).collect();
        assert!(found.is_empty(), "{name} says {found:?}");
    }
}

#[test]
fn a_page_stays_small_however_long_a_text_is() {
    let long = "가나다 <b>&\n\n".repeat(100_000);
    let shell = shell(Lang::Ko, "/");
    for (name, page) in every(&shell, &clip(&long, 2_400)) {
        let bytes = page.whole(&shell).len();
        assert!(bytes < caps::PAGE_BYTES_MAX, "{name} has {bytes} bytes");
    }
    assert!(title_of(&long).len() < 200);
}

#[test]
fn every_field_has_a_label_and_every_page_one_heading() {
    let shell = shell(Lang::En, "/");
    for (name, page) in every(&shell, "text") {
        let html = page.whole(&shell);
        assert_eq!(html.matches("<h1").count(), 1, "{name}");
        assert!(html.contains("lang=\"en\"") && html.contains("<main id=\"main\""), "{name}");
        for field in ["<textarea id=\"", "<select id=\"", "<input id=\""] {
            for (at, _) in html.match_indices(field) {
                let id = html[at + field.len()..].split('"').next().unwrap_or_default();
                assert!(html.contains(&format!("<label for=\"{id}\"")), "{name}: {id} has no label");
            }
        }
        let ids: Vec<&str> =
            html.match_indices(" id=\"").map(|(at, _)| html[at + 5..].split('"').next().unwrap_or_default()).collect();
        let twice = ids.iter().find(|id| ids.iter().filter(|other| other == id).count() > 1);
        assert!(twice.is_none(), "{name}: {twice:?} twice");
    }
}

#[test]
fn a_fragment_alone_is_what_the_page_has() {
    let shell = shell(Lang::En, "/");
    for (name, page) in every(&shell, "text") {
        let whole = page.whole(&shell);
        for fragment in &page.fragments {
            assert!(whole.contains(&page.some(&shell, &[fragment.id])), "{name} {}", fragment.id);
        }
        assert!(name == "login" || whole.contains(&page.some(&shell, &["count"])), "{name}");
        assert_eq!(page.some(&shell, &["no-such"]), "");
    }
}

#[test]
fn who_may_only_look_finds_nothing_to_change() {
    let reader =
        Shell { who: Some(Who { name: "reader".into(), may_write: false, may_admin: false }), ..shell(Lang::En, "/") };
    for (name, page) in every(&reader, "text").into_iter().filter(|(name, _)| !["login", "refused"].contains(name)) {
        let html = page.whole(&reader);
        let posts = html.matches("method=\"post\"").count();
        let mover = usize::from(name == "tasks");
        let steps = usize::from(name == "task" || name == "task-dialog");
        assert_eq!(posts, 1 + mover + steps, "{name}: signing out, and forms without a button");
        assert!(!html.contains("<textarea"), "{name}");
    }
}

#[test]
fn nothing_is_asked_about_what_can_be_done_no_longer() {
    let shell = shell(Lang::En, "/tasks/task_1?dialog=complete");
    let shown = |status: &str, is_over: bool, dialog: TaskDialog| {
        let mut view = fixtures::task_of("text");
        (view.card.status, view.is_over) = (status.into(), is_over);
        task(&shell, &view, &TaskTab::Details, Some(dialog)).dialog.is_some()
    };
    assert!(shown("in_progress", false, TaskDialog::Complete) && shown("blocked", false, TaskDialog::Cancel));
    assert!(!shown("blocked", false, TaskDialog::Complete) && !shown("backlog", false, TaskDialog::Block));
    assert!(!shown("completed", true, TaskDialog::Cancel));
}

#[test]
fn an_address_is_changed_in_one_thing() {
    let shell = shell(Lang::En, "/tasks?q=a%20b&column=pending");
    assert_eq!(shell.with("column", ""), "/tasks?q=a%20b");
    assert_eq!(shell.with("column", "a/b"), "/tasks?q=a%20b&column=a%2Fb");
    assert_eq!(encode("../../etc"), "..%2F..%2Fetc");
    assert_eq!(encode(".."), "%2E%2E");
}

#[test]
fn languages_are_taken_from_what_a_browser_sends() {
    assert_eq!(Lang::accepted("fr, ko-KR;q=0.9, en;q=0.8"), Some(Lang::Ko));
    assert_eq!(Lang::accepted("en-GB,en;q=0.5"), Some(Lang::En));
    assert_eq!(Lang::accepted("fr"), None);
}

/// Writes every view as a file, to be looked at: `CHELA_PAGES=DIR cargo test -p chela-page pages_to_look_at`.
#[test]
fn pages_to_look_at() {
    let Some(folder) = std::env::var_os("CHELA_PAGES").map(std::path::PathBuf::from) else { return };
    for lang in Lang::ALL {
        for theme in [Theme::Light, Theme::Dark] {
            let shell = Shell { theme, ..shell(lang, "/") };
            for (name, page) in every(&shell, "Set up the service, and say where it is reached") {
                let html = page
                    .whole(&shell)
                    .replace("/assets/", "")
                    .replace(&STYLE.path()[8..], "style.css")
                    .replace(&SCRIPT.path()[8..], "none.js");
                let file = format!("{name}.{}.{}.html", lang.as_str(), theme.as_str());
                std::fs::write(folder.join(file), html).expect("written");
            }
        }
    }
    std::fs::write(folder.join("style.css"), STYLE.text).expect("written");
}

/// Words that records have and people do not say.
const OF_MACHINES: [&str; 36] = [
    "input",
    "dependency",
    "external",
    "error",
    "limit",
    "other",
    "requested",
    "escalated",
    "none",
    "send",
    "wait",
    "pingpong",
    "announce",
    "waiting",
    "stored",
    "delivered",
    "answered",
    "failed",
    "self-driving",
    "event-based",
    "polling",
    "backlog",
    "zombie",
    "unblock",
    "sent",
    "skip",
    "backoff",
    "stopped",
    "pending",
    "in_progress",
    "blocked",
    "completed",
    "cancelled",
    "active",
    "RUNNING",
    "[outcome]",
];

/// What a page says to people: no marks, no code.
fn spoken(html: &str) -> String {
    let mut text = String::new();
    for part in html.split("<code>").enumerate() {
        let shown = if part.0 == 0 { part.1 } else { part.1.split_once("</code>").map_or("", |(_, rest)| rest) };
        for piece in shown.split('<') {
            text.push_str(piece.split_once('>').map_or(piece, |(_, words)| words));
            text.push(' ');
        }
    }
    text
}

fn assert_no_word_of_machines(name: &str, html: &str) {
    let text = spoken(html);
    let words: Vec<&str> = text.split([' ', '\n', '·', ':', '(', ')', ',']).collect();
    let found: Vec<&&str> = OF_MACHINES.iter().filter(|word| words.contains(word)).collect();
    assert!(found.is_empty(), "{name} has {found:?}");
}

#[test]
fn a_korean_page_has_no_words_of_machines() {
    let shell = shell(Lang::Ko, "/");
    let of_operators = ["plugins", "slot", "slot-tried", "settings", "milestones", "todos", "workspace", "channels"];
    for (name, page) in every(&shell, "배포를 준비합니다") {
        if !of_operators.iter().any(|other| name.starts_with(other)) {
            assert_no_word_of_machines(name, &page.whole(&shell));
        }
    }
    for kind in ["input", "dependency", "external", "error", "limit", "other"] {
        for escalation in ["none", "requested", "escalated", "failed"] {
            let blocker = Blocker { kind: kind.into(), escalation: escalation.into(), ..Blocker::default() };
            let view = TaskDetail { blocked: Some(blocker), question: None, ..fixtures::task_of("배포") };
            assert_no_word_of_machines("task", &task(&shell, &view, &TaskTab::Details, None).whole(&shell));
        }
    }
    for (layer, action) in
        [("event-based", "skip"), ("polling", "backoff"), ("backlog", "failed"), ("zombie", "stopped")]
    {
        let mut view = fixtures::agent_of("배포");
        (view.kept.next, view.kept.last) = (Some((layer.into(), 1)), Some((action.into(), "이유".into(), 1)));
        assert_no_word_of_machines("agent", &agent(&shell, &view).whole(&shell));
    }
    let words = shell.words();
    for (word, shown) in
        [("send", words.job_phase("send")), ("wait", words.job_phase("wait")), ("stored", words.turn_state("stored"))]
    {
        assert_ne!(word, shown);
    }
}

#[test]
fn a_question_shows_up_on_the_page_of_an_agent_that_had_none() {
    let shell = shell(Lang::En, "/agents/eden");
    let mut view = fixtures::agent_of("text");
    let asked = std::mem::take(&mut view.questions);
    let before = agent(&shell, &view).whole(&shell);
    assert!(before.contains("<section id=\"questions\" data-live=\"questions\"></section>"), "it hears of news");
    view.questions = asked;
    assert!(agent(&shell, &view).some(&shell, &["questions"]).contains("textarea id=\"answer-q1\""));
}

#[test]
fn a_dialog_is_fetched_again_and_is_empty_when_there_is_nothing_left_to_ask() {
    let shell = shell(Lang::En, "/tasks/task_1?dialog=cancel");
    let shown = |status: &str, is_over: bool| {
        let mut view = fixtures::task_of("text");
        (view.card.status, view.is_over) = (status.into(), is_over);
        task(&shell, &view, &TaskTab::Details, Some(TaskDialog::Cancel))
    };
    let (open, over) = (shown("blocked", false), shown("cancelled", true));
    let asked = open.some(&shell, &["ask"]);
    assert!(asked.contains("name=\"seen\" value=\"blocked\"") && open.whole(&shell).contains(&asked), "{asked}");
    assert_eq!(over.some(&shell, &["ask"]), "<section id=\"ask\" data-live=\"\"></section>");
}

#[test]
fn what_is_said_twice_in_korean_says_what_it_does() {
    let words = Lang::Ko.words();
    assert_ne!(words.do_cancel, words.never_mind);
    let shell = shell(Lang::Ko, "/tasks/task_1?dialog=cancel");
    let mut view = fixtures::task_of("배포");
    view.card.status = "in_progress".into();
    let asked = task(&shell, &view, &TaskTab::Details, Some(TaskDialog::Cancel)).some(&shell, &["ask"]);
    assert!(asked.contains("value=\"cancel\">작업 취소<") && asked.contains("data-dismiss"), "{asked}");
}

#[test]
fn a_session_without_words_has_a_title_in_the_readers_language() {
    let shown = |lang: Lang| {
        let shell = shell(lang, "/conversations?category=all");
        conversations(&shell, &fixtures::conversations_of("협업 작업")).some(&shell, &["list"])
    };
    assert!(shown(Lang::Ko).contains(">협업 작업<") && shown(Lang::En).contains(">Collaboration<"));
}

#[test]
fn what_people_clear_is_what_they_typed() {
    let shell = shell(Lang::En, "/events?tree=1&until=0%3A9&type=task.started");
    let mut view = fixtures::operating::events_of("text");
    view.filter = EventsFilter {
        kind: Some("task.started".into()),
        tree: true,
        until: Some("0:9".into()),
        ..EventsFilter::default()
    };
    let head = events(&shell, &view).some(&shell, &["head"]);
    assert!(head.contains("href=\"/events?tree=1&amp;until=0%3A9\">Clear"), "{head}");
    assert!(head.contains("name=\"until\" value=\"0:9\""), "{head}");
}

#[test]
fn what_is_overdue_and_what_has_no_end_is_told_apart() {
    let shell = shell(Lang::En, "/tasks?view=schedule");
    let mut view = fixtures::operating::schedule_of("text");
    (view.bars[0].is_due, view.bars[0].to) = (true, view.now - 1);
    view.bars[1].is_due = false;
    let shown = schedule(&shell, &view).some(&shell, &["schedule"]);
    assert!(
        shown.contains("data-kind=\"bad\"") && shown.contains("! Overdue") && shown.contains("data-until-now"),
        "{shown}"
    );
    assert!(shown.contains("data-at=\""), "the reader's zone is the script's to know");
}

#[test]
fn a_category_that_nobody_has_chosen_is_not_the_first() {
    let shell = shell(Lang::En, "/conversations/ws_1");
    let mut view = fixtures::conversation_of("text");
    view.session.category = None;
    let head = conversation(&shell, &view).some(&shell, &["head"]);
    assert!(head.contains("<option value=\"\" selected disabled>None yet"), "{head}");
}

#[test]
fn choosing_a_role_leaves_the_tree() {
    let shell = shell(Lang::En, "/events?tree=1&session=ws_1");
    let (_, page) = every(&shell, "text").into_iter().find(|(name, _)| *name == "events-tree").expect("a tree");
    let head = page.some(&shell, &["head"]);
    assert!(head.contains("href=\"/events?session=ws_1&amp;role=delegation.subagent\""), "{head}");
    assert!(head.contains("href=\"/events?session=ws_1\""), "{head}");
}

#[test]
fn a_tool_that_failed_is_named_and_a_text_says_that_it_is_cut() {
    let shell = shell(Lang::Ko, "/chat");
    let shown = |bubble: Bubble| {
        let mut view = fixtures::chat_of("글");
        view.bubbles = vec![Bubble { id: "7".into(), ..bubble }];
        chat(&shell, &view).some(&shell, &["stream"])
    };
    let failed = shown(Bubble { failed: true, failed_tool: Some("http_fetch".into()), ..Bubble::default() });
    assert!(failed.contains("도구 실패") && failed.contains("<code>http_fetch</code>"), "{failed}");
    assert!(!failed.contains("상대가 답하지 못했습니다"), "{failed}");
    let cut = shown(Bubble { rest: Rest::InTranscript, ..Bubble::default() });
    assert!(cut.contains("글이 길어 잘랐습니다") && cut.contains("href=\"/chat?full=7\""), "{cut}");
    assert!(shown(Bubble { rest: Rest::Gone, ..Bubble::default() }).contains("더 이상 남아 있지 않습니다"));
}

#[test]
fn what_comes_first_is_named_by_its_title() {
    let shell = shell(Lang::En, "/tasks/task_1");
    let about =
        task(&shell, &fixtures::task_of("Lay the <@42> cable"), &TaskTab::Details, None).some(&shell, &["about"]);
    assert!(about.contains("/tasks/task_0\" dir=\"auto\">Lay the @Eden cable<"), "{about}");
    assert!(!about.contains(">task_00<"), "{about}");
}

#[test]
fn what_is_sent_in_the_chat_leads_to_the_newest_messages() {
    let shell = shell(Lang::En, "/chat?agent=ruda&before=700&full=m1&at=9");
    let page = chat(&shell, &fixtures::chat_of("text"));
    let compose = page.some(&shell, &["compose"]);
    assert!(compose.contains("name=\"back\" value=\"/chat?agent=ruda\""), "{compose}");
}

#[test]
fn the_figures_of_the_overview_hear_who_begins_and_ends() {
    let page = overview(&shell(Lang::En, "/"), &fixtures::overview_of("text"));
    let summary = page.fragments.iter().find(|fragment| fragment.id == "summary").expect("figures");
    assert!(summary.topics.iter().any(|topic| topic == "agents"), "{:?}", summary.topics);
}

#[test]
fn a_form_for_a_category_says_what_people_had_said_of_it() {
    let shell = shell(Lang::En, "/conversations/ws_1");
    let shown = |overridden: bool| {
        let mut view = fixtures::conversation_of("text");
        view.session.overridden = overridden;
        conversation(&shell, &view).some(&shell, &["head"])
    };
    assert!(shown(true).contains("name=\"seen\" value=\"engineering_build\""));
    assert!(shown(false).contains("name=\"seen\" value=\"-\""), "a classifier's word is none of theirs");
}

#[test]
fn a_form_that_needs_a_script_says_so() {
    for lang in Lang::ALL {
        let shell = shell(lang, "/plugins/classifier");
        let html = slot(&shell, &fixtures::operating::slot_of("text")).whole(&shell);
        let forms: Vec<&str> = html.split("<form").filter(|form| form.contains(" data-upload")).collect();
        assert!(forms.len() == 2 && forms.iter().all(|form| form.contains("<noscript>")), "{forms:#?}");
    }
}

#[test]
fn pictures_and_facts_are_named_in_the_readers_language() {
    let shell = shell(Lang::Ko, "/");
    let of = |name: &str| {
        let (_, page) = every(&shell, "배포").into_iter().find(|(known, _)| *known == name).expect("a view");
        page.whole(&shell)
    };
    assert!(of("overview").contains(">최대 ") && !of("overview").contains(">max "));
    assert!(of("job").contains("<dt>식별자</dt>") && !of("job").contains("<dt>id</dt>"));
}
