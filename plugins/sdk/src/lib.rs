//! Makes a Chela plugin one `impl` and one macro line.
//!
//! ```ignore
//! use chela_sdk::guard::{Guard, Request, Verdict};
//! use chela_sdk::{ConfigError, Failure, Plugin};
//!
//! struct NoDeletes;
//!
//! impl Plugin for NoDeletes {
//!     fn configure(_json: &str) -> Result<Self, ConfigError> {
//!         Ok(Self)
//!     }
//! }
//!
//! impl Guard for NoDeletes {
//!     fn before_tool_call(&self, request: Request) -> Result<Verdict, Failure> {
//!         Ok(if request.tool == "files_delete" { Verdict::AllowWith("deleting".into()) } else { Verdict::Allow })
//!     }
//! }
//!
//! chela_sdk::guard!(NoDeletes);
//! ```
//!
//! Name, version and summary of the plugin are those of its `Cargo.toml`. A panic's text goes to the plugin's log before the call fails.

#[cfg(feature = "channel")]
pub mod channel;
pub mod classifier;
pub mod continuation;
pub mod guard;
pub mod log;
pub mod roles;
#[doc(hidden)]
pub mod worlds;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Once;

use serde::de::DeserializeOwned;

pub use worlds::base::chela::policy::tasks::{Agent, Step, StepStatus, Task};
pub use worlds::base::chela::policy::types::{Context, Failure};
pub use worlds::base::exports::chela::policy::lifecycle::ConfigError;

/// A call is mostly strings that come and go; this allocator is quicker about them than the standard library's.
#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// What every plugin is, whatever its world: a value made from the deployment's configuration.
pub trait Plugin: Sized + 'static {
    /// The JSON schema of the configuration; empty when there is nothing to configure.
    const CONFIG_SCHEMA: &'static str = "";

    /// Limits below those of the deployment, by the names of its configuration: `&[("cpuMs", 5), ("memoryMb", 4)]`.
    const LIMITS: &'static [(&'static str, u32)] = &[];

    /// Checks the configuration, a JSON object (`{}` when there is none), and makes the plugin of it.
    fn configure(json: &str) -> Result<Self, ConfigError>;
}

impl ConfigError {
    /// A refusal: where in the configuration, as `rules[2].weight` (empty for the whole), and what to write instead.
    pub fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

/// Reads a configuration into a type of yours; an error says where the JSON went wrong.
pub fn parse_config<T: DeserializeOwned>(json: &str) -> Result<T, ConfigError> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        ConfigError::at(if path == "." { String::new() } else { path }, error.inner().to_string())
    })?;
    deserializer.end().map_err(|error| ConfigError::at("", error.to_string()))?;
    Ok(value)
}

/// For plugins without a configuration: refuses anything but an empty one.
pub fn no_config(json: &str) -> Result<(), ConfigError> {
    match json.trim() {
        "" | "{}" | "null" => Ok(()),
        _ => Err(ConfigError::at("", "this plugin takes no configuration")),
    }
}

/// What a plugin asks of its limits, as its description says it. Used by the macros.
#[doc(hidden)]
pub fn limits<P: Plugin>() -> Vec<(String, String)> {
    P::LIMITS.iter().map(|(name, value)| (format!("limits.{name}"), value.to_string())).collect()
}

/// Holds the configured plugin of an instance. Used by the macros.
#[doc(hidden)]
pub struct Holder<P>(RefCell<Option<Rc<P>>>);

impl<P: Plugin> Holder<P> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(RefCell::new(None))
    }

    pub fn configure(&self, json: &str) -> Result<(), ConfigError> {
        tell_panics();
        let plugin = P::configure(json)?;
        *self.0.borrow_mut() = Some(Rc::new(plugin));
        Ok(())
    }

    pub fn get(&self) -> Result<Rc<P>, Failure> {
        let held = self.0.borrow().clone();
        held.ok_or_else(|| Failure::Internal("called before it was configured".into()))
    }
}

/// A panic would otherwise arrive at the host as `unreachable`, without a word.
#[doc(hidden)]
pub fn tell_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|info| log::error(&info.to_string())));
    });
}

/// The lifecycle that every world has, for the macros.
#[doc(hidden)]
#[macro_export]
macro_rules! lifecycle {
    ($plugin:ty) => {
        struct Exported;

        ::std::thread_local! {
            static HELD: $crate::Holder<$plugin> = const { $crate::Holder::new() };
        }

        impl $crate::worlds::base::exports::chela::policy::lifecycle::Guest for Exported {
            fn describe() -> $crate::worlds::base::exports::chela::policy::lifecycle::Description {
                $crate::tell_panics();
                $crate::worlds::base::exports::chela::policy::lifecycle::Description {
                    name: env!("CARGO_PKG_NAME").into(),
                    version: env!("CARGO_PKG_VERSION").into(),
                    summary: env!("CARGO_PKG_DESCRIPTION").into(),
                    config_schema: <$plugin as $crate::Plugin>::CONFIG_SCHEMA.into(),
                    attrs: $crate::limits::<$plugin>(),
                }
            }

            fn configure(json: ::std::string::String) -> ::std::result::Result<(), $crate::ConfigError> {
                HELD.with(|held| held.configure(&json))
            }
        }

        $crate::worlds::base::export_lifecycle!(Exported);
    };
}

/// Outside wasm nothing is exported, so that a plugin's logic can be a library of tests and benches; the compiler is told all the same.
#[doc(hidden)]
#[macro_export]
macro_rules! used {
    ($plugin:ty) => {
        const _: fn() = || {
            let _ = <$plugin as $crate::Plugin>::configure;
        };
    };
}

/// Exports a type that implements the traits of all three policy worlds as one component.
#[macro_export]
macro_rules! every_policy {
    ($plugin:ty) => {
        $crate::used!($plugin);
        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::lifecycle!($plugin);
            $crate::export_classifier!();
            $crate::export_guard!();
            $crate::export_continuation!();
        };
    };
}

/// Exports a type that implements [`Plugin`] and nothing else.
#[macro_export]
macro_rules! plugin {
    ($plugin:ty) => {
        $crate::used!($plugin);
        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::lifecycle!($plugin);
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Sample {
        rules: Vec<Rule>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[allow(dead_code)]
    struct Rule {
        weight: f64,
    }

    #[test]
    fn a_bad_configuration_is_refused_with_its_place() {
        let error = parse_config::<Sample>(r#"{"rules": [{"weight": 1}, {"weight": "much"}]}"#).expect_err("refused");
        assert_eq!(error.path, "rules[1].weight");
        let error = parse_config::<Sample>("[").expect_err("refused");
        assert_eq!(error.path, "");
        assert!(parse_config::<Sample>(r#"{"rules": []} extra"#).is_err());
    }
}
