//! One agent: what it does, what waits for it, and how it is kept at work.

use chela_page::{AgentDetail, Kept};
use chela_question::State;
use serde_json::Value;

use super::overview::job_row;
use super::{Error, Handle, face};
use crate::config::AgentRole;
use crate::{humans, jobs};

const TASKS: usize = 20;
const ROWS: usize = 10;

impl Handle {
    pub async fn agent(&self, id: &str) -> Result<AgentDetail, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let agent = config.agents.list.iter().find(|agent| agent.id.as_ref() == id);
        let agent = agent.ok_or_else(|| Error::unknown("agent", id))?;
        let (standings, _) = self.standings(Some(&agent.id));
        let card = self.agent_card(config, agent, &standings, &self.0.sessions.occupied());
        let [tasks] = self.0.tasks.board::<1>(0, TASKS, |view| (view.agent == agent.id).then_some(0));
        let asked = humans::Asked {
            states: vec![State::Requested],
            agent: Some(id.to_owned()),
            limit: ROWS,
            ..humans::Asked::default()
        };
        let (questions, _) = self.questions_of(config, asked).await?;
        let listed = jobs::Asked { agent: Some(id.to_owned()), limit: ROWS, ..jobs::Asked::default() };
        let listed = self.0.jobs.list(listed).await?;
        let (_, recent) = self.0.sessions.recent(Some(&agent.id), ROWS);
        let chat = match agent.role {
            AgentRole::Worker => config.orchestrator_of(agent).map(|id| face(config, id.as_ref())),
            AgentRole::Orchestrator | AgentRole::Agent => Some(face(config, id)),
        };
        Ok(AgentDetail {
            card,
            avatar: agent.identity.as_ref().and_then(|identity| identity.avatar.clone()),
            tokens_today: self.0.sessions.used_today(&agent.id),
            kept: kept(&self.0.continuation.shown(&agent.id)),
            tasks: tasks.views.iter().map(|view| self.task_card(config, view)).collect(),
            tasks_total: tasks.total,
            questions,
            jobs: listed.jobs.iter().map(|job| job_row(config, job)).collect(),
            sessions: recent.into_iter().map(|(key, at)| (key.to_string(), at.0)).collect(),
            chat,
        })
    }
}

/// How an agent is kept at work.
fn kept(shown: &Value) -> Kept {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let counters = &shown["counters"];
    let pair = |count: &str, max: &str| Some((counters[count].as_u64()?, counters[max].as_u64()?));
    Kept {
        enabled: shown["enabled"] == true,
        next: shown["next"]["at"].as_u64().map(|at| (text(&shown["next"]["layer"]), at)),
        last: shown["last"]["at"]
            .as_u64()
            .map(|at| (text(&shown["last"]["action"]), text(&shown["last"]["reason"]), at)),
        in_a_row: pair("inARow", "inARowMax"),
        without_progress: pair("withoutProgress", "withoutProgressMax"),
    }
}
