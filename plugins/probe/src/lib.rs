//! The smallest component there is. `chela doctor` calls it to prove that this machine compiles and runs components.

use chela_sdk::{ConfigError, Plugin, no_config};

struct Probe;

impl Plugin for Probe {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        no_config(json).map(|()| Self)
    }
}

chela_sdk::plugin!(Probe);
