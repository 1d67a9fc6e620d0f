//! What an answer of the adapter comes to: what is put on record, and what is done afterwards.

use crate::adapter::{Adapter, Alive, Connection, STATUSES};
use crate::check;
use crate::step::{Commit, Effect, Refusal};
use crate::words::{Inbound, Input, Keepalive, Output, Response};

const TIMER_MS_MIN: u64 = 5;
const TIMER_MS_MAX: u64 = 30 * 86_400_000;
const NAME_CHARS: usize = 128;

/// Takes an answer up, or says why it cannot be: then nothing has changed.
pub(crate) fn take(
    adapter: &mut Adapter,
    outputs: Vec<Output>,
    probation: bool,
    seed: u64,
    now: u64,
    effects: &mut Vec<Effect>,
) -> Result<(), String> {
    check::check(&outputs, adapter.given.len(), &adapter.bounds)?;
    check_floods(adapter, &outputs, now)?;
    let mut commit = Commit { checkpoint: probation, ..Commit::default() };
    let mut acts = Vec::new();
    for output in outputs {
        match output {
            Output::Inbound(inbound) => {
                if adapter.seen.note(&inbound.id) {
                    commit.inbound.push(clean(inbound));
                }
            }
            Output::Delivered(result) => commit.done.extend(adapter.outbox.result(result, seed, now)),
            Output::Checkpoint => commit.checkpoint = true,
            output => act(adapter, output, now, &mut acts),
        }
    }
    if commit != Commit::default() {
        effects.push(Effect::Commit(commit));
    }
    effects.extend(acts);
    Ok(())
}

/// More than it may do a minute, or hold at once, is no mistake of the network's: it is one of the adapter.
fn check_floods(adapter: &mut Adapter, outputs: &[Output], now: u64) -> Result<(), String> {
    let count = |what: fn(&Output) -> bool| outputs.iter().filter(|output| what(output)).count();
    let mut names: Vec<&String> = adapter.connections.keys().collect();
    names.extend(outputs.iter().filter_map(|output| match output {
        Output::Open(open) => Some(&open.connection),
        _ => None,
    }));
    names.sort();
    names.dedup();
    let most = adapter.bounds.connections;
    if names.len() > most {
        return Err(format!("more than {most} connections at once"));
    }
    let timers = count(|output| matches!(output, Output::SetTimer { .. }));
    if adapter.timers.len() + timers > adapter.bounds.timers + check_known_timers(adapter, outputs) {
        return Err(format!("more than {} timers at once", adapter.bounds.timers));
    }
    let rates = adapter.rates;
    let frames = count(|output| matches!(output, Output::Send { .. }));
    if !adapter.frames.take(frames, rates.frames, now) {
        return Err(format!("more than {} frames a minute (`grants.rates.frames`)", rates.frames));
    }
    let messages = count(|output| matches!(output, Output::Inbound(_)));
    if !adapter.messages.take(messages, rates.messages, now) {
        return Err(format!("more than {} messages a minute (`grants.rates.messages`)", rates.messages));
    }
    let statuses = count(|output| matches!(output, Output::Status { .. }));
    if !adapter.statuses.take(statuses, STATUSES, now) {
        return Err(format!("more than {STATUSES} statuses a minute"));
    }
    Ok(())
}

/// Timers that are only moved.
fn check_known_timers(adapter: &Adapter, outputs: &[Output]) -> usize {
    let known = |output: &&Output| matches!(output, Output::SetTimer { name, .. } if adapter.timers.contains_key(name));
    outputs.iter().filter(known).count()
}

fn act(adapter: &mut Adapter, output: Output, now: u64, acts: &mut Vec<Effect>) {
    match output {
        Output::Open(open) => {
            adapter.epoch += 1;
            let epoch = adapter.epoch;
            let new = Connection { epoch, open: false, keepalive: None };
            if let Some(old) = adapter.connections.insert(open.connection.clone(), new) {
                acts.push(Effect::Drop { connection: open.connection.clone(), epoch: old.epoch });
            }
            acts.push(Effect::Open { epoch, open });
        }
        // A socket that was closed a moment ago is not known any more, which the adapter is about to hear.
        Output::Send { connection, data } => {
            if let Some(known) = adapter.connections.get(&connection).filter(|known| known.open) {
                acts.push(Effect::Send { epoch: known.epoch, connection, data });
            }
        }
        Output::Close { connection, code } => {
            if let Some(known) = adapter.connections.get_mut(&connection) {
                known.keepalive = None;
                acts.push(Effect::Close { epoch: known.epoch, connection, code });
            }
        }
        Output::Keepalive(keepalive) => keep_alive(adapter, keepalive, now),
        Output::SetTimer { name, after_ms } => {
            let due = now.saturating_add(after_ms.clamp(TIMER_MS_MIN, TIMER_MS_MAX));
            adapter.timers.insert(name, due);
        }
        Output::CancelTimer { name } => {
            adapter.timers.remove(&name);
        }
        Output::Request(request) => {
            let full = adapter.requests.len() >= adapter.bounds.requests || adapter.requests.contains(&request.id);
            let slow = !full && !adapter.asked.take(1, adapter.rates.requests, now);
            if full || slow {
                let said = match slow {
                    true => format!("more than {} requests a minute (`grants.rates.requests`)", adapter.rates.requests),
                    false => "too many requests at once, or one of this name is under way".to_owned(),
                };
                acts.push(Effect::Refused(Refusal { what: "request", said: said.clone() }));
                adapter.push(Input::Response(Response::unsent(request.id, said, false)));
            } else {
                adapter.requests.insert(request.id.clone());
                acts.push(Effect::Request(request));
            }
        }
        Output::WebhookResponse(response) => {
            if adapter.webhooks.remove(&response.id).is_some() {
                acts.push(Effect::Respond(response));
            }
        }
        Output::Status { health, detail } => adapter.show(health.into(), &detail, acts),
        Output::Presence(presence) => {
            if presence.typing {
                acts.push(Effect::Typed { target: presence.target });
            }
        }
        Output::Inbound(_) | Output::Delivered(_) | Output::Checkpoint => {}
    }
}

fn keep_alive(adapter: &mut Adapter, keepalive: Keepalive, now: u64) {
    let Some(known) = adapter.connections.get_mut(&keepalive.connection) else { return };
    let Keepalive { first_ms, interval_ms, frame, .. } = keepalive;
    match &mut known.keepalive {
        // The same pace goes on.
        Some(alive) if alive.interval_ms == interval_ms => alive.frame = frame,
        other => {
            let next = known.open.then(|| now.saturating_add(first_ms));
            *other = Some(Alive { frame, interval_ms, next, first_ms });
        }
    }
}

/// A message as people see it: line breaks and tabs are the only signs that move anything.
fn clean(mut inbound: Inbound) -> Inbound {
    inbound.text.retain(|c| !c.is_control() || matches!(c, '\n' | '\t'));
    for name in [&mut inbound.sender_name, &mut inbound.agent, &mut inbound.space, &mut inbound.reply_to] {
        *name = name.chars().filter(|c| !c.is_control()).take(NAME_CHARS).collect();
    }
    inbound
}
