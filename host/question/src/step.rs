//! How a question moves: asked, added to, answered or expired, and what is told of it.

use serde_json::{Map, Value, json};

use crate::record::{Answer, Ask, Asked, Chat, Phase, Question, State, numbered};

/// The longest answer.
pub const ANSWER_CHARS_MAX: usize = 16_000;
/// Questions that one query holds, however often it is added to.
pub const QUESTIONS_MAX: usize = 20;
/// Times that it may be added to; past them the oldest of the times in between is forgotten.
const ASKS_MAX: usize = 20;

/// What happens when nobody answers in time and there is no answer for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// It is told, once; the question stays open.
    Escalate,
    /// Whoever asked goes on without an answer.
    Expire,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The same task asks something more.
    Ask(Box<Ask>),
    /// The task is blocked and the log was told.
    Blocked,
    Answer {
        text: String,
        by: String,
        via: String,
        chat: Option<Chat>,
    },
    /// The time has come.
    Due(Deadline),
    /// The task that waited is over.
    TaskEnded {
        status: String,
    },
    /// The answer was delivered; whether the task goes on by it.
    Settled {
        resumed: bool,
    },
    /// The log was told that the task goes on.
    Told,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the answer is empty; say what is to be done")]
    Empty,
    #[error("an answer has at most {ANSWER_CHARS_MAX} characters; this one has {chars}")]
    TooLong { chars: usize },
    #[error("question {id} was answered by {by} already, and the first answer stands: {answer}")]
    Answered { id: String, by: String, answer: String },
    #[error("question {id} has expired ({reason}) and takes no answer any more")]
    Expired { id: String, reason: String },
    #[error("the question says nothing; write what a person is to answer")]
    NoQuestion,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Requested,
    Answered,
    Expired,
    TaskResumed,
}

impl What {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Answered => "answered",
            Self::Expired => "expired",
            Self::TaskResumed => "resumed",
        }
    }
}

/// Something that the log is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    pub what: What,
    pub data: Map<String, Value>,
}

/// A question after a step, and what is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Next {
    pub question: Question,
    pub told: Vec<Told>,
}

/// A question that was never asked before.
pub fn create(ask: Ask) -> Result<Next, Refused> {
    if ask.questions.iter().all(|question| question.trim().is_empty()) {
        return Err(Refused::NoQuestion);
    }
    let asked = asked(&ask);
    let node_id =
        ask.task.as_ref().map_or_else(|| format!("agent:{}", ask.agent_id), |task| format!("task:{}", task.task_id));
    let question = Question {
        id: ask.id,
        rev: 1,
        run_id: ask.run_id,
        task_id: ask.task.as_ref().map(|task| task.task_id.clone()),
        agent_id: ask.agent_id,
        node_id,
        message_id: ask.message_id,
        question: numbered(&ask.questions, ask.left_out),
        questions: ask.questions,
        left_out: ask.left_out,
        created_at: ask.at,
        updated_at: ask.at,
        work_session_id: ask.work_session_id,
        conversation_id: ask.conversation_id,
        asker_session_key: ask.session_key,
        task_agent_id: ask.task.as_ref().map(|task| task.agent_id.clone()),
        task_session_key: ask.task.map(|task| task.session_key),
        deadline: ask.deadline,
        default_answer: ask.default_answer,
        escalated_at: None,
        asks: vec![asked],
        state: State::Requested,
        phase: Phase::Asking,
        answer: None,
        reason: None,
    };
    let told = vec![Told { what: What::Requested, data: facts(&question) }];
    Ok(Next { question, told })
}

fn asked(ask: &Ask) -> Asked {
    Asked {
        id: ask.id.clone(),
        session_key: ask.session_key.clone(),
        run_id: ask.run_id.clone(),
        message_id: ask.message_id.clone(),
        cause: ask.cause.clone(),
        at: ask.at,
    }
}

/// What follows from something that happens to a question; none where that changes nothing.
pub fn step(question: &Question, input: Input, now: u64) -> Result<Option<Next>, Refused> {
    let mut next = question.clone();
    let told = match input {
        Input::Ask(ask) => match question.is_called(&ask.id) {
            true => return Ok(None),
            false => add(&mut next, *ask)?,
        },
        Input::Blocked if question.phase == Phase::Asking => {
            next.phase = Phase::Open;
            Vec::new()
        }
        Input::Answer { text, by, via, chat } => {
            check(question, &text)?;
            answer(&mut next, Answer { text, by, via, at: now, chat })
        }
        Input::Due(deadline) => match due(&mut next, deadline, now) {
            Some(told) => told,
            None => return Ok(None),
        },
        Input::TaskEnded { status } if question.is_open() => {
            (next.state, next.phase) = (State::Expired, Phase::Telling);
            next.reason = Some(format!("its task is {status}"));
            vec![expired(&next, "task_ended")]
        }
        Input::Settled { resumed } if question.phase == Phase::Resuming => {
            next.phase = Phase::Telling;
            let mut data = facts(&next);
            data.insert("answer".into(), json!(next.answer.as_ref().map(|answer| &answer.text)));
            let told = (resumed && next.task_id.is_some()).then_some(Told { what: What::TaskResumed, data });
            told.into_iter().collect()
        }
        Input::Told if question.phase == Phase::Telling => {
            next.phase = Phase::Done;
            Vec::new()
        }
        Input::Blocked | Input::TaskEnded { .. } | Input::Settled { .. } | Input::Told => return Ok(None),
    };
    next.rev += 1;
    next.updated_at = now;
    Ok(Some(Next { question: next, told }))
}

fn check(question: &Question, text: &str) -> Result<(), Refused> {
    let id = question.id.clone();
    match (question.state, &question.answer) {
        (State::Requested, _) => {}
        (State::Expired, _) | (State::Answered, None) => {
            return Err(Refused::Expired { id, reason: question.reason.clone().unwrap_or_default() });
        }
        (State::Answered, Some(first)) => {
            return Err(Refused::Answered { id, by: first.by.clone(), answer: clip(&first.text, 200) });
        }
    }
    let chars = text.chars().count();
    match chars {
        _ if text.trim().is_empty() => Err(Refused::Empty),
        0..=ANSWER_CHARS_MAX => Ok(()),
        _ => Err(Refused::TooLong { chars }),
    }
}

fn add(next: &mut Question, ask: Ask) -> Result<Vec<Told>, Refused> {
    if ask.questions.iter().all(|question| question.trim().is_empty()) {
        return Err(Refused::NoQuestion);
    }
    if !next.is_open() {
        // Whoever adds looks for an open one; this is a question of its own.
        return Err(Refused::Expired { id: next.id.clone(), reason: "it is over".into() });
    }
    let free = QUESTIONS_MAX.saturating_sub(next.questions.len());
    // Two who ask the same at one moment ask once.
    let new: Vec<String> = ask.questions.iter().filter(|text| !next.questions.contains(text)).cloned().collect();
    next.left_out += ask.left_out + new.len().saturating_sub(free);
    if next.asks.len() >= ASKS_MAX {
        next.asks.remove(1);
    }
    next.asks.push(asked(&ask));
    next.questions.extend(new.into_iter().take(free));
    next.question = numbered(&next.questions, next.left_out);
    // The nearer deadline counts, and the answer for it that was given last.
    let waits = next.deadline.filter(|_| next.escalated_at.is_none());
    if ask.deadline.is_some() {
        // One that passed is over; the new one is waited for.
        next.escalated_at = None;
    }
    next.deadline = match (waits, ask.deadline) {
        (Some(first), Some(second)) => Some(first.min(second)),
        (first, second) => first.or(second).or(next.deadline),
    };
    next.default_answer = ask.default_answer.or(next.default_answer.take());
    next.phase = Phase::Asking;
    let mut data = facts(next);
    data.insert("added".into(), json!(true));
    Ok(vec![Told { what: What::Requested, data }])
}

fn answer(next: &mut Question, given: Answer) -> Vec<Told> {
    let mut data = facts(next);
    data.insert("answer".into(), json!(given.text));
    data.insert("by".into(), json!(given.by));
    data.insert("via".into(), json!(given.via));
    (next.state, next.phase) = (State::Answered, Phase::Resuming);
    next.answer = Some(given);
    vec![Told { what: What::Answered, data }]
}

fn due(next: &mut Question, deadline: Deadline, now: u64) -> Option<Vec<Told>> {
    if !next.is_open() || next.escalated_at.is_some() || next.deadline.is_none_or(|at| at > now) {
        return None;
    }
    if let Some(text) = next.default_answer.clone() {
        let mut told = vec![expired(next, "default_answer")];
        let given = Answer { text, by: "deadline".into(), via: "deadline".into(), at: now, chat: None };
        told.extend(answer(next, given));
        return Some(told);
    }
    Some(match deadline {
        Deadline::Escalate => {
            next.escalated_at = Some(now);
            vec![expired(next, "escalated")]
        }
        Deadline::Expire => {
            (next.state, next.phase) = (State::Expired, Phase::Resuming);
            next.reason = Some("nobody answered in time".into());
            vec![expired(next, "expired")]
        }
    })
}

fn expired(question: &Question, outcome: &str) -> Told {
    let mut data = facts(question);
    data.insert("outcome".into(), json!(outcome));
    Told { what: What::Expired, data }
}

/// What everything that is told of a question says.
fn facts(question: &Question) -> Map<String, Value> {
    let facts = json!({
        "questionId": question.id, "runId": question.run_id, "taskId": question.task_id, "nodeId": question.node_id,
        "messageId": question.message_id, "question": question.question, "questions": question.questions,
        "leftOut": (question.left_out > 0).then_some(question.left_out), "workSessionId": question.work_session_id,
        "conversationId": question.conversation_id, "sessionKey": question.asker_session_key, "askedBy": question.agent_id,
        "taskAgentId": question.task_agent_id, "taskSessionKey": question.task_session_key, "deadline": question.deadline,
        "defaultAnswer": question.default_answer, "escalatedAt": question.escalated_at, "createdAt": question.created_at,
        "asks": question.asks,
    });
    match facts {
        Value::Object(mut facts) => {
            facts.retain(|_, value| !value.is_null());
            facts
        }
        _ => Map::new(),
    }
}

fn clip(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}
