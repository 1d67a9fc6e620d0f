//! `chela agents`: the team, from the configuration.

use serde_json::{Value, json};

use super::Output;
use super::output::table;
use crate::config::Agent;
use crate::layout::StateDir;
use crate::settings;

pub(super) fn run(dir: &StateDir, output: Output) -> anyhow::Result<()> {
    let config = settings::load(dir)?.config;
    let default = config.agents.default_id();
    let is_default = |agent: &Agent| Some(&agent.id) == default;
    let rows: Vec<Value> = config
        .agents
        .list
        .iter()
        .map(|agent| {
            json!({
                "id": agent.id,
                "name": agent.display_name(),
                "role": agent.role,
                "team": agent.team,
                "default": is_default(agent),
                "workspace": dir.path().join(agent.workspace_path()),
            })
        })
        .collect();
    output.show(&json!({ "agents": rows }), || {
        if config.agents.list.is_empty() {
            return format!("no agents yet; add some under `agents.list` in {}", dir.config().display());
        }
        let head = ["ID", "NAME", "ROLE", "TEAM"].map(str::to_owned).to_vec();
        let row = |agent: &Agent| {
            let mark = if is_default(agent) { " (default)" } else { "" };
            let role = format!("{}{mark}", agent.role.as_str());
            vec![agent.id.to_string(), agent.display_name().into(), role, agent.team.clone().unwrap_or_default()]
        };
        table(&std::iter::once(head).chain(config.agents.list.iter().map(row)).collect::<Vec<_>>())
    });
    Ok(())
}
