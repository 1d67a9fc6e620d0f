//! The audit log: whatever changes something leaves its line there first, by whichever door it came.

use chela::client::Client;
use chela::edge::{Access, methods, routes};
use chela::port::Port;
use chela::scope::Scope;
use serde_json::{Value, json};
use support::TestHost;

/// The methods in the log, in the order in which they were asked for.
fn asked(host: &TestHost) -> Vec<String> {
    let text = std::fs::read_to_string(host.dir.state.audit_log()).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter_map(|line| line["method"].as_str().map(str::to_owned)).collect()
}

/// Parameters that a method takes; whether what they name is there does not matter here.
fn params(method: &str) -> Value {
    let (message, key) = ("good morning", format!("key-of-{method}"));
    match method {
        "agent" => json!({ "message": message, "idempotencyKey": key, "agentId": "eden" }),
        "chat.send" => json!({ "sessionKey": "agent:eden:main", "message": message, "idempotencyKey": key }),
        "sessions.send" => json!({ "key": "agent:eden:main", "message": message, "idempotencyKey": key }),
        "send" => json!({ "to": "nobody", "channel": "none", "message": message, "idempotencyKey": key }),
        "chat.abort" => json!({ "sessionKey": "agent:eden:main" }),
        "sessions.abort" => json!({ "key": "agent:eden:main" }),
        "sessions.create" => json!({ "agentId": "eden" }),
        "sessions.compact" | "sessions.reset" | "sessions.delete" | "sessions.patch" => {
            json!({ "key": "agent:seum:main" })
        }
        "config.patch" => json!({ "raw": "{}" }),
        "channel.restart" => json!({ "channel": "none" }),
        "human.answer" => json!({ "id": "none", "answer": "yes" }),
        "jobs.cancel" | "jobs.retry" | "backup.release" => json!({ "id": "none" }),
        "plugin.load" => json!({ "slot": "guard:none", "source": "none.wasm" }),
        "tasks.cancel" => json!({ "taskId": "task_none" }),
        "tools.invoke" => {
            json!({ "name": "task_backlog_add", "args": { "description": "x" }, "sessionKey": "agent:eden:main" })
        }
        method if method.starts_with("plugin.") => json!({ "slot": "guard:none" }),
        _ => json!({}),
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
        let before = asked(&host).len();
        let _ = host.call(name, params(name));
        let lines = asked(&host);
        assert!(lines[before..].iter().any(|line| line == name), "{name} left {:?}", &lines[before..]);
    }
    let held = host.call("backup.hold", json!({})).expect("held");
    host.call("backup.release", json!({ "id": held["id"] })).expect("let go");
    assert_eq!(asked(&host).last_chunk(), Some(&["backup.hold".to_owned(), "backup.release".to_owned()]));
    let before = asked(&host);
    for (name, _) in methods.list().filter(|(_, scope)| *scope == Scope::Read) {
        let _ = host.call(name, json!({}));
    }
    assert_eq!(asked(&host), before, "who only asks leaves none");
}

/// A body that a route takes.
fn body(path: &str) -> Value {
    match path {
        "/tools/invoke" => {
            json!({ "tool": "task_backlog_add", "args": { "description": "x" }, "sessionKey": "agent:eden" })
        }
        "/api/tasks/update" => json!({ "taskId": "task_none", "agentId": "eden", "progress": "x" }),
        "/api/work-sessions/{id}/category" => json!({ "collabCategory": null }),
        "/api/human-queries/{id}/answer" => json!({ "answer": "yes" }),
        "/v1/chat/completions" => {
            json!({ "model": "eden", "messages": [{ "role": "user", "content": "good morning" }] })
        }
        "/admin/plugins/load" => json!({ "slot": "guard:none", "source": "none.wasm" }),
        _ => json!({ "slot": "guard:none" }),
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
            let before = asked(&host).len();
            let path = route.path.replace("{id}", "ws_none");
            let path = if path.ends_with("/upload") { format!("{path}?slot=guard:none&name=none.wasm") } else { path };
            let client = Client::new(host.address(*port), Some(host.token.clone()));
            let headers = [("content-type", "application/json")];
            let sent = client.send(route.method.clone(), &path, &headers, body(route.path).to_string().into_bytes());
            let answer = host.block_on(sent).expect("an answer");
            assert!(asked(&host).len() > before, "{} {} on {port:?}: {}", route.method, path, answer.status);
            seen += 1;
        }
    }
    assert!(seen > 12, "{seen}");
}

#[test]
fn every_form_of_the_hub_that_changes_something_leaves_its_line_first() {
    let host = TestHost::start();
    host.get("/api/stats");
    let task = host.begin("eden", &["one", "two"]);
    let forms = [
        ("/questions/none/answer", "answer=yes".to_owned()),
        (&*format!("/tasks/{task}/move"), "move=block&seen=in_progress&text=a+reason".into()),
        (&*format!("/tasks/{task}/steps"), "do=add&content=three".into()),
        (&*format!("/tasks/{task}/note"), "text=a+note".into()),
        ("/conversations/none/category", "category=".into()),
        ("/chat/send", "session=agent%3Aruda%3Amain&message=hi&key=k1".into()),
        ("/chat/abort", "session=agent%3Aruda%3Amain".into()),
        ("/jobs/none", "do=cancel".into()),
        ("/milestones", "do=new&title=first".into()),
        ("/todos", "do=new&title=first".into()),
        ("/plugins/classifier", "do=disable".into()),
        ("/plugins/classifier/rules", "rules=%7B%7D".into()),
        ("/plugins/classifier/try", "try=rules%3Atext&rules=%7B%7D&text=a".into()),
        ("/channels/none", "do=restart".into()),
        ("/settings", "section=limits&text=%7B%7D".into()),
    ];
    let mut silent = Vec::new();
    for (path, form) in forms {
        let before = asked(&host).len();
        let client = Client::new(host.address(Port::Hub), Some(host.token.clone()));
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let sent = client.send("POST".parse().expect("a verb"), path, &headers, form.clone().into_bytes());
        let answer = host.block_on(sent).expect("an answer");
        if asked(&host).len() == before {
            silent.push(format!(
                "{path} with {form}: {} {}",
                answer.status,
                String::from_utf8_lossy(&answer.body).len()
            ));
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}
