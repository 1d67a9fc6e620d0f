//! What people have begun to write on the hub's pages: it stays with its row over reloads, lost connections, a sign-in that ended and changes of
//! others, is sent once, and whoever works with the keyboard stays where they are.

use std::time::Duration;

use chela::port::Port;
use serde_json::{Value, json};
use support::browser::{Browser, Tab};
use support::{TestHost, have};

use super::hub_forms::at_rest;

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
    at_rest(&tab);
    tab.key("Enter");
    tab.until("it is the last", "document.querySelectorAll('#list li .content')[2].innerText.trim() === 'one'");
    tab.until(
        "the focus is on its row still",
        "document.activeElement.closest('[data-key]')?.querySelector('.content').innerText.trim() === 'one'",
    );
    at_rest(&tab);
    tab.eval("document.querySelector('#list li button[value^=\"done:\"]').focus()");
    tab.key("Enter");
    tab.until("it is marked", "document.querySelector('#list li').dataset.status === 'done'");
    tab.until(
        "the focus is on its row still",
        "document.activeElement.closest('[data-key]') === document.querySelector('#list li')",
    );
}

/// Who is asked two things by the work of two agents; the newest question comes first.
const ASKING: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "passed on" }] },
    { agent: "ruda", when: "stuck on the port", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
    { agent: "ruda", when: "stuck on the name", steps: [{ say: "[NEED_HUMAN: Which name?]" }] },
    { when: "goes on", steps: [{ say: "going on" }] },
    { when: "work on the port", steps: [
        { call: { tool: "task_start", args: { description: "port" } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the port", timeoutSeconds: 0 } } }, { say: "I wait." } ] },
    { when: "work on the name", steps: [
        { call: { tool: "task_start", args: { description: "name" } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the name", timeoutSeconds: 0 } } }, { say: "I wait." } ] },
  ], otherwise: "You said: {{input}}" }"#;

/// A gateway with two open questions, and their ids: the newer one, the older one.
fn asking() -> (TestHost, [String; 2]) {
    let host = TestHost::scripted_with(ASKING, |config| config["continuation"]["enabled"] = json!(false));
    host.get("/api/stats");
    host.ask("eden", "work on the port");
    host.asked(1);
    host.ask("seum", "work on the name");
    let open = host.asked(2);
    let id = |text: &str| {
        let found = open.iter().find(|one| one["question"] == text).expect("an open question");
        found["id"].as_str().expect("an id").to_owned()
    };
    let ids = [id("Which name?"), id("Which port?")];
    (host, ids)
}

fn answered(host: &TestHost, id: &str) {
    host.call("human.answer", json!({ "id": id, "answer": "that one" })).expect("answered");
}

/// Waits while the gateway's clock goes on.
fn until(host: &TestHost, tab: &Tab<'_>, what: &str, expression: &str) {
    tab.until_while(what, expression, || host.clock.advance(Duration::from_millis(50)));
}

/// The field that somebody types in, by its id.
fn focused(tab: &Tab<'_>) -> Value {
    tab.eval("document.activeElement.id")
}

#[test]
fn who_types_keeps_the_focus_when_something_above_goes_away() {
    if !have("chromium") {
        return;
    }
    let (host, [newer, older]) = asking();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    open(&host, &tab, "/questions");
    let field = format!("answer-{older}");
    assert_eq!(tab.eval("document.querySelectorAll('#list textarea')[1].id"), json!(field), "it stands below");
    tab.fill(&format!("#{field}"), "half an ans");
    answered(&host, &newer);
    until(&host, &tab, "the newer one is gone", &format!("!document.querySelector('#q-{newer}')"));
    assert_eq!(focused(&tab), json!(field));
    assert_eq!(value(&tab, &format!("#{field}")), json!("half an ans"));
}

#[test]
fn a_form_stays_the_same_when_the_first_row_above_it_appears() {
    if !have("chromium") {
        return;
    }
    let host = host();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    let started = host.done("eden", "task_start", json!({ "description": "Paint the shed" }));
    let task = started["taskId"].as_str().expect("an id");
    open(&host, &tab, &format!("/tasks/{task}"));
    tab.until("there are no steps", "document.querySelector('#steps .empty')");
    tab.fill("#new-step", "half a st");
    let step = json!({ "task_id": task, "action": "add_step", "step_content": "buy paint" });
    host.done("eden", "task_update", step);
    tab.until(
        "there is one",
        "document.querySelector('#steps .checklist li') && !document.querySelector('#steps .empty')",
    );
    assert_eq!((focused(&tab), value(&tab, "#new-step")), (json!("new-step"), json!("half a st")));
    assert_eq!(
        tab.eval("document.querySelectorAll('#new-step, main [data-gone]').length"),
        json!(1),
        "nothing is settled"
    );
}

#[test]
fn who_answers_in_the_chat_keeps_the_focus_when_another_question_is_answered() {
    if !have("chromium") {
        return;
    }
    let (host, [newer, older]) = asking();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    open(&host, &tab, "/chat?agent=ruda");
    let field = format!("answer-{newer}");
    until(&host, &tab, "it is said that there are several", "document.querySelector('#stream > .notice')");
    tab.fill(&format!("#{field}"), "half an ans");
    answered(&host, &older);
    until(&host, &tab, "there is one left", "!document.querySelector('#stream > .notice')");
    assert_eq!((focused(&tab), value(&tab, &format!("#{field}"))), (json!(field), json!("half an ans")));
}

#[test]
fn who_signs_in_again_in_another_tab_goes_on_where_they_were() {
    if !have("chromium") {
        return;
    }
    let host = host();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    let other = tab.neighbour();
    other.reads("en");
    open(&host, &other, "/todos");
    other.fill("#new-todo", "half a thing to do");
    other.eval("window.mark = 1");
    open(&host, &tab, "/");
    tab.click(".out button");
    tab.until("nobody is signed in", "location.pathname === '/login' && document.querySelector('#token')");
    // There is news, which the other tab may not have any more.
    host.done("eden", "todo_add", json!({ "title": "told to nobody" }));
    let banner = "document.getElementById('banner')";
    other.until("it is said", &format!("!{banner}.hidden && {banner}.innerText.includes('sign-in has expired')"));
    assert_eq!(other.eval("document.getElementById('live').hidden"), json!(true));
    tab.fill("#token", &host.token);
    tab.key("Enter");
    tab.until("somebody is signed in", "location.pathname === '/' && document.querySelector('#live')");
    other.until("it goes on", &format!("{banner}.hidden && !document.getElementById('live').hidden"));
    other.until("what is new is there", "document.querySelector('#list').innerText.includes('told to nobody')");
    assert_eq!((value(&other, "#new-todo"), other.eval("window.mark")), (json!("half a thing to do"), json!(1)));
}

#[test]
fn what_could_not_be_fetched_is_fetched_again() {
    if !have("chromium") {
        return;
    }
    let host = host();
    let browser = Browser::start();
    let tab = signed_in(&host, &browser);
    open(&host, &tab, "/todos");
    let add = |title: &str| {
        host.done("eden", "todo_add", json!({ "title": title }));
    };
    let shown = |title: &str| {
        let listed = format!("document.querySelector('#list').innerText.includes('{title}')");
        tab.until(&format!("{title} is listed"), &format!("{listed} && document.getElementById('banner').hidden"));
    };
    add("the first");
    shown("the first");
    // The socket stays: only what is asked for is lost on the way.
    tab.eval(
        "(() => { window.way = 'lost'; window.tried = 0; const real = window.fetch; window.fetch = (url, how) => { \
         if (window.way === 'open' || !how?.headers?.['Chela-Fragments']) return real(url, how); \
         window.tried += 1; if (window.way === 'lost') return Promise.reject(new TypeError('lost')); \
         return new Promise((_, no) => how.signal?.addEventListener('abort', () => no(how.signal.reason))); }; })()",
    );
    add("the second");
    tab.until(
        "it is said that it could not be fetched",
        "window.tried > 0 && !document.getElementById('banner').hidden",
    );
    tab.eval("window.way = 'open'");
    shown("the second");

    // One that is never answered is given up, and holds up nothing for ever.
    tab.eval(
        "(() => { const real = AbortSignal.timeout.bind(AbortSignal); AbortSignal.timeout = () => real(200); \
         window.way = 'silent'; window.tried = 0; })()",
    );
    add("the third");
    tab.until("it is asked for", "window.tried > 0");
    tab.eval("window.way = 'open'");
    shown("the third");
}
