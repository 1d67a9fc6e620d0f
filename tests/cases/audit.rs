//! The audit log: whatever changes something leaves its line there first, by whichever door it came, and says of what.

use chela::client::Answer;
use chela::edge::{Access, Route, methods, routes};
use chela::port::Port;
use chela::scope::Scope;
use serde_json::{Value, json};
use support::TestHost;

/// The kind of a form.
const FORM: &str = "application/x-www-form-urlencoded";

/// The lines in the log of what was asked for, in order.
fn lines(host: &TestHost) -> Vec<Value> {
    let text = std::fs::read_to_string(host.dir.state.audit_log()).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line["method"].is_string()).collect()
}

/// Parameters that a method takes, and what its line is of; whether what they name is there does not matter here.
fn called(method: &str) -> (Value, Value) {
    let (message, key) = ("good morning", format!("key-of-{method}"));
    let (eden, session) = (json!({ "key": "agent:eden:main" }), json!({ "sessionKey": "agent:eden:main" }));
    match method {
        "agent" => {
            let params = json!({ "message": message, "idempotencyKey": key, "agentId": "eden" });
            (params, json!({ "agentId": "eden" }))
        }
        "chat.send" => {
            let params = json!({ "sessionKey": "agent:eden:main", "message": message, "idempotencyKey": key });
            (params, session)
        }
        "sessions.send" => (json!({ "key": "agent:eden:main", "message": message, "idempotencyKey": key }), eden),
        "send" => {
            let params = json!({ "to": "nobody", "channel": "none", "message": message, "idempotencyKey": key });
            (params, json!({ "to": "nobody", "channel": "none" }))
        }
        "chat.abort" => (session.clone(), session),
        "sessions.abort" => (eden.clone(), eden),
        "sessions.create" => (json!({ "agentId": "eden", "label": message }), json!({ "agentId": "eden" })),
        "sessions.compact" | "sessions.reset" | "sessions.delete" | "sessions.patch" => {
            let params = json!({ "key": "agent:seum:main" });
            (params.clone(), params)
        }
        "config.patch" => (json!({ "raw": "{ limits: { bodyBytes: 70000 } }" }), json!({ "config": ["limits"] })),
        "channel.restart" => (json!({ "channel": "none" }), json!({ "channel": "none" })),
        "human.answer" => (json!({ "id": "none", "answer": "yes" }), json!({ "id": "none" })),
        "jobs.cancel" | "jobs.retry" => (json!({ "id": "none" }), json!({ "id": "none" })),
        "plugin.load" => {
            let params = json!({ "slot": "guard:none", "source": "none.wasm" });
            (params.clone(), params)
        }
        method if method.starts_with("plugin.") => (json!({ "slot": "guard:none" }), json!({ "slot": "guard:none" })),
        "tasks.cancel" => (json!({ "taskId": "task_none", "reason": "late" }), json!({ "taskId": "task_none" })),
        "tools.invoke" => {
            let args = json!({ "task_id": "task_none", "reason": "late" });
            (
                json!({ "name": "task_block", "args": args, "sessionKey": "agent:eden:main" }),
                json!({ "name": "task_block", "args": { "task_id": "task_none" }, "sessionKey": "agent:eden:main" }),
            )
        }
        "config.reload" | "device.pair.list" => (json!({}), Value::Null),
        _ => panic!("{method} is new: add to `called` what it takes, and what its line in the audit log is of"),
    }
}

#[test]
fn every_method_that_changes_something_leaves_its_line_first() {
    let host = TestHost::start();
    host.get("/api/stats");
    // It only waits for what another has begun.
    let waits = ["agent.wait"];
    let methods = methods();
    let changing = methods.list().filter(|(name, scope)| *scope != Scope::Read && !waits.contains(name));
    // A hold is let go at once, below.
    for name in changing.map(|(name, _)| name).filter(|name| !name.starts_with("backup.")) {
        let (params, of) = called(name);
        let before = lines(&host).len();
        let _ = host.call(name, params);
        let left = lines(&host).split_off(before);
        let is_its = |line: &Value| line["method"] == name && line["of"] == of;
        assert!(left.iter().any(is_its), "{name} of {of} left {left:?}");
    }
    let held = host.call("backup.hold", json!({})).expect("held");
    host.call("backup.release", json!({ "id": held["id"] })).expect("let go");
    let all = lines(&host);
    let last: Vec<(&Value, &Value)> = all.iter().map(|line| (&line["method"], &line["of"])).collect();
    let expected = [(json!("backup.hold"), Value::Null), (json!("backup.release"), json!({ "id": held["id"] }))];
    assert!(last.ends_with(&expected.each_ref().map(|(method, of)| (method, of))), "{last:?}");
    for (name, _) in methods.list().filter(|(_, scope)| *scope == Scope::Read) {
        let _ = host.call(name, json!({}));
    }
    assert_eq!(lines(&host), all, "who only asks leaves none");
}

#[test]
fn no_text_and_no_secret_of_a_change_is_in_its_line() {
    const SECRET: &str = "s3cret-of-somebody";
    let host = TestHost::start();
    let raw = format!("{{ providers: {{ mine: {{ kind: 'openai', key: '{SECRET}' }} }} }}");
    let calls = [
        ("agent", json!({ "message": SECRET, "idempotencyKey": SECRET, "extraSystemPrompt": SECRET })),
        ("chat.send", json!({ "sessionKey": "agent:eden:main", "message": SECRET, "idempotencyKey": "one" })),
        ("sessions.patch", json!({ "key": "agent:eden:main", "label": SECRET })),
        ("send", json!({ "to": "nobody", "channel": "none", "message": SECRET, "idempotencyKey": SECRET })),
        ("config.patch", json!({ "raw": raw, "baseHash": SECRET, "note": SECRET })),
        ("human.answer", json!({ "id": "none", "answer": SECRET })),
        ("tasks.cancel", json!({ "taskId": "none", "reason": SECRET })),
        ("plugin.load", json!({ "slot": "guard:none", "source": "none.wasm", "config": { "token": SECRET } })),
        ("tools.invoke", json!({ "name": "task_backlog_add", "args": { "description": SECRET, "source": SECRET } })),
    ];
    for (method, params) in &calls {
        let _ = host.call(method, params.clone());
    }
    let said = json!({ "tool": "task_backlog_add", "args": { "description": SECRET, "context": SECRET } });
    sent(&host, Port::Gateway, "POST", "/tools/invoke", "application/json", said.to_string());
    let form_sent = |path: &str, form: String| sent(&host, Port::Hub, "POST", path, FORM, form);
    form_sent("/settings", format!("section=hub&text=%7Bkey%3A%22{SECRET}%22%7D"));
    form_sent("/todos", format!("do=new&title={SECRET}"));
    form_sent("/questions/none/answer", format!("answer={SECRET}"));
    let log = std::fs::read_to_string(host.dir.state.audit_log()).expect("an audit log");
    assert_eq!(lines(&host).len(), calls.len() + 4, "{log}");
    assert!(!log.contains(SECRET), "{log}");
}

/// What comes of a body that is sent as the owner.
fn sent(host: &TestHost, port: Port, verb: &str, path: &str, kind: &str, body: String) -> Answer {
    let (client, verb) = (host.client(port), verb.parse().expect("a verb"));
    host.block_on(client.send(verb, path, &[("content-type", kind)], body.into_bytes())).expect("an answer")
}

/// The body that a route takes, and what its line is of.
fn body(path: &str) -> (Value, Value) {
    let session = "agent:eden:main";
    match path {
        "/tools/invoke" => (
            json!({ "tool": "task_backlog_add", "args": { "description": "x" }, "sessionKey": "agent:eden" }),
            json!({ "name": "task_backlog_add", "sessionKey": session }),
        ),
        "/api/tasks/update" => (
            json!({ "taskId": "task_none", "agentId": "eden", "progress": "x" }),
            json!({ "name": "task_update", "sessionKey": session, "args": { "task_id": "task_none" } }),
        ),
        "/api/work-sessions/{id}/category" => (json!({ "collabCategory": null }), json!({ "id": "ws_none" })),
        "/api/human-queries/{id}/answer" => (json!({ "answer": "yes" }), json!({ "id": "ws_none" })),
        "/v1/chat/completions" => (
            json!({ "model": "eden", "user": "min", "messages": [{ "role": "user", "content": "good morning" }] }),
            json!({ "sessionKey": "agent:eden:openai:min" }),
        ),
        "/admin/plugins/load" => {
            let load = json!({ "slot": "guard:none", "source": "none.wasm" });
            (load.clone(), load)
        }
        "/admin/plugins/upload" => (json!({}), json!({ "slot": "guard:none", "name": "none.wasm" })),
        path if path.starts_with("/admin/plugins/") => {
            (json!({ "slot": "guard:none" }), json!({ "slot": "guard:none" }))
        }
        _ => panic!("{path} is new: add to `body` what it takes, and what its line in the audit log is of"),
    }
}

#[test]
fn every_route_that_changes_something_leaves_its_line_first() {
    let host = TestHost::start();
    host.get("/api/stats");
    let routes = routes();
    let changing =
        routes.list().iter().filter(|route| matches!(route.access, Access::Needs(Scope::Write | Scope::Admin)));
    let mut seen = 0;
    for route in changing {
        for port in route.ports {
            let (body, of) = body(route.path);
            let before = lines(&host).len();
            let path = route.path.replace("{id}", "ws_none");
            let path = if path.ends_with("/upload") { format!("{path}?slot=guard:none&name=none.wasm") } else { path };
            let answer = sent(&host, *port, route.method.as_str(), &path, "application/json", body.to_string());
            let left = lines(&host).split_off(before);
            let is_there = left.iter().any(|line| line["of"] == of);
            assert!(is_there, "{} {path} on {port:?} of {of}: {}, left {left:?}", route.method, answer.status);
            seen += 1;
        }
    }
    assert!(seen > 12, "{seen}");
}

/// What a person sends with a form of the hub, and what its line is of.
fn form(path: &str, task: &str) -> (&'static str, Value) {
    // Lists are the team's: whoever is first in it stands for who changes them.
    let by_ruda = |tool: &str| json!({ "name": tool, "sessionKey": "agent:ruda:main" });
    let of_task = |tool: &str| json!({ "name": tool, "sessionKey": "agent:eden:main", "args": { "task_id": task } });
    match path {
        "/questions/{id}/answer" => ("answer=yes", json!({ "id": "none" })),
        "/tasks/{id}/move" => ("move=block&seen=in_progress&text=a+reason", of_task("task_block")),
        "/tasks/{id}/steps" => ("do=add&content=three", of_task("task_update")),
        "/tasks/{id}/note" => ("text=a+note", of_task("task_update")),
        "/conversations/{id}/category" => ("category=", json!({ "id": "none" })),
        "/chat/send" => ("session=agent%3Aruda%3Amain&message=hi&key=k1", json!({ "sessionKey": "agent:ruda:main" })),
        "/chat/abort" => ("session=agent%3Aruda%3Amain", json!({ "sessionKey": "agent:ruda:main" })),
        "/jobs/{id}" => ("do=cancel", json!({ "id": "none" })),
        "/milestones" => ("do=new&title=first", by_ruda("milestone_create")),
        "/milestones/{id}" => {
            let mut of = by_ruda("milestone_item_add");
            of["args"] = json!({ "milestone_id": "none" });
            ("do=item&title=first", of)
        }
        "/todos" => ("do=new&title=first", by_ruda("todo_add")),
        "/plugins/{slot}" => ("do=disable", json!({ "slot": "classifier" })),
        "/plugins/{slot}/rules" => ("rules=%7B%7D", json!({ "slot": "classifier", "source": "builtin:rules" })),
        "/plugins/{slot}/try" => {
            ("try=rules%3Atext&rules=%7B%7D&text=a", json!({ "slot": "classifier", "source": "builtin:rules" }))
        }
        // A component, though none that could serve.
        "/plugins/{slot}/upload" | "/plugins/{slot}/try/upload" => {
            ("none", json!({ "slot": "classifier", "name": "none.wasm" }))
        }
        "/channels/{channel}" => ("do=restart", json!({ "channel": "none" })),
        "/settings" => ("section=limits&text=%7BbodyBytes%3A70000%7D", json!({ "config": ["limits"] })),
        _ => panic!("{path} is new: add to `form` what people send there, and what its line in the audit log is of"),
    }
}

#[test]
fn every_form_of_the_hub_that_changes_something_leaves_its_line_first() {
    let host = TestHost::start();
    host.get("/api/stats");
    let task = host.begin("eden", &["one", "two"]);
    let routes = routes();
    let changes = |route: &&Route| matches!(route.access, Access::Page(Scope::Write | Scope::Admin));
    let (mut silent, mut seen) = (Vec::new(), 0);
    for route in routes.list().iter().filter(changes) {
        let (form, of) = form(route.path, &task);
        let id = if route.path.starts_with("/tasks/") { &*task } else { "none" };
        let path = route.path.replace("{id}", id).replace("{slot}", "classifier").replace("{channel}", "none");
        let path = if path.ends_with("/upload") { format!("{path}?name=none.wasm") } else { path };
        let before = lines(&host).len();
        let answer = sent(&host, Port::Hub, route.method.as_str(), &path, FORM, form.to_owned());
        let left = lines(&host).split_off(before);
        if !left.iter().any(|line| line["of"] == of) {
            silent.push(format!("{path} with {form} of {of}: {}, left {left:?}", answer.status));
        }
        seen += 1;
    }
    assert!(silent.is_empty(), "{silent:#?}");
    assert!(seen > 15, "{seen}");
}
