//! One task for each channel that has an adapter: begun when one serves, ended when none does, told when what it may use has changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use chela_channel::{Standing, restart_after};
use tokio::sync::{Notify, mpsc};
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

use super::actor::Actor;
use super::store::Taken;
use super::take::{TAKEN_MAX, take_up};
use super::{ASKS_MAX, Ask, Running, Shared, expiry};
use crate::config::Grants;
use crate::plugins::{Handover, Version};

/// A task that lived so long has recovered.
const WELL: Duration = Duration::from_secs(60);
/// Between two looks at messages that no adapter takes.
const EXPIRY_EVERY: Duration = Duration::from_secs(600);

pub(super) struct Supervisor {
    shared: Arc<Shared>,
    handovers: mpsc::Receiver<Handover>,
    tasks: Tasks,
    stops: BTreeMap<String, CancellationToken>,
    /// Channels whose task broke: how often in a row, and when it is begun again.
    broken: BTreeMap<String, (u32, Duration)>,
    grants: BTreeMap<String, Grants>,
}

impl Supervisor {
    pub(super) fn new(shared: Arc<Shared>, handovers: mpsc::Receiver<Handover>) -> Self {
        let (stops, broken, grants) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { shared, handovers, tasks: Tasks::default(), stops, broken, grants }
    }

    pub(super) async fn run(mut self, found: Vec<Taken>, stop: CancellationToken) {
        let (taking, inbox) = mpsc::channel(TAKEN_MAX);
        let taker = tokio::spawn(take_up(self.shared.clone(), found, inbox, stop.clone()));
        let mut changes = self.shared.options.plugins.channel_changes();
        let mut settings = self.shared.options.settings.subscribe();
        let mut readings = self.shared.options.settings.readings();
        let clock = self.shared.options.clock.clone();
        self.grants = self.granted();
        self.reconcile(&taking);
        let mut looked = None;
        loop {
            let now = clock.elapsed();
            if looked.is_none_or(|at| now >= at + EXPIRY_EVERY) {
                looked = Some(now);
                expiry::sweep(&self.shared).await;
            }
            let rest = self.rest(now).unwrap_or(EXPIRY_EVERY).min(EXPIRY_EVERY);
            tokio::select! {
                () = stop.cancelled() => break,
                changed = changes.changed() => match changed {
                    Ok(()) => self.reconcile(&taking),
                    Err(_) => break,
                },
                changed = settings.changed() => match changed {
                    Ok(()) => self.regrant().await,
                    Err(_) => break,
                },
                asked = readings.changed() => match asked {
                    Ok(()) => {
                        // Other grants first: who begins anew with them has found its secrets too.
                        if settings.has_changed().unwrap_or(false) {
                            settings.mark_unchanged();
                            self.regrant().await;
                        }
                        self.look_at_secrets().await;
                    }
                    Err(_) => break,
                },
                Some(handover) = self.handovers.recv() => self.hand_over(handover).await,
                Some(ended) = self.tasks.next() => {
                    self.ended(ended);
                    // It may be wanted again by now: whoever said so while it was ending spoke to the one that ended.
                    self.reconcile(&taking);
                }
                () = clock.sleep(rest) => self.reconcile(&taking),
            }
        }
        // Nobody takes over any more.
        self.handovers.close();
        self.stops.values().for_each(CancellationToken::cancel);
        while self.tasks.next().await.is_some() {}
        // It ends with the same word.
        let _ = taker.await;
    }

    /// Begins and ends tasks, so that each channel that an adapter serves has one.
    fn reconcile(&mut self, taking: &mpsc::Sender<Taken>) {
        let slots = self.shared.options.plugins.channels();
        for (name, serving) in &slots {
            match serving {
                Ok(version) => self.ensure(name, version, taking),
                Err(_) => self.end(name),
            }
        }
        self.broken.retain(|name, _| slots.iter().any(|(known, serving)| known == name && serving.is_ok()));
        let gone: Vec<String> =
            self.stops.keys().filter(|name| !slots.iter().any(|(known, _)| known == *name)).cloned().collect();
        gone.iter().for_each(|name| self.end(name));
    }

    fn ensure(&mut self, name: &str, version: &Version, taking: &mpsc::Sender<Taken>) {
        let running = self.shared.state().running.get(name).cloned();
        if let Some(running) = running {
            let is_ending = self.stops.get(name).is_some_and(CancellationToken::is_cancelled);
            if !is_ending && running.version < version.id() {
                // One that cannot take it now is about to end.
                let _ = running.asks.try_send(Ask::Use(version.clone()));
            }
            return;
        }
        let now = self.shared.options.clock.elapsed();
        if self.broken.get(name).is_some_and(|(_, until)| *until > now) {
            return;
        }
        let (asks, inbox) = mpsc::channel(ASKS_MAX);
        let stop = CancellationToken::new();
        let overfull = Arc::new(Notify::new());
        let asked = (inbox, overfull.clone());
        let actor = Actor::new(self.shared.clone(), name.to_owned(), version.clone(), asked, taking.clone());
        let running = Running { asks, overfull, version: version.id() };
        self.shared.state().running.insert(name.to_owned(), running);
        self.stops.insert(name.to_owned(), stop.clone());
        self.tasks.spawn(name, actor.run(stop));
    }

    fn end(&mut self, name: &str) {
        if let Some(stop) = self.stops.get(name) {
            stop.cancel();
        }
    }

    /// A task has ended; where one is still wanted, another begins. One that broke does so after a while, longer each time.
    fn ended(&mut self, Ended { name, broke }: Ended) {
        self.stops.remove(&name);
        self.shared.state().running.remove(&name);
        if !broke {
            self.broken.remove(&name);
            self.shared.view(&name, |view| view.status = Standing::Stopped);
            return;
        }
        let now = self.shared.options.clock.elapsed();
        let lately = self.broken.get(&name).filter(|(_, begun)| now < *begun + WELL);
        let times = lately.map_or(0, |(times, _)| *times);
        let wait = Duration::from_millis(restart_after(times, getrandom::u64().unwrap_or(0)));
        self.broken.insert(name.clone(), (times.saturating_add(1), now + wait));
        tracing::error!(channel = name, "the task of a channel broke; please report this");
        self.shared.view(&name, |view| {
            view.status = Standing::Degraded;
            view.detail = format!("the gateway's task for it broke and is begun again in {} ms", wait.as_millis());
            view.connections.clear();
        });
    }

    /// Until the first task that broke is begun again; none where none did.
    fn rest(&self, now: Duration) -> Option<Duration> {
        let waiting = self.broken.iter().filter(|(name, _)| !self.stops.contains_key(*name));
        waiting.map(|(_, (_, until))| until.saturating_sub(now)).min()
    }

    fn granted(&self) -> BTreeMap<String, Grants> {
        let settings = self.shared.options.settings.current();
        settings.config.channels.iter().map(|(name, channel)| (name.clone(), channel.grants.clone())).collect()
    }

    /// Adapters whose grants have changed begin anew; so does one that waits for a secret, whatever has changed.
    async fn regrant(&mut self) {
        let new = self.granted();
        let (running, waiting) = {
            let state = self.shared.state();
            let waits = |name: &String| state.views.get(name).is_some_and(|view| view.status == Standing::NeedsAuth);
            let running: Vec<(String, Running)> =
                state.running.iter().map(|(name, running)| (name.clone(), running.clone())).collect();
            let waiting: Vec<String> = state.running.keys().filter(|name| waits(name)).cloned().collect();
            (running, waiting)
        };
        for (name, running) in running {
            if new.get(&name) != self.grants.get(&name) || waiting.contains(&name) {
                // One that is gone has ended.
                let _ = running.asks.send(Ask::Restart).await;
            }
        }
        self.grants = new;
    }

    /// Somebody has asked that everything be read again. Each adapter knows which secrets it uses, and begins anew if
    /// they are others.
    async fn look_at_secrets(&mut self) {
        let running: Vec<Running> = {
            let mut state = self.shared.state();
            state.hook_keys.clear();
            state.running.values().cloned().collect()
        };
        for running in running {
            // One that is gone has ended.
            let _ = running.asks.send(Ask::LookAtSecrets).await;
        }
    }

    async fn hand_over(&mut self, handover: Handover) {
        let running = self.shared.state().running.get(&handover.channel).cloned();
        match running {
            Some(running) => {
                if let Err(mpsc::error::SendError(Ask::Handover(handover))) =
                    running.asks.send(Ask::Handover(handover)).await
                {
                    drop(handover.answer.send(Ok(())));
                }
            }
            // Nothing lives that could be asked: the new one begins by itself.
            None => drop(handover.answer.send(Ok(()))),
        }
    }
}

/// Tasks by the names of their channels. A task that panics is known by its name too.
#[derive(Default)]
struct Tasks {
    set: JoinSet<()>,
    names: HashMap<Id, String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Ended {
    name: String,
    /// It did not come to its end.
    broke: bool,
}

impl Tasks {
    fn spawn(&mut self, name: &str, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.set.spawn(task).id();
        self.names.insert(id, name.to_owned());
    }

    /// The next one that has ended; none where there are none.
    async fn next(&mut self) -> Option<Ended> {
        loop {
            let (id, broke) = match self.set.join_next_with_id().await? {
                Ok((id, ())) => (id, false),
                Err(error) => (error.id(), true),
            };
            if let Some(name) = self.names.remove(&id) {
                return Some(Ended { name, broke });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_ends_by_its_name() {
        let mut tasks = Tasks::default();
        tasks.spawn("bad", async { panic!("it was told to") });
        assert_eq!(tasks.next().await, Some(Ended { name: "bad".into(), broke: true }));
        tasks.spawn("good", async {});
        assert_eq!(tasks.next().await, Some(Ended { name: "good".into(), broke: false }));
        assert_eq!(tasks.next().await, None);
        assert!(tasks.names.is_empty());
    }
}
