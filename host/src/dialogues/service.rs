//! Writes what has ended into the dialogues, one run after the other; then the journal need not keep it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Ended, Error, Shared, drop_ended, files, turns};
use crate::journal::Transaction;
use crate::session_key::SessionKey;

/// After this, what could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(5);

pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    while let Err(error) = rebuild_if_gone(&shared).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "dialogues could not be made anew; it is tried again");
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
    shared.waiting().rebuilding = false;
    shared.written.notify_waiters();
    loop {
        let next = shared.waiting().ended.front().cloned();
        let Some(ended) = next else {
            tokio::select! {
                () = stop.cancelled() => return,
                () = shared.woken.notified() => continue,
            }
        };
        match write(&shared, &ended).await {
            Ok(()) => {
                shared.waiting().ended.pop_front();
                shared.written.notify_waiters();
                // Nobody who listens is no fault.
                ended.task_ids.iter().for_each(|task| drop(shared.news.send(task.clone())));
            }
            Err(error) => {
                tracing::warn!(
                    run = ended.run,
                    error = &error as &dyn std::error::Error,
                    "a run is not in its dialogue yet"
                );
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        }
        if stop.is_cancelled() {
            return;
        }
    }
}

async fn rebuild_if_gone(shared: &Arc<Shared>) -> Result<(), Error> {
    let dir = shared.options.dir.dialogues();
    let (sessions, shown) = (shared.options.dir.sessions(), dir.display().to_string());
    let (settings, live) = (shared.options.settings.current(), shared.options.sessions.clone());
    let done = tokio::task::spawn_blocking(move || match files::are_whole(&dir) {
        true => Ok(None),
        false => files::rebuild(&dir, &sessions, &settings.config, &|run| live.watch(run).is_some()).map(Some),
    });
    match done.await.map_err(|_| Error::Stopping)? {
        Ok(Some(turns @ 1..)) => tracing::info!(turns, "dialogues were made anew from the transcripts"),
        Ok(_) => {}
        Err(cause) => return Err(Error::Files { dir: shown, cause }),
    }
    Ok(())
}

async fn write(shared: &Arc<Shared>, ended: &Ended) -> Result<(), Error> {
    if let Ok(key) = SessionKey::parse(&ended.session) {
        let rows = shared.options.sessions.rows_of_run(&key, &ended.session_id, &ended.run).await?;
        let dir = shared.options.dir.dialogues();
        let (settings, ended, shown) = (shared.options.settings.current(), ended.clone(), dir.display().to_string());
        let written = tokio::task::spawn_blocking(move || {
            ended.task_ids.iter().try_for_each(|task| {
                let turns = turns::of_run(&settings.config, key.agent.as_ref(), &ended.session_id, task, &rows);
                files::append(&dir, task, &ended.run, &turns)
            })
        });
        let written = written.await.map_err(|_| Error::Stopping)?;
        written.map_err(|cause| Error::Files { dir: shown, cause })?;
    }
    let mut transaction = Transaction::default();
    drop_ended(&mut transaction, &ended.run)?;
    shared.options.journal.commit_async(transaction).await?;
    Ok(())
}
