//! The board: six columns, each with its first cards, and ways to what is not shown.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::long::fitting;
use crate::moves::{Column, moves};
use crate::parts::{
    agent_link, badge, clip, empty, indexing, moment, priority_badge, shown_title, status_badge, steps_bar, task_path,
};
use crate::task::move_word;
use crate::views::{BoardColumn, Face, TaskCard, Tasks, TasksFilter};

/// What the board may take; a card leads to all of what it tells.
const BOARD_BYTES: usize = 125_000;

pub fn tasks(shell: &Shell, view: &Tasks) -> Page {
    let words = shell.words();
    let fragments = vec![
        Fragment::new("head", &[], head(shell, view)),
        Fragment::new("board", &["tasks", "questions"], board(shell, view)),
    ];
    Page { nav: "tasks", title: words.tasks.into(), fragments, dialog: None }
}

fn head(shell: &Shell, view: &Tasks) -> Markup {
    html! { h1 { (shell.words().tasks) } (filters(shell, &view.filter, &view.agents, "")) }
}

/// What is chosen, and as what it is shown: a board, a graph, or along time.
pub(crate) fn filters(shell: &Shell, filter: &TasksFilter, agents: &[Face], shown_as: &str) -> Markup {
    let words = shell.words();
    let ways = [("", words.board), ("canvas", words.canvas), ("schedule", words.schedule)];
    let whole = shell.with_all(&["agent", "priority", "q", "column", "from", "cursor"].map(|name| (name, "")));
    let is_narrow =
        filter.agent.is_some() || filter.priority.is_some() || filter.text.is_some() || filter.column.is_some();
    html! {
        nav.tabs aria-label=(words.shown_as) {
            @for (key, word) in ways {
                a href=(shell.with_all(&[("view", key), ("from", ""), ("cursor", ""), ("column", "")])) aria-current=[(key == shown_as).then_some("page")] { (word) }
            }
        }
        form.filters method="get" action="/tasks" role="search" aria-label=(words.filters) {
            @if !shown_as.is_empty() { input type="hidden" name="view" value=(shown_as); }
            @if let Some(column) = filter.column { input type="hidden" name="column" value=(column.as_str()); }
            label for="agent" { (words.agent) }
            select id="agent" name="agent" data-auto {
                option value="" { (words.all_agents) }
                @for one in agents {
                    option value=(one.id) selected[filter.agent.as_deref() == Some(&one.id)] { (clip(&one.name, 60)) }
                }
            }
            label for="priority" { (words.priority) }
            select id="priority" name="priority" data-auto {
                option value="" { (words.all) }
                @for key in ["urgent", "high", "medium", "low"] {
                    option value=(key) selected[filter.priority.as_deref() == Some(key)] { (words.priority(key)) }
                }
            }
            label for="q" { (words.search) }
            input id="q" name="q" type="search" maxlength="200" value=(filter.text.as_deref().unwrap_or_default()) dir="auto";
            button type="submit" { (words.filter) }
            @if is_narrow { a href=(whole) { (words.clear) } }
        }
    }
}

fn board(shell: &Shell, view: &Tasks) -> Markup {
    html! {
        @if let Some(percent) = view.indexing { (indexing(shell, percent)) }
        form id="mover" method="post" action="/tasks" hidden { (shell.back()) }
        p.said id="board-said" role="alert" {}
        (fitting(BOARD_BYTES, |each| html! {
            div.board data-single[view.filter.column.is_some()] {
                @for column in &view.columns { (column_of(shell, view, column, each)) }
            }
        }))
    }
}

fn column_of(shell: &Shell, view: &Tasks, one: &BoardColumn, each: usize) -> Markup {
    let words = shell.words();
    let key = one.column.as_str();
    let name = match one.column {
        Column::Closed => words.closed,
        column => words.task_status(column.as_str()),
    };
    html! {
        section.column data-column=(key) data-key=(key) aria-labelledby=(format!("column-{key}")) {
            h2 id=(format!("column-{key}")) {
                a.plain href=(shell.with("column", if view.filter.column.is_some() { "" } else { key })) { (name) }
                @if let Some(total) = one.total { " " span.small { (total) } }
            }
            @if one.cards.is_empty() { (empty(words.nothing_here, None)) }
            ul { @for card in &one.cards { (card_of(shell, card, each)) } }
            @if let Some(next) = &one.next { p { a.button href=(next) { (words.more) } } }
        }
    }
}

fn card_of(shell: &Shell, card: &TaskCard, each: usize) -> Markup {
    let told = each.min(120);
    let (words, path) = (shell.words(), task_path(&card.id));
    let own = Column::of(&card.status);
    let allowed = if shell.may_write() { moves(&card.status) } else { &[] };
    let targets: Vec<String> = allowed
        .iter()
        .flat_map(|one| {
            one.columns()
                .iter()
                .filter(|column| **column != own)
                .map(move |column| format!("{}:{}", column.as_str(), one.as_str()))
        })
        .collect();
    html! {
        li.card draggable=[(!targets.is_empty()).then_some("true")] data-key=(card.id) data-open=(path) data-moves=(targets.join(" ")) data-status=(card.status) {
            a.title href=(path) dir="auto" { (clip(&shown_title(shell, card), each)) }
            div.head {
                (agent_link(&card.agent)) (priority_badge(shell, &card.priority))
                @if matches!(card.status.as_str(), "pending_approval" | "cancelled" | "failed" | "abandoned") { (status_badge(shell, &card.status)) }
            }
            @if let Some(steps) = card.steps { (steps_bar(shell, steps)) }
            @if let Some(step) = &card.step { p.step dir="auto" { span.mark aria-hidden="true" { "▸" } (clip(step, told)) } }
            @if let Some(question) = &card.question { p.small dir="auto" { (badge("asks", "?", words.waits_for_person)) " " (clip(question, told)) } }
            @else if let Some(reason) = &card.blocked { p.small dir="auto" { (clip(reason, told)) } }
            p.small { (moment(&card.activity)) }
            @if !allowed.is_empty() {
                details.moves {
                    summary { (words.move_to) }
                    @for one in allowed {
                        @if one.asks() { a href=(format!("{path}?dialog={}", one.as_str())) { (move_word(words, *one)) } }
                        @else {
                            button type="submit" form="mover" formaction=(format!("{path}/move")) name="move"
                                value=(format!("{}:{}", one.as_str(), card.status)) { (move_word(words, *one)) }
                        }
                    }
                }
            }
        }
    }
}
