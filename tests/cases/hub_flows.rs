//! The hub of a real gateway, from a person's side: the ways through it that its designs name, the faults of the old page, everything that
//! can be typed, and a sign-in that ends. One process, one browser.

use serde_json::{Value, json};
use support::browser::{Browser, Tab};
use support::pages::{Site, assert_marked, lacks, look_at, shows};
use support::{Binary, TestDir, eventually, have};

use super::hub_forms::at_rest;

const SCRIPT: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "passed on" }] },
    { agent: "ruda", when: "stuck on the port", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
    { agent: "ruda", when: "stuck on the name", steps: [{ say: "[NEED_HUMAN: Which name?]" }] },
    { agent: "ruda", when: "hand it out", steps: [
        { call: { tool: "sessions_send", args: { agentId: "eden", message: "[Goal] Fix the build\nPlease fix the flaky unit test in the build pipeline, <@42>", timeoutSeconds: 0 } } },
        { say: "handed out" } ] },
    { when: "count the files", steps: [{ say: "forty-two files" }] },
    { when: "fix the flaky", steps: [
        { call: { tool: "sessions_spawn", args: { task: "count the files" } } },
        { say: "It is **done**.\n\n- one\n- two" } ] },
    { when: "goes on", steps: [{ say: "going on" }] },
    { when: "work on the port", steps: [
        { call: { tool: "task_start", args: { description: "Open the port", steps: [{ content: "choose" }, { content: "open" }] } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the port", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
    { when: "work on the name", steps: [
        { call: { tool: "task_start", args: { description: "Give it a name" } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the name", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
  ], otherwise: "You said: {{input}}" }"#;

/// What another system left in the log: an outcome for machines, a raw id as a label, markdown, mentions.
const FOREIGN: [(&str, &str); 3] = [
    (
        "a2a.send",
        r#"{"fromAgent":"eden","toAgent":"seum","label":"task_1a2b3c","message":"**Please** ask <@42> and <@!777>","conversationId":"old-1","workSessionId":"ws_old","eventRole":"conversation.main"}"#,
    ),
    (
        "a2a.send",
        r#"{"fromAgent":"seum","toAgent":"eden","message":"[NO_REPLY_NEEDED] thanks all the same","conversationId":"old-1","workSessionId":"ws_old","eventRole":"conversation.main"}"#,
    ),
    (
        "a2a.response",
        r#"{"fromAgent":"seum","toAgent":"eden","message":"[outcome] blocked: the model did not answer","outcome":"blocked","conversationId":"old-1","workSessionId":"ws_old","eventRole":"conversation.main"}"#,
    ),
];

const HOSTILE: &str = "<script>document.title='taken'</script> \u{202e}gnol ../../etc 🦀 مرحبا";

#[test]
fn the_hub_of_a_real_gateway_serves_its_people() {
    if !have("chromium") {
        return;
    }
    let dir = TestDir::scripted(SCRIPT, |config| {
        config["continuation"]["enabled"] = json!(false);
        config["hub"]["names"] = json!({ "42": "Minji" });
    });
    write_foreign(&dir);
    let serving = Binary::serve(&dir);
    let browser = Browser::start();
    let site = Site::new(&dir, &serving, &browser);
    let tab = site.signed_in("en", &site.token);
    a_question_is_answered_in_the_chat(&site, &tab);
    a_question_is_answered_on_its_task(&site, &tab);
    conversations_are_those_of_main_agents(&site, &tab);
    faults_of_the_old_page_are_gone(&site, &tab);
    a_keyboard_is_enough(&site, &tab);
    every_field_takes_anything(&site, &tab);
    let said: Vec<String> = browser.problems().into_iter().filter(|said| !said.contains("status of 4")).collect();
    assert!(said.is_empty(), "{said:#?}");
    a_sign_in_ends(&site, &dir, &tab);
}

fn question(site: &Site<'_>, text: &str) -> Value {
    eventually("a question is open", || {
        let open = site.call("human.pending", json!({}));
        open["questions"].as_array()?.iter().find(|one| one["question"] == text && one["phase"] == "open").cloned()
    })
}

/// The card in the chat takes the answer, and the task goes on.
fn a_question_is_answered_in_the_chat(site: &Site<'_>, tab: &Tab<'_>) {
    site.open(tab, "/chat");
    site.tell("eden", "work on the port", "flow-port");
    let asked = question(site, "Which port?");
    let field = format!("#answer-{}", asked["id"].as_str().expect("an id"));
    tab.until("the card is in the stream", &format!("document.querySelector('.bubble {field}')"));
    look_at(tab, "chat-question");
    tab.fill(&field, "8080");
    tab.click(&format!("form:has({field}) button.main"));
    tab.until("the card shows the answer", "document.querySelector('.bubble .answer')?.innerText.includes('8080')");
    assert_marked(tab);
    let task = asked["taskId"].as_str().expect("a task");
    eventually("the task goes on", || {
        (site.api(&format!("/api/tasks/{task}"))["status"] == "in_progress").then_some(())
    });
}

/// From the board by a double click to what was said, with the question and its place for an answer; then its course as events.
fn a_question_is_answered_on_its_task(site: &Site<'_>, tab: &Tab<'_>) {
    site.tell("seum", "work on the name", "flow-name");
    let asked = question(site, "Which name?");
    let task = asked["taskId"].as_str().expect("a task").to_owned();
    site.open(tab, "/tasks");
    let card = format!(".card[data-key={task}]");
    tab.until(
        "the card asks",
        &format!("document.querySelector('[data-column=blocked] {card}')?.innerText.includes('Which name?')"),
    );
    let badge = tab.eval(&format!("document.querySelector('{card}').dataset.status"));
    assert_eq!(badge, site.api(&format!("/api/tasks/{task}"))["status"], "the board and the API agree");
    tab.double_click(&format!("{card} > p.small"));
    tab.until("the task is open", &format!("location.pathname === '/tasks/{task}'"));
    at_rest(tab);
    tab.click("nav.tabs a[href$='tab=conversation']");
    tab.until("every turn is there", "document.querySelector('#talk')?.innerText.includes('stuck on the name')");
    let field = format!("#answer-{}", asked["id"].as_str().expect("an id"));
    tab.fill(&field, "chela");
    tab.click(&format!("form:has({field}) button.main"));
    tab.until("it goes on", "document.querySelector('#head .badge')?.innerText.includes('In progress')");
    tab.open(&site.address(&format!("/tasks/{task}?tab=events")));
    for kind in ["human_query.requested", "human_query.answered", "task.resumed_after_human_query"] {
        tab.until(
            &format!("{kind} is told"),
            &format!(
                "[...document.querySelectorAll('#events [data-human]')].some((e) => e.innerText.includes('{kind}'))"
            ),
        );
    }
    look_at(tab, "task-events");
}

/// Only what main agents say to each other is a conversation; the rest is in the events. Badges, filters and search say what the API says.
fn conversations_are_those_of_main_agents(site: &Site<'_>, tab: &Tab<'_>) {
    site.tell("ruda", "hand it out", "flow-build");
    let session = eventually("the work is categorised", || {
        let listed = site.api("/api/work-sessions?limit=50");
        let all = listed["workSessions"].as_array()?.clone();
        all.into_iter().find(|one| one["title"] == "Fix the build" && one["collabCategory"].is_string())
    });
    let (id, category) =
        (session["workSessionId"].as_str().expect("an id"), session["collabCategory"].as_str().expect("a category"));
    tab.open(&site.address(&format!("/conversations?category={category}")));
    shows(tab, "Fix the build");
    // What was said lately may be given its category meanwhile.
    eventually("the page and the API say the same", || {
        let listed = site.api(&format!("/api/work-sessions?role=conversation.main&viewCategory={category}&limit=50"));
        let shown = tab.eval("document.querySelectorAll('#list > ul > li').length").as_u64();
        (shown == listed["workSessions"].as_array().map(|listed| listed.len() as u64)).then_some(())
    });
    tab.open(&site.address("/conversations?category=all&q=flaky"));
    shows(tab, "Fix the build");
    assert!(site.api("/api/work-sessions?q=flaky")["workSessions"].as_array().is_some_and(|found| found.len() == 1));
    site.open(tab, &format!("/conversations/{id}"));
    tab.until(
        "markdown is rendered",
        "[...document.querySelectorAll('.bubble strong')].some((e) => e.innerText === 'done')",
    );
    shows(tab, "@Minji");
    assert!(!tab.text().contains("count the files"), "a sub-agent's work is no conversation: {}", tab.text());
    assert!(tab.eval("[...document.querySelectorAll('.bubble')].every((e) => e.querySelector('.face') && e.querySelector('time'))") == json!(true), "sender and time on both sides");
    tab.click("a[href^='/events?tree=1']");
    tab.until(
        "the delegation is a branch",
        "[...document.querySelectorAll('.tree li')].some((e) => e.innerText.includes('count the files'))",
    );
    tab.open(&site.address(&format!("/events?session={id}&role=delegation.subagent")));
    for kind in ["a2a.spawn", "a2a.spawn_result"] {
        tab.until(
            &format!("{kind} is there"),
            &format!("[...document.querySelectorAll('.event code')].some((e) => e.innerText === '{kind}')"),
        );
    }
}

/// What another system wrote before this gateway began.
fn write_foreign(dir: &TestDir) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let line = |(nth, (kind, data)): (usize, (&str, &str))| {
        let agent = if nth == 0 { "eden" } else { "seum" };
        format!(
            "{{\"type\":\"{kind}\",\"agentId\":\"{agent}\",\"ts\":{},\"data\":{data}}}\n",
            now - 60_000 + nth as u128
        )
    };
    let text: String = FOREIGN.into_iter().enumerate().map(line).collect();
    std::fs::create_dir_all(dir.state.logs()).expect("made");
    std::fs::write(dir.state.event_log(), text).expect("written");
}

fn faults_of_the_old_page_are_gone(site: &Site<'_>, tab: &Tab<'_>) {
    site.open(tab, "/conversations/ws_old");
    shows(tab, "the model did not answer");
    shows(tab, "The other side could not answer");
    shows(tab, "@Minji");
    shows(tab, "thanks all the same");
    let said = tab.text();
    for raw in ["[outcome]", "task_1a2b3c", "<@", "**Please**", "[NO_REPLY_NEEDED]"] {
        assert!(!said.contains(raw), "{raw} is not for people: {said}");
    }
    tab.open(&site.address("/conversations?category=all&thread=blocked"));
    tab.until(
        "a badge says that it is blocked",
        "[...document.querySelectorAll('#list .badge')].some((e) => e.innerText.includes('Blocked'))",
    );
    look_at(tab, "conversations-blocked");
}

/// From the first key to a done step, without a pointer.
fn a_keyboard_is_enough(site: &Site<'_>, tab: &Tab<'_>) {
    let added = site.tool(
        "ruda",
        "task_backlog_add",
        json!({ "description": "Do it by keyboard", "steps": [{ "content": "only" }] }),
    );
    let task = added["taskId"].as_str().expect("an id").to_owned();
    site.open(tab, "/tasks");
    tab.key("Tab");
    assert_eq!(tab.eval("document.activeElement.className"), json!("skip"), "the first stop leads past the navigation");
    tab.key("Enter");
    tab.until("the content has the focus", "document.activeElement.id === 'main' || location.hash === '#main'");
    tab.type_key("/");
    tab.until("the search has the focus", "document.activeElement.id === 'q'");
    tab.fill("#q", "by keyboard");
    tab.key("Enter");
    tab.until("it is found", "location.search.includes('q=by')");
    at_rest(tab);
    tab.eval(&format!("document.querySelector('.card[data-key={task}] summary').focus()"));
    tab.key("Enter");
    tab.until("the moves are open", &format!("document.querySelector('.card[data-key={task}] details').open"));
    tab.key("Tab");
    tab.key("Enter");
    eventually("it has started", || (site.api(&format!("/api/tasks/{task}"))["status"] != "backlog").then_some(()));
    let seen = tab.eval("(() => { const e = document.activeElement, s = getComputedStyle(e); return s.outlineStyle !== 'none' || e === document.body; })()");
    assert_eq!(seen, json!(true), "what has the focus is seen to have it");
}

/// Every place to write in, with what nobody should write: shown as text or refused in words, and a megabyte never lost.
fn every_field_takes_anything(site: &Site<'_>, tab: &Tab<'_>) {
    let added = site.tool("seum", "task_backlog_add", json!({ "description": "../../etc" }));
    let task = added["taskId"].as_str().expect("an id").to_owned();
    site.tell("eden", "work on the port", "flow-port-again");
    let answer = format!("#answer-{}", question(site, "Which port?")["id"].as_str().expect("an id"));
    // The answer first: what is said in the chat would be one.
    let fields = [
        ("/questions".to_owned(), answer.as_str(), ".question button.main"),
        (format!("/tasks/{task}"), "#new-step", "form:has(#new-step) button"),
        (format!("/tasks/{task}"), "#note", "form:has(#note) button"),
        (format!("/tasks/{task}?dialog=cancel"), "dialog textarea", "dialog button.main"),
        ("/chat".to_owned(), "#message", "#compose button.main"),
        ("/milestones".to_owned(), "#new-title", "form:has(#new-title) button.main"),
        ("/todos".to_owned(), "#new-todo", "form:has(#new-todo) button.main"),
        ("/plugins/classifier".to_owned(), "#load-source", "form:has(#load-source) button.main"),
        ("/plugins/classifier".to_owned(), "#config-text", "button[value=config]"),
        ("/plugins/classifier".to_owned(), "#rules-text", "form:has(#rules-text) button"),
        ("/settings?section=hub".to_owned(), "#section-text", "form:has(#section-text) button"),
    ];
    for (path, field, button) in &fields {
        site.open(tab, path);
        // The browser must not cut it off: the gateway says no.
        tab.eval(&format!(
            "(() => {{ const f = document.querySelector({}); f.value = 'x'.repeat(1048576); }})()",
            json!(field)
        ));
        assert_eq!(
            tab.eval(&format!("document.querySelector({}).maxLength", json!(field))),
            json!(-1),
            "{path} {field}: a paste is not cut silently"
        );
        tab.click(button);
        tab.until(
            &format!("{path} {field} refuses a megabyte in words"),
            &format!(
                "document.querySelector({}).closest('form').querySelector('.said').innerText.length > 10",
                json!(field)
            ),
        );
        assert_eq!(
            tab.eval(&format!("document.querySelector({}).value.length", json!(field))),
            json!(1_048_576),
            "{path} {field}: nothing typed is lost"
        );
        tab.eval(&format!("(() => {{ const f = document.querySelector({}); f.value = ''; f.dispatchEvent(new Event('input', {{ bubbles: true }})); }})()", json!(field)));
        let shown = "document.body.innerText.split('<script>document').length";
        let before = tab.eval(shown);
        tab.fill(field, HOSTILE);
        tab.click(button);
        tab.until(&format!("{path} {field} takes what is hostile, or says no"), &format!("{shown} > {before} || !document.querySelector({0}) || (document.querySelector({0})?.closest('form').querySelector('.said').innerText.length > 10)", json!(field)));
        // It may be on its way to another page by now.
        at_rest(tab);
        tab.until(
            &format!("{path} {field} runs no script"),
            "document.readyState === 'complete' && document.scripts.length === 1 && !document.title.includes('taken')",
        );
    }
    for path in [
        "/tasks?q=",
        "/conversations?category=all&q=",
        "/conversations?category=all&tag=",
        "/events?session=",
        "/jobs?session=",
        "/workspace/eden?path=",
        "/plugins/classifier?tried=",
        "/tasks?from=",
        "/questions?cursor=",
        "/questions?first=",
    ] {
        for text in [
            "%3Cscript%3Ealert(1)%3C/script%3E",
            "..%2F..%2Fetc%2Fpasswd",
            "%E2%80%AE%F0%9F%A6%80",
            "%00",
            &"a".repeat(6_000),
        ] {
            tab.open(&site.address(&format!("{path}{text}")));
            assert_eq!(tab.eval("document.querySelectorAll('h1').length"), json!(1), "{path}{text}");
            assert_eq!(tab.eval("document.scripts.length"), json!(1), "{path}{text}");
        }
    }
    lacks(tab, "root:");
    the_door_takes_anything(site);
}

/// Before anybody is known: a wrong token, whatever it is, is a wrong token.
fn the_door_takes_anything(site: &Site<'_>) {
    let tab = site.browser.tab();
    tab.reads("en");
    for text in [HOSTILE.to_owned(), "x".repeat(1_048_576)] {
        tab.open(&site.address("/login"));
        tab.eval(&format!("(() => {{ const f = document.querySelector('#token'); f.removeAttribute('maxlength'); f.value = {}; f.form.requestSubmit(); }})()", json!(text)));
        tab.until("it is wrong", "document.querySelector('[role=alert]')?.innerText.includes('Wrong token') && document.querySelector('#token')");
        assert_eq!(tab.eval("document.scripts.length"), json!(1));
    }
}

/// The token changes: the page says that its sign-in has ended, and what was being typed stays.
fn a_sign_in_ends(site: &Site<'_>, dir: &TestDir, tab: &Tab<'_>) {
    site.open(tab, "/chat");
    tab.fill("#message", "typed before it ended");
    dir.edit_config(|config| config["gateway"]["auth"]["token"] = json!("another-token-of-the-owner"));
    tab.until("it is said", "document.getElementById('banner').innerText.includes('sign-in has expired')");
    tab.click("#compose button.main");
    tab.until("what was not sent says why", "document.querySelector('#compose .said').innerText.includes('expired')");
    assert_eq!(tab.eval("document.querySelector('#message').value"), json!("typed before it ended"));
    tab.photograph(&support::browser::pictures().join("expired.png"));
}
