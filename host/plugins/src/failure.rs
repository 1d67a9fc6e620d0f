//! How a component fails, as a value: which limit it passed, how it trapped, or what was wrong with its answer.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use wasmtime::Trap;

/// Why a call gave no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("it passed its limit of {limit}: {said}")]
    Limit { limit: Limit, said: String },
    #[error("it trapped: {said}")]
    Trapped { said: String },
    /// The component said so itself.
    #[error("it gave no answer: {said}")]
    Declined { said: String },
    #[error("its answer cannot be used: {said}")]
    Invalid { said: String },
    /// Not the component's fault: nothing ran.
    #[error("no thread was free for it within {} ms", waited.as_millis())]
    Busy { waited: Duration },
    #[error("the gateway is stopping")]
    Stopping,
}

/// What a component has a limit of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    CpuTime,
    WallTime,
    Memory,
    Tables,
    Instances,
    ResultSize,
    Stack,
    Randomness,
}

impl Limit {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CpuTime => "cpu-time",
            Self::WallTime => "wall-time",
            Self::Memory => "memory",
            Self::Tables => "tables",
            Self::Instances => "instances",
            Self::ResultSize => "result-size",
            Self::Stack => "stack",
            Self::Randomness => "randomness",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Passes through wasmtime when the host ends a call.
#[derive(Debug, thiserror::Error)]
#[error("{limit}: {said}")]
pub(super) struct Passed {
    pub(super) limit: Limit,
    pub(super) said: String,
}

impl Passed {
    pub(super) fn new(limit: Limit, said: impl Into<String>) -> Self {
        Self { limit, said: said.into() }
    }
}

/// Passes through wasmtime when a component ends itself.
#[derive(Debug, thiserror::Error)]
#[error("it called exit")]
pub(super) struct Exited;

impl Failure {
    /// The word for events, metrics and statistics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Limit { .. } => "limit",
            Self::Trapped { .. } => "trapped",
            Self::Declined { .. } => "declined",
            Self::Invalid { .. } => "invalid",
            Self::Busy { .. } => "busy",
            Self::Stopping => "stopping",
        }
    }

    /// Whether the component is to blame.
    pub fn is_its_own(&self) -> bool {
        !matches!(self, Self::Busy { .. } | Self::Stopping)
    }

    /// What ended a call inside wasmtime; `panicked` is what the guest logged last as an error, if it did.
    pub(super) fn of(error: &wasmtime::Error, panicked: Option<&str>) -> Self {
        if let Some(passed) = error.downcast_ref::<Passed>() {
            return Self::Limit { limit: passed.limit, said: passed.said.clone() };
        }
        if let Some(exited) = error.downcast_ref::<Exited>() {
            return Self::Trapped { said: exited.to_string() };
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::StackOverflow) => Self::Limit { limit: Limit::Stack, said: "the calls nest too deep".into() },
            Some(trap) => {
                let said = trap.to_string();
                Self::Trapped { said: panicked.map_or(said.clone(), |panic| format!("{said}: {panic}")) }
            }
            None if is_result_size(error) => {
                let said = "it handed over more data than one call may".into();
                Self::Limit { limit: Limit::ResultSize, said }
            }
            // Strings that are not UTF-8, lists out of bounds: the answer breaks the component model's rules.
            None => Self::Invalid { said: chain(error) },
        }
    }
}

/// wasmtime keeps the type of this error to itself.
fn is_result_size(error: &wasmtime::Error) -> bool {
    error.chain().any(|cause| cause.to_string().contains("fuel allocated for hostcalls has been exhausted"))
}

/// An error with its causes on one line.
pub(super) fn chain(error: &wasmtime::Error) -> String {
    let causes: Vec<String> = error.chain().map(|cause| cause.to_string().replace('\n', " ")).collect();
    causes.join(": ")
}
