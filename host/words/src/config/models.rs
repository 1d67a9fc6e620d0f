//! Where models are, and how much a run of one may take.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, Secret};
use crate::schema::Problem;

/// Providers by name.
pub type Providers = BTreeMap<String, Provider>;

/// One who answers for models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Provider {
    /// How it is spoken to.
    pub kind: ProviderKind,
    /// Where it is; else the vendor's own address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https?://[^\s?#]+$"), extend("x-advice" = "write http(s)://host[:port][/path], without a query"))]
    pub base_url: Option<String>,
    /// The key that it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Secret>,
    /// For `scripted`: the file with its replies, relative to the state directory; else those of the demo team.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<PathBuf>,
    /// The models that are shown to clients; others can be named all the same.
    #[serde(default)]
    #[schemars(length(max = 500))]
    pub models: Vec<Model>,
    /// How long it may take to begin its answer.
    #[serde(default = "begin_ms")]
    #[schemars(range(min = 100, max = 3_600_000))]
    pub begin_timeout_ms: u64,
    /// How long it may fall silent within an answer.
    #[serde(default = "silence_ms")]
    #[schemars(range(min = 100, max = 3_600_000))]
    pub silence_timeout_ms: u64,
    /// How often a request is made again after a failure that may pass.
    #[serde(default = "retries")]
    #[schemars(range(max = 20))]
    pub retries: u32,
}

fn begin_ms() -> u64 {
    120_000
}

fn silence_ms() -> u64 {
    60_000
}

fn retries() -> u32 {
    3
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// The Messages API of Anthropic.
    Anthropic,
    /// The chat API of OpenAI, and of everybody who speaks it.
    Openai,
    /// Replies from a file: no key, no network, always the same.
    Scripted,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Model {
    /// What the provider calls it.
    #[schemars(length(min = 1, max = 200))]
    pub id: String,
    /// What people call it; else its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Tokens of a prompt and its answer together.
    #[serde(default = "window")]
    #[schemars(range(min = 1_000, max = 100_000_000))]
    pub context_window: u64,
    /// Tokens of one answer.
    #[serde(default = "answer_tokens")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub max_tokens: u32,
}

fn window() -> u64 {
    128_000
}

fn answer_tokens() -> u32 {
    8_192
}

impl Model {
    /// A model that the configuration does not describe.
    pub fn undescribed(id: &str) -> Self {
        Self { id: id.to_owned(), name: None, context_window: window(), max_tokens: answer_tokens() }
    }
}

/// `provider/model`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("pattern" = r"^[^/\s]{1,64}/\S{1,200}$", "x-advice" = "write PROVIDER/MODEL, such as anthropic/claude-sonnet-5"))]
pub struct ModelRef(pub String);

impl ModelRef {
    pub fn split(&self) -> (&str, &str) {
        self.0.split_once('/').unwrap_or((&self.0, ""))
    }
}

/// How much runs may take, and how many may wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Runs {
    /// Sessions that run at once. Needs a restart.
    #[schemars(range(min = 1, max = 10_000))]
    pub concurrency: usize,
    /// Messages that may wait in one session.
    #[schemars(range(min = 1, max = 10_000))]
    pub queue: usize,
    /// The longest message.
    #[schemars(range(min = 1_024, max = 4_194_304))]
    pub message_bytes: usize,
    /// How much one run may take, for agents that do not say otherwise.
    pub limits: RunLimits,
    /// How long results are kept for those who ask again.
    #[schemars(range(min = 1, max = 365))]
    pub keep_days: u32,
    /// How many results of runs, and of calls of tools, are kept at most; the oldest go first.
    #[schemars(range(min = 100, max = 100_000_000))]
    pub keep_results: usize,
}

impl Default for Runs {
    fn default() -> Self {
        Self {
            concurrency: 128,
            queue: 100,
            message_bytes: 256 * 1024,
            limits: RunLimits::default(),
            keep_days: 7,
            keep_results: 200_000,
        }
    }
}

/// Limits of runs; 0 or missing is the default, never "no limit".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RunLimits {
    /// Answers of the model in one run.
    pub steps: u32,
    /// From its beginning to its end, tools included.
    pub time_ms: u64,
    /// Of all prompts and answers of one run.
    pub tokens: u64,
    /// Of all runs of an agent on one day (UTC).
    pub tokens_per_day: u64,
}

impl RunLimits {
    const DEFAULT: Self = Self { steps: 50, time_ms: 600_000, tokens: 1_000_000, tokens_per_day: 20_000_000 };

    /// These, with what is not given taken from `other`.
    pub fn or(self, other: Self) -> Self {
        let pick = |own: u64, other: u64| if own == 0 { other } else { own };
        Self {
            steps: if self.steps == 0 { other.steps } else { self.steps },
            time_ms: pick(self.time_ms, other.time_ms),
            tokens: pick(self.tokens, other.tokens),
            tokens_per_day: pick(self.tokens_per_day, other.tokens_per_day),
        }
    }

    /// What holds for an agent.
    pub fn of(config: &Config, own: Self) -> Self {
        own.or(config.runs.limits).or(Self::DEFAULT)
    }
}

/// What the schema cannot say.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, provider) in &config.providers {
        let mut add = |key: &str, said: &str| problems.push(Problem::new(format!("providers.{name}.{key}"), said));
        let url = provider.base_url.as_deref().unwrap_or_default();
        if provider.key.is_some() && url.starts_with("http://") && !is_this_machine(url) {
            add("baseUrl", "a key must not travel unencrypted; use https, or take the key out");
        }
        if provider.kind != ProviderKind::Scripted && provider.script.is_some() {
            add("script", "only a provider of the kind `scripted` has one");
        }
        if name.contains('/') || name.is_empty() {
            add("", "a name is not empty and has no `/`, since models are written PROVIDER/MODEL");
        }
    }
    let named = |path: String, model: &ModelRef| {
        let provider = model.split().0;
        let known = config.providers.contains_key(provider);
        (!known).then(|| Problem::new(path, format!("no provider is called `{provider}`; add it to `providers`")))
    };
    problems.extend(config.agents.model.iter().filter_map(|model| named("agents.model".into(), model)));
    for (at, model) in config.agents.fallbacks.iter().enumerate() {
        problems.extend(named(format!("agents.fallbacks[{at}]"), model));
    }
    for (at, agent) in config.agents.list.iter().enumerate() {
        problems.extend(agent.model.iter().filter_map(|model| named(format!("agents.list[{at}].model"), model)));
        for (nth, model) in agent.fallbacks.iter().enumerate() {
            problems.extend(named(format!("agents.list[{at}].fallbacks[{nth}]"), model));
        }
    }
    problems
}

pub(super) fn is_this_machine(url: &str) -> bool {
    let authority = url.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let host = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => authority.split(':').next().unwrap_or_default(),
    };
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    !authority.contains('@') && (host == "localhost" || loopback)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn check(config: &str, expected: &str) {
        let said = parse(config).map(|_| String::new()).unwrap_or_else(|problems| problems.to_string());
        assert!(if expected.is_empty() { said.is_empty() } else { said.contains(expected) }, "{config}: {said}");
    }

    #[test]
    fn providers_and_models_are_checked_against_each_other() {
        check("{ providers: { demo: { kind: 'scripted' } }, agents: { model: 'demo/any' } }", "");
        check("{ agents: { model: 'gone/any' } }", "no provider is called `gone`");
        check("{ agents: { model: 'any' } }", "agents.model: write PROVIDER/MODEL");
        check(
            "{ providers: { x: { kind: 'openai', baseUrl: 'http://10.0.0.7/v1', key: 'k' } } }",
            "must not travel unencrypted",
        );
        check("{ providers: { x: { kind: 'openai', baseUrl: 'http://127.0.0.1:1/v1', key: 'k' } } }", "");
        for elsewhere in ["http://127.evil.example", "http://localhost:x@host/v1"] {
            check(
                &format!("{{ providers: {{ x: {{ kind: 'openai', baseUrl: '{elsewhere}', key: 'k' }} }} }}"),
                "must not travel",
            );
        }
        check("{ providers: { x: { kind: 'openai', baseUrl: 'http://[::1]:9/v1', key: 'k' } } }", "");
        check("{ providers: { x: { kind: 'anthropic', script: 'a' } } }", "only a provider of the kind `scripted`");
        check("{ providers: { x: { kind: 'other' } } }", "providers.x.kind");
    }

    #[test]
    fn a_limit_of_zero_is_the_default() {
        let config = parse("{ runs: { limits: { steps: 7 } } }").expect("good");
        let limits = RunLimits::of(&config, RunLimits { time_ms: 5, ..RunLimits::default() });
        assert_eq!(limits, RunLimits { steps: 7, time_ms: 5, ..RunLimits::DEFAULT });
    }
}
