//! One run from its message to its end.

use std::sync::Arc;
use std::time::Duration;

use chela_model::{Answer, Delta, Failure, FailureKind, Request, Stop};
use tokio::sync::OwnedSemaphorePermit;

use super::voice::Voice;
use super::{Shared, prompt};
use crate::config::{Agent, AgentRole, RunLimits};
use crate::models::{self, Asker, Chosen, Heard};
use crate::sessions::{self, Further, Status, Step, Sum, Turn, Wrong, stop_word};
use crate::settings::Settings;
use crate::traces::{self, Begin};

/// The longest answer, calls included.
const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// Of an answer that was cut off no more than this is kept.
const PARTIAL_CHARS_MAX: usize = 100_000;

/// Why a run did not come to its answer.
pub(super) struct Failed {
    status: Status,
    said: String,
    kind: Option<String>,
    /// It may go better another time.
    transient: bool,
}

impl Failed {
    fn limit(said: String) -> Self {
        Self { status: Status::Error, said, kind: Some("limit".into()), transient: false }
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        let kind = match failure.kind {
            FailureKind::RateLimit | FailureKind::Overloaded => "rate_limit",
            FailureKind::Timeout => "timeout",
            FailureKind::ContextLength => "context_length",
            FailureKind::Refusal => "refusal",
            FailureKind::Auth => "auth",
            _ => "unknown",
        };
        let transient = failure.is_worth_retrying();
        Self { status: Status::Error, said: failure.to_string(), kind: Some(kind.into()), transient }
    }
}

impl From<models::Error> for Failed {
    fn from(error: models::Error) -> Self {
        Self { status: Status::Error, said: error.to_string(), kind: None, transient: false }
    }
}

impl From<sessions::Error> for Failed {
    fn from(error: sessions::Error) -> Self {
        Self { status: Status::Error, said: error.to_string(), kind: None, transient: false }
    }
}

pub(super) struct Run<'a> {
    pub(super) shared: &'a Shared,
    settings: Arc<Settings>,
    voice: Voice,
    pub(super) sum: Sum,
    place: Option<OwnedSemaphorePermit>,
}

/// The last words of a run.
pub(super) struct Finished {
    pub(super) steps: Vec<Step>,
    pub(super) reply: String,
    pub(super) stop: Stop,
}

pub(super) async fn drive(shared: Arc<Shared>, turn: Turn, place: OwnedSemaphorePermit) {
    let clock = shared.options.clock.clone();
    let message = turn.message();
    let (id, chain, session) = (message.id.clone(), message.chain.clone(), turn.session().to_string());
    let in_job = message.part.is_some();
    let begin = move || {
        // A message of a job has the job's id before its number.
        let job = id.rsplit_once(':').map(|(job, _)| job).filter(|_| in_job);
        let begin = Begin::new("run", traces::Kind::Internal).of(&chain.id, chain.span.as_deref());
        let begin = begin.known_as(&id).below(job);
        begin.with("chela.run", id.clone()).with("chela.session", session)
    };
    traces::traced(&clock, begin, to_its_end(shared, turn, place), |ended, _| ended.clone()).await.ok();
}

/// Runs it; what it failed of, in a word.
async fn to_its_end(shared: Arc<Shared>, mut turn: Turn, place: OwnedSemaphorePermit) -> Result<(), String> {
    let options = &shared.options;
    let settings = options.settings.current();
    let agent = settings.config.agents.list.iter().find(|agent| agent.id == turn.session().agent);
    let asks = agent.is_some_and(|agent| agent.role == AgentRole::Orchestrator);
    let mut voice = Voice::of(&turn, options.feed.clone(), options.clock.clone(), asks);
    voice.begin();
    let mut run = Run { shared: &shared, settings: settings.clone(), voice, sum: Sum::default(), place: Some(place) };
    let limits = RunLimits::of(&settings.config, agent.map(|agent| agent.limits).unwrap_or_default());
    let time_ms = turn.message().time_ms.unwrap_or(limits.time_ms).min(limits.time_ms).max(1);
    let aborted = turn.aborted().clone();
    let outcome = tokio::select! {
        // Dropped without an end: the journal has what was done, and the next start goes on from there.
        () = shared.cut.cancelled() => return Err("interrupted".into()),
        () = aborted.cancelled() => Err(Failed { status: Status::Aborted, said: "aborted".into(), kind: None, transient: false }),
        () = options.clock.sleep(Duration::from_millis(time_ms)) => {
            let said = format!("the run took longer than {time_ms} ms");
            Err(Failed { status: Status::Timeout, said, kind: Some("timeout".into()), transient: false })
        }
        outcome = run.go(agent, &mut turn, limits) => outcome,
    };
    // What was being recorded when it was cut off counts.
    turn.settle().await;
    let ended = outcome
        .as_ref()
        .map(|_| ())
        .map_err(|failed| failed.kind.clone().unwrap_or_else(|| format!("{:?}", failed.status).to_lowercase()));
    run.end(turn, outcome).await;
    ended
}

impl Run<'_> {
    async fn end(mut self, turn: Turn, outcome: Result<Finished, Failed>) {
        let (run, sum) = (turn.id().to_owned(), self.sum.clone());
        let options = &self.shared.options;
        let agent = self.settings.config.agents.list.iter().find(|agent| agent.id == turn.session().agent);
        let mut left = None;
        let noted;
        let ended = match outcome {
            Ok(Finished { steps, reply, stop }) => {
                let (steps, reply, mut further) = match agent {
                    Some(agent) => {
                        let mut ending = options.humans.at_end(agent, &turn, steps, reply);
                        left = Some(ending.take_left());
                        (ending.steps, ending.reply, ending.further)
                    }
                    None => (steps, reply, Further::default()),
                };
                noted = options.dialogues.at_end(&turn, &steps, &mut further);
                self.voice.asks(&steps);
                turn.end_with(steps, Status::Ok, reply, None, stop_word(stop), sum, &further).await
            }
            Err(Failed { status, said, kind, transient }) => {
                tracing::info!(run, ?status, said, "a run came to no answer");
                let partial: String = self.voice.partial().chars().take(PARTIAL_CHARS_MAX).collect();
                let (provider, model) = (sum.provider.clone(), sum.model.clone());
                let at = self.shared.options.clock.now();
                let steps = (!partial.is_empty()).then(|| Step::Partial { text: partial.clone(), provider, model, at });
                let stop = if status == Status::Aborted { "rpc" } else { "error" };
                let wrong = Wrong { said, kind, transient };
                let steps: Vec<Step> = steps.into_iter().collect();
                let mut further = Further::default();
                noted = options.dialogues.at_end(&turn, &steps, &mut further);
                turn.end_with(steps, status, partial, Some(wrong), stop, sum, &further).await
            }
        };
        match ended {
            Ok(ended) => {
                // Only now: what is taken up is on record.
                left.into_iter().for_each(|left| options.humans.ended(left));
                options.dialogues.ended(noted);
                self.voice.end(&ended);
            }
            Err(error) => {
                // It goes on after the next start, from the last step that was recorded.
                tracing::error!(
                    run,
                    error = &error as &dyn std::error::Error,
                    "the end of a run could not be recorded"
                );
            }
        }
    }

    async fn go(&mut self, agent: Option<&Agent>, turn: &mut Turn, limits: RunLimits) -> Result<Finished, Failed> {
        let Some(agent) = agent else {
            return Err(sessions::Error::UnknownAgent(turn.session().agent.to_string()).into());
        };
        if turn.is_hopeless() {
            let said =
                format!("interrupted: {} starts of the gateway found it unfinished; it is given up", turn.resumed());
            return Err(Failed { status: Status::Error, said, kind: None, transient: false });
        }
        let wanted = turn.message().model.clone();
        let of_session = self.shared.options.sessions.get(turn.session()).and_then(|session| session.model.clone());
        let chosen = models::choose(&self.settings.config, agent, wanted.or(of_session).as_ref())?;
        let system = self.shared.system(&self.settings.config, agent, turn).await;
        let toolbox = prompt::toolbox(agent);
        let mut interrupted = !turn.steps.is_empty();
        let mut model = chosen[0].clone();
        let mut room = prompt::room_for_talk(&model.model, &system, &toolbox.shown);
        // After a restart: what it has used before.
        self.sum = Sum::of(&turn.steps);
        if turn.message().method == sessions::COMPACT {
            self.voice.start(turn.started_at);
            self.check_limits(agent, limits)?;
            return self.compact(agent, turn, &model, room).await;
        }
        if !interrupted && !turn.is_shown() {
            self.compact_if_full(agent, turn, &model, room).await?;
        }
        turn.show().await;
        self.voice.start(turn.started_at);
        let mut about = self.about(agent, turn);
        loop {
            if let Some(reply) = finished(&turn.steps) {
                return Ok(Finished { steps: Vec::new(), reply, stop: Stop::End });
            }
            self.shared.make_calls(agent, turn, &mut self.voice, &mut self.place, interrupted).await?;
            interrupted = false;
            self.check_limits(agent, limits)?;
            let rows = turn.context(room.saturating_mul(2)).await?;
            // Each model has a window of its own.
            let request = |asked: &Chosen| {
                let room = match asked.is(&model) {
                    true => room,
                    false => prompt::room_for_talk(&asked.model, &system, &toolbox.shown),
                };
                Some(Request {
                    model: asked.model.id.clone(),
                    system: system.clone(),
                    turns: sessions::fit(&rows, room)?,
                    tools: toolbox.shown.clone(),
                    max_tokens: asked.model.max_tokens,
                })
            };
            let question = format!("{}:{}", turn.id(), self.sum.answers);
            let (answer, by) =
                self.ask(Asker { agent: agent.id.as_ref(), key: &question }, &chosen, &model, request).await?;
            Self::check_size(&answer)?;
            if !by.is(&model) {
                room = prompt::room_for_talk(&by.model, &system, &toolbox.shown);
                model = by;
            }
            let at = self.shared.options.clock.now();
            let calls = answer.calls.clone();
            let (reply, stop) = (answer.text.clone(), answer.stop);
            let (provider, model) = (self.sum.provider.clone(), self.sum.model.clone());
            let answered = Step::Answered { answer, provider, model, at, asked: None };
            let begins = about.take();
            let Some(first) = calls.first() else {
                return Ok(Finished { steps: begins.into_iter().chain([answered]).collect(), reply, stop });
            };
            let intent = Step::Intent { call_id: first.id.clone(), at };
            turn.record(begins.into_iter().chain([answered, intent]).collect()).await?;
        }
    }

    /// Which tasks a run works for when it begins; recorded with its first answer.
    fn about(&self, agent: &Agent, turn: &Turn) -> Option<Step> {
        let is_known = turn.steps.iter().any(|step| matches!(step, Step::About { .. }));
        let task_ids = self.shared.options.dialogues.about(&agent.id, turn.message());
        let at = self.shared.options.clock.now();
        (!is_known && !task_ids.is_empty()).then_some(Step::About { task_ids, at })
    }

    /// Asks the model, then those to fall back to; one whose window is too narrow is passed over.
    async fn ask(
        &mut self,
        asker: Asker<'_>,
        chosen: &[Chosen],
        current: &Chosen,
        request: impl Fn(&Chosen) -> Option<Request>,
    ) -> Result<(Answer, Chosen), Failed> {
        let first = chosen.iter().position(|model| model.is(current));
        let mut last = None;
        for model in &chosen[first.unwrap_or(0)..] {
            let Some(request) = request(model) else {
                last.get_or_insert_with(|| {
                    let said = "this run alone no longer fits into the model's window; ask for less at once";
                    Failure::new(FailureKind::ContextLength, said)
                });
                continue;
            };
            self.voice.model(&model.provider_name, &model.model.id);
            self.sum.provider.clone_from(&model.provider_name);
            self.sum.model.clone_from(&model.model.id);
            let voice = &mut self.voice;
            let mut hear = |heard: Heard| match heard {
                Heard::Delta(Delta::Text(piece)) => voice.piece(&piece),
                Heard::Delta(Delta::CallBegun { .. }) => {}
                Heard::Again => voice.again(),
            };
            match self.shared.options.models.ask(model, asker, &request, &mut hear).await {
                Ok(answer) => {
                    self.sum.count(&answer);
                    // Not every provider counts, and compaction relies on it.
                    self.sum.weight = request.estimate_tokens() as u64 + answer.usage.output;
                    self.voice.answered(answer.usage.output);
                    return Ok((answer, model.clone()));
                }
                Err(failure) => {
                    tracing::warn!(agent = asker.agent, provider = model.provider_name, model = model.model.id, %failure, "a model did not answer");
                    last = Some(failure);
                }
            }
        }
        Err(last.map_or_else(|| Failed::limit("there is no model to ask".into()), Failed::from))
    }

    /// An answer must fit into the journal, twice: as a step and as the run's reply.
    fn check_size(answer: &Answer) -> Result<(), Failed> {
        let calls: usize =
            answer.calls.iter().map(|call| serde_json::to_string(call).map_or(0, |text| text.len())).sum();
        if answer.text.len() + calls <= ANSWER_BYTES_MAX {
            return Ok(());
        }
        let said = format!("the model answered with more than {ANSWER_BYTES_MAX} bytes, which is more than is kept");
        Err(Failed { status: Status::Error, said, kind: Some("too_large".into()), transient: false })
    }

    fn check_limits(&self, agent: &Agent, limits: RunLimits) -> Result<(), Failed> {
        let usage = &self.sum.usage;
        let tokens = usage.input + usage.output + usage.cache_read + usage.cache_write;
        if self.sum.answers >= limits.steps {
            return Err(Failed::limit(format!(
                "the run took {} steps, which is as many as may (`limits.steps`)",
                limits.steps
            )));
        }
        if tokens >= limits.tokens {
            return Err(Failed::limit(format!("the run used {tokens} tokens of {} (`limits.tokens`)", limits.tokens)));
        }
        let today = self.shared.options.sessions.used_today(&agent.id) + tokens;
        if today >= limits.tokens_per_day {
            let said =
                format!("{} used {today} tokens today of {} (`limits.tokensPerDay`)", agent.id, limits.tokens_per_day);
            return Err(Failed::limit(said));
        }
        Ok(())
    }
}

/// The reply of a run whose last answer is on record and asks for nothing more: only its end is missing.
fn finished(steps: &[Step]) -> Option<String> {
    match steps.last() {
        Some(Step::Answered { answer, .. }) if answer.calls.is_empty() => Some(answer.text.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::calls;
    use super::*;
    use crate::clock::Timestamp;

    #[test]
    fn calls_are_open_until_they_have_a_result() {
        let call =
            |id: &str| chela_model::ToolCall { id: id.into(), name: "t".into(), arguments: serde_json::Map::new() };
        let answer = Answer {
            text: String::new(),
            calls: vec![call("a"), call("b")],
            stop: Stop::ToolCalls,
            usage: chela_model::Usage::default(),
        };
        let at = Timestamp(1);
        let mut steps = vec![
            Step::Answered { answer, provider: "p".into(), model: "m".into(), at, asked: None },
            Step::Intent { call_id: "a".into(), at },
        ];
        let ids = |steps: &[Step]| calls::open(steps).0.iter().map(|call| call.id.clone()).collect::<Vec<_>>();
        assert_eq!((ids(&steps), calls::open(&steps).1), (vec!["a".into(), "b".into()], true));
        steps.push(Step::Result { call_id: "a".into(), tool: "t".into(), text: String::new(), is_error: false, at });
        assert_eq!((ids(&steps), calls::open(&steps).1), (vec!["b".to_owned()], false));
        steps.push(Step::Result { call_id: "b".into(), tool: "t".into(), text: String::new(), is_error: false, at });
        assert!(ids(&steps).is_empty());
        assert!(finished(&steps).is_none());
    }
}
