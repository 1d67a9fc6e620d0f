//! The functions that a script may define, and which of them it does.

use chela_sdk::ConfigError;
use rhai::{AST, ASTNode};

use crate::config::{Config, World};
use crate::problem;

pub struct Function {
    pub name: &'static str,
    pub parameter: &'static str,
    pub world: World,
}

pub const ROLE: Function = Function { name: "role", parameter: "event", world: World::Classifier };
pub const CATEGORIES: Function = Function { name: "categories", parameter: "conversation", world: World::Classifier };
pub const BEFORE_TOOL_CALL: Function = Function { name: "before_tool_call", parameter: "call", world: World::Guard };
pub const INSTRUCTIONS: Function = Function { name: "instructions", parameter: "agent", world: World::Continuation };
pub const NEXT: Function = Function { name: "next", parameter: "stop", world: World::Continuation };

const ALL: [Function; 5] = [ROLE, CATEGORIES, BEFORE_TOOL_CALL, INSTRUCTIONS, NEXT];

/// The names of the functions that the host will ask for; a script with none of them, or with code outside of functions, is refused.
pub fn defined(ast: &AST, config: &Config) -> Result<Vec<&'static str>, ConfigError> {
    if let Some(statement) = ast.statements().first() {
        let message = "only functions stand at the top level of a script; put this into one, and values into `fn limits() { … }`";
        return Err(problem::at(config, ASTNode::Stmt(statement).position(), message));
    }
    let mut defined = Vec::new();
    for function in ast.iter_functions() {
        let Some(known) = ALL.iter().find(|known| known.name == function.name) else { continue };
        if function.params.len() != 1 {
            let (Function { name, parameter, .. }, count) = (known, function.params.len());
            let message = format!("`{name}` takes one parameter, as `fn {name}({parameter})`, and here it has {count}");
            return Err(ConfigError::at(config.place(), message));
        }
        defined.push(known.name);
    }
    let wanted = ALL.iter().filter(|known| config.world.is_none_or(|world| world == known.world));
    let wanted: Vec<&Function> = wanted.collect();
    if wanted.iter().any(|known| defined.contains(&known.name)) {
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
