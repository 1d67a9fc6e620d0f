//! Tasks as a graph: orchestrators, who works for them, and what each has to do. A task leads to what was said for it, and its question.

use maud::{Markup, html};

use crate::caps::LIST_BYTES;
use crate::layout::{Fragment, Page, Shell};
use crate::long::fitting;
use crate::parts::{badge, clip, empty, encode, is_colour, shown_title, task_path};
use crate::tasks::filters;
use crate::views::{Canvas, CanvasAgent, TaskCard};

const NODE: i64 = 210;
const TASK: i64 = 320;
const ROW: i64 = 46;
const HIGH: i64 = 36;
/// Above the first row, so that its outline is whole.
const MARGIN: i64 = 2;
/// Where orchestrators, who works for them, and tasks begin.
const COLUMNS: [i64; 3] = [8, 268, 528];

pub fn canvas(shell: &Shell, view: &Canvas) -> Page {
    let words = shell.words();
    let head = html! { h1 { (words.tasks) } (filters(shell, &view.filter, &view.agents, "canvas")) };
    let fragments = vec![
        Fragment::new("head", &[], head),
        Fragment::new("canvas", &["tasks", "questions", "agents"], graph(shell, view)),
    ];
    Page { nav: "tasks", title: format!("{} · {}", words.tasks, words.canvas), fragments, dialog: None }
}

/// An agent with its place.
struct Placed<'a> {
    node: &'a CanvasAgent,
    column: usize,
    top: i64,
}

/// Everybody under whom they work for; those who lead first, in the order of the team.
fn placed(nodes: &[CanvasAgent]) -> (Vec<Placed<'_>>, i64) {
    let leads =
        |node: &&CanvasAgent| node.works_for.as_ref().is_none_or(|id| !nodes.iter().any(|one| one.face.id == *id));
    let (mut found, mut top) = (Vec::new(), MARGIN);
    for lead in nodes.iter().filter(leads) {
        let members: Vec<&CanvasAgent> =
            nodes.iter().filter(|one| one.works_for.as_ref() == Some(&lead.face.id) && !leads(one)).collect();
        let own = rows_of(lead).max(1);
        found.push(Placed { node: lead, column: 0, top });
        top += own * ROW;
        for member in members {
            found.push(Placed { node: member, column: 1, top });
            top += rows_of(member).max(1) * ROW;
        }
        top += ROW / 3;
    }
    (found, top.max(ROW))
}

/// Rows that the tasks of an agent take.
fn rows_of(node: &CanvasAgent) -> i64 {
    i64::try_from(node.tasks.len() + usize::from(node.left > 0)).unwrap_or(i64::MAX)
}

fn graph(shell: &Shell, view: &Canvas) -> Markup {
    let words = shell.words();
    if view.nodes.is_empty() {
        return empty(words.no_agents, None);
    }
    let (placed, height) = placed(&view.nodes);
    let middle = |one: &Placed<'_>| one.top + HIGH / 2;
    let asking: Vec<&TaskCard> =
        view.nodes.iter().flat_map(|node| &node.tasks).filter(|card| card.question.is_some()).collect();
    html! {
        @if !asking.is_empty() {
            p { (badge("asks", "?", words.waits_for_person)) " " @for card in asking.iter().take(6) { a href=(opened(card)) dir="auto" { (clip(&shown_title(shell, card), 60)) } " " } }
        }
        (fitting(LIST_BYTES, |each| html! { div.wide tabindex="0" role="region" aria-label=(words.canvas) {
            svg.canvas viewBox=(format!("0 0 {} {height}", COLUMNS[2] + TASK + 8)) width=(COLUMNS[2] + TASK + 8) height=(height) role="group" aria-label=(words.canvas_help) {
                @for one in &placed {
                    @if one.column == 1 {
                        @if let Some(lead) = placed.iter().find(|lead| Some(&lead.node.face.id) == one.node.works_for.as_ref()) {
                            path.edge d=(curve((COLUMNS[0] + NODE, middle(lead)), (COLUMNS[1], middle(one)))) {}
                        }
                    }
                    @for nth in 0..rows_of(one.node) {
                        path.edge d=(curve((COLUMNS[one.column] + NODE, middle(one)), (COLUMNS[2], one.top + nth * ROW + HIGH / 2))) {}
                    }
                }
                @for one in &placed { (agent(shell, one, each)) }
            }
        } }))
        @if view.left > 0 { p { a href="/" { "+" (view.left) " " (words.agents) } } }
    }
}

fn curve(from: (i64, i64), to: (i64, i64)) -> String {
    let half = (from.0 + to.0) / 2;
    format!("M{} {}C{half} {} {half} {} {} {}", from.0, from.1, from.1, to.1, to.0, to.1)
}

fn agent(shell: &Shell, one: &Placed<'_>, each: usize) -> Markup {
    let (words, face, left) = (shell.words(), &one.node.face, COLUMNS[one.column]);
    let name = format!("{} {}", face.emoji.as_deref().unwrap_or_default(), clip(&face.name, 24));
    let role = match one.node.role.as_str() {
        "orchestrator" => words.role_orchestrator,
        "worker" => words.role_worker,
        _ => words.role_agent,
    };
    // Whose task waits for a person waits with it.
    let asks = one.node.tasks.iter().any(|card| card.question.is_some());
    let told = if asks { format!("{role} · ? {}", words.waits_for_person) } else { role.to_owned() };
    html! {
        a.node href=(format!("/agents/{}", encode(&face.id))) aria-label=(format!("{} · {told}", clip(&face.name, 60))) data-kind=[asks.then_some("asks")] data-key=(face.id) {
            rect x=(left) y=(one.top) width=(NODE) height=(HIGH) rx="8" stroke=[face.colour.as_deref().filter(|c| is_colour(c))] {}
            text x=(left + 10) y=(one.top + 16) { (name.trim()) }
            text.tick x=(left + 10) y=(one.top + 30) { (told) }
        }
        @for (nth, card) in (0..).zip(&one.node.tasks) { (task(shell, card, one.top + nth * ROW, each)) }
        @if one.node.left > 0 {
            a.node href=(format!("/tasks?agent={}", encode(&face.id))) {
                text x=(COLUMNS[2] + 10) y=(one.top + i64::try_from(one.node.tasks.len()).unwrap_or(0) * ROW + 22) { "+" (one.node.left) " " (words.tasks) }
            }
        }
    }
}

/// With what was said for it, and the question it waits for.
fn opened(card: &TaskCard) -> String {
    format!("{}?tab=conversation", task_path(&card.id))
}

fn task(shell: &Shell, card: &TaskCard, top: i64, each: usize) -> Markup {
    let words = shell.words();
    let title = shown_title(shell, card);
    let kind = match (card.question.is_some(), card.status.as_str()) {
        (true, _) => "asks",
        (_, "in_progress") => "going",
        (_, "blocked") => "stuck",
        _ => "calm",
    };
    let status = if card.question.is_some() { words.waits_for_person } else { words.task_status(&card.status) };
    let told = card.question.as_ref().or(card.blocked.as_ref()).or(card.step.as_ref());
    let steps = card.steps.map(|steps| format!(" {}/{}", steps.done, steps.total)).unwrap_or_default();
    html! {
        a.node href=(opened(card)) data-open=(opened(card)) data-kind=(kind) data-key=(card.id) aria-label=(format!("{} · {status}{steps}", clip(&title, each.min(100)))) {
            title { (clip(&title, each.min(160))) @if let Some(told) = told { " — " (clip(told, each.min(160))) } }
            rect x=(COLUMNS[2]) y=(top) width=(TASK) height=(HIGH) rx="4" {}
            text x=(COLUMNS[2] + 10) y=(top + 16) { (short(&title, 40)) }
            text.tick x=(COLUMNS[2] + 10) y=(top + 30) { (mark(card)) " " (status) (steps) @if let Some(told) = told { " · " (short(told, 24)) } }
        }
    }
}

pub(crate) fn mark(card: &TaskCard) -> &'static str {
    match (card.question.is_some(), card.status.as_str()) {
        (true, _) => "?",
        (_, "in_progress") => "▶",
        (_, "blocked") => "■",
        (_, "completed") => "✓",
        _ => "○",
    }
}

/// So many places of a line; letters of Korean take two.
pub(crate) fn short(text: &str, places: usize) -> String {
    let (mut taken, mut line) = (0, String::new());
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        taken += if c.is_ascii() { 1 } else { 2 };
        if taken > places {
            line.push('…');
            break;
        }
        line.push(c);
    }
    line
}
