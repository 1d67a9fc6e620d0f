//! Every route, verb and method, by everybody who may ask: who has the scope is answered, and nobody else.

use chela::client::Client;
use chela::edge::{Access, methods, routes};
use chela::port::Port;
use chela::scope::Scope;
use serde_json::json;
use support::TestHost;

const READ: &str = "a-token-that-may-read";
const WRITE: &str = "a-token-that-may-write";

/// A gateway with a token of each width beside the owner's.
fn host_with_tokens() -> TestHost {
    TestHost::start_with(|config| {
        config["gateway"]["auth"]["tokens"] = json!({
            "reader": { "token": READ, "scope": "operator.read" },
            "writer": { "token": WRITE, "scope": "operator.write" },
        });
        // All of them come from one address, on a clock that stands still.
        config["limits"]["requestsBurst"] = json!(1_000_000);
    })
}

/// Every way to knock, with the scope it has: none at all, none that counts, and the three.
fn knocks(host: &TestHost) -> Vec<(Option<String>, Option<Scope>)> {
    vec![
        (None, None),
        (Some("a-token-of-somebody-else".into()), None),
        (Some(READ.into()), Some(Scope::Read)),
        (Some(WRITE.into()), Some(Scope::Write)),
        (Some(host.token.clone()), Some(Scope::Admin)),
    ]
}

#[test]
fn every_route_asks_for_its_scope_on_every_listener_it_is_on() {
    let host = host_with_tokens();
    // Those of the hub alone are for people: see `hub_door`.
    for route in routes().list().iter().filter(|route| route.ports != [Port::Hub]) {
        for port in Port::ALL {
            for (token, held) in knocks(&host) {
                let client = Client::new(host.address(port), token.clone());
                let answer = host.block_on(client.send(route.method.clone(), route.path, &[], Vec::new()));
                let status = answer.expect("an answer").status;
                let expected: &[u16] = match (route.ports.contains(&port), route.access, held) {
                    // There it reads like the id of a task, which takes GET.
                    (false, _, _) if route.path == "/api/tasks/update" => &[405],
                    // And there it is a page.
                    (false, _, _) if route.path == "/" && port == Port::Hub => &[200, 303, 401],
                    (false, _, _) => &[404],
                    // A socket is not asked for.
                    (true, Access::Open, _) if route.path == "/" => &[400],
                    // No webhook is granted.
                    (true, Access::Open, _) if route.path.starts_with("/hooks/") => &[404],
                    (true, Access::Open, _) => &[200],
                    (true, _, None) => &[401],
                    (true, Access::Needs(needed), Some(held)) if !held.holds(needed) => &[403],
                    // Nor are there the parameters that these ask for.
                    (true, Access::Needs(_), Some(_)) if route.path.starts_with("/admin/plugins/") => &[400],
                    (true, Access::Watching, Some(held)) if !held.holds(Scope::Read) => &[403],
                    // A path's own names stand for things that are not there; a socket is not asked for; the log may still be read.
                    (true, Access::Watching | Access::Needs(_), Some(_))
                        if route.path.starts_with("/api/") || route.path == "/ws" =>
                    {
                        &[200, 400, 404, 503]
                    }
                    // An empty body names no tool, and is no conversation.
                    (true, Access::Needs(_), Some(_))
                        if ["/tools/invoke", "/v1/chat/completions"].contains(&route.path) =>
                    {
                        &[400]
                    }
                    (true, Access::Watching | Access::Needs(_), Some(_)) => &[200],
                    // An empty body is no frame: the door is passed, the method table is not.
                    (true, Access::PerMethod, Some(_)) => &[400],
                    (true, Access::Page(_), Some(_)) => unreachable!("only the hub has pages"),
                };
                assert!(
                    expected.contains(&status),
                    "{} {} on {port:?} by {held:?}: {status}",
                    route.method,
                    route.path
                );
            }
        }
    }
}

#[test]
fn a_verb_that_a_path_is_not_for_reaches_nobody_whoever_asks() {
    let host = host_with_tokens();
    let routes = routes();
    let audited = || std::fs::read_to_string(host.dir.state.audit_log()).unwrap_or_default();
    let before = audited();
    let paths: std::collections::BTreeSet<&str> = routes.list().iter().map(|route| route.path).collect();
    for (path, port) in paths.iter().flat_map(|path| Port::ALL.map(|port| (path, port))) {
        for verb in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "OPTIONS", "BREW"] {
            // Two patterns may lead the same way: what one is not for, the other may be.
            let meant = routes.list().iter().any(|route| {
                let is_verb = route.method == verb || (verb == "HEAD" && route.method == "GET");
                is_verb && route.ports.contains(&port) && (route.path == *path || leads(route.path, path))
            });
            if meant || verb == "CONNECT" {
                continue;
            }
            for (token, held) in knocks(&host) {
                let client = Client::new(host.address(port), token);
                let sent = client.send(verb.parse().expect("a verb"), path, &[], b"{}".to_vec());
                let status = host.block_on(sent).expect("an answer").status;
                assert!([404, 405].contains(&status), "{verb} {path} on {port:?} by {held:?}: {status}");
            }
        }
    }
    assert_eq!(audited(), before, "nothing was changed");
}

/// Whether a pattern takes the path of another, read as it stands.
fn leads(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len() && pattern.iter().zip(&path).all(|(own, other)| own.starts_with('{') || own == other)
}

#[test]
fn the_table_of_routes_is_as_it_was_agreed() {
    let row = |route: &chela::edge::Route| {
        let access = match route.access {
            Access::Open => "open",
            Access::PerMethod => "per method",
            Access::Needs(scope) => scope.as_str(),
            Access::Watching => "watching",
            Access::Page(_) => "page",
        };
        let ports: Vec<&str> = route.ports.iter().map(|port| port.as_str()).collect();
        format!("{} {} | {access} | {}", route.method, route.path, ports.join(" "))
    };
    let routes = routes();
    let table: Vec<String> = routes.list().iter().filter(|route| route.ports != [Port::Hub]).map(row).collect();
    assert_eq!(
        table,
        [
            "GET /healthz | open | gateway monitor hub",
            "GET /health | open | gateway monitor hub",
            "GET /startupz | open | gateway monitor hub",
            "GET /startup | open | gateway monitor hub",
            "GET /readyz | open | gateway monitor hub",
            "GET /ready | open | gateway monitor hub",
            "GET /admin/plugins | operator.read | gateway",
            "GET /admin/plugins/logs | operator.read | gateway",
            "POST /admin/plugins/upload | operator.admin | gateway",
            "GET /api/plugins | watching | gateway monitor hub",
            "POST /admin/plugins/load | operator.admin | gateway",
            "POST /admin/plugins/unload | operator.admin | gateway",
            "POST /admin/plugins/disable | operator.admin | gateway",
            "POST /admin/plugins/enable | operator.admin | gateway",
            "POST /admin/plugins/accept | operator.admin | gateway",
            "POST /admin/plugins/rollback | operator.admin | gateway",
            "POST /admin/plugins/release | operator.admin | gateway",
            "GET /api/health | watching | gateway monitor hub",
            "GET /api/agents | watching | gateway monitor hub",
            "GET /api/events | watching | gateway monitor hub",
            "GET /api/work-sessions | watching | gateway monitor hub",
            "GET /api/work-sessions/{id} | watching | gateway monitor hub",
            "PATCH /api/work-sessions/{id}/category | operator.write | gateway monitor hub",
            "GET /api/jobs | watching | gateway monitor hub",
            "GET /api/jobs/{id} | watching | gateway monitor hub",
            "GET /api/stats | watching | gateway monitor hub",
            "GET /api/openapi.json | watching | gateway monitor hub",
            "GET /ws | watching | gateway monitor hub",
            "GET /api/agents/{id}/tasks | watching | gateway monitor hub",
            "GET /api/agents/{id}/tasks/{taskId} | watching | gateway monitor hub",
            "GET /api/agents/{id}/current | watching | gateway monitor hub",
            "GET /api/agents/{id}/blocked | watching | gateway monitor hub",
            "GET /api/agents/{id}/history | watching | gateway monitor hub",
            "GET /api/agents/{id}/plans | watching | gateway monitor hub",
            "GET /api/team-state | watching | gateway monitor hub",
            "GET /api/tasks | watching | gateway monitor hub",
            "GET /api/tasks/{id} | watching | gateway monitor hub",
            "GET /api/milestones | watching | gateway monitor hub",
            "GET /api/todos | watching | gateway monitor hub",
            "GET /api/human-queries | watching | gateway monitor hub",
            "POST /api/human-queries/{id}/answer | operator.write | gateway hub",
            "GET /api/tasks/{id}/conversation | watching | gateway monitor hub",
            "GET /api/workspace/{id}/files | watching | gateway monitor hub",
            "GET /api/workspace/{id}/files/{*path} | watching | gateway monitor hub",
            "POST /tools/invoke | operator.write | gateway",
            "POST /api/tasks/update | operator.write | gateway hub",
            "POST /v1/chat/completions | operator.write | gateway",
            "GET /v1/models | operator.read | gateway",
            "GET /api/channels | watching | gateway monitor hub",
            "GET /hooks/{channel}/{*path} | open | gateway",
            "POST /hooks/{channel}/{*path} | open | gateway",
            "GET / | open | gateway",
            "POST /rpc | per method | gateway",
            "GET /metrics | operator.read | gateway monitor",
        ]
    );
}

#[test]
fn every_method_asks_for_its_scope() {
    let host = host_with_tokens();
    // The index is there once this answers.
    host.get("/api/stats");
    let table: Vec<(&str, Scope)> = methods().list().collect();
    assert_eq!(
        table,
        [
            ("agent", Scope::Write),
            ("agent.identity.get", Scope::Read),
            ("agent.wait", Scope::Write),
            ("agents.list", Scope::Read),
            ("backup.hold", Scope::Admin),
            ("backup.release", Scope::Admin),
            ("channel.list", Scope::Read),
            ("channel.restart", Scope::Admin),
            ("channels.status", Scope::Read),
            ("chat.abort", Scope::Write),
            ("chat.history", Scope::Read),
            ("chat.send", Scope::Write),
            ("commands.list", Scope::Read),
            ("config.get", Scope::Read),
            ("config.patch", Scope::Admin),
            ("config.reload", Scope::Admin),
            ("cron.list", Scope::Read),
            ("device.pair.list", Scope::Admin),
            ("events.list", Scope::Read),
            ("events.subscribe", Scope::Read),
            ("health", Scope::Read),
            ("human.answer", Scope::Write),
            ("human.get", Scope::Read),
            ("human.pending", Scope::Read),
            ("jobs.cancel", Scope::Write),
            ("jobs.get", Scope::Read),
            ("jobs.list", Scope::Read),
            ("jobs.retry", Scope::Write),
            ("last-heartbeat", Scope::Read),
            ("logs.tail", Scope::Read),
            ("models.list", Scope::Read),
            ("plugin.accept", Scope::Admin),
            ("plugin.approval.list", Scope::Read),
            ("plugin.disable", Scope::Admin),
            ("plugin.enable", Scope::Admin),
            ("plugin.load", Scope::Admin),
            ("plugin.logs", Scope::Read),
            ("plugin.release", Scope::Admin),
            ("plugin.rollback", Scope::Admin),
            ("plugin.slots", Scope::Read),
            ("plugin.unload", Scope::Admin),
            ("question.list", Scope::Read),
            ("send", Scope::Write),
            ("sessions.abort", Scope::Write),
            ("sessions.compact", Scope::Admin),
            ("sessions.create", Scope::Write),
            ("sessions.delete", Scope::Admin),
            ("sessions.describe", Scope::Read),
            ("sessions.list", Scope::Read),
            ("sessions.messages.subscribe", Scope::Read),
            ("sessions.messages.unsubscribe", Scope::Read),
            ("sessions.patch", Scope::Write),
            ("sessions.preview", Scope::Read),
            ("sessions.reset", Scope::Admin),
            ("sessions.resolve", Scope::Read),
            ("sessions.send", Scope::Write),
            ("sessions.subscribe", Scope::Read),
            ("skills.status", Scope::Read),
            ("status", Scope::Read),
            ("system-presence", Scope::Read),
            ("task.conversation", Scope::Read),
            ("taskSuggestions.list", Scope::Read),
            ("tasks.cancel", Scope::Write),
            ("tasks.get", Scope::Read),
            ("tasks.list", Scope::Read),
            ("tools.catalog", Scope::Read),
            ("tools.effective", Scope::Read),
            ("tools.invoke", Scope::Write),
            ("why", Scope::Read),
            ("work-sessions.get", Scope::Read),
            ("work-sessions.list", Scope::Read),
        ]
    );
    for (method, needed) in table {
        for (token, held) in knocks(&host).into_iter().filter(|(_, held)| held.is_some()) {
            let client = Client::new(host.address(Port::Gateway), token);
            let outcome = host.block_on(client.call(method, json!({})));
            let holds = held.is_some_and(|held| held.holds(needed));
            match outcome {
                Ok(_) => assert!(holds, "{method} answered {held:?}"),
                // Past the scope, these ask for parameters.
                Err(chela::client::Error::Refused(error)) if takes_parameters(method) && holds => {
                    assert!(error.message.starts_with(&format!("invalid {method} params")), "{error:?}");
                }
                Err(chela::client::Error::Refused(error)) => {
                    assert!(!holds, "{method} refused {held:?}: {error:?}");
                    assert_eq!(error.message, format!("missing scope: {needed}"));
                    let details = error.details.expect("details");
                    assert_eq!((&details["code"], &details["missingScope"]), (&json!("MISSING_SCOPE"), &json!(needed)));
                }
                Err(error) => panic!("{method} by {held:?}: {error}"),
            }
        }
    }
}

fn takes_parameters(method: &str) -> bool {
    let asking = [
        "agent",
        "agent.wait",
        "backup.release",
        "channel.restart",
        "chat.abort",
        "chat.history",
        "chat.send",
        "config.patch",
        "events.subscribe",
        "jobs.cancel",
        "jobs.get",
        "jobs.retry",
        "send",
        "sessions.abort",
        "sessions.delete",
        "sessions.compact",
        "sessions.describe",
        "sessions.messages.subscribe",
        "sessions.messages.unsubscribe",
        "sessions.patch",
        "sessions.preview",
        "sessions.reset",
        "sessions.resolve",
        "sessions.send",
        "tasks.cancel",
        "tasks.get",
        "tools.effective",
        "tools.invoke",
        "why",
        "work-sessions.get",
    ];
    let groups = ["plugin.", "human.", "task."].iter().any(|group| method.starts_with(group));
    (groups && !["plugin.approval.list", "human.pending"].contains(&method)) || asking.contains(&method)
}
