//! The Messages API of Anthropic: requests as JSON, answers as events.
//! Keeps true: what the API adds (blocks, deltas and events of other types) is passed over. Never: shows what the model thinks to itself.

use serde_json::{Map, Value, json};

use crate::conversation::{self, Message, is_blank, plain};
use crate::gathered::Gathered;
use crate::refusal::broke_off;
use crate::wire::object_schema;
use crate::{Failure, Request, Stop};

/// The API wants people to speak first.
const BEGUN_EARLIER: &str = "(the conversation began earlier)";

pub(crate) fn body(request: &Request) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(request.model));
    body.insert("max_tokens".to_owned(), json!(request.max_tokens));
    body.insert("stream".to_owned(), json!(true));
    if !is_blank(&request.system) {
        // The cache covers the tools as well: they stand before the system prompt.
        let system = json!([{"type": "text", "text": request.system, "cache_control": {"type": "ephemeral"}}]);
        body.insert("system".to_owned(), system);
    }
    if !request.tools.is_empty() {
        let tools = request.tools.iter().map(|tool| {
            let schema = object_schema(&tool.schema);
            json!({"name": tool.name, "description": tool.description, "input_schema": schema})
        });
        body.insert("tools".to_owned(), tools.collect());
    }
    let conversation = conversation::messages(&request.turns);
    let mut messages = Vec::with_capacity(conversation.len() + 1);
    if !matches!(conversation.first(), Some(Message::People { .. })) {
        messages.push(json!({"role": "user", "content": [{"type": "text", "text": BEGUN_EARLIER}]}));
    }
    messages.extend(conversation.iter().map(message));
    body.insert("messages".to_owned(), Value::Array(messages));
    Value::Object(body)
}

fn message(message: &Message) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    match message {
        Message::People { results, texts } => {
            let results = results.iter().map(|told| {
                let mut block = json!({"type": "tool_result", "tool_use_id": plain(told.call_id)});
                if !is_blank(told.text) {
                    block["content"] = json!(told.text);
                }
                if told.is_error {
                    block["is_error"] = json!(true);
                }
                block
            });
            let content: Vec<Value> = results.chain(texts.iter().map(|words| text(words))).collect();
            json!({"role": "user", "content": content})
        }
        Message::Model { texts, calls } => {
            let calls = calls.iter().map(|call| {
                json!({"type": "tool_use", "id": plain(&call.id), "name": plain(&call.name), "input": call.arguments})
            });
            let content: Vec<Value> = texts.iter().map(|words| text(words)).chain(calls).collect();
            json!({"role": "assistant", "content": content})
        }
    }
}

/// Takes one event into the answer.
pub(crate) fn read(gathered: &mut Gathered, event: &Value) -> Result<(), Failure> {
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => {
            gathered.answer_id = event["message"]["id"].as_str().unwrap_or_default().to_owned();
            usage(gathered, &event["message"]["usage"]);
        }
        "content_block_start" => begin_block(gathered, event)?,
        "content_block_delta" => {
            let delta = &event["delta"];
            match delta["type"].as_str().unwrap_or_default() {
                "text_delta" => gathered.say(delta["text"].as_str().unwrap_or_default()),
                "input_json_delta" => {
                    let index = event["index"].as_u64();
                    if let Some(call) = gathered.calls.iter_mut().rfind(|call| call.index == index) {
                        call.arguments.push_str(delta["partial_json"].as_str().unwrap_or_default());
                    }
                }
                _ => {}
            }
        }
        "message_delta" => {
            if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                gathered.stop = Some(stop(reason));
            }
            usage(gathered, &event["usage"]);
        }
        "message_stop" => gathered.is_over = true,
        "error" => return Err(broke_off(&event["error"])),
        _ => {}
    }
    Ok(())
}

fn begin_block(gathered: &mut Gathered, event: &Value) -> Result<(), Failure> {
    let block = &event["content_block"];
    match block["type"].as_str().unwrap_or_default() {
        "text" => gathered.say(block["text"].as_str().unwrap_or_default()),
        "tool_use" => {
            let text = |key: &str| block[key].as_str().unwrap_or_default();
            let at = gathered.begin(event["index"].as_u64(), text("id"), text("name"))?;
            // Imitating servers send the whole input here; Anthropic sends `{}` and then the pieces.
            if let Some(input) = block["input"].as_object().filter(|input| !input.is_empty()) {
                gathered.calls[at].arguments = Value::Object(input.clone()).to_string();
            }
        }
        _ => {}
    }
    Ok(())
}

fn stop(reason: &str) -> Stop {
    match reason {
        "end_turn" | "stop_sequence" => Stop::End,
        "tool_use" => Stop::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => Stop::MaxTokens,
        "refusal" => Stop::Refusal,
        _ => Stop::Other,
    }
}

/// Counts are sums so far, so a later one takes the place of an earlier one.
fn usage(gathered: &mut Gathered, usage: &Value) {
    let sum = &mut gathered.usage;
    for (key, field) in [
        ("input_tokens", &mut sum.input),
        ("output_tokens", &mut sum.output),
        ("cache_read_input_tokens", &mut sum.cache_read),
        ("cache_creation_input_tokens", &mut sum.cache_write),
    ] {
        if let Some(count) = usage[key].as_u64() {
            *field = count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{ANTHROPIC, ANTHROPIC_OVERLOADED, call};
    use crate::{Answer, Decoder, FailureKind, ToolCall, ToolResult, ToolSpec, Turn, Usage, Wire};

    fn decode(stream: &str) -> Result<Answer, Failure> {
        let mut decoder = Decoder::new(Wire::Anthropic);
        decoder.feed(stream.as_bytes())?;
        decoder.end()
    }

    /// A stream of these events.
    fn stream(events: &[Value]) -> String {
        events.iter().map(|event| format!("data: {event}\n\n")).collect()
    }

    fn ended(reason: &str) -> Value {
        json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}})
    }

    #[test]
    fn a_whole_stream_becomes_an_answer() {
        let expected = Answer {
            text: "날씨를 확인할게요 🌤.".into(),
            calls: vec![
                call("toolu_01T1x1fJ34qAmk2tNTrN7Up6", "get_weather", json!({"location": "서울", "days": 2})),
                call("toolu_02", "now", json!({})),
            ],
            stop: Stop::ToolCalls,
            usage: Usage { input: 472, output: 89, cache_read: 1800, cache_write: 210 },
        };
        assert_eq!(decode(ANTHROPIC), Ok(expected));
    }

    #[test]
    fn an_error_in_the_midst_is_a_failure() {
        let failure = decode(ANTHROPIC_OVERLOADED).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Overloaded);
        assert_eq!(failure.message, "the provider failed while it answered: Overloaded");
        assert!(failure.is_worth_retrying());
    }

    #[test]
    fn every_reason_to_stop_has_its_word() {
        for (reason, stop) in [
            ("end_turn", Stop::End),
            ("stop_sequence", Stop::End),
            ("tool_use", Stop::End),
            ("max_tokens", Stop::MaxTokens),
            ("model_context_window_exceeded", Stop::MaxTokens),
            ("refusal", Stop::Refusal),
            ("pause_turn", Stop::Other),
        ] {
            assert_eq!(decode(&stream(&[ended(reason)])).expect("a whole answer").stop, stop, "{reason}");
        }
    }

    #[test]
    fn arguments_that_were_cut_off_come_with_the_answer() {
        let begun = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "x", "input": {}}});
        let piece = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": "{\"a\": \"b"}});
        let answer = decode(&stream(&[begun, piece, ended("max_tokens")])).expect("a whole answer");
        assert_eq!(Value::Object(answer.calls[0].arguments.clone()), json!({"_unparsed": "{\"a\": \"b"}));
    }

    #[test]
    fn input_that_comes_whole_is_taken() {
        let begun = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "t", "name": "x", "input": {"a": 1}}});
        let answer = decode(&stream(&[begun, ended("tool_use")])).expect("a whole answer");
        assert_eq!(Value::Object(answer.calls[0].arguments.clone()), json!({"a": 1}));
    }

    #[test]
    fn a_request_is_written_as_the_api_wants_it() {
        let call = ToolCall {
            id: "call:1".into(),
            name: "read".into(),
            arguments: json!({"path": "a"}).as_object().expect("an object").clone(),
        };
        let result = ToolResult { call_id: "call:1".into(), text: "not found".into(), is_error: true };
        let request = Request {
            model: "claude-sonnet-4-5".into(),
            system: "You are eden.".into(),
            turns: vec![
                Turn::User { text: "안녕".into() },
                Turn::User { text: "read a".into() },
                Turn::Assistant { text: String::new(), calls: vec![call] },
                Turn::Results(vec![result]),
                Turn::User { text: "well?".into() },
            ],
            tools: vec![ToolSpec {
                name: "read".into(),
                description: "Reads a file.".into(),
                schema: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
            }],
            max_tokens: 1024,
        };
        let expected = concat!(
            r#"{"model":"claude-sonnet-4-5","max_tokens":1024,"stream":true,"#,
            r#""system":[{"type":"text","text":"You are eden.","cache_control":{"type":"ephemeral"}}],"#,
            r#""tools":[{"name":"read","description":"Reads a file.","input_schema":"#,
            r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}],"#,
            r#""messages":[{"role":"user","content":[{"type":"text","text":"안녕"},{"type":"text","text":"read a"}]},"#,
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"read","input":{"path":"a"}}]},"#,
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"not found","is_error":true},"#,
            r#"{"type":"text","text":"well?"}]}]}"#,
        );
        assert_eq!(String::from_utf8(Wire::Anthropic.body(&request)).expect("UTF-8"), expected);
    }

    #[test]
    fn people_speak_first_and_nothing_empty_is_sent() {
        let turns = vec![Turn::Assistant { text: "hi".into(), calls: vec![] }, Turn::User { text: " ".into() }];
        let body = body(&Request { turns, ..Request::default() });
        assert_eq!(body["messages"][0]["content"][0]["text"], BEGUN_EARLIER);
        assert_eq!(body["messages"].as_array().expect("of this kind").len(), 2);
        assert!(body.get("system").is_none() && body.get("tools").is_none());
    }
}
