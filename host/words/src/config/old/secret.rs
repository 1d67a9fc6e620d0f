//! Where the old system finds a secret, as one of ours; or why there is none.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::Secret;
use super::super::secret::{FromEnv, FromFile};

/// What references of the old system point at.
pub(super) struct Sources<'a> {
    /// The part `secrets`, with its providers.
    pub(super) secrets: &'a Value,
    pub(super) home: Option<&'a Path>,
}

impl Sources<'_> {
    /// The same secret in our words; nothing when there is none, and the reason when it cannot be said here.
    pub(super) fn find(&self, value: &Value) -> Result<Option<Secret>, &'static str> {
        match value {
            Value::Null => Ok(None),
            Value::String(text) => of_text(text.trim()),
            Value::Object(reference) => {
                let text = |key: &str| reference.get(key).and_then(Value::as_str).map(str::trim);
                match (text("source"), text("id")) {
                    (Some("env"), Some(name)) => env(name).map(Some),
                    (Some("file"), Some(id)) => self.file(text("provider"), id).map(Some),
                    (Some("exec"), Some(_)) => Err("comes from a program, which nothing here runs"),
                    (Some(_), Some(_)) => Err("comes from a source that is not known here"),
                    _ => Err("is no secret: neither a text nor {source, provider, id}"),
                }
            }
            _ => Err("is no secret: neither a text nor {source, provider, id}"),
        }
    }

    /// A file with one value is one of ours; a file with many is none.
    fn file(&self, provider: Option<&str>, id: &str) -> Result<Secret, &'static str> {
        let default = self.secrets["defaults"]["file"].as_str().unwrap_or("default");
        let provider = &self.secrets["providers"][provider.unwrap_or(default)];
        match (provider["source"].as_str(), provider["path"].as_str(), provider["mode"].as_str()) {
            (Some("file"), Some(path), Some("singleValue")) if id == "value" => {
                Ok(Secret::File(FromFile { file: self.expanded(path) }))
            }
            (Some("file"), Some(_), _) => {
                Err("is one of many in a file; here a file holds one secret, on its first line")
            }
            _ => Err("names a file that `secrets.providers` does not have"),
        }
    }

    fn expanded(&self, path: &str) -> PathBuf {
        match (path.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => path.into(),
        }
    }
}

fn of_text(text: &str) -> Result<Option<Secret>, &'static str> {
    if text.is_empty() {
        return Ok(None);
    }
    let braced = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let marked = text.strip_prefix("secretref-env:").or_else(|| text.strip_prefix("__env__:"));
    if let Some(name) = braced.or(marked) {
        return env(name).map(Some);
    }
    if let Some(name) = text.strip_prefix('$').filter(|name| is_name(name)) {
        return env(name).map(Some);
    }
    if text.contains("${") {
        return Err("is put together from variables of the environment, which nothing here does");
    }
    Ok(Some(Secret::Text(text.to_owned())))
}

fn env(name: &str) -> Result<Secret, &'static str> {
    match is_name(name) {
        true => Ok(Secret::Env(FromEnv { env: name.to_owned() })),
        false => Err("names no variable of the environment that could be set"),
    }
}

/// As the old system writes names of variables.
fn is_name(name: &str) -> bool {
    let starts_well = name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    let goes_on_well = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    starts_well && goes_on_well && name.len() <= 128
}
