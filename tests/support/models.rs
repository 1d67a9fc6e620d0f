//! A provider of models that a test scripts: real HTTP on a free port, in the wire formats that both vendors document.
//! Keeps true: what a vendor refuses is refused; every request is kept; a scripted reply is used once. Never: outlives its test.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::eventually;

/// The only key that opens it.
pub const KEY: &str = "sk-test-4f9c2e7b81d05a63";
/// The model that it offers.
pub const MODEL: &str = "test-model";
/// What every whole answer counts: tokens of the prompt, cached ones among them, and of the answer.
pub const PROMPT_TOKENS: u64 = 120;
pub const ANSWER_TOKENS: u64 = 7;
const CACHED_TOKENS: u64 = 20;
const CACHE_WRITTEN_TOKENS: u64 = 10;

/// Whose format is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Anthropic,
    OpenAi,
}

impl Wire {
    pub const BOTH: [Self; 2] = [Self::Anthropic, Self::OpenAi];

    /// The word for it in a configuration.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            Self::Anthropic => "/v1/messages",
            Self::OpenAi => "/v1/chat/completions",
        }
    }
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub bytes: Vec<u8>,
    pub json: Value,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub fn wire(&self) -> Option<Wire> {
        Wire::BOTH.into_iter().find(|wire| wire.path() == self.path)
    }

    /// What the model is told before the conversation.
    pub fn system(&self) -> String {
        let first = &self.json["messages"][0];
        if first["role"] == "system" { words(&first["content"]) } else { words(&self.json["system"]) }
    }

    /// The conversation as the vendor wants it.
    pub fn messages(&self) -> Vec<Value> {
        let all = self.json["messages"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|message| message["role"] != "system").collect()
    }

    /// The conversation, one line a message: `user: hello`.
    pub fn talk(&self) -> Vec<String> {
        self.messages().iter().map(line).collect()
    }

    /// Names of the tools that the model may call.
    pub fn tools(&self) -> Vec<String> {
        let name = |tool: &Value| {
            let name = tool["name"].as_str().or(tool["function"]["name"].as_str());
            name.unwrap_or_default().to_owned()
        };
        self.json["tools"].as_array().into_iter().flatten().map(name).collect()
    }
}

/// A message or a row of a transcript: `user: hello`.
pub fn line(message: &Value) -> String {
    format!("{}: {}", message["role"].as_str().unwrap_or_default(), words(&message["content"]))
}

/// The words of a message, whichever way they are written.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts = blocks.iter().filter_map(|block| block["text"].as_str().or(block["content"].as_str()));
            texts.collect::<Vec<_>>().join("\n\n")
        }
        _ => String::new(),
    }
}

/// What the provider does with a request.
#[derive(Clone, Debug)]
pub enum Reply {
    Stream(Stream),
    /// An error: its status, further headers and its words.
    Status(u16, String, String),
    /// Not even a status line comes.
    Silent,
}

/// An answer in pieces, and how it ends.
#[derive(Clone, Debug)]
pub struct Stream {
    text: String,
    calls: Vec<(String, Value)>,
    end: End,
}

#[derive(Clone, Copy, Debug)]
pub enum End {
    Whole,
    /// An error with these words comes instead of the rest.
    Error(&'static str),
    /// The connection is dropped.
    Broken,
    /// Nothing more comes, and the connection stays.
    Stalled,
}

impl Default for Reply {
    fn default() -> Self {
        Self::text("ok")
    }
}

impl Reply {
    pub fn text(text: &str) -> Self {
        Self::Stream(Stream { text: text.to_owned(), calls: Vec::new(), end: End::Whole })
    }

    /// Text of so many bytes.
    pub fn long(bytes: usize) -> Self {
        Self::text(&"x".repeat(bytes))
    }

    /// A call of a tool, and no text.
    pub fn call(tool: &str, args: Value) -> Self {
        Self::text("").and_call(tool, args)
    }

    pub fn and_call(self, tool: &str, args: Value) -> Self {
        self.changed(|stream| stream.calls.push((tool.to_owned(), args)))
    }

    /// A stream that comes to another end.
    pub fn then(self, end: End) -> Self {
        self.changed(|stream| stream.end = end)
    }

    pub fn status(status: u16, message: &str) -> Self {
        Self::Status(status, String::new(), message.to_owned())
    }

    /// Too many requests; come back after so many seconds.
    pub fn busy(seconds: u64) -> Self {
        Self::Status(429, format!("retry-after: {seconds}\r\n"), "slow down".to_owned())
    }

    fn changed(mut self, change: impl FnOnce(&mut Stream)) -> Self {
        if let Self::Stream(stream) = &mut self {
            change(stream);
        }
        self
    }
}

impl Stream {
    fn anthropic(&self, first_call: usize) -> String {
        let mut stream = String::new();
        let mut event = |kind: &str, rest: Value| {
            let mut data = json!({ "type": kind });
            data.as_object_mut().expect("an object").extend(rest.as_object().expect("an object").clone());
            stream.push_str(&format!("event: {kind}\ndata: {data}\n\n"));
        };
        let usage = json!({
            "input_tokens": PROMPT_TOKENS - CACHED_TOKENS - CACHE_WRITTEN_TOKENS,
            "cache_read_input_tokens": CACHED_TOKENS, "cache_creation_input_tokens": CACHE_WRITTEN_TOKENS,
            "output_tokens": 1,
        });
        let message = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage });
        event("message_start", json!({ "message": message }));
        event("ping", json!({}));
        let mut index = 0;
        if !self.text.is_empty() {
            event("content_block_start", json!({ "index": 0, "content_block": { "type": "text", "text": "" } }));
            for piece in pieces(&self.text) {
                event("content_block_delta", json!({ "index": 0, "delta": { "type": "text_delta", "text": piece } }));
            }
            event("content_block_stop", json!({ "index": 0 }));
            index = 1;
        }
        for (nth, (name, args)) in self.calls.iter().enumerate() {
            let id = format!("toolu_{}", first_call + nth);
            let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
            event("content_block_start", json!({ "index": index + nth, "content_block": block }));
            for piece in pieces(&args.to_string()) {
                let delta = json!({ "type": "input_json_delta", "partial_json": piece });
                event("content_block_delta", json!({ "index": index + nth, "delta": delta }));
            }
            event("content_block_stop", json!({ "index": index + nth }));
        }
        match self.end {
            End::Whole => {
                let reason = if self.calls.is_empty() { "end_turn" } else { "tool_use" };
                let delta = json!({ "stop_reason": reason, "stop_sequence": null });
                event("message_delta", json!({ "delta": delta, "usage": { "output_tokens": ANSWER_TOKENS } }));
                event("message_stop", json!({}));
            }
            End::Error(said) => event("error", json!({ "error": { "type": "overloaded_error", "message": said } })),
            End::Broken | End::Stalled => {}
        }
        stream
    }

    fn openai(&self, first_call: usize, counts: bool) -> String {
        let mut stream = String::new();
        let mut chunk = |data: Value| stream.push_str(&format!("data: {data}\n\n"));
        let delta = |delta: Value, finish: Option<&str>| {
            let choice = json!({ "index": 0, "delta": delta, "logprobs": null, "finish_reason": finish });
            json!({ "id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice], "usage": null })
        };
        chunk(delta(json!({ "role": "assistant", "content": "", "refusal": null }), None));
        for piece in pieces(&self.text) {
            chunk(delta(json!({ "content": piece }), None));
        }
        for (nth, (name, args)) in self.calls.iter().enumerate() {
            let id = format!("call_{}", first_call + nth);
            let function = json!({ "name": name, "arguments": "" });
            let begun = json!({ "index": nth, "id": id, "type": "function", "function": function });
            chunk(delta(json!({ "tool_calls": [begun] }), None));
            for piece in pieces(&args.to_string()) {
                chunk(delta(json!({ "tool_calls": [{ "index": nth, "function": { "arguments": piece } }] }), None));
            }
        }
        match self.end {
            End::Whole => {
                let reason = if self.calls.is_empty() { "stop" } else { "tool_calls" };
                chunk(delta(json!({}), Some(reason)));
                if counts {
                    let usage = json!({
                        "prompt_tokens": PROMPT_TOKENS, "completion_tokens": ANSWER_TOKENS,
                        "total_tokens": PROMPT_TOKENS + ANSWER_TOKENS,
                        "prompt_tokens_details": { "cached_tokens": CACHED_TOKENS },
                    });
                    chunk(json!({ "id": "chatcmpl-1", "choices": [], "usage": usage }));
                }
                stream.push_str("data: [DONE]\n\n");
            }
            End::Error(said) => chunk(json!({ "error": { "type": "server_error", "code": null, "message": said } })),
            End::Broken | End::Stalled => {}
        }
        stream
    }
}

/// A text in pieces of a few bytes; a long one in some hundred pieces.
fn pieces(text: &str) -> Vec<&str> {
    let step = (text.len() / 500).max(7);
    let (mut found, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = rest.char_indices().map(|(at, _)| at).find(|at| *at >= step).unwrap_or(rest.len());
        let (piece, after) = rest.split_at(end);
        found.push(piece);
        rest = after;
    }
    found
}

/// What the vendor would refuse, and how.
fn refusal(asked: &Asked) -> Option<Reply> {
    let Some(wire) = asked.wire() else { return Some(Reply::status(404, "there is nothing at this address")) };
    let key = match wire {
        Wire::Anthropic => asked.header("x-api-key"),
        Wire::OpenAi => asked.header("authorization").and_then(|value| value.strip_prefix("Bearer ")),
    };
    match key {
        Some(KEY) => complaint(wire, asked).map(|said| Reply::status(400, said)),
        Some(other) => Some(Reply::status(401, &format!("Incorrect API key provided: {other}"))),
        None => Some(Reply::status(401, "no API key was provided")),
    }
}

fn complaint(wire: Wire, asked: &Asked) -> Option<&'static str> {
    let (body, messages) = (&asked.json, asked.messages());
    match wire {
        _ if asked.header("content-type") != Some("application/json") => Some("content-type must be application/json"),
        _ if body["stream"] != true => Some("only streamed answers are given here"),
        _ if !body["model"].is_string() || messages.is_empty() => Some("model and messages are required"),
        Wire::Anthropic if asked.header("anthropic-version").is_none() => Some("anthropic-version: header is required"),
        Wire::Anthropic if !body["max_tokens"].is_u64() => Some("max_tokens: Field required"),
        Wire::Anthropic => complaint_of_anthropic(body, &messages),
        Wire::OpenAi => complaint_of_openai(&messages),
    }
}

fn blocks<'a>(message: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    message["content"].as_array().into_iter().flatten().filter(move |block| block["type"] == kind)
}

fn complaint_of_anthropic(body: &Value, messages: &[Value]) -> Option<&'static str> {
    for (at, message) in messages.iter().enumerate() {
        for call in blocks(message, "tool_use") {
            let mut results = messages.get(at + 1).into_iter().flat_map(|next| blocks(next, "tool_result"));
            if !results.any(|result| result["tool_use_id"] == call["id"]) {
                return Some("`tool_use` ids were found without `tool_result` blocks immediately after");
            }
        }
        if blocks(message, "text").any(|block| block["text"] == "") {
            return Some("text content blocks must be non-empty");
        }
    }
    let of_tools = |message: &Value| blocks(message, "tool_use").chain(blocks(message, "tool_result")).count();
    let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let uses_tools = messages.iter().any(|message| of_tools(message) > 0);
    (uses_tools && !has_tools).then_some("Requests which include `tool_use` or `tool_result` blocks must define tools.")
}

fn complaint_of_openai(messages: &[Value]) -> Option<&'static str> {
    for (at, message) in messages.iter().enumerate() {
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let mut results = messages[at + 1..].iter().take_while(|next| next["role"] == "tool");
            if !results.any(|result| result["tool_call_id"] == call["id"]) {
                return Some("an assistant message with 'tool_calls' must be followed by tool messages");
            }
        }
    }
    None
}

pub struct ModelServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared(Mutex<State>);

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    replies: VecDeque<Reply>,
    rules: Vec<(String, Reply)>,
    otherwise: Reply,
    /// Calls of tools so far, from which their ids are made.
    calls: usize,
    open: BTreeMap<usize, TcpStream>,
    accepted: usize,
    stopping: bool,
}

impl ModelServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let accepting = std::thread::spawn(move || accept(&listener, &theirs));
        Self { shared, address, accepting: Some(accepting) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its address as the `baseUrl` of a provider.
    pub fn url(&self, wire: Wire) -> String {
        match wire {
            Wire::Anthropic => format!("http://{}", self.address),
            Wire::OpenAi => format!("http://{}/v1", self.address),
        }
    }

    /// It as a provider of a configuration.
    pub fn provider(&self, wire: Wire) -> Value {
        json!({ "kind": wire.kind(), "baseUrl": self.url(wire), "key": KEY, "models": [{ "id": MODEL }] })
    }

    /// What the next request gets that no rule fits.
    pub fn reply(&self, reply: Reply) {
        self.shared.state().replies.push_back(reply);
    }

    /// What the first request gets whose last message has these words.
    pub fn when(&self, words: &str, reply: Reply) {
        self.shared.state().rules.push((words.to_owned(), reply));
    }

    /// What requests get once no reply is left; "ok" unless a test says otherwise.
    pub fn otherwise(&self, reply: Reply) {
        self.shared.state().otherwise = reply;
    }

    /// Every request so far, refused ones as well.
    pub fn requests(&self) -> Vec<Asked> {
        self.shared.state().asked.clone()
    }

    pub fn count(&self) -> usize {
        self.shared.state().asked.len()
    }

    /// A request by its number, counted from one; waits for it while the gateway's clock stands still.
    pub fn request(&self, nth: usize) -> Asked {
        eventually(&format!("request {nth} comes"), || self.shared.state().asked.get(nth - 1).cloned())
    }

    /// Connections that neither side has closed.
    pub fn open(&self) -> usize {
        self.shared.state().open.len()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.stopping = true;
        state.open.values().for_each(|open| drop(open.shutdown(Shutdown::Both)));
        drop(state);
        // Wakes the thread that waits for the next connection.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut talks = Vec::new();
    for stream in listener.incoming().flatten() {
        let Some(number) = shared.admit(&stream) else { break };
        let shared = shared.clone();
        talks.push(std::thread::spawn(move || {
            // A client that goes away in the midst is part of the tests.
            let _ = shared.converse(stream);
            shared.state().open.remove(&number);
        }));
    }
    talks.into_iter().for_each(|talk| drop(talk.join()));
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a new connection; none once the server stops.
    fn admit(&self, stream: &TcpStream) -> Option<usize> {
        let mut state = self.state();
        if state.stopping {
            return None;
        }
        state.accepted += 1;
        let number = state.accepted;
        state.open.insert(number, stream.try_clone().expect("a socket"));
        Some(number)
    }

    /// Answers one request after the other until either side ends it.
    fn converse(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream.try_clone()?);
        while let Some(asked) = read_request(&mut reader)? {
            let (wire, counts) = (asked.wire(), asked.json["stream_options"]["include_usage"] == true);
            let (reply, first_call) = self.take(asked);
            match reply {
                Reply::Status(status, headers, message) => {
                    stream.write_all(refused(wire, status, &headers, &message).as_bytes())?;
                }
                Reply::Stream(said) => {
                    let events = match wire {
                        Some(Wire::Anthropic) => said.anthropic(first_call),
                        Some(Wire::OpenAi) | None => said.openai(first_call, counts),
                    };
                    send_events(&mut stream, &events)?;
                    match said.end {
                        End::Whole | End::Error(_) => stream.write_all(b"0\r\n\r\n")?,
                        End::Broken => return stream.shutdown(Shutdown::Both),
                        End::Stalled => return wait_for_the_end(&mut reader),
                    }
                }
                Reply::Silent => return wait_for_the_end(&mut reader),
            }
        }
        Ok(())
    }

    /// Keeps a request and chooses its reply, with the number of that reply's first call.
    fn take(&self, asked: Asked) -> (Reply, usize) {
        let refused = refusal(&asked);
        let last = asked.talk().pop().unwrap_or_default();
        let mut state = self.state();
        state.asked.push(asked);
        let rule = state.rules.iter().position(|(words, _)| last.contains(words.as_str()));
        let reply = match (refused, rule) {
            (Some(refused), _) => refused,
            (None, Some(at)) => state.rules.remove(at).1,
            (None, None) => {
                let next = state.replies.pop_front();
                next.unwrap_or_else(|| state.otherwise.clone())
            }
        };
        let first_call = state.calls + 1;
        if let Reply::Stream(stream) = &reply {
            state.calls += stream.calls.len();
        }
        (reply, first_call)
    }
}

fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Asked>> {
    let mut text = String::new();
    if reader.read_line(&mut text)? == 0 {
        return Ok(None);
    }
    let mut first = text.split_whitespace();
    let path = match (first.next(), first.next()) {
        (Some("POST"), Some(path)) => path.to_owned(),
        _ => String::new(),
    };
    let mut headers: Vec<(String, String)> = Vec::new();
    loop {
        let mut text = String::new();
        reader.read_line(&mut text)?;
        let Some((name, value)) = text.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").and_then(|(_, value)| value.parse().ok());
    let mut bytes = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut bytes)?;
    let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Ok(Some(Asked { path, headers, bytes, json }))
}

/// An answer that is an error in the vendor's words.
fn refused(wire: Option<Wire>, status: u16, headers: &str, message: &str) -> String {
    let kind = match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        404 => "not_found_error",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        _ => "api_error",
    };
    let error = json!({ "type": kind, "message": message });
    let body = match wire {
        Some(Wire::Anthropic) => json!({ "type": "error", "error": error }).to_string(),
        Some(Wire::OpenAi) | None => json!({ "error": error }).to_string(),
    };
    let head = format!("HTTP/1.1 {status} Refused\r\n{headers}content-type: application/json\r\n");
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}

/// Sends events in chunks that are cut anywhere, within a character as well.
fn send_events(stream: &mut TcpStream, events: &str) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")?;
    for piece in events.as_bytes().chunks((events.len() / 200).max(61)) {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        stream.write_all(&chunk)?;
    }
    Ok(())
}

fn wait_for_the_end(reader: &mut impl Read) -> io::Result<()> {
    io::copy(reader, &mut io::sink()).map(drop)
}
