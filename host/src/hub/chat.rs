//! A chat with an agent that may talk to people: the last rows of its session, what waits and what runs.

use chela_page::{Bubble, Chat, Face, Side, title_of};
use serde_json::Value;

use super::words::{fill, joined};
use super::{BUBBLES, Error, Handle, face};
use crate::config::{AgentRole, Config};
use crate::id;
use crate::session_key::SessionKey;
use crate::sessions::{History, text_of};

const WAITING: usize = 10;
/// Open questions that are named.
const OPEN: usize = 10;

impl Handle {
    /// `agent` is whom the reader chose; none: the orchestrator, else whoever is meant when nobody is named.
    pub async fn chat(&self, agent: Option<&str>, before: Option<u64>, full: Option<&str>) -> Result<Chat, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let agents: Vec<Face> = talkers(config).into_iter().map(|id| face(config, &id)).collect();
        let chosen = match agent {
            Some(id) => {
                agents.iter().find(|face| face.id == id).ok_or_else(|| Error::unknown("agent to chat with", id))?
            }
            None => match agents.first() {
                Some(first) => first,
                None => return Ok(nobody()),
            },
        };
        let key = SessionKey::parse(&chosen.id).map_err(|_| Error::unknown("agent", &chosen.id))?;
        let found = self.0.sessions.history(&key, History { limit: BUBBLES, offset: 0, before }).await?;
        let bubbles = joined(found.rows.iter().filter_map(|row| self.row(config, &key, row, full)));
        let waiting = self.0.sessions.waiting(&key).into_iter().take(WAITING).map(|place| place.text).collect();
        Ok(Chat {
            agent: Some(chosen.clone()),
            session: key.to_string(),
            bubbles,
            older: found.before,
            is_latest: before.is_none(),
            running: self.0.sessions.running(&key).is_some(),
            waiting: if before.is_none() { waiting } else { Vec::new() },
            open: self.open_in(&key),
            key: id::fresh(self.0.clock.now()).to_string(),
            agents,
        })
    }

    /// The questions of a chat that waits for several answers; none where a message would be the answer.
    fn open_in(&self, key: &SessionKey) -> Vec<(String, String)> {
        let open = self.0.humans.open_in(key);
        let named = open.iter().take(if open.len() > 1 { OPEN } else { 0 });
        named.map(|question| (question.id.clone(), title_of(&question.question))).collect()
    }

    /// Whether people may chat with an agent directly.
    pub fn may_chat(&self, session: &SessionKey) -> bool {
        let settings = self.0.settings.current();
        talkers(&settings.config).iter().any(|id| id == session.agent.as_ref()) && !session.is_subagent()
    }

    /// A row of a transcript; none where there is nothing to see.
    fn row(&self, config: &Config, key: &SessionKey, row: &Value, full: Option<&str>) -> Option<Bubble> {
        let own = &row["__openclaw"];
        let mut bubble = Bubble {
            id: own["id"].as_str().map_or_else(|| own["seq"].to_string(), str::to_owned),
            at: row["timestamp"].as_u64().unwrap_or_default(),
            ..Bubble::default()
        };
        let text = text_of(row);
        match row["role"].as_str()? {
            "user" => {
                let origin = &row["provenance"];
                let from = origin["sourceSessionKey"].as_str().and_then(|key| SessionKey::parse(key).ok());
                bubble.side = if from.is_some() { Side::Left } else { Side::Right };
                bubble.from = match from {
                    Some(from) => face(config, from.agent.as_ref()),
                    None if origin["kind"] == "internal_system" => {
                        bubble.side = Side::Middle;
                        Face { name: "system".into(), ..Face::default() }
                    }
                    None => Face { name: "human".into(), ..Face::default() },
                };
                fill(&mut bubble, &text, full);
            }
            "assistant" => {
                bubble.from = face(config, key.agent.as_ref());
                let parts = row["content"].as_array().into_iter().flatten();
                let calls = parts.clone().filter(|part| part["type"] == "toolCall");
                bubble.tools = calls.filter_map(|call| call["name"].as_str().map(str::to_owned)).take(12).collect();
                let query = parts.clone().find_map(|part| part["humanQuery"]["id"].as_str());
                let question = query.and_then(|id| self.0.humans.get(id).ok());
                bubble.question = question.map(|question| self.question_card(config, &question));
                // The question stands in its card; what was said around it is said here.
                let words = parts.filter(|part| part.get("humanQuery").is_none() || bubble.question.is_none());
                let words: Vec<&str> = words.filter_map(|part| part["text"].as_str()).collect();
                fill(&mut bubble, &words.join("\n"), full);
                if bubble.text.is_empty() && bubble.tools.is_empty() && bubble.question.is_none() {
                    return None;
                }
            }
            "toolResult" if row["isError"] == true => {
                bubble.side = Side::Middle;
                bubble.from = face(config, key.agent.as_ref());
                bubble.failed = true;
                bubble.failed_tool = Some(row["toolName"].as_str().unwrap_or_default().to_owned());
                fill(&mut bubble, &text, full);
            }
            "system" => {
                bubble.side = Side::Middle;
                bubble.from = Face { name: "system".into(), ..Face::default() };
                fill(&mut bubble, &text, full);
            }
            _ => return None,
        }
        Some(bubble)
    }
}

/// Ids of those who talk to people: orchestrators first, never workers.
fn talkers(config: &Config) -> Vec<String> {
    let of = |role: AgentRole| config.agents.list.iter().filter(move |agent| agent.role == role);
    of(AgentRole::Orchestrator).chain(of(AgentRole::Agent)).map(|agent| agent.id.to_string()).collect()
}

fn nobody() -> Chat {
    Chat {
        agents: Vec::new(),
        agent: None,
        session: String::new(),
        bubbles: Vec::new(),
        older: None,
        is_latest: true,
        running: false,
        waiting: Vec::new(),
        open: Vec::new(),
        key: String::new(),
    }
}
