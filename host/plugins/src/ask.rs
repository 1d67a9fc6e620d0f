//! Asking a policy: the slot's component first, the version before it on probation, and the host's own rules when none answers.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::failure::Failure;
use super::generation::Generation;
use super::loader::Command;
use super::slots::{Idle, Response, Slot, SlotName};
use super::threads::Cost;
use super::worlds::{BeforeToolCall, Call, Categories, Instructions, Next, Roles};
use super::{About, Answered, Decision, Handle, fallback};
use crate::config::OnFailure;
use crate::event::{Kind, Role};
use crate::metrics;
use crate::policy::{
    Action, Actor, CategoriesInput, Classification, Conversation, EventFacts, InstructionsInput, NextInput, RolesInput,
    ToolCall, Verdict,
};
use crate::traces::{self, Begin};

/// A call waits so long for the first load of its slot.
const FIRST_LOAD_PATIENCE: Duration = Duration::from_secs(30);
/// A caller looks for its answer so long before it sleeps.
const AWAKE: Duration = Duration::from_micros(1_000);
/// Between two looks for an answer: a microsecond or so.
const PAUSES: u32 = 32;
/// Beside its own limits: a thread of this room died, or the machine stands still.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

impl Handle {
    /// What each event is about. Asked in bulk: lists come from whoever reads the log.
    pub async fn roles(&self, events: Vec<EventFacts>) -> Answered<Vec<Role>> {
        let room = &self.0.room;
        let config = &room.settings.current().config;
        let main_agents = config.agents.list.iter().map(|agent| agent.id.to_string()).collect();
        let input = Arc::new(RolesInput { main_agents, events });
        let outcome = self.ask_in::<Roles>(Lane::Bulk, &SlotName::Classifier, &input, &About::default()).await;
        outcome.unwrap_or_else(|_| Answered { answer: fallback::roles(&input), by: None })
    }

    /// The category of each conversation.
    pub async fn categories(&self, conversations: Vec<Conversation>, about: &About) -> Answered<Vec<Classification>> {
        self.categories_in(Lane::Now, conversations, about).await
    }

    /// The category of each of many conversations; whoever has only one to ask about does not wait for this.
    pub async fn categories_in_bulk(&self, conversations: Vec<Conversation>) -> Answered<Vec<Classification>> {
        self.categories_in(Lane::Bulk, conversations, &About::default()).await
    }

    async fn categories_in(
        &self,
        lane: Lane,
        conversations: Vec<Conversation>,
        about: &About,
    ) -> Answered<Vec<Classification>> {
        let config = &self.0.room.settings.current().config;
        let categories = config.categories.iter().map(|category| category.key.clone()).collect();
        let input = Arc::new(CategoriesInput { categories, conversations });
        let outcome = self.ask_in::<Categories>(lane, &SlotName::Classifier, &input, about).await;
        outcome.unwrap_or_else(|_| Answered { answer: fallback::categories(&input), by: None })
    }

    /// Asks every guard in order. `fits` checks rewritten arguments against the tool's schema.
    pub async fn before_tool_call(
        &self,
        mut call: ToolCall,
        about: &About,
        fits: impl Fn(&Map<String, Value>) -> Result<(), String>,
    ) -> Decision {
        let mut warnings = Vec::new();
        let slots = self.0.room.slots();
        for slot in slots.iter().filter(|slot| matches!(slot.name, SlotName::Guard(_))) {
            let SlotName::Guard(guard) = &slot.name else { continue };
            let input = Arc::new(call.clone());
            let answered = self.ask_slot::<BeforeToolCall>(Lane::Now, slot, &input, about).await;
            let verdict = match answered {
                Ok(answered) => match unfit(&answered.answer, &fits) {
                    None => answered.answer,
                    Some(why) => {
                        self.note_invalid(slot, &why).await;
                        self.instead(slot, guard, &call, &why, about)
                    }
                },
                // The operator has taken it out.
                Err(Unanswered::Idle(Idle::Disabled)) => Verdict::Allow,
                Err(why) => self.instead(slot, guard, &call, &why.words(), about),
            };
            match verdict {
                Verdict::Allow => {}
                Verdict::AllowWith { warning } => warnings.push(warning),
                Verdict::Block(block) => return Decision::Blocked { guard: guard.clone(), block },
                Verdict::Rewrite { arguments } => call.arguments = arguments,
            }
        }
        Decision::Run { arguments: call.arguments, warnings }
    }

    /// What a guard's failure means for a tool call.
    fn instead(&self, slot: &Slot, guard: &str, call: &ToolCall, why: &str, about: &About) -> Verdict {
        let verdict = match slot.on_failure() {
            OnFailure::Allow => Verdict::Allow,
            OnFailure::Builtin => fallback::before_tool_call(call),
            OnFailure::Block => fallback::guard_failed(guard, why),
        };
        if verdict != Verdict::Allow {
            self.0.room.decided_itself(&slot.name, BeforeToolCall::EXPORT, &json!(verdict), why, about);
        }
        verdict
    }

    /// Text for an agent's instructions.
    pub async fn instructions(&self, agent: Actor) -> Answered<String> {
        let slot = self.continuation_of(&agent.id);
        let about = About { agent: Some(agent.id.clone()), ..About::default() };
        let input = Arc::new(InstructionsInput { agent });
        let outcome = self.ask::<Instructions>(&slot, &input, &about).await;
        outcome.unwrap_or_else(|_| Answered { answer: fallback::instructions(), by: None })
    }

    /// What an agent that stopped is told; with why there was no answer, where one was to be had.
    pub async fn next(&self, input: NextInput, about: &About) -> (Answered<Action>, Option<String>) {
        let slot = self.continuation_of(&input.agent.id);
        let input = Arc::new(input);
        match self.ask::<Next>(&slot, &input, about).await {
            Ok(answered) => (answered, None),
            Err(why) => {
                let answer = fallback::next(&input);
                self.0.room.decided_itself(&slot, Next::EXPORT, &json!(answer), &why.words(), about);
                let failed = !matches!(why, Unanswered::Idle(Idle::Empty | Idle::Disabled));
                (Answered { answer, by: None }, failed.then(|| why.words()))
            }
        }
    }

    /// Writes down that an agent is not told anything, for a reason of the gateway's own.
    pub fn note_next(&self, agent: &str, answer: &Value, why: &str, about: &About) {
        self.0.room.decided_itself(&self.continuation_of(agent), Next::EXPORT, answer, why, about);
    }

    fn continuation_of(&self, agent: &str) -> SlotName {
        let own = SlotName::Continuation(Some(agent.to_owned()));
        if self.0.room.slot(&own).is_some() { own } else { SlotName::Continuation(None) }
    }

    async fn ask<C: Call>(
        &self,
        name: &SlotName,
        input: &Arc<C::Input>,
        about: &About,
    ) -> Result<Answered<C::Output>, Unanswered> {
        self.ask_in::<C>(Lane::Now, name, input, about).await
    }

    async fn ask_in<C: Call>(
        &self,
        lane: Lane,
        name: &SlotName,
        input: &Arc<C::Input>,
        about: &About,
    ) -> Result<Answered<C::Output>, Unanswered> {
        let Some(slot) = self.0.room.slot(name) else { return Err(Unanswered::Idle(Idle::Empty)) };
        let begin = || Begin::new(format!("component {name}"), traces::Kind::Internal).with("chela.export", C::EXPORT);
        let work = self.ask_slot::<C>(lane, &slot, input, about);
        traces::traced(&self.0.room.clock, begin, work, |answer, attributes| match answer {
            Ok(answered) => {
                attributes
                    .extend(answered.by.iter().map(|by| ("chela.component", format!("{} {}", by.name, by.version))));
                Ok(())
            }
            Err(Unanswered::Idle(_)) => Err("idle".to_owned()),
            Err(Unanswered::Failed(failure)) => Err(failure.kind().to_owned()),
        })
        .await
    }

    /// One answer of a slot's component, from the version before if the newest fails on probation.
    async fn ask_slot<C: Call>(
        &self,
        lane: Lane,
        slot: &Arc<Slot>,
        input: &Arc<C::Input>,
        about: &About,
    ) -> Result<Answered<C::Output>, Unanswered> {
        let room = &self.0.room;
        // Real time, as for every wait on a component: a clock that stands still must not hold up a call.
        let _ = tokio::time::timeout(FIRST_LOAD_PATIENCE, slot.settled()).await;
        let asked = Asked::new::<C>(input, lane);
        // Twice is enough: a swap and a rollback between two steps of one call do not happen again and again.
        for _ in 0..3 {
            let generation = match slot.component() {
                Ok(generation) => generation,
                Err(idle) => {
                    room.fell_back(slot, C::EXPORT, &idle.words(), !matches!(idle, Idle::Empty | Idle::Disabled));
                    return Err(Unanswered::Idle(idle));
                }
            };
            let around = room.surroundings(&asked.digest);
            let (threads, awake) = match lane {
                Lane::Now if room.threads.are_quiet() => (&room.threads, AWAKE),
                Lane::Now => (&room.threads, Duration::ZERO),
                Lane::Bulk => (&room.bulk, Duration::ZERO),
            };
            let answered = threads.call::<C>(generation.clone(), input.clone(), around);
            let (outcome, cost) = match answer_of(answered, awake, patience(&generation)).await {
                Some(answered) => answered,
                None => {
                    let failure = Failure::Busy { waited: patience(&generation) };
                    (Err(failure), Cost { took: Duration::ZERO, lines: Vec::new() })
                }
            };
            room.record_lines(&generation, &cost.lines);
            let now = room.clock.elapsed();
            match outcome {
                Ok(output) => {
                    slot.answered(generation.id, now);
                    slot.stats.lock().unwrap_or_else(PoisonError::into_inner).called(cost.took);
                    room.count(slot, "answered");
                    room.metrics.plugin_times.took(&metrics::Slot { slot: slot.name.to_string() }, cost.took);
                    room.decided::<C>(slot, &generation, asked, &output, cost.took, about);
                    return Ok(Answered { answer: output, by: Some(generation.identity.clone()) });
                }
                Err(failure) => match self.note_failed(slot, &generation, C::EXPORT, &failure).await {
                    Response::Stale | Response::RolledBack { .. } => {}
                    Response::Quarantined | Response::Fallback => return Err(Unanswered::Failed(failure)),
                },
            }
        }
        let failure = Failure::Busy { waited: Duration::ZERO };
        room.fell_back(slot, C::EXPORT, &failure.to_string(), true);
        Err(Unanswered::Failed(failure))
    }

    /// An answer that only its user could tell to be wrong: a failure with all that follows from one.
    async fn note_invalid(&self, slot: &Slot, why: &str) {
        let Some(generation) = slot.bound() else { return };
        let failure = Failure::Invalid { said: why.to_owned() };
        self.note_failed(slot, &generation, BeforeToolCall::EXPORT, &failure).await;
    }

    /// Counts and tells a failure; says what the slot did about it.
    pub(super) async fn note_failed(
        &self,
        slot: &Slot,
        generation: &Arc<Generation>,
        export: &str,
        failure: &Failure,
    ) -> Response {
        let room = &self.0.room;
        let response = slot.failed(generation.id, failure, room.clock.elapsed());
        room.note_failure(slot, &generation.identity, export, failure);
        match &response {
            Response::Stale => {}
            Response::RolledBack { to } => {
                let (failed, to) = (generation.clone(), to.clone());
                let facts = json!({ "plugin": to.identity, "from": failed.identity, "reason": failure.to_string() });
                room.tell(Kind::PluginRolledBack, slot, facts);
                self.send(Command::RolledBack { slot: slot.name.clone(), failed, to: to.id }).await;
            }
            Response::Quarantined => {
                let facts = json!({ "plugin": generation.identity, "reason": failure.to_string() });
                room.tell(Kind::PluginQuarantined, slot, facts);
                room.fell_back(slot, export, &failure.to_string(), true);
            }
            Response::Fallback => room.fell_back(slot, export, &failure.to_string(), true),
        }
        response
    }
}

/// Which threads a question goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Now,
    Bulk,
}

/// Why a slot gave no answer of its component.
#[derive(Clone, Debug)]
enum Unanswered {
    Idle(Idle),
    Failed(Failure),
}

impl Unanswered {
    fn words(&self) -> String {
        match self {
            Self::Idle(idle) => idle.words(),
            Self::Failed(failure) => failure.to_string(),
        }
    }
}

/// Waits for an answer: awake for a moment, since most calls take less time than falling asleep and being woken, then asleep.
async fn answer_of<T>(mut answered: oneshot::Receiver<T>, awake: Duration, patience: Duration) -> Option<T> {
    let awake_until = Instant::now() + awake;
    while Instant::now() < awake_until {
        match answered.try_recv() {
            Ok(answer) => return Some(answer),
            Err(oneshot::error::TryRecvError::Closed) => return None,
            Err(oneshot::error::TryRecvError::Empty) => {
                // What waits leaves the processor's units to who works: the two may be halves of one core.
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
                // Other tasks of this thread go first.
                tokio::task::yield_now().await;
            }
        }
    }
    tokio::time::timeout(patience, answered).await.ok()?.ok()
}

/// Why rewritten arguments are of no use.
fn unfit(verdict: &Verdict, fits: impl Fn(&Map<String, Value>) -> Result<(), String>) -> Option<String> {
    let Verdict::Rewrite { arguments } = verdict else { return None };
    let said = fits(arguments).err()?;
    Some(format!("it rewrote the arguments to what the tool does not take: {said}"))
}

/// An input with its name, and where it is asked.
pub(super) struct Asked {
    pub(super) lane: Lane,
    pub(super) input: Vec<u8>,
    pub(super) digest: String,
}

impl Asked {
    fn new<C: Call>(input: &C::Input, lane: Lane) -> Self {
        let input = serde_json::to_vec(input).expect("an input is plain JSON");
        let digest = blake3::hash(&input).to_hex()[..16].to_owned();
        Self { lane, input, digest }
    }
}

fn patience(generation: &Generation) -> Duration {
    Duration::from_millis(generation.limits.held.cpu_ms.into()) * 45 + ANSWER_PATIENCE
}
