//! The scripted provider: answers of a model, written down beforehand, for tests and demonstrations.
//! Keeps true: the same script and the same request give the same answer; which step is next is read off the conversation, so that
//! nothing is remembered and a restart changes nothing. Never: waits; it only says how long the answer should take.
//!
//! ```json5
//! { rules: [                           // the first that fits answers
//!     { agent: "eden",                 // only this agent; left out: every one
//!       when: "deploy",                // occurs in the last user turn, in any case; or a list of which one must; left out: always
//!       steps: [                       // one answer each, from the last user turn on; behind the last: the empty text, and the run ends
//!         { say: "I look at it.", call: { tool: "task_start", args: { description: "Deploy {{input}}" } } },  // or calls: [...]
//!         { fail: { kind: "overloaded", message: "busy", times: 1 } },  // in front of the next step, so often; 1 if left out
//!         { say: "Done: {{result.id}}", delayMs: 200 } ] } ],
//!   otherwise: "You said: {{input}}" } // when no rule fits; as here if left out
//! ```
//! `{{input}}` is the last user turn, `{{result}}` the last tool result, `{{result.KEY}}` a key of this run's last JSON result that has it, each up
//! to 500 characters; `{{agent}}` and `{{turn}}`, the number of user turns. Calls have the id `call_{turn}_{step}_{n}`, each from 1.

mod fill;
mod parse;

use serde_json::{Map, Value};

use crate::request::estimate_of_calls;
use crate::{Answer, Failure, FailureKind, Request, Stop, ToolCall, Turn, Usage, estimate_tokens};
use fill::Fill;

const OTHERWISE: &str = "You said: {{input}}";

/// A script that has been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    rules: Vec<Rule>,
    otherwise: String,
}

/// An answer, and how it is to be given.
#[derive(Clone, Debug, PartialEq)]
pub struct Scripted {
    pub answer: Answer,
    /// How long the answer takes to begin.
    pub delay_ms: u64,
    /// The text as it is streamed, by words; together they are the text.
    pub pieces: Vec<String>,
    /// The provider fails instead; the answer is empty then.
    pub failure: Option<Failure>,
}

/// A script that is not followed, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("the script has {bytes} bytes; keep it within {}", parse::SCRIPT_BYTES_MAX)]
    TooLong { bytes: usize },
    #[error("the script is no JSON5{place}: {problem}")]
    Syntax { place: String, problem: String },
    /// `place` names the rule, the step and the key.
    #[error("{place}: {problem}")]
    Rule { place: String, problem: String },
}

#[derive(Clone, Debug, PartialEq)]
struct Rule {
    agent: Option<String>,
    /// In lower case; one of them must occur. Empty: always.
    when: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
struct Step {
    act: Act,
    delay_ms: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Act {
    Answer { say: String, calls: Vec<Call> },
    Fail { kind: FailureKind, message: String, times: u32 },
}

#[derive(Clone, Debug, PartialEq)]
struct Call {
    tool: String,
    args: Map<String, Value>,
}

impl Default for Script {
    /// No rules: every text is answered with itself.
    fn default() -> Self {
        Self { rules: Vec::new(), otherwise: OTHERWISE.to_owned() }
    }
}

impl Script {
    pub fn parse(json5_text: &str) -> Result<Self, ScriptError> {
        parse::script(json5_text)
    }

    /// The answer when this very request is made for the first time.
    pub fn answer(&self, agent: &str, request: &Request) -> Scripted {
        self.answer_after(agent, request, 0)
    }

    /// The answer when this very request has failed so many times already. A failing step fails as often as it says; then the step
    /// behind it answers. Whoever never counts gets the failure every time.
    pub fn answer_after(&self, agent: &str, request: &Request, failures: u32) -> Scripted {
        let run = Run::of(&request.turns);
        let mut fill = Fill::new(agent, &run, &request.turns);
        let input = run.input.to_lowercase();
        let is_meant = |rule: &&Rule| {
            rule.agent.as_deref().is_none_or(|name| name == agent)
                && (rule.when.is_empty() || rule.when.iter().any(|words| input.contains(words)))
        };
        let Some(rule) = self.rules.iter().find(is_meant) else {
            let text = if run.answers == 0 { fill.text(&self.otherwise) } else { String::new() };
            return spoken(request, text, Vec::new(), 0);
        };
        match next(&rule.steps, run.answers, failures) {
            None => spoken(request, String::new(), Vec::new(), 0),
            Some((number, step)) => match &step.act {
                Act::Answer { say, calls } => {
                    let text = fill.text(say);
                    let calls = calls.iter().zip(1..).map(|(call, n)| ToolCall {
                        id: format!("call_{}_{number}_{n}", run.turn),
                        name: call.tool.clone(),
                        arguments: fill.object(&call.args),
                    });
                    spoken(request, text, calls.collect(), step.delay_ms)
                }
                Act::Fail { kind, message, .. } => failed(Failure::new(*kind, fill.text(message)), step.delay_ms),
            },
        }
    }
}

/// Where the conversation stands.
struct Run<'a> {
    /// The last user turn.
    input: &'a str,
    /// User turns so far.
    turn: usize,
    /// Answers of the model since the last user turn.
    answers: usize,
}

impl<'a> Run<'a> {
    fn of(turns: &'a [Turn]) -> Self {
        let mut run = Self { input: "", turn: 0, answers: 0 };
        for turn in turns {
            match turn {
                Turn::User { text } => run = Self { input: text, turn: run.turn + 1, answers: 0 },
                Turn::Assistant { .. } => run.answers += 1,
                Turn::Results(_) => {}
            }
        }
        run
    }
}

/// The step that is next, with its number from 1: a failing one leaves no answer in the conversation, so only the others are counted.
fn next(steps: &[Step], answers: usize, failures: u32) -> Option<(usize, &Step)> {
    let mut answers_left = answers;
    let mut failures_left = failures;
    for (step, number) in steps.iter().zip(1..) {
        match &step.act {
            Act::Answer { .. } if answers_left == 0 => return Some((number, step)),
            Act::Answer { .. } => answers_left -= 1,
            Act::Fail { .. } if answers_left > 0 => {}
            Act::Fail { times, .. } if failures_left < *times => return Some((number, step)),
            Act::Fail { times, .. } => failures_left -= times,
        }
    }
    None
}

fn spoken(request: &Request, text: String, calls: Vec<ToolCall>, delay_ms: u64) -> Scripted {
    let output = estimate_tokens(&text) + estimate_of_calls(&calls);
    let usage = Usage { input: request.estimate_tokens() as u64, output: output as u64, ..Usage::default() };
    let stop = if calls.is_empty() { Stop::End } else { Stop::ToolCalls };
    let pieces = text.split_inclusive(char::is_whitespace).map(str::to_owned).collect();
    Scripted { answer: Answer { text, calls, stop, usage }, delay_ms, pieces, failure: None }
}

fn failed(failure: Failure, delay_ms: u64) -> Scripted {
    let answer = Answer { text: String::new(), calls: Vec::new(), stop: Stop::Other, usage: Usage::default() };
    Scripted { answer, delay_ms, pieces: Vec::new(), failure: Some(failure) }
}

#[cfg(test)]
mod tests;
