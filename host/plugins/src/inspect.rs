//! What a file is before any of it runs, told by a child process: a component of a world this host knows, or why not.
//! Keeps true: a refusal names the thing, the version on both sides, and what to change. Never: compiles or runs.

mod difference;

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use wit_component::ComponentEncoder;
use wit_parser::decoding::{DecodedWasm, decode};
use wit_parser::{InterfaceId, Resolve, SourceMap, WorldId, WorldItem};

use super::source::hash;
use crate::policy::World;

/// The version of the policy interfaces that this host speaks.
pub const POLICY_VERSION: &str = "0.1.0";
const PACKAGE: &str = "chela:policy";
/// The version of the channel interface that this host speaks.
pub const CHANNEL_VERSION: &str = "0.1.0";
const CHANNEL: &str = "chela:channel";

/// The WIT of this host, for comparison with what a component was built against.
static OWN: LazyLock<Resolve> = LazyLock::new(|| {
    let mut sources = SourceMap::new();
    for (name, text) in [
        ("classification.wit", include_str!("../../../wit/policy/classification.wit")),
        ("lifecycle.wit", include_str!("../../../wit/policy/lifecycle.wit")),
        ("log.wit", include_str!("../../../wit/policy/log.wit")),
        ("prompts.wit", include_str!("../../../wit/policy/prompts.wit")),
        ("tasks.wit", include_str!("../../../wit/policy/tasks.wit")),
        ("tool-guard.wit", include_str!("../../../wit/policy/tool-guard.wit")),
        ("types.wit", include_str!("../../../wit/policy/types.wit")),
        ("world.wit", include_str!("../../../wit/policy/world.wit")),
    ] {
        sources.push_str(name, text);
    }
    let group = sources.parse().map_err(|(_, error)| error).expect("our own WIT parses");
    let mut resolve = Resolve::default();
    resolve.push_group(group).expect("our own WIT resolves");
    let mut sources = SourceMap::new();
    sources.push_str("adapter.wit", include_str!("../../../wit/channel/adapter.wit"));
    sources.push_str("world.wit", include_str!("../../../wit/channel/world.wit"));
    let group = sources.parse().map_err(|(_, error)| error).expect("our own WIT parses");
    resolve.push_group(group).expect("our own WIT resolves");
    resolve
});

/// What is known of a component without running it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Inspection {
    /// `component`, or `module` when it was a core module that carried what a component needs.
    pub form: String,
    pub bytes: usize,
    pub sha256: String,
    /// Our own name for its content.
    pub hash: String,
    /// What it can be bound as.
    pub worlds: Vec<World>,
    pub interface_version: String,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    /// What it imports beyond the log; an update that wants more waits for the operator.
    pub grants: Vec<String>,
}

/// Why a file cannot be a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refused {
    #[error("it is not WebAssembly (it starts with {start:?}); give a component, a .wasm file")]
    NotWasm { start: String },
    #[error(
        "it is a core module without component metadata; build it with the SDK, or run `wasm-tools component embed` and `new`"
    )]
    NotAComponent,
    #[error("it is broken or not whole ({said}); build or copy it again")]
    Broken { said: String },
    #[error(
        "it was built for {theirs}, and this host speaks {ours}{difference}; build it against the WIT of this version"
    )]
    Version { theirs: String, ours: String, difference: String },
    #[error("it does not export {missing}; export it, or use a macro of the SDK")]
    MissingExport { missing: String },
    #[error(
        "it exports no policy: a plugin exports one of {PACKAGE}/classification, tool-guard or prompts, at {POLICY_VERSION}, or {CHANNEL}/adapter at {CHANNEL_VERSION}; it exports {exports}"
    )]
    NoWorld { exports: String },
    #[error("its {interface} differs from {ours}: {difference}; build it against the WIT of this version")]
    Differs { interface: String, ours: String, difference: String },
    #[error("it imports {import}, which no plugin is given; {advice}")]
    Import { import: String, advice: String },
}

/// Looks at the bytes of a file; also gives the component, if it had to be made from a module.
pub fn inspect(bytes: &[u8]) -> Result<(Inspection, Option<Vec<u8>>), Refused> {
    let made = match bytes {
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => None,
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Some(component_of(bytes)?),
        [0, b'a', b's', b'm', ..] if bytes.len() < 8 => return Err(Refused::Broken { said: "it ends early".into() }),
        _ => {
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(8)]).into_owned();
            return Err(Refused::NotWasm { start });
        }
    };
    let broken = |error: &dyn std::fmt::Display| Refused::Broken { said: first_line(error) };
    let decoded = decode(made.as_deref().unwrap_or(bytes)).map_err(|error| broken(&error))?;
    let DecodedWasm::Component(resolve, world) = decoded else {
        return Err(Refused::Broken { said: "it is a WIT package, not a component".into() });
    };
    let facts = facts(&resolve, world);
    let worlds = worlds(&resolve, &facts)?;
    check_imports(&facts)?;
    let grants = facts.imports.iter().filter(|(name, _)| !name.starts_with(PACKAGE));
    let inspection = Inspection {
        form: if made.is_some() { "module" } else { "component" }.into(),
        bytes: bytes.len(),
        sha256: Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
        hash: hash(bytes),
        worlds,
        interface_version: POLICY_VERSION.into(),
        grants: grants.map(|(name, _)| name.clone()).collect(),
        imports: facts.imports.into_iter().map(|(name, _)| name).collect(),
        exports: facts.exports.into_iter().map(|(name, _)| name).collect(),
    };
    Ok((inspection, made))
}

fn component_of(module: &[u8]) -> Result<Vec<u8>, Refused> {
    let named = module.windows(14).any(|window| window == b"component-type");
    if !named {
        return Err(Refused::NotAComponent);
    }
    let made = ComponentEncoder::default().validate(true).module(module).and_then(|mut encoder| encoder.encode());
    made.map_err(|error| Refused::Broken { said: first_line(&format!("{error:#}")) })
}

fn first_line(error: &dyn std::fmt::Display) -> String {
    error.to_string().lines().next().unwrap_or_default().chars().take(300).collect()
}

/// Imported and exported interfaces by their full names.
struct Facts {
    imports: Vec<(String, Option<InterfaceId>)>,
    exports: Vec<(String, Option<InterfaceId>)>,
}

fn facts(resolve: &Resolve, world: WorldId) -> Facts {
    let world = &resolve.worlds[world];
    let named = |(key, item): (&wit_parser::WorldKey, &WorldItem)| {
        let id = if let WorldItem::Interface { id, .. } = item { Some(*id) } else { None };
        (resolve.name_world_key(key), id)
    };
    Facts { imports: world.imports.iter().map(named).collect(), exports: world.exports.iter().map(named).collect() }
}

fn worlds(resolve: &Resolve, facts: &Facts) -> Result<Vec<World>, Refused> {
    let refused = facts.exports.iter().filter_map(|(name, id)| check_export(resolve, name, *id).err());
    let mut refused: Vec<Refused> = refused.collect();
    // Of several refusals, one that names a difference says most.
    refused.sort_by_key(|refused| matches!(refused, Refused::Version { difference, .. } if difference.is_empty()));
    if let Some(first) = refused.into_iter().next() {
        return Err(first);
    }
    let exports = |wanted: &str| facts.exports.iter().any(|(name, _)| name == wanted);
    let has = |interface: &str| exports(&full_name(interface));
    let worlds: Vec<World> = World::ALL.into_iter().filter(|world| exports(&interface_of(*world))).collect();
    if worlds.is_empty() && !has("lifecycle") {
        let names: Vec<&str> = facts.exports.iter().map(|(name, _)| name.as_str()).collect();
        let exports = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(Refused::NoWorld { exports });
    }
    if !has("lifecycle") {
        return Err(Refused::MissingExport { missing: full_name("lifecycle") });
    }
    Ok(worlds)
}

/// An exported interface of our package must be ours in every type, under a version that we speak.
fn check_export(resolve: &Resolve, name: &str, id: Option<InterfaceId>) -> Result<(), Refused> {
    let below = |package: &str| name.strip_prefix(package).and_then(|rest| rest.strip_prefix('/'));
    let found = [(PACKAGE, POLICY_VERSION), (CHANNEL, CHANNEL_VERSION)]
        .into_iter()
        .find_map(|(package, spoken)| Some((package, spoken, below(package)?)));
    let (Some((package, spoken, rest)), Some(id)) = (found, id) else { return Ok(()) };
    let ours = format!("{package}@{spoken}");
    let (interface, version) = rest.split_once('@').unwrap_or((rest, "no version"));
    let own = OWN.interfaces.iter().find(|(_, own)| own.name.as_deref() == Some(interface)).map(|(id, _)| id);
    let difference = own.map(|own| difference::between((resolve, id), (&OWN, own)));
    match (version == spoken, difference) {
        (true, Some(None)) => Ok(()),
        (true, Some(Some(difference))) => Err(Refused::Differs { interface: interface.to_owned(), ours, difference }),
        (true, None) => {
            let difference = "there is no such interface".to_owned();
            Err(Refused::Differs { interface: interface.to_owned(), ours, difference })
        }
        (false, difference) => {
            let said = difference.flatten().map(|difference| format!(" (in {interface}: {difference})"));
            let theirs = format!("{package}@{version}");
            Err(Refused::Version { theirs, ours, difference: said.unwrap_or_default() })
        }
    }
}

fn check_imports(facts: &Facts) -> Result<(), Refused> {
    for (name, _) in &facts.imports {
        let refused = |advice: &str| Err(Refused::Import { import: name.clone(), advice: advice.to_owned() });
        match name.split(['/', '@']).next().unwrap_or_default() {
            PACKAGE if ["log", "tasks", "types"].iter().any(|known| *name == full_name(known)) => {}
            PACKAGE if !name.ends_with(&format!("@{POLICY_VERSION}")) => {
                let (theirs, ours) = (name.clone(), format!("{PACKAGE}@{POLICY_VERSION}"));
                return Err(Refused::Version { theirs, ours, difference: String::new() });
            }
            PACKAGE => return refused("policies import `log` alone"),
            "wasi:cli" | "wasi:clocks" | "wasi:io" | "wasi:random" | "wasi:filesystem" => {
                if !super::wasi::is_answered(name) {
                    return refused("the WASI of plugins has nothing in it, and not this either");
                }
            }
            "wasi:sockets" | "wasi:http" => {
                return refused("a policy has no network; build without it (for Python, with `--stub-wasi`)");
            }
            _ => return refused("what a policy needs to know is in its argument"),
        }
    }
    Ok(())
}

/// The interface that makes a component one of a world.
fn interface_of(world: World) -> String {
    match world {
        World::Classifier => full_name("classification"),
        World::Guard => full_name("tool-guard"),
        World::Continuation => full_name("prompts"),
        World::Channel => format!("{CHANNEL}/adapter@{CHANNEL_VERSION}"),
    }
}

fn full_name(interface: &str) -> String {
    format!("{PACKAGE}/{interface}@{POLICY_VERSION}")
}
