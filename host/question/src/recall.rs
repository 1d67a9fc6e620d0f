//! A question made again from what the log was told of it, for whoever has lost the record.

use serde_json::{Map, Value};

use crate::record::{Asked, Phase, Question, State};
use crate::step::What;

/// What one telling says of a question: how it stood then. Each says everything, so the last one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recalled {
    /// A person has the word. Its task is blocked again if it is not.
    Open(Box<Question>),
    /// It is over.
    Over { id: String },
}

/// Reads what was told; none where that does not say enough.
pub fn recall(what: What, data: &Map<String, Value>, rev: u64, at: u64) -> Option<Recalled> {
    let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
    let number = |key: &str| data.get(key).and_then(Value::as_u64);
    let id = text("questionId")?;
    let is_open = match what {
        What::Requested => true,
        // It was told that nobody answers, and stays open.
        What::Expired => data.get("outcome").is_some_and(|outcome| outcome == "escalated"),
        What::Answered | What::TaskResumed => false,
    };
    if !is_open {
        return Some(Recalled::Over { id });
    }
    let asks: Vec<Asked> = serde_json::from_value(data.get("asks")?.clone()).ok()?;
    let questions: Vec<String> = serde_json::from_value(data.get("questions")?.clone()).ok()?;
    if asks.is_empty() || questions.is_empty() {
        return None;
    }
    Some(Recalled::Open(Box::new(Question {
        id,
        rev,
        run_id: text("runId"),
        task_id: text("taskId"),
        agent_id: text("askedBy")?,
        node_id: text("nodeId")?,
        message_id: text("messageId"),
        question: text("question")?,
        questions,
        left_out: number("leftOut").and_then(|count| usize::try_from(count).ok()).unwrap_or(0),
        created_at: number("createdAt")?,
        updated_at: at,
        work_session_id: text("workSessionId"),
        conversation_id: text("conversationId"),
        asker_session_key: text("sessionKey")?,
        task_agent_id: text("taskAgentId"),
        task_session_key: text("taskSessionKey"),
        deadline: number("deadline"),
        default_answer: text("defaultAnswer"),
        escalated_at: number("escalatedAt"),
        asks,
        state: State::Requested,
        phase: Phase::Asking,
        answer: None,
        reason: None,
    })))
}
