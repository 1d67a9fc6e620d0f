//! Events: what an emit costs, what the index costs and gives, and how many may follow. Each figure beside what it is measured against.

mod emitting;
mod following;
pub mod indexing;

use std::path::Path;

use anyhow::Result;
use serde_json::{Map, Value};
use tokio::runtime::Runtime;

pub fn run(binary: &Path) -> Result<Value> {
    let runtime = Runtime::new()?;
    let mut figures = Map::new();
    emitting::run(&runtime, &mut figures)?;
    indexing::run(&runtime, binary, &mut figures)?;
    following::run(&runtime, binary, &mut figures)?;
    Ok(Value::Object(figures))
}
