//! What the commands of plugins are given on the command line, checked before anything is done: a wrong word is exit code 2.

use crate::plugins::{self, SlotName};

/// A component of this program must be one; whether a file is there is seen when it is read.
pub(super) fn source(text: &str) -> Result<String, String> {
    let Some(name) = text.strip_prefix("builtin:") else { return Ok(text.to_owned()) };
    match plugins::builtin_names().any(|known| known == name) {
        true => Ok(text.to_owned()),
        false => {
            let known: Vec<String> = plugins::builtin_names().map(|name| format!("builtin:{name}")).collect();
            Err(format!("no such component is built in; there is {}", known.join(", ")))
        }
    }
}

pub(super) fn export(text: &str) -> Result<String, String> {
    match plugins::EXPORTS.iter().any(|(known, _)| *known == text) {
        true => Ok(text.to_owned()),
        false => {
            let known: Vec<&str> = plugins::EXPORTS.iter().map(|(known, _)| *known).collect();
            Err(format!("there is no such function; there are {}", known.join(", ")))
        }
    }
}

/// The name of a slot that a plugin could serve in.
pub(super) fn slot(text: &str) -> Result<String, String> {
    text.parse::<SlotName>().map(|slot| slot.to_string()).map_err(|error| error.to_string())
}
