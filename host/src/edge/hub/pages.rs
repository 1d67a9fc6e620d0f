//! Each view: what is asked for behind `?`, gathered and shown.

use axum::extract::{Request, State};
use axum::response::Response;
use chela_page::{Column, QuestionState, SessionsFilter, TaskDialog, TaskTab, TasksFilter};

use super::form::Form;
use super::show;
use crate::edge::Context;
use crate::edge::params::Named;
use crate::hub;

/// As the index takes them.
const SEARCHED_CHARS: usize = 200;

pub(super) async fn overview(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let view = context.hub.overview().await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::overview(shell, &view))).await
}

pub(super) async fn questions(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let state = match asked.get("state") {
        Some("answered") => QuestionState::Answered,
        Some("expired") => QuestionState::Expired,
        _ => QuestionState::Open,
    };
    let view = context.hub.questions(state, asked.text("cursor"), asked.get("first")).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::questions(shell, &view))).await
}

/// The words that are looked for; more than this nobody means.
fn searched(asked: &Form) -> Option<String> {
    asked.get("q").map(|text| text.chars().take(SEARCHED_CHARS).collect())
}

pub(super) async fn tasks(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let filter = TasksFilter {
        agent: asked.text("agent"),
        priority: asked.text("priority"),
        text: searched(&asked),
        column: asked.get("column").and_then(Column::parse),
        from: asked.get("from").and_then(|from| from.parse().ok()).unwrap_or(0),
        cursor: asked.text("cursor"),
    };
    match asked.get("view") {
        Some("canvas") => {
            let view = context.hub.canvas(filter);
            show(&context, &head, Ok(move |shell: &_| chela_page::canvas(shell, &view))).await
        }
        Some("schedule") => {
            let view = context.hub.schedule(filter);
            show(&context, &head, Ok(move |shell: &_| chela_page::schedule(shell, &view))).await
        }
        _ => {
            let view = context.hub.tasks(filter).await;
            show(&context, &head, view.map(|view| move |shell: &_| chela_page::tasks(shell, &view))).await
        }
    }
}

pub(super) async fn task(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let dialog = asked.get("dialog").and_then(TaskDialog::parse);
    let gathered = gathered_task(&context, &id, &asked).await;
    let view = gathered.map(|(view, tab)| move |shell: &_| chela_page::task(shell, &view, &tab, dialog));
    show(&context, &head, view).await
}

async fn gathered_task(
    context: &Context,
    id: &str,
    asked: &Form,
) -> Result<(chela_page::TaskDetail, TaskTab), hub::Error> {
    let number = |name: &str| asked.get(name).and_then(|number| number.parse().ok());
    let part = hub::TaskAsked { steps: number("steps"), before: number("before") };
    let view = context.hub.task(id, part).await?;
    let cursor = asked.get("cursor");
    let tab = match asked.get("tab") {
        Some("conversation") => context.hub.task_conversation(id, cursor, asked.get("full")).await?,
        Some("events") => context.hub.task_events(id, cursor).await?,
        Some("why") => context.hub.task_why(id, asked.get("decided")).await?,
        _ => TaskTab::Details,
    };
    Ok((view, tab))
}

pub(super) async fn conversations(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let filter = SessionsFilter {
        category: asked.text("category"),
        status: asked.text("status"),
        thread: asked.text("thread"),
        tag: asked.text("tag").map(|tag| tag.chars().take(40).collect()),
        agent: asked.text("agent"),
        text: searched(&asked),
        cursor: asked.text("cursor"),
        grouped: asked.get("group") == Some("category"),
    };
    let view = context.hub.conversations(filter).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::conversations(shell, &view))).await
}

pub(super) async fn conversation(
    State(context): State<Context>,
    Named(id): Named<String>,
    request: Request,
) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let why = asked.get("why").map(|_| asked.get("decided"));
    let view = context.hub.conversation(&id, asked.text("thread"), asked.get("before"), asked.get("full"), why);
    let view = view.await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::conversation(shell, &view))).await
}

pub(super) async fn chat(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let asked = Form::of_query(&head);
    let before = asked.get("before").and_then(|before| before.parse().ok());
    let view = context.hub.chat(asked.get("agent"), before, asked.get("full")).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::chat(shell, &view))).await
}

pub(super) async fn agent(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let view = context.hub.agent(&id).await;
    show(&context, &head, view.map(|view| move |shell: &_| chela_page::agent(shell, &view))).await
}
