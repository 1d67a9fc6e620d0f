//! Questions to people: an orchestrator writes `[NEED_HUMAN: …]`, a person answers, and the task goes on.
//! Each is a [`Question`], moved only by [`step`]. Keeps true: the first answer stands; a marker is never seen by whoever reads along; what
//! is no well-formed marker stays text. Never: touches a disk, reads a clock, asks a model.

mod fences;
mod marker;
mod recall;
mod record;
mod step;
mod walk;

pub use marker::{Malformed, Parsed, Why, parse_human_query, visible_so_far};
pub use recall::{Recalled, recall};
pub use record::{Answer, Ask, Asked, Chat, Phase, Question, State, TaskRef, numbered};
pub use step::{ANSWER_CHARS_MAX, Deadline, Input, Next, QUESTIONS_MAX, Refused, Told, What, create, step};

/// Questions of one output that count.
pub const QUESTIONS_AT_ONCE: usize = 5;
/// The longest question.
pub const QUESTION_CHARS_MAX: usize = 2_000;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
