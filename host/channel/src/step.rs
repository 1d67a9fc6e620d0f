//! What happens to an adapter, and what follows from it.

use crate::adapter::{Adapter, Phase, Standing, Status, Then};
use crate::answer;
use crate::outbox::{Done, backoff};
use crate::words::{
    Inbound, Input, Open, Outbound, Output, Presence, Request, Response, Text, WebhookRequest, WebhookResponse,
};

const RESTART_MS: u64 = 1_000;
const RESTART_MS_MAX: u64 = 300_000;
/// Who lived so long has recovered.
const WELL_MS: u64 = 60_000;
const DETAIL_CHARS: usize = 300;
/// Webhook calls that may wait for their answers.
const WEBHOOKS_MAX: usize = 64;
/// How long each waits: whoever calls is gone after that.
pub const WEBHOOK_MS: u64 = 15_000;

/// What happened. Socket events carry the epoch that [`Effect::Open`] gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Start,
    Made {
        restored: bool,
    },
    /// Its instance could not be made.
    Unmade {
        said: String,
    },
    Opened {
        connection: String,
        epoch: u64,
    },
    Text {
        connection: String,
        epoch: u64,
        data: String,
    },
    Binary {
        connection: String,
        epoch: u64,
        data: Vec<u8>,
    },
    Closed {
        connection: String,
        epoch: u64,
        code: u16,
        reason: String,
        refused: bool,
    },
    Response(Response),
    /// A message for people that is on record since then.
    Deliver {
        outbound: Outbound,
        since: u64,
    },
    Webhook(WebhookRequest),
    Presence(Presence),
    /// The call has answered. In probation every call is checkpointed.
    Called {
        outputs: Vec<Output>,
        probation: bool,
    },
    /// The call failed. `again`: an earlier version goes on from right before it, and is told the same.
    Failed {
        said: String,
        again: bool,
    },
    /// Another version has taken over between two calls.
    Swapped,
    /// It cannot work before an operator has changed something.
    Hold {
        said: String,
    },
    Tick,
    Restart,
    Stop,
}

/// What is on record together, before anything else of a call is done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    pub checkpoint: bool,
    pub inbound: Vec<Inbound>,
    pub done: Vec<Done>,
}

/// Something that was not done, for people to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub what: &'static str,
    pub said: String,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Make,
    Call(Vec<Input>),
    Commit(Commit),
    /// The answer cannot be taken: say [`Event::Failed`].
    Invalid {
        said: String,
    },
    Open {
        epoch: u64,
        open: Open,
    },
    Send {
        connection: String,
        epoch: u64,
        data: Text,
    },
    Close {
        connection: String,
        epoch: u64,
        code: u16,
    },
    /// Without a close frame.
    Drop {
        connection: String,
        epoch: u64,
    },
    Request(Request),
    /// Nobody waits for these any more.
    DropRequests,
    Respond(WebhookResponse),
    /// The webhook call gets no answer of the adapter.
    Unanswered {
        webhook: String,
    },
    /// A person types there.
    Typed {
        target: String,
    },
    Status(Status),
    Refused(Refusal),
    End,
}

/// Moves an adapter. `seed` is the chance of this step.
pub fn step(adapter: &mut Adapter, event: Event, seed: u64, now: u64) -> Vec<Effect> {
    let mut effects = Vec::new();
    if adapter.phase == Phase::Ended {
        return effects;
    }
    match event {
        Event::Start => adapter.make(&mut effects),
        Event::Made { restored } => {
            if adapter.phase == Phase::Making {
                adapter.phase = Phase::Live;
                adapter.made_at = now;
                adapter.push(Input::Started { restored });
            }
        }
        Event::Unmade { said } => adapter.rest(&said, seed, now, &mut effects),
        Event::Opened { .. } | Event::Text { .. } | Event::Binary { .. } | Event::Closed { .. } => {
            adapter.of_socket(event, now);
        }
        Event::Response(response) => {
            if adapter.requests.remove(&response.id) {
                adapter.push(Input::Response(response));
            }
        }
        Event::Deliver { outbound, since } => {
            adapter.outbox.add(outbound, since);
        }
        Event::Webhook(request) => adapter.webhook(request, now, &mut effects),
        Event::Presence(presence) => {
            if adapter.delivers() && adapter.has_room() {
                adapter.push(Input::Presence(presence));
            }
        }
        Event::Called { outputs, probation } => {
            if adapter.phase == Phase::Calling {
                match answer::take(adapter, outputs, probation, seed, now, &mut effects) {
                    Ok(()) => adapter.answered(now, &mut effects),
                    Err(said) => effects.push(Effect::Invalid { said }),
                }
            }
        }
        Event::Failed { said, again: true } => adapter.again(&said, &mut effects),
        Event::Failed { said, again: false } => match adapter.then.take() {
            Some(Then::Stop) => adapter.end(&mut effects),
            Some(Then::Restart) => adapter.make_anew(&mut effects),
            None => adapter.rest(&said, seed, now, &mut effects),
        },
        Event::Swapped => {}
        Event::Hold { said } => {
            adapter.tear_down(false, &mut effects);
            adapter.phase = Phase::Held;
            adapter.show(Standing::NeedsAuth, &said, &mut effects);
        }
        Event::Tick => adapter.tick(now, &mut effects),
        Event::Restart => match adapter.phase {
            Phase::Calling => adapter.then = adapter.then.or(Some(Then::Restart)),
            _ => adapter.make_anew(&mut effects),
        },
        Event::Stop => match adapter.phase {
            Phase::Calling => adapter.then = Some(Then::Stop),
            Phase::Live => {
                adapter.then = Some(Then::Stop);
                adapter.push(Input::Stopping);
            }
            _ => adapter.end(&mut effects),
        },
    }
    adapter.pump(now, &mut effects);
    effects
}

impl Adapter {
    fn make(&mut self, effects: &mut Vec<Effect>) {
        self.phase = Phase::Making;
        self.show(Standing::Starting, "", effects);
        effects.push(Effect::Make);
    }

    fn make_anew(&mut self, effects: &mut Vec<Effect>) {
        self.tear_down(false, effects);
        self.failures = 0;
        self.make(effects);
    }

    fn of_socket(&mut self, event: Event, now: u64) {
        match event {
            Event::Opened { connection, epoch } if self.is_current(&connection, epoch) => {
                if let Some(known) = self.connections.get_mut(&connection) {
                    known.open = true;
                    known.keepalive.iter_mut().for_each(|alive| alive.next = Some(now.saturating_add(alive.first_ms)));
                }
                self.push(Input::Opened { connection });
            }
            Event::Text { connection, epoch, data } if self.is_current(&connection, epoch) => {
                self.push(Input::Text { connection, data });
            }
            Event::Binary { connection, epoch, data } if self.is_current(&connection, epoch) => {
                self.push(Input::Binary { connection, data });
            }
            Event::Closed { connection, epoch, code, reason, refused } if self.is_current(&connection, epoch) => {
                self.connections.remove(&connection);
                self.push(Input::Closed { connection, code, reason: plain(&reason), refused });
            }
            _ => {}
        }
    }

    fn webhook(&mut self, request: WebhookRequest, now: u64, effects: &mut Vec<Effect>) {
        let lives = matches!(self.phase, Phase::Live | Phase::Calling);
        if !lives || !self.has_room() || self.webhooks.len() >= WEBHOOKS_MAX {
            effects.push(Effect::Unanswered { webhook: request.id });
            return;
        }
        self.webhooks.insert(request.id.clone(), now.saturating_add(WEBHOOK_MS));
        self.push(Input::Webhook(request));
    }

    /// A call went well.
    fn answered(&mut self, now: u64, effects: &mut Vec<Effect>) {
        let stopped = self.given.iter().any(|input| matches!(input, Input::Stopping));
        self.given.clear();
        self.phase = Phase::Live;
        if now.saturating_sub(self.made_at) >= WELL_MS {
            self.failures = 0;
        }
        match self.then {
            Some(Then::Stop) if stopped => self.end(effects),
            Some(Then::Stop) => {
                let told = self.inbox.iter().any(|input| matches!(input, Input::Stopping));
                if !told {
                    self.push(Input::Stopping);
                }
            }
            Some(Then::Restart) => {
                self.then = None;
                self.make_anew(effects);
            }
            None => {}
        }
    }

    /// The version before goes on and is told what the failed one was told.
    fn again(&mut self, said: &str, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Calling {
            return;
        }
        for input in std::mem::take(&mut self.given).into_iter().rev() {
            self.inbox_bytes += input.bytes();
            self.inbox.push_front(input);
        }
        self.phase = Phase::Live;
        effects.push(Effect::Refused(Refusal { what: "version", said: said.to_owned() }));
    }

    /// Everything is let go, and it is made again after a while.
    fn rest(&mut self, said: &str, seed: u64, now: u64, effects: &mut Vec<Effect>) {
        self.tear_down(true, effects);
        let wait = restart_after(self.failures, seed);
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Resting { until: now.saturating_add(wait) };
        self.show(Standing::Degraded, &format!("it failed and is started again in {wait} ms: {said}"), effects);
    }

    fn end(&mut self, effects: &mut Vec<Effect>) {
        self.tear_down(false, effects);
        self.phase = Phase::Ended;
        self.show(Standing::Stopped, "", effects);
        effects.push(Effect::End);
    }

    /// Sockets, timers, requests and what was to be told are gone; messages for people are kept.
    fn tear_down(&mut self, failed: bool, effects: &mut Vec<Effect>) {
        for (connection, known) in std::mem::take(&mut self.connections) {
            effects.push(Effect::Drop { connection, epoch: known.epoch });
        }
        if !std::mem::take(&mut self.requests).is_empty() {
            effects.push(Effect::DropRequests);
        }
        for (webhook, _) in std::mem::take(&mut self.webhooks) {
            effects.push(Effect::Unanswered { webhook });
        }
        self.timers.clear();
        self.inbox.clear();
        self.inbox_bytes = 0;
        self.given.clear();
        self.then = None;
        let done = self.outbox.broke(failed);
        if !done.is_empty() {
            effects.push(Effect::Commit(Commit { done, ..Commit::default() }));
        }
    }

    fn tick(&mut self, now: u64, effects: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Resting { until } if until <= now) {
            self.make(effects);
        }
        let due: Vec<String> = self.timers.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
        for name in due {
            self.timers.remove(&name);
            self.push(Input::Timer { name });
        }
        let given_up: Vec<String> =
            self.webhooks.iter().filter(|(_, until)| **until <= now).map(|(id, _)| id.clone()).collect();
        for webhook in given_up {
            self.webhooks.remove(&webhook);
            effects.push(Effect::Unanswered { webhook });
        }
        let mut sent = Vec::new();
        for (connection, known) in &mut self.connections {
            let Some(alive) = &mut known.keepalive else { continue };
            if let Some(next) = alive.next.filter(|next| *next <= now) {
                // One for all that were missed: a machine that slept does not make up for it.
                let missed = (now - next) / alive.interval_ms;
                alive.next = Some(next.saturating_add((missed + 1).saturating_mul(alive.interval_ms)));
                let (epoch, data) = (known.epoch, alive.frame.clone());
                effects.push(Effect::Send { connection: connection.clone(), epoch, data });
                sent.push(connection.clone());
            }
        }
        sent.into_iter().for_each(|connection| self.push(Input::KeepaliveSent { connection }));
        let done = self.outbox.expire(now);
        if !done.is_empty() {
            effects.push(Effect::Commit(Commit { done, ..Commit::default() }));
        }
    }

    /// Tells the adapter what waits, if it is not at work.
    fn pump(&mut self, now: u64, effects: &mut Vec<Effect>) {
        if self.phase != Phase::Live {
            return;
        }
        if self.delivers() && self.has_room() {
            self.outbox.due(now).into_iter().for_each(|outbound| self.push(Input::Deliver(outbound)));
        }
        if !self.inbox.is_empty() {
            self.given = self.take_inputs();
            self.phase = Phase::Calling;
            effects.push(Effect::Call(self.given.clone()));
        }
    }

    pub(crate) fn show(&mut self, standing: Standing, detail: &str, effects: &mut Vec<Effect>) {
        let status = Status { standing, detail: plain(detail) };
        if status != self.status {
            self.status = status.clone();
            effects.push(Effect::Status(status));
        }
    }
}

/// How long what failed so often in a row rests, in milliseconds.
pub fn restart_after(failures: u32, seed: u64) -> u64 {
    backoff(failures, RESTART_MS, RESTART_MS_MAX, seed)
}

/// Words of others, at a length that people read and without what moves a terminal's cursor.
fn plain(text: &str) -> String {
    text.chars().take(DETAIL_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
