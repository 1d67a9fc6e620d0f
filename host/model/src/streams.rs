//! Whole streams as the vendors send them, for tests.

use serde_json::Value;

use crate::ToolCall;

/// A call as a decoded stream has it.
pub(crate) fn call(id: &str, name: &str, arguments: Value) -> ToolCall {
    let arguments = arguments.as_object().expect("an object").clone();
    ToolCall { id: id.into(), name: name.into(), arguments }
}

/// Thinking, text in Korean, two calls, pings, and events and blocks that nobody here knows.
pub(crate) const ANTHROPIC: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":472,"cache_creation_input_tokens":210,"cache_read_input_tokens":1800,"output_tokens":2}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me see."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"날씨를 "}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"확인할게요 \ud83c\udf24."}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","name":"get_weather","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"location\": \"서"}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"울\", \"days\": 2}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_02","name":"now","input":{}}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: something_new
data: {"type":"something_new","index":9}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":89}}

event: message_stop
data: {"type":"message_stop"}

"#;

pub(crate) const ANTHROPIC_OVERLOADED: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":4,"output_tokens":1}}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"I was about"}}

event: error
data: {"type":"error","error":{"details":null,"type":"overloaded_error","message":"Overloaded"},"request_id":"req_011CSHoEeqs5C35K2UUqR7Fy"}

"#;

/// Text, two calls in pieces, a usage chunk without choices.
pub(crate) const OPENAI: &str = r#"data: {"id":"chatcmpl-BqW8","object":"chat.completion.chunk","created":1751000000,"model":"gpt-4.1","service_tier":"default","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[{"index":0,"delta":{"content":"날씨를 "},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[{"index":0,"delta":{"content":"확인할게요."},"logprobs":null,"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_qG1a","type":"function","function":{"name":"get_weather","arguments":""}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"location\":"}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"서울\"}"}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_qG1b","type":"function","function":{"name":"now","arguments":""}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"{}"}}]},"finish_reason":null}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}

data: {"id":"chatcmpl-BqW8","choices":[],"usage":{"prompt_tokens":320,"completion_tokens":41,"total_tokens":361,"prompt_tokens_details":{"cached_tokens":256,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}

data: [DONE]

"#;

/// An imitating server: line ends of Windows, comments, reasoning, parts, and an error in the end.
pub(crate) const OPENAI_BROKEN_OFF: &str = concat!(
    "\u{feff}: OPENROUTER PROCESSING\r\n\r\n",
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"reasoning_content\":\"hm\"}}],\"error\":null}\r\n\r\n",
    "data: {\"choices\":[{\"delta\":\r\n",
    "data:  {\"content\":[{\"type\":\"text\",\"text\":\"I was\"}]}}]}\r\n\r\n",
    "data: {\"error\":{\"code\":502,\"message\":\"Upstream died, key sk-or-v1-0123456789\"},",
    "\"choices\":[{\"delta\":{},\"finish_reason\":\"error\"}]}\r\n\r\n",
);
