//! The words of a conversation with a model, as values; the same for every provider.
//! Keeps true: what is written as JSON is read back as it was. Never: knows how a provider spells any of it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tokens::estimate_tokens;

/// All that a model is told for one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    pub model: String,
    pub system: String,
    pub turns: Vec<Turn>,
    pub tools: Vec<ToolSpec>,
    pub max_tokens: u32,
}

impl Request {
    /// What the request costs as input, about; see [`estimate_tokens`].
    pub fn estimate_tokens(&self) -> usize {
        let turns = self.turns.iter().map(Turn::estimate_tokens);
        let tools = self.tools.iter().map(|tool| {
            estimate_tokens(&tool.name) + estimate_tokens(&tool.description) + estimate_tokens(&tool.schema.to_string())
        });
        turns.chain(tools).fold(estimate_tokens(&self.system), usize::saturating_add)
    }
}

/// One part of the conversation: `{"role": "user", "text": …}`, `{"role": "assistant", "text": …, "calls": […]}` or
/// `{"role": "results", "results": […]}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase")]
pub enum Turn {
    User {
        text: String,
    },
    Assistant {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    #[serde(with = "results")]
    Results(Vec<ToolResult>),
}

impl Turn {
    fn estimate_tokens(&self) -> usize {
        match self {
            Self::User { text } => estimate_tokens(text),
            Self::Assistant { text, calls } => estimate_tokens(text) + estimate_of_calls(calls),
            Self::Results(results) => results.iter().map(|result| estimate_tokens(&result.text)).sum(),
        }
    }
}

pub(crate) fn estimate_of_calls(calls: &[ToolCall]) -> usize {
    let one = |call: &ToolCall| {
        estimate_tokens(&call.name) + estimate_tokens(&Value::Object(call.arguments.clone()).to_string())
    };
    calls.iter().map(one).sum()
}

/// What the model wants done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// `{"_unparsed": "<its words, up to 2000 characters>"}` when the model wrote no JSON object: the tool's schema refuses that, and
    /// the model reads the refusal and mends its call.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub call_id: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON schema of the arguments.
    pub schema: Value,
}

/// A whole answer. Keeps true: `stop` is `ToolCalls` only if there are calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub text: String,
    #[serde(default)]
    pub calls: Vec<ToolCall>,
    pub stop: Stop,
    #[serde(default)]
    pub usage: Usage,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    End,
    ToolCalls,
    MaxTokens,
    Refusal,
    Other,
}

/// Tokens, each counted once: `input` leaves out what came from or went into the cache, whatever the provider's own sum says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// A bare list cannot carry the tag `role`, so it is written under a key of its own.
mod results {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::ToolResult;

    #[derive(Serialize)]
    struct Written<'a> {
        results: &'a [ToolResult],
    }

    #[derive(Deserialize)]
    struct Read {
        results: Vec<ToolResult>,
    }

    pub fn serialize<S: Serializer>(results: &[ToolResult], serializer: S) -> Result<S::Ok, S::Error> {
        Written { results }.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ToolResult>, D::Error> {
        Ok(Read::deserialize(deserializer)?.results)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(turn: Turn, written: Value) {
        assert_eq!(serde_json::to_value(&turn).expect("plain JSON"), written);
        assert_eq!(serde_json::from_value::<Turn>(written).expect("plain JSON"), turn);
    }

    #[test]
    fn a_turn_is_read_back_as_it_was_written() {
        check(Turn::User { text: "배포해".into() }, json!({"role": "user", "text": "배포해"}));
        check(Turn::Assistant { text: "ok".into(), calls: vec![] }, json!({"role": "assistant", "text": "ok"}));
        let arguments = json!({"b": 1, "a": [null]}).as_object().expect("an object").clone();
        check(
            Turn::Assistant {
                text: String::new(),
                calls: vec![ToolCall { id: "c1".into(), name: "read".into(), arguments }],
            },
            json!({"role": "assistant", "text": "", "calls": [{"id": "c1", "name": "read", "arguments": {"b": 1, "a": [null]}}]}),
        );
        let good = ToolResult { call_id: "c1".into(), text: "x".into(), is_error: false };
        let bad = ToolResult { call_id: "c2".into(), text: "y".into(), is_error: true };
        check(
            Turn::Results(vec![good, bad]),
            json!({"role": "results", "results": [{"callId": "c1", "text": "x"}, {"callId": "c2", "text": "y", "isError": true}]}),
        );
    }

    #[test]
    fn an_answer_is_written_in_camel_case_with_words_in_lower_case() {
        let usage = Usage { input: 1, output: 2, cache_read: 3, cache_write: 4 };
        let answer = Answer { text: "a".into(), calls: vec![], stop: Stop::MaxTokens, usage };
        let written = json!({
            "text": "a", "calls": [], "stop": "max_tokens",
            "usage": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4},
        });
        assert_eq!(serde_json::to_value(&answer).expect("plain JSON"), written);
        assert_eq!(serde_json::from_value::<Answer>(written).expect("plain JSON"), answer);
    }
}
