//! What keeps an agent at its task: an agent that stopped with work left is told to go on, within caps that always hold.
//! Each agent is moved only by [`step`]. Keeps true: one continuation for one stop; none while something runs or waits, none against a
//! person's word; every task that gets nowhere ends blocked, never in a loop. Never: touches a disk, reads a clock, asks a policy.

mod agent;
mod counts;
mod layers;
mod poll;
mod rules;
mod send;
mod step;
mod why;

pub use agent::{Agent, Last, Timer};
pub use counts::{Counts, Stopped};
pub use rules::Rules;
pub use step::{
    Answer, Ask, Begun, Blocked, By, Counters, Effect, End, Facts, Input, Layer, Look, Outcome, Poll, Send, Stage,
    Stop, step,
};
pub use why::Why;

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
