//! Calls by name with JSON in and JSON out: for trying a component by hand and for replaying recorded inputs.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::adapters::trial;
use super::failure::Failure;
use super::instance::{Instance, Surroundings};
use super::worlds::{BeforeToolCall, Call, Categories, Instructions, Next, Roles};
use crate::policy::World;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no function {given:?}; there are {}", EXPORTS.map(|(name, _)| name).join(", "))]
    NoSuchExport { given: String },
    #[error("the input does not fit `{export}`: {said}")]
    Input { export: String, said: String },
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// Every function with its world.
pub const EXPORTS: [(&str, World); 6] = [
    (Roles::EXPORT, Roles::WORLD),
    (Categories::EXPORT, Categories::WORLD),
    (BeforeToolCall::EXPORT, BeforeToolCall::WORLD),
    (Instructions::EXPORT, Instructions::WORLD),
    (Next::EXPORT, Next::WORLD),
    (trial::EXPORT, World::Channel),
];

pub(super) fn call(
    instance: &mut Instance,
    export: &str,
    input: &Value,
    around: &Surroundings,
) -> Result<Value, Error> {
    match export {
        Roles::EXPORT => one::<Roles>(instance, input, around),
        Categories::EXPORT => one::<Categories>(instance, input, around),
        BeforeToolCall::EXPORT => one::<BeforeToolCall>(instance, input, around),
        Instructions::EXPORT => one::<Instructions>(instance, input, around),
        Next::EXPORT => one::<Next>(instance, input, around),
        trial::EXPORT => Ok(trial::call(instance, &trial::told(input)?, around)?),
        other => Err(Error::NoSuchExport { given: other.chars().take(80).collect() }),
    }
}

fn one<C: Call>(instance: &mut Instance, input: &Value, around: &Surroundings) -> Result<Value, Error> {
    let output = instance.call::<C>(&read(C::EXPORT, input)?, around)?;
    Ok(serde_json::to_value(output).expect("an answer is plain JSON"))
}

/// How long each of `count` calls takes at the instance, JSON left aside.
pub(super) fn time(
    instance: &mut Instance,
    export: &str,
    input: &Value,
    around: &Surroundings,
    count: usize,
) -> Result<Vec<Duration>, Error> {
    match export {
        Roles::EXPORT => time_one::<Roles>(instance, input, around, count),
        Categories::EXPORT => time_one::<Categories>(instance, input, around, count),
        BeforeToolCall::EXPORT => time_one::<BeforeToolCall>(instance, input, around, count),
        Instructions::EXPORT => time_one::<Instructions>(instance, input, around, count),
        Next::EXPORT => time_one::<Next>(instance, input, around, count),
        trial::EXPORT => Ok(trial::time(instance, &trial::told(input)?, around, count)?),
        other => Err(Error::NoSuchExport { given: other.chars().take(80).collect() }),
    }
}

fn time_one<C: Call>(
    instance: &mut Instance,
    input: &Value,
    around: &Surroundings,
    count: usize,
) -> Result<Vec<Duration>, Error> {
    let input = read(C::EXPORT, input)?;
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let from = Instant::now();
        instance.call::<C>(&input, around)?;
        took.push(from.elapsed());
    }
    Ok(took)
}

/// Whether a function takes such an input.
pub(super) fn check(export: &str, input: &Value) -> Result<(), Error> {
    match export {
        Roles::EXPORT => read::<<Roles as Call>::Input>(Roles::EXPORT, input).map(drop),
        Categories::EXPORT => read::<<Categories as Call>::Input>(Categories::EXPORT, input).map(drop),
        BeforeToolCall::EXPORT => read::<<BeforeToolCall as Call>::Input>(BeforeToolCall::EXPORT, input).map(drop),
        Instructions::EXPORT => read::<<Instructions as Call>::Input>(Instructions::EXPORT, input).map(drop),
        Next::EXPORT => read::<<Next as Call>::Input>(Next::EXPORT, input).map(drop),
        trial::EXPORT => trial::told(input).map(drop),
        other => Err(Error::NoSuchExport { given: other.chars().take(80).collect() }),
    }
}

pub(super) fn read<T: DeserializeOwned>(export: &str, input: &Value) -> Result<T, Error> {
    serde_path_to_error::deserialize(input).map_err(|error| {
        let (path, said) = (error.path().to_string(), error.inner().to_string());
        let said = if path == "." { said } else { format!("at {path}: {said}") };
        Error::Input { export: export.into(), said }
    })
}
