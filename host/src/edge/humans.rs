//! Questions to people: asked for, answered and listed, as methods and as paths; and chat messages that are answers.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, Request as HttpRequest, State};
use chela_question::{Chat, Question, Refused, State as Stands};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::params::{Given, LIMIT, LIMIT_MAX, Named, Param, bad};
use super::table::{Caller, Reply, change};
use super::{Access, Context, ErrorShape, Methods, Refusal, Routes, audit, body};
use crate::humans::{self, Asked, Error, Listed, Which};
use crate::port::Port;
use crate::scope::Scope;
use crate::sessions::{Asked as Message, OriginKind, Progress, Receipt};

/// Questions that the answer to a chat message names.
const NAMED_MAX: usize = 10;
const SHOWN_CHARS: usize = 300;
const BODY_BYTES_MAX: usize = 256 * 1024;

pub(super) const QUESTIONS: &[Param] =
    &[Param::QuestionState, Param::Agent, Param::TaskOfQuestion, Param::Run, Param::JobCursor, Param::Limit];
pub(super) const CONVERSATION: &[Param] = &[Param::Run, Param::JobCursor, Param::Limit];

pub(super) fn methods(methods: Methods) -> Methods {
    methods
        .add_for("human.answer", Scope::Write, answer)
        .add("human.pending", Scope::Read, pending)
        .add("human.get", Scope::Read, get)
        .add("question.list", Scope::Read, question_list)
        .add("task.conversation", Scope::Read, conversation)
}

pub(super) fn routes(routes: Routes) -> Routes {
    const ALL: &[Port] = &Port::ALL;
    routes
        .get("/api/human-queries", Access::Watching, ALL, page)
        .post("/api/human-queries/{id}/answer", Access::Needs(Scope::Write), &[Port::Gateway, Port::Hub], answer_one)
        .get("/api/tasks/{id}/conversation", Access::Watching, ALL, conversation_page)
}

impl From<Error> for ErrorShape {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::Unknown(_) | Error::NoneOpen(_) => Some("UNKNOWN_QUESTION"),
            Error::Refused(Refused::Answered { .. }) => Some("QUESTION_ANSWERED"),
            Error::Refused(Refused::Expired { .. }) => Some("QUESTION_EXPIRED"),
            Error::Several(_) => Some("SEVERAL_QUESTIONS"),
            Error::Other { .. } => Some("OTHER_QUESTION"),
            _ => None,
        };
        let shape = match error.is_callers() {
            true => Self::invalid(error.to_string()),
            false => Self::unavailable(error.to_string()),
        };
        match code {
            Some(code) => shape.with_details(json!({ "code": code })),
            None => shape,
        }
    }
}

impl From<crate::dialogues::Error> for ErrorShape {
    fn from(error: crate::dialogues::Error) -> Self {
        match error.is_callers() {
            true => Self::invalid(error.to_string()),
            false => Self::unavailable(error.to_string()),
        }
    }
}

fn refusal_of(error: &Error) -> Refusal {
    let said = error.to_string();
    match error {
        Error::Unknown(id) => Refusal::NoSuch { what: format!("question {id}") },
        Error::Refused(Refused::Answered { .. }) => Refusal::Answered { said },
        Error::Refused(Refused::Expired { .. }) => Refusal::Expired { said },
        Error::Refused(_) => bad("answer", said),
        Error::BadCursor => bad("cursor", said),
        error if error.is_callers() => bad("id", said),
        _ => Refusal::Unavailable { said },
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct AnswerParams {
    #[schemars(length(min = 1, max = 256))]
    id: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    run_id: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    task_id: Option<String>,
    answer: String,
}

async fn answer(context: Context, caller: Caller, asked: AnswerParams) -> Result<Reply, ErrorShape> {
    let which = Which { id: asked.id, run: asked.run_id, task: asked.task_id };
    let given = humans::Given { text: asked.answer, by: caller.name, via: "human.answer", chat: None };
    let question = context.humans.answer(&which, given).await?;
    Ok(json!({ "question": *question }).into())
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Pending {
    #[schemars(length(min = 1, max = 256))]
    run_id: Option<String>,
    #[schemars(length(min = 1, max = 128))]
    agent_id: Option<String>,
    #[schemars(length(min = 1, max = 256))]
    task_id: Option<String>,
    /// Those that are over too.
    #[serde(default)]
    all: bool,
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    cursor: Option<String>,
}

async fn pending(context: Context, asked: Pending) -> Result<Value, ErrorShape> {
    let states = if asked.all { Vec::new() } else { vec![Stands::Requested] };
    let asked = Asked {
        states,
        run: asked.run_id,
        agent: asked.agent_id,
        task: asked.task_id,
        limit: asked.limit.unwrap_or(LIMIT),
        cursor: asked.cursor,
    };
    Ok(shown(&context.humans.list(asked).await?))
}

fn shown(listed: &Listed) -> Value {
    let questions: Vec<&Question> = listed.questions.iter().map(Arc::as_ref).collect();
    match &listed.next {
        Some(next) => json!({ "questions": questions, "nextCursor": next }),
        None => json!({ "questions": questions }),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct One {
    #[schemars(length(min = 1, max = 256))]
    id: String,
}

async fn get(context: Context, asked: One) -> Result<Value, ErrorShape> {
    Ok(json!({ "question": *context.humans.get(&asked.id)? }))
}

/// What existing clients may ask with.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
struct OldList {
    agent_id: Option<Value>,
    session_key: Option<Value>,
    status: Option<Value>,
    include_disabled: Option<Value>,
    limit: Option<u64>,
    offset: Option<u64>,
}

/// Open questions in the shape that existing clients know.
async fn question_list(context: Context, asked: OldList) -> Result<Value, ErrorShape> {
    let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let (agent, session) = (text(asked.agent_id), text(asked.session_key));
    let limit = asked.limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(LIMIT_MAX).clamp(1, LIMIT_MAX);
    let wanted = Asked { states: vec![Stands::Requested], agent, limit, ..Asked::default() };
    let listed = context.humans.list(wanted).await?;
    let of_session = |question: &&Arc<Question>| session.as_ref().is_none_or(|key| question.askers().contains(&&**key));
    let row = |question: &Arc<Question>| {
        json!({
            "id": question.id, "question": question.question, "prompt": question.question, "status": "pending",
            "agentId": question.agent_id, "sessionKey": question.asker_session_key, "runId": question.run_id,
            "taskId": question.task_id, "createdAt": question.created_at, "expiresAt": question.deadline,
        })
    };
    Ok(json!({ "questions": listed.questions.iter().filter(of_session).map(row).collect::<Vec<_>>() }))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Conversation {
    #[schemars(length(min = 1, max = 256))]
    task_id: String,
    #[schemars(length(min = 1, max = 256))]
    run_id: Option<String>,
    #[schemars(range(min = 1, max = LIMIT_MAX))]
    limit: Option<usize>,
    #[schemars(length(max = 512))]
    cursor: Option<String>,
}

async fn conversation(context: Context, asked: Conversation) -> Result<Value, ErrorShape> {
    let limit = asked.limit.unwrap_or(LIMIT_MAX);
    let page =
        context.dialogues.of_task(&asked.task_id, asked.run_id.as_deref(), asked.cursor.as_deref(), limit).await?;
    let task = super::old_tasks::find(&context, asked.task_id.clone()).await?;
    if task.is_none() && page.total == 0 {
        let id: String = asked.task_id.chars().take(80).collect();
        return Err(ErrorShape::invalid(format!("no task has the id {id:?}; `tasks.list` tells which there are")));
    }
    let work_session = task.and_then(|view| view.task.work_session.clone());
    let mut answer =
        json!({ "taskId": asked.task_id, "workSessionId": work_session, "turns": page.turns, "total": page.total });
    if let Some(next) = page.next {
        answer["nextCursor"] = json!(next);
    }
    Ok(answer)
}

/// `GET /api/human-queries`: the open ones unless `state` says which.
async fn page(State(context): State<Context>, RawQuery(query): RawQuery) -> Result<Json<Value>, Refusal> {
    let given = Given::parse(QUESTIONS, query.as_deref())?;
    let words = given.list(Param::QuestionState)?;
    let states: Vec<Stands> =
        Stands::ALL.into_iter().filter(|state| words.iter().any(|word| word == state.as_str())).collect();
    let agents = given.list(Param::Agent)?;
    if agents.len() > 1 {
        return Err(bad("agentId", "one agent at a time".into()));
    }
    let asked = Asked {
        states: if words.is_empty() { vec![Stands::Requested] } else { states },
        run: given.id(Param::Run)?,
        agent: agents.into_iter().next(),
        task: given.id(Param::TaskOfQuestion)?,
        limit: given.limit()?,
        cursor: given.id(Param::JobCursor)?,
    };
    let listed = context.humans.list(asked).await.map_err(|error| refusal_of(&error))?;
    let questions: Vec<&Question> = listed.questions.iter().map(Arc::as_ref).collect();
    Ok(Json(json!({ "humanQueries": questions, "nextCursor": listed.next })))
}

/// `POST /api/human-queries/{id}/answer` with `{answer}`.
async fn answer_one(
    State(context): State<Context>,
    Named(id): Named<String>,
    request: HttpRequest,
) -> Result<Json<Value>, Refusal> {
    let caller = Caller::of(&request);
    let bytes = body::read_up_to(&context, request.into_body(), BODY_BYTES_MAX).await?;
    let body: Value = serde_json::from_slice(&bytes).map_err(|error| bad("body", format!("not JSON: {error}")))?;
    let fields =
        body.as_object().ok_or_else(|| bad("body", "must be an object such as {\"answer\": \"yes\"}".into()))?;
    if let Some(unknown) = fields.keys().find(|name| *name != "answer") {
        return Err(bad(&unknown.chars().take(64).collect::<String>(), "there is no such field".into()));
    }
    let text = fields.get("answer").and_then(Value::as_str).ok_or_else(|| bad("answer", "must be a text".into()))?;
    let question = answer_as(&context, &caller, id, text.to_owned(), "api").await?;
    Ok(Json(json!(*question)))
}

/// Answers a question for a person; the change is in the audit log before it is made.
pub(super) async fn answer_as(
    context: &Context,
    caller: &Caller,
    id: String,
    text: String,
    via: &'static str,
) -> Result<Arc<Question>, Refusal> {
    let given = humans::Given { text, by: caller.name.clone(), via, chat: None };
    let of = audit::of(&json!({ "id": id }));
    let (told, outcome) = tokio::sync::oneshot::channel();
    let humans = context.humans.clone();
    let work = async move {
        let done = humans.answer(&Which { id: Some(id), ..Which::default() }, given).await;
        let audited = done.as_ref().map(|_| json!({})).map_err(|error| ErrorShape::invalid(error.to_string()));
        drop(told.send(done));
        audited
    };
    let changed = change(context, caller, "human.answer", of, work).await;
    match (outcome.await, changed) {
        (Ok(Ok(question)), _) => Ok(question),
        (Ok(Err(error)), _) => Err(refusal_of(&error)),
        (Err(_), Err(error)) => Err(Refusal::Unavailable { said: error.message }),
        (Err(_), Ok(_)) => Err(Refusal::Unavailable { said: "the answer was cut off".into() }),
    }
}

/// `GET /api/tasks/{id}/conversation`.
async fn conversation_page(
    State(context): State<Context>,
    Named(id): Named<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Refusal> {
    let given = Given::parse(CONVERSATION, query.as_deref())?;
    let (run, cursor, limit) = (given.id(Param::Run)?, given.id(Param::JobCursor)?, given.limit()?);
    let page = context.dialogues.of_task(&id, run.as_deref(), cursor.as_deref(), limit).await;
    let page = page.map_err(|error| match error {
        crate::dialogues::Error::BadCursor => bad("cursor", error.to_string()),
        crate::dialogues::Error::OtherRun { .. } => bad("runId", error.to_string()),
        error => Refusal::Unavailable { said: error.to_string() },
    })?;
    let tasks = context.tasks.clone();
    let name = id.clone();
    let task = tokio::task::spawn_blocking(move || tasks.find(&name)).await.ok().flatten();
    if task.is_none() && page.total == 0 {
        return Err(super::monitor::no_such("task", &id));
    }
    let work_session = task.and_then(|view| view.task.work_session.clone());
    Ok(Json(json!({
        "taskId": id, "workSessionId": work_session, "turns": page.turns, "total": page.total, "nextCursor": page.next,
    })))
}

/// Accepts a message of a person. Where its session waits for exactly one answer it is that; where for several, it stays a message, and
/// sender and model are told what is open.
pub(super) async fn accept(
    context: &Context,
    caller: &Caller,
    mut message: Message,
) -> Result<(Receipt, Value), ErrorShape> {
    if message.text.trim().is_empty() {
        return Err(ErrorShape::invalid("the message is empty; say what is wanted"));
    }
    let is_known = context.sessions.session_of_run(&message.key).is_some();
    let is_persons = message.origin.kind == OriginKind::ExternalUser && message.origin.source_channel.is_none();
    let open = if is_persons && !is_known { context.humans.open_in(&message.session) } else { Vec::new() };
    match open.as_slice() {
        [] => {}
        [one] => {
            if let Some(question) = answered(context, caller, one, &message).await? {
                let receipt = context.sessions.accept(message).await?;
                let told =
                    json!({ "humanQuery": { "id": question.id, "taskId": question.task_id, "state": question.state } });
                // To its sender it begins now, however quick it was.
                return Ok((Receipt { again: false, progress: Progress::Queued, ..receipt }, told));
            }
        }
        several => {
            let lines: Vec<String> = several
                .iter()
                .take(NAMED_MAX)
                .map(|question| format!("{} ({}): {}", question.id, question.node_id, clip(&question.question)))
                .collect();
            message.origin.note = Some(format!(
                "Message of a person, and not an answer: {} of your questions are open, and each is answered by its id. They are:\n{}",
                several.len(),
                lines.join("\n")
            ));
        }
    }
    let receipt = context.sessions.accept(message).await?;
    Ok((receipt, open_questions(&open)))
}

/// The question that a message has answered; none where it is no answer after all.
async fn answered(
    context: &Context,
    caller: &Caller,
    question: &Question,
    message: &Message,
) -> Result<Option<Arc<Question>>, ErrorShape> {
    context.sessions.vet(message)?;
    let chat = Chat { key: message.key.clone(), session_key: message.session.to_string() };
    let given =
        humans::Given { text: message.text.clone(), by: caller.name.clone(), via: message.method, chat: Some(chat) };
    match context.humans.answer(&Which { id: Some(question.id.clone()), ..Which::default() }, given).await {
        Ok(question) => Ok(Some(question)),
        // It says nothing or too much, or somebody was quicker: a message like any other.
        Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn open_questions(open: &[Arc<Question>]) -> Value {
    if open.len() < 2 {
        return json!({});
    }
    let row = |question: &Arc<Question>| json!({ "id": question.id, "taskId": question.task_id, "nodeId": question.node_id, "question": question.question });
    json!({ "openQuestions": open.iter().take(NAMED_MAX).map(row).collect::<Vec<_>>() })
}

fn clip(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}

/// An answer with what else is to be said in it.
pub(super) fn with(mut answer: Value, further: Value) -> Value {
    if let (Some(answer), Value::Object(further)) = (answer.as_object_mut(), further) {
        answer.extend(further);
    }
    answer
}
