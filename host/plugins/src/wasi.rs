//! WASI with nothing in it, for components of toolchains that cannot do without.
//! Keeps true: clocks tell the call's time, chance comes from its seed, every wait is over at once, every stream is empty, what is
//! written goes to the plugin's log. Never: sleeps, blocks, or reaches anything outside the component.
//!
//! Answers are made from the types of the component's own imports, so any 0.2 version of the interfaces will do.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{Component, Linker, ResourceDynamic, ResourceType, Type, Val};
use wasmtime::{AsContextMut, Engine, StoreContextMut};

use super::failure::{Exited, Limit, Passed};
use super::instance::Guest;

const RANDOM_BYTES_MAX: u64 = 64 * 1024;
/// What a writer may hand over at once.
const WRITE_BYTES_MAX: u64 = 4 * 1024;

/// Representations of the streams that are told apart.
const OTHER: u32 = 0;
const STDOUT: u32 = 1;
const STDERR: u32 = 2;

/// The interfaces of WASI that are answered.
const INTERFACES: [&str; 21] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/timezone",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
];
/// What one answer may be made of: its values and the letters of its names.
const ANSWER_MAX: usize = 64 * 1024;

/// Whether an imported interface, with or without its version, is one that is answered here.
pub(super) fn is_answered(import: &str) -> bool {
    let name = import.split('@').next().unwrap_or(import);
    INTERFACES.contains(&name)
}

/// Answers every `wasi:` import of the component.
pub(super) fn add_to_linker(
    linker: &mut Linker<Guest>,
    engine: &Engine,
    component: &Component,
) -> wasmtime::Result<()> {
    for (name, import) in component.component_type().imports(engine) {
        let ComponentItem::ComponentInstance(instance) = import.ty else { continue };
        if !is_answered(name) {
            continue;
        }
        let interface = name.split('@').next().unwrap_or(name).to_owned();
        let mut into = linker.instance(name)?;
        for (item, export) in instance.exports(engine) {
            match export.ty {
                ComponentItem::Resource(_) => {
                    into.resource(item, ResourceType::host_dynamic(resource_id(item)), |_, _| Ok(()))?;
                }
                ComponentItem::ComponentFunc(_) => {
                    let (interface, function) = (interface.clone(), item.to_owned());
                    into.func_new(item, move |mut store, ty, params, results| {
                        let answer = answer(&mut store, &interface, &function, params);
                        for (slot, ty) in results.iter_mut().zip(ty.results()) {
                            *slot = match &answer {
                                Answer::Value(value) => value.clone(),
                                Answer::Stream(rep) => stream(&mut store, &ty, *rep)?,
                                Answer::OkUnit => Val::Result(Ok(None)),
                                Answer::OkValue(value) => Val::Result(Ok(Some(Box::new(value.clone())))),
                                Answer::Nothing => default(&mut store, &ty, &mut ANSWER_MAX.clone())?,
                                Answer::End(limit, said) => return Err(Passed::new(*limit, said.clone()).into()),
                                Answer::Exit => return Err(Exited.into()),
                            };
                        }
                        if let Answer::Exit = answer {
                            return Err(Exited.into());
                        }
                        params.iter().try_for_each(|param| release(&mut store, param))
                    })?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

enum Answer {
    Value(Val),
    /// A stream that is told apart.
    Stream(u32),
    OkUnit,
    OkValue(Val),
    /// Whatever says "nothing here" in the type of the result.
    Nothing,
    End(Limit, String),
    Exit,
}

fn answer(store: &mut StoreContextMut<'_, Guest>, interface: &str, function: &str, params: &[Val]) -> Answer {
    let now_ms = store.data().now_ms;
    match (interface, function) {
        ("wasi:clocks/monotonic-clock", "now") => Answer::Value(Val::U64(now_ms.saturating_mul(1_000_000))),
        ("wasi:clocks/wall-clock", "now") => Answer::Value(Val::Record(vec![
            ("seconds".into(), Val::U64(now_ms / 1_000)),
            ("nanoseconds".into(), Val::U32(u32::try_from(now_ms % 1_000 * 1_000_000).unwrap_or(0))),
        ])),
        ("wasi:random/random" | "wasi:random/insecure", "get-random-u64" | "get-insecure-random-u64") => {
            Answer::Value(Val::U64(next_random(store)))
        }
        ("wasi:random/random" | "wasi:random/insecure", _) => random_bytes(store, params),
        ("wasi:random/insecure-seed", _) => {
            Answer::Value(Val::Tuple(vec![Val::U64(next_random(store)), Val::U64(next_random(store))]))
        }
        ("wasi:cli/exit", _) => Answer::Exit,
        ("wasi:cli/stdout", "get-stdout") => Answer::Stream(STDOUT),
        ("wasi:cli/stderr", "get-stderr") => Answer::Stream(STDERR),
        ("wasi:io/poll", "poll") => {
            let count = params.first().map_or(0, |list| if let Val::List(items) = list { items.len() } else { 0 });
            let ready = (0..count).map(|at| Val::U32(u32::try_from(at).unwrap_or(u32::MAX)));
            Answer::Value(Val::List(ready.collect()))
        }
        ("wasi:io/poll", "[method]pollable.ready") => Answer::Value(Val::Bool(true)),
        ("wasi:io/streams", "[method]output-stream.check-write") => Answer::OkValue(Val::U64(WRITE_BYTES_MAX)),
        ("wasi:io/streams", "[method]output-stream.write" | "[method]output-stream.blocking-write-and-flush") => {
            write(store, params);
            Answer::OkUnit
        }
        ("wasi:io/streams", "[method]output-stream.flush" | "[method]output-stream.blocking-flush") => Answer::OkUnit,
        _ => Answer::Nothing,
    }
}

/// Text on standard output and standard error becomes lines of the plugin's log.
fn write(store: &mut StoreContextMut<'_, Guest>, params: &[Val]) {
    let [Val::Resource(stream), Val::List(bytes)] = params else { return };
    let rep = stream.try_into_resource_dynamic(&mut *store).map_or(OTHER, |stream| stream.rep());
    let level = if rep == STDERR { "error" } else { "info" };
    let bytes: Vec<u8> =
        bytes.iter().filter_map(|byte| if let Val::U8(byte) = byte { Some(*byte) } else { None }).collect();
    let text = String::from_utf8_lossy(&bytes);
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        store.data_mut().log(level, line);
    }
}

fn random_bytes(store: &mut StoreContextMut<'_, Guest>, params: &[Val]) -> Answer {
    let wanted = if let [Val::U64(wanted)] = params { *wanted } else { 0 };
    if wanted > RANDOM_BYTES_MAX {
        return Answer::End(Limit::Randomness, format!("{wanted} bytes wanted, {RANDOM_BYTES_MAX} are allowed"));
    }
    let bytes = (0..wanted).map(|_| Val::U8(next_random(store).to_le_bytes()[0]));
    Answer::Value(Val::List(bytes.collect()))
}

/// SplitMix64, from the seed of the call.
fn next_random(store: &mut StoreContextMut<'_, Guest>) -> u64 {
    let state = &mut store.data_mut().random;
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The value of a type that says "nothing here": empty, none, zero, an error. The type is the guest's own, so `left` bounds it.
fn default(store: &mut StoreContextMut<'_, Guest>, ty: &Type, left: &mut usize) -> wasmtime::Result<Val> {
    spend(left, 1)?;
    Ok(match ty {
        Type::Bool => Val::Bool(false),
        Type::S8 => Val::S8(0),
        Type::U8 => Val::U8(0),
        Type::S16 => Val::S16(0),
        Type::U16 => Val::U16(0),
        Type::S32 => Val::S32(0),
        Type::U32 => Val::U32(0),
        Type::S64 => Val::S64(0),
        Type::U64 => Val::U64(0),
        Type::Float32 => Val::Float32(0.0),
        Type::Float64 => Val::Float64(0.0),
        Type::Char => Val::Char(' '),
        Type::String => Val::String(String::new()),
        Type::List(_) => Val::List(Vec::new()),
        Type::Option(_) => Val::Option(None),
        Type::Flags(_) => Val::Flags(Vec::new()),
        Type::Tuple(tuple) => {
            Val::Tuple(tuple.types().map(|ty| default(store, &ty, left)).collect::<wasmtime::Result<_>>()?)
        }
        Type::Record(record) => {
            let field = |field: wasmtime::component::types::Field<'_>| {
                spend(left, field.name.len())?;
                default(store, &field.ty, left).map(|value| (field.name.to_owned(), value))
            };
            Val::Record(record.fields().map(field).collect::<wasmtime::Result<_>>()?)
        }
        Type::Enum(words) => {
            let named = |wanted: &str| words.names().any(|name| name == wanted).then(|| wanted.to_owned());
            let word = named("unsupported").or_else(|| named("not-permitted"));
            Val::Enum(word.or_else(|| words.names().next().map(str::to_owned)).unwrap_or_default())
        }
        Type::Variant(variant) => {
            let closed = variant.cases().find(|case| case.name == "closed").or_else(|| variant.cases().next());
            let Some(case) = closed else { return Err(wasmtime::Error::msg("a variant without cases")) };
            let value = case.ty.map(|ty| default(store, &ty, left).map(Box::new)).transpose()?;
            Val::Variant(case.name.to_owned(), value)
        }
        Type::Result(result) => {
            let error = result.err().map(|ty| default(store, &ty, left).map(Box::new)).transpose()?;
            Val::Result(Err(error))
        }
        Type::Own(_) => stream(store, ty, OTHER)?,
        _ => return Err(wasmtime::Error::msg("WASI is asked for something that it does not have")),
    })
}

fn spend(left: &mut usize, cost: usize) -> wasmtime::Result<()> {
    *left = left
        .checked_sub(cost)
        .ok_or_else(|| Passed::new(Limit::ResultSize, "it asks WASI for an answer without end"))?;
    Ok(())
}

/// A handle of whatever resource the result has.
fn stream(store: &mut StoreContextMut<'_, Guest>, ty: &Type, rep: u32) -> wasmtime::Result<Val> {
    let Type::Own(resource) = ty else { return Err(wasmtime::Error::msg("a resource was expected")) };
    let id = (0..=unknown_resource()).find(|id| ResourceType::host_dynamic(*id) == *resource);
    let id = id.ok_or_else(|| wasmtime::Error::msg("an unknown resource"))?;
    Ok(Val::Resource(ResourceDynamic::new_own(rep, id).try_into_resource_any(store.as_context_mut())?))
}

/// The same name is the same resource in every interface: `use` brings it along.
const RESOURCES: [&str; 8] = [
    "descriptor",
    "directory-entry-stream",
    "error",
    "input-stream",
    "output-stream",
    "pollable",
    "terminal-input",
    "terminal-output",
];

fn resource_id(name: &str) -> u32 {
    RESOURCES
        .iter()
        .position(|known| *known == name)
        .and_then(|at| u32::try_from(at).ok())
        .unwrap_or(unknown_resource())
}

fn unknown_resource() -> u32 {
    u32::try_from(RESOURCES.len()).unwrap_or(u32::MAX)
}

/// What was handed over is given back, or the component could not end its call.
fn release(store: &mut StoreContextMut<'_, Guest>, value: &Val) -> wasmtime::Result<()> {
    match value {
        Val::Resource(resource) => resource.resource_drop(store.as_context_mut()),
        Val::List(items) | Val::Tuple(items) => items.iter().try_for_each(|item| release(store, item)),
        Val::Option(Some(inner)) => release(store, inner),
        _ => Ok(()),
    }
}
