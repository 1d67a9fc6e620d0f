//! The files of an agent's workspace, to be read.

use maud::{Markup, PreEscaped, html};

use crate::caps::LIST_BYTES;
use crate::layout::{Fragment, Page, Shell};
use crate::long::fitted;
use crate::markdown::document;
use crate::parts::{clip, empty, encode, face};
use crate::views::{FileRow, Workspace, WorkspaceShown};

/// Folders above one that are named.
const CRUMBS: usize = 6;

pub fn workspace(shell: &Shell, view: &Workspace) -> Page {
    let words = shell.words();
    let topic = view.agent.as_ref().map(|agent| format!("agent:{}", agent.id));
    let topics: Vec<&str> = topic.iter().map(String::as_str).collect();
    let fragments =
        vec![Fragment::new("head", &[], head(shell, view)), Fragment::new("files", &topics, shown(shell, view))];
    let title = view.agent.as_ref().map_or_else(String::new, |agent| format!(" · {}", clip(&agent.name, 60)));
    Page { nav: "workspace", title: format!("{}{title}", words.workspace), fragments, dialog: None }
}

fn folder_path(view: &Workspace, path: &str) -> String {
    let agent = view.agent.as_ref().map(|agent| encode(&agent.id)).unwrap_or_default();
    if path.is_empty() { format!("/workspace/{agent}") } else { format!("/workspace/{agent}?path={}", encode(path)) }
}

fn head(shell: &Shell, view: &Workspace) -> Markup {
    let words = shell.words();
    html! {
        h1 { (words.workspace) @if let Some(agent) = &view.agent { " · " (face(agent)) } }
        nav.tabs aria-label=(words.agents) {
            @for one in &view.agents {
                a href=(format!("/workspace/{}", encode(&one.id)))
                    aria-current=[(view.agent.as_ref().is_some_and(|agent| agent.id == one.id)).then_some("page")] { (face(one)) }
            }
        }
        @if view.agent.is_some() {
            nav.crumbs aria-label=(words.folder) {
                a href=(folder_path(view, "")) { (words.all_files) }
                @let ends: Vec<usize> = view.path.match_indices('/').map(|(at, _)| at).chain((!view.path.is_empty()).then_some(view.path.len())).collect();
                @let passed = ends.len().saturating_sub(CRUMBS);
                @if passed > 0 { " / …" }
                @for at in ends.into_iter().skip(passed) {
                    " / " a href=(folder_path(view, &view.path[..at])) dir="auto" { (clip(view.path[..at].rsplit('/').next().unwrap_or_default(), 80)) }
                }
            }
        }
    }
}

fn shown(shell: &Shell, view: &Workspace) -> Markup {
    let words = shell.words();
    match &view.shown {
        WorkspaceShown::Agents => empty(words.choose_agent, None),
        WorkspaceShown::Problem(problem) => crate::problem::notice(shell, problem),
        WorkspaceShown::Folder { rows, from, total, more } => html! {
            @if rows.is_empty() { (empty(words.empty_folder, None)) }
            @let (list, shown) = listed(shell, view, rows);
            ul.rows { (list) }
            (pages(shell, *from, from + shown, *total))
            @if *more { p.small { (words.more_files) } }
        },
        WorkspaceShown::File { text, bytes, from, next } => file(shell, view, text, (*bytes, *from, *next)),
    }
}

/// As many rows as a page can bear, since each has its whole path, and how many these are.
fn listed(shell: &Shell, view: &Workspace, rows: &[FileRow]) -> (Markup, usize) {
    let (mut list, mut shown) = (String::new(), 0);
    for row in rows {
        let row = file_row(shell, view, row).into_string();
        if shown > 0 && list.len() + row.len() > LIST_BYTES {
            break;
        }
        list.push_str(&row);
        shown += 1;
    }
    (PreEscaped(list), shown)
}

/// A part of a file: as much of it as a page can bear.
fn file(shell: &Shell, view: &Workspace, text: &str, (bytes, from, next): (u64, u64, Option<u64>)) -> Markup {
    let words = shell.words();
    let reads = view.path.ends_with(".md") && from == 0;
    let written = |text: &str| match reads {
        true => html! { div.text dir="auto" { (document(text, &|id| shell.name_of(id))) } },
        false => html! { pre tabindex="0" dir="auto" { code { (text) } } },
    };
    let (shown, end) = fitted(text, LIST_BYTES, &written);
    let next = if end < text.len() { Some(from + end as u64) } else { next };
    html! {
        p.small { (bytes) " B" @if from > 0 || next.is_some() { " · " (from) "–" (next.unwrap_or(bytes)) } }
        (shown)
        @if from > 0 || next.is_some() {
            p.pages {
                @if from > 0 { a.button href=(shell.with("offset", "")) { (words.to_first) } }
                @if let Some(next) = next { a.button href=(shell.with("offset", &next.to_string())) { (words.next_part) } }
            }
        }
    }
}

fn pages(shell: &Shell, from: usize, end: usize, total: usize) -> Markup {
    let words = shell.words();
    html! {
        @if from > 0 || end < total {
            p.pages {
                span.small { (from + 1) "–" (end) " / " (total) " " }
                @if from > 0 { a.button href=(shell.with("offset", "")) { (words.to_first) } }
                @if end < total { " " a.button href=(shell.with("offset", &end.to_string())) { (words.more) } }
            }
        }
    }
}

fn file_row(shell: &Shell, view: &Workspace, row: &FileRow) -> Markup {
    let path = if view.path.is_empty() { row.name.clone() } else { format!("{}/{}", view.path, row.name) };
    html! {
        li.row data-key=(row.name) {
            div.head {
                span.mark aria-hidden="true" { (if row.is_folder { "▸" } else { "·" }) }
                a href=(folder_path(view, &path)) dir="auto" { (clip(&row.name, 160)) }
                @if row.is_folder { span.small { (shell.words().folder) } }
            }
        }
    }
}
