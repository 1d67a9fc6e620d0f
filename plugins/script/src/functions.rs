//! The functions that a script may define, and which of them it does.

use chela_sdk::ConfigError;
use rhai::{AST, Engine, Position};

use crate::config::{Config, World};
use crate::{Defined, problem};

pub struct Function {
    pub name: &'static str,
    pub parameter: &'static str,
    pub world: World,
}

pub const ROLE: Function = Function { name: "role", parameter: "event", world: World::Classifier };
pub const CATEGORIES: Function = Function { name: "categories", parameter: "conversation", world: World::Classifier };
pub const BEFORE_TOOL_CALL: Function = Function { name: "before_tool_call", parameter: "request", world: World::Guard };
pub const INSTRUCTIONS: Function = Function { name: "instructions", parameter: "agent", world: World::Continuation };
pub const NEXT: Function = Function { name: "next", parameter: "stop", world: World::Continuation };

const ALL: [Function; 5] = [ROLE, CATEGORIES, BEFORE_TOOL_CALL, INSTRUCTIONS, NEXT];

/// The functions that the host will ask; a script with none of them, or with code outside of functions, is refused.
pub fn defined(engine: &Engine, ast: &AST, config: &Config) -> Result<Vec<Defined>, ConfigError> {
    if let Some(statement) = ast.statements().first() {
        let message =
            "only functions stand at the top level of a script; put this into one, and values into `fn limits() { … }`";
        return Err(problem::at(config, statement.position(), message));
    }
    let mut defined = Vec::new();
    for (_, _, name, count, function) in ast.shared_lib().iter_script_fn_info() {
        let Some(known) = ALL.iter().find(|known| known.name == name) else { continue };
        let (start, end) = (function.body.start_position(), function.body.end_position());
        let [parameter] = function.params.as_slice() else {
            let Function { name, parameter, .. } = known;
            let message = format!("`{name}` takes one parameter, as `fn {name}({parameter})`, and here it has {count}");
            return Err(problem::at(config, start, &message));
        };
        let body =
            engine.compile(body_of(&config.script, start, end)).map_err(|error| problem::syntax(config, &error))?;
        let body = AST::new(body.statements().iter().cloned(), ast.shared_lib().clone());
        defined.push(Defined { name: known.name, parameter: parameter.to_string(), body });
    }
    let wanted = ALL.iter().filter(|known| config.world.is_none_or(|world| world == known.world));
    let wanted: Vec<&Function> = wanted.collect();
    if wanted.iter().any(|known| defined.iter().any(|defined| defined.name == known.name)) {
        return Ok(defined);
    }
    let forms: Vec<String> =
        wanted.iter().map(|Function { name, parameter, .. }| format!("`fn {name}({parameter})`")).collect();
    let message = match forms.as_slice() {
        [only] => format!("it does not define {only}"),
        forms => format!("it defines none of {}", forms.join(", ")),
    };
    Err(ConfigError::at(config.place(), message))
}

/// The text of a function's body, every character of it at its place; what stands around it is blank.
fn body_of(script: &str, start: Position, end: Position) -> String {
    let place = |position: Position| (position.line().unwrap_or(0), position.position().unwrap_or(0));
    let inside = place(start)..place(end);
    let (mut line, mut column) = (1, 0);
    let kept = script.chars().map(|c| {
        if c == '\n' {
            (line, column) = (line + 1, 0);
            return c;
        }
        column += 1;
        // The braces themselves are no part of it.
        if (line, column) > inside.start && (line, column) < inside.end { c } else { ' ' }
    });
    kept.collect()
}
