//! The loop of the room: what happens to agents goes in, and timers and polls have their time. One loop and one heap for all agents.

use std::sync::Arc;
use std::time::Duration;

use chela_drive::{By, End, Input, Outcome};
use tokio_util::sync::CancellationToken;

use super::{Shared, poll_every_ms};
use crate::bus::{Delivery, Subscription};
use crate::id::AgentId;
use crate::sessions::{Ended, Follow, Follower, News, OriginKind, Status};

/// Kinds of errors that another run does not mend.
const LASTING: [&str; 2] = ["context_length", "auth"];

pub(super) struct Service {
    shared: Arc<Shared>,
    news: Follower,
    tasks: Subscription,
    questions: Subscription,
}

impl Service {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let news = shared.options.sessions.follow();
        let bus = &shared.options.bus;
        let (tasks, questions) = (bus.subscribe("task."), bus.subscribe("human_query."));
        Self { shared, news, tasks, questions }
    }

    pub(super) async fn run(mut self, stop: CancellationToken) {
        let shared = self.shared.clone();
        let clock = shared.options.clock.clone();
        let mut settings = shared.options.settings.subscribe();
        let every = || poll_every_ms(&shared.options.settings.current().config.continuation);
        shared.state().poll_at = shared.now() + every();
        self.take_up();
        loop {
            let wake = shared.wake.notified();
            let due = {
                let state = shared.state();
                state.timers.first().map_or(u64::MAX, |(due, _)| *due).min(state.poll_at)
            };
            let wait = Duration::from_millis(due.saturating_sub(shared.now()));
            tokio::select! {
                () = stop.cancelled() => return,
                followed = self.news.next() => match followed {
                    Follow::News(news) => self.hear(news),
                    Follow::Missed => self.take_up(),
                    Follow::Closed => return,
                },
                delivery = self.tasks.next() => match delivery {
                    Some(Delivery::Event(event)) => self.task_changed(&event.agent_id),
                    Some(Delivery::Missed(_)) => self.agents().iter().for_each(|agent| self.task_changed(agent.as_ref())),
                    None => return,
                },
                delivery = self.questions.next() => match delivery {
                    Some(_) => self.agents().iter().for_each(|agent| self.shared.look_for_questions(agent)),
                    None => return,
                },
                changed = settings.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.settings_changed(every());
                }
                () = wake => {}
                () = clock.sleep(wait) => {
                    self.fire();
                    if shared.now() >= shared.state().poll_at {
                        shared.state().poll_at = shared.now() + every();
                        self.poll();
                    }
                }
            }
        }
    }

    fn agents(&self) -> Vec<AgentId> {
        self.shared.options.settings.current().config.agents.list.iter().map(|agent| agent.id.clone()).collect()
    }

    /// Looks at every agent for itself: at the start, and after having fallen behind.
    fn take_up(&self) {
        let shared = &self.shared;
        let (around, ends) = (shared.surroundings(), shared.options.sessions.last_ends());
        for agent in self.agents() {
            // First: what is due at a start must not be done past an open question.
            self.shared.look_for_questions(&agent);
            let begun = shared.begun(&agent, &around, &ends);
            shared.give(&agent, Input::Begun(begun));
        }
    }

    fn hear(&self, news: News) {
        let shared = &self.shared;
        match news {
            News::Accepted { session, run, by, order } if !session.is_subagent() => {
                shared.give(&session.agent, Input::Accepted { run: run.to_string(), by: by_of(by), order });
            }
            News::Started { session, run, by, order, .. } if !session.is_subagent() => {
                shared.give(&session.agent, Input::Started { run: run.to_string(), by: by_of(by), order });
            }
            News::Ended { session, run, by, ended, acted, compacted } if !session.is_subagent() => {
                let end = End {
                    run: run.to_string(),
                    by: by_of(by),
                    at: shared.options.clock.steady_of(ended.at).0,
                    outcome: outcome_of(&ended),
                    tokens: tokens_of(&ended),
                    acted,
                    compacted,
                };
                let look = shared.look(&session.agent);
                shared.give(&session.agent, Input::Ended { end, look });
            }
            News::Accepted { .. } | News::Started { .. } | News::Ended { .. } => {}
        }
    }

    fn task_changed(&self, agent: &str) {
        if let Ok(agent) = agent.parse() {
            let look = self.shared.look(&agent);
            self.shared.give(&agent, Input::TaskChanged { look });
        }
    }

    fn settings_changed(&self, every: u64) {
        let shared = &self.shared;
        {
            let mut state = shared.state();
            state.poll_at = state.poll_at.min(shared.now() + every);
        }
        let around = shared.surroundings();
        for agent in self.agents() {
            let look = shared.look_in(&agent, &around);
            shared.give(&agent, Input::RulesChanged { look });
        }
    }

    /// Everything whose time has come, with one look around for all.
    fn fire(&self) {
        let shared = &self.shared;
        let now = shared.now();
        let due: Vec<AgentId> =
            shared.state().timers.iter().take_while(|(due, _)| *due <= now).map(|(_, agent)| agent.clone()).collect();
        if due.is_empty() {
            return;
        }
        let around = shared.surroundings();
        for agent in due {
            shared.look_for_questions(&agent);
            let look = shared.look_in(&agent, &around);
            shared.give(&agent, Input::Due { look });
        }
    }

    fn poll(&self) {
        let shared = &self.shared;
        let around = shared.surroundings();
        for agent in self.agents() {
            let counted: Vec<String> = match shared.state().agents.get(&agent) {
                Some(known) => known.tasks().map(str::to_owned).collect(),
                None => Vec::new(),
            };
            shared.look_for_questions(&agent);
            let poll = shared.poll_of(&agent, &around, &counted);
            shared.give(&agent, Input::Poll(poll));
        }
    }
}

fn by_of(origin: OriginKind) -> By {
    match origin {
        OriginKind::ExternalUser => By::Person,
        OriginKind::InterSession => By::Agent,
        OriginKind::InternalSystem => By::Gateway,
    }
}

fn tokens_of(ended: &Ended) -> u64 {
    let usage = &ended.usage;
    usage.input + usage.output + usage.cache_read + usage.cache_write
}

fn outcome_of(ended: &Ended) -> Outcome {
    match ended.status {
        Status::Ok => Outcome::Ok,
        Status::Aborted => Outcome::Aborted,
        Status::Error | Status::Timeout => Outcome::Failed {
            said: ended.error.clone().unwrap_or_else(|| "it came to no answer".into()),
            lasting: ended.error_kind.as_deref().is_some_and(|kind| LASTING.contains(&kind)),
        },
    }
}
