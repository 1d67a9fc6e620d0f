//! The part `agents` of the old configuration, in both shapes that it has had: `list[]`, and `entries{}` by id.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::agents::is_free;
use super::super::{Agent, Agents, ModelRef, Providers};
use super::Place;
use super::models::Names;
use super::notes::{Notes, below, kind, object};
use crate::id::AgentId;

/// More agents than any team has; a file with more is a mistake.
const AGENTS_MAX: usize = 1_000;
/// Who serves in the old system when nobody is named, and whom it means when nobody is marked.
const MAIN: &str = "main";

/// An agent as the file has it.
struct Entry<'a> {
    id: AgentId,
    path: String,
    fields: &'a Map<String, Value>,
}

impl<'a> Entry<'a> {
    fn field(&self, key: &str) -> &'a Value {
        self.fields.get(key).unwrap_or(&Value::Null)
    }
}

pub(super) fn read(notes: &mut Notes, place: &Place<'_>, providers: &mut Providers, value: &Value) -> Agents {
    let (mut defaults, mut entries) = (&Value::Null, Vec::new());
    for (key, value) in object(notes, value, "agents").into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        match key.as_str() {
            "defaults" => defaults = value,
            "list" => entries.extend(listed(notes, value)),
            "entries" => entries.extend(by_id(notes, value)),
            "ownership" => {}
            _ => notes.ignore(below("agents", key), "has no counterpart here"),
        }
    }
    let entries = distinct(notes, entries);
    let mut names = Names::new(providers, &defaults["models"]);
    let (model, fallbacks) = of_all(notes, &mut names, defaults);
    let default = default_of(notes, &entries);
    let mut workspaces = Workspaces::new(place, &entries);
    let own = notes.text(&defaults["workspace"], "agents.defaults.workspace");
    let mut agents = Agents { default, model, fallbacks, ..Agents::default() };
    for entry in &entries {
        // Only the agent that is meant by default has the workspace of all.
        let fallback = (Some(&entry.id) == agents.default.as_ref()).then(|| own.as_deref().unwrap_or("workspace"));
        let workspace = workspaces.of(notes, entry, fallback);
        agents.list.extend(agent(notes, &mut names, entry, workspace));
    }
    if entries.is_empty() {
        agents.list.extend(only_one(place, own.as_deref()));
        agents.default = agents.list.first().map(|agent| agent.id.clone());
    }
    if agents.model.is_none() && agents.list.iter().any(|agent| agent.model.is_none()) {
        notes.ignore("agents.defaults.model", "no model for agents that name none; set `agents.model` in chela.json");
    }
    agents
}

fn listed<'a>(notes: &mut Notes, value: &'a Value) -> Vec<Entry<'a>> {
    let Value::Array(list) = value else {
        notes.wrong("agents.list", format!("must be a list, not {}", kind(value)));
        return Vec::new();
    };
    if list.len() > AGENTS_MAX {
        notes.wrong("agents.list", format!("{} agents; at most {AGENTS_MAX} are taken", list.len()));
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, value) in list.iter().enumerate() {
        let path = format!("agents.list[{at}]");
        let Some(fields) = object(notes, value, &path) else { continue };
        match fields.get("id") {
            Some(Value::String(id)) => found.extend(entry(notes, id, path, fields)),
            Some(other) => notes.wrong(below(&path, "id"), format!("must be a text, not {}", kind(other))),
            None => notes.wrong(below(&path, "id"), "is missing"),
        }
    }
    found
}

fn by_id<'a>(notes: &mut Notes, value: &'a Value) -> Vec<Entry<'a>> {
    let Some(members) = object(notes, value, "agents.entries") else { return Vec::new() };
    if members.len() > AGENTS_MAX {
        notes.wrong("agents.entries", format!("{} agents; at most {AGENTS_MAX} are taken", members.len()));
        return Vec::new();
    }
    let mut found = Vec::new();
    for (id, value) in members.iter().filter(|(id, _)| *id != "$include") {
        let path = below("agents.entries", id);
        let Some(fields) = object(notes, value, &path) else { continue };
        found.extend(entry(notes, id, path, fields));
    }
    found
}

/// Ids are the same in any case, as in the old system.
fn entry<'a>(notes: &mut Notes, id: &str, path: String, fields: &'a Map<String, Value>) -> Option<Entry<'a>> {
    match id.trim().to_lowercase().parse() {
        Ok(id) => Some(Entry { id, path, fields }),
        Err(error) => {
            notes.wrong(below(&path, "id"), error.to_string());
            None
        }
    }
}

fn distinct<'a>(notes: &mut Notes, entries: Vec<Entry<'a>>) -> Vec<Entry<'a>> {
    let mut seen = HashSet::new();
    let mut first = Vec::new();
    for entry in entries {
        match seen.insert(entry.id.clone()) {
            true => first.push(entry),
            false => notes.ignore(entry.path, format!("the id `{}` is taken by an agent before it", entry.id)),
        }
    }
    first
}

/// What the old configuration says of all agents at once.
fn of_all(notes: &mut Notes, names: &mut Names<'_>, defaults: &Value) -> (Option<ModelRef>, Vec<ModelRef>) {
    let mut model = (None, Vec::new());
    for (key, value) in object(notes, defaults, "agents.defaults").into_iter().flatten() {
        let path = below("agents.defaults", key);
        match key.as_str() {
            "model" => model = names.choice(notes, value, &path),
            "models" => notes.ignore(path, "read for the short names of models alone"),
            "workspace" => {}
            "maxConcurrent" => notes.ignore(path, "see `runs.concurrency` in chela.json"),
            _ => notes.ignore(path, "has no counterpart here"),
        }
    }
    model
}

/// The first that is marked, else `main`, else the first: as the old system has it.
fn default_of(notes: &mut Notes, entries: &[Entry<'_>]) -> Option<AgentId> {
    let mut marked = None;
    for entry in entries {
        let path = below(&entry.path, "default");
        match (entry.field("default"), &marked) {
            (Value::Bool(true), None) => marked = Some(entry.id.clone()),
            (Value::Bool(true), Some(_)) => notes.ignore(path, "another agent before it is the default"),
            (Value::Bool(false) | Value::Null, _) => {}
            (other, _) => notes.wrong(path, format!("must be true or false, not {}", kind(other))),
        }
    }
    let main = || entries.iter().find(|entry| entry.id.as_ref() == MAIN).or(entries.first());
    marked.or_else(|| main().map(|entry| entry.id.clone()))
}

fn agent(notes: &mut Notes, names: &mut Names<'_>, entry: &Entry<'_>, workspace: Option<PathBuf>) -> Option<Agent> {
    let path = |key: &str| below(&entry.path, key);
    let mut made = json!({ "id": entry.id });
    if let Some(name) = notes.text(entry.field("name"), &path("name")) {
        made["name"] = json!(name);
    }
    if let Some(identity) = identity(notes, entry.field("identity"), &path("identity")) {
        made["identity"] = identity;
    }
    if let Some(workspace) = workspace {
        made["workspace"] = json!(workspace);
    }
    let (model, fallbacks) = names.choice(notes, entry.field("model"), &path("model"));
    for key in entry.fields.keys() {
        match key.as_str() {
            "id" | "name" | "identity" | "workspace" | "model" | "default" => {}
            "tools" => notes.ignore(path(key), "tools have other names here; see `agents.list[].tools`"),
            "agentDir" => notes.ignore(path(key), "what the old system keeps of an agent is not read"),
            _ => notes.ignore(path(key), "has no counterpart here"),
        }
    }
    match serde_json::from_value::<Agent>(made) {
        Ok(agent) => Some(Agent { model, fallbacks, ..agent }),
        Err(error) => {
            notes.wrong(&entry.path, error.to_string());
            None
        }
    }
}

fn identity(notes: &mut Notes, value: &Value, path: &str) -> Option<Value> {
    let mut made = json!({});
    for (key, value) in object(notes, value, path)?.iter().filter(|(_, value)| !value.is_null()) {
        let path = below(path, key);
        match key.as_str() {
            "name" | "emoji" | "avatar" => {
                let Some(text) = notes.text(value, &path) else { continue };
                // A path of the old system's workspace is no address of a picture.
                let address = ["https://", "http://", "data:"].iter().any(|scheme| text.starts_with(scheme));
                match key == "avatar" && !address {
                    true => notes.ignore(path, "is no address; write one such as https://host/face.png"),
                    false => made[key] = json!(text),
                }
            }
            _ => notes.ignore(path, "has no counterpart here"),
        }
    }
    made.as_object().is_some_and(|made| !made.is_empty()).then_some(made)
}

/// The one agent of a configuration that names none.
fn only_one(place: &Place<'_>, own: Option<&str>) -> Option<Agent> {
    let workspace = below_the_directory(place, own.unwrap_or("workspace")).filter(|path| (place.is_dir)(path));
    serde_json::from_value(json!({ "id": MAIN, "workspace": workspace })).ok()
}

/// Gives each agent a workspace of its own below the state directory.
struct Workspaces<'a> {
    place: &'a Place<'a>,
    /// What is given, and what somebody has by default.
    taken: HashSet<PathBuf>,
}

impl<'a> Workspaces<'a> {
    fn new(place: &'a Place<'a>, entries: &[Entry<'_>]) -> Self {
        Self { place, taken: entries.iter().map(|entry| usual(&entry.id)).collect() }
    }

    /// Nothing means the usual one, `workspace-{id}`.
    fn of(&mut self, notes: &mut Notes, entry: &Entry<'_>, fallback: Option<&str>) -> Option<PathBuf> {
        let path = below(&entry.path, "workspace");
        let (usual, given) = (usual(&entry.id), notes.text(entry.field("workspace"), &path));
        let wanted = given.as_deref().or(fallback)?;
        let Some(inside) = below_the_directory(self.place, wanted) else {
            // A directory that was copied here names the place it came from.
            let moved = Path::new(wanted).file_name() == usual.file_name();
            match ((self.place.is_dir)(&usual), given.is_some()) {
                (true, true) if !moved => {
                    notes.ignore(path, format!("lies outside the state directory; {} is used", usual.display()));
                }
                (true, _) => {}
                (false, _) => notes.ignore(
                    path,
                    format!("lies outside the state directory and is not moved; {} begins empty", usual.display()),
                ),
            }
            return None;
        };
        if inside == usual {
            return None;
        }
        // What nobody wrote down counts only where it is.
        if given.is_none() && !(self.place.is_dir)(&inside) {
            return None;
        }
        if !is_free(&inside) || !self.taken.insert(inside.clone()) {
            notes.ignore(path, format!("is of another use; {} is used", usual.display()));
            return None;
        }
        Some(inside)
    }
}

fn usual(id: &AgentId) -> PathBuf {
    format!("workspace-{id}").into()
}

/// A path of the old configuration, relative to the state directory if it leads below it.
fn below_the_directory(place: &Place<'_>, written: &str) -> Option<PathBuf> {
    let path = match (written.strip_prefix("~/"), &place.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(written),
    };
    let inside = match path.is_absolute() {
        true => place.roots.iter().find_map(|root| path.strip_prefix(root).ok())?.to_owned(),
        false => path,
    };
    let plain = inside.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && inside.components().next().is_some()).then_some(inside)
}
