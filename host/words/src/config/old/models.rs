//! The part `models` of the old configuration, and models as agents name them.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::super::models::is_this_machine;
use super::super::{ModelRef, Provider, Providers, Secret};
use super::notes::{Notes, below, kind, object};
use super::secret::Sources;

const MODELS_MAX: usize = 500;
const PROVIDERS_MAX: usize = 200;

/// Providers that the old system knows by itself, with the variable that has their key.
const KNOWN: [(&str, &str, Option<&str>, &str); 3] = [
    ("anthropic", "anthropic", None, "ANTHROPIC_API_KEY"),
    ("openai", "openai", None, "OPENAI_API_KEY"),
    ("openrouter", "openai", Some("https://openrouter.ai/api/v1"), "OPENROUTER_API_KEY"),
];

pub(super) fn read(notes: &mut Notes, secrets: &Sources<'_>, value: &Value) -> Providers {
    let mut providers = Providers::new();
    for (key, value) in object(notes, value, "models").into_iter().flatten() {
        match key.as_str() {
            "providers" => {
                for (name, value) in object(notes, value, "models.providers").into_iter().flatten() {
                    let path = below("models.providers", name);
                    if providers.len() == PROVIDERS_MAX {
                        notes.ignore(path, format!("there are {PROVIDERS_MAX} already"));
                        continue;
                    }
                    let Some(fields) = object(notes, value, &path) else { continue };
                    providers.extend(provider(notes, secrets, name, fields, &path).map(|found| (name.clone(), found)));
                }
            }
            "mode" => {}
            _ => notes.ignore(below("models", key), "has no counterpart here"),
        }
    }
    providers
}

fn provider(
    notes: &mut Notes,
    secrets: &Sources<'_>,
    name: &str,
    fields: &Map<String, Value>,
    path: &str,
) -> Option<Provider> {
    let field = |key: &str| fields.get(key).unwrap_or(&Value::Null);
    let spoken = notes.text(field("api"), &below(path, "api"));
    let kind = match (spoken.as_deref(), name) {
        (Some("anthropic-messages"), _) | (None, "anthropic") => "anthropic",
        (Some("openai-completions"), _) | (None, _) => "openai",
        (Some(_), _) => {
            notes.ignore(path, "speaks an interface that is not known here; `anthropic` and `openai` are");
            return None;
        }
    };
    if name.is_empty() || name.len() > 64 || name.contains(|c: char| c == '/' || c.is_whitespace()) {
        notes.ignore(path, "a provider's name has at most 64 bytes, no space and no `/`");
        return None;
    }
    let url = notes.text(field("baseUrl"), &below(path, "baseUrl"));
    let good = |url: &str| {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        rest.is_some_and(|rest| {
            !rest.is_empty() && !rest.contains(|c: char| c.is_whitespace() || matches!(c, '?' | '#'))
        })
    };
    let known = KNOWN.iter().find(|known| known.0 == name);
    let url = url.or_else(|| known.and_then(|known| known.2).map(str::to_owned));
    if url.as_deref().is_some_and(|url| !good(url)) || (url.is_none() && known.is_none()) {
        notes.ignore(path, "has no `baseUrl` such as https://host/v1, so nobody knows where it is");
        return None;
    }
    let mut made = json!({ "kind": kind, "models": models(notes, field("models"), &below(path, "models")) });
    if let Some(url) = &url {
        made["baseUrl"] = json!(url.trim_end_matches('/'));
    }
    for key in fields.keys().filter(|key| !["api", "baseUrl", "apiKey", "models", "auth"].contains(&key.as_str())) {
        notes.ignore(below(path, key), "has no counterpart here");
    }
    let mut provider: Provider = match serde_json::from_value(made) {
        Ok(provider) => provider,
        Err(error) => {
            notes.wrong(path, error.to_string());
            return None;
        }
    };
    provider.key = key(notes, secrets, fields, path);
    let open = url.as_deref().is_some_and(|url| url.starts_with("http://") && !is_this_machine(url));
    if open && provider.key.take().is_some() {
        notes.ignore(below(path, "apiKey"), "would travel unencrypted; use https and set `key` in chela.json");
    }
    Some(provider)
}

fn key(notes: &mut Notes, secrets: &Sources<'_>, fields: &Map<String, Value>, path: &str) -> Option<Secret> {
    let value = fields.get("apiKey").unwrap_or(&Value::Null);
    // The old system also takes the bare name of a variable.
    let bare = value.as_str().filter(|text| text.ends_with("_API_KEY"));
    let found = match bare {
        Some(name) => secrets.find(&json!({ "source": "env", "id": name })),
        None => secrets.find(value),
    };
    found.unwrap_or_else(|reason| {
        notes.ignore(below(path, "apiKey"), format!("{reason}; set `key` of this provider in chela.json"));
        None
    })
}

fn models(notes: &mut Notes, value: &Value, path: &str) -> Vec<Value> {
    let Value::Array(list) = value else {
        if !value.is_null() {
            notes.wrong(path, format!("must be a list, not {}", kind(value)));
        }
        return Vec::new();
    };
    if list.len() > MODELS_MAX {
        notes.ignore(path, format!("the first {MODELS_MAX} of {} are taken", list.len()));
    }
    let mut taken = Vec::new();
    for (at, value) in list.iter().take(MODELS_MAX).enumerate() {
        let path = format!("{path}[{at}]");
        let Some(fields) = object(notes, value, &path) else { continue };
        let field = |key: &str| fields.get(key).unwrap_or(&Value::Null);
        let Some(id) = notes.text(field("id"), &below(&path, "id")).filter(|id| id.len() <= 200) else {
            notes.ignore(path, "has no `id` of at most 200 bytes");
            continue;
        };
        let mut model = json!({ "id": id });
        if let Some(name) = notes.text(field("name"), &below(&path, "name")) {
            model["name"] = json!(name);
        }
        for (key, range) in [("contextWindow", 1_000..=100_000_000), ("maxTokens", 1..=10_000_000)] {
            match field(key).as_u64() {
                Some(number) if range.contains(&number) => model[key] = json!(number),
                None if field(key).is_null() => {}
                _ => notes.ignore(below(&path, key), "is not within what is taken here; the default holds"),
            }
        }
        taken.push(model);
    }
    taken
}

/// Models as agents name them.
pub(super) struct Names<'a> {
    providers: &'a mut Providers,
    aliases: HashMap<String, String>,
}

impl<'a> Names<'a> {
    /// `described` is `agents.defaults.models`: `{PROVIDER/MODEL: {alias}}`.
    pub(super) fn new(providers: &'a mut Providers, described: &Value) -> Self {
        let described = described.as_object().into_iter().flatten();
        let alias = |(name, facts): (&String, &Value)| Some((facts["alias"].as_str()?.to_lowercase(), name.clone()));
        Self { providers, aliases: described.filter_map(alias).collect() }
    }

    /// A model and those that are tried when it fails: a text, or `{primary, fallbacks}`.
    pub(super) fn choice(&mut self, notes: &mut Notes, value: &Value, path: &str) -> (Option<ModelRef>, Vec<ModelRef>) {
        let Value::Object(fields) = value else {
            return (notes.text(value, path).and_then(|name| self.named(notes, &name, path)), Vec::new());
        };
        let (mut primary, mut fallbacks) = (None, Vec::new());
        for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            let path = below(path, key);
            match (key.as_str(), value) {
                ("primary", value) => {
                    primary = notes.text(value, &path).and_then(|name| self.named(notes, &name, &path));
                }
                ("fallbacks", Value::Array(list)) => {
                    for (at, value) in list.iter().enumerate() {
                        let path = format!("{path}[{at}]");
                        let name = notes.text(value, &path);
                        fallbacks.extend(name.and_then(|name| self.named(notes, &name, &path)));
                    }
                }
                ("fallbacks", other) => notes.wrong(path, format!("must be a list, not {}", kind(other))),
                _ => notes.ignore(path, "has no counterpart here"),
            }
        }
        (primary, fallbacks)
    }

    fn named(&mut self, notes: &mut Notes, name: &str, path: &str) -> Option<ModelRef> {
        let name = self.aliases.get(&name.to_lowercase()).map_or(name, String::as_str).to_owned();
        let good = |provider: &str, model: &str| {
            (1..=64).contains(&provider.len())
                && (1..=200).contains(&model.len())
                && !name.contains(char::is_whitespace)
        };
        let Some((provider, _)) = name.split_once('/').filter(|(provider, model)| good(provider, model)) else {
            notes.ignore(path, "names no PROVIDER/MODEL; write one into chela.json");
            return None;
        };
        if !self.providers.contains_key(provider) {
            let Some((known, kind, url, variable)) = KNOWN.into_iter().find(|known| known.0 == provider) else {
                let reason = "no such provider is known here; add it to `providers` in chela.json, then name the model";
                notes.ignore(path, reason);
                return None;
            };
            let mut made = json!({ "kind": kind, "key": { "env": variable } });
            if let Some(url) = url {
                made["baseUrl"] = json!(url);
            }
            let made = serde_json::from_value(made).expect("a good provider");
            self.providers.insert(known.to_owned(), made);
            notes.ignore(
                format!("models.providers.{known}"),
                format!("not there, and made since agents name it; its key comes from the variable {variable}"),
            );
        }
        Some(ModelRef(name))
    }
}
