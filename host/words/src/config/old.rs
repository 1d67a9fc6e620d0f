//! The configuration of the old system, `openclaw.json`, read leniently: what means the same here is taken, everything else is named.
//! Keeps true: what was not taken is in a list with its path and the reason; no message repeats a value, since it may be a secret.
//! Never: touches the disk. What is on it is told by `Place`.

mod agents;
mod gateway;
mod models;
mod notes;
mod secret;
mod text;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{AgentToAgent, Agents, Allow, Exchange, Listen, Providers, Secret, json5_value};
use crate::schema::Problem;
use notes::{Notes, below, object};

pub use notes::Ignored;

/// A larger file is refused unread.
pub const BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Where the old gateway listens when nothing is said.
const PORT: u16 = 18789;

/// What the reader must know of the machine.
pub struct Place<'a> {
    /// The state directory by every name that it has: as it was given, and with links followed.
    pub roots: Vec<PathBuf>,
    /// What `~` stands for.
    pub home: Option<PathBuf>,
    /// Whether there is a directory of this name, relative to the state directory.
    pub is_dir: &'a dyn Fn(&Path) -> bool,
}

/// What was understood of an `openclaw.json`.
#[derive(Debug)]
pub struct Old {
    /// What clients show; none when a new one must be made, and the list says why.
    pub token: Option<Secret>,
    /// The port of the old gateway, whether or not it runs.
    pub port: u16,
    pub agents: Agents,
    pub exchange: Exchange,
    /// Who may send to whom.
    pub agent_to_agent: AgentToAgent,
    /// What was not taken, in the order in which it was met.
    pub ignored: Vec<Ignored>,
    /// What must be mended first: of this too much hangs to leave it out.
    pub problems: Vec<Problem>,
    listen: Listen,
    monitor_off: bool,
    hub_off: bool,
    providers: Providers,
}

impl Old {
    /// Reads the text of an `openclaw.json`; an error when it is no JSON5 at all.
    pub fn read(text: &str, place: &Place<'_>) -> Result<Self, Problem> {
        let whole = json5_value(text)?;
        let mut notes = Notes::default();
        let empty = Map::new();
        let root = object(&mut notes, &whole, "").unwrap_or(&empty);
        let part = |name: &str| root.get(name).unwrap_or(&Value::Null);

        let secrets = secret::Sources { secrets: part("secrets"), home: place.home.as_deref() };
        let gateway = gateway::read(&mut notes, &secrets, part("gateway"));
        let mut providers = models::read(&mut notes, &secrets, part("models"));
        let agents = agents::read(&mut notes, place, &mut providers, part("agents"));
        let exchange = exchange(&mut notes, part("session"));
        let agent_to_agent = agent_to_agent(&mut notes, part("tools"));
        for (key, _) in root.iter().filter(|(_, value)| !value.is_null()) {
            let read = ["gateway", "models", "agents", "session", "tools", "$schema", "$include"];
            if !read.contains(&key.as_str()) {
                notes.ignore(below("", key), reason(key));
            }
        }
        let (ignored, problems) = notes.end();
        let gateway::Gateway { token, port, listen, monitor_off, hub_off } = gateway;
        Ok(Self {
            token,
            port,
            agents,
            exchange,
            agent_to_agent,
            ignored,
            problems,
            listen,
            monitor_off,
            hub_off,
            providers,
        })
    }
}

const OTHER: &str = "has no counterpart here";

/// How often two agents go back and forth.
fn exchange(notes: &mut Notes, session: &Value) -> Exchange {
    let mut found = Exchange::default();
    for (key, value) in object(notes, session, "session").into_iter().flatten() {
        let path = below("session", key);
        if key != "agentToAgent" {
            notes.ignore(path, OTHER);
            continue;
        }
        for (key, value) in object(notes, value, &path).into_iter().flatten() {
            match (key.as_str(), value.as_u64()) {
                ("maxPingPongTurns", Some(turns)) => found.max_ping_pong_turns = turns.min(5) as u32,
                ("maxPingPongTurns", None) => notes.wrong(below(&path, key), "must be a whole number from 0 to 5"),
                _ => notes.ignore(below(&path, key), OTHER),
            }
        }
    }
    found
}

/// Who may send to whom.
fn agent_to_agent(notes: &mut Notes, tools: &Value) -> AgentToAgent {
    let mut found = AgentToAgent::default();
    for (key, value) in object(notes, tools, "tools").into_iter().flatten() {
        let path = below("tools", key);
        if key != "agentToAgent" {
            notes.ignore(path, "tools are allowed by agent here: `agents.list[].tools`");
            continue;
        }
        for (key, value) in object(notes, value, &path).into_iter().flatten() {
            let path = below(&path, key);
            match (key.as_str(), value) {
                ("enabled", Value::Bool(enabled)) => found.enabled = *enabled,
                ("enabled", _) => notes.wrong(path, "must be true or false"),
                ("allow", Value::Array(allow)) => found.allow = allowed(notes, &path, allow),
                ("allow", _) => notes.wrong(path, "must be a list of agents"),
                _ => notes.ignore(path, OTHER),
            }
        }
    }
    found
}

fn allowed(notes: &mut Notes, path: &str, allow: &[Value]) -> Vec<Allow> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '*');
    let mut found = Vec::new();
    for (at, value) in allow.iter().enumerate() {
        let name = value.as_str().map(|name| name.trim().to_lowercase());
        match name.filter(|name| (1..=65).contains(&name.len()) && name.chars().all(plain)) {
            Some(name) => found.push(Allow(name)),
            None => notes.ignore(format!("{path}[{at}]"), "no agent can have this name"),
        }
    }
    found
}

/// Why a whole part of the file is not taken.
fn reason(key: &str) -> &'static str {
    match key {
        "meta" | "wizard" | "update" => "the old system's notes to itself",
        "env" => "set these variables in the environment of the gateway; chela.json sets none",
        "auth" => "keys of model providers are named under `providers` here",
        "channels" | "bindings" | "messages" | "web" => "channels are set up anew here",
        "plugins" | "hooks" | "skills" => "made for the old system; policies are components here",
        "cron" => "nothing here starts by the clock",
        "secrets" => "read where a secret names a file of it, and not otherwise",
        "logging" => "see `log` in chela.json",
        "discovery" | "nodeHost" | "canvasHost" | "talk" | "browser" | "ui" => "there is nothing of this kind here",
        _ => "has no counterpart here",
    }
}

#[cfg(test)]
mod tests;
