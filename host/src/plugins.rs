//! Components: what runs the deployment's policies. Alone knows wasmtime.
//! Owns the engine and the components inside the binary. Keeps true: a component's trap or refusal is a value here, never a panic.
//! Never: runs a guest on an async thread.

use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Store};

mod builtin {
    include!(concat!(env!("OUT_DIR"), "/builtin.rs"));
}

mod bindings {
    wasmtime::component::bindgen!({ path: "../wit/policy", world: "plugin" });
}

pub use bindings::exports::chela::policy::lifecycle::Description;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this machine cannot run components")]
    Engine(#[source] wasmtime::Error),
    #[error("no component named {name:?} is built in")]
    NotBuiltIn { name: String },
    #[error("the component {name:?} failed")]
    Failed { name: String, source: wasmtime::Error },
}

/// One engine for all components.
pub struct Host {
    engine: Engine,
}

impl Host {
    pub fn new() -> Result<Self, Error> {
        let mut config = Config::new();
        config.wasm_component_model(true).concurrency_support(false);
        // The same input gives the same answer on every machine.
        config.cranelift_nan_canonicalization(true);
        Ok(Self { engine: Engine::new(&config).map_err(Error::Engine)? })
    }

    /// Compiles a built-in component and asks it what it is. It takes tens of milliseconds: not for an async thread.
    pub fn describe(&self, name: &str) -> Result<Description, Error> {
        let failed = |source| Error::Failed { name: name.to_owned(), source };
        let bytes = builtin::BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, bytes)| bytes);
        let bytes = bytes.ok_or_else(|| Error::NotBuiltIn { name: name.to_owned() })?;
        let component = Component::from_binary(&self.engine, bytes).map_err(failed)?;
        let mut store = Store::new(&self.engine, ());
        let plugin =
            bindings::Plugin::instantiate(&mut store, &component, &Linker::new(&self.engine)).map_err(failed)?;
        plugin.chela_policy_lifecycle().call_describe(&mut store).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_component_in_the_binary_compiles_and_answers() {
        let host = Host::new().expect("an engine");
        let description = host.describe("probe").expect("an answer");
        assert_eq!(description.name, "probe");
        assert_eq!(description.version, env!("CARGO_PKG_VERSION"));
        assert!(matches!(host.describe("none"), Err(Error::NotBuiltIn { .. })));
    }
}
