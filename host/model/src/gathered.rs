//! An answer while it grows, the same for every wire.
//! Keeps true: a call is announced once, when its name is known, with the id that it has in the answer; ids of one answer differ;
//! an answer is whole once its reason to stop has come. Never: reads a vendor's JSON.

use serde_json::{Map, Value};

use crate::conversation::plain;
use crate::failure::cut;
use crate::{Answer, Delta, Failure, FailureKind, Stop, ToolCall, Usage};

const CALLS_MAX: usize = 128;
const UNPARSED_CHARS_MAX: usize = 2000;
const ANSWER_ID_CHARS_MAX: usize = 24;
/// A name that no tool has, so that the model is told so and calls again.
const NAMELESS: &str = "_unnamed";

#[derive(Default)]
pub(crate) struct Gathered {
    /// The provider's name for the answer, from which ids of calls are made where it gives none.
    pub answer_id: String,
    pub calls: Vec<Begun>,
    pub stop: Option<Stop>,
    pub usage: Usage,
    /// The text is the model's refusal, whatever its reason to stop.
    pub is_refused: bool,
    /// Nothing that follows belongs to the answer.
    pub is_over: bool,
    text: String,
    deltas: Vec<Delta>,
}

/// A call while its arguments come in.
pub(crate) struct Begun {
    pub index: Option<u64>,
    /// The id as the provider sent it; may be empty or not its own.
    pub sent_id: String,
    pub id: String,
    pub name: String,
    /// JSON, in pieces.
    pub arguments: String,
}

impl Gathered {
    pub fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        match self.deltas.last_mut() {
            Some(Delta::Text(last)) => last.push_str(text),
            Some(Delta::CallBegun { .. }) | None => self.deltas.push(Delta::Text(text.to_owned())),
        }
    }

    /// Gives the place of the new call.
    pub fn begin(&mut self, index: Option<u64>, sent_id: &str, name: &str) -> Result<usize, Failure> {
        let at = self.calls.len();
        if at == CALLS_MAX {
            return Err(Failure::new(
                FailureKind::TooLarge,
                format!("the model made more than {CALLS_MAX} tool calls"),
            ));
        }
        let id = self.own_id(sent_id);
        self.calls.push(Begun {
            index,
            sent_id: sent_id.to_owned(),
            id,
            name: String::new(),
            arguments: String::new(),
        });
        self.name(at, name);
        Ok(at)
    }

    /// The first name stays: some servers repeat it with every piece.
    pub fn name(&mut self, at: usize, name: &str) {
        if let Some(call) = self.calls.get_mut(at).filter(|call| call.name.is_empty() && !name.is_empty()) {
            call.name = name.to_owned();
            self.deltas.push(Delta::CallBegun { id: call.id.clone(), name: name.to_owned() });
        }
    }

    pub fn take_deltas(&mut self) -> Vec<Delta> {
        std::mem::take(&mut self.deltas)
    }

    pub fn finish(self) -> Result<Answer, Failure> {
        let Some(stop) = self.stop else {
            return Err(Failure::new(FailureKind::Broken, "the stream ended before the answer was whole"));
        };
        let calls: Vec<ToolCall> = self.calls.into_iter().map(Begun::finish).collect();
        // Some servers say `stop` after a call, others speak of calls and make none.
        let stop = match stop {
            _ if self.is_refused => Stop::Refusal,
            Stop::End | Stop::ToolCalls if calls.is_empty() => Stop::End,
            Stop::End | Stop::ToolCalls => Stop::ToolCalls,
            Stop::MaxTokens | Stop::Refusal | Stop::Other => stop,
        };
        Ok(Answer { text: self.text, calls, stop, usage: self.usage })
    }

    fn own_id(&self, sent: &str) -> String {
        let is_free = |id: &str| !id.is_empty() && self.calls.iter().all(|call| call.id != id);
        if is_free(sent) {
            return sent.to_owned();
        }
        let skipped = self.answer_id.chars().count().saturating_sub(ANSWER_ID_CHARS_MAX);
        let tail: String = self.answer_id.chars().skip(skipped).collect();
        let made = |number: usize| match tail.as_str() {
            "" => format!("call_{number}"),
            tail => format!("call_{}_{number}", plain(tail)),
        };
        // One of these is free, since there are at most `CALLS_MAX` others.
        (0..=CALLS_MAX).map(made).find(|id| is_free(id)).unwrap_or_else(|| made(CALLS_MAX))
    }
}

impl Begun {
    fn finish(self) -> ToolCall {
        let name = if self.name.is_empty() { NAMELESS.to_owned() } else { self.name };
        ToolCall { id: self.id, name, arguments: arguments(&self.arguments) }
    }
}

/// No words at all are no arguments; words that are no object are handed on for the tool's schema to refuse.
fn arguments(text: &str) -> Map<String, Value> {
    if matches!(text.trim(), "" | "null") {
        return Map::new();
    }
    serde_json::from_str(text)
        .unwrap_or_else(|_| Map::from_iter([("_unparsed".to_owned(), Value::String(cut(text, UNPARSED_CHARS_MAX)))]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_are_no_object_are_handed_on_as_text() {
        let check = |text: &str, expected: Value| assert_eq!(Value::Object(arguments(text)), expected);
        check("", json!({}));
        check(" null ", json!({}));
        check(r#" {"a": {"b": 1}} "#, json!({"a": {"b": 1}}));
        check(r#"{"a": "cut of"#, json!({"_unparsed": r#"{"a": "cut of"#}));
        check("[1]", json!({"_unparsed": "[1]"}));
        check(r#"{"a":1}{"b":2}"#, json!({"_unparsed": r#"{"a":1}{"b":2}"#}));
        check(&"[".repeat(500), json!({"_unparsed": "[".repeat(500)}));
        let long = arguments(&"가".repeat(5000));
        assert_eq!(long["_unparsed"].as_str().expect("of this kind").chars().count(), 2000);
    }

    #[test]
    fn every_call_has_an_id_of_its_own() {
        let ids = |answer_id: &str, sent: &[&str]| {
            let mut gathered = Gathered { answer_id: answer_id.into(), ..Gathered::default() };
            sent.iter().for_each(|id| {
                gathered.begin(None, id, "t").expect("good");
            });
            gathered.calls.into_iter().map(|call| call.id).collect::<Vec<_>>()
        };
        assert_eq!(ids("", &["a", "", "a", "call_2"]), ["a", "call_0", "call_1", "call_2"]);
        assert_eq!(ids("chatcmpl-7", &["", "", ""]), ["call_chatcmpl-7_0", "call_chatcmpl-7_1", "call_chatcmpl-7_2"]);
        assert!(ids(&"가".repeat(99), &[""])[0].len() < 40);
    }

    #[test]
    fn more_calls_than_the_bound_are_refused() {
        let mut gathered = Gathered::default();
        for _ in 0..CALLS_MAX {
            gathered.begin(None, "", "t").expect("good");
        }
        assert_eq!(gathered.begin(None, "", "t").unwrap_err().kind, FailureKind::TooLarge);
    }

    #[test]
    fn a_call_that_never_gets_a_name_still_comes_with_the_answer() {
        let mut gathered = Gathered { stop: Some(Stop::ToolCalls), ..Gathered::default() };
        gathered.begin(None, "c", "").expect("good");
        assert_eq!(gathered.take_deltas(), []);
        assert_eq!(gathered.finish().expect("a whole answer").calls[0].name, NAMELESS);
    }

    #[test]
    fn the_reason_to_stop_agrees_with_the_calls() {
        let stop = |stop: Stop, calls: usize| {
            let mut gathered = Gathered { stop: Some(stop), ..Gathered::default() };
            (0..calls).for_each(|_| {
                gathered.begin(None, "", "t").expect("good");
            });
            gathered.finish().expect("a whole answer").stop
        };
        assert_eq!(stop(Stop::End, 1), Stop::ToolCalls);
        assert_eq!(stop(Stop::ToolCalls, 0), Stop::End);
        assert_eq!(stop(Stop::MaxTokens, 1), Stop::MaxTokens);
    }
}
