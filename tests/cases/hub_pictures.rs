//! A team at work, as its lead sees it: every view in English in both themes, on a desk and on a phone, and once in Korean, looked at by machine
//! and left as pictures for people; and those that the handbook shows, written anew with `CHELA_PICTURES=docs`.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use support::browser::{Browser, Tab};
use support::chat::{Chat, relay};
use support::events::write_log;
use support::pages::{Site, glance_at, look_at, shows};
use support::{Binary, TestDir, eventually, guest_bytes, have};

const SCRIPT: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "no name yet", steps: [{ say: "I ask the team lead.\n[NEED_HUMAN: Under which host name shall customers reach the shop?]" }] },
    { agent: "ruda", when: "open the shop", steps: [
        { call: { tool: "sessions_send", args: { agentId: "eden", message: "[Goal] Landing page for the shop\nPlease draft the landing page: one picture, two sentences, and **a button**.", timeoutSeconds: 0 } } },
        { call: { tool: "sessions_send", args: { agentId: "seum", message: "[Goal] A home for the shop\nPlease deploy the shop and tell me where it is reached.", timeoutSeconds: 0 } } },
        { say: "Eden drafts the page, Seum finds it a home. I tell you as soon as both are there:\n\n1. the page\n2. the address" } ] },
    { agent: "eden", when: "pack the bags", steps: [{ say: "Packed.", delayMs: 600000 }] },
    { agent: "ruda", steps: [{ say: "Two are at work, and nothing is on fire." }] },
    { agent: "eden", when: "draft the landing page", steps: [
        { call: { tool: "task_start", args: { description: "Draft the landing page\n\nOne picture, two sentences, and **a button**.", priority: "high", due_date: "DUE", steps: [{ content: "Collect what the shop sells" }, { content: "Write two sentences" }, { content: "Choose a picture" }, { content: "Hand it to Seum" }] } } },
        { call: { tool: "task_update", args: { action: "complete_step", step_id: "s1" } } },
        { call: { tool: "task_update", args: { action: "complete_step", step_id: "s2" } } },
        { call: { tool: "task_update", args: { progress: "Two sentences are written, and read aloud." } } },
        { say: "The words are there: *Fresh from the tide, at your door by noon.* I look for a picture now." } ] },
    { agent: "seum", when: "deploy the shop", steps: [
        { call: { tool: "task_start", args: { description: "Give the shop a home", steps: [{ content: "Find a machine" }, { content: "Choose a host name" }, { content: "Deploy" }] } } },
        { call: { tool: "task_update", args: { action: "complete_step", step_id: "s1" } } },
        { call: { tool: "task_complete", args: { summary: "it runs" } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "The machine is ready, but the shop has no name yet. Who decides?", timeoutSeconds: 0 } } },
        { say: "The machine is ready; I wait for the name." } ] },
  ], otherwise: "Good." }"#;

/// What was talked about in the weeks before: title, category, what was asked and answered, and so many days ago.
const TALKS: [(&str, &str, &str, &str, &[u64]); 7] = [
    (
        "Flaky test of the cart",
        "engineering_build",
        "The cart test fails every tenth time.",
        "It raced the clock; mended.",
        &[1, 2, 4, 9],
    ),
    (
        "Certificates before the weekend",
        "infra_ops",
        "Two certificates end on Friday.",
        "Renewed, and watched from now on.",
        &[0, 3, 3, 6],
    ),
    (
        "What the spring campaign brought",
        "growth_marketing",
        "How many came from the newsletter?",
        "412, a third more than in autumn.",
        &[2, 8, 12],
    ),
    (
        "Release 0.2: go or wait?",
        "planning_decision",
        "Shall we release on Thursday?",
        "Yes, without the new search.",
        &[1, 10, 11, 12],
    ),
    (
        "Handbook for the counter",
        "docs_knowledge",
        "Where is the refund described?",
        "Chapter 4, with pictures since today.",
        &[5, 5],
    ),
    (
        "Load test of the checkout",
        "qa_validation",
        "How many orders a second?",
        "180 before the queue grows.",
        &[0, 7, 13],
    ),
    ("Cookies and consent", "legal_compliance", "May we count visitors without asking?", "Without cookies, yes.", &[9]),
];

#[derive(Clone, Copy)]
struct Shot {
    width: u32,
    dark: bool,
}

const DAY: u64 = 86_400_000;

const DESK: Shot = Shot { width: 1280, dark: false };
const DESK_NIGHT: Shot = Shot { width: 1280, dark: true };
const PHONE: Shot = Shot { width: 390, dark: false };
const PHONE_NIGHT: Shot = Shot { width: 390, dark: true };

/// Every view, what must be on it, and which pictures of it the handbook has. `TASK`, `ASKING`, `SESSION`, `JOB` and `EVENT` are of the story.
const VIEWS: [(&str, &str, &str, &[Shot]); 32] = [
    (
        "overview",
        "/",
        "document.querySelectorAll('svg.chart[role=img][aria-label]').length === 3 && /[▲▼]/.test(document.querySelector('#spread').textContent)",
        &[DESK, PHONE_NIGHT],
    ),
    ("conversations-first", "/conversations", "document.querySelectorAll('.category').length === 11", &[]),
    ("conversations", "/conversations?category=all", "document.querySelectorAll('#list li.row').length > 8", &[DESK]),
    (
        "conversations-groups",
        "/conversations?category=all&group=category",
        "document.querySelectorAll('.group').length >= 7",
        &[],
    ),
    ("conversation", "/conversations/SESSION", "document.querySelectorAll('.bubble').length >= 2", &[DESK]),
    (
        "conversation-why",
        "/conversations/SESSION?why=1",
        "[...document.querySelectorAll('#why li.row')].some((e) => /categories[^]*[0-9a-f]{8}/.test(e.innerText))",
        &[],
    ),
    ("tasks", "/tasks", "document.querySelectorAll('.column').length === 6", &[DESK_NIGHT, PHONE]),
    ("canvas", "/tasks?view=canvas", "document.querySelector('.canvas [data-kind=asks]')", &[DESK]),
    ("schedule", "/tasks?view=schedule", "document.querySelector('.schedule [data-kind=asks]')", &[DESK]),
    ("task", "/tasks/TASK", "document.querySelectorAll('.checklist li').length === 4", &[DESK, PHONE_NIGHT]),
    (
        "task-question",
        "/tasks/ASKING?tab=conversation",
        "document.querySelector('.question textarea') && document.querySelector('#talk .bubble')",
        &[DESK],
    ),
    ("task-events", "/tasks/ASKING?tab=events", "document.querySelector('#events [data-human]')", &[]),
    ("task-why", "/tasks/ASKING?tab=why", "document.querySelector('#why li.row')", &[DESK_NIGHT]),
    ("task-dialog", "/tasks/TASK?dialog=block", "document.querySelector('dialog:modal')", &[]),
    ("questions", "/questions", "document.querySelector('.question textarea')", &[PHONE]),
    ("chat", "/chat", "document.querySelectorAll('.bubble').length >= 3", &[DESK]),
    ("agent", "/agents/seum", "document.querySelector('#kept')", &[DESK]),
    ("events-all", "/events", "document.querySelectorAll('.event').length > 20", &[]),
    (
        "events",
        "/events?role=orchestration.task",
        "['question', 'guard'].every((sort) => document.querySelector(`.event[data-sort=${sort}]`)) && document.querySelector('#list svg.chart')",
        &[DESK],
    ),
    (
        "events-driving",
        "/events?type=continuation.self_driving",
        "/#2/.test(document.querySelector('.event[data-sort=driving] .badge')?.innerText)",
        &[],
    ),
    ("events-tree", "/events?tree=1", "document.querySelector('.tree li')", &[DESK_NIGHT]),
    ("events-raw", "/events?raw=EVENT", "document.querySelector('dialog:modal pre')", &[]),
    (
        "jobs",
        "/jobs",
        "document.querySelector('#head svg.chart') && document.querySelectorAll('#list li').length >= 3",
        &[DESK],
    ),
    (
        "job",
        "/jobs/JOB",
        "document.querySelector('#turns li') && /stop-guard[^]*[0-9a-f]{8}/.test(document.querySelector('#why li.row')?.innerText)",
        &[],
    ),
    ("plugins", "/plugins", "document.querySelector('#head svg.chart')", &[DESK]),
    (
        "slot",
        "/plugins/classifier?tried=TRIED",
        "/Asked|물은/.test(document.querySelector('#tried').innerText) || document.querySelector('#tried tbody tr')",
        &[DESK],
    ),
    ("milestones", "/milestones", "document.querySelectorAll('#list > ul > li').length === 2", &[DESK]),
    ("todos", "/todos", "document.querySelectorAll('#list li').length === 3", &[DESK]),
    ("workspace", "/workspace/eden?path=notes", "document.querySelector('#files li')", &[]),
    (
        "workspace-file",
        "/workspace/eden?path=notes%2Fshop.md",
        "document.querySelector('#files .text h1, #files .text h2, #files .text strong')",
        &[DESK],
    ),
    ("channels", "/channels", "document.querySelector('[data-key=relay] .badge')", &[DESK]),
    (
        "settings",
        "/settings?section=continuation",
        "document.querySelector('#fields table') && document.querySelector('#tokens')",
        &[DESK],
    ),
];

#[test]
fn every_view_of_a_team_at_work_is_good_to_look_at() {
    if !have("chromium") {
        return;
    }
    let chat = Chat::start();
    let dir = story(&chat);
    let serving = Binary::serve(&dir);
    let browser = Browser::start();
    let site = Site::new(&dir, &serving, &browser);
    let mut names = told(&site);
    let tab = site.signed_in("en", &site.token);
    names.push(("TRIED", tried(&tab)));
    for (name, path, expected, shots) in VIEWS {
        let path = names.iter().fold(path.to_owned(), |path, (word, name)| path.replace(word, name));
        site.open(&tab, &path);
        tab.until(&format!("{path} is there"), expected);
        look_at(&tab, &format!("team-{name}"));
        shots.iter().for_each(|shot| for_the_handbook(&tab, name, *shot));
    }
    let tab = site.signed_in("ko", &site.token);
    for (name, path, expected, _) in VIEWS {
        let path = names.iter().fold(path.to_owned(), |path, (word, name)| path.replace(word, name));
        site.open(&tab, &path);
        tab.until(&format!("{path} is there in Korean"), expected);
        let dark = name.len() % 2 == 0;
        glance_at(&tab, &format!("team-{name}-ko"), if dark { (390, true) } else { (1280, false) });
        if name == "overview" {
            for_the_handbook(&tab, "overview-ko", DESK_NIGHT);
        }
    }
    let said = browser.problems();
    assert!(said.is_empty(), "{said:#?}");
}

/// Tries a classifier on what was said; which trial that is.
fn tried(tab: &Tab<'_>) -> String {
    let sent = "{ method: 'POST', headers: { 'Chela-Script': '1' }, body: new URLSearchParams({ try: 'source:sessions', source: 'counter.wasm' }) }";
    let next = tab.eval(&format!(
        "fetch('/plugins/classifier/try', {sent}).then((answer) => answer.json()).then((told) => told.next)"
    ));
    next.as_str().and_then(|next| next.split_once("tried=")).expect("a trial").1.to_owned()
}

/// Writes a picture of the handbook, if somebody has asked for that.
fn for_the_handbook(tab: &Tab<'_>, name: &str, shot: Shot) {
    if std::env::var("CHELA_PICTURES").as_deref() != Ok("docs") {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    fs::create_dir_all(&folder).expect("a folder");
    let (size, theme) = (if shot.width < 600 { "-phone" } else { "" }, if shot.dark { "-dark" } else { "" });
    tab.size(shot.width, if shot.width < 600 { 844 } else { 900 });
    tab.dark(shot.dark);
    // Where this deployment lies is of no interest.
    tab.eval("(() => { for (const e of document.querySelectorAll('#head code')) e.textContent = e.textContent.replace(/^\\/.*\\/chela.json$/, '/var/lib/chela/chela.json'); })()");
    tab.photograph(&folder.join(format!("{name}{size}{theme}.webp")));
    tab.size(1280, 900);
    tab.dark(false);
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

/// A deployment with a past: talks of two weeks, jobs that ended, files of an agent.
fn story(chat: &Chat) -> TestDir {
    let now = now_ms();
    let due = chela::clock::Timestamp(now + 3 * DAY).date().to_string();
    let dir = TestDir::scripted(&SCRIPT.replace("DUE", &due), |config| {
        config["deployment"]["name"] = json!("Tide & Co");
        config["continuation"]["enabled"] = json!(false);
        config["channels"]["relay"] = relay(chat, json!({}));
        config["gateway"]["auth"]["tokens"] =
            json!({ "counter": { "token": "a-token-that-may-read", "scope": "operator.read" } });
    });
    let mut lines = Vec::new();
    for (nth, (title, category, asked, answered, days)) in (0..).zip(TALKS) {
        for day in days {
            let (id, at) = (format!("ws_{nth}_{}", lines.len()), now - day * DAY - (nth + 1) * 3_600_000);
            let (from, to) = [("ruda", "eden"), ("ruda", "seum"), ("seum", "eden")][nth as usize % 3];
            let line = |kind: &str, from: &str, to: &str, message: &str, after: u64| {
                let data = json!({
                    "fromAgent": from, "toAgent": to, "message": message, "label": title, "conversationId": format!("c-{id}"), "workSessionId": id,
                    "eventRole": "conversation.main", "collabCategory": category, "categorySource": "manual",
                });
                json!({ "type": kind, "agentId": from, "ts": at + after, "data": data })
            };
            lines.push(line("a2a.send", from, to, asked, 0));
            lines.push(line("a2a.response", to, from, answered, 60_000));
            lines.push(line("a2a.complete", from, to, "", 61_000));
        }
    }
    lines.sort_by_key(|line| line["ts"].as_u64());
    let driven = json!({
        "taskId": "task_shelf", "layer": "event-based", "consecutiveCount": 2, "maxConsecutive": 20, "remainingSteps": 3, "eventRole": "orchestration.task",
    });
    lines.push(json!({ "type": "continuation.self_driving", "agentId": "eden", "ts": now - 60_000, "data": driven }));
    write_log(&dir, &lines);
    for (nth, status, error) in [
        (0, "COMPLETED", Value::Null),
        (1, "FAILED", json!("the model did not answer within 300 s")),
        (2, "COMPLETED", Value::Null),
    ] {
        let job = json!({
            "jobId": format!("old-{nth}"), "runId": format!("old-{nth}"), "status": status, "sessionKey": "agent:ruda:main", "targetSessionKey": "agent:eden:main",
            "conversationId": format!("old-{nth}"), "message": "Please count what is left on the shelf.", "maxTurns": 5, "currentTurn": 2, "retryCount": nth,
            "maxRetries": 3, "lastError": error, "createdAt": now - 3_600_000, "updatedAt": now - 1_800_000, "finishedAt": now - 1_800_000, "resumeCount": 0,
        });
        fs::create_dir_all(dir.state.jobs()).expect("made");
        fs::write(dir.state.jobs().join(format!("job-old-{nth}.json")), job.to_string()).expect("written");
    }
    fs::create_dir_all(dir.state.plugins()).expect("made");
    fs::write(dir.state.plugins().join("counter.wasm"), guest_bytes("steady")).expect("written");
    let notes = dir.state.path().join("workspace-eden/notes");
    fs::create_dir_all(&notes).expect("made");
    let text = "# The shop\n\nOpen from **tide to tide**.\n\n| what | how many |\n|---|---|\n| crabs | 12 |\n| nets | 3 |\n\n- fresh\n- at your door by noon\n";
    fs::write(notes.join("shop.md"), text).expect("written");
    fs::write(notes.join("sentences.txt"), "Fresh from the tide, at your door by noon.\n").expect("written");
    dir
}

/// What happens while somebody looks; and what the things that came of it are called.
fn told(site: &Site<'_>) -> Vec<(&'static str, String)> {
    let day = |days: u64| chela::clock::Timestamp(now_ms() + days * DAY).date().to_string();
    for (agent, title, end) in
        [("seum", "Hang the sign above the door", "task_complete"), ("eden", "Print flyers", "task_cancel")]
    {
        site.tool(agent, "task_start", json!({ "description": title, "priority": "low" }));
        let said = json!({ "summary": "It hangs, and it is straight.", "reason": "Nobody reads them." });
        let field = if end == "task_complete" { "summary" } else { "reason" };
        site.tool(agent, end, json!({ field: said[field] }));
    }
    let mut before = Value::Null;
    for (agent, title, priority, due) in [
        ("seum", "Move the shop to the new machine", "urgent", 2),
        ("eden", "Photograph the new nets", "low", 4),
        ("eden", "Write the weekly letter", "medium", 6),
    ] {
        let mut added = json!({ "description": title, "priority": priority, "due_date": day(due) });
        if !before.is_null() {
            added["depends_on"] = json!([before]);
        }
        before = site.tool(agent, "task_backlog_add", added)["taskId"].clone();
    }
    site.tool("ruda", "task_start", json!({ "description": "Agree on the opening day", "requires_approval": true }));
    for title in ["The shop opens", "A second shop"] {
        site.tool(
            "ruda",
            "milestone_create",
            json!({ "title": title, "description": "What must be there on the first day." }),
        );
    }
    let first = site.api("/api/milestones")["milestones"][0]["id"].clone();
    for (title, status) in
        [("A page that says what we sell", "in_progress"), ("A home for it", "todo"), ("A sign above the door", "done")]
    {
        let item = site.tool("ruda", "milestone_item_add", json!({ "milestone_id": first, "title": title }));
        if status != "todo" {
            let id = item["item"]["id"].clone();
            site.tool("ruda", "milestone_item_set", json!({ "item_id": id, "status": status }));
        }
    }
    for title in ["Order paper bags", "Call the harbour", "Read the letter aloud"] {
        site.tool("ruda", "todo_add", json!({ "title": title }));
    }
    let sent = json!({ "sessionKey": "agent:ruda:main", "message": "Please open the shop this week.", "idempotencyKey": "open" });
    site.call("chat.send", sent);
    let asked =
        eventually("somebody asks", || site.call("human.pending", json!({}))["questions"].as_array()?.first().cloned());
    let task = eventually("a page is drafted", || {
        let task = site.api("/api/agents/eden/current")["task"].clone();
        (task["stepsProgress"]["done"] == 2).then(|| task["id"].as_str().map(str::to_owned))?
    });
    let session = eventually("it is a work session", || {
        let all = site.api("/api/work-sessions?limit=50")["workSessions"].as_array()?.clone();
        let found = all
            .iter()
            .find(|one| one["title"] == "Landing page for the shop" && one["messageCount"].as_u64() >= Some(2))?;
        found["workSessionId"].as_str().map(str::to_owned)
    });
    let job = eventually("a job is done", || {
        let jobs = site.api("/api/jobs")["jobs"].as_array()?.clone();
        let mine = |job: &&Value| job["workSessionId"] == *session && job["targetSessionKey"] == "agent:eden:main";
        jobs.iter().find(mine)?["jobId"].as_str().map(str::to_owned)
    });
    site.tell("eden", "Meanwhile, please pack the bags.", "bags");
    let events = site.api("/api/events?type=task.started");
    let cursor = events["events"][0]["seq"].as_u64().map(|seq| format!("{}%3A{}", seq >> 32, seq & 0xffff_ffff));
    let asking = asked["taskId"].as_str().expect("a task").to_owned();
    vec![("TASK", task), ("ASKING", asking), ("SESSION", session), ("JOB", job), ("EVENT", cursor.expect("an event"))]
}

#[test]
fn a_deployment_with_nothing_in_it_says_so_on_every_view() {
    if !have("chromium") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    let browser = Browser::start();
    let site = Site::new(&dir, &serving, &browser);
    let tab = site.signed_in("en", &site.token);
    for (name, path) in [
        ("overview", "/"),
        ("conversations", "/conversations?category=all"),
        ("tasks", "/tasks"),
        ("schedule", "/tasks?view=schedule"),
        ("questions", "/questions"),
        ("chat", "/chat"),
        ("events-tree", "/events?tree=1"),
        ("jobs", "/jobs"),
        ("milestones", "/milestones"),
        ("todos", "/todos"),
        ("workspace", "/workspace"),
        ("channels", "/channels"),
    ] {
        site.open(&tab, path);
        tab.until(
            &format!("{path} says that there is nothing"),
            "document.querySelector('main .empty')?.checkVisibility()",
        );
        look_at(&tab, &format!("empty-{name}"));
    }
    // What cannot be read is said, with its reason, where it would be.
    fs::write(dir.state.path().join("milestones.json"), "{ broken").expect("written");
    tab.open(&site.address("/milestones"));
    tab.until(
        "the fault is said",
        "document.querySelector('#head [role=alert]')?.innerText.includes('milestones.json')",
    );
    look_at(&tab, "milestones-broken");
    tab.open(&site.address("/nowhere"));
    shows(&tab, "Not found");
}
