//! A form on its way: read within its limits, made a change like any other, and answered for the script or as a page.

use axum::Json;
use axum::extract::Request;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use chela_page::Lang;
use serde_json::{Map, Value, json};

use super::form::Form;
use super::look::{done_at, lang, shell};
use super::refused::told;
use super::{SCRIPT, html, own_path};
use crate::edge::frame::{ErrorCode, Request as Frame};
use crate::edge::params::bad;
use crate::edge::table::{Caller, Reply};
use crate::edge::tools::{Failure, invoked};
use crate::edge::{Context, ErrorShape, Refusal};
use crate::id::AgentId;
use crate::session_key::SessionKey;
use crate::tools::Call;

/// Fields that people write into; what they hold is not lost when it is refused.
const TYPED: [&str; 11] =
    ["answer", "text", "content", "message", "rules", "config", "title", "description", "source", "task", "due"];

/// A form on its way: who sent it, what it says, and how the answer is to look.
pub(super) struct Sent {
    pub(super) caller: Caller,
    pub(super) form: Form,
    head: Parts,
}

impl Sent {
    pub(super) async fn read(context: &Context, request: Request) -> Result<Self, Box<Response>> {
        let caller = Caller::of(&request);
        let (head, body) = request.into_parts();
        match Form::read(context, body).await {
            Ok(form) => Ok(Self { caller, form, head }),
            Err(refusal) => Err(Box::new(answer_refused(context, &head, &refusal, &[], "/").await)),
        }
    }

    /// What came without a form.
    pub(super) fn of(caller: Caller, head: Parts) -> Self {
        Self { caller, form: Form::default(), head }
    }

    /// The language that the answer is read in.
    pub(super) fn lang(&self, context: &Context) -> Lang {
        lang(&self.head.headers, context.settings.current().config.deployment.locale)
    }

    pub(super) fn back(&self) -> &str {
        own_path(self.form.get("back").unwrap_or("/"))
    }

    /// Nothing is done to what is no longer as its reader saw it, where the form says how that was.
    pub(super) fn as_seen(&self, what: &str, now: Option<&str>) -> Result<(), Refusal> {
        match self.form.get("seen") {
            Some(seen) if now.is_some_and(|now| now != seen) => Err(Refusal::Changed {
                said: format!("{what} has changed since you looked; see how it is now, and try again"),
            }),
            _ => Ok(()),
        }
    }

    /// Done, or why not: for the script in JSON; else on to the page, or a page that has what was typed.
    pub(super) async fn answer(self, context: &Context, done: Result<String, Refusal>) -> Response {
        self.answer_with(context, done.map(|next| json!({ "next": next }))).await
    }

    /// The same with more to say than where to go on: `said` in a word, `note` for what is to be read.
    pub(super) async fn answer_with(self, context: &Context, done: Result<Value, Refusal>) -> Response {
        match done {
            Ok(told) if self.head.headers.contains_key(SCRIPT) => Json(told).into_response(),
            Ok(told) => done_at(told["next"].as_str().unwrap_or("/")),
            Err(refusal) => {
                let typed = TYPED.iter().filter_map(|name| Some(((*name).to_owned(), self.form.text(name)?)));
                answer_refused(context, &self.head, &refusal, &typed.collect::<Vec<_>>(), self.back()).await
            }
        }
    }
}

/// For the script in JSON, else as a page; either way in the reader's language.
pub(in crate::edge) async fn answer_refused(
    context: &Context,
    head: &Parts,
    refusal: &Refusal,
    typed: &[(String, String)],
    back: &str,
) -> Response {
    if head.headers.contains_key(SCRIPT) {
        let locale = context.settings.current().config.deployment.locale;
        let told = told(lang(&head.headers, locale), refusal);
        return refusal.saying(&told.said, told.detail.as_deref());
    }
    let mut shell = shell(context, head).await;
    if matches!(refusal, Refusal::Host) {
        // Who calls us by a name of theirs may be a page that reads what comes: it learns nothing of this deployment.
        shell.deployment = "Chela".to_owned();
    }
    let page = chela_page::refused(&shell, &told(shell.lang, refusal), typed, back).whole(&shell);
    let (page, text) = html(refusal.status(), page).into_parts();
    // With what programs and the metrics read of any refusal.
    let mut response = refusal.clone().into_response();
    response.headers_mut().extend(page.headers);
    *response.body_mut() = text;
    response
}

/// Does what a method of this name does, under the caller's scope and with its line in the audit log.
pub(super) async fn by_method(
    context: &Context,
    caller: &Caller,
    method: &str,
    params: Value,
) -> Result<Value, Refusal> {
    let done = context.methods.call(context, caller, Frame::new(method.to_owned(), params)).await;
    done.map(Reply::into_value).map_err(refusal_of)
}

/// Calls a tool as an agent would, through every guard; what it refuses is said as it says it.
pub(super) async fn called(
    context: &Context,
    caller: &Caller,
    tool: &str,
    args: Map<String, Value>,
    agent: &AgentId,
) -> Result<(), Refusal> {
    let call = Call::of_caller(tool, args, SessionKey::main(agent.clone())).by_person(&caller.name);
    match invoked(context, caller, call).await {
        Ok(answer) if answer.get("success") == Some(&json!(true)) => Ok(()),
        Ok(answer) => {
            let said =
                ["error", "instruction", "message", "reason"].iter().find_map(|name| answer.get(*name)?.as_str());
            let said = said.unwrap_or("it was refused").to_owned();
            match answer.contains_key("blocked_by") {
                true => Err(Refusal::Guarded { said }),
                false => Err(Refusal::Conflict { said }),
            }
        }
        Err(Failure::Tool(error @ crate::tools::Error::Arguments { .. })) => Err(bad("text", error.to_string())),
        Err(error) => Err(Refusal::Unavailable { said: error.to_string() }),
    }
}

pub(super) fn args_of(value: Value) -> Map<String, Value> {
    crate::bus::data(value)
}

pub(super) fn refusal_of(error: ErrorShape) -> Refusal {
    match error.code == ErrorCode::InvalidRequest {
        true => Refusal::Conflict { said: error.message },
        false => Refusal::Unavailable { said: error.message },
    }
}
