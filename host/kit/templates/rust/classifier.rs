//! {{summary}}.

use chela_sdk::classifier::{CategoriesRequest, Classification, Classifier, Conversation, Role, RolesRequest, Source};
use chela_sdk::{ConfigError, Failure, Plugin, no_config, roles};

/// Words that speak for a category.
const WORDS: [(&str, &str); 4] =
    [("outage", "infra_ops"), ("장애", "infra_ops"), ("regression", "qa_validation"), ("회귀", "qa_validation")];

struct {{type}};

impl Plugin for {{type}} {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        no_config(json).map(|()| Self)
    }
}

impl Classifier for {{type}} {
    fn roles(&self, request: RolesRequest) -> Result<Vec<Role>, Failure> {
        Ok(request.events.iter().map(|event| roles::usual(event, &request.main_agents)).collect())
    }

    fn categories(&self, request: CategoriesRequest) -> Result<Vec<Classification>, Failure> {
        Ok(request.conversations.iter().map(|conversation| classify(conversation, &request.categories)).collect())
    }
}

fn classify(conversation: &Conversation, table: &[String]) -> Classification {
    let text = conversation.texts.join("\n").to_lowercase();
    // Only categories of the deployment are an answer.
    let known = WORDS.into_iter().filter(|(_, category)| table.iter().any(|key| key == category));
    let found = known.into_iter().find(|(word, _)| text.contains(word));
    Classification {
        primary: found.map(|(_, category)| category.into()),
        secondary: vec![],
        sub_tags: vec![],
        confidence: if found.is_some() { 0.9 } else { 0.0 },
        source: Source::Rule,
        reason: found.map_or("no word that it knows".into(), |(word, _)| format!("it says {word}")),
    }
}

chela_sdk::classifier!({{type}});
