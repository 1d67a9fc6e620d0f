//! What an answer sets going: a message to whoever asked, and one to the session of the task that waited.

use chela_question::{Question, State};

use super::Handle;
use crate::session_key::SessionKey;
use crate::sessions::{Asked, Origin, OriginKind, Part};

const SHOWN_CHARS: usize = 1_000;

impl Handle {
    /// The messages of a question that is over. Who is not there any more is told nothing.
    pub(super) fn messages(&self, question: &Question) -> Vec<Asked> {
        let settings = self.0.options.settings.current();
        let known = |key: &str| {
            let key = SessionKey::parse(key).ok()?;
            settings.config.agents.list.iter().any(|agent| agent.id == key.agent).then_some(key)
        };
        let mut messages: Vec<Asked> = Vec::new();
        for (nth, asker) in question.askers().into_iter().enumerate() {
            if let Some(session) = known(asker) {
                messages.push(to_asker(question, session, nth));
            } else {
                tracing::warn!(question = question.id, session = asker, "nobody is there to read the answer");
            }
        }
        let of_task = question.task_session_key.as_deref().filter(|key| !question.askers().contains(key));
        messages.extend(of_task.and_then(known).map(|session| to_task(question, session)));
        messages
    }
}

/// The run that an answer becomes in the session of an asker, by the asker's number; unless it was given there.
pub fn run_of(question: &Question, nth: usize) -> String {
    format!("{}:answer-{nth}", question.id)
}

fn to_asker(question: &Question, session: SessionKey, nth: usize) -> Asked {
    let answer = question.answer.as_ref().filter(|_| question.state == State::Answered);
    let chat = answer.and_then(|answer| answer.chat.as_ref()).filter(|chat| chat.session_key == session.to_string());
    let (key, method) = match (chat, answer) {
        (Some(chat), Some(answer)) => (chat.key.clone(), method_of(&answer.via)),
        _ => (run_of(question, nth), "human.answer"),
    };
    let shown = clip(&question.question);
    let of_task = question.task_id.as_deref().map(|id| format!(" for task {id}")).unwrap_or_default();
    let (kind, note, text) = match answer {
        Some(answer) if answer.by == "deadline" => (
            OriginKind::InternalSystem,
            format!(
                "Nobody answered in time, so this is the default answer to the question that you asked{of_task}: {shown}"
            ),
            answer.text.clone(),
        ),
        Some(answer) => (
            OriginKind::ExternalUser,
            format!("The answer of a person ({}) to the question that you asked{of_task}: {shown}", answer.by),
            answer.text.clone(),
        ),
        None => (
            OriginKind::InternalSystem,
            "Message of the gateway".to_owned(),
            format!(
                "Nobody answered the question that you asked{of_task} in time. Decide yourself, or ask again.\n\nThe question: {shown}"
            ),
        ),
    };
    Asked {
        origin: Origin { kind, note: Some(note), source_tool: Some("ask_human".into()), ..Origin::default() },
        part: part_of(question),
        // What was asked is answered, however much waits.
        over_queue: true,
        ..Asked::new(key, method, session, text)
    }
}

fn to_task(question: &Question, session: SessionKey) -> Asked {
    let task = question.task_id.as_deref().unwrap_or_default();
    let shown = clip(&question.question);
    let text = match &question.answer {
        Some(answer) => {
            format!(
                "Task {task} goes on: the question that held it up is answered.\n\nQuestion: {shown}\n\nAnswer: {}",
                answer.text
            )
        }
        None => format!("Task {task} goes on, though nobody answered the question that held it up: {shown}"),
    };
    Asked {
        origin: Origin { kind: OriginKind::InternalSystem, source_tool: Some("ask_human".into()), ..Origin::default() },
        part: part_of(question),
        over_queue: true,
        ..Asked::new(format!("{}:resume", question.id), "human.answer", session, text)
    }
}

fn part_of(question: &Question) -> Option<Part> {
    let work_session_id = question.work_session_id.clone()?;
    let conversation_id = question.conversation_id.clone().unwrap_or_else(|| question.id.clone());
    Some(Part { work_session_id, conversation_id, task_id: question.task_id.clone(), ..Part::default() })
}

/// The method by which a chat message came; its key is known by it.
fn method_of(via: &str) -> &'static str {
    let known = ["chat.send", "agent", "sessions.send", "v1.chat.completions", "channel"];
    known.into_iter().find(|known| *known == via).unwrap_or("human.answer")
}

fn clip(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}
