//! Runs: one message of a session through instructions, model and tools to an answer.
//! Keeps true: each step is recorded before the next begins; a run is bounded in steps, time and tokens; what one run does holds up no other.
//! Never: decides what may be called (guards do) or keeps anything (sessions do).

mod calls;
mod compaction;
mod drive;
mod prompt;
mod voice;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::dialogues;
use crate::feed::Feed;
use crate::humans;
use crate::layout::StateDir;
use crate::models;
use crate::plugins;
use crate::sessions;
use crate::settings;
use crate::tools;

pub use prompt::{Toolbox, toolbox};

/// How long a run that was cut off may take to let go.
const LET_GO: Duration = Duration::from_secs(2);

pub struct Options {
    pub dir: StateDir,
    pub clock: Clock,
    pub settings: settings::Handle,
    pub plugins: plugins::Handle,
    pub sessions: sessions::Handle,
    pub dialogues: dialogues::Handle,
    pub humans: humans::Handle,
    pub tools: tools::Handle,
    pub models: models::Handle,
    pub feed: Feed,
}

/// The way to the runs; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    options: Options,
    /// Runs at once; one that waits for another gives its place back.
    places: Arc<Semaphore>,
    under_way: TaskTracker,
    /// Ends runs without an end: they go on after the next start.
    cut: CancellationToken,
}

/// The future begins runs until the sessions are closed.
pub fn start(options: Options) -> (Handle, impl Future<Output = ()> + Send) {
    let places = Arc::new(Semaphore::new(options.settings.current().config.runs.concurrency));
    let handle =
        Handle(Arc::new(Shared { options, places, under_way: TaskTracker::new(), cut: CancellationToken::new() }));
    let shared = handle.0.clone();
    let begin = async move {
        while shared.options.sessions.ready().await {
            // Taken only when there is something to run: whoever waits for another to end needs it back meanwhile. Never closed.
            let Ok(place) = shared.places.clone().acquire_owned().await else { return };
            if let Some(turn) = shared.options.sessions.begin() {
                shared.under_way.spawn(drive::drive(shared.clone(), turn, place));
            }
        }
    };
    (handle, begin)
}

impl Handle {
    /// Runs that are under way.
    pub fn under_way(&self) -> usize {
        self.0.under_way.len()
    }

    /// Lets runs end, at most for so long; the others go on after the next start.
    pub async fn stop(&self, patience: Duration) {
        self.0.under_way.close();
        let ended = tokio::select! {
            () = self.0.under_way.wait() => true,
            () = self.0.options.clock.sleep(patience) => false,
        };
        if !ended {
            tracing::info!(left = self.0.under_way.len(), "runs are interrupted; they go on after the next start");
            self.0.cut.cancel();
            let _ = tokio::time::timeout(LET_GO, self.0.under_way.wait()).await;
        }
    }
}
