//! Traces: what one message causes is one trace at the collector, and a collector that is not there costs nobody anything.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::{Binary, TestDir, chela, eventually};

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
    let first = runs.iter().find(|run| run["parentSpanId"] == "").expect("the run of the message");
    assert_eq!((&tool["traceId"], &tool["parentSpanId"]), (&first["traceId"], &first["spanId"]));
    assert_eq!((&job["traceId"], &job["parentSpanId"]), (&first["traceId"], &tool["spanId"]));
    let asked = runs.iter().find(|run| run["parentSpanId"] == job["spanId"]).expect("the run of the job");
    assert_eq!(asked["traceId"], first["traceId"]);
    let asked = collector.named("component continuation");
    assert!(asked.iter().any(|span| span["traceId"] == first["traceId"]), "the run's instructions: {asked:#?}");
    assert!(!collector.named("GET").is_empty() || !collector.named("POST").is_empty(), "requests are told of");
    let all = format!("{:?}", collector.spans.lock().expect("whole"));
    assert!(!all.contains("secret plan") && !all.contains("build it"), "no words of people");
    assert!(collector.heads.lock().expect("whole").contains("a-secret-of-the-collector"));
    let ended = serving.terminate();
    assert!(!ended.stderr.contains("a-secret-of-the-collector"), "a secret was logged");
}

#[test]
fn a_collector_that_is_gone_costs_spans_and_nothing_else() {
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let dir = TestDir::with_config(|config| config["traces"]["endpoint"] = json!(format!("http://{gone}")));
    let serving = Binary::serve(&dir);
    assert_eq!(chela(&dir.state, &["send", "ruda", "good morning", "--wait"]).code, Some(0));
    eventually("it is said", || serving.stderr().contains("takes nothing").then_some(()));
    assert_eq!(chela(&dir.state, &["send", "ruda", "good morning", "--wait"]).code, Some(0));
    let ended = serving.terminate();
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.stderr.matches("takes nothing").count(), 1, "once");
}
