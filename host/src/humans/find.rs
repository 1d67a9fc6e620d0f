//! Which question is meant, and lists of them.

use std::ops::Bound;
use std::sync::Arc;

use chela_question::{Question, State as Stands};

use super::store::Inbox;
use super::{Error, Handle};
use crate::id::AgentId;

/// Questions that one list may pass over.
const SCANNED_MAX: usize = 100_000;
/// Ids that an error names.
const NAMED_MAX: usize = 10;

/// What tells a question from others; each that is given must fit.
#[derive(Clone, Debug, Default)]
pub struct Which {
    pub id: Option<String>,
    pub run: Option<String>,
    pub task: Option<String>,
}

/// Which questions are wanted.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Empty: all.
    pub states: Vec<Stands>,
    pub run: Option<String>,
    /// Who asked, or whose task waits.
    pub agent: Option<String>,
    pub task: Option<String>,
    pub limit: usize,
    /// Where the page before ended.
    pub cursor: Option<String>,
}

/// Questions, the newest first.
#[derive(Clone, Debug)]
pub struct Listed {
    pub questions: Vec<Arc<Question>>,
    pub next: Option<String>,
}

impl Handle {
    /// A question by its id, or by the id of something that was added to it.
    pub fn get(&self, id: &str) -> Result<Arc<Question>, Error> {
        self.0.state().named(id).ok_or_else(|| Error::Unknown(short(id)))
    }

    /// How many questions of an agent are open that hold up no task, those among them that are about to be asked.
    pub fn open_without_task(&self, agent: &AgentId) -> u32 {
        let state = self.0.state();
        let own = |question: &&Arc<Question>| question.task_id.is_none() && question.agent_id == agent.as_ref();
        let asks = |left: &&Inbox| matches!(left, Inbox::Ask(ask) if ask.agent_id == agent.as_ref());
        let count = state.open().filter(own).count() + state.inbox.iter().filter(asks).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub async fn list(&self, asked: Asked) -> Result<Listed, Error> {
        let before = asked.cursor.as_deref().map(|cursor| place_of(cursor).ok_or(Error::BadCursor)).transpose()?;
        let work_session = self.work_session_of(asked.run.as_deref()).await?;
        let state = self.0.state();
        let fits = |question: &Question| {
            let is_agent =
                |agent: &String| question.agent_id == *agent || question.task_agent_id.as_ref() == Some(agent);
            (asked.states.is_empty() || asked.states.contains(&question.state))
                && asked.agent.as_ref().is_none_or(is_agent)
                && (asked.task.is_none() || question.task_id == asked.task)
                && asked.run.as_deref().is_none_or(|run| is_of(question, run, work_session.as_deref()))
        };
        let end = before.map_or(Bound::Unbounded, Bound::Excluded);
        let (mut questions, mut next) = (Vec::new(), None);
        for (_, question) in state.all.range((Bound::Unbounded, end)).rev().take(SCANNED_MAX) {
            if !fits(question) {
                continue;
            }
            if questions.len() == asked.limit {
                next = questions.last().map(|last: &Arc<Question>| format!("{}:{}", last.created_at, last.id));
                break;
            }
            questions.push(question.clone());
        }
        Ok(Listed { questions, next })
    }

    /// The question that is meant: by its id, else the open one of a task or a run.
    pub(super) async fn which(&self, which: &Which) -> Result<Arc<Question>, Error> {
        let work_session = self.work_session_of(which.run.as_deref()).await?;
        let of_run =
            |question: &Question| which.run.as_deref().is_none_or(|run| is_of(question, run, work_session.as_deref()));
        if let Some(id) = &which.id {
            let found = self.get(id)?;
            let other = |what, given: &str| Error::Other { id: found.id.clone(), what, given: short(given) };
            if let Some(task) = which.task.as_ref().filter(|task| found.task_id.as_ref() != Some(*task)) {
                return Err(other("task", task));
            }
            return match &which.run {
                Some(run) if !of_run(&found) => Err(other("run", run)),
                _ => Ok(found),
            };
        }
        if which.run.is_none() && which.task.is_none() {
            return Err(Error::Which);
        }
        let fits =
            |question: &&Arc<Question>| (which.task.is_none() || question.task_id == which.task) && of_run(question);
        let state = self.0.state();
        let open: Vec<Arc<Question>> = state.open().filter(fits).cloned().collect();
        match open.as_slice() {
            [one] => Ok(one.clone()),
            [] => match state.all.values().rev().find(fits) {
                // Told below that it is over, and by whom it was answered.
                Some(last) => Ok(last.clone()),
                None => Err(Error::NoneOpen(none_open(which))),
            },
            several => {
                let ids: Vec<&str> = several.iter().take(NAMED_MAX).map(|question| &*question.id).collect();
                Err(Error::Several(ids.join(", ")))
            }
        }
    }

    /// The work session of a run, which narrows what is meant.
    async fn work_session_of(&self, run: Option<&str>) -> Result<Option<String>, Error> {
        match run {
            Some(run) => Ok(self.0.options.sessions.part_of(run).await?.map(|part| part.work_session_id)),
            None => Ok(None),
        }
    }
}

/// Whether a question is of a run: asked in it, or of the work session that it is a part of.
fn is_of(question: &Question, run: &str, work_session: Option<&str>) -> bool {
    let same_work = work_session.is_some() && question.work_session_id.as_deref() == work_session;
    question.is_of_run(run) || same_work
}

fn none_open(which: &Which) -> String {
    let named = [("task", &which.task), ("run", &which.run)];
    let named: Vec<String> =
        named.into_iter().filter_map(|(what, id)| Some(format!("{what} {}", short(id.as_deref()?)))).collect();
    format!("{} has asked nothing", named.join(" of "))
}

fn place_of(cursor: &str) -> Option<(u64, String)> {
    let (at, id) = cursor.split_once(':')?;
    Some((at.parse().ok()?, id.to_owned()))
}

fn short(id: &str) -> String {
    id.chars().take(80).collect()
}
