//! A classifier in Rust, the same as tests/js/classifier.js and tests/python/classifier.py: it answers by the first word it knows.

use chela_sdk::classifier::{CategoriesRequest, Classification, Classifier, Conversation, Role, RolesRequest, Source};
use chela_sdk::{ConfigError, Failure, Plugin, log, parse_config};

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Words {
    word: Option<String>,
    category: Option<String>,
}

const WORDS: [(&str, &str); 4] =
    [("장애", "infra_ops"), ("outage", "infra_ops"), ("테스트", "qa_validation"), ("regression", "qa_validation")];

impl Plugin for Words {
    const LIMITS: &'static [(&'static str, u32)] = &[("cpuMs", 40)];

    fn configure(json: &str) -> Result<Self, ConfigError> {
        parse_config(json)
    }
}

impl Words {
    fn classify(&self, conversation: &Conversation, now_ms: u64) -> Result<Classification, Failure> {
        let text = conversation.texts.join("\n").to_lowercase();
        if text.contains("!refuse") {
            return Err(Failure::InvalidInput("it was told to refuse".into()));
        }
        let own = self.word.as_deref().zip(self.category.as_deref());
        let found = own.into_iter().chain(WORDS).find(|(word, _)| text.contains(word));
        if found.is_none() {
            log::info("no word that it knows");
        }
        Ok(Classification {
            primary: found.map(|(_, category)| category.into()),
            secondary: Vec::new(),
            sub_tags: found.iter().map(|(word, _)| (*word).into()).collect(),
            confidence: found.map_or(0.0, |_| 0.9),
            source: Source::Rule,
            reason: found.map_or("no word that it knows".into(), |(word, _)| format!("{word} at {now_ms}")),
        })
    }
}

impl Classifier for Words {
    fn roles(&self, request: RolesRequest) -> Result<Vec<Role>, Failure> {
        let is_subagent = |keys: &[String]| keys.iter().any(|key| key.contains(":subagent:"));
        let role = |keys: &[String]| if is_subagent(keys) { Role::DelegationSubagent } else { Role::ConversationMain };
        Ok(request.events.iter().map(|event| role(&event.session_keys)).collect())
    }

    fn categories(&self, request: CategoriesRequest) -> Result<Vec<Classification>, Failure> {
        let now_ms = request.context.now_ms;
        request.conversations.iter().map(|conversation| self.classify(conversation, now_ms)).collect()
    }
}

chela_sdk::classifier!(Words);
