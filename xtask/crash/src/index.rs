//! Asks the index that many lives have kept beside one made anew from the same log: every answer must be the same.
//! Keeps true: the directory of the lives is only read.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use chela::app::{App, Options as AppOptions, Watched};
use chela::bus::SEGMENT_BYTES;
use chela::client::Client;
use chela::clock::{Clock, Timestamp};
use chela::layout::StateDir;
use chela::port::PerPort;
use chela::settings;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Options;

/// An index that is not complete, or not classified, after so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);
/// Indexes that still differ after so long will not agree any more.
const SETTLING: Duration = Duration::from_secs(60);
/// Longer than the silence after which the classifier is asked again.
const SILENCE: Duration = Duration::from_secs(20);

/// Makes a first index and stops, so that every life finds one that is complete.
pub fn complete(options: &Options, dir: &StateDir) -> Result<()> {
    let runtime = Runtime::new().context("cannot start")?;
    let done = runtime.block_on(async {
        let monitor = Monitor::start(options, dir, None, Clock::system()).await?;
        let indexed = monitor.indexed().await;
        monitor.app.stop().await?;
        indexed
    });
    runtime.shutdown_background();
    done
}

/// The index that was kept beside the new one.
pub struct Compared {
    /// Answers that are not the same, the kept index's first.
    pub differing: Vec<(Value, Value)>,
    /// The kept index was not gone on with, so that nothing was compared.
    pub made_again: bool,
}

/// Compares at a time after `latest`, the time of the last event.
pub fn compare(options: &Options, dir: &StateDir, latest: u64) -> Result<Compared> {
    let runtime = Runtime::new().context("cannot start")?;
    let own = tempfile::tempdir_in(&options.scratch)?;
    let (kept, fresh) = (StateDir::new(own.path().join("kept")), StateDir::new(own.path().join("fresh")));
    for made in [&kept, &fresh] {
        fs::create_dir_all(made.index())?;
        fs::copy(dir.config(), made.config())?;
    }
    for entry in fs::read_dir(dir.index()).into_iter().flatten() {
        let path = entry?.path();
        fs::copy(&path, kept.index().join(path.file_name().context("a file has a name")?))?;
    }
    let kept_index = kept.event_index();
    let mut held = Held::open(&kept_index)?;
    let differing = runtime.block_on(async {
        // The same time for both: status, counts and silence follow from it.
        let later = || Clock::manual(Timestamp(latest + 60_000));
        let kept = Monitor::start(options, &kept, Some(dir), later()).await?;
        let fresh = Monitor::start(options, &fresh, Some(dir), later()).await?;
        let found = differences(&kept, &fresh).await;
        kept.app.stop().await?;
        fresh.app.stop().await?;
        found
    });
    runtime.shutdown_background();
    Ok(Compared { differing: differing?, made_again: held.is_replaced(&kept_index)? })
}

async fn differences(kept: &Monitor, fresh: &Monitor) -> Result<Vec<(Value, Value)>> {
    for monitor in [kept, fresh] {
        monitor.indexed().await?;
        monitor.classified().await?;
    }
    let settling = Instant::now() + SETTLING;
    let mut found = loop {
        let (ours, theirs) = (kept.summary().await?, fresh.summary().await?);
        if ours == theirs || Instant::now() > settling {
            break differing(&ours, &theirs);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    for order in ["", "&since=1970-01-01"] {
        let (mut ours, mut theirs) = (Pages::events(order), Pages::events(order));
        while !(ours.is_over() && theirs.is_over()) {
            found.extend(differing(&ours.next(kept).await?, &theirs.next(fresh).await?));
        }
    }
    Ok(found)
}

/// The elements in which two lists differ.
fn differing(ours: &[Value], theirs: &[Value]) -> Vec<(Value, Value)> {
    let none = Value::Null;
    let pairs =
        (0..ours.len().max(theirs.len())).map(|at| (ours.get(at).unwrap_or(&none), theirs.get(at).unwrap_or(&none)));
    pairs.filter(|(one, other)| one != other).map(|(one, other)| (one.clone(), other.clone())).collect()
}

/// A gateway of which only the monitor is asked; over a directory that others write, it keeps an index of its own.
struct Monitor {
    app: App,
    clock: Clock,
    client: Client,
}

impl Monitor {
    async fn start(options: &Options, own: &StateDir, watched: Option<&StateDir>, clock: Clock) -> Result<Self> {
        let app = App::start(AppOptions {
            dir: own.clone(),
            clock: clock.clone(),
            listen: PerPort::default(),
            compiler: options.chela.clone(),
            watched: watched.map(|dir| Watched { dir: dir.clone(), overrides: false }),
            segment_bytes: SEGMENT_BYTES,
        })
        .await?;
        let address = app.addresses().monitor.context("the monitor does not listen")?;
        let token = settings::load(own)?.tokens.owner().to_owned();
        let client = Client::new(address, Some(token)).with_patience(PATIENCE);
        Ok(Self { app, clock, client })
    }

    /// Waits until the whole log is read.
    async fn indexed(&self) -> Result<()> {
        let patience = Instant::now() + PATIENCE;
        while self.client.get("/api/stats").await?.json()["error"]["code"] == "indexing" {
            ensure!(Instant::now() < patience, "the index is not complete after {} s", PATIENCE.as_secs());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Waits until every conversation is classified by what was said last.
    async fn classified(&self) -> Result<()> {
        let patience = Instant::now() + PATIENCE;
        self.app.plugins().loaded().await;
        self.clock.advance(SILENCE);
        let is_classified = |session: &Value| session["messageCount"] == 0 || session["classification"].is_object();
        while !self.sessions().await?.iter().all(is_classified) {
            ensure!(Instant::now() < patience, "not all sessions are classified after {} s", PATIENCE.as_secs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let answer = self.client.get(path).await?;
        if answer.status != 200 {
            bail!("{path} was answered with {}: {}", answer.status, answer.json());
        }
        Ok(answer.json())
    }

    /// Every session with its threads, but for when the classifier was asked.
    async fn sessions(&self) -> Result<Vec<Value>> {
        let (mut pages, mut sessions) = (Pages::sessions(), Vec::new());
        while !pages.is_over() {
            for row in pages.next(self).await? {
                let id = row["workSessionId"].as_str().context("a session without an id")?;
                let mut session = self.get(&format!("/api/work-sessions/{id}")).await?;
                session["row"] = row;
                if let Some(said) = session["classification"].as_object_mut() {
                    said.remove("at");
                }
                sessions.push(session);
            }
        }
        Ok(sessions)
    }

    /// Everything but the events.
    async fn summary(&self) -> Result<Vec<Value>> {
        let mut all = self.sessions().await?;
        all.push(self.get("/api/stats?days=30").await?);
        let monitor = self.get("/api/health").await?["monitor"].take();
        all.push(json!([
            monitor["events"],
            monitor["malformedLines"],
            monitor["unknownRoles"],
            monitor["leftToClassify"]
        ]));
        Ok(all)
    }
}

/// The pages of a list, one after the other.
struct Pages {
    path: String,
    field: &'static str,
    /// The parameter that asks for the next page.
    onward: &'static str,
    /// What asks for the next page; none after the last.
    next: Option<String>,
}

impl Pages {
    /// Newest first, or from a time on.
    fn events(order: &str) -> Self {
        let onward = if order.is_empty() { "cursor" } else { "since" };
        Self { path: "/api/events?limit=500".into(), field: "events", onward, next: Some(order.to_owned()) }
    }

    fn sessions() -> Self {
        let path = "/api/work-sessions?limit=500".into();
        Self { path, field: "workSessions", onward: "cursor", next: Some(String::new()) }
    }

    fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// The rows of the next page; none when it is over.
    async fn next(&mut self, monitor: &Monitor) -> Result<Vec<Value>> {
        let Some(next) = self.next.take() else { return Ok(Vec::new()) };
        let mut page = monitor.get(&format!("{}{next}", self.path)).await?;
        self.next = page["nextCursor"].as_str().map(|cursor| format!("&{}={cursor}", self.onward));
        match page[self.field].take() {
            Value::Array(rows) => Ok(rows),
            other => bail!("{} has no list but {other}", self.path),
        }
    }
}

/// An index file that is held open, so that another file under its name can be told from it.
pub struct Held(File);

impl Held {
    pub fn open(path: &Path) -> Result<Self> {
        File::open(path).map(Self).context("there is no index")
    }

    /// Whether another file lies there than at the last look, or none.
    pub fn is_replaced(&mut self, path: &Path) -> Result<bool> {
        let Ok(there) = File::open(path) else { return Ok(true) };
        let before = std::mem::replace(&mut self.0, there);
        Ok(before.metadata()?.ino() != self.0.metadata()?.ino())
    }
}
