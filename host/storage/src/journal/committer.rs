//! A thread that owns a journal: what waits is committed together, so one flush serves all who wait for it.
//! Owns the queue, which has an end. Keeps true: whoever was let into the queue gets one answer, also when the committer ends; commits go on
//! while a snapshot is written. Never: retries, or answers before the flush.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::{Error, Journal, Record, Transaction, Written};
use crate::Digest;

/// Transactions in one group, at most.
const GROUP_MAX: usize = 1024;
/// Bytes in one group, about: what a torn group can cost is bounded by it.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long the thread looks for more before it sleeps.
const AWAKE: Duration = Duration::from_micros(80);

type Reply<T> = Box<dyn FnOnce(Result<T, Arc<Error>>) + Send>;

enum Message {
    Commit(Transaction, Reply<u64>),
    Get { kind: String, id: String, reply: Reply<Option<Record>> },
    Records { kind: String, reply: Reply<Vec<Record>> },
    Ids { kind: String, digests: Vec<Digest>, reply: Reply<Vec<String>> },
    Hold(Box<dyn FnOnce() + Send>),
    Checkpointed(Result<Written, Error>),
}

/// What the committer did by itself; for a log.
#[derive(Debug)]
pub enum Report {
    Checkpointed {
        records: usize,
        bytes: u64,
    },
    /// Commits go on; it is tried again when the journal has grown some more.
    CheckpointFailed(Error),
    /// Nothing is committed any more; told once.
    Broken(Error),
}

/// Shared by all who commit. Dropping it answers what waits, then ends the thread.
#[derive(Debug)]
pub struct Committer {
    /// None only while it ends. The thread itself borrows it for a checkpoint, and must not keep the queue open by that.
    queue: Option<Arc<SyncSender<Message>>>,
    queue_max: usize,
    thread: Option<JoinHandle<Journal>>,
}

impl Committer {
    /// Gives the journal to a thread. `report` runs there and must not block.
    pub fn start(
        journal: Journal,
        queue_max: usize,
        report: impl FnMut(Report) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (queue, messages) = sync_channel(queue_max);
        let queue = Arc::new(queue);
        let work = Work {
            journal,
            queue: Arc::downgrade(&queue),
            report: Box::new(report),
            writer: None,
            unproven: false,
            retry_at: 0,
            broken_told: false,
        };
        let thread = Builder::new().name("journal".into()).spawn(move || work.run(&messages))?;
        Ok(Self { queue: Some(queue), queue_max, thread: Some(thread) })
    }

    /// Asks for a commit. `reply` gets the transaction's number once it is durable, runs on the committer's thread and must not block.
    /// If this fails, nothing was asked for and `reply` is not called.
    pub fn submit(
        &self,
        transaction: Transaction,
        reply: impl FnOnce(Result<u64, Arc<Error>>) + Send + 'static,
    ) -> Result<(), Error> {
        self.send(Message::Commit(transaction, Box::new(reply)))
    }

    /// Commits and waits until it is durable.
    pub fn commit(&self, transaction: Transaction) -> Result<u64, Arc<Error>> {
        let (answer, answered) = sync_channel(1);
        // Nobody can be gone before the answer: this very call waits for it.
        self.submit(transaction, move |outcome| drop(answer.send(outcome)))?;
        answered.recv().unwrap_or_else(|_| Err(Arc::new(Error::Stopped)))
    }

    /// Reads a record after all commits that were asked for before.
    pub fn get(&self, kind: &str, id: &str) -> Result<Option<Record>, Arc<Error>> {
        let (answer, answered) = sync_channel(1);
        let reply = Box::new(move |outcome| drop(answer.send(outcome)));
        self.send(Message::Get { kind: kind.to_owned(), id: id.to_owned(), reply })?;
        answered.recv().unwrap_or_else(|_| Err(Arc::new(Error::Stopped)))
    }

    /// Reads the live records of a kind, likewise. Commits wait meanwhile, so there had better be few of them.
    pub fn records(&self, kind: &str) -> Result<Vec<Record>, Arc<Error>> {
        let (answer, answered) = sync_channel(1);
        let reply = Box::new(move |outcome| drop(answer.send(outcome)));
        self.send(Message::Records { kind: kind.to_owned(), reply })?;
        answered.recv().unwrap_or_else(|_| Err(Arc::new(Error::Stopped)))
    }

    /// The ids of records by their digests, likewise.
    pub fn ids(&self, kind: &str, digests: &[Digest]) -> Result<Vec<String>, Arc<Error>> {
        let (answer, answered) = sync_channel(1);
        let reply = Box::new(move |outcome| drop(answer.send(outcome)));
        self.send(Message::Ids { kind: kind.to_owned(), digests: digests.to_owned(), reply })?;
        answered.recv().unwrap_or_else(|_| Err(Arc::new(Error::Stopped)))
    }

    /// Has `work` run while nothing is committed: all that was asked for before is durable, and what comes after waits. It runs on the
    /// committer's thread, so it must end soon.
    pub fn hold(&self, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
        self.send(Message::Hold(Box::new(work)))
    }

    /// Answers what waits, ends the thread and gives the journal back; none if the thread panicked.
    #[must_use]
    pub fn stop(mut self) -> Option<Journal> {
        self.end()
    }

    fn send(&self, message: Message) -> Result<(), Error> {
        let queue = self.queue.as_ref().ok_or(Error::Stopped)?;
        queue.try_send(message).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::QueueFull { max: self.queue_max },
            TrySendError::Disconnected(_) => Error::Stopped,
        })
    }

    fn end(&mut self) -> Option<Journal> {
        self.queue = None;
        self.thread.take()?.join().ok()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        self.end();
    }
}

struct Work {
    journal: Journal,
    queue: Weak<SyncSender<Message>>,
    report: Box<dyn FnMut(Report) + Send>,
    /// Writes a snapshot.
    writer: Option<JoinHandle<()>>,
    /// Something was committed, and nothing after it proves that it was durable.
    unproven: bool,
    /// After a checkpoint that failed: not again before the journal has this many bytes.
    retry_at: u64,
    broken_told: bool,
}

/// The next message. After a commit for one alone it is looked for a moment before the thread sleeps: who commits one thing after another
/// asks for the next right after the answer, and to be woken would take about as long as the flush. After one for many, they need the
/// processor more.
fn next(messages: &Receiver<Message>, was_alone: bool) -> Option<Message> {
    if !was_alone {
        return messages.recv().ok();
    }
    let awake = Instant::now() + AWAKE;
    loop {
        match messages.try_recv() {
            Ok(message) => return Some(message),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) if Instant::now() < awake => std::hint::spin_loop(),
            Err(TryRecvError::Empty) => return messages.recv().ok(),
        }
    }
}

impl Work {
    fn run(mut self, messages: &Receiver<Message>) -> Journal {
        let mut was_alone = true;
        while let Some(first) = next(messages, was_alone) {
            let (mut group, mut replies, mut bytes) = (Vec::new(), Vec::new(), 0);
            let mut next = Some(first);
            while let Some(message) = next {
                match message {
                    Message::Commit(transaction, reply) => {
                        bytes += transaction.bytes();
                        group.push(transaction);
                        replies.push(reply);
                    }
                    // Whatever was asked for before has to be there first.
                    Message::Get { kind, id, reply } => {
                        self.commit(&mut group, &mut replies);
                        reply(self.journal.get(&kind, &id).map_err(Arc::new));
                    }
                    Message::Records { kind, reply } => {
                        self.commit(&mut group, &mut replies);
                        reply(self.journal.records(&kind).collect::<Result<_, _>>().map_err(Arc::new));
                    }
                    Message::Ids { kind, digests, reply } => {
                        self.commit(&mut group, &mut replies);
                        reply(self.journal.ids(&kind, &digests).map_err(Arc::new));
                    }
                    Message::Hold(work) => {
                        self.commit(&mut group, &mut replies);
                        // Later commits would be written into the room, which is within what a backup notes as the file's length.
                        self.journal.trim();
                        work();
                    }
                    Message::Checkpointed(outcome) => self.finish(outcome),
                }
                next = (group.len() < GROUP_MAX && bytes < GROUP_BYTES_MAX).then(|| messages.try_recv().ok()).flatten();
            }
            was_alone = group.len() <= 1;
            self.commit(&mut group, &mut replies);
            let idle = self.writer.as_ref().is_none_or(JoinHandle::is_finished);
            if idle && self.journal.wants_checkpoint() && self.journal.bytes() >= self.retry_at {
                self.begin();
            }
            self.tell_broken();
        }
        if self.unproven {
            // An empty last line: damage to the one before it can then be told from a tear. Without it nothing is lost.
            let _ = self.journal.commit(&[Transaction::new()]);
        }
        self.journal.trim();
        self.journal
    }

    fn commit(&mut self, group: &mut Vec<Transaction>, replies: &mut Vec<Reply<u64>>) {
        if group.is_empty() {
            return;
        }
        match self.journal.commit(group) {
            Ok(numbers) => {
                self.unproven = true;
                replies.drain(..).zip(numbers).for_each(|(reply, number)| reply(Ok(number)));
            }
            Err(error) => {
                let error = Arc::new(error);
                replies.drain(..).for_each(|reply| reply(Err(Arc::clone(&error))));
            }
        }
        group.clear();
    }

    fn tell_broken(&mut self) {
        if let (false, Err(error)) = (self.broken_told, self.journal.check()) {
            self.broken_told = true;
            (self.report)(Report::Broken(error));
        }
    }

    fn begin(&mut self) {
        // While it ends nobody needs a checkpoint any more.
        let Some(queue) = self.queue.upgrade() else { return };
        let begun = self.journal.begin_checkpoint().and_then(|checkpoint| {
            let queue = SyncSender::clone(&queue);
            let write = move || drop(queue.send(Message::Checkpointed(checkpoint.write())));
            let spawned = Builder::new().name("checkpoint".into()).spawn(write);
            spawned.map_err(|source| Error::io("start the thread that checkpoints", &self.journal.dir, source))
        });
        match begun {
            Ok(writer) => self.writer = Some(writer),
            Err(error) => self.give_up(error),
        }
    }

    fn finish(&mut self, outcome: Result<Written, Error>) {
        if let Some(writer) = self.writer.take() {
            // It has sent its last message; a panic would have sent none.
            let _ = writer.join();
        }
        let outcome = outcome.and_then(|written| {
            let facts = Report::Checkpointed { records: written.records(), bytes: written.bytes() };
            self.journal.finish_checkpoint(written).map(|()| facts)
        });
        match outcome {
            Ok(facts) => (self.report)(facts),
            Err(error) => self.give_up(error),
        }
    }

    fn give_up(&mut self, error: Error) {
        self.retry_at = self.journal.bytes() + self.journal.options.dead_bytes_min.max(1);
        (self.report)(Report::CheckpointFailed(error));
    }
}
