//! Messages in: each in the journal, in the order of its lane, before anybody hears of it.

use std::sync::Arc;

use chela_storage::Digest;

use super::lanes::{Live, Progress, State};
use super::record::{self, Accepted, Chain, Run, Session};
use super::{Asked, Error, Handle, KEY_BYTES_MAX, OriginKind, Receipt};
use crate::clock::Timestamp;
use crate::id;
use crate::journal::{self, Transaction};
use crate::session_key::SessionKey;
use crate::traces;

impl Handle {
    /// Accepts a message: once this answers, it runs whatever happens. The same key again is the same run.
    pub async fn accept(&self, asked: Asked) -> Result<Receipt, Error> {
        self.check(&asked)?;
        if let Some(receipt) = self.known(&asked).await? {
            return Ok(receipt);
        }
        self.may_take(&asked)?;
        let (mut taken, _) = self.take(std::slice::from_ref(&asked), Transaction::default()).await?;
        match taken.pop() {
            Some(live) => Ok(Receipt {
                run: asked.key,
                session: live.key.clone(),
                accepted_at: live.run.accepted.at,
                again: false,
                progress: Progress::Queued,
            }),
            // Somebody else came with the same key in between.
            None => self.known(&asked).await?.ok_or(Error::Stopping),
        }
    }

    /// Accepts messages together with other records: all of it is durable, or nothing. A message whose key is known is there already.
    /// Gives the number of the transaction.
    pub async fn accept_with(&self, asked: &[Asked], records: Transaction) -> Result<u64, Error> {
        for asked in asked {
            self.check(asked)?;
            self.may_take(asked)?;
        }
        let (_, seq) = self.take(asked, records).await?;
        Ok(seq)
    }

    /// Whether a message would be accepted, as far as that can be told before.
    pub fn vet(&self, asked: &Asked) -> Result<(), Error> {
        self.check(asked)?;
        self.may_take(asked)
    }

    fn check(&self, asked: &Asked) -> Result<(), Error> {
        let bad = |byte: u8| byte.is_ascii_control();
        match asked.key.is_empty() || asked.key.len() > KEY_BYTES_MAX || asked.key.bytes().any(bad) {
            true => Err(Error::BadKey),
            false => Ok(()),
        }
    }

    fn may_take(&self, asked: &Asked) -> Result<(), Error> {
        let shared = &self.0;
        // What agents ask of each other while a stop waits for their runs is on record with the rest, and runs after the next start.
        if shared.closed.is_cancelled() && asked.origin.kind != OriginKind::InterSession {
            return Err(Error::Stopping);
        }
        let config = shared.options.settings.current();
        let (runs, agents) = (&config.config.runs, &config.config.agents);
        if !agents.list.iter().any(|agent| agent.id == asked.session.agent) {
            return Err(Error::UnknownAgent(asked.session.agent.to_string()));
        }
        // What follows from a message that was taken is bounded by whoever makes it.
        if asked.text.len() > runs.message_bytes && !asked.over_queue {
            return Err(Error::TooLong { bytes: asked.text.len(), max: runs.message_bytes });
        }
        Ok(())
    }

    /// Puts messages into their lanes and into the journal, with other records, and tells whoever waits. Gives those that are new.
    async fn take(&self, asked: &[Asked], records: Transaction) -> Result<(Vec<Arc<Live>>, u64), Error> {
        let shared = &self.0;
        let queue_max = shared.options.settings.current().config.runs.queue;
        let (taken, submitted) = self.enqueue(asked, records, queue_max)?;
        match submitted {
            Some(submitted) => Taking { handle: self.clone(), taken, submitted: Some(submitted) }.settled().await,
            None => Ok((taken, 0)),
        }
    }

    /// Messages are on record, or are not: their lanes may go on.
    fn settle_taken(
        &self,
        taken: Vec<Arc<Live>>,
        committed: Result<u64, journal::Error>,
    ) -> Result<(Vec<Arc<Live>>, u64), Error> {
        let shared = &self.0;
        let mut state = shared.state();
        let seq = match committed {
            Ok(seq) => seq,
            Err(error) => {
                for live in &taken {
                    state.remove(live);
                    live.progress.send_replace(Progress::Lost);
                }
                return Err(error.into());
            }
        };
        for live in &taken {
            live.progress.send_if_modified(|progress| {
                // Somebody may have stopped it meanwhile.
                let is_new = matches!(progress, Progress::Committing);
                if is_new {
                    *progress = Progress::Queued;
                }
                is_new
            });
            state.mark_ready(&live.key);
        }
        let has_ready = state.has_ready();
        drop(state);
        if has_ready {
            shared.ready.notify_one();
        }
        for live in &taken {
            self.publish_accepted(live);
            self.tell_session(&live.key, "send", Some(live.id()));
        }
        Ok((taken, seq))
    }

    /// What became of a key that came before; waits until that is durable.
    async fn known(&self, asked: &Asked) -> Result<Option<Receipt>, Error> {
        let live = self.0.state().live(&asked.key).cloned();
        let receipt = |session: &SessionKey, method: &str, at: Timestamp, progress: Progress| {
            if *session == asked.session && method == asked.method {
                return Ok(Some(Receipt {
                    run: asked.key.clone(),
                    session: session.clone(),
                    accepted_at: at,
                    again: true,
                    progress,
                }));
            }
            Err(Error::KeyTaken {
                key: asked.key.clone(),
                first: session.to_string(),
                first_method: method.to_owned(),
                second: asked.session.to_string(),
                second_method: asked.method.to_owned(),
            })
        };
        if let Some(live) = live {
            let mut progress = live.progress.subscribe();
            let settled = progress.wait_for(|progress| !matches!(progress, Progress::Committing)).await;
            let settled = settled.map(|progress| progress.clone()).unwrap_or(Progress::Lost);
            if matches!(settled, Progress::Lost) {
                return Ok(None);
            }
            let accepted = &live.run.accepted;
            return receipt(&live.key, &accepted.method, accepted.at, settled);
        }
        let known = self.0.state().past.contains(Digest::of(&asked.key));
        let past = if known { self.past(&asked.key).await? } else { None };
        let Some(Run { accepted, ended: Some(ended), .. }) = past else { return Ok(None) };
        let key = SessionKey::parse(&accepted.session).map_err(|_| Error::NoSession(accepted.session.clone()))?;
        receipt(&key, &accepted.method, accepted.at, Progress::Ended(Arc::new(ended)))
    }

    fn enqueue(
        &self,
        asked: &[Asked],
        mut transaction: Transaction,
        queue_max: usize,
    ) -> Result<(Vec<Arc<Live>>, Option<journal::Awaited>), Error> {
        let shared = &self.0;
        let mut state = shared.state();
        // Read under the lock: the times of a lane are in its order.
        let now = shared.options.clock.now();
        let is_new = |asked: &&Asked| state.live(&asked.key).is_none() && !state.past.contains(Digest::of(&asked.key));
        let fresh: Vec<&Asked> = asked.iter().filter(is_new).collect();
        for asked in fresh.iter().filter(|asked| !asked.over_queue) {
            let waiting = state.lanes.get(&asked.session).map_or(0, |lane| lane.waiting.len());
            if waiting >= queue_max {
                return Err(Error::Full { session: asked.session.to_string(), waiting });
            }
        }
        if let Some(asked) = fresh.iter().find(|asked| asked.only_if_idle && state.is_occupied(&asked.session.agent)) {
            return Err(Error::Occupied { agent: asked.session.agent.to_string() });
        }
        let mut made = Vec::with_capacity(fresh.len());
        for asked in fresh {
            let session = made.iter().find(|(_, live): &&(Arc<Session>, Arc<Live>)| live.key == asked.session);
            let session = session.map(|(session, _)| session.clone());
            made.push(put_message(&mut state, &mut transaction, asked, session, now)?);
        }
        if transaction.is_empty() {
            return Ok((Vec::new(), None));
        }
        // Asked for under the lock: the journal has messages in the order of their lane.
        let submitted = shared.options.journal.submit_async(transaction)?;
        let mut taken = Vec::with_capacity(made.len());
        for (session, live) in made {
            state.sessions.entry(live.key.clone()).or_insert(session);
            state.push(live.clone());
            taken.push(live);
        }
        Ok((taken, Some(submitted)))
    }
}

/// Messages that stand in their lanes and are on their way into the journal.
struct Taking {
    handle: Handle,
    taken: Vec<Arc<Live>>,
    /// None once that is settled.
    submitted: Option<journal::Awaited>,
}

impl Taking {
    async fn settled(mut self) -> Result<(Vec<Arc<Live>>, u64), Error> {
        let Some(submitted) = &mut self.submitted else { return Err(Error::Stopping) };
        let committed = submitted.settled().await;
        self.submitted = None;
        self.handle.settle_taken(std::mem::take(&mut self.taken), committed)
    }
}

/// Whoever asked may go away meanwhile, and a message that is on record must not stand in its lane unheard of: a task of its own waits for it.
impl Drop for Taking {
    fn drop(&mut self) {
        let (Some(submitted), Ok(runtime)) = (self.submitted.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (handle, taken) = (self.handle.clone(), std::mem::take(&mut self.taken));
        runtime.spawn(async move {
            // Those who wait for the messages are told; whoever brought them is gone.
            let _ = handle.settle_taken(taken, submitted.done().await);
        });
    }
}

/// A message on its way into its lane, and the records that it takes. `made`: its session, where a message before it brought that.
fn put_message(
    state: &mut State,
    transaction: &mut Transaction,
    asked: &Asked,
    made: Option<Arc<Session>>,
    now: Timestamp,
) -> Result<(Arc<Session>, Arc<Live>), Error> {
    let known = made.or_else(|| state.sessions.get(&asked.session).cloned());
    let session = known.clone().unwrap_or_else(|| Arc::new(super::store::new_session(&asked.session, now)));
    if known.is_none() {
        journal::put(transaction, record::SESSION, &session.key, &*session)?;
    }
    state.order += 1;
    let begun = || {
        let chain = Chain::begin(id::fresh(now).to_string(), asked.session.agent.as_ref(), now.0);
        let chain = chain.in_span(traces::here());
        chain.in_place(record::place_of(&asked.session, asked.origin.source_channel.as_deref()))
    };
    let accepted = Accepted {
        id: asked.key.clone(),
        session: session.key.clone(),
        session_id: session.id.clone(),
        order: state.order,
        method: asked.method.to_owned(),
        at: now,
        text: asked.text.clone(),
        origin: asked.origin.clone(),
        chain: asked.chain.clone().unwrap_or_else(begun),
        part: asked.part.clone(),
        model: asked.model.clone(),
        time_ms: asked.time_ms,
        instructions: asked.instructions.clone(),
    };
    let run = Run { accepted, resumed: 0, ended: None, settled: false };
    journal::put(transaction, record::RUN, &run.accepted.id, &run)?;
    let live = Live::new(asked.session.clone(), run, Vec::new(), 0, Progress::Committing);
    Ok((session, live))
}
