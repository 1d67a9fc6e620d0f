//! Lines for the plugin's own log, which `chela plugin logs SLOT` shows.

use crate::worlds::base::chela::policy::log::{Level, write};

pub fn trace(text: &str) {
    send(Level::Trace, text);
}

pub fn debug(text: &str) {
    send(Level::Debug, text);
}

pub fn info(text: &str) {
    send(Level::Info, text);
}

pub fn warn(text: &str) {
    send(Level::Warn, text);
}

pub fn error(text: &str) {
    send(Level::Error, text);
}

fn send(level: Level, text: &str) {
    // Outside a component, in a plugin's own tests, there is no host to write to.
    if cfg!(target_family = "wasm") {
        write(level, text);
    } else {
        eprintln!("{level:?}: {text}");
    }
}
