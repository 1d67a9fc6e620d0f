//! Open tasks as a graph of who works for whom, and along time.

use chela_page::caps::{BARS, GRAPH_TASKS, NODE_TASKS, NODES};
use chela_page::{Bar, Canvas, CanvasAgent, Schedule, TasksFilter};

use super::{Handle, face, faces};
use crate::clock::Timestamp;
use crate::config::{AgentRole, Config};
use crate::tasks::View;

const HOUR_MS: u64 = 3_600_000;

/// Whether a task is what the reader has chosen.
fn fits(filter: &TasksFilter, text: Option<&str>, view: &View) -> bool {
    filter.agent.as_deref().is_none_or(|wanted| wanted == view.agent.as_ref())
        && filter.priority.as_deref().is_none_or(|wanted| wanted == view.task.priority.as_str())
        && text.is_none_or(|text| view.task.description.to_lowercase().contains(text))
}

impl Handle {
    pub fn canvas(&self, filter: TasksFilter) -> Canvas {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        let wanted =
            config.agents.list.iter().filter(|agent| filter.agent.as_deref().is_none_or(|id| id == agent.id.as_ref()));
        let total = wanted.clone().count();
        let room = (GRAPH_TASKS / total.clamp(1, NODES)).clamp(1, NODE_TASKS);
        let nodes = wanted.take(NODES).map(|agent| {
            let mut own: Vec<_> = self.0.tasks.of(&agent.id).unwrap_or_default();
            own.retain(|view| fits(&filter, text.as_deref(), view));
            // What waits for somebody first, then what is worked on; of the rest, the latest.
            own.sort_by_cached_key(|view| (place(view), std::cmp::Reverse(view.task.last_activity.clone())));
            CanvasAgent {
                face: face(config, agent.id.as_ref()),
                role: agent.role.as_str().to_owned(),
                works_for: works_for(config, agent),
                tasks: own.iter().take(room).map(|view| self.task_card(config, view)).collect(),
                left: own.len().saturating_sub(room),
            }
        });
        Canvas { agents: faces(config), nodes: nodes.collect(), left: total.saturating_sub(NODES), filter }
    }

    pub fn schedule(&self, filter: TasksFilter) -> Schedule {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        let now = self.0.clock.now().0;
        let [placed] =
            self.0.tasks.board::<1>(filter.from, BARS, |view| fits(&filter, text.as_deref(), view).then_some(0));
        let mut bars: Vec<Bar> = placed.views.iter().map(|view| bar(view, now, self.task_card(config, view))).collect();
        bars.sort_by_key(|bar| (bar.from, bar.to));
        Schedule { agents: faces(config), bars, total: placed.total, now, filter }
    }
}

fn place(view: &View) -> u8 {
    match view.task.status.as_str() {
        "blocked" => 0,
        "in_progress" => 1,
        "backlog" => 3,
        _ => 2,
    }
}

fn works_for(config: &Config, agent: &crate::config::Agent) -> Option<String> {
    match agent.role {
        AgentRole::Worker => config.orchestrator_of(agent).map(|id| id.to_string()),
        AgentRole::Orchestrator | AgentRole::Agent => None,
    }
}

/// From its start, or from when it was made, until it is due, or until now where nobody has said.
fn bar(view: &View, now: u64, card: chela_page::TaskCard) -> Bar {
    let task = &view.task;
    let time_of = |text: &String| Timestamp::parse(text).map(|time| time.0);
    let from = task.start.as_ref().and_then(time_of).or_else(|| time_of(&task.created)).unwrap_or(now);
    let due = task.due.as_ref().and_then(time_of);
    let to = due.unwrap_or(now).max(from.saturating_add(HOUR_MS / 2));
    Bar { card, from, to, is_due: due.is_some(), depends_on: task.depends_on.clone() }
}
