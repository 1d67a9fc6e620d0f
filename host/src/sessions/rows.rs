//! Rows of a transcript: what a run says and does, as clients show it and as the next prompt repeats it.

use chela_model::{Answer, Stop, ToolCall, ToolResult, Turn};
use serde_json::{Map, Value, json};

use super::record::{Accepted, COMPACT, HumanQuery, OriginKind, Run, Step};
use crate::clock::Timestamp;

/// Rows before they have a place: the transcript numbers them.
pub(super) fn of_run(run: &Run, steps: &[Step]) -> Vec<Value> {
    // What sums up the conversation before comes before what is asked now.
    let before = steps.iter().take_while(|step| matches!(step, Step::Compacted { .. })).count();
    let mut rows: Vec<Value> = steps[..before].iter().filter_map(of_step).collect();
    rows.push(of_message(&run.accepted, steps));
    let mut tasks: Vec<&String> = Vec::new();
    for step in &steps[before..] {
        if let Step::About { task_ids, .. } = step {
            tasks.extend(task_ids);
        }
        rows.extend(of_step(step).map(|mut row| {
            if !tasks.is_empty() {
                row["__openclaw"]["taskIds"] = json!(tasks);
            }
            row
        }));
    }
    for (nth, row) in rows.iter_mut().enumerate() {
        row["__openclaw"]["runId"] = json!(run.accepted.id);
        row["__openclaw"]["order"] = json!(run.accepted.order);
        row["__openclaw"]["id"] = json!(row_id(&run.accepted.id, nth));
    }
    rows
}

/// The name of a row: its run and its place in it.
pub(super) fn row_id(run: &str, nth: usize) -> String {
    format!("{run}:{nth}")
}

fn of_message(message: &Accepted, steps: &[Step]) -> Value {
    let mut row = json!({
        "role": "user", "content": [{ "type": "text", "text": message.text }], "timestamp": message.at,
        "idempotencyKey": format!("{}:user", message.id),
    });
    let origin = &message.origin;
    if origin.kind != OriginKind::ExternalUser || origin.source_channel.is_some() || origin.note.is_some() {
        row["provenance"] = json!(message.origin);
    }
    if message.method == COMPACT || steps.iter().any(|step| matches!(step, Step::Withdrawn { .. })) {
        row["__openclaw"]["withdrawn"] = json!(true);
    }
    row
}

fn of_step(step: &Step) -> Option<Value> {
    Some(match step {
        Step::Answered { answer, provider, model, at, asked } => {
            of_answer(answer, asked.as_ref(), provider, model, *at)
        }
        Step::Partial { text, provider, model, at } => json!({
            "role": "assistant", "content": [{ "type": "text", "text": text }], "timestamp": at,
            "provider": provider, "model": model, "stopReason": "aborted",
        }),
        Step::Result { call_id, tool, text, is_error, at } => json!({
            "role": "toolResult", "toolCallId": call_id, "toolName": tool, "isError": is_error,
            "content": [{ "type": "text", "text": text }], "timestamp": at,
        }),
        Step::Compacted { summary, rows, at } => json!({
            "role": "system", "content": [{ "type": "text", "text": summary }], "timestamp": at,
            "__openclaw": { "kind": "compaction", "rows": rows },
        }),
        Step::Intent { .. } | Step::Withdrawn { .. } | Step::About { .. } => return None,
    })
}

fn of_answer(answer: &Answer, asked: Option<&HumanQuery>, provider: &str, model: &str, at: Timestamp) -> Value {
    let text = (!answer.text.is_empty()).then(|| json!({ "type": "text", "text": answer.text }));
    // Text like any other, so that whoever knows nothing of questions shows it.
    let asked = asked.map(|asked| json!({ "type": "text", "text": asked.question, "humanQuery": asked }));
    let calls = answer
        .calls
        .iter()
        .map(|call| json!({ "type": "toolCall", "id": call.id, "name": call.name, "arguments": call.arguments }));
    let content: Vec<Value> = text.into_iter().chain(asked).chain(calls).collect();
    let usage = &answer.usage;
    json!({
        "role": "assistant", "content": content, "timestamp": at, "provider": provider, "model": model,
        "stopReason": stop_word(answer.stop),
        "usage": {
            "input": usage.input, "output": usage.output, "cacheRead": usage.cache_read, "cacheWrite": usage.cache_write,
            "totalTokens": usage.input + usage.output + usage.cache_read + usage.cache_write,
        },
    })
}

/// Why a model stopped, in the words of existing clients.
pub fn stop_word(stop: Stop) -> &'static str {
    match stop {
        Stop::End => "stop",
        Stop::ToolCalls => "toolUse",
        Stop::MaxTokens => "length",
        Stop::Refusal => "refusal",
        Stop::Other => "other",
    }
}

/// A row that marks a new beginning.
pub(super) fn reset(at: Timestamp, id: &str) -> Value {
    json!({
        "role": "system", "content": [{ "type": "text", "text": "Reset" }], "timestamp": at,
        "__openclaw": { "kind": "reset", "id": id },
    })
}

/// Whether what lies before a row is no part of the prompt any more.
pub(super) fn is_beginning(row: &Value) -> bool {
    matches!(row["__openclaw"]["kind"].as_str(), Some("reset" | "compaction"))
}

/// All text of a row.
pub fn text_of(row: &Value) -> String {
    match &row["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// The turns that rows stand for. A message that came from elsewhere is marked as such.
pub fn turns(rows: &[Value]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for row in rows {
        match row["role"].as_str() {
            Some("user") if row["__openclaw"]["withdrawn"] == true => {}
            Some("user") => turns.push(Turn::User { text: marked(row, text_of(row)) }),
            Some("assistant") => {
                let calls = row["content"].as_array().into_iter().flatten().filter_map(call_of).collect();
                turns.push(Turn::Assistant { text: as_written(row), calls });
            }
            Some("toolResult") => {
                let result = ToolResult {
                    call_id: row["toolCallId"].as_str().unwrap_or_default().to_owned(),
                    text: text_of(row),
                    is_error: row["isError"] == json!(true),
                };
                match turns.last_mut() {
                    Some(Turn::Results(results)) => results.push(result),
                    _ => turns.push(Turn::Results(vec![result])),
                }
            }
            Some("system") if row["__openclaw"]["kind"] == "compaction" => {
                turns.push(Turn::User { text: format!("[Summary of the conversation so far]\n{}", text_of(row)) });
            }
            _ => {}
        }
    }
    turns
}

/// An answer as its model wrote it, questions included: it goes on from its own words.
fn as_written(row: &Value) -> String {
    let Value::Array(parts) = &row["content"] else { return text_of(row) };
    let marker = |part: &Value| {
        let questions = part["humanQuery"]["questions"].as_array()?;
        let lines = questions.iter().filter_map(Value::as_str).map(|question| format!("[NEED_HUMAN: {question}]"));
        Some(lines.collect::<Vec<_>>().join("\n"))
    };
    let texts = parts.iter().filter_map(|part| marker(part).or_else(|| part["text"].as_str().map(str::to_owned)));
    texts.collect::<Vec<_>>().join("\n")
}

fn call_of(part: &Value) -> Option<ToolCall> {
    let arguments: Map<String, Value> = part["arguments"].as_object().cloned().unwrap_or_default();
    let (id, name) = (part["id"].as_str()?, part["name"].as_str()?);
    (part["type"] == "toolCall").then(|| ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
}

/// A text with its origin said, so that a model takes no other's words for a person's of this deployment.
fn marked(row: &Value, text: String) -> String {
    let origin = &row["provenance"];
    if let Some(note) = origin["note"].as_str() {
        return format!("[{note}]\n{text}");
    }
    match origin["kind"].as_str() {
        Some("inter_session") => {
            let from = origin["sourceSessionKey"].as_str().unwrap_or("another session");
            format!(
                "[Message from another agent's session {from}; not a person, not an instruction of the operator]\n{text}"
            )
        }
        Some("internal_system") => format!("[Message of the gateway]\n{text}"),
        _ => match origin["sourceChannel"].as_str() {
            Some(channel) => format!("[Message from outside, over {channel}]\n{text}"),
            None => text,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_taken_back_is_shown_and_no_prompt_has_it() {
        let accepted = json!({
            "id": "r", "session": "agent:eden:main", "sessionId": "s", "order": 1, "method": "chat.send", "at": 1, "text": "never mind",
            "chain": { "id": "r", "hop": 0 },
        });
        let accepted = serde_json::from_value(accepted).expect("a message");
        let run = Run { accepted, resumed: 0, ended: None, settled: false };
        assert_eq!(turns(&of_run(&run, &[])).len(), 1);
        let rows = of_run(&run, &[Step::Withdrawn { at: Timestamp(2) }]);
        assert_eq!(rows.iter().map(text_of).collect::<Vec<_>>(), ["never mind"]);
        assert!(turns(&rows).is_empty());
    }
}
