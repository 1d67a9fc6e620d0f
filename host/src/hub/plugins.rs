//! Slots and what fills them; and what another version would answer, before it is let in.

use std::io::Read;
use std::path::Path;

use chela_page::caps::SWAPS;
use chela_page::{
    Answered, Indexed, PluginName, Plugins, RULES_BYTES_MAX, Rules, SlotCard, SlotDetail, SwapRow, Tried, TriedRow,
    clip,
};
use serde_json::{Map, Value, json};

use super::{Error, Handle, Trial};
use crate::config::Config;
use crate::event::Kind;
use crate::monitor::{EventsQuery, Heard, seq_of_cursor};
use crate::plugins::{From, Load, POLICY_VERSION, SlotName, View, builtin_names};
use crate::policy::{CategoriesInput, Conversation, World};

const LOG_LINES: usize = 30;
/// Grants of one slot that are listed.
const GRANTS: usize = 40;
/// Work sessions that a version is tried on.
const SESSIONS: usize = 100;
/// The function that finds categories.
const CATEGORIES: &str = "categories";

/// What a version is to be tried on.
#[derive(Clone, Debug)]
pub enum TryOn {
    Text(String),
    /// The latest work sessions.
    Sessions,
}

/// What a reader of a slot wants to see of it.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// What came of a trial, by its id.
    pub tried: Option<String>,
    /// Swaps before this place of the log.
    pub before: Option<String>,
}

impl Handle {
    pub async fn plugins(&self) -> Plugins {
        self.look_at_counters();
        let plugins = self.0.plugins.clone();
        // Lists a folder.
        let installed = tokio::task::spawn_blocking(move || plugins.installed()).await.unwrap_or_default();
        let settings = self.0.settings.current();
        let config = &settings.config;
        Plugins {
            slots: self.0.plugins.slots().iter().map(|view| card(config, view)).collect(),
            installed,
            interface: POLICY_VERSION.to_string(),
            unrecorded: self.0.plugins.unrecorded(),
        }
    }

    pub async fn slot(&self, name: &str, wanted: Wanted) -> Result<SlotDetail, Error> {
        let views = self.0.plugins.slots();
        let view = views.iter().find(|view| view.slot == name).ok_or_else(|| Error::unknown("slot", name))?;
        let slot: SlotName = name.parse().map_err(|_| Error::unknown("slot", name))?;
        let config = self.0.plugins.config_of(&slot).unwrap_or_else(|| "{}".into());
        let config: Value = serde_json::from_str(&config).unwrap_or_else(|_| json!({}));
        let mut sources: Vec<String> = builtin_names().map(|name| format!("builtin:{name}")).collect();
        sources.extend(self.plugins().await.installed);
        let classifies = slot.world() == World::Classifier;
        let kept = wanted.tried.filter(|_| classifies).and_then(|id| self.1.trials.get(&id));
        let trial = kept.map(|kept| Trial::clone(&kept));
        let trial_was = trial.is_some();
        let trial = trial.unwrap_or_default();
        let rules = if classifies { Some(self.rules().await?) } else { None };
        let logs = self.0.plugins.logs(slot, LOG_LINES).await.unwrap_or_default();
        Ok(SlotDetail {
            card: card(&self.0.settings.current().config, view),
            config: serde_json::to_string_pretty(&config).unwrap_or_default(),
            rules,
            sources,
            history: self.swaps(name, wanted.before.as_deref()).await?,
            logs: logs.iter().rev().map(log_line).collect(),
            classifies,
            categories: super::conversations::categories(&self.0.settings.current().config, &Value::Null),
            text: trial.text,
            typed_rules: trial.rules,
            typed_config: trial.config,
            tried: trial_was.then_some(trial.tried),
        })
    }

    pub async fn rules(&self) -> Result<Rules, Error> {
        let path = self.0.dir.rules();
        tokio::task::spawn_blocking(move || rules_of(&path)).await.map_err(|_| Error::Files)
    }

    /// What was put in service here, and what was refused, the newest first.
    async fn swaps(&self, slot: &str, before: Option<&str>) -> Result<Indexed<(Vec<SwapRow>, Option<String>)>, Error> {
        let kinds = [
            Kind::PluginLoaded,
            Kind::PluginSwapped,
            Kind::PluginRejected,
            Kind::PluginDenied,
            Kind::PluginQuarantined,
            Kind::PluginReleased,
            Kind::PluginRolledBack,
            Kind::PluginUnloaded,
        ];
        let types: Vec<String> = kinds.iter().map(|kind| kind.as_str().to_owned()).collect();
        let subject = Some(format!("slot:{slot}"));
        let before = before.and_then(seq_of_cursor);
        let asked = EventsQuery { types, subject, before, limit: SWAPS, ..EventsQuery::default() };
        match self.0.monitor.events(asked).await.map_err(Error::from) {
            Err(Error::Indexing { percent }) => Ok(Indexed::Indexing(percent)),
            page => {
                let page = page?;
                Ok(Indexed::Ready((page.rows.iter().map(swap_row).collect(), page.next)))
            }
        }
    }

    /// Keeps what came of a trial for the page that shows it, and gives its name.
    pub fn keep_trial(&self, trial: Trial) -> String {
        let id = crate::id::fresh(self.0.clock.now()).simple().to_string();
        self.1.trials.keep(id.clone(), trial);
        id
    }

    /// What a classifier would answer, with its own configuration or that of the one that serves, beside that one. Changes nothing.
    pub async fn tried(&self, from: From, config: Option<Map<String, Value>>, on: TryOn) -> Result<Tried, Error> {
        let source = match &from {
            From::Source(source) => source.clone(),
            From::Bytes { name, .. } => name.clone(),
        };
        let heard = match &on {
            TryOn::Text(text) => {
                let conversation = Conversation { texts: vec![text.clone()], ..Conversation::default() };
                vec![Heard { session: String::new(), title: clip(text, 160), conversation }]
            }
            TryOn::Sessions => self.0.monitor.conversations(SESSIONS).await?,
        };
        let on_sessions = matches!(on, TryOn::Sessions);
        let settings = self.0.settings.current();
        let categories: Vec<String> = settings.config.categories.iter().map(|category| category.key.clone()).collect();
        let input = |heard: &Heard| {
            json!(CategoriesInput { categories: categories.clone(), conversations: vec![heard.conversation.clone()] })
        };
        let inputs: Vec<Value> = heard.iter().map(input).collect();
        let load = Load { slot: SlotName::Classifier, from, config, shadow_only: true, fresh: false };
        let compared = match self.0.plugins.compare(load, CATEGORIES, inputs).await {
            Ok(compared) => compared,
            Err(error) => {
                return Ok(Tried { source, on_sessions, problem: Some(error.to_string()), ..Tried::default() });
            }
        };
        let pairs = compared.as_array().map(Vec::as_slice).unwrap_or_default();
        let rows: Vec<TriedRow> = pairs.iter().zip(&heard).map(|(pair, heard)| tried_row(pair, heard)).collect();
        let asked = rows.len();
        let changed = rows.iter().filter(|row| row.before != row.after).count();
        // Of many, what would stay as it is is told by its number.
        let shown = rows.into_iter().filter(|row| !on_sessions || row.before != row.after);
        Ok(Tried { source, on_sessions, asked, changed, rows: shown.collect(), problem: None })
    }
}

/// The file of rules, if a page can show all of it: saving what was cut off, or never read, would lose the rest.
fn rules_of(path: &Path) -> Rules {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(RULES_BYTES_MAX as u64 + 1).read_to_end(&mut bytes));
    match read {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Rules::Text(String::new()),
        Err(cause) => Rules::Unread(cause.to_string()),
        Ok(_) if bytes.len() > RULES_BYTES_MAX => Rules::TooLong,
        Ok(_) => String::from_utf8(bytes).map_or(Rules::NotText, Rules::Text),
    }
}

/// A classification: its category, and what else it says in one line.
fn answer_of(answer: &Value) -> Answered {
    let one = answer.get(0).unwrap_or(answer);
    let tags: Vec<&str> = one["subTags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let sure = one["confidence"].as_f64().map(|sure| format!("{:.0} %", sure * 100.0)).unwrap_or_default();
    let tags = if tags.is_empty() { String::new() } else { format!(" [{}]", tags.join(", ")) };
    let category = one["primary"].as_str().map(str::to_owned);
    Answered { category, rest: format!("{sure}{tags}").trim_start().to_owned(), failed: false }
}

fn tried_row(pair: &Value, heard: &Heard) -> TriedRow {
    let failed = pair["failed"].as_str().map(|said| Answered { category: None, rest: said.to_owned(), failed: true });
    TriedRow {
        title: heard.title.clone(),
        session: Some(heard.session.clone()).filter(|id| !id.is_empty()),
        before: answer_of(&pair["before"]),
        after: failed.unwrap_or_else(|| answer_of(&pair["after"])),
    }
}

/// What a slot may use: what its component imports, and what the configuration lets an adapter reach. No secret is told, only its name.
fn grants(config: &Config, view: &View) -> Vec<String> {
    let channel = view.slot.strip_prefix("channel:").and_then(|name| config.channels.get(name));
    let of_channel = channel.into_iter().flat_map(|channel| {
        let grants = &channel.grants;
        let hosts = grants.hosts.iter().map(|host| format!("host {}", host.0));
        let secrets = grants.secrets.keys().map(|name| format!("secret {name}"));
        hosts.chain(secrets).chain(grants.webhooks.keys().map(|path| format!("webhook {path}")))
    });
    view.grants.iter().cloned().chain(of_channel).take(GRANTS).collect()
}

fn card(config: &Config, view: &View) -> SlotCard {
    let number = |name: &str| view.stats[name].as_u64().unwrap_or_default();
    let failures = view.stats["failures"].as_object().into_iter().flatten();
    SlotCard {
        slot: view.slot.clone(),
        state: view.state.to_owned(),
        plugin: view.plugin.as_ref().map(|plugin| PluginName {
            name: plugin.name.clone(),
            version: plugin.version.clone(),
            hash: plugin.hash.clone(),
            source: plugin.source.clone(),
        }),
        grants: grants(config, view),
        on_failure: view
            .on_failure
            .map(|word| json!(word))
            .and_then(|word| word.as_str().map(str::to_owned))
            .unwrap_or_default(),
        problem: view.problem.clone(),
        waiting: view.waiting.as_ref().map(|waiting| (waiting.source.clone(), waiting.more_grants.clone())),
        calls: number("calls"),
        fallbacks: number("fallbacks"),
        failures: failures.map(|(kind, count)| (kind.clone(), count.as_u64().unwrap_or_default())).collect(),
        p50_micros: number("p50Micros"),
        p99_micros: number("p99Micros"),
        memory_bytes: view.memory_bytes as u64,
        memory_mb_max: view.limits.map(|limits| u64::from(limits.memory_mb)),
    }
}

fn swap_row(event: &Value) -> SwapRow {
    let data = &event["data"];
    let named = |value: &Value| {
        let name = value["name"].as_str().or(value.as_str())?;
        Some(format!("{name} {}", value["version"].as_str().unwrap_or_default()).trim_end().to_owned())
    };
    let mut said: Vec<String> = named(&data["plugin"]).into_iter().collect();
    said.extend(named(&data["replaced"]).or_else(|| named(&data["from"])).map(|old| format!("← {old}")));
    said.extend(data["reason"].as_str().map(str::to_owned));
    if let (Some(asked), Some(changed)) = (data["shadow"]["replayed"].as_u64(), data["shadow"]["changed"].as_u64()) {
        said.push(format!("{changed}/{asked} ≠"));
    }
    SwapRow {
        at: event["ts"].as_u64().unwrap_or_default(),
        kind: event["type"].as_str().unwrap_or_default().to_owned(),
        said: said.join(" · "),
    }
}

fn log_line(line: &Value) -> (String, String, u64) {
    let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
    (text("level"), text("text"), line["ts"].as_u64().unwrap_or_default())
}

/// What was said about a text, with the line of the place that it names: `at rules[0].category` is on some line of it.
pub fn with_line(text: &str, said: &str) -> String {
    let places = said.split(" at ").skip(1).filter_map(|rest| rest.split_whitespace().next());
    let mut lines = places.filter_map(|word| {
        chela_json5::line_of(text, word.trim_end_matches([':', ',', ';', '.']).trim_start_matches('.'))
    });
    lines.next().map_or_else(|| said.to_owned(), |line| format!("line {line}: {said}"))
}

/// What a form says a plugin's configuration is to be.
pub fn config_of(text: &str) -> Result<Map<String, Value>, String> {
    match crate::config::json5_value(text).map_err(|problem| problem.to_string())? {
        Value::Object(map) => Ok(map),
        _ => Err("it must be an object, as `{ … }`".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_a_page_cannot_show_whole_are_not_taken_for_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rules.json5");
        assert_eq!(rules_of(&path), Rules::Text(String::new()), "there is no file yet");
        let check = |bytes: &[u8], expected: Rules| {
            std::fs::write(&path, bytes).expect("written");
            assert_eq!(rules_of(&path), expected);
        };
        check(b"{ rules: [] }", Rules::Text("{ rules: [] }".into()));
        check(b"{ rules: [] } // caf\xe9", Rules::NotText);
        check("x".repeat(RULES_BYTES_MAX).as_bytes(), Rules::Text("x".repeat(RULES_BYTES_MAX)));
        check("x".repeat(RULES_BYTES_MAX + 1).as_bytes(), Rules::TooLong);
        assert!(matches!(rules_of(folder.path()), Rules::Unread(_)), "a folder is no file of rules");
    }

    #[test]
    fn what_is_wrong_with_a_text_is_told_with_its_line() {
        let text = "{\n  rules: [\n    { category: 'a' },\n    { category: 'b', weight: 'x' },\n  ],\n}";
        let check = |said: &str, expected: &str| assert_eq!(with_line(text, said), expected);
        check("names at rules[1].category the category", "line 4: names at rules[1].category the category");
        check("bad at .rules[0]: not good", "line 3: bad at .rules[0]: not good");
        check("nothing looks at anything", "nothing looks at anything");
        check("it is refused", "it is refused");
    }
}
