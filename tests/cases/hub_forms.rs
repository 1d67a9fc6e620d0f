//! Forms of the hub in a browser: what is half written stays in its place, a dialog takes a second try, what was done is seen, and keys send
//! what a button would.

use std::time::Duration;

use chela::port::Port;
use serde_json::json;
use support::browser::{Browser, Tab};
use support::{TestHost, have};

fn open(host: &TestHost, tab: &Tab<'_>, path: &str) {
    tab.open(&format!("http://{}{path}", host.address(Port::Hub)));
    tab.until("the page is live", "!document.getElementById('live').hidden");
}

/// Waits until the page is whole and whatever was sent from it is answered: what is new is often shown before, and a form that is on its
/// way takes nothing more.
pub(super) fn at_rest(tab: &Tab<'_>) {
    tab.until(
        "the page is at rest",
        "document.readyState === 'complete' && ![...document.forms].some((form) => form.busy)",
    );
}

#[test]
fn what_is_written_stays_in_its_place_and_is_sent_on_the_second_try() {
    if !have("chromium") {
        return;
    }
    let host = TestHost::scripted_with("{ rules: [] }", |config| {
        config["continuation"]["enabled"] = json!(false);
        let agents = config["agents"]["list"].as_array_mut().expect("a team");
        agents.iter_mut().filter(|agent| agent["id"] == "seum").for_each(|agent| agent["role"] = json!("agent"));
    });
    host.get("/api/stats");
    let browser = Browser::start();
    let tab = browser.tab();
    tab.reads("en");
    tab.open(&host.app().hub_link().expect("a link"));
    drafts_stay_in_their_places(&host, &tab);
    whoever_types_on_while_it_is_sent_keeps_that(&host, &tab);
    a_dialog_takes_a_second_try(&host, &tab);
    what_is_sent_from_a_page_of_older_messages_is_seen(&host, &tab);
    keys_send_by_the_button_behind_the_field(&host, &tab);
}

fn drafts_stay_in_their_places(host: &TestHost, tab: &Tab<'_>) {
    let value = |selector: &str| tab.eval(&format!("document.querySelector('{selector}').value"));
    open(host, tab, "/chat?agent=ruda");
    tab.fill("#message", "half a word to Ruda");
    open(host, tab, "/chat?agent=seum");
    assert_eq!(value("#message"), json!(""), "it was meant for another");
    open(host, tab, "/chat");
    assert_eq!(value("#message"), json!("half a word to Ruda"), "the same chat, by another address");
    let task = host.begin("eden", &["one"]);
    open(host, tab, &format!("/tasks/{task}?dialog=block"));
    tab.fill("dialog textarea", "the reason of a block");
    open(host, tab, &format!("/tasks/{task}?dialog=cancel"));
    assert_eq!(value("dialog textarea"), json!(""), "a block is no cancellation");
    open(host, tab, &format!("/tasks/{task}?dialog=block"));
    assert_eq!(value("dialog textarea"), json!("the reason of a block"));
}

fn whoever_types_on_while_it_is_sent_keeps_that(host: &TestHost, tab: &Tab<'_>) {
    open(host, tab, "/chat?agent=seum");
    tab.eval(
        "(() => { const field = document.querySelector('#message'); field.value = 'the first'; field.form.requestSubmit();
         field.value = 'the second'; field.dispatchEvent(new Event('input', { bubbles: true })); })()",
    );
    tab.until("it is sent", "document.querySelector('#told')?.hidden === false");
    assert_eq!(tab.eval("document.querySelector('#message').value"), json!("the second"));
    tab.fill("#message", "");
}

fn a_dialog_takes_a_second_try(host: &TestHost, tab: &Tab<'_>) {
    let task = host.begin("seum", &["one"]);
    open(host, tab, &format!("/tasks/{task}?dialog=cancel"));
    tab.fill("dialog textarea", "nobody needs it");
    host.done("seum", "task_block", json!({ "task_id": task, "reason": "somebody else was quicker" }));
    tab.click("dialog button.main");
    tab.until(
        "the conflict is said",
        "document.querySelector('dialog .said').innerText.includes('changed since you looked')",
    );
    tab.until("the form knows how it stands", "document.querySelector('dialog [name=seen]').value === 'blocked'");
    assert_eq!(tab.eval("document.querySelector('dialog textarea').value"), json!("nobody needs it"));
    tab.click("dialog button.main");
    tab.until("what was done is seen", "!document.querySelector('dialog[open]') && !document.querySelector('#told')?.hidden && document.querySelector('#told').innerText === 'Done'");
    assert_eq!(tab.eval("document.querySelector('#announce').innerText"), json!("Done"), "and heard");
    assert_eq!(host.task(&task)["status"], "cancelled");
    tab.until("it goes by itself", "document.querySelector('#told').hidden");
}

fn what_is_sent_from_a_page_of_older_messages_is_seen(host: &TestHost, tab: &Tab<'_>) {
    open(host, tab, "/chat?agent=seum&before=1");
    tab.fill("#message", "said from far back");
    tab.key("Enter");
    tab.until_while(
        "it is seen",
        "location.search === '?agent=seum' && document.querySelector('#stream')?.innerText.includes('said from far back')",
        || host.clock.advance(Duration::from_millis(50)),
    );
}

/// A form with two places to write in: what is tried by keys is not saved, and what is saved by them says what it is.
fn keys_send_by_the_button_behind_the_field(host: &TestHost, tab: &Tab<'_>) {
    let swapped = || host.told("plugin.swapped").len();
    assert!(host.slot("classifier")["plugin"].is_object(), "it serves");
    let before = swapped();
    let rules = r#"{ "rules": [{ "category": "infra_ops", "weight": 10, "keywords": ["submarine"] }] }"#;
    open(host, tab, "/plugins/classifier");
    tab.fill("#rules-text", rules);
    tab.fill("#rules-try", "we need a submarine");
    tab.control_enter();
    tab.until_while(
        "they are tried",
        "location.search.includes('tried=') && document.querySelector('#tried')?.innerText.includes('Infrastructure')",
        || host.clock.advance(Duration::from_millis(50)),
    );
    assert!(!host.dir.state.rules().exists(), "and not saved");
    open(host, tab, "/plugins/classifier");
    tab.fill("#config-text", rules);
    tab.control_enter();
    host.eventually("it is in use", || (swapped() > before).then_some(()));
}
