//! The loop of the room: takes up edits, looks after files that lost their name, and notes what the log has been told.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::file::id_of_name;
use super::{Error, Handle, blocking, record};
use crate::journal::Transaction;
use crate::watch::{Changed, Changes};

/// An editor's save is several changes of a directory: they are looked at together.
const GATHER: Duration = Duration::from_millis(10);
/// Between two looks at files that lost their name, and at milestones that could not be kept.
const TICK: Duration = Duration::from_millis(100);
/// After the last change there is something to look after for no longer than this; then the room sleeps.
const ACTIVE: Duration = Duration::from_secs(10);
/// Between two notes of what the log has been told.
const TOLD_EVERY: u32 = 20;
/// Between two tries at milestones that could not be kept in step.
const MILESTONES_EVERY: u32 = 300;

pub(super) struct Service {
    handle: Handle,
    changes: Changes,
}

impl Service {
    pub(super) fn new(handle: Handle) -> Self {
        let mut changes = Changes::start();
        for (_, agent) in handle.agents() {
            changes.add(&agent.folder.join("tasks"));
        }
        Self { handle, changes }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut settings = self.handle.0.settings.subscribe();
        // Real time: these are other people's editors, not our own clock's doing.
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut count: u32 = 0;
        let busy = self.handle.0.parts.busy.clone();
        let mut active_until = Instant::now() + ACTIVE;
        // What changed between the first reading and the watch.
        self.look(Changed::Anything).await;
        self.handle.retry_milestones().await;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = self.changes.next() => {
                    tokio::time::sleep(GATHER).await;
                    self.look(changed).await;
                }
                changed = settings.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.open_new().await;
                }
                () = busy.notified() => active_until = Instant::now() + ACTIVE,
                _ = ticks.tick(), if Instant::now() < active_until || self.handle.has_unsynced() => {
                    count += 1;
                    self.tick(count).await;
                }
            }
        }
    }

    async fn open_new(&mut self) {
        let handle = self.handle.clone();
        match blocking(move || handle.open_agents()).await {
            Ok(folders) => folders.iter().for_each(|folder| self.changes.add(folder)),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "the tasks of a new agent were not opened")
            }
        }
    }

    async fn look(&self, changed: Changed) {
        let handle = self.handle.clone();
        let looked = blocking(move || {
            for (id, agent) in handle.agents() {
                match &changed {
                    Changed::Anything => {
                        if let Err(error) = agent.lock().sync_all() {
                            tracing::warn!(agent = %id, error = &error as &dyn std::error::Error, "tasks were not looked at");
                        }
                    }
                    Changed::Files(files) => {
                        let folder = agent.folder.join("tasks");
                        let own = files.iter().filter(|file| file.parent() == Some(&folder));
                        let names = own.filter_map(|file| file.file_name()?.to_str());
                        let tasks: Vec<&str> = names.filter_map(id_of_name).collect();
                        // An agent whose files stand still is not waited for.
                        if tasks.is_empty() {
                            continue;
                        }
                        let mut store = agent.lock();
                        tasks.into_iter().for_each(|task| store.sync_or_say(task));
                    }
                }
                handle.settle_and_fill(&id, &agent);
            }
            Ok(())
        });
        report(looked.await, "an edit was not taken up");
    }

    async fn tick(&self, count: u32) {
        let waits: Vec<_> =
            self.handle.agents().into_iter().filter(|(_, agent)| agent.waits.load(Ordering::Relaxed)).collect();
        if !waits.is_empty() {
            let handle = self.handle.clone();
            let looked = blocking(move || {
                for (id, agent) in &waits {
                    let looked = agent.lock().look_after();
                    handle.settle_and_fill(id, agent);
                    looked?;
                }
                Ok(())
            });
            report(looked.await, "an edit was not taken up");
        }
        if count.is_multiple_of(TOLD_EVERY) {
            report(tell_all(&self.handle).await, "what the log was told is not noted");
        }
        if count.is_multiple_of(MILESTONES_EVERY) {
            self.handle.retry_milestones().await;
        }
    }
}

fn report(outcome: Result<(), Error>, said: &str) {
    if let Err(error) = outcome {
        tracing::warn!(error = &error as &dyn std::error::Error, "{said}");
    }
}

/// Once the log has every event of every task, the journal need not tell them again, and tasks that are over leave it.
pub(super) async fn tell_all(handle: &Handle) -> Result<(), Error> {
    let with_store = handle.clone();
    let (seq, over) = blocking(move || {
        let (mut seq, mut over) = (0, Vec::new());
        for (id, agent) in with_store.agents() {
            let mut store = agent.lock();
            seq = seq.max(std::mem::take(&mut store.seq));
            over.extend(
                std::mem::take(&mut store.over)
                    .into_iter()
                    .map(|(task, versions)| (record::id_of(&id, &task), versions)),
            );
        }
        Ok((seq, over))
    })
    .await?;
    if seq == 0 && over.is_empty() {
        return Ok(());
    }
    if handle.0.parts.bus.flushed().await.is_err() {
        // They are told again after a restart, at the worst.
        return Ok(());
    }
    let handle = handle.clone();
    blocking(move || {
        let mut transaction = Transaction::new();
        if seq > 0 {
            record::put_told(&mut transaction, seq)?;
        }
        for (id, versions) in &over {
            versions.drop_all(&mut transaction, id)?;
        }
        handle.0.parts.journal.commit(transaction)?;
        Ok(())
    })
    .await
}
