//! Chat completions of OpenAI and of the servers that imitate them: requests as JSON, answers as chunks.
//! Keeps true: pieces of calls find their call although servers leave out the index, give every call the same one, send the id again
//! or send whole calls. Never: shows what the model thinks to itself, or counts cached input twice.

use serde_json::{Map, Value, json};

use crate::conversation::{self, Message, is_blank, plain};
use crate::gathered::Gathered;
use crate::refusal::broke_off;
use crate::wire::object_schema;
use crate::{Failure, Request, Stop};

pub(crate) fn body(request: &Request) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    body.insert(limit_key(&request.model).to_owned(), json!(request.max_tokens));
    body.insert("stream".to_owned(), json!(true));
    body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    let mut messages = Vec::new();
    if !is_blank(&request.system) {
        messages.push(json!({"role": "system", "content": request.system}));
    }
    conversation::messages(&request.turns).iter().for_each(|message| write(&mut messages, message));
    body.insert("messages".to_owned(), Value::Array(messages));
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let parameters = object_schema(&tool.schema);
            let function = json!({"name": tool.name, "description": tool.description, "parameters": parameters});
            json!({"type": "function", "function": function})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    Value::Object(body)
}

/// OpenAI's reasoning models refuse `max_tokens`, and many imitating servers know nothing else.
fn limit_key(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let number = |prefix: &str| name.strip_prefix(prefix).and_then(|rest| rest.chars().next()?.to_digit(10));
    let is_reasoning = number("o").is_some() || number("gpt-").is_some_and(|major| major >= 5);
    if is_reasoning { "max_completion_tokens" } else { "max_tokens" }
}

fn write(messages: &mut Vec<Value>, message: &Message) {
    match message {
        Message::People { results, texts } => {
            messages.extend(results.iter().map(|told| {
                // The format has no other place to say so.
                let text = if told.is_error { format!("error: {}", told.text) } else { told.text.to_owned() };
                json!({"role": "tool", "tool_call_id": told.call_id, "content": text})
            }));
            if !texts.is_empty() {
                messages.push(json!({"role": "user", "content": texts.join("\n\n")}));
            }
        }
        Message::Model { texts, calls } => {
            let content = if texts.is_empty() { Value::Null } else { json!(texts.join("\n\n")) };
            let mut message = json!({"role": "assistant", "content": content});
            if !calls.is_empty() {
                let calls = calls.iter().map(|call| {
                    let arguments = Value::Object(call.arguments.clone()).to_string();
                    let function = json!({"name": plain(&call.name), "arguments": arguments});
                    json!({"id": call.id, "type": "function", "function": function})
                });
                message["tool_calls"] = calls.collect();
            }
            messages.push(message);
        }
    }
}

/// Takes one chunk into the answer.
pub(crate) fn read(gathered: &mut Gathered, chunk: &Value) -> Result<(), Failure> {
    if !chunk["error"].is_null() {
        return Err(broke_off(&chunk["error"]));
    }
    if let Some(id) = chunk["id"].as_str().filter(|_| gathered.answer_id.is_empty()) {
        gathered.answer_id = id.to_owned();
    }
    usage(gathered, &chunk["usage"]);
    // Only one answer was asked for; a further one would be mixed into it.
    let choices = chunk["choices"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(choice) = choices.iter().find(|choice| choice["index"].as_u64().unwrap_or(0) == 0) else {
        return Ok(());
    };
    let delta = &choice["delta"];
    match &delta["content"] {
        Value::String(text) => gathered.say(text),
        // Mistral sends parts where the model thinks.
        Value::Array(parts) => parts.iter().for_each(|part| gathered.say(part["text"].as_str().unwrap_or_default())),
        _ => {}
    }
    let refusal = delta["refusal"].as_str().unwrap_or_default();
    gathered.say(refusal);
    gathered.is_refused |= !refusal.is_empty();
    for piece in delta["tool_calls"].as_array().into_iter().flatten() {
        take_piece(gathered, &Piece::of(piece))?;
    }
    if let Some(reason) = choice["finish_reason"].as_str() {
        gathered.stop = Some(stop(reason));
    }
    Ok(())
}

/// A piece of a call as it comes in one chunk.
struct Piece<'a> {
    index: Option<u64>,
    id: &'a str,
    name: &'a str,
    arguments: String,
    /// It has a name and all of its arguments.
    is_whole: bool,
}

impl<'a> Piece<'a> {
    fn of(piece: &'a Value) -> Self {
        let function = &piece["function"];
        let name = function["name"].as_str().unwrap_or_default();
        let arguments = match &function["arguments"] {
            Value::String(text) => text.clone(),
            Value::Object(_) => function["arguments"].to_string(),
            _ => String::new(),
        };
        let is_whole = !name.is_empty() && serde_json::from_str::<Map<String, Value>>(&arguments).is_ok();
        Self { index: piece["index"].as_u64(), id: piece["id"].as_str().unwrap_or_default(), name, arguments, is_whole }
    }
}

fn take_piece(gathered: &mut Gathered, piece: &Piece) -> Result<(), Failure> {
    let known = gathered.calls.iter().rposition(|call| {
        let has_name = piece.name.is_empty() || call.name.is_empty() || call.name == piece.name;
        !piece.id.is_empty() && call.sent_id == piece.id && has_name
    });
    if let Some(at) = known {
        gathered.name(at, piece.name);
        let call = &mut gathered.calls[at];
        // LocalAI sends the whole call again under another index.
        if piece.is_whole && (call.index != piece.index || call.arguments == piece.arguments) {
            call.arguments.clear();
        }
        call.arguments.push_str(&piece.arguments);
        return Ok(());
    }
    let running = match piece.index {
        Some(_) => gathered.calls.iter().rposition(|call| call.index == piece.index),
        None => gathered.calls.len().checked_sub(1),
    };
    // A new id alone begins nothing: vLLM used to make one up for every piece. Nor does a name alone, which some servers repeat.
    let begins = !piece.name.is_empty() && (!piece.id.is_empty() || piece.is_whole || piece.index.is_none());
    let at = match running.filter(|at| !begins || gathered.calls[*at].name.is_empty()) {
        Some(at) => at,
        None => gathered.begin(piece.index, piece.id, piece.name)?,
    };
    gathered.name(at, piece.name);
    gathered.calls[at].arguments.push_str(&piece.arguments);
    Ok(())
}

fn stop(reason: &str) -> Stop {
    match reason {
        "stop" => Stop::End,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "length" => Stop::MaxTokens,
        "content_filter" => Stop::Refusal,
        _ => Stop::Other,
    }
}

fn usage(gathered: &mut Gathered, usage: &Value) {
    let sum = &mut gathered.usage;
    if let Some(prompt) = usage["prompt_tokens"].as_u64() {
        sum.cache_read = usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0).min(prompt);
        sum.input = prompt - sum.cache_read;
    }
    if let Some(completion) = usage["completion_tokens"].as_u64() {
        sum.output = completion;
    }
}

#[cfg(test)]
mod tests;
