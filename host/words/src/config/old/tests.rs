//! Old configurations as people have them, and as nobody should.

use super::*;
use crate::config::parse;
use serde_json::json;

fn read_in(text: &str, there: &[&str]) -> Result<Old, Problem> {
    let is_dir = |path: &Path| there.iter().any(|name| Path::new(name) == path);
    let place = Place { roots: vec!["/srv/state".into()], home: Some("/home/mina".into()), is_dir: &is_dir };
    Old::read(text, &place)
}

fn read(text: &str) -> Old {
    read_in(text, &[]).unwrap_or_else(|problem| panic!("{problem}"))
}

/// What was ignored and what was wrong, as paths.
fn paths(old: &Old) -> (Vec<&str>, Vec<&str>) {
    let ignored = old.ignored.iter().map(|ignored| ignored.path.as_str());
    (ignored.collect(), old.problems.iter().map(|problem| problem.path.as_str()).collect())
}

fn written(old: &Old) -> Value {
    let text = old.to_text(None);
    json5_value(&text).unwrap_or_else(|problem| panic!("{problem} in {text}"))
}

#[test]
fn both_shapes_of_the_list_mean_the_same() {
    let list = "{ agents: { list: [{ id: 'Eden', name: '이든', identity: { emoji: '🌱', theme: 'x' } }, { id: 'seum', default: true, model: 'openai/gpt' }] } }";
    let entries = "{ agents: { ownership: 'explicit', entries: { Eden: { name: '이든', identity: { emoji: '🌱', theme: 'x' } }, seum: { default: true, model: { primary: 'openai/gpt' } } } } }";
    let (list, entries) = (read(list), read(entries));
    assert_eq!(list.agents, entries.agents);
    assert_eq!(written(&list), written(&entries));
    assert_eq!(list.agents.default.as_ref().map(AsRef::as_ref), Some("seum"));
    let (ignored, problems) = paths(&list);
    assert!(ignored.contains(&"agents.list[0].identity.theme") && problems.is_empty(), "{ignored:?} {problems:?}");
    assert!(paths(&entries).0.contains(&"agents.entries.Eden.identity.theme"));
}

#[test]
fn the_default_agent_is_the_marked_one_else_main_else_the_first() {
    let check = |list: &str, expected: &str| {
        let old = read(&format!("{{ agents: {{ list: {list} }} }}"));
        assert_eq!(old.agents.default.as_ref().map(AsRef::as_ref), Some(expected), "{list}");
    };
    check("[{ id: 'a' }, { id: 'b' }]", "a");
    check("[{ id: 'a' }, { id: 'main' }]", "main");
    check("[{ id: 'main' }, { id: 'b', default: true }, { id: 'c', default: true }]", "b");
    check("[]", "main");
}

#[test]
fn a_listener_is_where_it_was() {
    let check = |gateway: &str, expected: &str| {
        let old = read(&format!("{{ gateway: {gateway} }}"));
        assert_eq!(written(&old)["gateway"]["listen"], expected, "{gateway}");
    };
    check("{}", "127.0.0.1:18789");
    check("{ port: 19001, bind: 'lan' }", "0.0.0.0:19001");
    check("{ bind: 'custom', customBindHost: '192.0.2.7' }", "192.0.2.7:18789");
    check("{ bind: 'tailnet' }", "127.0.0.1:18789");
    check("{ bind: '0.0.0.0' }", "0.0.0.0:18789");
    let taken = read("{ gateway: { port: 3847 } }");
    assert_eq!(written(&taken)["monitor"]["listen"], "off");
    assert_eq!(paths(&read("{ gateway: { bind: 'tailnet', auth: { token: 'x' } } }")).0[0], "gateway.bind");
}

#[test]
fn a_secret_is_one_of_ours_or_a_new_one_is_made() {
    let secrets = "secrets: { providers: { one: { source: 'file', path: '~/token', mode: 'singleValue' }, many: { source: 'file', path: '/x' } } }";
    let check = |auth: &str, expected: Value| {
        let old = read(&format!("{{ {secrets}, gateway: {{ auth: {auth} }} }}"));
        assert_eq!(written(&old)["gateway"]["auth"]["token"], expected, "{auth}");
        let said = paths(&old).0.iter().any(|path| path.starts_with("gateway.auth"));
        assert_eq!(said, expected == "", "{auth}: {:?}", old.ignored);
    };
    check("{ token: 'plain' }", json!("plain"));
    check("{ token: '${OPENCLAW_GATEWAY_TOKEN}' }", json!({ "env": "OPENCLAW_GATEWAY_TOKEN" }));
    check("{ token: '$TOKEN' }", json!({ "env": "TOKEN" }));
    check("{ mode: 'password', password: 'secret' }", json!("secret"));
    check("{ password: 'secret' }", json!("secret"));
    check("{ token: { source: 'env', provider: 'default', id: 'T' } }", json!({ "env": "T" }));
    check("{ token: { source: 'file', provider: 'one', id: 'value' } }", json!({ "file": "/home/mina/token" }));
    check("{ token: { source: 'file', provider: 'many', id: '/a/b' } }", json!(""));
    check("{ token: { source: 'file', provider: 'gone', id: 'value' } }", json!(""));
    check("{ token: { source: 'exec', provider: 'vault', id: 'x' } }", json!(""));
    check("{ token: 'half-${X}' }", json!(""));
    check("{ token: '${not a name}' }", json!(""));
    check("{ token: 7 }", json!(""));
    check("{ mode: 'none' }", json!(""));
    check("{}", json!(""));
}

#[test]
fn a_workspace_is_below_the_directory_or_the_usual_one() {
    let check = |workspace: &str, there: &[&str], expected: Option<&str>, said: Option<&str>| {
        let text = format!(
            "{{ agents: {{ list: [{{ id: 'other', default: true }}, {{ id: 'a', workspace: '{workspace}' }}] }} }}"
        );
        let old = read_in(&text, there).expect("JSON5");
        assert_eq!(old.agents.list[1].workspace.as_deref(), expected.map(Path::new), "{workspace}");
        let found = old.ignored.iter().find(|ignored| ignored.path == "agents.list[1].workspace");
        assert_eq!(found.is_some(), said.is_some(), "{workspace}: {found:?}");
        assert!(said.is_none_or(|said| found.is_some_and(|found| found.reason.contains(said))), "{found:?}");
    };
    check("/srv/state/agents-a", &[], Some("agents-a"), None);
    check("/srv/state/workspace-a", &[], None, None);
    check("~/.openclaw/workspace-a", &["workspace-a"], None, None);
    check("~/.openclaw/workspace-a", &[], None, Some("begins empty"));
    check("/home/mina/project", &["workspace-a"], None, Some("workspace-a is used"));
    check("/srv/state/../etc", &[], None, Some("outside"));
    check("/srv/state/logs", &[], None, Some("of another use"));
    check("/srv/state/workspace-other", &[], None, Some("of another use"));
    check("${HOME}/x", &[], None, Some("variable"));
    let main = read_in("{ agents: { list: [{ id: 'main' }, { id: 'b' }] } }", &["workspace"]).expect("JSON5");
    assert_eq!(main.agents.list[0].workspace.as_deref(), Some(Path::new("workspace")));
    assert_eq!(main.agents.list[1].workspace, None);
}

#[test]
fn providers_and_models_are_taken_where_they_mean_the_same() {
    let old = read(
        "{ models: { mode: 'merge', providers: {
            proxy: { baseUrl: 'https://llm.example/v1/', apiKey: '${PROXY_KEY}', api: 'openai-completions', headers: { a: 'b' },
                models: [{ id: 'm', name: 'M', contextWindow: 64000, maxTokens: 0, cost: {} }] },
            local: { baseUrl: 'http://127.0.0.1:11434/v1', apiKey: 'LOCAL_API_KEY', models: [] },
            open: { baseUrl: 'http://llm.example/v1', apiKey: 'k' },
            gemini: { baseUrl: 'https://g.example', api: 'google-generative-ai', models: [] },
            'a/b': { baseUrl: 'https://x.example' },
            nowhere: {} } },
          agents: { defaults: { model: { primary: 'opus', fallbacks: ['proxy/m', 'gone/x', 'bare'] }, models: { 'anthropic/claude-opus': { alias: 'Opus' } } },
            list: [{ id: 'a', model: 'local/qwen3:8b' }] } }",
    );
    let config = parse(&old.to_text(Some("0123456789abcdef"))).unwrap_or_else(|problems| panic!("{problems}"));
    let names: Vec<&String> = config.providers.keys().collect();
    assert_eq!(names, ["anthropic", "local", "open", "proxy"]);
    assert_eq!(config.agents.model.as_ref().map(|model| model.0.as_str()), Some("anthropic/claude-opus"));
    assert_eq!(config.agents.fallbacks.len(), 1);
    let value = written(&old);
    assert_eq!(value["providers"]["proxy"]["key"], json!({ "env": "PROXY_KEY" }));
    assert_eq!(value["providers"]["proxy"]["models"][0]["contextWindow"], 64000);
    assert_eq!(value["providers"]["local"]["key"], json!({ "env": "LOCAL_API_KEY" }));
    assert_eq!(value["providers"]["open"].get("key"), None);
    let (ignored, problems) = paths(&old);
    for path in [
        "models.providers.proxy.headers",
        "models.providers.proxy.models[0].maxTokens",
        "models.providers.open.apiKey",
        "models.providers.gemini",
        "models.providers[\"a/b\"]",
        "models.providers.nowhere",
        "models.providers.anthropic",
        "agents.defaults.model.fallbacks[1]",
        "agents.defaults.model.fallbacks[2]",
    ] {
        assert!(ignored.contains(&path), "{path} is not in {ignored:#?}");
    }
    assert!(problems.is_empty(), "{problems:?}");
}

#[test]
fn what_is_said_about_messages_between_agents_is_taken_over() {
    let old = read(
        "{ session: { agentToAgent: { maxPingPongTurns: 3 }, scope: 'x' }, tools: { agentToAgent: { enabled: false, allow: ['Eden', 'se*', 7, '../x'] } } }",
    );
    assert_eq!(old.exchange.max_ping_pong_turns, 3);
    assert_eq!(
        (old.agent_to_agent.enabled, &old.agent_to_agent.allow),
        (false, &vec![Allow("eden".into()), Allow("se*".into())])
    );
    let (ignored, _) = paths(&old);
    assert_eq!(
        ignored[ignored.len() - 3..],
        ["session.scope", "tools.agentToAgent.allow[2]", "tools.agentToAgent.allow[3]"]
    );
    let config = crate::config::parse(&old.to_text(Some("a-token-of-enough-length"))).expect("a good configuration");
    assert_eq!(config.session.agent_to_agent.max_ping_pong_turns, 3);
    let wrong = read(
        "{ session: { agentToAgent: { maxPingPongTurns: 'x' } }, tools: { agentToAgent: { enabled: 1, allow: {} } } }",
    );
    assert_eq!(
        paths(&wrong).1,
        ["session.agentToAgent.maxPingPongTurns", "tools.agentToAgent.enabled", "tools.agentToAgent.allow"]
    );
}

#[test]
fn what_must_be_mended_is_told_with_its_place() {
    let check = |text: &str, expected: &[&str]| {
        let old = read(text);
        assert_eq!(paths(&old).1, expected, "{text}: {:?}", old.problems);
    };
    check("[]", &[""]);
    check("{ agents: [] }", &["agents"]);
    check("{ agents: { list: {} } }", &["agents.list"]);
    check(
        "{ agents: { list: ['a', { id: 7 }, {}, { id: '../x' }, { id: 'a', default: 1 }] } }",
        &["agents.list[0]", "agents.list[1].id", "agents.list[2].id", "agents.list[3].id", "agents.list[4].default"],
    );
    check(
        "{ agents: { entries: { 'a b': {}, '..': {} } } }",
        &["agents.entries[\"a b\"].id", "agents.entries[\"..\"].id"],
    );
    check("{ agents: { $include: './agents.json5' } }", &["agents.$include"]);
    check("{ $include: './x.json5' }", &["$include"]);
    check("{ gateway: { port: 'x' } }", &["gateway.port"]);
    check("{ gateway: { port: 65536, bind: 7 } }", &["gateway.port", "gateway.bind"]);
    check("{ gateway: 'x', models: { providers: [] } }", &["gateway", "models.providers"]);
    let many: String = (0..10_000).map(|n| format!("{{ id: 'a{n}' }},")).collect();
    check(&format!("{{ agents: {{ list: [{many}] }} }}"), &["agents.list"]);
    let said = read_in(&"[".repeat(1_000_000), &[]).expect_err("nesting has an end").to_string();
    assert!(said.contains("nested deeper"), "{said}");
    assert!(read_in("{ agents: ", &[]).expect_err("half a file").to_string().contains("not JSON5 at line 1"));
}

#[test]
fn hostile_keys_do_not_leave_the_comment_they_stand_in_and_lists_have_an_end() {
    let odd: String = (0..2_000).map(|n| format!("'k{n}\\u2028{{ x: 1 }}\\n\\u001b[31m': 1,")).collect();
    let old = read(&format!("{{ gateway: {{ auth: {{ token: '0123456789abcdef' }} }}, {odd} }}"));
    assert!(old.ignored.len() <= 501, "{}", old.ignored.len());
    let text = old.to_text(None);
    assert!(!text.contains(['\u{2028}', '\u{1b}']));
    parse(&text).unwrap_or_else(|problems| panic!("{problems}"));
}

#[test]
fn no_text_makes_it_panic_and_what_it_takes_is_a_good_configuration() {
    const CASES: u32 = 5_000;
    let good = include_str!("../../../../../tests/fixtures/old-system/openclaw.json");
    let pieces =
        ["{", "}", "[", "]", ",", ":", "\"", "null", "-1", "1e999", "7", "true", "\"${X}\"", "\"\"", "[]", "{}"];
    let mut seed = 11_u64;
    let mut below = move |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let mut taken = 0;
    for case in 0..CASES {
        let mut text: Vec<char> = good.chars().collect();
        for _ in 0..=case % 3 {
            let (from, to) = (below(text.len()), below(12));
            let piece = pieces[below(pieces.len())];
            text.splice(from..(from + to).min(text.len()), piece.chars());
        }
        let text: String = text.into_iter().collect();
        let Ok(old) = read_in(&text, &[]) else { continue };
        if old.problems.is_empty() {
            taken += 1;
            let made = old.to_text(Some("0123456789abcdef"));
            parse(&made).unwrap_or_else(|problems| panic!("{problems}\nfrom {text}"));
        }
    }
    assert!((1..CASES).contains(&taken), "{taken} of {CASES} were taken");
}
