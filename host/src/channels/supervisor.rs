//! One task for each channel that has an adapter: begun when one serves, ended when none does, told when what it may use has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use chela_channel::Standing;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::actor::Actor;
use super::store::Taken;
use super::take::{TAKEN_MAX, take_up};
use super::{ASKS_MAX, Ask, Running, Shared};
use crate::config::Grants;
use crate::plugins::{Handover, Version};

pub(super) struct Supervisor {
    shared: Arc<Shared>,
    handovers: mpsc::Receiver<Handover>,
    tasks: JoinSet<String>,
    stops: BTreeMap<String, CancellationToken>,
    grants: BTreeMap<String, Grants>,
}

impl Supervisor {
    pub(super) fn new(shared: Arc<Shared>, handovers: mpsc::Receiver<Handover>) -> Self {
        Self { shared, handovers, tasks: JoinSet::new(), stops: BTreeMap::new(), grants: BTreeMap::new() }
    }

    pub(super) async fn run(mut self, found: Vec<Taken>, stop: CancellationToken) {
        let (taking, inbox) = mpsc::channel(TAKEN_MAX);
        let taker = tokio::spawn(take_up(self.shared.clone(), found, inbox, stop.clone()));
        let mut changes = self.shared.options.plugins.channel_changes();
        let mut settings = self.shared.options.settings.subscribe();
        self.grants = self.granted();
        self.reconcile(&taking);
        loop {
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
                Some(handover) = self.handovers.recv() => self.hand_over(handover).await,
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    if let Ok(name) = ended {
                        self.ended(&name);
                    }
                }
            }
        }
        // Nobody takes over any more.
        self.handovers.close();
        self.stops.values().for_each(CancellationToken::cancel);
        while self.tasks.join_next().await.is_some() {}
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
        let gone: Vec<String> =
            self.stops.keys().filter(|name| !slots.iter().any(|(known, _)| known == *name)).cloned().collect();
        gone.iter().for_each(|name| self.end(name));
    }

    fn ensure(&mut self, name: &str, version: &Version, taking: &mpsc::Sender<Taken>) {
        let running = self.shared.state().running.get(name).cloned();
        if let Some(running) = running {
            if running.version < version.id() {
                // One that cannot take it now is about to end.
                let _ = running.asks.try_send(Ask::Use(version.clone()));
            }
            return;
        }
        let (asks, inbox) = mpsc::channel(ASKS_MAX);
        let stop = CancellationToken::new();
        let actor = Actor::new(self.shared.clone(), name.to_owned(), version.clone(), inbox, taking.clone());
        let running = Running { asks, version: version.id() };
        self.shared.state().running.insert(name.to_owned(), running);
        self.stops.insert(name.to_owned(), stop.clone());
        let name = name.to_owned();
        self.tasks.spawn(async move {
            actor.run(stop).await;
            name
        });
    }

    fn end(&mut self, name: &str) {
        if let Some(stop) = self.stops.get(name) {
            stop.cancel();
        }
    }

    /// A task has ended; where one is still wanted, another begins.
    fn ended(&mut self, name: &str) {
        self.stops.remove(name);
        self.shared.state().running.remove(name);
        self.shared.view(name, |view| view.status = Standing::Stopped);
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
