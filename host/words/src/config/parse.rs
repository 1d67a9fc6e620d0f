//! From text to a checked `Config`, or to the list of all that must change.
//! Keeps true: depth is bounded before memory is, a key stands once, and every problem is reported, not just the first.

use std::fmt;

use serde_json::Value;

use super::{Config, Listen, agents, categories, channels, models, plugins, tls, traces};
use crate::port::Port;
use crate::schema::Problem;

/// Why a configuration was refused: everything to change, not just the first thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(|problem| format!("  {problem}")).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// Reads JSON5 text as a configuration.
pub fn parse(text: &str) -> Result<Config, Problems> {
    let value = json5_value(text)?;
    let problems = Config::schema().problems(&value);
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let config: Config = serde_path_to_error::deserialize(value)
        .map_err(|error| Problem::new(error.path().to_string(), error.inner().to_string()))?;
    let problems = listeners_apart(&config).into_iter().chain(agents::problems(&config));
    let problems: Vec<Problem> = problems
        .chain(models::problems(&config))
        .chain(categories::problems(&config))
        .chain(plugins::problems(&config))
        .chain(channels::problems(&config))
        .chain(tls::problems(&config))
        .chain(traces::problems(&config))
        .collect();
    if problems.is_empty() { Ok(config) } else { Err(Problems(problems)) }
}

/// Two listeners cannot share an address; port 0 is a new one for each.
fn listeners_apart(config: &Config) -> Option<Problem> {
    let listen = config.listen();
    let fixed = |listen: &Listen| matches!(listen, Listen::At(address) if address.port() != 0);
    let twin = |(port, own): (Port, &Listen)| {
        let before = Port::ALL.into_iter().take_while(|other| *other != port);
        let same = before.into_iter().find(|other| fixed(own) && listen.get(*other) == own)?;
        let message = format!("this is the address of `{}.listen` too; give each its own", same.as_str());
        Some(Problem::new(format!("{}.listen", port.as_str()), message))
    };
    listen.iter().find_map(twin)
}

/// Reads JSON5 of bounded depth; an error says the line and the column.
pub fn json5_value(text: &str) -> Result<Value, Problem> {
    chela_json5::read(text).map_err(|unread| Problem::new("", format!("not JSON5{}: {}", unread.place, unread.words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let said: Vec<String> = match parse(text) {
            Ok(_) => Vec::new(),
            Err(problems) => problems.0.iter().map(Problem::to_string).collect(),
        };
        assert_eq!(said, expected, "for {text:?}");
    }

    #[test]
    fn json5_is_taken_with_comments_and_trailing_commas() {
        check("{ // a team of none\n gateway: { listen: 'off', }, }", &[]);
        check("{}", &[]);
    }

    #[test]
    fn a_typo_is_refused_with_its_place_and_a_suggestion() {
        check(
            "{ gateway: { lisen: '1' }, agnets: {} }",
            &[
                "gateway.lisen: unknown key `lisen`; did you mean `listen`?",
                "agnets: unknown key `agnets`; did you mean `agents`?",
            ],
        );
    }

    #[test]
    fn a_wrong_type_or_value_is_refused_with_its_place() {
        check("{ limits: { bodyBytes: 'big' } }", &["limits.bodyBytes: must be of type integer, not string"]);
        check("{ limits: { connections: 0 } }", &["limits.connections: value is less than the minimum of 1"]);
        check(
            "{ gateway: { listen: 'nowhere' } }",
            &[
                "gateway.listen: \"nowhere\" is no address to listen on; write HOST:PORT such as 127.0.0.1:18789, a port alone, or `off`",
            ],
        );
        check("{ log: { level: 'loud' } }", &["log.level: must be one of `error`, `warn`, `info`, `debug`, `trace`"]);
        check("{ tls: { certificate: 'a.pem' } }", &["tls.key: a certificate needs its private key; say where it is"]);
        check("{ tls: { listeners: ['door'] } }", &["tls.listeners[0]: must be one of `gateway`, `monitor`, `hub`"]);
        check("[]", &["must be of type object, not array"]);
    }

    #[test]
    fn text_that_is_not_json5_is_refused_with_line_and_column() {
        check("{\n  gateway: {", &["not JSON5 at line 2 column 12: the text ends within the object"]);
        check("", &["not JSON5: the text ends within the value"]);
        check("{ hub: {}, hub: {} }", &["not JSON5 at line 1 column 1: the key `hub` stands twice"]);
    }

    #[test]
    fn endless_nesting_is_refused_and_not_followed() {
        let deep = "[".repeat(1_000_000);
        let said = parse(&deep).expect_err("nesting has an end").to_string();
        assert!(said.contains("nested deeper than 32 levels"), "{said}");
    }

    #[test]
    fn no_text_makes_it_panic_and_what_it_takes_it_takes_again() {
        const CASES: u32 = 5_000;
        let good = crate::config::starter(&crate::config::Starter::default(), "0123456789abcdef");
        let pieces =
            ["{", "}", "[", "]", ",", ":", "'", "\"", "//", "/*", "null", "-1", "1e999", "\\u", "é", "$schema", "\n"];
        let mut seed = 7_u64;
        let mut below = move |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % n
        };
        let mut taken = 0;
        for case in 0..CASES {
            let mut text: Vec<char> = good.chars().collect();
            for _ in 0..=case % 4 {
                let (from, to) = (below(text.len()), below(12));
                let piece = pieces[below(pieces.len())];
                text.splice(from..(from + to).min(text.len()), piece.chars().take(below(2) * 6));
            }
            let text: String = text.into_iter().collect();
            if let Ok(config) = parse(&text) {
                taken += 1;
                parse(&config.to_value().to_string()).expect("a configuration that was shown is one that is taken");
            }
        }
        assert!((1..CASES).contains(&taken), "{taken} of {CASES} were taken");
    }

    #[test]
    fn names_that_point_at_nothing_are_refused() {
        check("{ agents: { default: 'eden' } }", &["agents.default: no agent has the id `eden`"]);
        check(
            "{ agents: { list: [{ id: 'a', role: 'worker' }, { id: 'a', team: 'x', workspace: '../etc' }] } }",
            &[
                "agents.list[0].role: a worker needs an orchestrator; give one agent the role `orchestrator`",
                "agents.list[1].id: the id `a` is taken by an agent before it",
                "agents.list[1].team: no team has this id; add it to `teams`",
                "agents.list[1].workspace: must be a directory below the state directory, of no other use and without `..`",
            ],
        );
        check(
            "{ agents: { list: [{ id: 'Not An Id' }] } }",
            &["agents.list[0].id: use 1 to 64 of a-z, 0-9, `_` and `-`, starting with a letter or digit"],
        );
        check("{ agents: { list: [{ id: 'a', tools: ['task_*', 'files_read', '*'] }] } }", &[]);
        check(
            "{ agents: { list: [{ id: 'a', tools: ['file_read', 'shell', 'tsk_*', 'task_start'] }] } }",
            &[
                "agents.list[0].tools[0]: there is no tool `file_read`; did you mean `files_read`?",
                "agents.list[0].tools[1]: there is no tool `shell`; `tools.catalog` lists them",
                "agents.list[0].tools[2]: there is no tool `tsk_*`; `tools.catalog` lists them",
            ],
        );
    }

    #[test]
    fn what_could_never_work_is_refused() {
        check(
            "{ gateway: { listen: '4000' }, hub: { listen: '127.0.0.1:4000' } }",
            &["hub.listen: this is the address of `gateway.listen` too; give each its own"],
        );
        check("{ gateway: { listen: '0' }, hub: { listen: '0' } }", &[]);
        check(
            "{ gateway: { allowedHosts: ['a:8443'], allowedOrigins: ['hub.example', 'https://x/'] } }",
            &[
                "gateway.allowedHosts[0]: write a name alone, without scheme or port",
                "gateway.allowedOrigins[0]: write scheme and host, and the port if there is one, such as https://hub.example",
                "gateway.allowedOrigins[1]: write scheme and host, and the port if there is one, such as https://hub.example",
            ],
        );
        for workspace in ["", "logs", "run/x", ".", "/etc"] {
            let said = parse(&format!("{{ agents: {{ list: [{{ id: 'a', workspace: '{workspace}' }}] }} }}"));
            let said = said.expect_err("refused").to_string();
            assert!(said.starts_with("  agents.list[0].workspace: must be a directory"), "{workspace}: {said}");
        }
        check(
            "{ agents: { list: [{ id: 'a' }, { id: 'b', workspace: 'workspace-a' }] } }",
            &["agents.list[1].workspace: this is the workspace of `a` too; give each its own"],
        );
    }

    #[test]
    fn a_secret_is_text_or_a_place_to_find_it() {
        check("{ gateway: { auth: { token: { file: '/run/token' } } } }", &[]);
        check(
            "{ gateway: { auth: { token: { fiel: '/run/token' } } } }",
            &["gateway.auth.token: write the text itself, {file: PATH}, {env: NAME} or {credential: NAME}"],
        );
    }
}
