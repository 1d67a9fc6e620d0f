//! Connections out of this machine: requests and sockets that go only where a list allows.
//! Keeps true: of a listed request every name is looked up here, all answers are checked, and what was checked is what is connected to;
//! each redirect passes the same checks. Never: connects to an inner address that the list does not name itself.

mod address;
mod call;
mod fetch;
mod hosts;
mod socket;
mod target;

pub use call::{Answered, Caller};
pub use fetch::{Asked, Error, Fetched, Gate, Limits};
pub use hosts::Hosts;
pub use socket::{Socket, connect};

pub use crate::tls::{Secured, secured};

/// An error with all that caused it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
