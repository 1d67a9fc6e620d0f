//! The views of those who look after a deployment: what is asked for behind `?`, gathered and shown.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use chela_page::{EventsFilter, JobsFilter, clip};

use super::form::Form;
use super::show;
use crate::edge::Context;
use crate::edge::params::Named;
use crate::hub::{Error, ListAsked, TryOn, Wanted};
use crate::scope::Scope;
use crate::settings::Principal;

/// Names and ids that a reader may ask for are no longer than this.
const ASKED_BYTES: usize = 200;

fn short(asked: &Form, name: &str) -> Option<String> {
    asked.get(name).map(|text| clip(text, ASKED_BYTES))
}

fn number<T: std::str::FromStr + Default>(asked: &Form, name: &str) -> T {
    asked.get(name).and_then(|number| number.parse().ok()).unwrap_or_default()
}

pub(super) async fn events(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let filter = EventsFilter {
        role: short(&asked, "role"),
        kind: short(&asked, "type"),
        session: short(&asked, "session"),
        task: short(&asked, "task"),
        job: short(&asked, "job"),
        tree: asked.get("tree").is_some(),
        cursor: short(&asked, "cursor"),
        until: short(&asked, "until"),
    };
    let view = context.hub.events(filter, asked.get("raw")).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::events(shell, &view))).await
}

pub(super) async fn jobs(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let filter = JobsFilter {
        status: short(&asked, "status"),
        agent: short(&asked, "agent"),
        session: short(&asked, "session"),
        cursor: short(&asked, "cursor"),
    };
    let view = context.hub.jobs(filter).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::jobs(shell, &view))).await
}

pub(super) async fn job(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let before = Form::of_query(&head).text("decided");
    let view = context.hub.job(&id, before.as_deref()).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::job(shell, &view))).await
}

pub(super) async fn plugins(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let view = context.hub.plugins().await;
    show(&context, &head, Ok(move |shell: &_| chela_page::plugins(shell, &view))).await
}

pub(super) async fn slot(State(context): State<Context>, Named(name): Named<String>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let view = context.hub.slot(&name, wanted(&head, &asked)).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::slot(shell, &view))).await
}

/// What came of a trial is for those who could also put in service what was tried.
fn wanted(head: &Parts, asked: &Form) -> Wanted {
    let may = head.extensions.get::<Principal>().is_some_and(|one| one.scope.holds(Scope::Admin));
    Wanted { tried: short(asked, "tried").filter(|_| may), before: short(asked, "cursor") }
}

/// What something is to be tried on, as a button says it.
pub(super) fn try_on(word: &str, asked: &Form) -> TryOn {
    match word {
        "sessions" => TryOn::Sessions,
        _ => TryOn::Text(asked.written("text")),
    }
}

fn of_list(asked: &Form) -> ListAsked {
    ListAsked {
        from: number(asked, "from"),
        edit: short(asked, "edit"),
        delete: short(asked, "delete"),
        open: short(asked, "open"),
        item: number(asked, "item"),
    }
}

pub(super) async fn milestones(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let view = context.hub.milestones(of_list(&Form::of_query(&head))).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::milestones(shell, &view))).await
}

pub(super) async fn todos(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let view = context.hub.todos(of_list(&Form::of_query(&head))).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::todos(shell, &view))).await
}

pub(super) async fn workspaces(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let view = context.hub.workspace(None, "", 0).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::workspace(shell, &view))).await
}

pub(super) async fn workspace(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let path = asked.get("path").map(|path| clip(path, 1_000)).unwrap_or_default();
    let view = context.hub.workspace(Some(&id), &path, number(&asked, "offset")).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::workspace(shell, &view))).await
}

pub(super) async fn channels(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let view = context.hub.channels();
    show(&context, &head, Ok::<_, Error>(move |shell: &_| chela_page::channels(shell, &view))).await
}

pub(super) async fn settings(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let view = context.hub.settings(Form::of_query(&head).get("section"));
    show(&context, &head, Ok::<_, Error>(move |shell: &_| chela_page::settings(shell, &view))).await
}
