//! Messages that operators and programs sent under keys of their own: the same key is the same message for a week, over restarts too.
//! Keeps true: a key stands for one place; its record is committed with the message; of two who come with one key the second waits.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::store::{self, Posted};
use super::{Error, Kept, Shared};
use crate::clock::Timestamp;
use crate::journal::{self, Transaction};

/// How long a key is remembered.
const KEPT_MS: u64 = 7 * 86_400_000;
/// Keys that are remembered; the oldest are forgotten first.
const SENT_MAX: usize = 100_000;
/// Keys that are forgotten with one message, so that no message waits for many.
const SWEPT_AT_ONCE: usize = 100;
/// Longer keys are known by their digest: the name of a record has an end.
const KEY_BYTES_MAX: usize = 200;
/// How the names of such messages begin.
pub(super) const PREFIX: &str = "send:";

/// A message that was sent under a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sent {
    /// The delivery, and the name of the record.
    pub(super) id: String,
    pub(super) channel: String,
    pub(super) target: String,
    pub(super) at: Timestamp,
}

impl Sent {
    /// What a message that waits in the outbox was sent as; versions before this one kept no other record of it.
    pub(super) fn of(posted: &Posted) -> Option<Self> {
        let Posted { channel, outbound, at } = posted;
        let (id, target) = (outbound.id.clone(), outbound.target.clone());
        id.starts_with(PREFIX).then(|| Self { id, channel: channel.clone(), target, at: *at })
    }

    /// The same message again, or another under its key.
    fn again(&self, channel: &str, target: &str) -> Result<(), Error> {
        if (&*self.channel, &*self.target) == (channel, target) {
            return Ok(());
        }
        Err(Error::KeyTaken {
            key: self.id.strip_prefix(PREFIX).unwrap_or(&self.id).to_owned(),
            first: format!("{} {}", self.channel, self.target),
            second: format!("{channel} {target}"),
        })
    }
}

/// The delivery that a key stands for.
pub(super) fn id_of(key: &str) -> String {
    let is_plain = key.len() <= KEY_BYTES_MAX && !key.bytes().any(|byte| byte.is_ascii_control());
    match is_plain {
        true => format!("{PREFIX}{key}"),
        false => format!("{PREFIX}{}", blake3::hash(key.as_bytes()).to_hex()),
    }
}

/// Keys that came lately.
#[derive(Default)]
pub(super) struct Lately {
    by_id: HashMap<String, Sent>,
    /// The oldest first.
    in_order: VecDeque<String>,
    /// Those whose messages are being put on record.
    under_way: HashMap<String, watch::Receiver<()>>,
}

impl Lately {
    /// What the journal has of them.
    pub(super) fn of(mut found: Vec<Sent>) -> Self {
        found.sort_by_key(|sent| sent.at);
        let mut lately = Self::default();
        found.into_iter().for_each(|sent| lately.note(sent));
        lately
    }

    fn get(&self, id: &str, now: Timestamp) -> Option<&Sent> {
        self.by_id.get(id).filter(|sent| !is_old(sent, now))
    }

    fn note(&mut self, sent: Sent) {
        let id = sent.id.clone();
        if self.by_id.insert(id.clone(), sent).is_some() {
            // It came again after its time: its place is at the end now.
            self.in_order.retain(|known| *known != id);
        }
        self.in_order.push_back(id);
    }

    /// The next that are to be forgotten: too old, or too many.
    fn over(&self, now: Timestamp) -> Vec<String> {
        let past_max = (self.in_order.len() + 1).saturating_sub(SENT_MAX);
        let is_over =
            |(nth, id): &(usize, &String)| *nth < past_max || self.by_id.get(*id).is_none_or(|sent| is_old(sent, now));
        let over = self.in_order.iter().enumerate().take(SWEPT_AT_ONCE).take_while(is_over);
        over.map(|(_, id)| id.clone()).collect()
    }

    fn forget(&mut self, ids: &[String]) {
        for id in ids {
            self.by_id.remove(id);
        }
        while self.in_order.front().is_some_and(|id| !self.by_id.contains_key(id)) {
            self.in_order.pop_front();
        }
    }
}

fn is_old(sent: &Sent, now: Timestamp) -> bool {
    now.0.saturating_sub(sent.at.0) > KEPT_MS
}

/// The right to put the message of a key on record; while it is held, whoever comes with the same key waits.
struct Claim {
    shared: Arc<Shared>,
    id: String,
    _done: watch::Sender<()>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shared.state().sent.under_way.remove(&self.id);
    }
}

/// Puts a message on record, once for its key.
pub(super) async fn send_once(shared: &Arc<Shared>, posted: Posted) -> Result<(), Error> {
    let Some(claim) = claim(shared, &posted).await? else { return Ok(()) };
    // A task of its own: whoever asked may go away between the record and the adapter.
    let posting = tokio::spawn(async move { put(&claim, posted).await });
    posting.await.map_err(|_| Error::Stopping)?
}

/// None where the message is on record already.
async fn claim(shared: &Arc<Shared>, posted: &Posted) -> Result<Option<Claim>, Error> {
    let id = &posted.outbound.id;
    loop {
        let mut other = {
            let Kept { sent, .. } = &mut *shared.state();
            if let Some(known) = sent.get(id, posted.at) {
                return known.again(&posted.channel, &posted.outbound.target).map(|()| None);
            }
            match sent.under_way.get(id) {
                Some(other) => other.clone(),
                None => {
                    let (done, waits) = watch::channel(());
                    sent.under_way.insert(id.clone(), waits);
                    return Ok(Some(Claim { shared: shared.clone(), id: id.clone(), _done: done }));
                }
            }
        };
        // An error is the end as well: whoever was first is done.
        let _ = other.changed().await;
    }
}

async fn put(claim: &Claim, posted: Posted) -> Result<(), Error> {
    let shared = &claim.shared;
    let Some(sent) = Sent::of(&posted) else { return shared.post(posted, Transaction::default()).await };
    let over = shared.state().sent.over(posted.at);
    let transaction = records(&sent, &over)?;
    shared.post(posted, transaction).await?;
    let Kept { sent: lately, .. } = &mut *shared.state();
    lately.forget(&over);
    lately.note(sent);
    Ok(())
}

fn records(sent: &Sent, over: &[String]) -> Result<Transaction, journal::Error> {
    let mut transaction = Transaction::default();
    over.iter().try_for_each(|id| store::drop_sent(&mut transaction, id))?;
    store::put_sent(&mut transaction, sent)?;
    Ok(transaction)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000_000_000);

    fn sent(key: &str, at: u64) -> Sent {
        Sent { id: id_of(key), channel: "chat".into(), target: "channel:7".into(), at: Timestamp(at) }
    }

    #[test]
    fn a_key_is_remembered_for_a_week_and_stands_for_one_place() {
        let lately = Lately::of(vec![sent("new", NOW.0 - KEPT_MS), sent("old", NOW.0 - KEPT_MS - 1)]);
        let known = lately.get(&id_of("new"), NOW).expect("it is remembered");
        assert!(known.again("chat", "channel:7").is_ok());
        let refused = known.again("chat", "channel:8").expect_err("another place");
        assert!(refused.is_callers());
        let said = refused.to_string();
        assert!(
            said.contains("\"new\"") && said.contains("chat channel:7") && said.contains("chat channel:8"),
            "{said}"
        );
        assert_eq!(lately.get(&id_of("old"), NOW), None);
        assert_eq!(lately.over(NOW), [id_of("old")]);
    }

    #[test]
    fn what_is_forgotten_and_comes_again_is_the_newest() {
        let mut lately = Lately::of(vec![sent("a", NOW.0 - KEPT_MS - 1), sent("b", NOW.0)]);
        lately.note(sent("a", NOW.0));
        assert_eq!(lately.in_order, [id_of("b"), id_of("a")]);
        lately.forget(&[id_of("b")]);
        assert_eq!(lately.in_order, [id_of("a")]);
    }

    #[test]
    fn there_are_never_too_many() {
        let mut lately = Lately::of((0..SENT_MAX as u64 + 50).map(|n| sent(&n.to_string(), NOW.0)).collect());
        let over = lately.over(NOW);
        assert_eq!((over.len(), &over[0]), (51, &id_of("0")));
        lately.forget(&over);
        lately.note(sent("next", NOW.0));
        assert_eq!((lately.by_id.len(), lately.in_order.len()), (SENT_MAX, SENT_MAX));
    }

    #[test]
    fn the_name_of_a_record_has_an_end() {
        assert_eq!(id_of("key"), "send:key");
        assert!(id_of(&"가".repeat(128)).len() <= 256);
        assert_ne!(id_of("a\u{7}"), "send:a\u{7}");
    }
}
