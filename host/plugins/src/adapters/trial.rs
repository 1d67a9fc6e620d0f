//! An adapter by hand: calls with JSON in and JSON out, without a network. For `chela plugin try`, `test` and `bench`.

use std::time::{Duration, Instant};

use chela_channel::{Bounds, Input, Output, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::dispatch::{Error, read};
use super::super::failure::Failure;
use super::super::instance::{Instance, Surroundings};
use super::words;

/// The one function of an adapter that is asked by name.
pub(in super::super) const EXPORT: &str = "handle";

/// What an adapter is told: some calls that lead to where it stands, and the one that counts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Told {
    /// The inputs of earlier calls; what it answered to them is not looked at.
    #[serde(default)]
    before: Vec<Vec<Input>>,
    inputs: Vec<Input>,
}

pub(in super::super) fn told(input: &Value) -> Result<Told, Error> {
    read(EXPORT, input)
}

/// What it answers to the last call, after all before it.
pub(in super::super) fn call(instance: &mut Instance, told: &Told, around: &Surroundings) -> Result<Value, Failure> {
    lead(instance, told, around)?;
    answer(instance, told, around)
}

/// What another instance answers that goes on from where the first one stood.
pub(in super::super) fn call_restored(
    first: &mut Instance,
    second: &mut Instance,
    told: &Told,
    around: &Surroundings,
) -> Result<Value, Failure> {
    lead(first, told, around)?;
    let state: State = words::snapshot(first, around)?;
    words::restore(second, &state, around)?;
    answer(second, told, around)
}

/// How long each of `count` calls takes, one after the other on the same instance.
pub(in super::super) fn time(
    instance: &mut Instance,
    told: &Told,
    around: &Surroundings,
    count: usize,
) -> Result<Vec<Duration>, Failure> {
    lead(instance, told, around)?;
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let from = Instant::now();
        words::handle(instance, &told.inputs, around)?;
        took.push(from.elapsed());
    }
    Ok(took)
}

fn lead(instance: &mut Instance, told: &Told, around: &Surroundings) -> Result<(), Failure> {
    told.before.iter().try_for_each(|inputs| handle(instance, inputs, around).map(drop))
}

fn answer(instance: &mut Instance, told: &Told, around: &Surroundings) -> Result<Value, Failure> {
    Ok(json!({ "outputs": handle(instance, &told.inputs, around)? }))
}

/// One call, its answer held to what the host takes.
fn handle(instance: &mut Instance, inputs: &[Input], around: &Surroundings) -> Result<Vec<Output>, Failure> {
    let outputs = words::handle(instance, inputs, around)?;
    chela_channel::check(&outputs, inputs.len(), &Bounds::default()).map_err(|said| Failure::Invalid { said })?;
    Ok(outputs)
}
