//! The hub in a real browser: every view, what people do on it, news without a reload, two people at once, hostile texts, small screens,
//! both themes and both languages. One gateway and one browser serve all of it; pictures are left in `target/pictures`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chela::port::Port;
use serde_json::{Value, json};
use support::browser::{Browser, Tab, pictures};
use support::pages::look_at;
use support::{TestDir, TestHost, have};
use tokio::net::TcpSocket;

use super::hub_forms::at_rest;

const SCRIPT: &str = r#"{ rules: [
    { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
    { agent: "ruda", when: "the answer of a person", steps: [{ say: "passed on" }] },
    { agent: "ruda", when: "stuck on the port", steps: [{ say: "I ask for you.\n[NEED_HUMAN: Which port?]" }] },
    { agent: "ruda", when: "stuck on the name", steps: [{ say: "[NEED_HUMAN: Which name?]" }] },
    { agent: "ruda", when: "think for long", steps: [{ say: "At last.", delayMs: 600000 }] },
    { when: "goes on", steps: [{ say: "going on" }] },
    { when: "work on the port", steps: [
        { call: { tool: "task_start", args: { description: "Open the port\n\nwith **care**", steps: [{ content: "choose" }, { content: "open" }] } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the port", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
    { when: "work on the name", steps: [
        { call: { tool: "task_start", args: { description: "Give it a name" } } },
        { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the name", timeoutSeconds: 0 } } },
        { say: "I wait." } ] },
  ], otherwise: "You said: **{{input}}**" }"#;

const HOSTILE: &str = "<script>document.title='taken'</script> \u{202e}gnol ../../etc 🦀 مرحبا";

struct Hub<'a> {
    host: &'a TestHost,
    browser: &'a Browser,
}

impl Hub<'_> {
    fn address(&self, path: &str) -> String {
        format!("http://{}{path}", self.host.address(Port::Hub))
    }

    fn until(&self, tab: &Tab<'_>, what: &str, expression: &str) {
        tab.until_while(what, expression, || self.host.clock.advance(Duration::from_millis(50)));
    }

    fn shows(&self, tab: &Tab<'_>, text: &str) {
        self.until(tab, &format!("{text:?} is shown"), &format!("document.body.innerText.includes({})", json!(text)));
    }

    fn lacks(&self, tab: &Tab<'_>, text: &str) {
        self.until(tab, &format!("{text:?} is gone"), &format!("!document.body.innerText.includes({})", json!(text)));
    }

    fn live(&self, tab: &Tab<'_>) {
        self.until(tab, "the page is live", "!document.getElementById('live').hidden");
    }

    /// Nothing has been loaded anew since this.
    fn mark(&self, tab: &Tab<'_>) {
        tab.eval("window.mark = 1");
    }

    fn assert_marked(&self, tab: &Tab<'_>) {
        assert_eq!(tab.eval("window.mark"), json!(1), "the page was loaded anew");
    }

    /// Looks at a view in both themes and on a phone, and leaves pictures of it.
    fn look_at(&self, tab: &Tab<'_>, name: &str) {
        look_at(tab, name);
    }

    /// Sends to an agent without waiting for its answer.
    fn tell(&self, agent: &str, text: &str) {
        let sent = json!({ "agentId": agent, "message": text, "idempotencyKey": format!("told-{agent}") });
        self.host.call("agent", sent).expect("accepted");
    }
}

#[test]
fn the_hub_works_in_a_browser() {
    if !have("chromium") {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    // Nobody is told to go on: what happens here is what people do.
    let dir = TestDir::scripted(SCRIPT, |config| config["continuation"]["enabled"] = json!(false));
    let host = TestHost::start_at(dir, now).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.get("/api/stats");
    let browser = Browser::start();
    let hub = Hub { host: &host, browser: &browser };
    let tab = browser.tab();
    tab.reads("en");
    signing_in(&hub, &tab);
    let other = browser.tab();
    other.reads("ko");
    signing_in_by_token(&hub, &other);
    questions_of_two_people(&hub, &tab, &other);
    a_task(&hub, &tab);
    the_board(&hub, &tab);
    conversations(&hub, &tab);
    a_chat(&hub, &tab);
    who_works_is_counted(&hub, &tab);
    hostile_texts(&hub, &tab);
    every_view(&hub, &tab);
    let said: Vec<String> = hub.browser.problems().into_iter().filter(|said| !said.contains("status of 4")).collect();
    assert!(said.is_empty(), "{said:#?}");
    a_lost_connection(host, &tab);
}

fn signing_in(hub: &Hub<'_>, tab: &Tab<'_>) {
    tab.open(&hub.address("/tasks"));
    hub.shows(tab, "Token");
    hub.look_at(tab, "login");
    tab.open(&hub.host.app().hub_link().expect("a link"));
    hub.shows(tab, "Ruda");
    assert_eq!(tab.eval("location.pathname + location.search"), json!("/"), "no code stays in the address");
    assert_eq!(tab.eval("document.documentElement.lang"), json!("en"));
    assert_eq!(tab.eval("document.cookie"), json!(""), "no script reads what signs in");
}

fn signing_in_by_token(hub: &Hub<'_>, tab: &Tab<'_>) {
    tab.open(&hub.address("/questions"));
    tab.fill("#token", "a-wrong-token-of-somebody");
    tab.click("button.main");
    hub.shows(tab, "토큰이 맞지 않습니다");
    tab.fill("#token", &hub.host.token);
    // By keyboard alone.
    tab.key("Enter");
    hub.until(
        tab,
        "the questions are there",
        "location.pathname === '/questions' && document.querySelector('h1')?.innerText === '질문'",
    );
}

/// A question appears by itself; who is quicker answers it, and what the other has typed is not lost.
fn questions_of_two_people(hub: &Hub<'_>, tab: &Tab<'_>, other: &Tab<'_>) {
    tab.open(&hub.address("/"));
    for one in [tab, other] {
        hub.live(one);
        hub.mark(one);
    }
    hub.tell("eden", "work on the port");
    hub.shows(tab, "Which port?");
    hub.shows(other, "Which port?");
    hub.shows(tab, "Waits for you");
    hub.assert_marked(tab);
    hub.look_at(tab, "overview");
    hub.tell("seum", "work on the name");
    hub.shows(tab, "Which name?");
    hub.shows(other, "Which name?");
    tab.open(&hub.address("/questions"));
    hub.look_at(tab, "questions");
    hub.live(tab);
    hub.mark(tab);
    let of = |question: &str| {
        let all = hub.host.questions();
        let found = all.iter().find(|one| one["question"] == question).expect("an open question");
        format!("#answer-{}", found["id"].as_str().expect("an id"))
    };
    let (port, name) = (of("Which port?"), of("Which name?"));
    other.fill(&name, "half an ans");
    tab.fill(&port, "8080");
    tab.click(&format!("form:has({port}) button.main"));
    hub.lacks(tab, "Which port?");
    hub.lacks(other, "Which port?");
    hub.assert_marked(tab);
    hub.assert_marked(other);
    let typed = |field: &str| other.eval(&format!("document.querySelector({}).value", json!(field)));
    assert_eq!(typed(&name), json!("half an ans"), "what is being typed is not touched");
    tab.fill(&name, "chela");
    tab.click(&format!("form:has({name}) button.main"));
    hub.lacks(tab, "Which name?");
    hub.until(other, "the other one is told", "document.querySelector('[data-gone] .notice')");
    assert_eq!(typed(&name), json!("half an ans"), "nothing typed is lost");
    assert!(hub.host.questions().is_empty());
}

fn a_task(hub: &Hub<'_>, tab: &Tab<'_>) {
    // The one that waited for its name goes on.
    let task = hub.host.eventually("a task is in progress", || {
        hub.host.get("/api/agents/seum/current").1["task"]["id"].as_str().map(str::to_owned)
    });
    tab.open(&hub.address(&format!("/tasks/{task}")));
    hub.live(tab);
    hub.mark(tab);
    for step in ["plan", "build", "test"] {
        tab.fill("#new-step", step);
        at_rest(tab);
        tab.click("form:has(#new-step) button");
        hub.until(
            tab,
            "the step is there",
            &format!(
                "[...document.querySelectorAll('.checklist .content')].some((e) => e.innerText.includes('{step}'))"
            ),
        );
    }
    let order = |tab: &Tab<'_>| {
        tab.eval("[...document.querySelectorAll('.checklist li')].map((e) => e.dataset.key + ':' + e.dataset.status).join(' ')")
    };
    assert_eq!(order(tab), json!("s1:in_progress s2:pending s3:pending"));
    tab.click("button[value='up:s3']");
    hub.until(tab, "the order has changed", "document.querySelectorAll('.checklist li')[1].dataset.key === 's3'");
    at_rest(tab);
    tab.click("button[value='complete:s1']");
    hub.until(tab, "a step is done", "document.querySelector('.checklist li').dataset.status === 'done'");
    at_rest(tab);
    tab.click("button[value='skip:s3']");
    hub.until(tab, "a step is skipped", "document.querySelectorAll('.checklist li')[1].dataset.status === 'skipped'");
    hub.assert_marked(tab);
    hub.host.done("seum", "task_update", json!({ "task_id": task, "progress": "told by the agent itself" }));
    hub.shows(tab, "told by the agent itself");
    hub.assert_marked(tab);
    hub.look_at(tab, "task");

    tab.click("a[href$='?dialog=block']");
    hub.until(tab, "the dialog is open", "document.querySelector('dialog:modal textarea')");
    hub.look_at(tab, "task-dialog");
    tab.fill("dialog textarea", "the machine is away");
    tab.click("dialog button.main");
    hub.until(tab, "it is closed", "!document.querySelector('dialog') && location.search === ''");
    hub.shows(tab, "the machine is away");
    assert_eq!(hub.host.task(&task)["status"], "blocked");
    hub.live(tab);
    // In one go: a page that has just become live is fetched once more, and would mend itself between two.
    tab.eval("(() => { const form = document.querySelector('form.actions'); form.querySelector('input[name=seen]').value = 'in_progress'; form.querySelector('button[value=resume]').click(); })()");
    hub.shows(tab, "has changed since you looked");
    hub.until(
        tab,
        "the page knows better",
        "document.querySelector('form.actions input[name=seen]').value === 'blocked'",
    );
    tab.click("form.actions button[value=resume]");
    hub.until(tab, "it goes on", "document.querySelector('#head .badge').innerText.includes('In progress')");
    tab.click("nav.tabs a[href$='tab=conversation']");
    hub.until(
        tab,
        "the conversation is there",
        "location.search === '?tab=conversation' && document.querySelector('#talk')",
    );
    hub.look_at(tab, "task-conversation");
    tab.eval("void setTimeout(() => history.back())");
    hub.until(tab, "the details are back", "location.search === '' && document.querySelector('.checklist')");
    tab.open(&hub.address(&format!("/tasks/{task}?dialog=cancel")));
    tab.key("Escape");
    hub.until(tab, "it is closed", "location.search === '' && !document.querySelector('dialog')");
}

fn the_board(hub: &Hub<'_>, tab: &Tab<'_>) {
    let added = hub.host.done(
        "ruda",
        "task_backlog_add",
        json!({ "description": "Write the release notes", "priority": "high" }),
    );
    let task = added["taskId"].as_str().expect("an id").to_owned();
    tab.open(&hub.address("/tasks"));
    hub.live(tab);
    hub.mark(tab);
    hub.look_at(tab, "tasks");
    let column = |of: &str| format!("document.querySelector('[data-column={of}] [data-key={task}]')");
    tab.eval(&format!("(() => {{ const data = new DataTransfer(), card = {}, to = document.querySelector('[data-column=in_progress]'); const fire = (e, t) => e.dispatchEvent(new DragEvent(t, {{ bubbles: true, cancelable: true, dataTransfer: data }})); fire(card, 'dragstart'); fire(to, 'dragover'); fire(to, 'drop'); fire(card, 'dragend'); }})()", column("backlog")));
    hub.until(tab, "the card has moved", &column("in_progress"));
    hub.assert_marked(tab);
    let summary = format!("[data-key={task}] details summary");
    tab.click(&summary);
    tab.click(&format!("[data-key={task}] button[value^='backlog:']"));
    hub.until(tab, "the card is back", &column("backlog"));
    tab.fill("#q", "release");
    tab.key("Enter");
    hub.until(tab, "the filter is in the address", "location.search.includes('q=release')");
    at_rest(tab);
    assert_eq!(tab.eval("document.querySelectorAll('.board .card').length"), json!(1));
    tab.eval(&format!("document.querySelector('[data-key={task}] .title').click()"));
    hub.until(tab, "the task is open", &format!("location.pathname === '/tasks/{task}'"));
}

fn conversations(hub: &Hub<'_>, tab: &Tab<'_>) {
    tab.open(&hub.address("/conversations"));
    hub.until(
        tab,
        "the categories are there",
        "document.querySelectorAll('.category:not([href$=\"=unknown\"])').length === 11",
    );
    hub.look_at(tab, "conversations-first");
    tab.click("a[href='/conversations?category=all']");
    hub.until(tab, "sessions are listed", "document.querySelector('#list a.title')");
    hub.look_at(tab, "conversations");
    tab.fill("#q", "stuck");
    tab.key("Enter");
    hub.until(
        tab,
        "what was looked for is found",
        "location.search.includes('q=stuck') && document.querySelector('#list blockquote')",
    );
    tab.eval("document.querySelector('#list a.title').click()");
    hub.until(tab, "messages are shown", "document.querySelector('.bubble .text')");
    at_rest(tab);
    let said = tab.text();
    assert!(said.contains("I am stuck on the") && !said.contains("[outcome]"), "{said}");
    hub.look_at(tab, "conversation");
    hub.live(tab);
    tab.eval("document.querySelector('#category').value = 'legal_compliance'");
    tab.click("form:has(#category) button");
    hub.until(
        tab,
        "the category is another",
        "document.querySelector('[data-kind=category]').innerText.includes('Legal')",
    );

    // Somebody else says something else while a choice is being made: it is seen, and the choice stays for a second try.
    at_rest(tab);
    tab.eval("document.querySelector('#category').value = 'infra_ops'");
    let session = tab.eval("location.pathname.split('/')[2]");
    let path = format!("/api/work-sessions/{}/category", session.as_str().expect("an id"));
    let answer = hub.host.request("PATCH", &path, &[], br#"{"collabCategory": "qa_validation"}"#);
    assert_eq!(answer.status, 200);
    hub.until(
        tab,
        "the other one is heard",
        "document.querySelector('[data-kind=category]').innerText.includes('Quality')",
    );
    tab.click("form:has(#category) button");
    hub.until(
        tab,
        "the conflict is said",
        "document.querySelector('form:has(#category) .said').innerText.includes('changed since you looked')",
    );
    hub.until(
        tab,
        "the form knows",
        "document.querySelector('form:has(#category) [name=seen]').value === 'qa_validation'",
    );
    assert_eq!(tab.eval("document.querySelector('#category').value"), json!("infra_ops"));
    tab.click("form:has(#category) button");
    hub.until(
        tab,
        "the second try is taken",
        "document.querySelector('[data-kind=category]').innerText.includes('Infrastructure')",
    );
}

fn a_chat(hub: &Hub<'_>, tab: &Tab<'_>) {
    tab.open(&hub.address("/chat"));
    hub.live(tab);
    hub.mark(tab);
    tab.fill("#message", "good morning");
    tab.key("Enter");
    hub.until(
        tab,
        "there is an answer",
        "[...document.querySelectorAll('.bubble strong')].some((e) => e.innerText === 'good morning')",
    );
    at_rest(tab);
    assert_eq!(tab.eval("document.querySelector('#message').value"), json!(""), "what was sent is not left behind");
    tab.fill("#message", "think for long");
    tab.click("#compose button.main");
    tab.until("it is answering", "document.querySelector('#running button')");
    tab.click("#running button");
    hub.until(tab, "it has stopped", "!document.querySelector('#running button')");
    hub.assert_marked(tab);
    tab.fill("#message", "not sent yet");
    tab.eval("location.reload()");
    hub.until(
        tab,
        "the page is back with what was typed",
        "window.mark !== 1 && document.querySelector('#message')?.value === 'not sent yet'",
    );
    hub.look_at(tab, "chat");
    tab.fill("#message", "");
    tab.eval("document.querySelector('#message').value = ''; document.querySelector('#message').dispatchEvent(new Event('input', { bubbles: true }))");
}

/// The figures of the overview follow those who begin and end.
fn who_works_is_counted(hub: &Hub<'_>, tab: &Tab<'_>) {
    tab.open(&hub.address("/"));
    hub.live(tab);
    hub.mark(tab);
    let working = |count: &str| format!("document.querySelector('.figure strong').innerText === '{count}/3'");
    hub.until(tab, "nobody works", &working("0"));
    hub.tell("ruda", "think for long");
    tab.until("one works", &working("1"));
    hub.host.call("chat.abort", json!({ "sessionKey": "agent:ruda:main" })).expect("stopped");
    hub.until(tab, "nobody works again", &working("0"));
    hub.assert_marked(tab);
}

fn hostile_texts(hub: &Hub<'_>, tab: &Tab<'_>) {
    let added =
        hub.host.done("ruda", "task_backlog_add", json!({ "description": HOSTILE, "steps": [{ "content": HOSTILE }] }));
    let task = added["taskId"].as_str().expect("an id").to_owned();
    hub.host.done("ruda", "task_backlog_add", json!({ "description": "../../etc" }));
    tab.open(&hub.address("/tasks"));
    hub.shows(tab, "<script>document.title='taken'</script>");
    hub.shows(tab, "../../etc");
    tab.open(&hub.address(&format!("/tasks/{task}")));
    hub.shows(tab, "<script>document.title='taken'</script>");
    tab.open(&hub.address("/chat"));
    hub.live(tab);
    tab.fill("#message", HOSTILE);
    tab.click("#compose button.main");
    hub.until(
        tab,
        "it is shown as text",
        "[...document.querySelectorAll('.bubble .text')].some((e) => e.innerText.includes('<script>document'))",
    );
    assert!(!tab.eval("document.title").as_str().unwrap_or_default().contains("taken"));
    assert_eq!(tab.eval("document.scripts.length"), json!(1));
    hub.browser.problems();
    // A megabyte is refused in plain words, and stays where it was typed.
    at_rest(tab);
    tab.eval("document.querySelector('#message').value = 'x'.repeat(1048576); document.querySelector('#compose form').requestSubmit()");
    hub.until(tab, "it is refused", "document.querySelector('#compose .said').innerText.length > 10");
    assert_eq!(tab.eval("document.querySelector('#message').value.length"), json!(1_048_576));
    tab.eval("document.querySelector('#message').value = ''");
}

/// What no step before has looked at, with its weight; and Korean.
fn every_view(hub: &Hub<'_>, tab: &Tab<'_>) {
    tab.open(&hub.address("/agents/eden"));
    hub.shows(tab, "Worker");
    hub.look_at(tab, "agent");
    for path in ["/", "/conversations?category=all", "/tasks", "/questions", "/chat", "/agents/eden"] {
        let bytes =
            tab.eval(&format!("fetch({}).then((answer) => answer.text()).then((text) => text.length)", json!(path)));
        assert!(bytes.as_u64().is_some_and(|bytes| bytes < 150_000), "{path}: {bytes}");
    }
    tab.open(&hub.address("/tasks/task_none"));
    hub.shows(tab, "Not found");
    hub.look_at(tab, "not-found");
    tab.open(&hub.address("/look?lang=ko&back=%2F"));
    hub.shows(tab, "에이전트");
    tab.open(&hub.address("/look?theme=dark&back=%2Ftasks"));
    hub.until(
        tab,
        "it is dark",
        "document.documentElement.dataset.theme === 'dark' && document.documentElement.lang === 'ko'",
    );
    tab.photograph(&pictures().join("tasks-korean-dark.png"));
}

/// The gateway goes and comes back: said plainly, and nothing typed is lost.
fn a_lost_connection(host: TestHost, tab: &Tab<'_>) {
    let address = host.address(Port::Hub);
    tab.open(&format!("http://{address}/chat"));
    tab.until("the page is live", "!document.getElementById('live').hidden");
    tab.eval("window.mark = 1");
    tab.fill("#message", "typed before it went");
    let later = host.clock.now().0 + 1_000;
    let dir = host.stop();
    // Nobody listens at the address, and nobody else gets it meanwhile.
    let held = TcpSocket::new_v4().expect("a socket");
    held.set_reuseaddr(true).and_then(|()| held.bind(address)).expect("the address is free");
    tab.until("it is said", "!document.getElementById('banner').hidden && document.getElementById('live').hidden");
    tab.photograph(&pictures().join("lost.png"));
    tab.click("#compose button.main");
    tab.until("it is said that nothing was sent", "document.querySelector('#compose .said').innerText.length > 10");
    dir.edit_config(|config: &mut Value| config["hub"]["listen"] = json!(address.to_string()));
    let host = TestHost::start_at(dir, later).unwrap_or_else(|(error, _)| panic!("{error}"));
    drop(held);
    tab.until(
        "it is live again",
        "document.getElementById('banner').hidden && !document.getElementById('live').hidden",
    );
    assert_eq!(tab.eval("[window.mark, document.querySelector('#message').value]"), json!([1, "typed before it went"]));
    tab.open("about:blank");
    drop(host);
}
