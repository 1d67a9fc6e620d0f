//! The board and one task. Open tasks come from memory; those that are over from the log, a page at a time.

use chela_page::caps::{PROGRESS_LINES, STEPS, TITLES};
use chela_page::{
    Blocker, BoardColumn, Bubble, Column, EventRow, Face, Indexed, Side, StepRow, Steps, TaskCard, TaskDetail, TaskTab,
    Tasks, TasksFilter, encode, iso, title_of,
};
use chela_question::State;
use chela_taskfile::is_good_id;
use serde_json::Value;

use super::words::{fill, joined};
use super::{BUBBLES, COLUMN_CARDS, Error, Handle, SINGLE_CARDS, face, faces};
use crate::config::Config;
use crate::monitor::{EventsQuery, seq_of_cursor};
use crate::tasks::View;
use crate::{dialogues, humans};

const EVENTS: usize = 50;
/// Pages of the log that are looked through for finished tasks that fit a filter.
const PAGES_MAX: usize = 4;

/// Which part of a long task is asked for: steps from one on, and lines of progress before one.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskAsked {
    pub steps: Option<usize>,
    pub before: Option<usize>,
}

impl Handle {
    pub async fn tasks(&self, filter: TasksFilter) -> Result<Tasks, Error> {
        let settings = self.0.settings.current();
        let config = &settings.config;
        let text = filter.text.as_ref().map(|text| text.to_lowercase());
        let fits = |agent: &str, priority: &str, title: &str| {
            filter.agent.as_deref().is_none_or(|wanted| wanted == agent)
                && filter.priority.as_deref().is_none_or(|wanted| wanted == priority)
                && text.as_ref().is_none_or(|text| title.to_lowercase().contains(text.as_str()))
        };
        let single = filter.column.is_some();
        let (from, limit) = if single { (filter.from, SINGLE_CARDS) } else { (0, COLUMN_CARDS) };
        let placed = self.0.tasks.board::<4>(from, limit, |view| {
            let task = &view.task;
            let at = Column::ALL.iter().position(|column| *column == Column::of(task.status.as_str()))?;
            let wanted = filter.column.is_none_or(|column| column == Column::ALL[at.min(5)]);
            (at < 4 && wanted && fits(view.agent.as_ref(), task.priority.as_str(), &task.description)).then_some(at)
        });
        let rest = |column: Column| rest_of(&filter, column);
        let mut columns: Vec<BoardColumn> = Column::ALL
            .into_iter()
            .zip(placed)
            .map(|(column, placed)| BoardColumn {
                column,
                next: (placed.total > from + limit)
                    .then(|| format!("{}&from={}", rest(column), if single { from + limit } else { 0 })),
                cards: placed.views.iter().map(|view| self.task_card(config, view)).collect(),
                total: Some(placed.total),
            })
            .collect();
        let mut indexing = None;
        for column in [Column::Completed, Column::Closed] {
            if filter.column.is_some_and(|wanted| wanted != column) {
                continue;
            }
            let cursor = filter.cursor.as_deref().filter(|_| single).and_then(seq_of_cursor);
            match self.ended(config, column, cursor, limit, &fits).await {
                Err(Error::Indexing { percent }) => indexing = Some(percent),
                found => {
                    let (cards, next) = found?;
                    let next = next.map(|next| match single {
                        true => format!("{}&cursor={}", rest(column), encode(&next)),
                        false => rest(column),
                    });
                    columns.push(BoardColumn { column, cards, total: None, next });
                }
            }
        }
        columns.retain(|one| filter.column.is_none_or(|column| column == one.column));
        Ok(Tasks { filter, agents: faces(config), columns, indexing })
    }

    /// Tasks that are over, the latest first.
    async fn ended(
        &self,
        config: &Config,
        column: Column,
        mut before: Option<i64>,
        limit: usize,
        fits: &(dyn Fn(&str, &str, &str) -> bool + Sync),
    ) -> Result<(Vec<TaskCard>, Option<String>), Error> {
        let types: &[&str] = match column {
            Column::Completed => &["task.completed"],
            _ => &["task.cancelled", "task.failed", "task.abandoned"],
        };
        let types: Vec<String> = types.iter().map(|kind| (*kind).to_owned()).collect();
        let mut cards = Vec::new();
        for _ in 0..PAGES_MAX {
            let asked =
                EventsQuery { types: types.clone(), before, limit: limit - cards.len(), ..EventsQuery::default() };
            let page = self.0.monitor.events(asked).await?;
            let of_event = |event: &Value| ended_card(config, event);
            cards.extend(
                page.rows.iter().filter_map(of_event).filter(|card| fits(&card.agent.id, &card.priority, &card.title)),
            );
            before = page.next.as_deref().and_then(seq_of_cursor);
            if before.is_none() || cards.len() >= limit {
                return Ok((cards, page.next));
            }
        }
        Ok((cards, before.map(|seq| format!("{}:{}", seq >> 32, seq & 0xffff_ffff))))
    }

    pub(super) fn task_card(&self, config: &Config, view: &View) -> TaskCard {
        let task = &view.task;
        let blocked = task.blocked.as_ref();
        TaskCard {
            id: view.id.clone(),
            title: title_of(&task.description),
            status: task.status.to_string(),
            priority: task.priority.to_string(),
            agent: face(config, view.agent.as_ref()),
            steps: task.steps_progress().map(|steps| Steps { done: steps.done + steps.skipped, total: steps.total }),
            step: task.current_step().map(|step| format!("({}) {}", step.id, step.content)),
            blocked: blocked.map(|blocked| blocked.reason.clone()),
            question: blocked.filter(|blocked| blocked.kind == "input").map(|blocked| blocked.reason.clone()),
            activity: task.last_activity.clone(),
        }
    }

    /// A task by its id, also one that is over.
    async fn found(&self, id: &str) -> Result<View, Error> {
        let unknown = || Error::unknown("task", id);
        if !is_good_id(id) {
            return Err(unknown());
        }
        let (tasks, name) = (self.0.tasks.clone(), id.to_owned());
        let found = tokio::task::spawn_blocking(move || tasks.find(&name)).await.map_err(|_| Error::Files)?;
        found.ok_or_else(unknown)
    }

    pub async fn task(&self, id: &str, part: TaskAsked) -> Result<TaskDetail, Error> {
        let view = self.found(id).await?;
        let settings = self.0.settings.current();
        let config = &settings.config;
        let asked = humans::Asked {
            states: vec![State::Requested],
            task: Some(id.to_owned()),
            limit: 1,
            ..humans::Asked::default()
        };
        let (questions, _) = self.questions_of(config, asked).await?;
        let task = &view.task;
        let mut depends_on = Vec::new();
        for first in task.depends_on.iter().take(TITLES) {
            let title = match self.title_of_task(first).await {
                Err(Error::Indexing { .. }) => None,
                title => title?,
            };
            depends_on.push((first.clone(), title.unwrap_or_default()));
        }
        let progress_end = part.before.unwrap_or(usize::MAX).min(task.progress.len());
        let progress_from = progress_end.saturating_sub(PROGRESS_LINES);
        let (steps_from, steps) = steps_of(task, part.steps);
        Ok(TaskDetail {
            card: self.task_card(config, &view),
            description: task.description.clone(),
            context: task.context.clone(),
            steps,
            steps_from,
            steps_total: task.steps.len(),
            progress: task.progress[progress_from..progress_end].to_vec(),
            progress_from,
            progress_later: task.progress.len() - progress_end,
            blocked: task.blocked.as_ref().map(|blocked| Blocker {
                reason: blocked.reason.clone(),
                kind: blocked.kind.clone(),
                action: blocked.action.clone(),
                unblocked_by: blocked.unblocked_by.clone(),
                escalation: blocked.escalation.clone(),
            }),
            outcome: task
                .outcome
                .as_ref()
                .map(|outcome| (outcome.kind.clone(), outcome.summary.clone(), outcome.reason.clone())),
            created: task.created.clone(),
            created_by: task.created_by.as_ref().map(|by| face(config, by).name),
            due: task.due.clone(),
            depends_left: task.depends_on.len() - depends_on.len(),
            depends_on,
            work_session: task.work_session.clone(),
            problem: view.problem.clone(),
            question: questions.into_iter().next(),
            is_over: task.status.is_terminal(),
        })
    }

    /// What was said for a task: the newest turns, or those before a cursor, oldest first.
    pub async fn task_conversation(
        &self,
        id: &str,
        cursor: Option<&str>,
        full: Option<&str>,
    ) -> Result<TaskTab, Error> {
        let page = match self.0.dialogues.latest_of_task(id, cursor, BUBBLES).await {
            // An address that somebody has changed: the newest are as good.
            Err(dialogues::Error::BadCursor) => self.0.dialogues.latest_of_task(id, None, BUBBLES).await?,
            page => page?,
        };
        let settings = self.0.settings.current();
        let turns = joined(page.turns.iter().map(|turn| self.turn(&settings.config, turn, full)));
        Ok(TaskTab::Conversation { turns, total: page.total, older: page.next, later: cursor.is_some() })
    }

    fn turn(&self, config: &Config, turn: &Value, full: Option<&str>) -> Bubble {
        let text = |name: &str| turn[name].as_str().unwrap_or_default();
        let side = match text("role") {
            "orchestrator" | "human" => Side::Right,
            "system" => Side::Middle,
            _ => Side::Left,
        };
        let from = match turn["agentId"].as_str() {
            Some(agent) => face(config, agent),
            None => Face { name: text("role").to_owned(), ..Face::default() },
        };
        let calls = turn["toolCalls"].as_array().into_iter().flatten();
        let question = turn["humanQuery"]["id"].as_str().and_then(|id| self.0.humans.get(id).ok());
        let mut bubble = Bubble {
            id: text("messageId").to_owned(),
            side,
            from,
            at: turn["timestamp"].as_u64().unwrap_or_default(),
            tools: calls.filter_map(|call| call["name"].as_str().map(str::to_owned)).take(12).collect(),
            question: question.map(|question| self.question_card(config, &question)),
            ..Bubble::default()
        };
        fill(&mut bubble, text("content"), full);
        bubble
    }

    /// Why a task went as it did.
    pub async fn task_why(&self, id: &str, before: Option<&str>) -> Result<TaskTab, Error> {
        Ok(TaskTab::Why(self.why(Some(format!("task:{id}")), None, before).await?))
    }

    /// The events of a task, the newest first.
    pub async fn task_events(&self, id: &str, cursor: Option<&str>) -> Result<TaskTab, Error> {
        let before = cursor.and_then(seq_of_cursor);
        let asked =
            EventsQuery { subject: Some(format!("task:{id}")), before, limit: EVENTS, ..EventsQuery::default() };
        let page = match self.0.monitor.events(asked).await.map_err(Error::from) {
            Err(Error::Indexing { percent }) => {
                return Ok(TaskTab::Events { events: Indexed::Indexing(percent), next: None, later: false });
            }
            page => page?,
        };
        let rows = page.rows.iter().map(event_row).collect();
        Ok(TaskTab::Events { events: Indexed::Ready(rows), next: page.next, later: cursor.is_some() })
    }
}

/// A page of a task's steps: the one that is asked for, else that with the first that is open.
fn steps_of(task: &chela_taskfile::Task, from: Option<usize>) -> (usize, Vec<StepRow>) {
    let total = task.steps.len();
    let open = || task.steps.iter().position(|step| matches!(step.status.as_str(), "pending" | "in_progress"));
    let from = from.unwrap_or_else(|| open().unwrap_or(0) / STEPS * STEPS);
    let from = if from < total { from } else { 0 };
    let row = |(at, step): (usize, &chela_taskfile::Step)| StepRow {
        id: step.id.clone(),
        content: step.content.clone(),
        status: step.status.as_str().into(),
        is_first: at == 0,
        is_last: at + 1 == total,
    };
    (from, task.steps.iter().enumerate().skip(from).take(STEPS).map(row).collect())
}

/// The address of one column with the same filter.
fn rest_of(filter: &TasksFilter, column: Column) -> String {
    let mut address = format!("/tasks?column={}", column.as_str());
    for (name, value) in [("agent", &filter.agent), ("priority", &filter.priority), ("q", &filter.text)] {
        if let Some(value) = value {
            address.push_str(&format!("&{name}={}", encode(value)));
        }
    }
    address
}

/// A task that is over, as its last event tells of it.
fn ended_card(config: &Config, event: &Value) -> Option<TaskCard> {
    let data = &event["data"];
    let steps = &data["stepsProgress"];
    let number = |name: &str| steps[name].as_u64().and_then(|count| usize::try_from(count).ok());
    let steps = number("total")
        .map(|total| Steps { done: number("done").unwrap_or(0) + number("skipped").unwrap_or(0), total });
    Some(TaskCard {
        id: data["taskId"].as_str()?.to_owned(),
        title: title_of(data["title"].as_str().unwrap_or_default()),
        status: event["type"].as_str()?.strip_prefix("task.")?.to_owned(),
        priority: data["priority"].as_str().unwrap_or("medium").to_owned(),
        agent: face(config, event["agentId"].as_str().unwrap_or_default()),
        steps,
        activity: iso(event["ts"].as_u64().unwrap_or_default()),
        ..TaskCard::default()
    })
}

fn event_row(event: &Value) -> EventRow {
    let data = &event["data"];
    let kind = event["type"].as_str().unwrap_or_default().to_owned();
    EventRow {
        human: kind.starts_with("human_query.") || kind == "task.resumed_after_human_query",
        kind,
        agent: event["agentId"].as_str().unwrap_or_default().to_owned(),
        at: event["ts"].as_u64().unwrap_or_default(),
        said: super::events::said(data),
    }
}
