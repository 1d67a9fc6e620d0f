//! The deployment's configuration: its shape, its defaults, and what makes it whole.
//! Keeps true: a `Config` in hand has passed every check. Never: reads a file or a secret, watches, or prints a secret.

mod a2a;
mod agents;
mod categories;
mod channels;
mod continuation;
mod events;
mod human;
mod listen;
mod models;
pub mod old;
mod parse;
mod plugins;
mod secret;
mod starter;
mod tls;
mod tools;
mod traces;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::port::PerPort;
use crate::schema::Schema;
use crate::scope::Scope;

pub use a2a::{A2a, AgentA2a, AgentToAgent, Allow, ChainLimits, Exchange, Language, Session, Spawn};
pub use agents::{Agent, AgentRole, Agents, Identity, Team};
pub use categories::Category;
pub use channels::{
    Channel, ChannelLimits, ChannelRates, GrantedSecret, Grants, Routing, SignatureCoding, Verify, Webhook,
};
pub use continuation::{
    Continuation, ContinuationCaps, ContinuationDelays, ContinuationErrors, ContinuationPoll, Zombies,
};
pub use events::Events;
pub use human::{Human, OnDeadline};
pub use listen::Listen;
pub use models::{Model, ModelRef, Provider, ProviderKind, Providers, RunLimits, Runs};
pub use parse::{Problems, json5_value, parse};
pub use plugins::{Binding, Decisions, Guard, OnFailure, PluginLimits, Plugins, Signatures, Switch};
pub use secret::{FromCredential, REDACTED, Secret};
pub use starter::{Starter, StarterProvider, StarterTeam, starter};
pub use tls::{Pem, Secured, Tls};
pub use tools::{HttpFetch, ReachableHost, TOOL_NAMES, Tools};
pub use traces::Traces;

/// A configuration larger than this is refused unread.
pub const BYTES_MAX: u64 = 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[schemars(title = "chela.json")]
pub struct Config {
    /// For editors; ignored.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// What this deployment is.
    pub deployment: Deployment,
    /// The gateway: clients and agents speak to it.
    pub gateway: Gateway,
    /// The monitor API, read only.
    pub monitor: Monitor,
    /// The web page.
    pub hub: Hub,
    /// Encryption of what clients send and get.
    pub tls: Tls,
    /// Who is in the team.
    pub agents: Agents,
    /// Where the models of agents are.
    pub providers: Providers,
    /// How much runs may take.
    pub runs: Runs,
    /// Flows between agents.
    pub a2a: A2a,
    /// Questions of agents to people.
    pub human: Human,
    /// How agents are kept at their tasks.
    pub continuation: Continuation,
    /// How sessions of agents exchange messages.
    pub session: Session,
    /// What the tools of agents may do.
    pub tools: Tools,
    /// Groups of agents, shown together.
    pub teams: Vec<Team>,
    /// The categories that conversations are put in.
    pub categories: Vec<Category>,
    /// Which component makes which decision.
    pub plugins: Plugins,
    /// Chat networks, by name.
    pub channels: BTreeMap<String, Channel>,
    pub decisions: Decisions,
    /// The event log.
    pub events: Events,
    /// What clients have changed.
    pub audit: Audit,
    /// What one client or one request may take.
    pub limits: Limits,
    /// Where spans are sent.
    pub traces: Traces,
    /// The gateway's own log, on standard error.
    pub log: Log,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Deployment {
    /// What plugins are told that they serve.
    pub name: String,
    /// The language in which agents are instructed.
    pub locale: Locale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Locale {
    En,
    Ko,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Gateway {
    /// `HOST:PORT`, a port alone (then on 127.0.0.1; 0 for any free one), or `off`. Needs a restart.
    pub listen: Listen,
    pub auth: Auth,
    /// Names under which this machine may be called, beside addresses and `localhost`.
    pub allowed_hosts: Vec<HostName>,
    /// Web origins (`https://host`) whose pages may call the gateway, beside its own.
    pub allowed_origins: Vec<Origin>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("pattern" = r"^[A-Za-z0-9._-]{1,253}$", "x-advice" = "write a name alone, without scheme or port"))]
pub struct HostName(pub String);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("pattern" = r"^https?://[^/?#@\s]+$", "x-advice" = "write scheme and host, and the port if there is one, such as https://hub.example"))]
pub struct Origin(pub String);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Auth {
    /// The owner's token: may do everything.
    pub token: Secret,
    /// Further tokens by name, each with what it may do.
    pub tokens: BTreeMap<String, NamedToken>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NamedToken {
    pub token: Secret,
    /// The widest scope it has; each holds the narrower ones.
    pub scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Monitor {
    /// Like `gateway.listen`. Needs a restart.
    pub listen: Listen,
    /// Lets programs of this machine read on the monitor's own port without a token.
    pub open_reads: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Hub {
    /// Like `gateway.listen`. Needs a restart.
    pub listen: Listen,
    /// Whom texts mention by an id, as `<@123>` or `<@U07EF34GH>`: the id and the name that people see instead.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 1_000))]
    pub names: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Limits {
    /// The largest body of a request.
    #[schemars(range(min = 1_024, max = 67_108_864))]
    pub body_bytes: usize,
    /// The largest frame of a client that is connected to the gateway.
    #[schemars(range(min = 65_536, max = 67_108_864))]
    pub frame_bytes: usize,
    /// Connections held open at once, on each listener.
    #[schemars(range(min = 1, max = 100_000))]
    pub connections: usize,
    /// Requests a second that one client address may make for long.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests_per_second: u32,
    /// Requests that one client address may make at once before that rate holds.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub requests_burst: u32,
    /// How long a client may take to send the head of a request.
    #[schemars(range(min = 100, max = 600_000))]
    pub head_timeout_ms: u64,
    /// How long a client may take to send a body.
    #[schemars(range(min = 100, max = 600_000))]
    pub body_timeout_ms: u64,
    /// How long an answer may wait for a client that does not read.
    #[schemars(range(min = 100, max = 600_000))]
    pub write_timeout_ms: u64,
    /// How long a stop waits for requests that are under way.
    #[schemars(range(min = 0, max = 600_000))]
    pub drain_timeout_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Audit {
    /// How long the audit log is kept, in whole months. Needs a restart.
    #[schemars(range(min = 31, max = 36_500))]
    pub keep_days: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Log {
    /// What is logged: this and whatever is worse. Holds at once.
    pub level: LogLevel,
    /// Needs a restart.
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            schema: None,
            deployment: Deployment::default(),
            gateway: Gateway::default(),
            monitor: Monitor::default(),
            hub: Hub::default(),
            tls: Tls::default(),
            agents: Agents::default(),
            providers: Providers::default(),
            runs: Runs::default(),
            a2a: A2a::default(),
            human: Human::default(),
            continuation: Continuation::default(),
            session: Session::default(),
            tools: Tools::default(),
            teams: Vec::new(),
            categories: categories::default_table(),
            plugins: Plugins::default(),
            channels: BTreeMap::new(),
            decisions: Decisions::default(),
            events: Events::default(),
            audit: Audit::default(),
            limits: Limits::default(),
            traces: Traces::default(),
            log: Log::default(),
        }
    }
}

impl Default for Deployment {
    fn default() -> Self {
        Self { name: "chela".into(), locale: Locale::En }
    }
}

impl Locale {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::En => "en",
            Self::Ko => "ko",
        }
    }
}

impl Default for Gateway {
    fn default() -> Self {
        Self {
            listen: Listen::loopback(18789),
            auth: Auth::default(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
        }
    }
}

impl Default for Auth {
    fn default() -> Self {
        Self { token: Secret::Text(String::new()), tokens: BTreeMap::new() }
    }
}

impl Default for Monitor {
    fn default() -> Self {
        Self { listen: Listen::loopback(3847), open_reads: false }
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self { listen: Listen::loopback(3102), names: BTreeMap::new() }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 2 * 1024 * 1024,
            frame_bytes: 25 * 1024 * 1024,
            connections: 5_000,
            requests_per_second: 1_000,
            requests_burst: 2_000,
            head_timeout_ms: 10_000,
            body_timeout_ms: 30_000,
            write_timeout_ms: 30_000,
            drain_timeout_ms: 10_000,
        }
    }
}

impl Default for Audit {
    fn default() -> Self {
        Self { keep_days: 365 }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: LogLevel::Info, format: LogFormat::Text }
    }
}

impl LogLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

impl Config {
    /// The JSON schema of `chela.json`, as `chela config schema` prints it.
    pub fn schema() -> &'static Schema {
        static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<Config>);
        &SCHEMA
    }

    /// Where each listener listens.
    pub fn listen(&self) -> PerPort<Listen> {
        PerPort { gateway: self.gateway.listen, monitor: self.monitor.listen, hub: self.hub.listen }
    }

    /// The whole configuration, defaults filled in and secrets cut out.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a configuration is plain JSON")
    }
}

/// The paths at which two configurations differ, secrets aside.
pub fn changed_paths(old: &Config, new: &Config) -> Vec<String> {
    let mut paths = Vec::new();
    collect_changes("", &old.to_value(), &new.to_value(), &mut paths);
    paths
}

fn collect_changes(path: &str, old: &Value, new: &Value, paths: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect_changes(
                    &below,
                    old.get(key).unwrap_or(&Value::Null),
                    new.get(key).unwrap_or(&Value::Null),
                    paths,
                );
            }
        }
        (old, new) if old != new => paths.push(path.to_owned()),
        _ => {}
    }
}

/// Of changed paths, those that a running gateway cannot take up.
pub fn needing_restart(changed: &[String]) -> Vec<String> {
    const FIXED: [&str; 9] = [
        "gateway.listen",
        "monitor.listen",
        "hub.listen",
        "runs.concurrency",
        "events.groupMs",
        "events.keepDays",
        "events.keepMegabytes",
        "audit.keepDays",
        "log.format",
    ];
    changed.iter().filter(|path| FIXED.contains(&path.as_str())).cloned().collect()
}
