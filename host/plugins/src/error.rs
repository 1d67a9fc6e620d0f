//! Why something about plugins was not done, and what to change.

use std::path::PathBuf;

use super::failure::Failure;
use super::inspect::Refused;
use super::slots::NoSuchSlot;
use super::{cache, signature, source};
use crate::policy::World;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("this machine cannot run components: {said}")]
    Engine { said: String },
    #[error("cannot start a thread for plugins ({0})")]
    Threads(std::io::Error),
    #[error("cannot use {} ({cause}); check its owner and rights, and the disk", path.display())]
    Directory { path: PathBuf, cause: std::io::Error },
    #[error(transparent)]
    NoSuchSlot(#[from] NoSuchSlot),
    #[error(transparent)]
    Source(#[from] source::Error),
    #[error(
        "{source_name}: its SHA-256 is {found}, and {expected} is required; install the right file, or change `sha256`"
    )]
    Hash { source_name: String, expected: String, found: String },
    #[error("{source_name}: {refused}")]
    Signature { source_name: String, refused: signature::Refused },
    #[error("{source_name}: {refused}")]
    Refused { source_name: String, refused: Refused },
    #[error("{source_name} is {}, and the slot {slot} takes a {}", worlds_in_words(worlds), wanted.as_str())]
    World { source_name: String, worlds: Vec<World>, slot: String, wanted: World },
    #[error("{source_name}: {cause}")]
    Compile { source_name: String, cause: cache::Error },
    #[error("{source_name}: it cannot be linked: {said}")]
    Link { source_name: String, said: String },
    #[error("{source_name}: its `describe` failed: {failure}")]
    Describe { source_name: String, failure: Failure },
    #[error("{source_name}: its `describe` gives a bad {field}: {said}")]
    Description { source_name: String, field: &'static str, said: String },
    #[error("{name} refuses its configuration{}: {message}", at(path))]
    Config { name: String, path: String, message: String },
    #[error(
        "{name}: its configuration names at {path} the category {given:?}, which this deployment does not have; write one of {}, or add it to `categories` in chela.json",
        known.join(", ")
    )]
    Category { name: String, path: String, given: String, known: Vec<String> },
    #[error("{name} failed at taking up its configuration: {failure}")]
    Configure { name: String, failure: Failure },
    #[error("{} cannot be used: {said}", path.display())]
    DroppedFile { path: PathBuf, said: String },
    #[error("{name} fails on a recorded input ({export} {digest}): {said}")]
    Shadow { name: String, export: String, digest: String, said: String },
    #[error("{name} imports more than the version it would replace ({}); look at it with `chela plugin inspect`, then `chela plugin accept {slot}`", more.join(", "))]
    Grants { name: String, slot: String, more: Vec<String> },
    #[error("nothing is bound to the slot {slot}; `chela plugin load FILE --slot {slot}` binds something")]
    Unbound { slot: String },
    #[error(
        "the slot {slot} holds what chela.json binds; to serve nothing there, `chela plugin disable {slot}` or set it to null"
    )]
    FromConfig { slot: String },
    #[error("there is no version of {slot} to roll back to")]
    NothingBefore { slot: String },
    #[error("no update of {slot} waits to be accepted")]
    NothingWaits { slot: String },
    #[error("the slot {slot} is not in quarantine")]
    NotQuarantined { slot: String },
    #[error("{slot} is disabled; `chela plugin enable {slot}` ends that")]
    Disabled { slot: String },
    #[error("the newest version of {slot} was rolled back before; mend it, or insist with `chela plugin load`")]
    RolledBack { slot: String },
    #[error(
        "what serves {slot} goes on, since the new version did not take over: {said}; `--fresh` lets it begin anew"
    )]
    Handover { slot: String, said: String },
    #[error("this failed by a fault of the gateway; its log says more")]
    Fault,
    #[error("the gateway is stopping")]
    Stopping,
}

impl Error {
    /// Where in the loading of a component it happened.
    pub fn stage(&self) -> &'static str {
        match self {
            Self::Source(_) | Self::DroppedFile { .. } | Self::Directory { .. } => "read",
            Self::Hash { .. } | Self::Signature { .. } => "verify",
            Self::Refused { .. } | Self::World { .. } => "inspect",
            Self::Compile { .. } => "compile",
            Self::Link { .. } => "link",
            Self::Describe { .. } | Self::Description { .. } => "describe",
            Self::Config { .. } | Self::Category { .. } | Self::Configure { .. } => "configure",
            Self::Shadow { .. } => "shadow",
            Self::Handover { .. } => "restore",
            Self::Grants { .. } => "grants",
            _ => "request",
        }
    }
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" at {path}") }
}

fn worlds_in_words(worlds: &[World]) -> String {
    match worlds {
        [] => "no policy at all".into(),
        worlds => format!("a {}", worlds.iter().map(|world| world.as_str()).collect::<Vec<_>>().join(" and a ")),
    }
}
