//! The life of one channel adapter: it is started, told what happened, and what it answers becomes effects under bounds.
//! Each adapter is moved only by [`step`]. Keeps true: nothing that it answers is done before it was checked and committed, a call that
//! failed does nothing; a delivery ends delivered or refused, in the order of its place; every queue has an end. Never: opens a socket,
//! reads a clock, or knows a network.

mod adapter;
mod answer;
mod check;
mod outbox;
mod plain;
mod rates;
mod seen;
mod step;
mod words;

pub use adapter::{Adapter, Connection, Phase, Standing, Status};
pub use check::{Bounds, check};
pub use outbox::{AGE_MS_MAX, DELIVERIES_MAX, Done, Outcome};
pub use rates::Rates;
pub use step::{Commit, Effect, Event, Refusal, WEBHOOK_MS, restart_after, step};
pub use words::{
    Command, Compression, Delivered, Encoding, Header, Health, Inbound, Input, Keepalive, Open, Outbound, Output,
    Piece, Presence, Question, Request, Response, Signed, State, Text, Wants, WebhookRequest, WebhookResponse,
    is_target,
};

#[cfg(test)]
mod tests;
