//! `chela monitor`: over a directory of the old system and over one that another gateway writes, without a trace left there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use chela::client::Client;
use chela::layout::StateDir;
use serde_json::{Value, json};
use support::events::{copy_all, event, expected_of_old_system, fixture};
use support::{TestDir, chela_command, eventually};

struct Watching {
    client: Client,
    runtime: tokio::runtime::Runtime,
    _process: Process,
}

/// Ended with the test, however that ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Watching {
    fn start(dir: &TestDir, arguments: &[&str]) -> Self {
        let token = dir.scratch().join("token");
        fs::write(&token, "a-token-for-the-monitor\n").expect("written");
        let mut command: Command = chela_command(&dir.state);
        command
            .args(["monitor", "--listen", "0", "--token-file"])
            .arg(&token)
            .arg("--index-dir")
            .arg(dir.scratch().join("index"));
        let mut process =
            Process(command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it runs"));
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not one JSON line: {line:?}"));
        let address = said["monitor"].as_str().expect("an address").parse().expect("an address");
        let client = Client::new(address, Some("a-token-for-the-monitor".into()));
        Self { client, runtime: tokio::runtime::Runtime::new().expect("a runtime"), _process: process }
    }

    fn get(&self, path: &str) -> Value {
        eventually("the index is there", || {
            let body = self.runtime.block_on(self.client.get(path)).expect("an answer").json();
            (body["error"]["code"] != "indexing").then_some(body)
        })
    }

    fn patch(&self, path: &str, body: &Value) -> u16 {
        let sent = self.client.send("PATCH".parse().expect("a verb"), path, &[], body.to_string().into_bytes());
        self.runtime.block_on(sent).expect("an answer").status
    }
}

fn old_directory() -> TestDir {
    let dir = TestDir::empty();
    copy_all(&fixture("old-system"), dir.state.path());
    dir
}

/// Every file with what is in it.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let state = StateDir::new(dir);
    let mut found = BTreeMap::new();
    let mut left = vec![state.path().to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).expect("readable").flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.display().to_string(), fs::read(&path).expect("readable"));
            }
        }
    }
    found
}

#[test]
fn a_directory_of_the_old_system_is_shown_and_left_as_it_is() {
    let dir = old_directory();
    let before = contents(dir.state.path());
    let expected = expected_of_old_system();
    let watching = Watching::start(&dir, &[]);
    let page = watching.get("/api/events?limit=500");
    assert_eq!(page["events"].as_array().map(Vec::len), expected["log"]["events"].as_u64().map(|n| n as usize));
    let sessions = watching.get("/api/work-sessions?limit=500");
    assert_eq!(
        sessions["workSessions"].as_array().map(Vec::len),
        expected["workSessions"].as_array().map(Vec::len),
        "{sessions}"
    );
    let by_hand = watching.get("/api/work-sessions/ws_b94e21c7-03da-4d58-8f2e-6a1c7e5d9042");
    assert_eq!(by_hand["categorySource"], "manual_override");
    let agents = watching.get("/api/agents");
    assert_eq!(agents["agents"].as_array().map(Vec::len), expected["agents"]["configured"].as_array().map(Vec::len));
    assert_eq!(watching.get("/api/agents/eden/current")["task"]["id"], expected["tasks"]["eden"]["current"]);
    let refused = watching.patch(
        "/api/work-sessions/ws_b94e21c7-03da-4d58-8f2e-6a1c7e5d9042/category",
        &json!({ "collabCategory": "infra_ops" }),
    );
    assert_eq!(refused, 403);
    assert_eq!(contents(dir.state.path()), before, "nothing is written there");
}

#[test]
fn what_another_process_appends_and_rotates_is_followed() {
    let dir = old_directory();
    let watching = Watching::start(&dir, &["--allow-overrides"]);
    let seen = |watching: &Watching| {
        watching.get("/api/events?workSessionId=ws_new&limit=500")["events"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(seen(&watching), 0);
    let append = |n: u64| {
        let mut log = fs::OpenOptions::new().create(true).append(true).open(dir.state.event_log()).expect("opens");
        let data =
            json!({ "workSessionId": "ws_new", "fromAgent": "eden", "toAgent": "seum", "message": format!("{n}") });
        writeln!(log, "{}", event("a2a.send", 1_771_400_000_000 + n, data)).expect("written");
    };
    (0..5).for_each(append);
    eventually("it is followed", || (seen(&watching) == 5).then_some(()));
    // As the old system closes a month: renamed, and a new file begun.
    fs::rename(dir.state.event_log(), dir.state.logs().join("coordination-events-2026-02.ndjson")).expect("renamed");
    (5..9).for_each(append);
    eventually("it is followed into the next file", || (seen(&watching) == 9).then_some(()));
    assert_eq!(watching.patch("/api/work-sessions/ws_new/category", &json!({ "collabCategory": "infra_ops" })), 200);
    assert!(fs::read_to_string(dir.state.category_overrides()).expect("readable").contains("ws_new"));
}

#[test]
fn a_line_of_ten_megabytes_that_comes_in_pieces_is_counted_once_and_what_follows_is_shown() {
    let dir = old_directory();
    let append = |bytes: &[u8]| {
        let mut log = fs::OpenOptions::new().append(true).open(dir.state.event_log()).expect("opens");
        log.write_all(bytes).expect("written");
    };
    let malformed = |watching: &Watching| watching.get("/api/health")["monitor"]["malformedLines"].as_u64();
    let good =
        |session: &str| format!("{}\n", event("a2a.send", 1_771_400_000_000, json!({ "workSessionId": session })));
    let watching = Watching::start(&dir, &[]);
    watching.get("/api/stats");
    let before = malformed(&watching).expect("a number");
    append(&vec![b'x'; 9 * 1024 * 1024]);
    append(&vec![b'x'; 1024 * 1024]);
    // Whoever begins in the middle of it must not take its end, an event but for what stands before it, for a line.
    drop(watching);
    let watching = Watching::start(&dir, &[]);
    watching.get("/api/stats");
    append(good("ws_torn").as_bytes());
    append(good("ws_after").as_bytes());
    append(b"\xff\xfe\n");
    append(good("ws_last").as_bytes());
    eventually("what follows is shown", || {
        watching.get("/api/events?workSessionId=ws_last")["events"].as_array().filter(|rows| rows.len() == 1).map(drop)
    });
    assert_eq!(malformed(&watching), Some(before + 2));
    assert_eq!(watching.get("/api/events?workSessionId=ws_after")["events"].as_array().map(Vec::len), Some(1));
    assert_eq!(watching.get("/api/events?workSessionId=ws_torn")["events"], json!([]));
}

#[test]
fn what_cannot_be_watched_is_said() {
    let dir = TestDir::empty();
    let refused = |arguments: &[&str]| {
        let output = chela_command(&dir.state).arg("monitor").args(arguments).output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(refused(&[]).contains("there is no directory"));
    fs::create_dir_all(dir.state.path()).expect("made");
    let index = dir.scratch().join("index").display().to_string();
    assert!(refused(&["--index-dir", &index]).contains("--token-file"));
    let inside = dir.state.path().join("index").display().to_string();
    assert!(refused(&["--index-dir", &inside]).contains("choose another --index-dir"));
}
