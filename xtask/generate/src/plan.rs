//! Which event happens when: sessions begin one after another and go on side by side.
//! Keeps true: beats come in the order of their times; what is kept grows with what runs at once, never with the length of the log.

mod scenes;
pub mod session;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::chance::Chance;
use crate::record::v4;
use scenes::Stage;
use session::{Beat, Session, Style, Title};

/// About how many events a session has. Only the pace of beginnings depends on it, and a wrong pace corrects itself.
const SESSION_EVENTS: u64 = 13;
const HOUR_MS: u64 = 3_600_000;

/// What a plan is made of.
#[derive(Clone, Copy)]
pub struct Pace {
    pub seed: u64,
    pub agents: u8,
    pub topics: u32,
    pub legacy_per_mille: u32,
    /// A thousandth of a millisecond, so that a short span may hold many events.
    pub event_us: u64,
}

/// The next thing that happens: in which session, and when, counted from the beginning.
pub struct Moment {
    pub at_ms: u64,
    pub slot: usize,
    pub beat: Beat,
}

pub struct Plan {
    pace: Pace,
    chance: Chance,
    /// (time, order of planning, slot): the order makes equal times repeatable.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    sessions: Vec<Session>,
    free: Vec<usize>,
    begin_us: u64,
    planned: u64,
    planned_legacy: u64,
    order: u64,
}

impl Plan {
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            chance: Chance::new(pace.seed, 0),
            queue: BinaryHeap::new(),
            sessions: Vec::new(),
            free: Vec::new(),
            begin_us: 0,
            planned: 0,
            planned_legacy: 0,
            order: 0,
        }
    }

    pub fn session(&mut self, slot: usize) -> &mut Session {
        &mut self.sessions[slot]
    }

    /// The next moment. Its session stays readable until the moment after it is asked for.
    pub fn step(&mut self) -> Moment {
        loop {
            let begin_ms = self.begin_us / 1_000;
            match self.queue.peek() {
                Some(&Reverse((at_ms, _, slot))) if at_ms <= begin_ms => {
                    self.queue.pop();
                    if let Some(moment) = self.tell(at_ms, slot) {
                        return moment;
                    }
                }
                Some(_) | None => self.begin(begin_ms),
            }
        }
    }

    fn tell(&mut self, at_ms: u64, slot: usize) -> Option<Moment> {
        let session = &mut self.sessions[slot];
        let Some((_, beat)) = session.next() else {
            self.end(at_ms, slot);
            return None;
        };
        session.told += 1;
        // One entry past the last beat brings the slot back after the beat's line is written.
        let next_ms = at_ms + session.next().map_or(0, |(wait, _)| u64::from(wait));
        self.enqueue(next_ms, slot);
        Some(Moment { at_ms, slot, beat })
    }

    fn enqueue(&mut self, at_ms: u64, slot: usize) {
        self.order += 1;
        self.queue.push(Reverse((at_ms, self.order, slot)));
    }

    fn end(&mut self, at_ms: u64, slot: usize) {
        let (id, style) = (self.sessions[slot].id, self.sessions[slot].style);
        self.free.push(slot);
        // Some work is taken up again when its session has long been archived.
        if style == Style::Ours && self.chance.per_mille(40) {
            let again = at_ms + 24 * HOUR_MS + 60_000 + self.chance.around(8 * HOUR_MS);
            self.open(again, style, Some(id));
        }
    }

    fn begin(&mut self, begin_ms: u64) {
        let legacy_due = self.planned_legacy * 1_000 < self.planned * u64::from(self.pace.legacy_per_mille);
        let all_legacy = self.pace.legacy_per_mille >= 1_000;
        let style = if legacy_due || all_legacy {
            Style::Legacy { keys_only: self.chance.per_mille(300) }
        } else if self.chance.per_mille(30) {
            Style::Housekeeping
        } else {
            Style::Ours
        };
        self.open(begin_ms, style, None);
        let due_us = self.planned * self.pace.event_us;
        let mean_us = SESSION_EVENTS * self.pace.event_us;
        // Ahead of the pace: wait longer; behind it: hurry.
        let mean_us = if due_us > self.begin_us { mean_us * 3 / 2 } else { mean_us * 2 / 3 };
        self.begin_us += self.chance.around(mean_us);
    }

    fn open(&mut self, at_ms: u64, style: Style, previous: Option<u128>) {
        let slot = self.free.pop().unwrap_or(self.sessions.len());
        if slot == self.sessions.len() {
            self.sessions.push(Session {
                id: 0,
                previous: None,
                style,
                title: Title::FirstMessage,
                topic: 0,
                task: 0,
                owner: 0,
                threads: Vec::new(),
                children: Vec::new(),
                script: Vec::new(),
                told: 0,
                said: 0,
            });
        }
        let session = &mut self.sessions[slot];
        session.id = v4(self.chance.bits());
        session.previous = previous;
        session.style = style;
        session.title = self.chance.pick(&[Title::Label, Title::Goal, Title::FirstMessage, Title::FirstMessage]);
        session.topic = self.chance.below(self.pace.topics);
        session.task = 0;
        session.owner = self.chance.below(u32::from(self.pace.agents)) as u8;
        session.threads.clear();
        session.children.clear();
        session.script.clear();
        session.told = 0;
        session.said = 0;
        Stage { session, chance: &mut self.chance, agents: self.pace.agents }.play();
        let events = session.script.len() as u64;
        self.planned += events;
        if matches!(style, Style::Legacy { .. }) {
            self.planned_legacy += events;
        }
        self.enqueue(at_ms, slot);
    }
}
