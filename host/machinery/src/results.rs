//! What calls of tools were answered, by the key of each call: a call that is made again is answered again, and acts once.
//! Keeps true: an answer is committed with the change that it tells of, where the tool can do that; a key stands for one tool and one
//! session; of two who come with one key the second waits for the first. Never: knows what a tool does.

mod aged;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chela_storage::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;

use crate::clock::{Clock, Timestamp};
use crate::journal::{self, Transaction};
use crate::session_key::SessionKey;

pub use aged::Aged;

const KIND: &str = "tool-result";
/// The longest key that a caller may give; longer names of calls are hashed.
const KEY_BYTES_MAX: usize = 200;
/// Answers that are kept for one session.
const OF_SESSION_MAX: usize = 100_000;
/// Records that leave the journal in one transaction.
const SWEPT_AT_ONCE: usize = 1_000;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("a key has 1 to {KEY_BYTES_MAX} bytes and no control characters")]
    BadKey,
    #[error(
        "the key {key:?} belongs to a call of {first_tool} in {first}; a call of {second_tool} in {second} needs a key of its own"
    )]
    Taken { key: String, first: String, first_tool: String, second: String, second_tool: String },
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error("the gateway is stopping; call again when it is back")]
    Stopping,
}

impl Error {
    /// Whether the one who asks can mend it.
    pub fn is_callers(&self) -> bool {
        matches!(self, Self::BadKey | Self::Taken { .. })
    }
}

/// By what a call is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(String);

impl Key {
    /// A call that a run makes.
    pub fn of_call(run: &str, call: &str) -> Self {
        Self::named("call", &format!("{run}:{call}"))
    }

    /// The key that a caller has given.
    pub fn given(key: &str) -> Result<Self, Error> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || key.bytes().any(|byte| byte.is_ascii_control()) {
            return Err(Error::BadKey);
        }
        Ok(Self::named("given", key))
    }

    /// What a caller calls itself never reads as a call of a run.
    fn named(source: &str, name: &str) -> Self {
        let is_plain = name.len() <= KEY_BYTES_MAX && !name.bytes().any(|byte| byte.is_ascii_control());
        let name = if is_plain { name.to_owned() } else { blake3::hash(name.as_bytes()).to_hex().to_string() };
        Self(format!("{source}/{name}"))
    }

    /// Thirty-two digits that are this key's own.
    pub fn digits(&self) -> String {
        blake3::hash(self.0.as_bytes()).to_hex()[..32].to_owned()
    }
}

/// A call as the journal has it.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    tool: String,
    session: String,
    at: Timestamp,
    /// None while nobody knows what came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    answer: Option<Map<String, Value>>,
}

/// What the journal has of calls.
pub struct Found(HashMap<Key, (String, Timestamp)>);

/// Reads what the journal has, before anybody commits to it.
pub fn read(opened: &journal::Opened) -> Result<Found, journal::Error> {
    let one = |record: &journal::Record| {
        let kept: Kept = journal::body(KIND, record)?;
        Ok((Key(record.id.clone()), (kept.session, kept.at)))
    };
    Ok(Found(opened.records(KIND)?.iter().map(one).collect::<Result<_, journal::Error>>()?))
}

/// The way to the answers; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    journal: journal::Handle,
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    /// Keys that the journal has, of which session, and since when.
    known: Aged<Arc<str>>,
    /// Keys whose calls are being made.
    open: HashMap<Key, watch::Receiver<()>>,
}

impl State {
    fn open_digests(&self) -> HashSet<Digest> {
        self.open.keys().map(|key| Digest::of(&key.0)).collect()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a call with a key.
pub enum Claim {
    /// It was made before: this is its answer.
    Answered(Map<String, Value>),
    /// It is to be made now.
    Open(Arc<Keep>),
}

impl Handle {
    pub fn new(journal: journal::Handle, clock: Clock, found: Found) -> Self {
        let mut known = Aged::new(OF_SESSION_MAX);
        let mut found: Vec<_> = found.0.into_iter().collect();
        found.sort_unstable_by_key(|(_, (_, at))| *at);
        for (key, (session, at)) in found {
            known.insert(Digest::of(&key.0), at, session.into());
        }
        let state = Mutex::new(State { known, open: HashMap::new() });
        Self(Arc::new(Shared { journal, clock, state }))
    }

    /// Finds the answer of a call, or the right to make it; waits while another makes it.
    pub async fn claim(&self, key: Key, tool: &str, session: &SessionKey) -> Result<Claim, Error> {
        let (done, known) = loop {
            let mut other = {
                let mut state = self.0.state();
                match state.open.get(&key) {
                    Some(other) => other.clone(),
                    None => {
                        let (done, waits) = watch::channel(());
                        state.open.insert(key.clone(), waits);
                        break (done, state.known.contains(Digest::of(&key.0)));
                    }
                }
            };
            // An error is the end as well: whoever made it is done.
            let _ = other.changed().await;
        };
        let mut keep = Keep {
            handle: self.clone(),
            key,
            tool: tool.to_owned(),
            session: session.to_string(),
            was_begun: false,
            is_kept: AtomicBool::new(false),
            _done: done,
        };
        let kept = if known { self.kept(&keep.key).await? } else { None };
        let Some(kept) = kept else { return Ok(Claim::Open(Arc::new(keep))) };
        if kept.tool != keep.tool || kept.session != keep.session {
            let key = keep.key.0.split_once('/').map_or("", |(_, name)| name).to_owned();
            let (second, second_tool) = (keep.session.clone(), keep.tool.clone());
            return Err(Error::Taken { key, first: kept.session, first_tool: kept.tool, second, second_tool });
        }
        Ok(match kept.answer {
            Some(answer) => Claim::Answered(answer),
            None => {
                keep.was_begun = true;
                Claim::Open(Arc::new(keep))
            }
        })
    }

    async fn kept(&self, key: &Key) -> Result<Option<Kept>, Error> {
        let (journal, id) = (self.0.journal.clone(), key.0.clone());
        let found =
            tokio::task::spawn_blocking(move || journal.get(KIND, &id)).await.map_err(|_| Error::Stopping)??;
        Ok(found.map(|found| journal::body(KIND, &found)).transpose()?)
    }

    /// With this transaction nobody will ask for the answer of a call any more.
    pub fn forget(&self, transaction: &mut Transaction, key: &Key) -> Result<(), journal::Error> {
        match self.0.state().known.remove(Digest::of(&key.0)) {
            true => journal::drop_record(transaction, KIND, &key.0),
            false => Ok(()),
        }
    }

    /// Answers that are kept.
    pub fn count(&self) -> usize {
        self.0.state().known.len()
    }

    /// Takes out answers from before a time, the oldest past `total_max`, and the oldest of sessions that have too many.
    pub async fn sweep(&self, before: Timestamp, total_max: usize) -> Result<(), journal::Error> {
        loop {
            let old = |state: &State| {
                let open = state.open_digests();
                state.known.old(before, total_max, SWEPT_AT_ONCE, |key, _| open.contains(&key))
            };
            let part = old(&self.0.state());
            if part.is_empty() {
                return Ok(());
            }
            let ids = self.0.journal.ids_async(KIND, part.clone()).await?;
            let submitted = {
                let mut state = self.0.state();
                // One that was asked for meanwhile is looked at the next time.
                let still: HashSet<Digest> = old(&state).into_iter().collect();
                let mut transaction = Transaction::default();
                for id in ids.iter().filter(|id| still.contains(&Digest::of(id))) {
                    journal::drop_record(&mut transaction, KIND, id)?;
                }
                // Asked for before anybody can ask for one of them anew.
                let submitted = match transaction.is_empty() {
                    true => None,
                    false => Some(self.0.journal.submit_async(transaction)?),
                };
                for key in part.iter().filter(|key| still.contains(*key)) {
                    state.known.remove(*key);
                }
                submitted
            };
            if let Some(submitted) = submitted {
                submitted.done().await?;
            }
        }
    }
}

/// A call that is being made, and the place of its answer. While it is held, whoever comes with the same key waits.
pub struct Keep {
    handle: Handle,
    key: Key,
    tool: String,
    session: String,
    was_begun: bool,
    is_kept: AtomicBool,
    _done: watch::Sender<()>,
}

impl Keep {
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Whether it was begun before and nobody knows what came of it.
    pub fn was_begun(&self) -> bool {
        self.was_begun
    }

    /// Adds the answer to the transaction of the change that it tells of; [`Keep::kept`] says that this was committed.
    pub fn put(&self, transaction: &mut Transaction, answer: &Map<String, Value>) -> Result<(), journal::Error> {
        self.put_as(transaction, Some(answer.clone()))
    }

    pub fn kept(&self) {
        self.is_kept.store(true, Ordering::Release);
        self.note();
    }

    /// From here on the key is this tool's and this session's, whatever comes of the call.
    pub async fn begin(&self) -> Result<(), journal::Error> {
        let mut transaction = Transaction::default();
        self.put_as(&mut transaction, None)?;
        self.handle.0.journal.commit_async(transaction).await?;
        self.note();
        Ok(())
    }

    /// Nothing came of the call, so the key is free again.
    pub async fn take_back(&self) -> Result<(), journal::Error> {
        let mut transaction = Transaction::default();
        self.handle.forget(&mut transaction, &self.key)?;
        if transaction.is_empty() {
            return Ok(());
        }
        self.handle.0.journal.commit_async(transaction).await.map(drop)
    }

    /// Keeps the answer, unless it was committed with its change already.
    pub async fn finish(&self, answer: &Map<String, Value>) -> Result<(), journal::Error> {
        if self.is_kept.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut transaction = Transaction::default();
        self.put(&mut transaction, answer)?;
        self.handle.0.journal.commit_async(transaction).await?;
        self.kept();
        Ok(())
    }

    fn put_as(&self, transaction: &mut Transaction, answer: Option<Map<String, Value>>) -> Result<(), journal::Error> {
        let at = self.handle.0.clock.now();
        let kept = Kept { tool: self.tool.clone(), session: self.session.clone(), at, answer };
        journal::put(transaction, KIND, &self.key.0, &kept)
    }

    fn note(&self) {
        let at = self.handle.0.clock.now();
        self.handle.0.state().known.insert(Digest::of(&self.key.0), at, self.session.as_str().into());
    }
}

impl Drop for Keep {
    fn drop(&mut self) {
        self.handle.0.state().open.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_apart() {
        let given = |key: &str| Key::given(key).map(|key| key.0);
        assert_eq!(Key::of_call("run", "call_1").0, "call/run:call_1");
        assert_eq!(given("run:call_1").expect("a key"), "given/run:call_1");
        let long = "x".repeat(KEY_BYTES_MAX);
        assert!(Key::of_call(&long, "a").0.len() < KEY_BYTES_MAX, "what is long is hashed");
        assert_ne!(Key::of_call(&long, "a"), Key::of_call(&long, "b"));
        for bad in ["", "a\nb", &format!("{long}x")] {
            assert!(matches!(Key::given(bad), Err(Error::BadKey)), "{bad:?}");
        }
        assert_eq!(Key::of_call("r", "c").digits().len(), 32);
    }
}
