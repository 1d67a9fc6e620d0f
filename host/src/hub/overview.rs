//! The overview: one look at every open task, and the first few of everything else.

use std::collections::HashMap;
use std::sync::Arc;

use chela_flow::Job;
use chela_page::{AgentCard, AgentState, Column, Day, Indexed, JobRow, Lang, Overview, Spread, Steps, TeamTotal};
use chela_question::State;
use serde_json::Value;

use super::{Error, Handle, face};
use crate::clock::Timestamp;
use crate::config::{Agent, Config};
use crate::humans;
use crate::id::AgentId;
use crate::session_key::SessionKey;
use crate::sessions::Occupied;
use crate::tasks::View;

const DAYS: u32 = 14;
const DAY_MS: u64 = 86_400_000;
const QUESTIONS: usize = 10;
const JOBS: usize = 5;

/// What an agent's tasks come to.
#[derive(Default)]
pub(super) struct Standing {
    /// The one in progress with the latest activity.
    pub(super) active: Option<Arc<View>>,
    /// One that is blocked: the one that waits for a person, else that of the latest activity.
    pub(super) blocked: Option<Arc<View>>,
    pub(super) waits: bool,
    pub(super) steps: Steps,
}

impl Handle {
    pub async fn overview(&self) -> Result<Overview, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let (standings, open) = self.standings(None);
        let occupied = self.0.sessions.occupied();
        let agents: Vec<AgentCard> =
            config.agents.list.iter().map(|agent| self.agent_card(config, agent, &standings, &occupied)).collect();
        let asked = humans::Asked { states: vec![State::Requested], limit: QUESTIONS, ..humans::Asked::default() };
        let (questions, more_questions) = self.questions_of(config, asked).await?;
        let (lost, failed_jobs) = self.0.jobs.lost(JOBS);
        let mut jobs = Vec::new();
        for id in lost {
            jobs.extend(self.0.jobs.get(&id).await?.map(|job| job_row(config, &job)));
        }
        let (activity, spread) = self.activity(config).await?;
        Ok(Overview {
            teams: team_totals(config, &agents, &standings),
            agents,
            questions,
            more_questions,
            jobs,
            failed_jobs,
            open,
            activity,
            spread,
        })
    }

    /// What the tasks of every agent, or of one, come to, and how many there are in each open column.
    pub(super) fn standings(&self, only: Option<&AgentId>) -> (HashMap<AgentId, Standing>, [usize; 4]) {
        let mut standings: HashMap<AgentId, Standing> = HashMap::new();
        let placed = self.0.tasks.board::<4>(0, 0, |view| {
            if only.is_some_and(|only| *only != view.agent) {
                return None;
            }
            let column = Column::of(view.task.status.as_str());
            let standing = standings.entry(view.agent.clone()).or_default();
            if let Some(steps) = view.task.steps_progress() {
                standing.steps.done += steps.done + steps.skipped;
                standing.steps.total += steps.total;
            }
            match column {
                Column::InProgress => {
                    let latest = standing.active.as_ref().map(|active| &active.task.last_activity);
                    if latest.is_none_or(|latest| *latest < view.task.last_activity) {
                        standing.active = Some(view.clone());
                    }
                }
                Column::Blocked => {
                    if standing.blocked.as_ref().is_none_or(|known| urgency(known) < urgency(view)) {
                        standing.blocked = Some(view.clone());
                    }
                    standing.waits |= waits_for_person(view);
                }
                _ => {}
            }
            Column::ALL.iter().position(|one| *one == column).filter(|at| *at < 4)
        });
        (standings, placed.map(|one| one.total))
    }

    pub(super) fn agent_card(
        &self,
        config: &Config,
        agent: &Agent,
        standings: &HashMap<AgentId, Standing>,
        occupied: &HashMap<AgentId, Occupied>,
    ) -> AgentCard {
        let (standing, occupied) = (standings.get(&agent.id), occupied.get(&agent.id));
        let runs = occupied.is_some_and(|occupied| occupied.running > 0);
        let queue = occupied.map_or(0, |occupied| occupied.waiting);
        let active = standing.and_then(|standing| standing.active.as_ref());
        let state = match standing {
            _ if runs => AgentState::Working,
            Some(standing) if standing.waits && active.is_none() => AgentState::WaitsForPerson,
            _ if queue > 0 => AgentState::Queued,
            Some(standing) if standing.blocked.is_some() && active.is_none() => AgentState::Blocked,
            _ if self.0.continuation.is_stopped(&agent.id) => AgentState::Stopped,
            _ => AgentState::Idle,
        };
        // Whoever stands still is shown with what keeps it from going on.
        let shown = active.or_else(|| standing?.blocked.as_ref());
        let team = agent.team.as_ref().and_then(|team| config.teams.iter().find(|known| known.id == *team));
        AgentCard {
            face: face(config, agent.id.as_ref()),
            role: agent.role.as_str().into(),
            team: team.map(|team| team.name.clone().unwrap_or_else(|| team.id.clone())),
            state,
            queue,
            task: shown.map(|view| self.task_card(config, view)),
        }
    }

    /// What happened on each day, and what the work was about.
    async fn activity(&self, config: &Config) -> Result<(Indexed<Vec<Day>>, Vec<Spread>), Error> {
        let stats = match self.0.monitor.stats(DAYS).await.map_err(Error::from) {
            Err(Error::Indexing { percent }) => return Ok((Indexed::Indexing(percent), Vec::new())),
            stats => stats?,
        };
        let now = self.0.clock.now().0;
        let days: Vec<String> = (0..DAYS)
            .rev()
            .map(|back| Timestamp(now.saturating_sub(u64::from(back) * DAY_MS)).date().to_string())
            .collect();
        let row = |day: &str| stats["days"].as_array().into_iter().flatten().find(|row| row["day"] == *day);
        let events = |day: &String| Day {
            events: row(day).and_then(|row| row["events"].as_u64()).unwrap_or(0),
            day: day.clone(),
        };
        let (before, week) = days.split_at(days.len() / 2);
        let counted = |days: &[String], key: &str| -> u64 {
            days.iter().filter_map(|day| row(day)?["categories"][key].as_u64()).sum()
        };
        let all = |days: &[String]| -> u64 { days.iter().filter_map(|day| row(day)?["workSessions"].as_u64()).sum() };
        let spread = spread_of(config, (all(before), all(week)), |key| (counted(before, key), counted(week, key)));
        Ok((Indexed::Ready(days.iter().map(events).collect()), spread))
    }

    /// How many work sessions each category has, and all of them, of the last month.
    pub(super) async fn category_counts(&self) -> Result<Value, Error> {
        Ok(self.0.monitor.stats(30).await?["total"].take())
    }
}

fn waits_for_person(view: &View) -> bool {
    view.task.blocked.as_ref().is_some_and(|blocked| blocked.kind == "input")
}

/// Which of two blocked tasks is to be seen first.
fn urgency(view: &View) -> (bool, &str) {
    (waits_for_person(view), &view.task.last_activity)
}

/// How much each category has of the last week and of the one before, the most first.
/// What has no category has its share too.
fn spread_of(config: &Config, all: (u64, u64), counted: impl Fn(&str) -> (u64, u64)) -> Vec<Spread> {
    let counts: Vec<(u64, u64)> = config.categories.iter().map(|category| counted(&category.key)).collect();
    let known = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let (all_before, all) = (all.0.max(known.0), all.1.max(known.1));
    let share = |part: u64, of: u64| (part * 1_000).checked_div(of).unwrap_or(0);
    let row = |ko: &str, en: &str, (before, sessions): (u64, u64)| Spread {
        ko: ko.to_owned(),
        en: en.to_owned(),
        sessions,
        share: share(sessions, all),
        share_before: share(before, all_before),
    };
    let none =
        row(Lang::Ko.words().uncategorised, Lang::En.words().uncategorised, (all_before - known.0, all - known.1));
    let rows = config.categories.iter().zip(counts).map(|(category, count)| row(&category.ko, &category.en, count));
    let mut rows: Vec<Spread> = rows.chain([none]).filter(|row| row.sessions > 0 || row.share_before > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.sessions));
    rows
}

fn team_totals(config: &Config, agents: &[AgentCard], standings: &HashMap<AgentId, Standing>) -> Vec<TeamTotal> {
    let totals = config.teams.iter().map(|team| {
        let members: Vec<&Agent> =
            config.agents.list.iter().filter(|agent| agent.team.as_ref() == Some(&team.id)).collect();
        let is_working = |agent: &&&Agent| {
            agents.iter().any(|card| card.face.id == agent.id.as_ref() && card.state == AgentState::Working)
        };
        let mut steps = Steps::default();
        for standing in members.iter().filter_map(|agent| standings.get(&agent.id)) {
            steps.done += standing.steps.done;
            steps.total += standing.steps.total;
        }
        TeamTotal {
            name: team.name.clone().unwrap_or_else(|| team.id.clone()),
            colour: team.colour.clone(),
            agents: members.len(),
            working: members.iter().filter(is_working).count(),
            steps,
        }
    });
    totals.filter(|team| team.agents > 0).collect()
}

pub(super) fn job_row(config: &Config, job: &Job) -> JobRow {
    let of = |key: &str| {
        let known = SessionKey::parse(key).ok();
        face(config, known.as_ref().map_or(key, |key| key.agent.as_ref()))
    };
    JobRow {
        id: job.job_id.clone(),
        from: of(&job.session_key),
        to: of(&job.target_session_key),
        status: job.status.as_str().into(),
        turn: job.current_turn,
        error: job.last_error.clone(),
        at: job.updated_at,
        work_session: job.work_session_id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_told_by_their_share_and_by_how_it_moved() {
        let config = Config::default();
        let (first, second) = (config.categories[0].key.clone(), config.categories[1].key.clone());
        let rows = spread_of(&config, (10, 4), |key| match key {
            key if key == first => (5, 1),
            key if key == second => (5, 3),
            _ => (0, 0),
        });
        let told: Vec<(u64, u64, u64)> = rows.iter().map(|row| (row.sessions, row.share, row.share_before)).collect();
        assert_eq!(told, [(3, 750, 500), (1, 250, 500)]);
        assert!(spread_of(&config, (0, 0), |_| (0, 0)).is_empty());
        let rows = spread_of(&config, (0, 10), |key| if key == first { (0, 2) } else { (0, 0) });
        let told: Vec<(&str, u64, u64)> = rows.iter().map(|row| (row.ko.as_str(), row.sessions, row.share)).collect();
        assert_eq!(told, [("미분류", 8, 800), (config.categories[0].ko.as_str(), 2, 200)]);
    }
}
