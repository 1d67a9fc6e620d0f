//! The smallest component there is. `chela doctor` calls it to prove that this machine compiles and runs components.

wit_bindgen::generate!({ path: "../../wit/policy", world: "plugin" });

use exports::chela::policy::lifecycle::{ConfigError, Description, Guest};

struct Probe;

impl Guest for Probe {
    fn describe() -> Description {
        Description {
            name: env!("CARGO_PKG_NAME").into(),
            version: env!("CARGO_PKG_VERSION").into(),
            summary: env!("CARGO_PKG_DESCRIPTION").into(),
            config_schema: String::new(),
        }
    }

    fn configure(json: String) -> Result<(), ConfigError> {
        match json.trim() {
            "" | "{}" | "null" => Ok(()),
            _ => Err(ConfigError { path: String::new(), message: "the probe takes no configuration".into() }),
        }
    }
}

export!(Probe);
