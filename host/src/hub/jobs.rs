//! Jobs between agents, a page at a time, and one of them with its turns.

use chela_flow::{Delivery, Job, Status};
use chela_page::caps::JOBS;
use chela_page::{JobCard, JobDetail, Jobs, JobsFilter, TurnRow, title_of};

use super::overview::job_row;
use super::words::readable;
use super::{Error, Handle, face, faces};
use crate::config::Config;
use crate::jobs::Asked;
use crate::session_key::SessionKey;

const TURNS: usize = 20;

impl Handle {
    pub async fn jobs(&self, filter: JobsFilter) -> Result<Jobs, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let asked = Asked {
            status: filter.status.as_deref().and_then(Status::parse).into_iter().collect(),
            agent: filter.agent.clone(),
            work_session: filter.session.clone(),
            limit: JOBS,
            cursor: filter.cursor.clone(),
        };
        let listed = match self.0.jobs.list(asked.clone()).await {
            // An address that somebody has changed: the first page is as good.
            Err(crate::jobs::Error::BadCursor) => self.0.jobs.list(Asked { cursor: None, ..asked }).await?,
            listed => listed?,
        };
        let counts = self.0.jobs.counts_of(filter.agent.as_deref(), filter.session.as_deref()).into_iter();
        let counts = counts.map(|(status, count)| (status.as_str().to_owned(), count));
        Ok(Jobs {
            filter,
            agents: faces(config),
            counts: counts.collect(),
            jobs: listed.jobs.iter().map(|job| card(config, job)).collect(),
            next: listed.next,
        })
    }

    pub async fn job(&self, id: &str, before: Option<&str>) -> Result<JobDetail, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let found = self.0.jobs.get(id).await?.ok_or_else(|| Error::unknown("job", id))?;
        Ok(JobDetail {
            card: card(config, &found),
            message: readable(&found.message).0,
            turns: found.turns.iter().take(TURNS).map(|turn| turn_row(config, turn)).collect(),
            turns_left: found.turns.len().saturating_sub(TURNS),
            why: self.why(Some(format!("job:{id}")), None, before).await?,
        })
    }
}

fn card(config: &Config, job: &Job) -> JobCard {
    let is_over = !matches!(job.status, Status::Pending | Status::Running);
    JobCard {
        row: job_row(config, job),
        turns_max: job.max_turns,
        tries: job.retry_count,
        tries_max: job.max_retries,
        resumed: job.resume_count,
        phase: word_of(&job.phase),
        made: job.created_at,
        next_try: job.next_try_at.filter(|_| !is_over),
        label: job.label.clone().unwrap_or_else(|| title_of(&readable(&job.message).0)),
        task: job.task_id.clone(),
        retry_of: job.retry_of.clone(),
        may_cancel: !is_over,
        may_retry: matches!(job.status, Status::Failed | Status::Abandoned | Status::Cancelled),
    }
}

/// A word as records have it.
fn word_of(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
}

fn turn_row(config: &Config, turn: &Delivery) -> TurnRow {
    let known = SessionKey::parse(&turn.session_key).ok();
    TurnRow {
        turn: turn.turn,
        who: face(config, known.as_ref().map_or(&turn.session_key, |key| key.agent.as_ref())),
        state: word_of(&turn.state),
        at: turn.answered_at.or(turn.failed_at).or(turn.delivered_at).or(turn.stored_at),
        reply: turn.reply.as_deref().map(|text| readable(text).0).unwrap_or_default(),
        error: turn.error.clone().unwrap_or_default(),
        tries: turn.attempts.len(),
    }
}
