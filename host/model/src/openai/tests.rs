//! Chat completions as OpenAI sends them, and as its many imitators do.

use super::*;
use crate::streams::{OPENAI, OPENAI_BROKEN_OFF, call};
use crate::{Answer, Decoder, FailureKind, ToolCall, ToolResult, ToolSpec, Turn, Usage, Wire};

fn decode(stream: &str) -> Result<Answer, Failure> {
    let mut decoder = Decoder::new(Wire::OpenAi);
    decoder.feed(stream.as_bytes())?;
    decoder.end()
}

fn chunk(delta: Value, finish: Option<&str>) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
}

/// The calls that come of chunks with these `tool_calls`, one line each.
fn check(chunks: &[Value], expected: &[&str]) {
    let mut stream: String = chunks.iter().map(|calls| chunk(json!({"tool_calls": calls}), None)).collect();
    stream.push_str(&chunk(json!({}), Some("tool_calls")));
    let line = |call: &ToolCall| format!("{} {} {}", call.id, call.name, Value::Object(call.arguments.clone()));
    assert_eq!(decode(&stream).expect("a whole answer").calls.iter().map(line).collect::<Vec<_>>(), expected);
}

#[test]
fn a_whole_stream_becomes_an_answer() {
    let expected = Answer {
        text: "날씨를 확인할게요.".into(),
        calls: vec![call("call_qG1a", "get_weather", json!({"location": "서울"})), call("call_qG1b", "now", json!({}))],
        stop: Stop::ToolCalls,
        usage: Usage { input: 64, output: 41, cache_read: 256, cache_write: 0 },
    };
    assert_eq!(decode(OPENAI), Ok(expected));
}

#[test]
fn an_error_in_the_midst_is_a_failure_without_the_key() {
    let failure = decode(OPENAI_BROKEN_OFF).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Server);
    assert_eq!(failure.message, "the provider failed while it answered: Upstream died, key [key removed]");
}

#[test]
fn a_server_that_leaves_out_the_index_is_understood() {
    check(
        &[
            json!([{"id": "a", "function": {"name": "x", "arguments": "{\"n\":"}}]),
            json!([{"function": {"arguments": "1}"}}]),
            json!([{"id": "b", "function": {"name": "x", "arguments": "{}"}}]),
        ],
        &["a x {\"n\":1}", "b x {}"],
    );
}

#[test]
fn a_server_that_sends_the_id_and_the_name_again_is_understood() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": ""}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"n\":"}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "1}"}}]),
        ],
        &["a x {\"n\":1}"],
    );
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"n\":"}}]),
            json!([{"index": 0, "id": "made-up-for-this-piece", "function": {"arguments": "1}"}}]),
        ],
        &["a x {\"n\":1}"],
    );
}

#[test]
fn whole_calls_in_one_chunk_stay_apart() {
    check(
        &[json!([
            {"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"n\":1}"}},
            {"index": 1, "id": "b", "function": {"name": "x", "arguments": {"n": 2}}},
        ])],
        &["a x {\"n\":1}", "b x {\"n\":2}"],
    );
    check(
        &[json!([{"function": {"name": "x", "arguments": "{}"}}, {"function": {"name": "y", "arguments": "{}"}}])],
        &["call_0 x {}", "call_1 y {}"],
    );
}

#[test]
fn calls_that_share_an_index_stay_apart() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"n\":1}"}}]),
            json!([{"index": 0, "id": "b", "function": {"name": "x", "arguments": "{\"n\":2}"}}]),
            json!([{"index": 0, "id": "", "function": {"name": "x", "arguments": "{\"n\":3}"}}]),
        ],
        &["a x {\"n\":1}", "b x {\"n\":2}", "call_0 x {\"n\":3}"],
    );
}

#[test]
fn a_call_that_is_sent_twice_is_one_call() {
    check(
        &[
            json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{\"n\":1}"}}]),
            json!([{"index": 1, "id": "a", "function": {"name": "x", "arguments": "{\"n\":1}"}}]),
        ],
        &["a x {\"n\":1}"],
    );
}

#[test]
fn arguments_before_the_name_are_kept() {
    check(
        &[
            json!([{"index": 0, "function": {"arguments": "{\"n\":"}}]),
            json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "1}"}}]),
        ],
        &["call_0 x {\"n\":1}"],
    );
}

#[test]
fn arguments_that_are_no_object_come_with_the_answer() {
    check(
        &[json!([{"index": 0, "id": "a", "function": {"name": "x", "arguments": "{'n': 1}"}}])],
        &["a x {\"_unparsed\":\"{'n': 1}\"}"],
    );
}

#[test]
fn every_reason_to_stop_has_its_word() {
    for (reason, stop) in [
        ("stop", Stop::End),
        ("tool_calls", Stop::End),
        ("length", Stop::MaxTokens),
        ("content_filter", Stop::Refusal),
        ("eos", Stop::Other),
    ] {
        assert_eq!(
            decode(&chunk(json!({"content": "a"}), Some(reason))).expect("a whole answer").stop,
            stop,
            "{reason}"
        );
    }
    let refusal = chunk(json!({"refusal": "I cannot."}), None);
    assert_eq!(decode(&refusal).unwrap_err().kind, FailureKind::Broken);
    let answer = decode(&(refusal + &chunk(json!({}), Some("stop")))).expect("a whole answer");
    assert_eq!((answer.text.as_str(), answer.stop), ("I cannot.", Stop::Refusal));
}

#[test]
fn the_end_needs_a_reason_to_stop_and_no_done() {
    let said = chunk(json!({"content": "a"}), None);
    assert_eq!(decode(&said).unwrap_err().kind, FailureKind::Broken);
    assert_eq!(decode(&format!("{said}data: [DONE]\n\n")).unwrap_err().kind, FailureKind::Broken);
    assert!(decode(&(said + &chunk(json!({}), Some("stop")))).is_ok());
}

#[test]
fn what_follows_done_and_other_choices_are_passed_over() {
    let other = "data: {\"choices\": [{\"index\": 1, \"delta\": {\"content\": \"b\"}}]}\n\n";
    let stream = format!("{}{other}data: [DONE]\n\ndata: oops\n\n", chunk(json!({"content": "a"}), Some("stop")));
    assert_eq!(decode(&stream).expect("a whole answer").text, "a");
}

#[test]
fn a_request_is_written_as_servers_want_it() {
    let call = |id: &str| call(id, "read file", json!({"path": "a"}));
    let result = |id: &str, is_error| ToolResult { call_id: id.into(), text: "x".into(), is_error };
    let request = Request {
        model: "gpt-4.1".into(),
        system: "You are eden.".into(),
        turns: vec![
            Turn::User { text: "안녕".into() },
            Turn::User { text: "read a".into() },
            Turn::Assistant { text: String::new(), calls: vec![call("c1"), call("c2")] },
            Turn::Results(vec![result("c1", false), result("c2", true)]),
            Turn::Assistant { text: "done".into(), calls: vec![] },
        ],
        tools: vec![ToolSpec { name: "read".into(), description: "Reads.".into(), schema: json!({}) }],
        max_tokens: 1024,
    };
    let call = r#","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a\"}"}}"#;
    let expected = [
        r#"{"model":"gpt-4.1","max_tokens":1024,"stream":true,"stream_options":{"include_usage":true},"#,
        r#""messages":[{"role":"system","content":"You are eden."},{"role":"user","content":"안녕\n\nread a"},"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1""#,
        call,
        r#",{"id":"c2""#,
        call,
        r#"]},{"role":"tool","tool_call_id":"c1","content":"x"},"#,
        r#"{"role":"tool","tool_call_id":"c2","content":"error: x"},{"role":"assistant","content":"done"}],"#,
        r#""tools":[{"type":"function","function":{"name":"read","description":"Reads.","parameters":{"type":"object"}}}]}"#,
    ];
    assert_eq!(String::from_utf8(Wire::OpenAi.body(&request)).expect("UTF-8"), expected.concat());
}

#[test]
fn the_limit_is_named_as_the_model_knows_it() {
    for model in ["gpt-4o", "gpt-oss-120b", "llama-3.3-70b", "openai/gpt-4.1", "olmo-2", "o", ""] {
        assert_eq!(limit_key(model), "max_tokens", "{model}");
    }
    for model in ["o3", "o4-mini", "gpt-5", "openai/gpt-5.2-mini"] {
        assert_eq!(limit_key(model), "max_completion_tokens", "{model}");
    }
}
