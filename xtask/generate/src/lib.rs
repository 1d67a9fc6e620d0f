//! Realistic event logs of any length: a team's work sessions, interleaved in time as a gateway would have logged them.
//! Keeps true: the same options give the same bytes on every machine; memory does not grow with the length.
//! Never: reads the classifier's held-out items, or anything of the machine it runs on.

mod cast;
mod chance;
mod plan;
mod record;
mod talk;
mod write;

#[cfg(test)]
mod tests;

use std::io;

pub use cast::{AGENTS_MIN, Agent, agents};
use plan::session::Style;
use plan::{Pace, Plan};
use talk::Talk;
use write::Writer;

const DAY_MS: u64 = 86_400_000;

/// At this pace a million events cover 120 days.
const EVENT_MS: u64 = 120 * DAY_MS / 1_000_000;

/// The time of the last event where none is asked for: 2026-03-01 in UTC. A constant, since a log must repeat itself.
pub const UNTIL_MS: u64 = 1_772_323_200_000;

/// What log is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    pub events: u64,
    pub seed: u64,
    /// The time of the last event. What a reader calls active, quiet or archived follows from it.
    pub until_ms: u64,
    /// About how long before the last event the first one is.
    pub span_ms: u64,
    /// How many of 1,000 lines are of writers before roles, ids and work sessions.
    pub legacy_per_mille: u32,
    /// How many of `agents()` take part, from `AGENTS_MIN` on.
    pub agents: usize,
}

impl Options {
    /// A log at the usual pace, of the whole team, with 5 % of legacy lines.
    pub fn new(events: u64, seed: u64) -> Self {
        Self {
            events,
            seed,
            until_ms: UNTIL_MS,
            span_ms: events.saturating_mul(EVENT_MS),
            legacy_per_mille: 50,
            agents: agents().len(),
        }
    }
}

/// One line of the log.
pub struct Line<'a> {
    /// JSON, without the line's end
    pub text: &'a str,
    pub ts_ms: u64,
    pub legacy: bool,
}

/// Hands out `options.events` lines, oldest first, until `out` fails.
pub fn generate<E>(options: &Options, mut out: impl FnMut(&Line<'_>) -> Result<(), E>) -> Result<(), E> {
    if options.events == 0 {
        return Ok(());
    }
    let talk = Talk::new();
    let pace = Pace {
        seed: options.seed,
        agents: options.agents.clamp(AGENTS_MIN, agents().len()) as u8,
        topics: talk.topics(),
        legacy_per_mille: options.legacy_per_mille,
        event_us: options.span_ms.saturating_mul(1_000) / options.events,
    };
    // Planned twice: when the last event happens is known only at the end, and times count back from it.
    let mut rehearsal = Plan::new(pace);
    let last_ms = (0..options.events).map(|_| rehearsal.step().at_ms).last().unwrap_or(0);
    drop(rehearsal);

    let mut plan = Plan::new(pace);
    let mut writer = Writer::new(talk, options.seed);
    let mut text = String::new();
    for left in (0..options.events).rev() {
        let moment = plan.step();
        let session = plan.session(moment.slot);
        let legacy = matches!(session.style, Style::Legacy { .. });
        // Old writers stamped an event before they queued it, so now and then one is older than the line above.
        let lag_ms = if legacy && left > 0 { writer.lag_ms() } else { 0 };
        let ts_ms = (options.until_ms + moment.at_ms).saturating_sub(last_ms + lag_ms);
        writer.write(&mut text, session, moment.beat, ts_ms);
        out(&Line { text: &text, ts_ms, legacy })?;
    }
    Ok(())
}

/// Writes the whole log.
pub fn write(options: &Options, mut out: impl io::Write) -> io::Result<()> {
    generate(options, |line| {
        out.write_all(line.text.as_bytes())?;
        out.write_all(b"\n")
    })?;
    out.flush()
}
