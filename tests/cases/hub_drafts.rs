//! What people have begun to write on the hub's pages: it stays with its row over reloads, lost connections and changes of others, is sent once,
//! and whoever works with the keyboard stays where they are.

use chela::port::Port;
use serde_json::{Value, json};
use support::browser::{Browser, Tab};
use support::{TestHost, have};

fn open(host: &TestHost, tab: &Tab<'_>, path: &str) {
    tab.open(&format!("http://{}{path}", host.address(Port::Hub)));
    tab.until("the page is live", "!document.getElementById('live').hidden");
}

fn value(tab: &Tab<'_>, selector: &str) -> Value {
    tab.eval(&format!("document.querySelector('{selector}').value"))
}

fn signed_in<'a>(host: &TestHost, browser: &'a Browser) -> Tab<'a> {
    let tab = browser.tab();
    tab.reads("en");
    tab.open(&host.app().hub_link().expect("a link"));
    tab
}

fn host() -> TestHost {
    let host = TestHost::scripted_with(r#"{ rules: [], otherwise: "You said: {{input}}" }"#, |config| {
        config["continuation"]["enabled"] = json!(false);
    });
    host.get("/api/stats");
    host
}

#[test]
fn a_draft_stays_with_its_row_and_a_change_of_somebody_else_is_said_after_a_reload() {
    if !have("chromium") {
        return;
    }
    let host = host();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    let todo = |title: &str| {
        let added = host.done("eden", "todo_add", json!({ "title": title }))["todo"]["id"].clone();
        added.as_str().expect("an id").to_owned()
    };
    let (first, second) = (todo("call Minji"), todo("call Sora"));
    open(&host, &tab, &format!("/todos?edit={first}"));
    assert_eq!(tab.eval("document.querySelector('#edit h2').innerText"), json!("Edit: call Minji"));
    tab.fill("#edit-title", "call Minji at noon");
    open(&host, &tab, &format!("/todos?edit={second}"));
    assert_eq!(value(&tab, "#edit-title"), json!("call Sora"), "it was meant for another row");
    host.done("eden", "todo_set", json!({ "todo_id": first, "title": "write to Minji" }));
    open(&host, &tab, &format!("/todos?edit={first}"));
    assert_eq!(value(&tab, "#edit-title"), json!("call Minji at noon"), "it survives");
    tab.click("#edit button.main");
    tab.until(
        "the change is said",
        "document.querySelector('#edit .said').innerText.includes('changed since you looked')",
    );
    assert_eq!(host.get("/api/todos").1["todos"][0]["title"], "write to Minji", "nothing is overwritten");
    tab.click("#edit [data-forget]");
    tab.until("the list is alone", "location.search === '' && !document.querySelector('#edit')");
    open(&host, &tab, &format!("/todos?edit={first}"));
    assert_eq!(value(&tab, "#edit-title"), json!("write to Minji"), "what nobody wants is not kept");

    // Changed and deleted, with the way back free of dialogs.
    tab.fill("#edit-title", "write to Minji today");
    tab.click("#edit button.main");
    tab.until(
        "it is changed",
        "document.querySelector('#list').innerText.includes('write to Minji today') && location.search === ''",
    );
    open(&host, &tab, &format!("/todos?edit={first}"));
    tab.click("#edit a[href*='delete=']");
    tab.until("it is asked once more", "document.querySelector('dialog:modal')");
    tab.click("dialog [data-dismiss]");
    tab.until("it is there still", "location.search === '' && document.querySelectorAll('#list li').length === 2");
    tab.eval("void setTimeout(() => history.back())");
    tab.until(
        "the way back leads past the dialog",
        "location.search.includes('edit=') && !document.querySelector('dialog')",
    );
    open(&host, &tab, &format!("/todos?delete={second}"));
    tab.click("dialog button.main");
    tab.until("it is gone", "location.search === '' && document.querySelectorAll('#list li').length === 1");

    milestones_are_edited_and_deleted(&host, &tab);
}

fn milestones_are_edited_and_deleted(host: &TestHost, tab: &Tab<'_>) {
    let made = host.done("eden", "milestone_create", json!({ "title": "The first release" }));
    let id = made["milestone"]["id"].as_str().expect("an id").to_owned();
    open(host, tab, "/milestones");
    tab.click("#list details summary");
    tab.fill("#list details input[name=title]", "write the notes");
    tab.click("#list details button[value=item]");
    tab.until("the item is there", "document.querySelector('#list .checklist')?.innerText.includes('write the notes')");
    tab.click("#list .checklist a[href*='edit=']");
    tab.until("its form is open", "document.querySelector('#edit h2')?.innerText === 'Edit: write the notes'");
    tab.fill("#edit-title", "write all notes");
    tab.click("#edit button.main");
    tab.until(
        "it is changed",
        "document.querySelector('#list .checklist')?.innerText.includes('write all notes') && location.search === ''",
    );
    open(host, tab, &format!("/milestones?edit={id}"));
    tab.fill("#edit-description", "in words");
    tab.click("#edit button.main");
    tab.until(
        "it is described",
        "document.querySelector('#list')?.innerText.includes('in words') && location.search === ''",
    );
    open(host, tab, "/milestones");
    tab.click("#list a[href*='delete=ms_']");
    tab.until("it is asked once more", "document.querySelector('dialog:modal')?.innerText.includes('1')");
    tab.click("dialog button.main");
    tab.until("it is gone", "location.search === '' && document.querySelector('#list .empty')");
}

#[test]
fn a_message_whose_answer_was_lost_is_taken_once() {
    if !have("chromium") {
        return;
    }
    let host = host();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    open(&host, &tab, "/chat?agent=ruda");
    let key = value(&tab, "#compose [data-fresh]");
    // It arrives, and the connection is lost before the answer does.
    tab.eval("(() => { const real = window.fetch; window.fetch = async (url, how) => { const answer = await real(url, how); if (how?.method === 'POST') { window.fetch = real; throw new TypeError('lost'); } return answer; }; })()");
    tab.fill("#message", "only once, please");
    tab.click("#compose button.main");
    tab.until("it is not known to be sent", "document.querySelector('#compose .said').innerText.includes('Not sent')");
    host.eventually("it has arrived", || {
        host.said("agent:ruda:main").iter().any(|line| line.contains("You said")).then_some(())
    });
    assert_eq!(value(&tab, "#compose [data-fresh]"), key, "the key stays until it is taken");
    open(&host, &tab, "/chat?agent=ruda");
    assert_eq!(
        (value(&tab, "#message"), value(&tab, "#compose [data-fresh]")),
        (json!("only once, please"), key.clone())
    );
    tab.click("#compose button.main");
    tab.until(
        "it is taken",
        "document.querySelector('#message').value === '' && !document.querySelector('#told').hidden",
    );
    assert_ne!(value(&tab, "#compose [data-fresh]"), key, "the next message is another");
    tab.fill("#message", "and another");
    tab.click("#compose button.main");
    tab.until("the other is answered", "document.querySelector('#stream').innerText.includes('You said: and another')");
    let asked = "[...document.querySelectorAll('.bubble[data-side=right] .text')].filter((e) => e.innerText === 'only once, please').length";
    assert_eq!(tab.eval(asked), json!(1));
}

#[test]
fn a_page_shows_what_is_new_whatever_it_fetched_before_and_says_when_it_cannot() {
    if !have("chromium") {
        return;
    }
    let host = host();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    let task = host.begin("eden", &["one", "two"]);
    open(&host, &tab, &format!("/tasks/{task}"));
    // A set of fragments that is known; then all of them with something else in one; then the first set as it was before.
    let badge = |word: &str| format!("document.querySelector('#head .badge').innerText.includes('{word}')");
    host.done("eden", "task_block", json!({ "task_id": task, "reason": "the port is closed" }));
    tab.until("it is blocked", &badge("Blocked"));
    host.done("eden", "task_resume", json!({ "task_id": task }));
    tab.until("it goes on", &badge("In progress"));
    host.done("eden", "task_block", json!({ "task_id": task, "reason": "the port is closed" }));
    tab.until("it is blocked again", &badge("Blocked"));
    assert_eq!(tab.eval("document.getElementById('banner').hidden"), json!(true));

    // What is looked at is gone: that is said.
    tab.eval("history.replaceState(null, '', '/tasks/task_that_never_was')");
    host.done("eden", "task_update", json!({ "task_id": task, "progress": "a little" }));
    tab.until(
        "it is said",
        "document.getElementById('banner').innerText.includes('gone') && !document.getElementById('banner').hidden",
    );
    tab.eval(&format!("history.replaceState(null, '', '/tasks/{task}')"));
    host.done("eden", "task_update", json!({ "task_id": task, "progress": "a little more" }));
    tab.until("it is there again", "document.getElementById('banner').hidden && document.querySelector('#timeline').innerText.includes('a little more')");
}

#[test]
fn the_keyboard_stays_where_it_was_after_an_action() {
    if !have("chromium") {
        return;
    }
    let host = host();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    for title in ["one", "two", "three"] {
        host.done("eden", "todo_add", json!({ "title": title }));
    }
    open(&host, &tab, "/todos");
    let at = "document.activeElement.closest('[data-key]')?.querySelector('.content').innerText.trim() + ' ' + document.activeElement.value?.split(':')[0]";
    tab.eval("document.querySelector('#list li button[value^=\"down:\"]').focus()");
    tab.key("Enter");
    tab.until("it has moved", "document.querySelectorAll('#list li .content')[1].innerText.trim() === 'one'");
    tab.until("the focus has moved with it", &format!("({at}) === 'one down'"));
    tab.key("Enter");
    tab.until("it is the last", "document.querySelectorAll('#list li .content')[2].innerText.trim() === 'one'");
    tab.until(
        "the focus is on its row still",
        "document.activeElement.closest('[data-key]')?.querySelector('.content').innerText.trim() === 'one'",
    );
    tab.eval("document.querySelector('#list li button[value^=\"done:\"]').focus()");
    tab.key("Enter");
    tab.until("it is marked", "document.querySelector('#list li').dataset.status === 'done'");
    tab.until(
        "the focus is on its row still",
        "document.activeElement.closest('[data-key]') === document.querySelector('#list li')",
    );
}
