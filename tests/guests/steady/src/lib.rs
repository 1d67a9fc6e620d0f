//! A classifier that does its work: every conversation has the category of the configuration, and every event is a delegation.

use chela_sdk::classifier::{CategoriesRequest, Classification, Classifier, Role, RolesRequest, Source};
use chela_sdk::{ConfigError, Failure, Plugin, parse_config};

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Steady {
    category: String,
    confidence: f64,
}

impl Default for Steady {
    fn default() -> Self {
        Self { category: "docs_knowledge".into(), confidence: 0.5 }
    }
}

impl Plugin for Steady {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        parse_config(json)
    }
}

impl Classifier for Steady {
    fn roles(&self, request: RolesRequest) -> Result<Vec<Role>, Failure> {
        Ok(request.events.iter().map(|_| Role::DelegationSubagent).collect())
    }

    fn categories(&self, request: CategoriesRequest) -> Result<Vec<Classification>, Failure> {
        let answer = |_| Classification {
            primary: Some(self.category.clone()),
            secondary: Vec::new(),
            sub_tags: Vec::new(),
            confidence: self.confidence,
            source: Source::Heuristic,
            reason: format!("steady at {} with {}", request.context.now_ms, request.context.seed),
        };
        Ok(request.conversations.iter().map(answer).collect())
    }
}

chela_sdk::classifier!(Steady);
