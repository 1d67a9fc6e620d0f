//! `chela config`: read, check and document the configuration.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Subcommand;
use serde_json::{Value, json};

use super::Output;
use crate::config;
use crate::layout::StateDir;
use crate::settings;

#[derive(Subcommand)]
pub(super) enum Config {
    /// Print the configuration with its defaults filled in and its secrets cut out
    Get {
        /// A part of it, such as `gateway.listen` or `agents.list[0]`
        path: Option<String>,
    },
    /// Say whether the configuration can be used, and if not, all that must change
    Check {
        /// Another file, checked as if it were in place
        file: Option<PathBuf>,
    },
    /// Change one value of chela.json; comments and everything else stay as they are
    Set {
        /// Which, such as `agents.model` or `agents.list[0].name`
        path: String,
        /// JSON5; what is none is taken as text
        #[arg(required_unless_present = "remove", allow_hyphen_values = true)]
        value: Option<String>,
        /// Take it out instead
        #[arg(long, conflicts_with = "value")]
        remove: bool,
    },
    /// Print the JSON schema of chela.json
    Schema,
}

impl Config {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        match self {
            Self::Get { path } => get(dir, path.as_deref().unwrap_or_default(), output),
            Self::Check { file } => check(dir, file, output),
            Self::Set { path, value, remove: _ } => set(dir, &path, value.as_deref(), output),
            Self::Schema => {
                let schema = config::Config::schema();
                output.show(schema.document(), || format!("{:#}", schema.document()));
                Ok(())
            }
        }
    }
}

fn set(dir: &StateDir, path: &str, value: Option<&str>, output: Output) -> anyhow::Result<()> {
    let value = value.map(|text| config::json5_value(text).unwrap_or_else(|_| Value::String(text.to_owned())));
    let changed = settings::edit(dir, |text| Ok(chela_json5::set(text, path, value.as_ref())?));
    let changed = changed.map_err(|error| match error {
        settings::Error::Invalid { problems, .. } => anyhow::anyhow!("nothing was changed:\n{problems}"),
        other => other.into(),
    })?;
    output.show(&json!({ "changed": changed }), || match changed.as_slice() {
        [] => format!("{path} is so already"),
        paths => {
            let restart = config::needing_restart(paths);
            let taken_up = match restart.as_slice() {
                [] => "a gateway that serves takes it up by itself".to_owned(),
                some => format!("a gateway that serves takes {} up when it is started again", some.join(", ")),
            };
            format!("changed: {}; {taken_up}", paths.join(", "))
        }
    });
    Ok(())
}

fn get(dir: &StateDir, path: &str, output: Output) -> anyhow::Result<()> {
    let whole = settings::load(dir)?.config.to_value();
    let part = follow(&whole, path)?;
    output.show(part, || match part {
        Value::String(text) => text.clone(),
        other => format!("{other:#}"),
    });
    Ok(())
}

/// Follows `agents.list[0].id`, also written `agents.list.0.id`.
fn follow<'a>(whole: &'a Value, path: &str) -> anyhow::Result<&'a Value> {
    let mut at = whole;
    for step in path.split(['.', '[']).map(|step| step.trim_end_matches(']')).filter(|step| !step.is_empty()) {
        let below = match at {
            Value::Array(items) => step.parse::<usize>().ok().and_then(|index| items.get(index)),
            other => other.get(step),
        };
        at = match (below, at) {
            (Some(below), _) => below,
            (None, Value::Object(keys)) => {
                let keys: Vec<&str> = keys.keys().map(String::as_str).collect();
                bail!("`{path}`: there is no `{step}`; the keys here are {}", keys.join(", "));
            }
            (None, Value::Array(items)) => bail!("`{path}`: there is no `{step}`; the list has {} items", items.len()),
            (None, _) => bail!("`{path}`: there is nothing below a plain value"),
        };
    }
    Ok(at)
}

fn check(dir: &StateDir, file: Option<PathBuf>, output: Output) -> anyhow::Result<()> {
    let path = match file {
        Some(file) => {
            let path = std::path::absolute(&file).with_context(|| format!("{} is no path", file.display()))?;
            settings::check(&path, dir)?;
            path
        }
        None => {
            settings::load(dir)?;
            dir.config()
        }
    };
    output.show(&json!({ "path": path, "valid": true, "problems": [] }), || format!("{} is good", path.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_followed_and_a_wrong_step_is_named() {
        let whole = json!({ "agents": { "list": [{ "id": "eden" }] } });
        let check = |path: &str, expected: Result<Value, &str>| match (follow(&whole, path), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{path}"),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        };
        check("agents.list[0].id", Ok(json!("eden")));
        check("agents.list.0.id", Ok(json!("eden")));
        check("", Ok(whole.clone()));
        check("agnets", Err("the keys here are agents"));
        check("agents.list[1]", Err("the list has 1 items"));
        check("agents.list[0].id.x", Err("nothing below"));
    }
}
