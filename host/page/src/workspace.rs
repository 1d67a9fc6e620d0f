//! The files of an agent's workspace, to be read.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::markdown::document;
use crate::parts::{clip, empty, encode, face};
use crate::views::{FileRow, Workspace, WorkspaceShown};

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
                @for (at, _) in view.path.match_indices('/').chain((!view.path.is_empty()).then_some((view.path.len(), ""))) {
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
        WorkspaceShown::Problem(said) => {
            html! { p.notice data-kind="bad" role="alert" dir="auto" { (clip(said, 400)) } }
        }
        WorkspaceShown::Folder { rows, more } => html! {
            @if rows.is_empty() { (empty(words.empty_folder, None)) }
            ul.rows { @for row in rows { (file_row(shell, view, row)) } }
            @if *more { p.small { (words.more_files) } }
        },
        WorkspaceShown::File { text, bytes, from, next } => html! {
            p.small { (bytes) " B" @if *from > 0 || next.is_some() { " · " (from) "–" (next.unwrap_or(*bytes)) } }
            @if view.path.ends_with(".md") && *from == 0 { div.text dir="auto" { (document(text, &|id| shell.name_of(id))) } }
            @else { pre tabindex="0" dir="auto" { code { (text) } } }
            @if *from > 0 || next.is_some() {
                p.pages {
                    @if *from > 0 { a.button href=(shell.with("offset", "")) { (words.to_first) } }
                    @if let Some(next) = next { a.button href=(shell.with("offset", &next.to_string())) { (words.more) } }
                }
            }
        },
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
