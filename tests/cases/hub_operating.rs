//! The hub for those who look after a deployment: events, jobs, plugins, lists, files, channels, settings, and tasks as graph and schedule,
//! on a real gateway in a real browser. Every action answers, and every view is live.

use serde_json::{Value, json};
use support::browser::{Browser, Tab};
use support::pages::{Site, assert_marked, lacks, look_at, shows, upload};
use support::{Binary, TestDir, eventually, guest, have, path_of};

use super::hub_forms::at_rest;

const SCRIPT: &str = r#"{ rules: [
    { when: "[NOTIFICATION]", steps: [{ say: "noted" }] },
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "stuck on the port", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
    { agent: "ruda", when: "hand it out", steps: [
        { call: { tool: "sessions_send", args: { agentId: "eden", message: "[Goal] Fix the build\nPlease fix the flaky unit test", timeoutSeconds: 0 } } },
        { say: "handed out" } ] },
    { agent: "ruda", when: "ask for long", steps: [
        { call: { tool: "sessions_send", args: { agentId: "seum", message: "[Goal] A long think\nthink for long", timeoutSeconds: 0 } } },
        { say: "handed out" } ] },
    { when: "think for long", steps: [{ say: "At last.", delayMs: 600000 }] },
    { when: "stop too early", steps: [
        { call: { tool: "task_start", args: { description: "Stop too early", steps: [{ content: "one" }, { content: "two" }] } } },
        { call: { tool: "task_complete", args: { summary: "done" } } },
        { say: "I am told not to stop." } ] },
    { when: "work on the port", steps: [
        { call: { tool: "task_start", args: { description: "Open the port", steps: [{ content: "choose" }] } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the port", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
  ], otherwise: "You said: {{input}}" }"#;

#[test]
fn the_hub_shows_and_changes_what_operators_look_after() {
    if !have("chromium") {
        return;
    }
    let dir = TestDir::scripted(SCRIPT, |config| config["continuation"]["enabled"] = json!(false));
    let serving = Binary::serve(&dir);
    let browser = Browser::start();
    let site = Site::new(&dir, &serving, &browser);
    let tab = site.signed_in("en", &site.token);
    events(&site, &tab);
    jobs(&site, &tab);
    plugins(&site, &dir, &tab);
    milestones_and_todos(&site, &tab);
    workspace(&site, &dir, &tab);
    channels(&site, &tab);
    settings(&site, &dir, &tab);
    canvas_and_schedule(&site, &tab);
    why(&site, &tab);
    in_korean(&site);
    let said: Vec<String> = browser.problems().into_iter().filter(|said| !said.contains("status of 4")).collect();
    assert!(said.is_empty(), "{said:#?}");
}

fn has_event(kind: &str) -> String {
    format!("[...document.querySelectorAll('.event code')].some((e) => e.innerText === '{kind}')")
}

fn events(site: &Site<'_>, tab: &Tab<'_>) {
    site.open(tab, "/events");
    site.tell("seum", "stop too early", "early");
    tab.until("a task has started", &has_event("task.started"));
    tab.until("the card of the guard is there", "document.querySelector('.event[data-sort=guard]')");
    assert_marked(tab);
    site.tell("eden", "work on the port", "port");
    site.tell("ruda", "hand it out", "build");
    tab.until("the question is a card", "document.querySelector('.event[data-sort=question]')");
    look_at(tab, "events");
    tab.click("#pause a");
    tab.until("it stands still", "location.search.includes('until=') && document.querySelector('.event')");
    at_rest(tab);
    let before = tab.eval("document.querySelectorAll('.event').length");
    site.tool("seum", "task_backlog_add", json!({ "description": "while nobody looks" }));
    eventually("it is told", || {
        let told = site.api("/api/events?type=task.backlog_added");
        (!told["events"].as_array()?.is_empty()).then_some(())
    });
    tab.eval("new Promise((done) => setTimeout(done, 400))");
    assert_eq!(tab.eval("document.querySelectorAll('.event').length"), before, "who has paused is not disturbed");
    tab.click("#pause a");
    tab.until("what came meanwhile is there", &has_event("task.backlog_added"));
    tab.open(&site.address("/events?role=orchestration.task&type=task.started"));
    tab.until("only those are listed", "document.querySelectorAll('.event').length > 0 && [...document.querySelectorAll('.event code')].every((e) => e.innerText === 'task.started')");
    tab.click(".event .links a[href*='raw=']");
    tab.until(
        "the raw event is open",
        "document.querySelector('dialog:modal pre')?.innerText.includes('\"type\": \"task.started\"')",
    );
    look_at(tab, "events-raw");
    tab.key("Escape");
    tab.until("it is closed", "!document.querySelector('dialog') && !location.search.includes('raw=')");
    tab.open(&site.address("/events?tree=1"));
    tab.until("the tree has branches", "document.querySelector('.tree li')");
    look_at(tab, "events-tree");
}

fn jobs(site: &Site<'_>, tab: &Tab<'_>) {
    site.open(tab, "/jobs");
    site.tell("ruda", "ask for long", "long");
    shows(tab, "A long think");
    tab.until("it runs", "[...document.querySelectorAll('#list li')].some((e) => e.innerText.includes('A long think') && e.innerText.includes('Running'))");
    look_at(tab, "jobs");
    assert_marked(tab);
    tab.click("#list li:has(button[value=cancel]) button[value=cancel]");
    tab.until("it is cancelled", "document.querySelector('#list button[value=retry]')");
    assert_marked(tab);
    at_rest(tab);
    tab.click("#list button[value=retry]");
    tab.until("the new one is open", "location.pathname.startsWith('/jobs/') && document.querySelector('#head').innerText.includes('The one before')");
    look_at(tab, "job");
    let id = tab.eval("decodeURIComponent(location.pathname.slice(6))");
    assert_eq!(site.call("jobs.get", json!({ "id": id }))["job"]["retryOf"].as_str().map(str::is_empty), Some(false));
    // Somebody else is quicker: the page knows without being asked.
    tab.until("it can be cancelled", "document.querySelector('button[value=cancel]')");
    site.call("jobs.cancel", json!({ "id": id }));
    tab.until(
        "it shows",
        "!document.querySelector('button[value=cancel]') && document.querySelector('button[value=retry]')",
    );
    tab.open(&site.address("/jobs?status=CANCELLED"));
    tab.until("the filter holds", "document.querySelectorAll('#list li').length >= 2 && [...document.querySelectorAll('#list li')].every((e) => e.innerText.includes('Cancelled'))");
    tab.open(&site.address("/jobs/no-such"));
    shows(tab, "Not found");
}

fn plugins(site: &Site<'_>, dir: &TestDir, tab: &Tab<'_>) {
    site.open(tab, "/plugins");
    shows(tab, "classifier");
    look_at(tab, "plugins");
    let steady = path_of(&guest("steady"));
    // Tried on a text, then on what was said: nothing is swapped.
    site.open(tab, "/plugins/classifier");
    tab.fill("#try-source", &steady);
    tab.fill("#try-text", "deploy the server to the cluster");
    tab.click("#try button[value='source:text']");
    tab.until("both answers are there", "document.querySelectorAll('#tried tbody td').length === 3");
    tab.fill("#try-source", &steady);
    tab.eval("window.before = 1");
    tab.click("#try button[value='source:sessions']");
    tab.until(
        "work sessions were asked about",
        "!window.before && location.search.includes('tried=') && /Asked [1-9]/.test(document.querySelector('#tried')?.innerText)",
    );
    tab.until("the page is live", "document.getElementById('live')?.hidden === false");
    look_at(tab, "slot-tried");
    tab.fill("#try-source", "nothing.wasm");
    tab.fill("#try-text", "anything");
    tab.click("#try button[value='source:text']");
    tab.until("why it cannot be tried", "document.querySelector('#try .said')?.innerText.includes('nothing.wasm')");
    assert_eq!(slot_of(site, "classifier")["plugin"]["source"], "builtin:rules", "trying changes nothing");

    // Loaded, told, rolled back, disabled, enabled.
    site.open(tab, "/plugins/classifier");
    tab.fill("#load-source", &steady);
    tab.click("form:has(#load-source) button.main");
    tab.until("it serves", "document.querySelector('#head').innerText.includes('steady')");
    tab.until("the swap is told", "document.querySelector('#history').innerText.includes('plugin.swapped')");
    tab.until("the editor has it", "document.querySelector('#config [name=source]').value.includes('steady')");
    tab.fill("#config-text", r#"{ "category": "infra_ops" }"#);
    tab.click("button[value=config]");
    tab.until(
        "the configuration is in use",
        "document.querySelector('#history').innerText.split('plugin.swapped').length > 2",
    );
    tab.fill("#config-text", "{ category: ");
    at_rest(tab);
    tab.click("button[value=config]");
    tab.until("a fault is said with its place", "/line 1/.test(document.querySelector('#config .said').innerText)");
    assert_eq!(tab.eval("document.querySelector('#config-text').value"), json!("{ category: "), "what was typed stays");
    // As a person does who takes it back: the page must not keep it as a draft.
    tab.eval(
        "(() => { const field = document.querySelector('#config-text'); field.value = field.defaultValue; \
         field.dispatchEvent(new Event('input', { bubbles: true })); })()",
    );
    for (verb, state) in [("disable", "Disabled"), ("enable", "Serving|On probation")] {
        at_rest(tab);
        tab.click(&format!("#head button[value={verb}]"));
        tab.until(
            &format!("it is {state}"),
            &format!("/{state}/.test(document.querySelector('#head .badge').innerText)"),
        );
    }
    at_rest(tab);
    tab.click("#head button[value=unload]");
    tab.until("the configuration's own is back", "document.querySelector('#head').innerText.includes('builtin:rules')");

    // A file that is no component is refused in the page, one that is is taken.
    tab.eval(&upload("broken.wasm", b"\0asm nothing of the kind"));
    tab.until("the refusal is said", "document.querySelector('form[data-upload] .said').innerText.length > 20");
    look_at(tab, "slot-refused");
    tab.eval(&upload("mine.wasm", &support::guest_bytes("steady")));
    tab.until("what was sent serves", "document.querySelector('#head').innerText.includes('mine.wasm')");
    at_rest(tab);
    tab.click("#head button[value=unload]");
    tab.until("it is gone again", "document.querySelector('#head').innerText.includes('builtin:rules')");
    rules(site, dir, tab);
    tab.open(&site.address("/plugins/guard:nobody"));
    shows(tab, "Not found");
}

fn slot_of(site: &Site<'_>, name: &str) -> Value {
    let slots = site.call("plugin.slots", json!({}));
    let found = slots["slots"].as_array().and_then(|all| all.iter().find(|one| one["slot"] == name).cloned());
    found.expect("a slot")
}

/// Rules with an error are told with their line and reach no file; good ones serve.
fn rules(site: &Site<'_>, dir: &TestDir, tab: &Tab<'_>) {
    site.open(tab, "/plugins/classifier");
    let hash = slot_of(site, "classifier");
    tab.fill("#rules-text", "{\n  rules: [\n    { category: \n  ],\n}");
    tab.click("form:has(#rules-text) button");
    tab.until("the line is told", "/line \\d/.test(document.querySelector('#rules .said').innerText)");
    assert!(!dir.state.rules().exists(), "nothing was written");
    tab.fill("#rules-text", "{\n  rules: [\n    { category: \"no_such\", any: [\"x\"], weight: \"heavy\" },\n  ],\n}");
    tab.click("form:has(#rules-text) button");
    tab.until(
        "a rule that the plugin refuses is told",
        "/line 3: .*go on serving/.test(document.querySelector('#rules .said').innerText)",
    );
    assert!(!dir.state.rules().exists(), "nothing was written");
    assert_eq!(slot_of(site, "classifier")["plugin"], hash["plugin"], "what serves goes on serving");
    look_at(tab, "slot-rules");
    tab.fill("#rules-text", RULES);
    tab.click("form:has(#rules-text) button");
    eventually("the file is there", || std::fs::read_to_string(dir.state.rules()).ok().filter(|text| text == RULES));
    tab.until("the page says that it was taken", "document.querySelector('#told')?.hidden === false");
    // Somebody else writes after the first letter was typed: what would be lost is said.
    tab.eval("document.querySelector('#rules').dataset.live = ''");
    tab.fill("#rules-text", "{ }");
    std::fs::write(dir.state.rules(), "{}").expect("written");
    tab.click("form:has(#rules-text) button");
    tab.until(
        "the conflict is said",
        "document.querySelector('#rules .said').innerText.includes('changed since you looked')",
    );
    assert_eq!(tab.eval("document.querySelector('#rules-text').value"), json!("{ }"));
}

const RULES: &str = "{ rules: [] }\n";

fn milestones_and_todos(site: &Site<'_>, tab: &Tab<'_>) {
    site.open(tab, "/milestones");
    for title in ["First release", "Second release"] {
        tab.fill("#new-title", title);
        at_rest(tab);
        tab.click("form:has(#new-title) button.main");
        shows(tab, title);
    }
    assert_marked(tab);
    tab.click("#list > ul > li:nth-child(1) details summary");
    tab.fill("#list > ul > li:nth-child(1) input[id^=item-]", "Write the notes");
    tab.click("#list > ul > li:nth-child(1) button[value=item]");
    shows(tab, "Write the notes");
    at_rest(tab);
    tab.click("#list > ul > li:nth-child(1) .checklist button[value^='done:']");
    tab.until("the item is done", "document.querySelector('#list .checklist li').dataset.status === 'done'");
    tab.click("#list > ul > li:nth-child(2) button[value^='up:']");
    tab.until("the order is another", "document.querySelector('#list > ul > li h2').innerText === 'Second release'");
    look_at(tab, "milestones");
    site.tool("ruda", "milestone_create", json!({ "title": "Told by an agent" }));
    shows(tab, "Told by an agent");
    assert_marked(tab);
    site.open(tab, "/todos");
    for title in ["call them", "write it down"] {
        tab.fill("#new-todo", title);
        at_rest(tab);
        tab.click("form:has(#new-todo) button.main");
        shows(tab, title);
    }
    tab.click("#list li:nth-child(2) button[value^='up:']");
    tab.until(
        "the order is another",
        "document.querySelector('#list li .content').innerText.includes('write it down')",
    );
    at_rest(tab);
    tab.click("#list li:nth-child(1) button[value^='done:']");
    tab.until("it is done", "document.querySelector('#list li').dataset.status === 'done'");
    look_at(tab, "todos");
}

fn workspace(site: &Site<'_>, dir: &TestDir, tab: &Tab<'_>) {
    let home = dir.state.path().join("workspace-eden");
    std::fs::create_dir_all(home.join("notes")).expect("made");
    std::fs::write(home.join("notes/plan.md"), "# The plan\n\n- **one**\n").expect("written");
    std::os::unix::fs::symlink("/etc/passwd", home.join("notes/out")).expect("linked");
    site.open(tab, "/workspace");
    look_at(tab, "workspace");
    tab.open(&site.address("/workspace/eden"));
    shows(tab, "notes");
    tab.open(&site.address("/workspace/eden?path=notes"));
    look_at(tab, "workspace-folder");
    tab.eval("[...document.querySelectorAll('#files a')].find((e) => e.innerText === 'plan.md').click()");
    tab.until("the file is shown", "document.querySelector('#files .text strong')?.innerText === 'one'");
    look_at(tab, "workspace-file");
    for path in ["notes/out", "../../etc/passwd", "/etc/passwd", "no-such"] {
        tab.open(&site.address(&format!("/workspace/eden?path={path}")));
        tab.until("it says why not", "document.querySelector('#files [role=alert]')");
        lacks(tab, "root:x");
    }
}

fn channels(site: &Site<'_>, tab: &Tab<'_>) {
    site.open(tab, "/channels");
    look_at(tab, "channels");
}

fn settings(site: &Site<'_>, dir: &TestDir, tab: &Tab<'_>) {
    site.open(tab, "/settings?section=hub");
    shows(tab, "hub.names");
    look_at(tab, "settings");
    assert!(
        !tab.text().contains(&site.token)
            && !tab.eval("document.documentElement.outerHTML").as_str().unwrap_or_default().contains(&site.token),
        "no token is shown"
    );
    let seen = "document.querySelector('#edit [name=seen]').value";
    let before = tab.eval(seen);
    tab.fill("#section-text", r#"{ "listen": "127.0.0.1:0", "names": { "42": "Minji" } }"#);
    tab.click("form:has(#section-text) button");
    eventually("it is in the file", || {
        let text = std::fs::read_to_string(dir.state.config()).ok()?;
        text.contains("Minji").then_some(())
    });
    tab.until("it is in force", "document.querySelector('#fields').innerText.includes('Minji')");
    tab.until("the editor has it", &format!("{seen} !== {before}"));
    at_rest(tab);
    tab.fill("#section-text", r#"{ "listne": "0" }"#);
    tab.click("form:has(#section-text) button");
    tab.until("a fault is said", "document.querySelector('#edit .said').innerText.includes('listne')");
    assert_eq!(tab.eval("document.querySelector('#section-text').value"), json!(r#"{ "listne": "0" }"#));
    assert!(!std::fs::read_to_string(dir.state.config()).expect("readable").contains("listne"), "nothing was written");
}

fn canvas_and_schedule(site: &Site<'_>, tab: &Tab<'_>) {
    // The one before was answered by what somebody said to the one who asked.
    site.tell("eden", "work on the port", "port-again");
    let asked = eventually("a question is open", || {
        site.call("human.pending", json!({}))["questions"].as_array()?.first().cloned()
    });
    let task = asked["taskId"].as_str().expect("a task").to_owned();
    site.open(tab, "/tasks?view=canvas");
    tab.until(
        "the graph shows who asks",
        &format!("document.querySelector('.canvas [data-key={task}][data-kind=asks]')"),
    );
    assert_eq!(tab.eval("document.querySelectorAll('.canvas .node[href^=\"/agents/\"]').length"), json!(3));
    look_at(tab, "canvas");
    tab.double_click(&format!(".canvas [data-key={task}] rect"));
    tab.until("its conversation and question are open", &format!("location.pathname === '/tasks/{task}' && location.search === '?tab=conversation' && document.querySelector('.question textarea') && document.querySelector('#talk')"));
    site.tool(
        "seum",
        "task_backlog_add",
        json!({ "description": "Due one day", "due_date": "2031-01-01", "depends_on": [task] }),
    );
    site.open(tab, "/tasks?view=schedule");
    tab.until(
        "a bar carries its question",
        &format!("document.querySelector('.schedule [data-key={task}]')?.textContent.includes('Which port?')"),
    );
    tab.until("what it waits for is drawn", "document.querySelector('.schedule .edge')");
    look_at(tab, "schedule");
    site.tool("seum", "task_backlog_add", json!({ "description": "New on the schedule" }));
    tab.until("it is live", "document.querySelector('.schedule').textContent.includes('New on the schedule')");
    assert_marked(tab);
}

fn why(site: &Site<'_>, tab: &Tab<'_>) {
    let blocked = site.api("/api/events?type=continuation.stop_guard_blocked");
    let task = blocked["events"][0]["data"]["taskId"].as_str().expect("a task").to_owned();
    tab.open(&site.address(&format!("/tasks/{task}?tab=why")));
    tab.until("the guard's decision is told", "document.querySelector('#why')?.innerText.includes('stop-guard') && /[0-9a-f]{8}/.test(document.querySelector('#why').innerText)");
    look_at(tab, "task-why");
    let session = site.api("/api/work-sessions?limit=50");
    let session = session["workSessions"]
        .as_array()
        .and_then(|all| all.iter().find(|one| one["title"] == "Fix the build"))
        .expect("a session");
    tab.open(&site.address(&format!("/conversations/{}?why=1", session["workSessionId"].as_str().expect("an id"))));
    tab.until("the classifier's decision is told", "document.querySelector('#why')?.innerText.includes('categories')");
}

fn in_korean(site: &Site<'_>) {
    let tab = site.signed_in("ko", &site.token);
    for (path, word) in [
        ("/events", "이벤트"),
        ("/jobs", "위임"),
        ("/plugins", "플러그인"),
        ("/milestones", "마일스톤"),
        ("/todos", "할 일 목록"),
        ("/workspace", "작업 공간"),
        ("/channels", "채널"),
        ("/settings", "설정"),
        ("/tasks?view=canvas", "작업"),
        ("/tasks?view=schedule", "작업"),
    ] {
        tab.open(&site.address(path));
        tab.until(
            &format!("{path} speaks Korean"),
            &format!(
                "document.querySelector('h1')?.innerText.startsWith('{word}') && document.documentElement.lang === 'ko'"
            ),
        );
        let bytes = tab.eval(&format!(
            "fetch({}).then((answer) => answer.arrayBuffer()).then((bytes) => bytes.byteLength)",
            json!(path)
        ));
        assert!(bytes.as_u64().is_some_and(|bytes| bytes < 150_000), "{path}: {bytes}");
    }
}
