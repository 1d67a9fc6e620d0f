//! Turns as providers want to see them: people and model alternate, and every call has its result right behind it.
//! Keeps true: neighbours of one side are one message; nothing blank is sent; a history that was cut or broken off in the midst of a
//! tool call is mended, since a provider would refuse it again with every later request. Never: changes what was said.

use std::borrow::Cow;

use crate::{ToolCall, ToolResult, Turn};

const NO_RESULT: &str = "no result: the run was broken off before this tool answered";
/// Longer names and other characters are refused by providers, and models do make them up.
const NAME_CHARS_MAX: usize = 64;

/// What one side says before the other speaks.
pub(crate) enum Message<'a> {
    People { results: Vec<Told<'a>>, texts: Vec<Cow<'a, str>> },
    Model { texts: Vec<&'a str>, calls: Vec<&'a ToolCall> },
}

/// The result of a call of the message before.
pub(crate) struct Told<'a> {
    pub call_id: &'a str,
    pub text: &'a str,
    pub is_error: bool,
}

pub(crate) fn messages(turns: &[Turn]) -> Vec<Message<'_>> {
    let mut messages = Vec::new();
    let mut open: Vec<&ToolCall> = Vec::new();
    for side in sides(turns) {
        if side.is_model {
            open.clone_from(&side.calls);
            messages.push(Message::Model { texts: side.texts, calls: side.calls });
        } else {
            messages.push(answered(&std::mem::take(&mut open), side.results, side.texts));
        }
    }
    if !open.is_empty() {
        messages.push(answered(&open, Vec::new(), Vec::new()));
    }
    messages
}

/// A name or an id in the letters that every provider takes; the same in for the same out, so calls and results still meet.
pub(crate) fn plain(name: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
    let plain: String = name.chars().take(NAME_CHARS_MAX).map(letter).collect();
    if plain.is_empty() { "_".to_owned() } else { plain }
}

#[derive(Default)]
struct Side<'a> {
    is_model: bool,
    texts: Vec<&'a str>,
    calls: Vec<&'a ToolCall>,
    results: Vec<&'a ToolResult>,
}

fn sides(turns: &[Turn]) -> Vec<Side<'_>> {
    let mut sides = Vec::new();
    for turn in turns {
        match turn {
            Turn::User { text } => {
                if !is_blank(text) {
                    last_of(&mut sides, false).texts.push(text);
                }
            }
            Turn::Results(results) => {
                if !results.is_empty() {
                    last_of(&mut sides, false).results.extend(results);
                }
            }
            Turn::Assistant { text, calls } => {
                if !is_blank(text) {
                    last_of(&mut sides, true).texts.push(text);
                }
                if !calls.is_empty() {
                    last_of(&mut sides, true).calls.extend(calls);
                }
            }
        }
    }
    sides
}

/// The last side if it is the wanted one, else a new one.
fn last_of<'s, 'a>(sides: &'s mut Vec<Side<'a>>, is_model: bool) -> &'s mut Side<'a> {
    if sides.last().is_none_or(|last| last.is_model != is_model) {
        sides.push(Side { is_model, ..Side::default() });
    }
    sides.last_mut().expect("one was put there if there was none")
}

/// One result for each open call, in their order; what belongs to no open call is told as text.
fn answered<'a>(open: &[&'a ToolCall], mut results: Vec<&'a ToolResult>, texts: Vec<&'a str>) -> Message<'a> {
    let told = open.iter().map(|call| match results.iter().position(|result| result.call_id == call.id) {
        Some(at) => {
            let result = results.remove(at);
            Told { call_id: &call.id, text: &result.text, is_error: result.is_error }
        }
        None => Told { call_id: &call.id, text: NO_RESULT, is_error: true },
    });
    let told = told.collect();
    let strays = results.iter().map(|result| Cow::Owned(format!("Result of an earlier tool call: {}", result.text)));
    let texts = strays.chain(texts.into_iter().map(Cow::Borrowed)).collect();
    Message::People { results: told, texts }
}

pub(crate) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Turn {
        Turn::User { text: text.into() }
    }

    fn model(text: &str, ids: &[&str]) -> Turn {
        let call = |id: &&str| ToolCall { id: (*id).into(), name: "read".into(), arguments: Default::default() };
        Turn::Assistant { text: text.into(), calls: ids.iter().map(call).collect() }
    }

    fn result(id: &str, text: &str) -> ToolResult {
        ToolResult { call_id: id.into(), text: text.into(), is_error: false }
    }

    /// One line a message: results as `id=text`, calls as `id?`.
    fn check(turns: &[Turn], expected: &[&str]) {
        let line = |message: &Message| match message {
            Message::People { results, texts } => {
                let results = results.iter().map(|told| format!("{}={}", told.call_id, told.text));
                let all: Vec<String> = results.chain(texts.iter().map(|text| text.to_string())).collect();
                format!("people: {}", all.join(" | "))
            }
            Message::Model { texts, calls } => {
                let calls = calls.iter().map(|call| format!("{}?", call.id));
                let all: Vec<String> = texts.iter().map(|text| text.to_string()).chain(calls).collect();
                format!("model: {}", all.join(" | "))
            }
        };
        assert_eq!(messages(turns).iter().map(line).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn neighbours_of_one_side_are_one_message_and_blanks_are_left_out() {
        check(
            &[user("a"), user("  "), user("b"), model(" ", &[]), user("c"), model("d", &[]), model("e", &[])],
            &["people: a | b | c", "model: d | e"],
        );
        check(&[], &[]);
        check(&[Turn::Results(vec![]), model("", &[])], &[]);
    }

    #[test]
    fn results_stand_first_in_the_order_of_their_calls() {
        check(
            &[
                user("a"),
                model("", &["1", "2"]),
                user("hurry"),
                Turn::Results(vec![result("2", "y"), result("1", "x")]),
            ],
            &["people: a", "model: 1? | 2?", "people: 1=x | 2=y | hurry"],
        );
    }

    #[test]
    fn a_call_without_a_result_gets_one_that_says_so() {
        let none = format!("people: 1={NO_RESULT} | still there?");
        check(&[model("", &["1"]), user("still there?")], &["model: 1?", &none]);
        check(&[model("", &["1"])], &["model: 1?", &format!("people: 1={NO_RESULT}")]);
        check(
            &[model("", &["1"]), model("", &["2"]), Turn::Results(vec![result("2", "y")])],
            &["model: 1? | 2?", &format!("people: 1={NO_RESULT} | 2=y")],
        );
    }

    #[test]
    fn a_result_without_its_call_is_told_as_text() {
        check(
            &[Turn::Results(vec![result("9", "old")]), user("a")],
            &["people: Result of an earlier tool call: old | a"],
        );
        check(
            &[model("", &["1"]), Turn::Results(vec![result("1", "x"), result("1", "again")])],
            &["model: 1?", "people: 1=x | Result of an earlier tool call: again"],
        );
    }

    #[test]
    fn names_are_written_in_letters_that_every_provider_takes() {
        assert_eq!(plain("functions.read file"), "functions_read_file");
        assert_eq!(plain("읽기"), "__");
        assert_eq!(plain(""), "_");
        assert_eq!(plain(&"x".repeat(100)).len(), 64);
    }
}
