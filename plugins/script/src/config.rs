//! The configuration: the script's text, where it came from, and values for it.

use chela_sdk::ConfigError;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A longer text is a program, and belongs into a component of its own.
const SCRIPT_BYTES_MAX: usize = 256 * 1024;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The script itself.
    pub script: String,
    /// The name of its file, for messages.
    pub file: String,
    /// What it has to be; without it, any of the three.
    pub world: Option<World>,
    /// Values that the script reads with `settings()`.
    pub settings: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    Classifier,
    Guard,
    Continuation,
}

impl Config {
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.script.trim().is_empty() {
            let message = "there is no script; give its text as `script`, or put it into plugins/classifier.rhai, guard.rhai or continuation.rhai";
            return Err(ConfigError::at(self.place(), message));
        }
        match self.script.len() {
            0..=SCRIPT_BYTES_MAX => Ok(()),
            length => {
                let message = format!(
                    "the script has {length} bytes, {SCRIPT_BYTES_MAX} are allowed; a component in Rust, JavaScript or Python has room for more"
                );
                Err(ConfigError::at(self.place(), message))
            }
        }
    }

    /// What people know the script by.
    pub fn place(&self) -> String {
        if self.file.is_empty() { "script".into() } else { self.file.clone() }
    }
}
