//! Runs a script of the deployment as classifier, guard and continuation: whatever functions the script defines.
//! Keeps true: a script that cannot run is refused with its line before it serves; what goes wrong later names function, line and
//! column, and is a failure of that call alone. Never: lets a script load code, or reach anything but its argument and its log.

mod answers;
mod config;
mod engine;
mod functions;
mod problem;
mod values;
mod words;
#[cfg(test)]
mod tests;

use chela_sdk::classifier::{CategoriesRequest, Classification, Classifier, Role, RolesRequest};
use chela_sdk::continuation::{Action, Continuation, InstructionsRequest, NextRequest};
use chela_sdk::guard::{Guard, Request, Verdict};
use chela_sdk::{ConfigError, Failure, Plugin, parse_config};
use rhai::{AST, Dynamic, Engine, Scope};

use config::Config;
use functions::{BEFORE_TOOL_CALL, CATEGORIES, Function, INSTRUCTIONS, NEXT, ROLE};

pub struct Script {
    engine: Engine,
    defined: Vec<Defined>,
}

/// A function of the script that the host asks.
struct Defined {
    name: &'static str,
    parameter: String,
    /// The function's body with all functions of the script. Run as it is, not by a call: Rhai forgets the line of a limit that was
    /// passed at the end of each call.
    body: AST,
}

impl Plugin for Script {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn configure(json: &str) -> Result<Self, ConfigError> {
        let config: Config = parse_config(json)?;
        config.check()?;
        let engine = engine::limited(&config.settings);
        let ast = engine.compile(&config.script).map_err(|error| problem::syntax(&config, &error))?;
        let defined = functions::defined(&engine, &ast, &config)?;
        Ok(Self { engine, defined })
    }
}

impl Script {
    /// What the script's function says; none when it defines no such function.
    fn ask(&self, function: &Function, argument: Dynamic) -> Result<Option<Dynamic>, Failure> {
        let Some(defined) = self.find(function) else { return Ok(None) };
        let mut scope = Scope::new();
        scope.push_dynamic(defined.parameter.as_str(), argument);
        let said: Result<Dynamic, _> = self.engine.eval_ast_with_scope(&mut scope, &defined.body);
        said.map(Some).map_err(|error| problem::of_call(function.name, *error))
    }

    fn find(&self, function: &Function) -> Option<&Defined> {
        self.defined.iter().find(|defined| defined.name == function.name)
    }
}

impl Classifier for Script {
    fn roles(&self, request: RolesRequest) -> Result<Vec<Role>, Failure> {
        let main_agents = values::strings(&request.main_agents);
        let role = |event: &_| {
            let usual = chela_sdk::roles::usual(event, &request.main_agents);
            let said = match self.find(&ROLE).is_some() {
                true => self.ask(&ROLE, values::event(event, usual, &main_agents, &request.context))?,
                false => None,
            };
            said.map_or(Ok(usual), |said| answers::role(said, usual))
        };
        request.events.iter().map(role).collect()
    }

    fn categories(&self, request: CategoriesRequest) -> Result<Vec<Classification>, Failure> {
        let table = values::strings(&request.categories);
        let classify = |conversation: &_| {
            let said = self.ask(&CATEGORIES, values::conversation(conversation, &table, &request.context))?;
            answers::classification(said.unwrap_or_default())
        };
        request.conversations.iter().map(classify).collect()
    }
}

impl Guard for Script {
    fn before_tool_call(&self, request: Request) -> Result<Verdict, Failure> {
        let said = self.ask(&BEFORE_TOOL_CALL, values::call(&request)?)?;
        // A guard that says nothing about tool calls is a mistake, and the deployment has said what a guard's failure means.
        let said = said.ok_or_else(|| Failure::Unsupported("the script defines no `before_tool_call`".into()))?;
        answers::verdict(said)
    }
}

impl Continuation for Script {
    fn instructions(&self, request: InstructionsRequest) -> Result<String, Failure> {
        let said = self.ask(&INSTRUCTIONS, values::agent_about_to_run(&request))?;
        answers::instructions(said.unwrap_or_default())
    }

    fn next(&self, request: NextRequest) -> Result<Action, Failure> {
        match self.ask(&NEXT, values::stop(&request))? {
            Some(said) => answers::action(said),
            None => Ok(answers::plain_prompt(&request)),
        }
    }
}

chela_sdk::every_policy!(Script);
