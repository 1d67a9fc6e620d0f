//! What people do on the pages: each a form, made as a change like any other, and answered for the script or as a page.

use axum::extract::{Request, State};
use axum::response::Response;
use chela_page::{Move, Words, title_of};
use serde_json::{Value, json};

use super::form::Form;
use super::sent::{Sent, args_of, called, refusal_of};
use crate::edge::params::{Named, bad};
use crate::edge::table::change;
use crate::edge::{Context, ErrorShape, Refusal, audit, chat, humans, monitor};
use crate::hub;
use crate::id;
use crate::session_key::SessionKey;
use crate::sessions::Asked;
use crate::tasks::View;

pub(super) async fn answer(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let text = sent.form.written("answer");
    let done = humans::answer_as(&context, &sent.caller, id, text, "hub").await;
    let next = sent.back().to_owned();
    sent.answer(&context, done.map(|_| next)).await
}

pub(super) async fn category(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = changed_category(&context, id, &sent).await;
    let next = sent.back().to_owned();
    sent.answer(&context, done.map(|()| next)).await
}

async fn changed_category(context: &Context, id: String, sent: &Sent) -> Result<(), Refusal> {
    let now = context.hub.category_seen(&id).await.map_err(|error| match error {
        hub::Error::Indexing { .. } => Refusal::Indexing { said: error.to_string() },
        error => Refusal::Unavailable { said: error.to_string() },
    })?;
    sent.as_seen("the category", now.as_deref())?;
    let by = sent.caller.name.clone();
    monitor::override_as(context, &sent.caller, id, sent.form.text("category"), by).await
}

/// The open task of a path, as long as it stands as the reader saw it.
fn task_as_seen(context: &Context, id: &str, seen: Option<&str>) -> Result<std::sync::Arc<View>, Refusal> {
    let Some(view) = context.tasks.open(id) else {
        let said = "this task is over, or there is none of this name; look again".to_owned();
        return Err(Refusal::Over { said });
    };
    match seen {
        Some(seen) if seen != view.task.status.as_str() => {
            let said = format!(
                "the task is {} by now, and was {seen} when you looked; see how it stands and try again",
                view.task.status
            );
            Err(Refusal::Changed { said })
        }
        _ => Ok(view),
    }
}

pub(super) async fn move_task(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = moved(&context, &id, &sent).await;
    let from_dialog = sent.back().contains("dialog=");
    let next = if from_dialog { format!("/tasks/{}", chela_page::encode(&id)) } else { sent.back().to_owned() };
    sent.answer(&context, done.map(|()| next)).await
}

async fn moved(context: &Context, id: &str, sent: &Sent) -> Result<(), Refusal> {
    // A button of the board says in one word what to do and how the card stood.
    let word = sent.form.get("move").unwrap_or_default();
    let (word, seen) = word.split_once(':').map_or((word, sent.form.get("seen")), |(word, seen)| (word, Some(seen)));
    let wanted = Move::parse(word).ok_or_else(|| bad("move", "there is no such move".into()))?;
    let view = task_as_seen(context, id, seen)?;
    let text = sent.form.written("text");
    let mut args = args_of(json!({ "task_id": view.id }));
    let mut put = |name: &str, value: &str| {
        if !value.trim().is_empty() {
            args.insert(name.into(), json!(value));
        }
    };
    let tool = match wanted {
        Move::ToBacklog => return put_back(context, sent, &view).await,
        Move::Pick => "task_backlog_pick",
        Move::Approve => "task_approve",
        Move::Resume => {
            put("progress", &text);
            "task_resume"
        }
        Move::Block => {
            put("reason", &text);
            "task_block"
        }
        Move::Complete => {
            put("summary", &text);
            put("force_complete", sent.form.get("force").unwrap_or_default());
            "task_complete"
        }
        Move::Cancel => {
            put("reason", &text);
            "task_cancel"
        }
    };
    let done = called(context, &sent.caller, tool, args, &view.agent).await;
    let waits = || view.task.depends_on.iter().any(|first| context.tasks.open(first).is_some());
    done.map_err(|refusal| match refusal {
        Refusal::Conflict { said } if matches!(wanted, Move::Pick | Move::Resume | Move::Approve) && waits() => {
            Refusal::Waits { said }
        }
        refusal => refusal,
    })
}

async fn put_back(context: &Context, sent: &Sent, view: &View) -> Result<(), Refusal> {
    let (tasks, agent, id) = (context.tasks.clone(), view.agent.clone(), view.id.clone());
    let reason = format!("put back by {}", sent.caller.name);
    let work = async move {
        let done = tasks.give_up(agent, id, reason, true).await;
        done.map_err(|error| {
            if error.is_callers() {
                ErrorShape::invalid(error.to_string())
            } else {
                ErrorShape::unavailable(error.to_string())
            }
        })
    };
    let of = audit::of(&json!({ "taskId": view.id }));
    change(context, &sent.caller, "hub.task.backlog", of, work).await.map_err(refusal_of)
}

pub(super) async fn steps(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = changed_steps(&context, &id, &sent).await;
    let next = sent.back().to_owned();
    sent.answer(&context, done.map(|()| next)).await
}

async fn changed_steps(context: &Context, id: &str, sent: &Sent) -> Result<(), Refusal> {
    let view = task_as_seen(context, id, None)?;
    let wanted = sent.form.get("do").unwrap_or_default();
    let (word, rest) = wanted.split_once(':').unwrap_or((wanted, ""));
    let args = match word {
        "complete" | "skip" | "start" => json!({ "action": format!("{word}_step"), "step_id": rest }),
        "up" | "down" => json!({ "action": "reorder_steps", "steps_order": moved_step(&view, rest, word == "up")? }),
        "add" => json!({ "action": "add_step", "step_content": sent.form.written("content") }),
        _ => return Err(bad("do", "there is no such change of steps".into())),
    };
    let mut args = args_of(args);
    args.insert("task_id".into(), json!(view.id));
    called(context, &sent.caller, "task_update", args, &view.agent).await
}

/// The ids of a task's steps with one of them a place further.
fn moved_step(view: &View, id: &str, up: bool) -> Result<Vec<String>, Refusal> {
    let mut ids: Vec<String> = view.task.steps.iter().map(|step| step.id.clone()).collect();
    let gone = || Refusal::Gone { said: "there is no such step any more".into() };
    let at = ids.iter().position(|known| known == id).ok_or_else(gone)?;
    let with = if up { at.checked_sub(1) } else { Some(at + 1).filter(|with| *with < ids.len()) };
    if let Some(with) = with {
        ids.swap(at, with);
    }
    Ok(ids)
}

pub(super) async fn note(State(context): State<Context>, Named(id): Named<String>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = match task_as_seen(&context, &id, None) {
        Ok(view) => {
            let args = args_of(json!({ "task_id": view.id, "progress": sent.form.written("text") }));
            called(&context, &sent.caller, "task_update", args, &view.agent).await
        }
        Err(refusal) => Err(refusal),
    };
    let next = sent.back().to_owned();
    sent.answer(&context, done.map(|()| next)).await
}

/// The session of a chat, with an agent that talks to people.
fn chat_session(context: &Context, form: &Form) -> Result<SessionKey, Refusal> {
    let session = SessionKey::parse(form.get("session").unwrap_or_default());
    let session = session.map_err(|error| bad("session", error.to_string()))?;
    match context.hub.may_chat(&session) {
        true => Ok(session),
        false => Err(bad("session", "people talk to its orchestrator instead".into())),
    }
}

pub(super) async fn send(State(context): State<Context>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = said(&context, &sent).await;
    let (next, words) = (sent.back().to_owned(), sent.lang(&context).words());
    let told = done.map(|open| json!({ "next": next, "said": words.sent, "note": open_note(words, &open) }));
    sent.answer_with(&context, told).await
}

/// Which questions a message has not answered, since there are several; empty where it is clear what it was.
fn open_note(words: &Words, open: &[Value]) -> String {
    let lines: Vec<String> =
        open.iter().filter_map(|one| Some(format!("• {}", title_of(one["question"].as_str()?)))).collect();
    if lines.is_empty() { String::new() } else { format!("{}\n{}", words.several_open, lines.join("\n")) }
}

/// Passes a message on; tells which questions are open where it is not clear which of them it could answer.
async fn said(context: &Context, sent: &Sent) -> Result<Vec<Value>, Refusal> {
    let session = chat_session(context, &sent.form)?;
    let of = audit::of(&json!({ "sessionKey": session.to_string() }));
    let key = sent.form.text("key").unwrap_or_else(|| id::fresh(context.clock.now()).to_string());
    let message = Asked::new(key, "chat.send", session, sent.form.written("message"));
    let (inner, caller) = (context.clone(), sent.caller.clone());
    let work = async move { humans::accept(&inner, &caller, message).await.map(|(_, further)| further) };
    let further = change(context, &sent.caller, "chat.send", of, work).await.map_err(refusal_of)?;
    Ok(further["openQuestions"].as_array().cloned().unwrap_or_default())
}

pub(super) async fn abort(State(context): State<Context>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = match chat_session(&context, &sent.form) {
        Ok(session) => {
            let of = audit::of(&json!({ "sessionKey": session.to_string() }));
            let inner = context.clone();
            let work = async move { chat::stop(&inner, &session, None).await.map(|_| ()) };
            change(&context, &sent.caller, "chat.abort", of, work).await.map_err(refusal_of)
        }
        Err(refusal) => Err(refusal),
    };
    let next = sent.back().to_owned();
    sent.answer(&context, done.map(|()| next)).await
}
