//! What a call of an adapter puts on record, in one transaction: its state, messages that came, messages that are delivered.

use std::sync::atomic::Ordering;
use std::time::Duration;

use chela_channel::{Commit, Done, Inbound, Outcome, Wants};
use serde_json::json;

use super::actor::{Actor, plugin_words};
use super::programs::IN_A_ROW;
use super::routing::{Routed, Unheard, route};
use super::shown::Shown;
use super::store::{self, Posted, Reply, Taken, key_of};
use super::{Shared, message, sayings};
use crate::config::Config;
use crate::journal::{self, Transaction};
use crate::plugins::Failure;
use crate::sessions::{self, Asked, Origin, OriginKind};

/// A journal that takes nothing is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// A message that becomes a run.
struct Heard {
    asked: Asked,
    reply: Reply,
}

impl Actor {
    /// Puts a call on record. Nothing of it is done before this answers; after an error nothing is.
    pub(super) async fn commit(&mut self, commit: Commit) -> Result<(), Failure> {
        let state = if commit.checkpoint { self.left.take() } else { None };
        let (mut heard, mut taken) = (Vec::new(), Vec::new());
        for inbound in commit.inbound {
            self.sort(inbound, &mut heard, &mut taken);
        }
        let shown = self.shared.state().shown_by(&self.name, &commit.done, self.shared.now());
        let records = || -> Result<Transaction, journal::Error> {
            let mut transaction = Transaction::default();
            if let Some(state) = &state {
                let plugin = plugin_words(&self.version);
                store::put_state(&mut transaction, &self.name, plugin, state, self.shared.now())?;
            }
            commit.done.iter().try_for_each(|done| store::drop_posted(&mut transaction, &done.id))?;
            shown.iter().try_for_each(|shown| store::put_shown(&mut transaction, shown))?;
            taken.iter().try_for_each(|taken| store::put_taken(&mut transaction, taken))?;
            Ok(transaction)
        };
        let refused = |error: journal::Error| Failure::Invalid { said: format!("it cannot be kept: {error}") };
        let expected = self.shared.expect(heard.iter().map(|heard| heard.reply.clone()));
        loop {
            let mut transaction = records().map_err(refused)?;
            for heard in &heard {
                store::put_reply(&mut transaction, &heard.reply).map_err(refused)?;
            }
            let asked: Vec<Asked> = heard.iter().map(|heard| heard.asked.clone()).collect();
            match self.shared.options.sessions.accept_with(&asked, transaction).await {
                Ok(_) => break,
                Err(sessions::Error::Journal(error @ journal::Error::Refused { .. })) => {
                    expected.no_more();
                    return Err(refused(error));
                }
                Err(sessions::Error::Stopping) => {
                    expected.no_more();
                    return Err(Failure::Stopping);
                }
                Err(error) if error.is_callers() && !heard.is_empty() => {
                    expected.no_more();
                    one_by_one(&self.shared, std::mem::take(&mut heard)).await?;
                }
                Err(error) => {
                    tracing::error!(
                        channel = self.name,
                        error = &error as &dyn std::error::Error,
                        "nothing is recorded yet"
                    );
                    self.shared.options.clock.sleep(AGAIN).await;
                }
            }
        }
        if let Some(state) = state {
            self.shared.state().states.insert(self.name.clone(), state);
        }
        self.note(commit.done, heard.len() + taken.len());
        self.shared.note_shown(shown).await;
        for taken in taken {
            // To wait here could be for ever: what takes them up may wait for this task.
            if self.taking.try_send(taken).is_err() {
                // It is on record, and read again from there.
                self.shared.left_taken.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// What is to become of a message.
    fn sort(&self, inbound: Inbound, heard: &mut Vec<Heard>, taken: &mut Vec<Taken>) {
        let shared = &self.shared;
        let key = key_of(&self.name, &inbound.id);
        if shared.options.sessions.session_of_run(&key).is_some() {
            // It came before, in an earlier life.
            return;
        }
        let settings = shared.options.settings.current();
        match self.routed(&settings.config, &inbound) {
            Ok(routed) => {
                let asked_for = !shared.options.humans.open_in(&routed.session).is_empty();
                match inbound.wants {
                    Wants::Message if !asked_for => heard.push(self.heard(&inbound, routed)),
                    _ => {
                        let (channel, at) = (self.name.clone(), shared.now());
                        taken.push(Taken { channel, message: inbound, at });
                    }
                }
            }
            Err(Unheard::NotMeant) => shared.count(&self.name, "ignored"),
            Err(Unheard::Refused(said)) => {
                shared.count(&self.name, "refused");
                shared.refuse(
                    &self.name,
                    "message",
                    &said,
                    json!({ "messageId": inbound.id, "target": inbound.target }),
                );
            }
        }
    }

    /// Where a message goes. Programs that talk to each other are left alone after a while.
    fn routed(&self, config: &Config, inbound: &Inbound) -> Result<Routed, Unheard> {
        let routed = route(config, &self.name, inbound)?;
        let (place, now) = (format!("{}:{}", self.name, inbound.target), self.shared.now());
        match self.shared.state().programs.hears(&place, inbound.sender_is_bot, now) {
            true => Ok(routed),
            false => Err(Unheard::Refused(format!(
                "{IN_A_ROW} messages of programs in a row were heard at {}; they are again once a person has written there, or after an hour of silence",
                inbound.target
            ))),
        }
    }

    fn heard(&self, inbound: &Inbound, routed: Routed) -> Heard {
        let reply = reply_of(&self.name, inbound, &routed);
        Heard { asked: asked_of(&self.name, inbound, routed), reply }
    }

    fn note(&self, done: Vec<Done>, received: usize) {
        let (mut delivered, mut refused) = (0, 0);
        for done in done {
            if let Some(outbox) = self.shared.state().outbox.get_mut(&self.name) {
                outbox.forget(&done.id);
            }
            match done.outcome {
                Outcome::Delivered { .. } => {
                    delivered += 1;
                    self.shared.count(&self.name, "delivered");
                }
                Outcome::Refused { said } => {
                    refused += 1;
                    self.shared.count(&self.name, "undeliverable");
                    let more = json!({ "deliveryId": done.id, "target": done.target });
                    self.shared.refuse(&self.name, "delivery", &said, more);
                }
            }
        }
        (0..received).for_each(|_| self.shared.count(&self.name, "received"));
        self.shared.view(&self.name, |view| {
            view.received += received as u64;
            view.delivered += delivered;
            view.refused += refused;
        });
    }
}

impl Shared {
    /// Questions that people see now. One may be over by the time that it is shown.
    async fn note_shown(&self, shown: Vec<Shown>) {
        if shown.is_empty() {
            return;
        }
        let forgotten = self.state().note_shown(shown);
        let mut transaction = Transaction::default();
        let dropped = forgotten.iter().try_for_each(|id| store::drop_shown(&mut transaction, id));
        if !forgotten.is_empty() && dropped.is_ok() {
            // Else they are found again at the next start, and forgotten then.
            let _ = self.options.journal.commit_async(transaction).await;
        }
        self.look_at_shown.notify_one();
    }
}

pub(super) fn reply_of(channel: &str, inbound: &Inbound, routed: &Routed) -> Reply {
    Reply {
        run: key_of(channel, &inbound.id),
        session: routed.session.to_string(),
        channel: channel.to_owned(),
        target: inbound.target.clone(),
        reply_to: inbound.id.clone(),
        only_questions: false,
    }
}

/// The message as a session takes it. Whose it is stands beside it, never in it.
pub(super) fn asked_of(channel: &str, inbound: &Inbound, routed: Routed) -> Asked {
    let place = if inbound.direct { "a direct message" } else { "a place of many" };
    let note = format!("Message of {:?} (id {:?}) in {channel}, {place}", inbound.sender_name, inbound.sender_id);
    let origin = Origin {
        kind: OriginKind::ExternalUser,
        source_channel: Some(channel.to_owned()),
        note: Some(note),
        ..Origin::default()
    };
    Asked { origin, ..Asked::new(key_of(channel, &inbound.id), "channel", routed.session, routed.text) }
}

/// Where one of several cannot be taken, the others are; whoever wrote it is told.
async fn one_by_one(shared: &Shared, heard: Vec<Heard>) -> Result<(), Failure> {
    for heard in heard {
        let expected = shared.expect([heard.reply.clone()]);
        let error = loop {
            let mut transaction = Transaction::default();
            let put = store::put_reply(&mut transaction, &heard.reply).map_err(sessions::Error::from);
            let accepted = match put {
                Ok(()) => shared.options.sessions.accept_with(std::slice::from_ref(&heard.asked), transaction).await,
                Err(error) => Err(error),
            };
            match accepted {
                Ok(_) => break None,
                Err(sessions::Error::Stopping) => {
                    expected.no_more();
                    return Err(Failure::Stopping);
                }
                // A journal without room now has some later.
                Err(sessions::Error::Journal(journal::Error::Unusable { .. })) => {
                    shared.options.clock.sleep(AGAIN).await;
                }
                Err(error) => break Some(error),
            }
        };
        let Some(error) = error else { continue };
        expected.no_more();
        let said = error.to_string();
        let Reply { channel, target, reply_to, run, .. } = heard.reply;
        shared.count(&channel, "refused");
        shared.refuse(&channel, "message", &said, json!({ "messageId": reply_to, "target": target }));
        let text = sayings::not_taken(shared.locale()).to_owned();
        let outbound = message(format!("{run}:refused"), target, text, reply_to);
        let posted = Posted { channel, outbound, at: shared.now() };
        if let Err(error) = shared.post(posted, Transaction::default()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a refusal was not told");
        }
    }
    Ok(())
}
