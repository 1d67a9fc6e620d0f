//! How asking a model fails.
//! Keeps true: a message is one line of at most 500 characters without anything that looks like a key.
//! Never: decides whether or when to try again; it only says whether that can help.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::secrets;

const MESSAGE_CHARS_MAX: usize = 500;
/// Providers send whole HTML pages; what follows is never shown, so it is not looked at either.
const MESSAGE_CHARS_READ: usize = 4000;

/// A model that could not be asked, or an answer that did not come whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
    /// How long the provider asks to be left alone.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// Takes keys and line ends out of the message and cuts it.
    pub fn new(kind: FailureKind, message: impl AsRef<str>) -> Self {
        let head: String = message.as_ref().chars().take(MESSAGE_CHARS_READ).collect();
        let words: Vec<&str> =
            head.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
        let message = cut(&secrets::hide(&words.join(" ")), MESSAGE_CHARS_MAX);
        Self { kind, message, retry_after: None }
    }

    /// Whether the same request can succeed later.
    pub fn is_worth_retrying(&self) -> bool {
        match self.kind {
            FailureKind::RateLimit
            | FailureKind::Overloaded
            | FailureKind::Server
            | FailureKind::Broken
            | FailureKind::Timeout => true,
            FailureKind::Auth
            | FailureKind::ContextLength
            | FailureKind::Invalid
            | FailureKind::Refusal
            | FailureKind::TooLarge
            | FailureKind::Malformed => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The key is missing, wrong, or not allowed to do this.
    Auth,
    RateLimit,
    Overloaded,
    Timeout,
    /// The conversation is longer than the model takes.
    ContextLength,
    /// The provider does not take the request as it is.
    Invalid,
    /// The provider refuses what is asked for.
    Refusal,
    Server,
    /// The stream ended before the answer was whole.
    Broken,
    /// The request or the answer passes a bound.
    TooLarge,
    /// The answer is not in the format of the wire.
    Malformed,
}

impl FailureKind {
    pub const ALL: [Self; 11] = [
        Self::Auth,
        Self::RateLimit,
        Self::Overloaded,
        Self::Timeout,
        Self::ContextLength,
        Self::Invalid,
        Self::Refusal,
        Self::Server,
        Self::Broken,
        Self::TooLarge,
        Self::Malformed,
    ];

    /// The word for it in JSON and in scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimit => "rate_limit",
            Self::Overloaded => "overloaded",
            Self::Timeout => "timeout",
            Self::ContextLength => "context_length",
            Self::Invalid => "invalid",
            Self::Refusal => "refusal",
            Self::Server => "server",
            Self::Broken => "broken",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The text, or its beginning and an ellipsis, in at most so many characters.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    if text.chars().nth(chars_max).is_none() {
        return text.to_owned();
    }
    text.chars().take(chars_max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_short_line_without_keys() {
        let failure =
            Failure::new(FailureKind::Auth, format!("bad key\r\n\tsk-ant-api03-abcdefgh {}", "가".repeat(9999)));
        assert!(failure.message.starts_with("bad key [key removed] 가"), "{failure}");
        assert_eq!(failure.message.chars().count(), 500);
        assert!(failure.message.ends_with('…'));
    }

    #[test]
    fn the_word_of_a_kind_is_the_same_in_json() {
        for kind in FailureKind::ALL {
            assert_eq!(serde_json::to_value(kind).expect("of this kind"), kind.as_str());
            assert_eq!(FailureKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(FailureKind::parse("tired"), None);
    }

    #[test]
    fn only_what_passes_by_itself_is_worth_retrying() {
        let worth: Vec<&str> = FailureKind::ALL
            .into_iter()
            .filter(|kind| Failure::new(*kind, "").is_worth_retrying())
            .map(FailureKind::as_str)
            .collect();
        assert_eq!(worth, ["rate_limit", "overloaded", "timeout", "server", "broken"]);
    }
}
