//! What a job waits for: its time, its message on the way, or its answer.

use std::time::Duration;

use chela_flow::{BACKOFF_MS_MAX, DeliveryState, Input, Job, Kind, WaitStatus};

use super::Shared;
use crate::sessions::{Ended, Progress, Status};

/// What happens to a job next, if nobody asks anything of it; none when the gateway stops.
pub(super) async fn next_input(shared: &Shared, job: &Job) -> Option<Input> {
    let clock = &shared.options.clock;
    if let Some(at) = job.next_try_at {
        // Never longer than any wait is: the clock may have been set back since.
        clock.sleep(Duration::from_millis(at.saturating_sub(clock.now().0).min(BACKOFF_MS_MAX))).await;
        return Some(Input::Due);
    }
    let Some(delivery) = job.current().filter(|delivery| delivery.state != DeliveryState::Waiting) else {
        return Some(Input::Due);
    };
    let sessions = &shared.options.sessions;
    let Some(mut progress) = sessions.watch(&delivery.key) else {
        // It has ended, or was never taken.
        return match sessions.ended(&delivery.key).await {
            Ok(Some(ended)) => Some(input_of(&ended)),
            Ok(None) => Some(Input::Due),
            Err(error) => {
                let error = Some(error.to_string());
                Some(Input::Failed { status: WaitStatus::NotFound, error, transient: false })
            }
        };
    };
    if delivery.state == DeliveryState::Stored {
        let moved = |progress: &Progress| !matches!(progress, Progress::Committing | Progress::Queued);
        return match progress.wait_for(moved).await.map(|progress| progress.clone()) {
            Ok(Progress::Running { .. }) => Some(Input::Delivered),
            Ok(Progress::Ended(ended)) => Some(input_of(&ended)),
            Ok(_) => Some(Input::Due),
            Err(_) => None,
        };
    }
    let started = match *progress.borrow() {
        Progress::Running { started_at } => started_at,
        _ => clock.now(),
    };
    let patience = match job.kind {
        // A sub-agent takes as long as its run may.
        Kind::Spawn => Duration::MAX,
        Kind::Send | Kind::AutoRoute => {
            let waited = clock.steady().0.saturating_sub(clock.steady_of(started).0);
            Duration::from_millis(shared.rules().wait_ms.saturating_sub(waited))
        }
    };
    let ended = |progress: &Progress| matches!(progress, Progress::Ended(_) | Progress::Lost);
    tokio::select! {
        ended = progress.wait_for(ended) => match ended.map(|progress| progress.clone()) {
            Ok(Progress::Ended(ended)) => Some(input_of(&ended)),
            Ok(_) => Some(Input::Due),
            Err(_) => None,
        },
        () = wait(shared, patience) => Some(Input::TimedOut),
    }
}

async fn wait(shared: &Shared, patience: Duration) {
    match patience {
        Duration::MAX => std::future::pending().await,
        patience => shared.options.clock.sleep(patience).await,
    }
}

fn input_of(ended: &Ended) -> Input {
    let failed = |status, transient| Input::Failed { status, error: ended.error.clone(), transient };
    match ended.status {
        Status::Ok => Input::Answered { reply: ended.reply.clone() },
        Status::Error => failed(WaitStatus::Error, ended.transient),
        Status::Aborted => failed(WaitStatus::Error, false),
        Status::Timeout => failed(WaitStatus::Timeout, false),
    }
}
