//! What a guard of each language costs when it is asked: at an instance of its own, and through the room as an agent's tool calls ask it.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use chela::config::PluginLimits;
use chela::plugins::{About, Decision, Workbench, shipped_beside};
use chela::policy::{Actor, ToolCall};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::gateway::Gateway;
use crate::{micros, rounded};

const ROUNDS: usize = 5;
const CALLS: usize = 2_000;
const EXPORT: &str = "before-tool-call";
/// What the engines of JavaScript and Python take.
const MEMORY_MB: u32 = 96;

/// `components` is a file: for each language the path of its component, or of its script.
pub fn run(binary: &Path, components: &Path) -> Result<Value> {
    let components: Map<String, Value> = serde_json::from_slice(&std::fs::read(components)?)?;
    let runtime = Runtime::new()?;
    let mut figures = Map::new();
    for (language, component) in components {
        let component = component.as_str().context("the path of a component")?;
        eprintln!("bench: {language} is asked");
        let (source, config) = match component.ends_with(".rhai") {
            true => ("builtin:script", json!({ "script": std::fs::read_to_string(component)?, "world": "guard" })),
            false => (component, json!({})),
        };
        let mut of_language = at_the_instance(binary, source, &config)?;
        of_language.append(&mut runtime.block_on(through_the_room(binary, source, &config))?);
        figures.insert(language, Value::Object(of_language));
    }
    Ok(Value::Object(figures))
}

fn at_the_instance(binary: &Path, source: &str, config: &Value) -> Result<Map<String, Value>> {
    let cache = tempfile::tempdir()?;
    let bench = Workbench::new(cache.path().to_owned(), shipped_beside(binary), binary.to_owned())?;
    let limits = PluginLimits { memory_mb: MEMORY_MB, ..PluginLimits::default() };
    let opened = bench.open(source, config.as_object().cloned().unwrap_or_default(), limits)?;
    let asked = json!(call());
    let mut best = [f64::INFINITY; 4];
    let mut memory = 0;
    for _ in 0..ROUNDS {
        let mut running = opened.start()?;
        let since = Instant::now();
        running.call(EXPORT, &asked).map_err(|error| anyhow!("{error}"))?;
        let first = since.elapsed();
        let mut took = running.time(EXPORT, &asked, CALLS).map_err(|error| anyhow!("{error}"))?;
        let millis = |took: std::time::Duration| took.as_secs_f64() * 1e3;
        let round = [millis(running.made_in), millis(first), micros(&mut took, 0.5), micros(&mut took, 0.99)];
        best.iter_mut().zip(round).for_each(|(best, took)| *best = best.min(took));
        memory = memory.max(running.memory());
    }
    let [made, first, warm, warm_p99] = best.map(rounded);
    let figures = json!({
        "made_ms": made, "first_call_ms": first, "warm_us": warm, "warm_p99_us": warm_p99,
        "memory_mb": rounded(memory as f64 / 1e6),
    });
    Ok(figures.as_object().cloned().unwrap_or_default())
}

async fn through_the_room(binary: &Path, source: &str, config: &Value) -> Result<Map<String, Value>> {
    let limits = json!({ "memoryMb": MEMORY_MB });
    let guard = json!({ "name": "measured", "source": source, "config": config, "limits": limits });
    // The only guard, or the others' time would be counted with its own.
    let gateway = Gateway::start(binary, |config| config["plugins"]["guards"] = json!([guard])).await?;
    let plugins = gateway.app.plugins().clone();
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        let mut took = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let call = call();
            let from = Instant::now();
            let decision = plugins.before_tool_call(call, &About::default(), |_| Ok(())).await;
            took.push(from.elapsed());
            ensure!(matches!(decision, Decision::Run { .. }), "the guard allows it: {decision:?}");
        }
        best = [best[0].min(micros(&mut took, 0.5)), best[1].min(micros(&mut took, 0.99))];
    }
    gateway.stop().await?;
    let figures = json!({ "handle_us": best[0], "handle_p99_us": best[1] });
    Ok(figures.as_object().cloned().unwrap_or_default())
}

/// A call that a guard of deletions has to look into, and lets pass.
fn call() -> ToolCall {
    let arguments = Map::from_iter([("path".to_owned(), json!("tmp/메모.md"))]);
    let agent = Actor { id: "eden".into(), role: "worker".into(), session_key: "agent:eden:main".into() };
    ToolCall { tool: "files_delete".into(), arguments, agent, task: None }
}
