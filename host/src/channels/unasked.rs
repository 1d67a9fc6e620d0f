//! Runs that no message of a place began: what people there are to hear of them all the same. In the session of the place that is what an agent
//! says to the result of a sub-agent, and whatever it asks of people. In a session without a place it is what an orchestrator asks on the way
//! of something that began there.

use std::sync::Arc;

use chela_flow::{Kind, Place};
use chela_question::{Phase, Question};

use super::Shared;
use super::replies::{is_known, target_of};
use super::store::{self, Reply};
use crate::config::AgentRole;
use crate::journal::Transaction;
use crate::session_key::SessionKey;
use crate::sessions::{OriginKind, place_of};

/// A run begins. Where it is to be heard, its reply is on record from now on.
pub(super) async fn expect(shared: &Shared, session: &SessionKey, run: &str, by: OriginKind) {
    let has_people = session.channel().is_some() || session.peer().is_some();
    if !has_people && !may_ask(shared, session, run) || shared.state().replies.contains_key(run) {
        return;
    }
    let Some(reply) = reply_of(shared, session, run, by).await else { return };
    let mut transaction = Transaction::default();
    let put = store::put_reply(&mut transaction, &reply);
    // In memory first: the run may end before the record is there.
    shared.state().replies.insert(run.to_owned(), reply);
    let kept = match put {
        Ok(()) => shared.options.journal.commit_async(transaction).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = kept {
        tracing::warn!(run, error = &error as &dyn std::error::Error, "after a crash its reply would not be told");
    }
}

async fn reply_of(shared: &Shared, session: &SessionKey, run: &str, by: OriginKind) -> Option<Reply> {
    let (chain, part) = shared.options.sessions.cause_of(run).await.ok()??;
    let channel = chain.place.as_ref().filter(|place| is_direct_to(place, session)).map(|place| &*place.channel);
    let here = place_of(session, channel).filter(|place| is_known(shared, &place.channel));
    let is_here = here.is_some();
    let place = here.or_else(|| chain.place.clone().filter(|place| is_known(shared, &place.channel)))?;
    let job = match (by, part.and_then(|part| part.job_id)) {
        (OriginKind::InterSession, Some(job)) => shared.options.jobs.get(&job).await.ok().flatten(),
        _ => None,
    };
    let is_result = is_here && job.is_some_and(|job| job.kind == Kind::Spawn && job.session_key == session.to_string());
    if !is_result && !may_ask(shared, session, run) {
        return None;
    }
    Some(Reply {
        run: run.to_owned(),
        session: session.to_string(),
        target: target_of(&place),
        channel: place.channel,
        reply_to: String::new(),
        only_questions: !is_result,
    })
}

/// Whether a place is the one that a session of direct messages is about.
fn is_direct_to(place: &Place, session: &SessionKey) -> bool {
    place.place.strip_prefix("direct:").is_some_and(|peer| session.peer() == Some(peer))
}

/// Whether questions of this run are to be shown. What an answer leads to is told with the question that it answers.
fn may_ask(shared: &Shared, session: &SessionKey, run: &str) -> bool {
    let settings = shared.options.settings.current();
    let agent = settings.config.agents.list.iter().find(|agent| agent.id == session.agent);
    agent.is_some_and(|agent| agent.role == AgentRole::Orchestrator) && answered_by(shared, run).is_none()
}

/// Whether a run is to begin with an answer that has not reached its session yet.
pub(super) fn is_to_come(shared: &Shared, run: &str) -> bool {
    answered_by(shared, run).is_some_and(|question| question.phase == Phase::Resuming)
}

/// The question whose answer a run begins with.
fn answered_by(shared: &Shared, run: &str) -> Option<Arc<Question>> {
    let (question, _) = run.rsplit_once(":answer-")?;
    shared.options.humans.get(question).ok()
}
