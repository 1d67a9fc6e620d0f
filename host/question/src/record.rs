//! A question as it is kept: whose it is, which task waits for it, and how it stands.

use serde::{Deserialize, Serialize};

/// How a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Requested,
    Answered,
    Expired,
}

impl State {
    pub const ALL: [Self; 3] = [Self::Requested, Self::Answered, Self::Expired];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Answered => "answered",
            Self::Expired => "expired",
        }
    }
}

/// What is still to be done about a question; whoever finds it after a crash goes on from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Its task is to be blocked, and the log told.
    Asking,
    /// A person has the word.
    Open,
    /// The log is to be told, the task resumed, the answer delivered.
    Resuming,
    /// The answer is delivered; the log is to be told that the task goes on.
    Telling,
    Done,
}

/// The task that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskRef {
    pub task_id: String,
    pub agent_id: String,
    /// Where its agent works on it.
    pub session_key: String,
}

/// Something that an agent wants to know from a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    pub id: String,
    pub agent_id: String,
    pub session_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The row of the transcript that shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// The call that asked, where it was one; the same again asks nothing new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    pub questions: Vec<String>,
    #[serde(default)]
    pub left_out: usize,
    pub at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_answer: Option<String>,
}

/// One time that a question was asked or added to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Asked {
    pub id: String,
    pub session_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    pub at: u64,
}

/// What was answered; the first one stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub text: String,
    /// The person's name, or `deadline`.
    pub by: String,
    /// By which method it came.
    pub via: String,
    pub at: u64,
    /// The chat message that it is, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat: Option<Chat>,
}

/// A message of a person that is taken as an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chat {
    /// By which its sender asks for the run.
    pub key: String,
    pub session_key: String,
}

/// A question to people and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    pub id: String,
    /// Counts its changes.
    pub rev: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    pub agent_id: String,
    /// `task:ID`, else `agent:ID`.
    pub node_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// All of it as one text, numbered where there are several.
    pub question: String,
    pub questions: Vec<String>,
    /// Further ones that were asked at once and are not here.
    #[serde(default)]
    pub left_out: usize,
    pub created_at: u64,
    pub updated_at: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<String>,
    pub asker_session_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_agent_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_session_key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_answer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escalated_at: Option<u64>,
    pub asks: Vec<Asked>,
    pub state: State,
    pub phase: Phase,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// Why it expired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Question {
    pub fn is_open(&self) -> bool {
        self.state == State::Requested
    }

    /// Whether an id means it: its own, or that of something that was added to it.
    pub fn is_called(&self, id: &str) -> bool {
        self.id == id || self.asks.iter().any(|ask| ask.id == id)
    }

    pub fn is_of_run(&self, run: &str) -> bool {
        self.asks.iter().any(|ask| ask.run_id.as_deref() == Some(run))
    }

    /// Every session that asked, each once.
    pub fn askers(&self) -> Vec<&str> {
        let mut askers: Vec<&str> = Vec::new();
        for ask in &self.asks {
            if !askers.contains(&&*ask.session_key) {
                askers.push(&ask.session_key);
            }
        }
        askers
    }
}

/// Several questions as one text.
pub fn numbered(questions: &[String], left_out: usize) -> String {
    let mut text = match questions {
        [one] => one.clone(),
        many => {
            let lines: Vec<String> =
                many.iter().enumerate().map(|(nth, question)| format!("{}. {question}", nth + 1)).collect();
            lines.join("\n")
        }
    };
    if left_out > 0 {
        text.push_str(&format!(
            "\n({left_out} further questions were left out; at most {} count at once)",
            crate::QUESTIONS_AT_ONCE
        ));
    }
    text
}
