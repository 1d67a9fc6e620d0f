//! What is wrong with a script, in words: in which function, at which line and column.

use chela_sdk::{ConfigError, Failure};
use rhai::{Dynamic, EvalAltResult, ParseError, Position};

use crate::config::Config;

/// What a word of ours throws when it is given something wrong; what a script throws is a word of its own.
#[derive(Clone)]
pub struct Misuse(pub String);

impl From<Misuse> for Box<EvalAltResult> {
    fn from(misuse: Misuse) -> Self {
        EvalAltResult::ErrorRuntime(Dynamic::from(misuse), Position::NONE).into()
    }
}

/// A script that cannot be read.
pub fn syntax(config: &Config, error: &ParseError) -> ConfigError {
    at(config, error.position(), &error.err_type().to_string())
}

/// A refusal of the script at a place of it.
pub fn at(config: &Config, position: Position, message: &str) -> ConfigError {
    let place = place(position).map(|place| format!(" {place}")).unwrap_or_default();
    ConfigError::at(format!("{}{place}", config.place()), lower(message))
}

/// Why a call of the script's `function` gave nothing: its own `throw` is a word about the input, everything else a fault of the script.
pub fn of_call(function: &str, mut error: EvalAltResult) -> Failure {
    let mut inside = None;
    let mut outermost = Position::NONE;
    while let EvalAltResult::ErrorInFunctionCall(name, _, cause, position) = error {
        if name != function {
            inside = Some(name);
        }
        if outermost.is_none() {
            outermost = position;
        }
        error = *cause;
    }
    let position = error.take_position();
    let position = if position.is_none() { outermost } else { position };
    let within = inside.map(|name| format!(", within `{name}`")).unwrap_or_default();
    let place = place(position).map(|place| format!(" at {place}")).unwrap_or_default();
    let said = |what: &str| format!("`{function}`{place}{within}: {what}");
    match &error {
        EvalAltResult::ErrorRuntime(thrown, _) if thrown.is::<Misuse>() => {
            Failure::Internal(said(&thrown.clone().cast::<Misuse>().0))
        }
        EvalAltResult::ErrorRuntime(thrown, _) if !thrown.is_unit() => Failure::InvalidInput(said(&thrown.to_string())),
        EvalAltResult::ErrorTooManyOperations(_) => {
            Failure::Internal(said("it takes too many operations; does a loop end?"))
        }
        EvalAltResult::ErrorStackOverflow(_) => {
            Failure::Internal(said("functions call each other too deeply; does the recursion end?"))
        }
        EvalAltResult::ErrorDataTooLarge(what, _) => Failure::Internal(said(&format!("{} is too large", lower(what)))),
        other => Failure::Internal(said(&lower(&other.to_string()))),
    }
}

/// An answer that means nothing to the host.
pub fn answer(function: &str, wanted: &str, found: &str) -> Failure {
    Failure::Internal(format!("`{function}` answers {found}; {wanted}"))
}

fn place(position: Position) -> Option<String> {
    let line = position.line()?;
    Some(match position.position() {
        Some(column) => format!("line {line}, column {column}"),
        None => format!("line {line}"),
    })
}

fn lower(message: &str) -> String {
    let mut letters = message.chars();
    match letters.next() {
        // A word of capitals, such as EOF, is a name.
        Some(first) if !letters.as_str().starts_with(char::is_uppercase) => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => message.to_owned(),
    }
}
