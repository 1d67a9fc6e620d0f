//! Traces: what one message causes is one trace at the collector, and a collector that is not there costs nobody anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::chat::{Chat, relay};
use support::{Binary, RawHttp, TestDir, chela, eventually};

/// Takes OTLP over HTTP and remembers every span, and the last request's head.
struct Collector {
    address: SocketAddr,
    spans: Arc<Mutex<Vec<Value>>>,
    heads: Arc<Mutex<String>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let (spans, heads) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(String::new())));
        let (kept, noted) = (spans.clone(), heads.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream);
                while let Some((head, body)) = request(&mut reader) {
                    *noted.lock().expect("whole") = head;
                    let body: Value = serde_json::from_slice(&body).expect("JSON");
                    let found = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone();
                    kept.lock().expect("whole").extend(found);
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
                    if reader.get_mut().write_all(answer).is_err() {
                        break;
                    }
                }
            }
        });
        Self { address, spans, heads }
    }

    fn named(&self, name: &str) -> Vec<Value> {
        self.spans.lock().expect("whole").iter().filter(|span| span["name"] == name).cloned().collect()
    }
}

fn request(reader: &mut BufReader<std::net::TcpStream>) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

const SCRIPT: &str = r#"{ rules: [
    { agent: "ruda", when: "please build", steps: [
        { call: { tool: "sessions_send", args: { agentId: "seum", message: "build it", timeoutSeconds: 0 } } },
        { say: "asked" } ] },
  ], otherwise: "done" }"#;

#[test]
fn what_one_message_causes_is_one_trace_of_requests_runs_tools_components_and_jobs() {
    let collector = Collector::start();
    let dir = TestDir::with_config(|config| {
        config["traces"] = json!({
            "endpoint": format!("http://{}", collector.address), "headers": { "x-team": "a-secret-of-the-collector" },
        });
        config["session"]["agentToAgent"]["maxPingPongTurns"] = json!(0);
    });
    std::fs::write(dir.scratch().join("script.json5"), SCRIPT).expect("written");
    dir.edit_config(|config| config["providers"]["demo"]["script"] = json!(dir.scratch().join("script.json5")));
    let serving = Binary::serve(&dir);
    let sent =
        chela(&dir.state, &["send", "ruda", "please build the thing of our secret plan", "--key", "traced", "--wait"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let job = eventually("the job is told of", || collector.named("job").pop());
    let tool = eventually("the tool is told of", || collector.named("tool sessions_send").pop());
    let runs = eventually("both runs are told of", || Some(collector.named("run")).filter(|runs| runs.len() >= 2));
    let sent = eventually("what brought the message is told of", || collector.named("method agent").pop());
    let first = runs.iter().find(|run| run["parentSpanId"] == sent["spanId"]).expect("the run of the message");
    assert_eq!(first["traceId"], sent["traceId"], "it goes on in the trace of who brought it");
    assert_eq!((&tool["traceId"], &tool["parentSpanId"]), (&first["traceId"], &first["spanId"]));
    assert_eq!((&job["traceId"], &job["parentSpanId"]), (&first["traceId"], &tool["spanId"]));
    let asked = runs.iter().find(|run| run["parentSpanId"] == job["spanId"]).expect("the run of the job");
    assert_eq!(asked["traceId"], first["traceId"]);
    let asked = collector.named("component continuation");
    assert!(asked.iter().any(|span| span["traceId"] == first["traceId"]), "the run's instructions: {asked:#?}");
    let with_header = [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")];
    a_request_is_below_its_caller(&serving, &dir, &collector, &with_header);
    let all = format!("{:?}", collector.spans.lock().expect("whole"));
    assert!(!all.contains("secret plan") && !all.contains("build it"), "no words of people");
    assert!(collector.heads.lock().expect("whole").contains("a-secret-of-the-collector"));
    let ended = serving.terminate();
    assert!(!ended.stderr.contains("a-secret-of-the-collector"), "a secret was logged");
}

/// A message that comes by HTTP: caller, request, method and run, each below the one before.
fn a_request_is_below_its_caller(serving: &Binary, dir: &TestDir, collector: &Collector, headers: &[(&str, &str)]) {
    let params = json!({ "sessionKey": "agent:eden:main", "message": "hello", "idempotencyKey": "by-http" });
    let frame = json!({ "type": "req", "id": "1", "method": "chat.send", "params": params }).to_string();
    let mut asking = RawHttp::connect(serving.address());
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    asking.send(format!(
        "POST /rpc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n{more}\
         Connection: close\r\nContent-Length: {}\r\n\r\n{frame}",
        dir.token(),
        frame.len()
    ));
    let answer = asking.read_to_end();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let all = |name: &str, trace: &Value| -> Option<Value> {
        collector.named(name).into_iter().find(|span| span["traceId"] == *trace)
    };
    let trace = json!("4bf92f3577b34da6a3ce929d0e0e4736");
    let run = eventually("the run is told of", || all("run", &trace));
    let request = eventually("the request is told of", || all("POST /rpc", &trace));
    let method = eventually("the method is told of", || all("method chat.send", &trace));
    assert_eq!(request["parentSpanId"], "00f067aa0ba902b7");
    assert_eq!(method["parentSpanId"], request["spanId"]);
    assert_eq!(run["parentSpanId"], method["spanId"]);
}

#[test]
fn a_message_of_a_channel_and_its_run_are_below_the_call_of_the_adapter_that_brought_it() {
    let (collector, chat) = (Collector::start(), Chat::start());
    let dir = TestDir::with_config(|config| {
        config["traces"] = json!({ "endpoint": format!("http://{}", collector.address) });
        config["channels"]["relay"] = relay(&chat, json!({}));
    });
    let serving = Binary::serve(&dir);
    eventually("it is connected", || (!chat.heard("hello").is_empty()).then_some(()));
    chat.message(1, "good morning");
    let run = eventually("the run is told of", || collector.named("run").pop());
    let within = |name: &str, span: &Value| {
        let found = eventually("what it is within is told of", || {
            collector.named(name).into_iter().find(|outer| outer["spanId"] == span["parentSpanId"])
        });
        assert_eq!(found["traceId"], span["traceId"]);
        found
    };
    let commit = within("channel commit", &run);
    let call = within("channel relay", &commit);
    assert_eq!(call["parentSpanId"], "");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn a_collector_that_is_gone_costs_spans_and_nothing_else() {
    // A port that no other test is given meanwhile.
    let dir = TestDir::with_config(|config| config["traces"]["endpoint"] = json!("http://127.0.0.1:1"));
    let serving = Binary::serve(&dir);
    assert_eq!(chela(&dir.state, &["send", "ruda", "good morning", "--wait"]).code, Some(0));
    eventually("it is said", || serving.stderr().contains("takes nothing").then_some(()));
    assert_eq!(chela(&dir.state, &["send", "ruda", "good morning", "--wait"]).code, Some(0));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    eventually("they are counted", || {
        let page = runtime.block_on(serving.client(&dir.token()).get("/metrics")).expect("answered");
        let page = String::from_utf8(page.body.to_vec()).expect("text");
        let dropped = page.lines().find_map(|line| line.strip_prefix("chela_spans_dropped_total "))?;
        dropped.parse::<u64>().ok().filter(|dropped| *dropped > 0)
    });
    let ended = serving.terminate();
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.stderr.matches("takes nothing").count(), 1, "once");
}
