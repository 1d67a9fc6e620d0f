//! What people do on the pages of a real gateway and no other case of the hub does: a task from its approval to its end, plugins that wait,
//! go back and are let in again, a channel that begins anew, lists that two people change at once, words as they come, signing out.

use serde_json::{Value, json};
use support::browser::{Browser, Tab};
use support::chat::{Chat, relay};
use support::components::Handmade;
use support::models::{End, MODEL, ModelServer, Reply, Wire};
use support::pages::{Site, assert_marked, look_at, shows, upload};
use support::{Binary, TestDir, eventually, guest, path_of};

use super::hub_forms::at_rest;

const READ: &str = "a-token-that-may-read";

#[test]
fn the_hub_does_what_its_people_ask() {
    if !support::have("chromium") {
        return;
    }
    let (chat, models) = (Chat::start(), ModelServer::start());
    let dir = TestDir::scripted("{ rules: [] }", |config| {
        config["continuation"]["enabled"] = json!(false);
        config["channels"]["relay"] = relay(&chat, json!({}));
        let odd = json!({
            "name": "odd", "source": path_of(&guest("unruly-guard")), "onFailure": "allow", "config": { "do": "panic" },
        });
        config["plugins"]["guards"] = json!([{ "name": "stop-guard", "source": "builtin:stop-guard" }, odd]);
        config["gateway"]["auth"]["tokens"] = json!({ "reader": { "token": READ, "scope": "operator.read" } });
        config["providers"]["anthropic"] = models.provider(Wire::Anthropic);
        let agents = config["agents"]["list"].as_array_mut().expect("a team");
        let ruda = agents.iter_mut().find(|agent| agent["id"] == "ruda").expect("an orchestrator");
        ruda["model"] = json!(format!("anthropic/{MODEL}"));
    });
    let serving = Binary::serve(&dir);
    let browser = Browser::start();
    let site = Site::new(&dir, &serving, &browser);
    let tab = site.signed_in("en", &site.token);
    words_come_as_they_are_said(&site, &models, &tab);
    let task = a_task_is_approved_and_completed(&site, &tab);
    a_task_is_picked_and_cancelled(&site, &tab);
    a_guard_that_fails_is_let_in_again(&site, &tab);
    a_plugin_waits_for_more_and_goes_back(&site, &tab);
    a_channel_begins_anew(&site, &chat, &tab);
    two_people_change_lists(&site, &tab);
    a_reader_finds_nothing_to_press(&site, &task);
    let said: Vec<String> = browser.problems().into_iter().filter(|said| !said.contains("status of 4")).collect();
    assert!(said.is_empty(), "{said:#?}");
    somebody_signs_out(&site, &tab);
}

/// What a model says is on the page while it still speaks, and stays unfinished when it is stopped.
fn words_come_as_they_are_said(site: &Site<'_>, models: &ModelServer, tab: &Tab<'_>) {
    models.when("tell me of the crab", Reply::text("Once there was a crab").then(End::Stalled));
    site.open(tab, "/chat?agent=ruda");
    tab.fill("#message", "tell me of the crab");
    tab.key("Enter");
    tab.until(
        "the words are there before the answer is",
        "document.querySelector('#saying .raw')?.textContent.includes('there was a crab') && !document.querySelector('#saying').hidden",
    );
    look_at(tab, "chat-streams");
    tab.click("#running button");
    tab.until("it has stopped", "!document.querySelector('#running button')");
    assert_marked(tab);
}

/// Drags a card to a column; tells whether it could be dropped there.
fn drag(tab: &Tab<'_>, task: &str, column: &str) -> Value {
    tab.eval(&format!("(() => {{ const data = new DataTransfer(), card = document.querySelector('[data-key={task}]'), to = document.querySelector('[data-column={column}]'); const fire = (e, t) => e.dispatchEvent(new DragEvent(t, {{ bubbles: true, cancelable: true, dataTransfer: data }})); fire(card, 'dragstart'); const may = !fire(to, 'dragover'); fire(to, 'drop'); fire(card, 'dragend'); return may; }})()"))
}

fn status(site: &Site<'_>, task: &str) -> Value {
    site.api(&format!("/api/tasks/{task}"))["status"].clone()
}

fn a_task_is_approved_and_completed(site: &Site<'_>, tab: &Tab<'_>) -> String {
    let steps = json!([{ "content": "build it" }, { "content": "ship it" }]);
    let asked = json!({ "description": "Ship the release", "requires_approval": true, "steps": steps });
    let task = site.tool("eden", "task_start", asked)["taskId"].as_str().expect("an id").to_owned();
    site.open(tab, "/tasks");
    tab.until("it waits for approval", &format!("document.querySelector('[data-column=pending] [data-key={task}]')"));
    assert_eq!(drag(tab, &task, "completed"), json!(false), "what is not approved is not done");
    assert_eq!(status(site, &task), "pending_approval");
    assert_eq!(drag(tab, &task, "in_progress"), json!(true));
    tab.until("it is worked on", &format!("document.querySelector('[data-column=in_progress] [data-key={task}]')"));
    assert_marked(tab);

    site.open(tab, &format!("/tasks/{task}"));
    tab.click("button[value='start:s2']");
    tab.until(
        "the second step is the one",
        "document.querySelectorAll('.checklist li')[1].dataset.status === 'in_progress'",
    );
    tab.fill("#note", "the build is green");
    tab.click("form:has(#note) button");
    tab.until("the note is told", "document.querySelector('#timeline ol').innerText.includes('the build is green')");
    assert_marked(tab);
    tab.click("a[href$='?dialog=complete']");
    tab.until("the dialog is open", "document.querySelector('dialog:modal textarea')");
    tab.fill("dialog textarea", "it is out");
    tab.click("dialog button.main");
    tab.until("open steps are in the way", "document.querySelector('dialog .said').innerText.length > 10");
    assert_eq!(tab.eval("document.querySelector('dialog textarea').value"), json!("it is out"), "nothing is lost");
    look_at(tab, "task-guarded");
    tab.click("dialog input[name=force]");
    tab.click("dialog button.main");
    tab.until(
        "it is over",
        "location.search === '' && document.querySelector('#head .badge')?.innerText.includes('Completed')",
    );
    shows(tab, "it is out");
    assert_eq!(status(site, &task), "completed");
    assert_eq!(
        tab.eval("document.querySelectorAll('#head form, #steps button').length"),
        json!(0),
        "nothing is left to do"
    );
    look_at(tab, "task-over");
    task
}

fn a_task_is_picked_and_cancelled(site: &Site<'_>, tab: &Tab<'_>) {
    let added = site.tool("seum", "task_backlog_add", json!({ "description": "Paint the shed" }));
    let task = added["taskId"].as_str().expect("an id").to_owned();
    site.open(tab, &format!("/tasks/{task}"));
    tab.click("form.actions button[value=pick]");
    tab.until("it is worked on", "document.querySelector('#head .badge').innerText.includes('In progress')");
    assert_marked(tab);
    tab.click("a[href$='?dialog=cancel']");
    tab.until("the dialog is open", "document.querySelector('dialog:modal textarea')");
    tab.fill("dialog textarea", "nobody wants it");
    tab.click("dialog button.main");
    tab.until(
        "it is over",
        "location.search === '' && document.querySelector('#head .badge')?.innerText.includes('Cancelled')",
    );
    shows(tab, "nobody wants it");
    tab.eval("window.left = 1; void setTimeout(() => history.back())");
    tab.until("it is left", "!window.left && document.readyState === 'complete'");
    tab.until("back leads to no dialog", "!document.querySelector('dialog[open]')");
}

fn a_guard_that_fails_is_let_in_again(site: &Site<'_>, tab: &Tab<'_>) {
    // As the gateway writes it: from any other address a form would lead there.
    site.open(tab, "/plugins/guard%3Aodd");
    for nth in 0..10 {
        site.tool("seum", "todo_add", json!({ "title": format!("number {nth}") }));
    }
    tab.until("it is asked no more", "document.querySelector('#head .badge').innerText.includes('In quarantine')");
    assert_marked(tab);
    look_at(tab, "slot-quarantined");
    tab.click("#head button[value=release]");
    tab.until("it is asked again", "/Serving|On probation/.test(document.querySelector('#head .badge').innerText)");
    tab.until("both are told", "['plugin.quarantined', 'plugin.released'].every((kind) => document.querySelector('#history').innerText.includes(kind))");
    at_rest(tab);
    tab.click("#head button[value=disable]");
    tab.until("it is out of the way", "document.querySelector('#head .badge').innerText.includes('Disabled')");
}

/// The same plugin, which now imports chance as well.
fn wider() -> Vec<u8> {
    let import = "import wasi:random/random@0.2.0;";
    let items = r#"(import "wasi:random/random@0.2.0" "get-random-u64" (func $chance (result i64)))"#;
    Handmade { import, imports: items, version: "2.0.0", category: "infra_ops", ..Handmade::default() }.component()
}

fn a_plugin_waits_for_more_and_goes_back(site: &Site<'_>, tab: &Tab<'_>) {
    let first = Handmade::default();
    let serves = |version: &str| format!("document.querySelector('#head').innerText.includes('{version}')");
    site.open(tab, "/plugins/classifier");
    tab.eval(&upload("mine.wasm", &first.component()));
    tab.until("the first version serves", &serves(first.version));
    assert_eq!(tab.eval("document.querySelector('#head button[value=accept]')"), Value::Null, "nothing waits");
    at_rest(tab);
    tab.eval(&upload("mine.wasm", &wider()));
    tab.until(
        "it is said that it waits",
        "document.querySelector('form[data-upload] .said').innerText.includes('wasi:random')",
    );
    tab.until(
        "what it wants is shown",
        "document.querySelector('#head .notice')?.innerText.includes('wasi:random/random@0.2.0')",
    );
    tab.until("the first version goes on", &serves(first.version));
    look_at(tab, "slot-waits");
    tab.click("#head button[value=accept]");
    tab.until("the second version serves", &serves("2.0.0"));
    tab.until("it waits no more", "!document.querySelector('#head button[value=accept]')");
    at_rest(tab);
    tab.click("#head button[value=rollback]");
    tab.until("the first version is back", &serves(first.version));
    tab.until("it is told", "document.querySelector('#history').innerText.includes('plugin.rolled_back')");
    at_rest(tab);
    tab.click("#head button[value=rollback]");
    tab.until("there is nothing further back, or it goes forward again", "document.querySelector('#head .said').innerText.length > 10 || document.querySelector('#head').innerText.includes('2.0.0')");

    // Somebody else puts another in service meanwhile: what was typed is not set upon that.
    tab.fill("#config-text", r#"{ "mine": true }"#);
    site.call("plugin.load", json!({ "slot": "classifier", "source": path_of(&guest("steady")) }));
    tab.until("the page knows who serves", &serves("steady"));
    tab.click("button[value=config]");
    tab.until(
        "the conflict is said",
        "document.querySelector('#config .said').innerText.includes('changed since you looked')",
    );
    assert_eq!(tab.eval("document.querySelector('#config-text').value"), json!(r#"{ "mine": true }"#));
}

fn a_channel_begins_anew(site: &Site<'_>, chat: &Chat, tab: &Tab<'_>) {
    site.open(tab, "/channels");
    let ready = "document.querySelector('[data-key=relay] .badge')?.innerText.includes('Ready')";
    tab.until("it is connected", ready);
    let opened = chat.opened().len();
    tab.click("[data-key=relay] button[value=restart]");
    eventually("it has connected again", || (chat.opened().len() > opened).then_some(()));
    tab.until("the page says so", ready);
    assert_marked(tab);
    let restarts = site.api("/api/channels")["channels"][0]["restarts"].to_string();
    tab.until("how often is told", &format!("[...document.querySelectorAll('[data-key=relay] dt')].find((e) => e.innerText === 'Restarts')?.nextElementSibling.innerText === '{restarts}'"));
    look_at(tab, "channels-ready");
}

fn two_people_change_lists(site: &Site<'_>, tab: &Tab<'_>) {
    let other = site.signed_in("en", &site.token);
    for title in ["Alpha", "Beta"] {
        site.tool("ruda", "milestone_create", json!({ "title": title }));
    }
    site.open(tab, "/milestones");
    site.open(&other, "/milestones");
    let first = "#list > ul > li:nth-child(1)";
    for one in [tab, &other] {
        one.click(&format!("{first} a[href*='edit=ms_']"));
        one.until("its form is open", "document.querySelector('#edit h2')?.innerText === 'Edit: Alpha' && document.getElementById('live')?.hidden === false");
    }
    let seen = "document.querySelector('#edit input[name=seen]').value";
    let before = tab.eval(seen);
    tab.fill("#edit-title", "Alpha, mine");
    other.fill("#edit-title", "Alpha, theirs");
    other.click("#edit button.main");
    shows(tab, "Alpha, theirs");
    assert_eq!(tab.eval("document.querySelector('#edit-title').value"), json!("Alpha, mine"));
    tab.click("#edit button.main");
    tab.until(
        "the conflict is said",
        "document.querySelector('#edit .said').innerText.includes('changed since you looked')",
    );
    assert_eq!(tab.eval("document.querySelector('#edit-title').value"), json!("Alpha, mine"));
    tab.until("the page knows better", &format!("{seen} !== {before}"));
    tab.click("#edit button.main");
    tab.until(
        "who has seen it may change it",
        &format!("document.querySelector('{first} h2')?.innerText === 'Alpha, mine' && location.search === ''"),
    );
    site.open(tab, "/milestones");
    site.open(&other, "/milestones");
    tab.click(&format!("{first} button[value^='in_progress:ms_']"));
    tab.until("it is marked", &format!("document.querySelector('{first} .badge').innerText.includes('In progress')"));
    at_rest(tab);
    tab.click(&format!("{first} button[value^='down:ms_']"));
    tab.until("it has moved down", &format!("document.querySelector('{first} h2').innerText === 'Beta'"));
    other.until("the other one sees it", &format!("document.querySelector('{first} h2').innerText === 'Beta'"));
    assert_marked(tab);

    site.open(tab, "/todos");
    let status = |nth: usize| format!("document.querySelectorAll('#list li')[{nth}].dataset.status");
    tab.click("#list li:nth-child(1) button[value^='in_progress:']");
    tab.until("it is begun", &format!("{} === 'in_progress'", status(0)));
    at_rest(tab);
    tab.click("#list li:nth-child(1) button[value^='down:']");
    tab.until("it has moved down", &format!("{} === 'in_progress'", status(1)));
    at_rest(tab);
    tab.click("#list li:nth-child(2) button[value^='todo:']");
    tab.until("it is open again", &format!("{} === 'todo'", status(1)));
    assert_marked(tab);
}

fn a_reader_finds_nothing_to_press(site: &Site<'_>, task: &str) {
    let tab = site.signed_in("en", READ);
    for path in [
        "/",
        "/conversations?category=all",
        "/tasks",
        &format!("/tasks/{task}"),
        "/questions",
        "/chat",
        "/jobs",
        "/plugins/classifier",
        "/milestones",
        "/todos",
        "/channels",
        "/settings",
    ] {
        tab.open(&site.address(path));
        let found = "[...document.querySelectorAll('main form[method=post] button, main textarea, main input:not([type=search])')].filter((e) => e.checkVisibility() && e.form?.method === 'post').length";
        assert_eq!(tab.eval(found), json!(0), "{path}");
    }
}

fn somebody_signs_out(site: &Site<'_>, tab: &Tab<'_>) {
    site.open(tab, "/tasks?q=release");
    tab.click(".out button");
    tab.until("nobody is signed in", "location.pathname === '/login' && document.querySelector('#token')");
    tab.open(&site.address("/tasks?q=release"));
    tab.until("the page asks who is there", "location.pathname === '/login'");
    tab.fill("#token", &site.token);
    tab.key("Enter");
    tab.until("and goes on where they wanted to be", "location.pathname + location.search === '/tasks?q=release'");
}
