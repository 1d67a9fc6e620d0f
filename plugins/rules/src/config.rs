//! The configuration: a deployment's own rules beside the built-in ones.
//! Keeps true: a configuration that was accepted is within every limit below; a refusal names the place.

use std::collections::HashSet;

use chela_sdk::{ConfigError, parse_config};
use serde::Deserialize;

use crate::text::normalise;

/// The JSON schema of the configuration.
pub const SCHEMA: &str = include_str!("config.schema.json");

/// The built-in rules, in the form of `Config::rules`.
const BUILTIN: &str = include_str!(concat!(env!("OUT_DIR"), "/rules.json"));

const RULES_MAX: usize = 5_000;
const KEYWORDS_MAX: usize = 200;
/// Of all rules together: the automaton of these takes a few megabytes of the component's memory.
const KEYWORDS_TOTAL_MAX: usize = 20_000;
const KEYWORD_CHARS_MAX: usize = 100;
const PATTERNS_TOTAL_MAX: usize = 200;
const PATTERN_CHARS_MAX: usize = 500;
const SUB_TAG_CHARS_MAX: usize = 40;
const CATEGORY_CHARS_MAX: usize = 100;
const WEIGHT_MAX: f64 = 10.0;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    pub extends: Extends,
    /// The confidence from which on a category is claimed.
    pub claim_at: f64,
    /// Whether the learned part has a say.
    pub learned: bool,
    pub rules: Vec<Rule>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub enum Extends {
    Builtin,
    None,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    pub category: String,
    #[serde(default = "one")]
    pub weight: f64,
    /// Words of messages and titles.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// Regular expressions over messages and titles.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Agents, with `*` for any part of a name.
    #[serde(default)]
    pub participants: Vec<String>,
    /// Words of titles only.
    #[serde(default)]
    pub tags: Vec<String>,
    pub sub_tag: Option<String>,
}

fn one() -> f64 {
    1.0
}

impl Default for Config {
    fn default() -> Self {
        Self { extends: Extends::Builtin, claim_at: 0.6, learned: true, rules: Vec::new() }
    }
}

impl Config {
    pub fn parse(json: &str) -> Result<Self, ConfigError> {
        let config: Self = if json.trim().is_empty() { Self::default() } else { parse_config(json)? };
        config.check()?;
        Ok(config)
    }

    /// The built-in rules when the configuration extends them.
    pub fn inherited(&self) -> Vec<Rule> {
        match self.extends {
            Extends::Builtin => serde_json::from_str(BUILTIN).expect("a test reads the built-in rules"),
            Extends::None => Vec::new(),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        if !(0.0..=1.0).contains(&self.claim_at) {
            return Err(ConfigError::at("claimAt", "a confidence is from 0 to 1"));
        }
        at_most("rules", self.rules.len(), RULES_MAX, "rules")?;
        let (mut keywords, mut patterns) = (0, 0);
        for (at, rule) in self.rules.iter().enumerate() {
            let path = format!("rules[{at}]");
            rule.check(&path)?;
            keywords += rule.keywords.len() + rule.tags.len();
            patterns += rule.patterns.len();
            at_most(&path, keywords, KEYWORDS_TOTAL_MAX, "keywords in all rules together")?;
            at_most(&path, patterns, PATTERNS_TOTAL_MAX, "patterns in all rules together")?;
        }
        Ok(())
    }
}

impl Rule {
    fn check(&self, path: &str) -> Result<(), ConfigError> {
        let refuse = |field: &str, message: String| Err(ConfigError::at(format!("{path}.{field}"), message));
        if self.category.is_empty() || self.category.chars().count() > CATEGORY_CHARS_MAX {
            return refuse("category", format!("write the key of a category, at most {CATEGORY_CHARS_MAX} characters"));
        }
        if !(-WEIGHT_MAX..=WEIGHT_MAX).contains(&self.weight) {
            return refuse("weight", format!("a weight is from -{WEIGHT_MAX} to {WEIGHT_MAX}"));
        }
        if [&self.keywords, &self.patterns, &self.participants, &self.tags].iter().all(|kind| kind.is_empty()) {
            return Err(ConfigError::at(path, "a rule needs keywords, patterns, participants or tags"));
        }
        for (field, words) in [("keywords", &self.keywords), ("participants", &self.participants), ("tags", &self.tags)]
        {
            at_most(&format!("{path}.{field}"), words.len(), KEYWORDS_MAX, field)?;
            let mut known = HashSet::new();
            for (at, word) in words.iter().enumerate() {
                let (field, normal) = (format!("{field}[{at}]"), normalise(word));
                if word.chars().count() > KEYWORD_CHARS_MAX {
                    return refuse(&field, format!("at most {KEYWORD_CHARS_MAX} characters"));
                }
                if normal.trim_end_matches('*').is_empty() {
                    return refuse(&field, "write a word".into());
                }
                if !known.insert(normal) {
                    return refuse(&field, format!("{word:?} is in this list already"));
                }
            }
        }
        for (at, pattern) in self.patterns.iter().enumerate() {
            if pattern.is_empty() || pattern.chars().count() > PATTERN_CHARS_MAX {
                return refuse(&format!("patterns[{at}]"), format!("write 1 to {PATTERN_CHARS_MAX} characters"));
            }
        }
        match &self.sub_tag {
            Some(tag) if tag.trim().is_empty() || tag.chars().count() > SUB_TAG_CHARS_MAX => {
                refuse("subTag", format!("write 1 to {SUB_TAG_CHARS_MAX} characters"))
            }
            _ => Ok(()),
        }
    }
}

fn at_most(path: &str, count: usize, max: usize, what: &str) -> Result<(), ConfigError> {
    if count <= max { Ok(()) } else { Err(ConfigError::at(path, format!("at most {max} {what}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(config: Value, expected_path: &str) {
        let error = Config::parse(&config.to_string()).expect_err("refused");
        assert_eq!(error.path, expected_path, "{}", error.message);
    }

    fn rule(field: &str, value: Value) -> Value {
        let mut rule = json!({ "category": "infra_ops", "keywords": ["장애"] });
        rule[field] = value;
        json!({ "rules": [{ "category": "a", "tags": ["b"] }, rule] })
    }

    #[test]
    fn an_empty_configuration_is_the_default() {
        for json in ["", "{}"] {
            let config = Config::parse(json).expect("accepted");
            assert_eq!((config.extends, config.claim_at, config.learned), (Extends::Builtin, 0.6, true));
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_its_place() {
        check(json!({ "rule": [] }), "rule");
        check(json!({ "extends": "default" }), "extends");
        check(json!({ "claimAt": 1.1 }), "claimAt");
        check(json!({ "rules": [{ "keywords": ["a"] }] }), "rules[0]");
        check(json!({ "rules": [{ "category": "a" }] }), "rules[0]");
        check(rule("keyword", json!([])), "rules[1].keyword");
        check(rule("weight", json!("much")), "rules[1].weight");
    }

    #[test]
    fn every_limit_refuses_what_is_past_it() {
        let long = |chars: usize| "가".repeat(chars);
        let words = |count: usize| (0..count).map(|at| format!("w{at}")).collect::<Vec<_>>();
        check(rule("weight", json!(10.5)), "rules[1].weight");
        check(rule("weight", json!(-11)), "rules[1].weight");
        check(rule("category", json!("")), "rules[1].category");
        check(rule("keywords", json!(words(201))), "rules[1].keywords");
        check(rule("keywords", json!(["a", long(101)])), "rules[1].keywords[1]");
        check(rule("keywords", json!(["a", " A"])), "rules[1].keywords[1]");
        check(rule("tags", json!(["*"])), "rules[1].tags[0]");
        check(rule("participants", json!([""])), "rules[1].participants[0]");
        check(rule("patterns", json!([long(501)])), "rules[1].patterns[0]");
        check(rule("patterns", json!(words(201))), "rules[1]");
        check(rule("subTag", json!(long(41))), "rules[1].subTag");
        check(json!({ "rules": vec![json!({ "category": "a", "tags": ["b"] }); 5_001] }), "rules");
        check(json!({ "rules": vec![json!({ "category": "a", "tags": words(200) }); 101] }), "rules[100]");
    }

    #[test]
    fn the_built_in_rules_are_within_the_limits_and_know_only_the_ten_categories() {
        let builtin = Config { rules: Config::default().inherited(), ..Config::default() };
        builtin.check().expect("within the limits");
        for rule in &builtin.rules {
            assert!(crate::learned::CATEGORIES.contains(&rule.category.as_str()), "{}", rule.category);
        }
    }

    #[test]
    fn the_schema_is_json_and_names_every_field() {
        let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
        for field in ["extends", "claimAt", "learned", "rules"] {
            assert!(schema["properties"][field].is_object(), "{field}");
        }
        for field in ["category", "weight", "keywords", "patterns", "participants", "tags", "subTag"] {
            assert!(schema["$defs"]["rule"]["properties"][field].is_object(), "{field}");
        }
    }
}
