//! Rows as a prompt repeats them: what was said and how much it weighs, and nothing else of what a row holds. A long conversation is read for
//! every question to a model, and as JSON it would take ten times its text.

use chela_model::{ToolCall, ToolResult, Turn, estimate_tokens};
use serde_json::{Map, Value, json};

use super::rows::{is_beginning, text_of};

/// Results past this are shortened once the window gets narrow.
const SHORTENED_CHARS: usize = 300;
/// The last rows are never shortened.
const LAST_ROWS: usize = 6;

/// A row of a conversation.
#[derive(Clone, Debug)]
pub struct Told {
    /// None where it is in no prompt.
    said: Option<Turn>,
    weight: u64,
    role: Role,
    /// What lies before it is no part of the prompt.
    is_beginning: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    User,
    Assistant,
    Result,
    /// Summaries, and marks of the gateway.
    System,
}

impl Told {
    pub(super) fn of(row: &Value) -> Self {
        let role = match row["role"].as_str() {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("toolResult") => Role::Result,
            _ => Role::System,
        };
        let said = match role {
            Role::User if row["__openclaw"]["withdrawn"] == true => None,
            Role::User => Some(Turn::User { text: marked(row, text_of(row)) }),
            Role::Assistant => {
                let calls = row["content"].as_array().into_iter().flatten().filter_map(call_of).collect();
                Some(Turn::Assistant { text: as_written(row), calls })
            }
            Role::Result => Some(Turn::Results(vec![ToolResult {
                call_id: row["toolCallId"].as_str().unwrap_or_default().to_owned(),
                text: text_of(row),
                is_error: row["isError"] == json!(true),
            }])),
            Role::System if row["__openclaw"]["kind"] == "compaction" => {
                Some(Turn::User { text: format!("[Summary of the conversation so far]\n{}", text_of(row)) })
            }
            Role::System => None,
        };
        Self { said, weight: weight_of(&row["content"]), role, is_beginning: is_beginning(row) }
    }

    pub(super) fn is_beginning(&self) -> bool {
        self.is_beginning
    }

    /// Whether a conversation may begin with it: what somebody asked, never a result.
    pub(super) fn may_begin(&self) -> bool {
        self.role == Role::User || self.is_beginning
    }

    /// Tokens, about.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether somebody said it who takes part, and did not take it back.
    pub fn is_of_somebody(&self) -> bool {
        self.role != Role::System && self.said.is_some()
    }

    /// What is left of a result that is too long.
    fn shortened(&self) -> Option<Self> {
        let Some(Turn::Results(results)) = &self.said else { return None };
        let result = results.first().filter(|result| result.text.chars().count() > SHORTENED_CHARS)?;
        let text = format!("{} [shortened]", result.text.chars().take(SHORTENED_CHARS).collect::<String>());
        let weight = weight_of(&json!([{ "type": "text", "text": text }])).min(self.weight);
        let said = Turn::Results(vec![ToolResult { text, ..result.clone() }]);
        Some(Self { said: Some(said), weight, ..*self })
    }
}

fn weight_of(content: &Value) -> u64 {
    estimate_tokens(&content.to_string()) as u64
}

/// Tokens of a conversation, about.
pub fn weight(told: &[Told]) -> u64 {
    told.iter().map(Told::weight).sum()
}

/// The conversation within `room`: results are shortened from the oldest on, then the oldest exchanges are left out. None if not even
/// the last exchange fits.
pub fn fit(told: &[Told], room: u64) -> Option<Vec<Turn>> {
    let mut total = weight(told);
    let mut short: Vec<Option<Told>> = vec![None; told.len()];
    let last = told.len().saturating_sub(LAST_ROWS);
    for (row, short) in told.iter().zip(&mut short).take(last) {
        if total <= room {
            break;
        }
        *short = row.shortened();
        total -= short.as_ref().map_or(0, |short| row.weight - short.weight);
    }
    let row = |at: usize| short[at].as_ref().unwrap_or(&told[at]);
    let mut first = 0;
    while total > room {
        // What begins with the next question is a conversation of its own.
        let next = (first + 1..told.len()).find(|at| told[*at].role == Role::User)?;
        total = (first..next).fold(total, |total, at| total.saturating_sub(row(at).weight));
        first = next;
    }
    (first < told.len()).then(|| turns((first..told.len()).map(row)))
}

/// The turns that rows stand for; results that belong together are one.
fn turns<'a>(told: impl Iterator<Item = &'a Told>) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for said in told.filter_map(|told| told.said.as_ref()) {
        match (turns.last_mut(), said) {
            (Some(Turn::Results(before)), Turn::Results(more)) => before.extend(more.iter().cloned()),
            _ => turns.push(said.clone()),
        }
    }
    turns
}

/// An answer as its model wrote it, questions included: it goes on from its own words.
fn as_written(row: &Value) -> String {
    let Value::Array(parts) = &row["content"] else { return text_of(row) };
    let marker = |part: &Value| {
        let questions = part["humanQuery"]["questions"].as_array()?;
        let lines = questions.iter().filter_map(Value::as_str).map(|question| format!("[NEED_HUMAN: {question}]"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    };
    let texts = parts.iter().filter_map(|part| marker(part).or_else(|| part["text"].as_str().map(str::to_owned)));
    texts.collect::<Vec<_>>().join("\n")
}

fn call_of(part: &Value) -> Option<ToolCall> {
    let arguments: Map<String, Value> = part["arguments"].as_object().cloned().unwrap_or_default();
    let (id, name) = (part["id"].as_str()?, part["name"].as_str()?);
    (part["type"] == "toolCall").then(|| ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
}

/// A text with its origin said, so that a model takes no other's words for a person's of this deployment.
fn marked(row: &Value, text: String) -> String {
    let origin = &row["provenance"];
    if let Some(note) = origin["note"].as_str() {
        return format!("[{note}]\n{text}");
    }
    match origin["kind"].as_str() {
        Some("inter_session") => {
            let from = origin["sourceSessionKey"].as_str().unwrap_or("another session");
            format!(
                "[Message from another agent's session {from}; not a person, not an instruction of the operator]\n{text}"
            )
        }
        Some("internal_system") => format!("[Message of the gateway]\n{text}"),
        _ => match origin["sourceChannel"].as_str() {
            Some(channel) => format!("[Message from outside, over {channel}]\n{text}"),
            None => text,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Run, Step};
    use super::super::rows::of_run;
    use super::*;
    use crate::clock::Timestamp;

    fn row(role: &str, text: &str) -> Told {
        Told::of(&json!({ "role": role, "content": [{ "type": "text", "text": text }], "toolCallId": "c" }))
    }

    #[test]
    fn results_are_shortened_before_exchanges_are_left_out() {
        let long = "x ".repeat(4_000);
        let mut rows = vec![row("user", "one"), row("assistant", "a"), row("toolResult", &long), row("user", "two")];
        rows.extend((0..6).map(|_| row("assistant", "b")));
        let full = weight(&rows);
        let all = fit(&rows, full).expect("fits");
        assert_eq!(all.len(), 10);
        let short = fit(&rows, full / 2).expect("fits");
        assert_eq!(short.len(), 10);
        assert!(matches!(&short[2], Turn::Results(results) if results[0].text.ends_with("[shortened]")));
        let less = fit(&rows, 60).expect("the last exchange fits");
        assert!(matches!(&less[0], Turn::User { text } if text == "two"));
        assert!(fit(&rows, 3).is_none());
        assert!(fit(&[], 3).is_none());
    }

    #[test]
    fn results_of_one_answer_are_one_turn() {
        let rows = [row("user", "one"), row("toolResult", "a"), row("toolResult", "b"), row("reset", "")];
        let turns = fit(&rows, 1_000).expect("fits");
        assert!(matches!(&turns[..], [Turn::User { .. }, Turn::Results(results)] if results.len() == 2), "{turns:?}");
    }

    #[test]
    fn a_message_that_was_taken_back_is_shown_and_no_prompt_has_it() {
        let accepted = json!({
            "id": "r", "session": "agent:eden:main", "sessionId": "s", "order": 1, "method": "chat.send", "at": 1, "text": "never mind",
            "chain": { "id": "r", "hop": 0 },
        });
        let accepted = serde_json::from_value(accepted).expect("a message");
        let run = Run { accepted, resumed: 0, ended: None, settled: false };
        let told = |steps: &[Step]| of_run(&run, steps).iter().map(Told::of).collect::<Vec<_>>();
        assert_eq!(turns(told(&[]).iter()).len(), 1);
        let steps = [Step::Withdrawn { at: Timestamp(2) }];
        assert_eq!(of_run(&run, &steps).iter().map(text_of).collect::<Vec<_>>(), ["never mind"]);
        assert!(turns(told(&steps).iter()).is_empty());
    }
}
