//! The calls of tools that a model asks for, one after the other, each with its intent on record before it is made.

use chela_model::{Answer, ToolCall};
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;

use super::voice::Voice;
use super::{Shared, prompt};
use crate::config::Agent;
use crate::sessions::{self, Step, Turn};
use crate::tools::{self, Call, InRun};

/// The longest result that a model is given.
const RESULT_CHARS_MAX: usize = 64_000;

/// Calls of the last answer that have no result yet, and whether the first of them may have been made already.
pub(super) fn open(steps: &[Step]) -> (Vec<ToolCall>, bool) {
    let last = steps.iter().rposition(|step| matches!(step, Step::Answered { .. }));
    let Some((Some(Step::Answered { answer: Answer { calls, .. }, .. }), rest)) =
        last.map(|at| (steps.get(at), &steps[at + 1..]))
    else {
        return (Vec::new(), false);
    };
    let done = |id: &str| rest.iter().any(|step| matches!(step, Step::Result { call_id, .. } if call_id == id));
    let left: Vec<ToolCall> = calls.iter().filter(|call| !done(&call.id)).cloned().collect();
    let meant = left.first().is_some_and(|first| {
        rest.iter().any(|step| matches!(step, Step::Intent { call_id, .. } if *call_id == first.id))
    });
    (left, meant)
}

impl Shared {
    /// Makes the open calls. `made_before`: the first may have been made before a crash.
    pub(super) async fn make_calls(
        &self,
        agent: &Agent,
        turn: &mut Turn,
        voice: &mut Voice,
        place: &mut Option<OwnedSemaphorePermit>,
        interrupted: bool,
    ) -> Result<(), sessions::Error> {
        let (calls, mut made_before) = open(&turn.steps);
        made_before &= interrupted;
        for (nth, call) in calls.iter().enumerate() {
            let args = Value::Object(call.arguments.clone());
            voice.call_begun(&call.id, &call.name, &args);
            let (text, is_error) = if made_before && !is_repeatable(call) {
                let said = "interrupted: the gateway stopped while this call was made, and its outcome is unknown; look before you repeat it";
                (json!({ "success": false, "error": said }).to_string(), true)
            } else {
                self.make(agent, turn, call, place).await
            };
            made_before = false;
            voice.call_ended(&call.id, &call.name, &text, is_error);
            let at = self.options.clock.now();
            let begun = begun_task(call, &text).filter(|_| !is_error);
            let about = begun.map(|task| Step::About { task_ids: vec![task], at });
            let result = Step::Result { call_id: call.id.clone(), tool: call.name.clone(), text, is_error, at };
            let next = calls.get(nth + 1).map(|next| Step::Intent { call_id: next.id.clone(), at });
            turn.record(about.into_iter().chain([result]).chain(next).collect()).await?;
        }
        Ok(())
    }

    async fn make(
        &self,
        agent: &Agent,
        turn: &Turn,
        call: &ToolCall,
        place: &mut Option<OwnedSemaphorePermit>,
    ) -> (String, bool) {
        let refused = |said: String| (json!({ "success": false, "error": said }).to_string(), true);
        let (tool, args) = match unwrapped(call) {
            Ok(meant) => meant,
            Err(said) => return refused(said),
        };
        if tool == "tool_describe" {
            return described(agent, &args);
        }
        if !agent.may_call(&tool) {
            return refused(format!("you may not call {tool:?}"));
        }
        // Whoever waits for another gives its place to it.
        if tool == "sessions_send" {
            drop(place.take());
        }
        let (run, name) = (turn.id().to_owned(), turn.name_of_call(&call.id));
        let (chain, part) = (turn.message().chain.clone(), turn.message().part.clone());
        let sender = turn.message().origin.source_session_key.clone();
        let run = InRun { run, call: name, chain, part, sender };
        let asked = Call { tool, args, session: turn.session().clone(), run: Some(run), key: None, person: None };
        let done = self.options.tools.invoke(asked).await;
        if place.is_none() {
            *place = self.places.clone().acquire_owned().await.ok();
        }
        match done {
            Ok(answer) => {
                let is_error = answer.get("success") == Some(&json!(false));
                (cut(&Value::Object(answer).to_string()), is_error)
            }
            Err(error) => refused(error.to_string()),
        }
    }
}

/// The task that a call has begun: what follows is about it.
fn begun_task(call: &ToolCall, text: &str) -> Option<String> {
    let (tool, _) = unwrapped(call).ok()?;
    if !["task_start", "task_backlog_pick"].contains(&tool.as_str()) {
        return None;
    }
    let answer: Value = serde_json::from_str(text).ok()?;
    answer["taskId"].as_str().map(str::to_owned)
}

/// What a call means: `tool_call` stands for another.
fn unwrapped(call: &ToolCall) -> Result<(String, Map<String, Value>), String> {
    if call.name != "tool_call" {
        return Ok((call.name.clone(), call.arguments.clone()));
    }
    let tool =
        call.arguments.get("tool").and_then(Value::as_str).ok_or("tool_call needs `tool`, the name of a tool")?;
    let args = match call.arguments.get("args") {
        Some(Value::Object(args)) => args.clone(),
        None => Map::new(),
        Some(_) => return Err("`args` of tool_call must be an object".into()),
    };
    Ok((tool.to_owned(), args))
}

/// Whether a call made twice does what it does once.
fn is_repeatable(call: &ToolCall) -> bool {
    let Ok((tool, args)) = unwrapped(call) else { return true };
    tool == "tool_describe" || tools::is_repeatable(&tool, &args)
}

fn described(agent: &Agent, args: &Map<String, Value>) -> (String, bool) {
    let name = args.get("tool").and_then(Value::as_str).unwrap_or_default();
    match tools::all().find(|tool| tool.name == name && tools::is_for(agent, name)) {
        Some(tool) => {
            let schema = prompt::slim((tool.schema)().document());
            let told = json!({ "tool": name, "description": tool.description, "args": schema });
            (told.to_string(), false)
        }
        None => {
            let known: Vec<&str> =
                tools::all().map(|tool| tool.name).filter(|name| tools::is_for(agent, name)).collect();
            (
                json!({ "success": false, "error": format!("there is no tool {name:?}"), "tools": known }).to_string(),
                true,
            )
        }
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= RESULT_CHARS_MAX {
        return text.to_owned();
    }
    let short: String = text.chars().take(RESULT_CHARS_MAX).collect();
    format!("{short} [cut here: the result is longer]")
}
