//! Where people are in the hub: every view, filter, tab and dialog has an address that shows it, again after a reload, and again on the way back.

use serde_json::json;
use support::browser::{Browser, Tab};
use support::events::write_log;
use support::pages::Site;
use support::{Binary, TestDir, eventually, have};

use super::hub_forms::at_rest;

const SCRIPT: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "stuck on the port", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
    { when: "work on the port", steps: [
        { call: { tool: "task_start", args: { description: "Open the port", priority: "high", steps: [{ content: "choose" }] } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the port", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
  ], otherwise: "You said: {{input}}" }"#;

/// An address, and what must be on the page for it. `TASK`, `JOB` and `EVENT` are of the story below.
const PLACES: [(&str, &str); 42] = [
    ("/", "document.querySelector('#agents .card')"),
    ("/conversations", "document.querySelector('.categories[data-large]')"),
    (
        "/conversations?category=infra_ops",
        "document.querySelector('.category[aria-current]').href.endsWith('infra_ops') && document.querySelectorAll('#list li.row').length === 1",
    ),
    (
        "/conversations?category=all&status=ARCHIVED",
        "document.querySelector('#status').value === 'ARCHIVED' && document.querySelector('.empty')",
    ),
    (
        "/conversations?category=all&thread=blocked",
        "document.querySelector('#thread').value === 'blocked' && document.querySelectorAll('#list li.row').length === 1",
    ),
    (
        "/conversations?category=all&agent=seum",
        "document.querySelector('#agent').value === 'seum' && document.querySelector('#list li.row')",
    ),
    (
        "/conversations?category=all&tag=nobody",
        "document.querySelector('#tag').value === 'nobody' && document.querySelector('.empty')",
    ),
    (
        "/conversations?category=all&q=certificates",
        "document.querySelector('#q').value === 'certificates' && document.querySelector('#list blockquote')",
    ),
    (
        "/conversations?category=all&group=category",
        "document.querySelectorAll('.group').length === 3 && [...document.querySelectorAll('.group')].every((e) => e.querySelector('h2') && e.querySelector('li.row'))",
    ),
    ("/conversations/ws_a", "document.querySelectorAll('.bubble').length === 2"),
    ("/conversations/ws_a?thread=conv%3Ac-ws_a", "document.querySelectorAll('.bubble').length === 2"),
    ("/conversations/ws_a?why=1", "document.querySelector('#why')"),
    ("/tasks", "document.querySelectorAll('.column').length === 6"),
    (
        "/tasks?agent=seum",
        "document.querySelector('#agent').value === 'seum' && [...document.querySelectorAll('.card')].every((e) => e.innerText.includes('Seum'))",
    ),
    (
        "/tasks?priority=high",
        "document.querySelectorAll('.card').length === 1 && document.querySelector('#priority').value === 'high'",
    ),
    (
        "/tasks?q=shed",
        "document.querySelectorAll('.card').length === 1 && document.querySelector('#q').value === 'shed'",
    ),
    (
        "/tasks?column=backlog",
        "document.querySelectorAll('.column').length === 1 && document.querySelector('[data-column=backlog] .card')",
    ),
    ("/tasks?view=canvas", "document.querySelector('.canvas [data-kind=asks]')"),
    ("/tasks?view=canvas&agent=eden", "document.querySelectorAll('.canvas .node[href^=\"/agents/\"]').length === 1"),
    ("/tasks?view=schedule", "document.querySelector('.schedule [data-kind=asks]')"),
    ("/tasks/TASK", "document.querySelector('.checklist li')"),
    ("/tasks/TASK?tab=conversation", "document.querySelector('#talk .bubble')"),
    ("/tasks/TASK?tab=events", "document.querySelector('#events li.row')"),
    ("/tasks/TASK?tab=why", "document.querySelector('#why')"),
    ("/tasks/TASK?dialog=cancel", "document.querySelector('dialog:modal textarea')"),
    ("/questions", "document.querySelector('.question textarea')"),
    ("/questions?state=answered", "document.querySelector('.empty')"),
    ("/chat?agent=ruda", "document.querySelector('#message')"),
    ("/agents/eden", "document.querySelector('#kept')"),
    (
        "/events?role=conversation.main",
        "document.querySelector('.event') && [...document.querySelectorAll('.event')].every((e) => e.dataset.role === 'conversation.main')",
    ),
    (
        "/events?type=task.started",
        "document.querySelector('.event') && [...document.querySelectorAll('.event code')].every((e) => e.innerText === 'task.started')",
    ),
    ("/events?session=ws_a", "document.querySelectorAll('.event').length === 3"),
    ("/events?task=TASK", "document.querySelector('.event')"),
    ("/events?tree=1", "document.querySelector('.tree li')"),
    ("/events?raw=EVENT", "document.querySelector('dialog:modal pre')"),
    ("/jobs?agent=ruda", "document.querySelector('#agent').value === 'ruda' && document.querySelector('#list li')"),
    ("/jobs/JOB", "document.querySelector('#turns')"),
    ("/plugins/guard%3Astop-guard", "document.querySelector('h1').innerText === 'guard:stop-guard'"),
    (
        "/plugins/classifier?edit=config",
        "document.querySelector('#config-text') && !document.querySelector('#try-text') && !document.querySelector('#history')",
    ),
    ("/workspace/eden?path=tasks", "document.querySelector('#files li')"),
    (
        "/settings?section=hub",
        "document.querySelector('#fields table') && document.querySelector('nav.tabs [aria-current]').innerText === 'hub'",
    ),
    ("/channels", "document.querySelector('.empty')"),
];

#[test]
fn every_place_has_an_address_and_every_way_leads_back() {
    if !have("chromium") {
        return;
    }
    let dir = TestDir::scripted(SCRIPT, |config| config["continuation"]["enabled"] = json!(false));
    write_past(&dir);
    let serving = Binary::serve(&dir);
    let browser = Browser::start();
    let site = Site::new(&dir, &serving, &browser);
    let names = told(&site);
    let tab = site.signed_in("en", &site.token);
    let places = PLACES.map(|(path, expected)| {
        let path = names.iter().fold(path.to_owned(), |path, (word, name)| path.replace(word, name));
        (path, expected)
    });
    for (path, expected) in &places {
        site.open(&tab, path);
        tab.until(&format!("{path} shows what it says"), expected);
        tab.eval("location.reload()");
        tab.until(
            &format!("{path} is the same after a reload"),
            &format!("window.mark !== 1 && {}", there(path, expected)),
        );
    }
    for (path, expected) in places.iter().rev().skip(1) {
        tab.eval("void setTimeout(() => history.back())");
        tab.until(&format!("the way back leads to {path}"), &there(path, expected));
    }
    ways_between(&site, &tab);
    let said = browser.problems();
    assert!(said.is_empty(), "{said:#?}");
}

fn there(path: &str, expected: &str) -> String {
    format!(
        "location.pathname + location.search === {} && document.readyState === 'complete' && {expected}",
        json!(path)
    )
}

/// From view to view by what stands on them, and back.
fn ways_between(site: &Site<'_>, tab: &Tab<'_>) {
    site.open(tab, "/conversations/ws_a");
    tab.click("a[href^='/events?session=']");
    tab.until(
        "its events are listed",
        "location.search === '?session=ws_a' && document.querySelectorAll('.event').length === 3",
    );
    tab.eval("void setTimeout(() => history.back())");
    tab.until(
        "the conversation is back",
        "location.pathname === '/conversations/ws_a' && document.querySelector('.bubble')",
    );
    site.open(tab, "/");
    tab.click(".figure[href='/tasks?column=blocked']");
    tab.until("what is blocked is listed", "document.querySelector('[data-column=blocked] .card')");
    tab.click("[data-column=blocked] .card .title");
    tab.until("a task is open", "location.pathname.startsWith('/tasks/task_')");
    at_rest(tab);
    tab.click("nav.tabs a[href$='tab=events']");
    tab.until("its events are open", "location.search === '?tab=events' && document.querySelector('#events')");
    for place in [
        "location.pathname.startsWith('/tasks/task_') && location.search === ''",
        "location.search === '?column=blocked'",
        "location.pathname === '/'",
    ] {
        tab.eval("void setTimeout(() => history.back())");
        tab.until("a step back", &format!("{place} && document.querySelector('h1')"));
    }
    // A dialog is left by the way back, too.
    tab.open(&site.address("/tasks?column=blocked"));
    tab.click("[data-column=blocked] .card .title");
    tab.until(
        "a task is open",
        "location.pathname.startsWith('/tasks/task_') && document.querySelector('a[href$=\"?dialog=cancel\"]')",
    );
    tab.click("a[href$='?dialog=cancel']");
    tab.until("the dialog is open", "document.querySelector('dialog:modal')");
    tab.eval("void setTimeout(() => history.back())");
    tab.until("the task alone is there", "location.search === '' && !document.querySelector('dialog')");
}

/// Two work sessions of the hour before, one of which could not be answered.
fn write_past(dir: &TestDir) {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let mut lines = Vec::new();
    for (id, category, asked, outcome) in [
        ("ws_a", "infra_ops", "Two certificates end on Friday", None),
        ("ws_b", "docs_knowledge", "Where is the handbook?", Some("blocked")),
    ] {
        let data = |from: &str, to: &str, message: &str| {
            json!({
                "fromAgent": from, "toAgent": to, "message": message, "label": asked, "conversationId": format!("c-{id}"), "workSessionId": id,
                "eventRole": "conversation.main", "collabCategory": category, "categorySource": "manual",
            })
        };
        let mut answer = data("seum", "eden", "Renewed.");
        if let Some(outcome) = outcome {
            answer["outcome"] = json!(outcome);
        }
        for (nth, (kind, data)) in (0..).zip([
            ("a2a.send", data("eden", "seum", asked)),
            ("a2a.response", answer),
            ("a2a.complete", data("eden", "seum", "")),
        ]) {
            lines
                .push(json!({ "type": kind, "agentId": data["fromAgent"], "ts": now - 3_600_000 + nth, "data": data }));
        }
    }
    write_log(dir, &lines);
}

fn told(site: &Site<'_>) -> [(&'static str, String); 3] {
    site.tool("seum", "task_backlog_add", json!({ "description": "Paint the shed" }));
    site.tell("eden", "work on the port", "places-port");
    let asked = eventually("a question is open", || {
        site.call("human.pending", json!({}))["questions"].as_array()?.first().cloned()
    });
    let job = eventually("a job is there", || {
        site.api("/api/jobs")["jobs"].as_array()?.first()?["jobId"].as_str().map(str::to_owned)
    });
    let seq = eventually("its start is told", || {
        site.api("/api/events?type=task.started")["events"].as_array()?.first()?["seq"].as_u64()
    });
    [
        ("TASK", asked["taskId"].as_str().expect("a task").to_owned()),
        ("JOB", job),
        ("EVENT", format!("{}%3A{}", seq >> 32, seq & 0xffff_ffff)),
    ]
}
