//! A disk that is full: new work is refused by name, what was accepted stays, and it goes on by itself when there is room.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use chela::client::Client;
use chela::layout::StateDir;
use chela::run::RunFile;
use serde_json::{Value, json};
use support::{Binary, TestDir, chela_command, eventually, have};
use tokio::runtime::Runtime;

/// A gateway whose state is on a small file system that only it sees by its name.
struct Small {
    serving: Binary,
    /// Something of ours on that file system.
    filler: PathBuf,
    client: Client,
    runtime: Runtime,
    _dir: TestDir,
}

impl Small {
    fn serve(dir: TestDir) -> Self {
        let token = dir.token();
        let mount = dir.scratch().join("small");
        fs::create_dir(&mount).expect("made");
        let plain = chela_command(&dir.state);
        let script = format!(
            "mount -t tmpfs -o size=24m tmpfs '{0}' && cp -a '{1}' '{0}/state' && exec '{2}' serve --state-dir '{0}/state'",
            mount.display(),
            dir.state.path().display(),
            plain.get_program().to_string_lossy(),
        );
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", &script]);
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let serving = Binary::spawn_command(&dir, command);
        let seen = |path: PathBuf| PathBuf::from(format!("/proc/{}/root{}", serving.pid(), path.display()));
        let state = StateDir::new(seen(mount.join("state")));
        let run = eventually("it is ready", || RunFile::read(&state).ok().flatten());
        let client = Client::new(run.addresses.gateway.expect("it listens"), Some(token));
        let filler = seen(mount.join("filler"));
        Self { serving, filler, client, runtime: Runtime::new().expect("a runtime"), _dir: dir }
    }

    /// New work, of some size.
    fn begin(&self, key: &str) -> Result<Value, String> {
        let body = json!({
            "tool": "task_backlog_add", "args": { "description": format!("task {key} {}", "and more ".repeat(1_500)) }, "sessionKey": "agent:ruda",
            "idempotencyKey": key,
        });
        let answer = self.runtime.block_on(self.client.invoke_tool(&body)).map_err(|error| error.to_string())?;
        if answer["success"] == json!(true) { Ok(answer) } else { Err(answer.to_string()) }
    }

    /// Leaves no room on the disk, nor in the journal; how much work was taken meanwhile, and what was said to the first that was not.
    fn fill(&self) -> (usize, String) {
        let mut file = fs::File::create(&self.filler).expect("made");
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        // The journal has some room of its own, which is used up first: what is accepted into it is as durable as before.
        let refused = (0..500).find_map(|nth| self.begin(&format!("while-full-{nth}")).err().map(|said| (nth, said)));
        refused.expect("the journal's room comes to its end")
    }

    fn free(&self) {
        fs::remove_file(&self.filler).expect("ours");
    }

    fn call(&self, method: &str, params: Value) -> Value {
        self.runtime.block_on(self.client.call(method, params)).expect("answered")
    }

    fn terminate(mut self) {
        self.serving.signal(rustix::process::Signal::TERM);
        let ended = self.serving.finished();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}

#[test]
fn a_full_disk_refuses_new_work_and_goes_on_by_itself_when_there_is_room() {
    if !have("mounts") {
        return;
    }
    let small = Small::serve(TestDir::with_config(|_| {}));
    let known = || -> usize {
        let answer =
            small.runtime.block_on(small.client.get("/api/tasks?limit=500")).expect("reads are answered").json();
        answer["tasks"].as_array().map_or(0, Vec::len)
    };
    for nth in 0..3 {
        small.begin(&format!("before-{nth}")).expect("there is room");
    }
    assert_eq!(known(), 3);
    let (taken, refused) = small.fill();
    assert!(refused.contains("No space left") || refused.contains("check the disk"), "{refused}");
    assert_eq!(known(), 3 + taken, "what was accepted is there, and nothing half done");
    let doctor = small.runtime.block_on(small.client.get("/healthz")).expect("an answer");
    assert_eq!(doctor.status, 200, "it lives");
    small.free();
    eventually("it goes on by itself", || small.begin("while-full").ok());
    small.begin("after").expect("there is room");
    assert_eq!(known(), 3 + taken + 2);
    small.terminate();
}

#[test]
fn a_run_waits_for_a_disk_that_is_full_and_ends_as_if_it_had_not_been() {
    if !have("mounts") {
        return;
    }
    const STEPS: usize = 24;
    // What it says fills the room that the journal has of its own.
    let step = json!({ "say": "{{input}}", "call": { "tool": "files_list", "args": {} }, "delayMs": 200 });
    let mut steps = vec![step; STEPS];
    steps.push(json!({ "say": "all done" }));
    let script = json!({ "rules": [{ "when": "work", "steps": steps }], "otherwise": "heard" });
    let small = Small::serve(TestDir::scripted(&script.to_string(), |config| {
        config["providers"]["demo"]["models"][0]["contextWindow"] = json!(1_000_000);
    }));
    let message = format!("work {}", "and more ".repeat(6_000));
    let params = json!({ "sessionKey": "agent:eden:main", "message": message, "idempotencyKey": "k" });
    assert_eq!(small.call("chat.send", params)["status"], "started");
    small.fill();
    eventually("it waits", || small.serving.stderr().contains("not recorded yet").then_some(()));
    let waited = || small.call("agent.wait", json!({ "runId": "k", "timeoutMs": 0 }));
    assert!(waited().get("endedAt").is_none(), "it has not come to nothing");
    small.free();
    let ended = eventually("it goes on", || Some(waited()).filter(|waited| waited.get("endedAt").is_some()));
    assert_eq!((&ended["status"], &ended["terminalReply"]["text"]), (&json!("ok"), &json!("all done")), "{ended}");
    let history = small.call("chat.history", json!({ "sessionKey": "agent:eden:main", "limit": 200 }));
    let rows = history["messages"].as_array().expect("rows");
    let results = rows.iter().filter(|row| row["role"] == "toolResult").count();
    assert_eq!(results, STEPS, "each call was made once");
    small.terminate();
}
