//! The deployment's classifier, asked from a thread that may wait.

use tokio::runtime::Handle;

use super::category::Classified;
use crate::clock::Timestamp;
use crate::event::{Kind, Role};
use crate::plugins::{self, About, Answered};
use crate::policy::{Classification, Conversation, EventFacts};
use crate::settings;

pub(super) struct Classifier {
    pub(super) plugins: plugins::Handle,
    pub(super) settings: settings::Handle,
    pub(super) runtime: Handle,
}

impl Classifier {
    pub(super) fn roles(&self, events: Vec<EventFacts>) -> Vec<Role> {
        self.runtime.block_on(self.plugins.roles(events)).answer
    }

    /// Whether nothing tells an event's role: no session key, no agent of the configuration, no type that we know.
    pub(super) fn is_guess(&self, facts: &EventFacts) -> bool {
        let known = Kind::ALL.iter().any(|kind| kind.as_str() == facts.event_type);
        if !facts.event_type.starts_with("a2a.") {
            return !known && Role::of_type(&facts.event_type).is_none();
        }
        let config = &self.settings.current().config;
        let is_ours = |name: &str| config.agents.list.iter().any(|agent| agent.id.as_ref() == name);
        facts.session_keys.is_empty() && !(is_ours(&facts.from_agent) && is_ours(&facts.to_agent))
    }

    /// Tells one classifier, with its configuration and the table of categories, from another; none while none serves.
    pub(super) fn identity(&self) -> Option<String> {
        let classifier = self.plugins.classifier()?;
        let table = serde_json::to_vec(&self.settings.current().config.categories).expect("a table is plain JSON");
        Some(format!("{classifier} {}", &blake3::hash(&table).to_hex()[..8]))
    }

    /// Tells who finds roles, and by which agents of the configuration; none while no classifier serves.
    pub(super) fn roles_identity(&self) -> Option<String> {
        let classifier = self.plugins.classifier()?;
        let agents = &self.settings.current().config.agents.list;
        let agents: Vec<&str> = agents.iter().map(|agent| agent.id.as_ref()).collect();
        Some(format!("{classifier} {}", &blake3::hash(agents.join(" ").as_bytes()).to_hex()[..8]))
    }

    /// The category of one session's conversation; the decision is written down under its name.
    pub(super) fn category(&self, conversation: Conversation, session: &str, now: Timestamp) -> Option<Classified> {
        let about = About { work_session: Some(session.to_owned()), ..About::default() };
        classified(self.runtime.block_on(self.plugins.categories(vec![conversation], &about)), now).next()
    }

    /// The categories of many.
    pub(super) fn categories(&self, conversations: Vec<Conversation>, now: Timestamp) -> Vec<Classified> {
        if conversations.is_empty() {
            return Vec::new();
        }
        classified(self.runtime.block_on(self.plugins.categories_in_bulk(conversations)), now).collect()
    }
}

fn classified(answered: Answered<Vec<Classification>>, now: Timestamp) -> impl Iterator<Item = Classified> {
    let version = answered.by.map(|by| format!("{} {}", by.name, by.version));
    answered.answer.into_iter().map(move |answer| Classified { answer, version: version.clone(), at: now })
}
