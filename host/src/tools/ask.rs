//! `ask_human`: an orchestrator asks people in the middle of a run; the same way as the marker in its last words.

use chela_question::{ANSWER_CHARS_MAX, QUESTION_CHARS_MAX};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Call, Options};
use crate::bus::data;
use crate::humans::{self, Wanted};
use crate::results::Key;
use crate::schema::Schema;
use crate::session_key::SessionKey;
use crate::tasks::ToolSpec;

pub(super) const NAME: &str = "ask_human";
const MINUTES_MAX: u64 = 525_600;

pub(super) const TOOLS: &[ToolSpec] = &[ToolSpec {
    name: NAME,
    description: "Ask a person. The task waits, and the answer comes to you as a message: end your turn after it.",
    schema: Schema::of::<Ask>,
    reads: false,
}];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Ask {
    #[schemars(length(min = 1, max = QUESTION_CHARS_MAX))]
    question: String,
    /// The task that waits for it; else the one that this conversation is about
    #[serde(default)]
    #[schemars(length(min = 1, max = 128))]
    task_id: Option<String>,
    /// How long a person may take
    #[serde(default)]
    #[schemars(range(min = 1, max = MINUTES_MAX))]
    deadline_minutes: Option<u64>,
    /// What holds if nobody answers by then
    #[serde(default)]
    #[schemars(length(min = 1, max = ANSWER_CHARS_MAX))]
    default_answer: Option<String>,
}

pub(super) async fn run(options: &Options, call: &Call, args: Map<String, Value>) -> Map<String, Value> {
    let refused = |said: String| data(json!({ "success": false, "error": said }));
    let asked: Ask = match serde_json::from_value(Value::Object(args)) {
        Ok(asked) => asked,
        Err(error) => return refused(error.to_string()),
    };
    if asked.question.trim().is_empty() {
        return refused(humans::Error::from(chela_question::Refused::NoQuestion).to_string());
    }
    let run = call.run.as_ref();
    let cause = match (run, &call.key) {
        (Some(run), _) => Some(format!("{}:{}", run.run, run.call)),
        (None, Some(key)) => Key::given(key).ok().map(|key| key.digits()),
        (None, None) => None,
    };
    let wanted = Wanted {
        session: call.session.clone(),
        question: asked.question,
        task: asked.task_id,
        deadline_minutes: asked.deadline_minutes,
        default_answer: asked.default_answer,
        cause,
        run: run.map(|run| run.run.clone()),
        part: run.and_then(|run| run.part.clone()),
        sender: run.and_then(|run| SessionKey::parse(run.sender.as_deref()?).ok()),
    };
    match options.humans.ask(wanted).await {
        Ok(question) => data(json!({
            "success": true, "status": "asked", "id": question.id, "taskId": question.task_id, "deadline": question.deadline,
            "note": "a person is asked; end your turn, the answer comes to you as a message",
        })),
        Err(error) => refused(error.to_string()),
    }
}
