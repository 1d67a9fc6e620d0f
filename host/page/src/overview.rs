//! Who works on what, what is stuck, and what waits for a person: all of it at one look.

use maud::{Markup, html};

use crate::caps::AGENTS;
use crate::chart::{across, bars};
use crate::layout::{Fragment, Page, Shell};
use crate::moves::Column;
use crate::parts::{
    agent_link, clip, empty, face, indexed, is_colour, job_row, question, shown_title, state_badge, steps_bar,
    task_path,
};
use crate::views::{AgentCard, Overview, TeamTotal};

/// Agents that a chart has; all of them are listed above it.
const CHARTED: usize = 40;
/// What a text of a question takes here.
const EACH: usize = 1_200;

pub fn overview(shell: &Shell, view: &Overview) -> Page {
    let words = shell.words();
    let fragments = vec![
        Fragment::new("summary", &["agents", "tasks", "questions", "jobs"], summary(shell, view)),
        Fragment::new("agents", &["agents", "tasks", "questions"], agents(shell, view)),
        Fragment::new("waiting", &["questions"], waiting(shell, view)),
        Fragment::new("jobs", &["jobs"], jobs(shell, view)),
        Fragment::new("activity", &["activity"], activity(shell, view)),
        Fragment::new("queues", &["agents"], queues(shell, view)),
        Fragment::new("spread", &["sessions"], spread(shell, view)),
    ];
    Page { nav: "overview", title: words.overview.into(), fragments, dialog: None }
}

fn summary(shell: &Shell, view: &Overview) -> Markup {
    let words = shell.words();
    let working = view.agents.iter().filter(|agent| agent.state == crate::AgentState::Working).count();
    let figure = |href: String, number: String, word: &str, kind: &str| {
        html! { a.figure href=(href) data-kind=(kind) { strong { (number) } span { (word) } } }
    };
    html! {
        h1 { (words.overview) }
        div.figures {
            (figure("#agents".into(), format!("{working}/{}", view.agents.len()), words.working, "going"))
            (figure("/questions".into(), view.questions.len().to_string() + if view.more_questions { "+" } else { "" }, words.open_questions, "asks"))
            @for (column, count) in Column::ALL.into_iter().zip(view.open) {
                @let kind = match column { Column::Blocked => "stuck", Column::InProgress => "going", _ => "calm" };
                (figure(format!("/tasks?column={}", column.as_str()), count.to_string(), words.task_status(column.as_str()), kind))
            }
            (figure("#jobs".into(), view.failed_jobs.to_string(), words.failed_jobs, "bad"))
        }
        @if !view.teams.is_empty() { ul.teams { @for team in &view.teams { (team_total(shell, team)) } } }
    }
}

fn team_total(shell: &Shell, team: &TeamTotal) -> Markup {
    html! {
        li {
            svg.dot viewBox="0 0 10 10" aria-hidden="true" { circle cx="5" cy="5" r="5" fill=[team.colour.as_deref().filter(|c| is_colour(c))] {} }
            bdi { (clip(&team.name, 60)) }
            span.small { (team.working) "/" (team.agents) " " (shell.words().working) }
            @if team.steps.total > 0 { (steps_bar(shell, team.steps)) }
        }
    }
}

fn waiting(shell: &Shell, view: &Overview) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.open_questions) }
        @if view.questions.is_empty() { (empty(words.no_questions, Some(words.no_questions_help))) }
        @for card in view.questions.iter().take(3) { (question(shell, card, EACH)) }
        @if view.questions.len() > 3 || view.more_questions { p { a href="/questions" { (words.all_questions) } } }
    }
}

fn agents(shell: &Shell, view: &Overview) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.agents) }
        @if view.agents.is_empty() { (empty(words.no_agents, None)) }
        @let from = shell.asked("from").and_then(|from| from.parse().ok()).filter(|from| *from < view.agents.len()).unwrap_or(0);
        @let end = (from + AGENTS).min(view.agents.len());
        ul.cards { @for agent in &view.agents[from..end] { li.card data-key=(agent.face.id) { (card(shell, agent)) } } }
        @if from > 0 || end < view.agents.len() {
            p.pages {
                span.small { (from + 1) "–" (end) " / " (view.agents.len()) " " }
                @if from > 0 { a.button href=(shell.with("from", "")) { (words.to_first) } }
                @if end < view.agents.len() { " " a.button href=(shell.with("from", &end.to_string())) { (words.more) } }
            }
        }
    }
}

pub(crate) fn card(shell: &Shell, agent: &AgentCard) -> Markup {
    let words = shell.words();
    html! {
        div.head { (agent_link(&agent.face)) (state_badge(shell, agent.state)) }
        @match &agent.task {
            Some(task) => {
                a.title href=(task_path(&task.id)) dir="auto" { (shown_title(shell, task)) }
                @if let Some(steps) = task.steps { (steps_bar(shell, steps)) }
                @if let Some(reason) = &task.blocked { p.small dir="auto" { span.mark aria-hidden="true" { "■" } " " (clip(&shell.named(reason), 160)) } }
                @else if let Some(step) = &task.step { p.step dir="auto" { span.mark aria-hidden="true" { "▸" } (clip(step, 120)) } }
            },
            None => p.small { (words.no_task) },
        }
        p.small { (words.queue) ": " (agent.queue) }
    }
}

fn jobs(shell: &Shell, view: &Overview) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.failed_jobs) @if view.failed_jobs > 0 { " " span.count data-kind="bad" { (view.failed_jobs) } } }
        @if view.jobs.is_empty() { (empty(words.no_failed_jobs, None)) }
        @else { ul.rows { @for job in &view.jobs { (job_row(shell, job)) } } p { a href="/jobs?status=FAILED" { (words.all_failed_jobs) } } }
    }
}

fn activity(shell: &Shell, view: &Overview) -> Markup {
    let words = shell.words();
    html! {
        h2 { (words.activity) }
        (indexed(shell, &view.activity, |days| html! {
            @if days.iter().all(|day| day.events == 0) { (empty(words.no_activity, None)) } @else { (bars(days, words)) }
        }))
    }
}

/// How many messages wait for each agent.
fn queues(shell: &Shell, view: &Overview) -> Markup {
    let words = shell.words();
    let rows: Vec<(String, u64, String)> = view
        .agents
        .iter()
        .take(CHARTED)
        .map(|agent| (agent.face.name.clone(), agent.queue as u64, agent.queue.to_string()))
        .collect();
    html! {
        h2 { (words.queue_lengths) }
        @if rows.is_empty() { (empty(words.no_agents, None)) } @else { (across(words.queue_lengths, &rows)) }
    }
}

/// What the work of the last week was about, and how that differs from the week before.
fn spread(shell: &Shell, view: &Overview) -> Markup {
    let words = shell.words();
    let percent = |tenths: u64| format!("{}.{} %", tenths / 10, tenths % 10);
    let rows: Vec<(String, u64, String)> = view
        .spread
        .iter()
        .map(|one| {
            let drift = match one.share.cmp(&one.share_before) {
                std::cmp::Ordering::Greater => format!("▲ {}", percent(one.share - one.share_before)),
                std::cmp::Ordering::Less => format!("▼ {}", percent(one.share_before - one.share)),
                std::cmp::Ordering::Equal => "=".to_owned(),
            };
            (shell.lang.pick(&one.ko, &one.en).to_owned(), one.sessions, format!("{} {drift}", one.sessions))
        })
        .collect();
    html! {
        h2 { (words.spread) }
        p.small { (words.spread_help) }
        @if rows.is_empty() { (empty(words.no_activity, None)) } @else { (across(words.spread, &rows)) }
    }
}

/// Also for the page of one agent.
pub(crate) fn team_of(agent: &AgentCard) -> Markup {
    html! { @if let Some(team) = &agent.team { span.small { (face(&crate::Face { name: team.clone(), colour: agent.face.colour.clone(), ..crate::Face::default() })) } } }
}
