//! What a deployment may set, read and checked once.
//! Keeps true: a configuration that was accepted can be served; its texts have their limits and its templates only
//! known placeholders. Never: changes anything that was written.

use chela_sdk::continuation::Layer;
use serde::Deserialize;

use crate::template::Template;
use crate::text::TEXT_CHARS_MAX;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    pub language: Language,
    pub extra_instructions: Text,
    pub prompts: Prompts,
}

/// The language of the instructions.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Language {
    /// That of the deployment.
    #[default]
    Auto,
    Ko,
    En,
}

/// The deployment's own prompts; a layer without one has the built-in prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Prompts {
    self_driving: Option<Template>,
    event_based: Option<Template>,
    polling: Option<Template>,
    unblock: Option<Template>,
    backlog: Option<Template>,
    zombie: Option<Template>,
}

impl Prompts {
    pub fn own(&self, layer: Layer) -> Option<&Template> {
        match layer {
            Layer::SelfDriving => self.self_driving.as_ref(),
            Layer::EventBased => self.event_based.as_ref(),
            Layer::Polling => self.polling.as_ref(),
            Layer::Unblock => self.unblock.as_ref(),
            Layer::Backlog => self.backlog.as_ref(),
            Layer::Zombie => self.zombie.as_ref(),
            Layer::Other => None,
        }
    }
}

/// A text of limited length.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct Text(String);

impl Text {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Text {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.chars().count() {
            0..=TEXT_CHARS_MAX => Ok(Self(text)),
            count => Err(format!("{count} characters; write at most {TEXT_CHARS_MAX}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chela_sdk::parse_config;

    fn check(json: &str, path: &str, message: &str) {
        let error = parse_config::<Config>(json).expect_err("refused");
        assert_eq!(error.path, path, "{}", error.message);
        assert!(error.message.starts_with(message), "{}", error.message);
    }

    #[test]
    fn everything_is_optional() {
        assert!(parse_config::<Config>("{}").is_ok());
        assert!(parse_config::<Config>(r#"{"prompts": {"zombie": "Still there?"}}"#).is_ok());
    }

    #[test]
    fn unknown_fields_are_refused_with_their_place() {
        check(r#"{"langauge": "ko"}"#, "langauge", "unknown field `langauge`");
        check(r#"{"prompts": {"poling": "x"}}"#, "prompts.poling", "unknown field `poling`");
        check(r#"{"language": "fr"}"#, "language", "unknown variant `fr`");
        check(r#"{"prompts": "x"}"#, "prompts", "invalid type");
    }

    #[test]
    fn unknown_placeholders_are_refused_with_the_known_ones() {
        let known =
            "{task}, {steps}, {remaining}, {current}, {count}, {max}, {idle}, {owner}, {reason}, {action}, {error}";
        let message = format!("unknown placeholder {{tsak}}; known are {known}");
        check(r#"{"prompts": {"polling": "Do {tsak}"}}"#, "prompts.polling", &message);
    }

    #[test]
    fn texts_have_a_limit_in_characters() {
        let with = |count| format!(r#"{{"extraInstructions": "{}"}}"#, "한".repeat(count));
        assert!(parse_config::<Config>(&with(10_000)).is_ok());
        check(&with(10_001), "extraInstructions", "10001 characters; write at most 10000");
        let with = |count| format!(r#"{{"prompts": {{"eventBased": "{}"}}}}"#, "한".repeat(count));
        assert!(parse_config::<Config>(&with(10_000)).is_ok());
        check(&with(10_001), "prompts.eventBased", "10001 characters; write at most 10000");
    }

    #[test]
    fn the_schema_names_every_field_and_limit() {
        let schema: serde_json::Value = serde_json::from_str(include_str!("config.schema.json")).expect("JSON");
        let names = |at: &str| -> Vec<String> {
            schema
                .pointer(at)
                .and_then(|value| value.as_object())
                .into_iter()
                .flat_map(|map| map.keys().cloned())
                .collect()
        };
        assert_eq!(names("/properties"), ["language", "extraInstructions", "prompts"]);
        let layers = ["selfDriving", "eventBased", "polling", "unblock", "backlog", "zombie"];
        assert_eq!(names("/properties/prompts/properties"), layers);
        assert_eq!(schema["properties"]["extraInstructions"]["maxLength"], TEXT_CHARS_MAX);
        assert_eq!(schema["$defs"]["template"]["maxLength"], TEXT_CHARS_MAX);
    }
}
