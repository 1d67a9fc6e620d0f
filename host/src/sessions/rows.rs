//! Rows of a transcript: what a run says and does, as clients show it and as the next prompt repeats it.

use chela_model::{Answer, Stop};
use serde_json::{Value, json};

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
