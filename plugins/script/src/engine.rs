//! The engine that runs a script, within bounds of its own. The host bounds time and memory too, but it can only cut a call off: here
//! the script is told its line, and the instance lives on.

use rhai::{Dynamic, Engine};
use serde_json::{Map, Value};

use crate::{values, words};

/// Well within the CPU time that a call has: past that it would be cut off without a line.
const OPERATIONS_MAX: u64 = 200_000;
const CALLS_DEEP_MAX: usize = 24;
const EXPRESSION_DEPTH_MAX: usize = 48;
const FUNCTIONS_MAX: usize = 500;
const VARIABLES_MAX: usize = 1_000;
const STRING_BYTES_MAX: usize = 1024 * 1024;
const ARRAY_ITEMS_MAX: usize = 20_000;
const MAP_ITEMS_MAX: usize = 2_000;

pub fn limited(settings: &Map<String, Value>) -> Engine {
    let mut engine = Engine::new();
    engine.set_max_operations(OPERATIONS_MAX);
    engine.set_max_call_levels(CALLS_DEEP_MAX);
    engine.set_max_expr_depths(EXPRESSION_DEPTH_MAX, EXPRESSION_DEPTH_MAX);
    engine.set_max_functions(FUNCTIONS_MAX);
    engine.set_max_variables(VARIABLES_MAX);
    engine.set_max_string_size(STRING_BYTES_MAX);
    engine.set_max_array_size(ARRAY_ITEMS_MAX);
    engine.set_max_map_size(MAP_ITEMS_MAX);
    // A script is what was checked when it was configured, nothing that it makes up later.
    engine.disable_symbol("eval");
    engine.on_print(chela_sdk::log::info);
    engine.on_debug(|text, _, position| chela_sdk::log::debug(&format!("{text} ({position})")));
    let settings: Dynamic = values::of_json(&Value::Object(settings.clone()));
    engine.register_fn("settings", move || settings.clone());
    words::register(&mut engine);
    engine
}
