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

#[test]
fn a_full_disk_refuses_new_work_and_goes_on_by_itself_when_there_is_room() {
    if !have("mounts") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
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
    let mut serving = Binary::spawn_command(&dir, command);
    // Only the gateway sees that file system by its name.
    let seen = |path: PathBuf| PathBuf::from(format!("/proc/{}/root{}", serving.pid(), path.display()));
    let state = StateDir::new(seen(mount.join("state")));
    let run = eventually("it is ready", || RunFile::read(&state).ok().flatten());
    let client = Client::new(run.addresses.gateway.expect("it listens"), Some(token));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let begin = |key: &str| -> Result<Value, String> {
        let body = json!({
            "tool": "task_backlog_add", "args": { "description": format!("task {key} {}", "and more ".repeat(1_500)) }, "sessionKey": "agent:eden",
            "idempotencyKey": key,
        });
        let answer = runtime.block_on(client.invoke_tool(&body)).map_err(|error| error.to_string())?;
        if answer["success"] == json!(true) { Ok(answer) } else { Err(answer.to_string()) }
    };
    let known = || -> usize {
        let answer = runtime.block_on(client.get("/api/tasks?limit=500")).expect("reads are answered").json();
        answer["tasks"].as_array().map_or(0, Vec::len)
    };
    for nth in 0..3 {
        begin(&format!("before-{nth}")).expect("there is room");
    }
    assert_eq!(known(), 3);

    let filler = seen(mount.join("filler"));
    let mut file = fs::File::create(&filler).expect("made");
    for size in [1 << 20, 4096, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
    drop(file);
    // The journal has some room of its own, which is used up first: what is accepted into it is as durable as before.
    let mut accepted = 3;
    let refused = (0..500).find_map(|nth| {
        let refused = begin(&format!("while-full-{nth}")).err();
        accepted += usize::from(refused.is_none());
        refused
    });
    let refused = refused.expect("the journal's room comes to its end");
    assert!(refused.contains("No space left") || refused.contains("check the disk"), "{refused}");
    assert_eq!(known(), accepted, "what was accepted is there, and nothing half done");
    let doctor = runtime.block_on(client.get("/healthz")).expect("an answer");
    assert_eq!(doctor.status, 200, "it lives");

    fs::remove_file(&filler).expect("ours");
    eventually("it goes on by itself", || begin("while-full").ok());
    begin("after").expect("there is room");
    assert_eq!(known(), accepted + 2);
    serving.signal(rustix::process::Signal::TERM);
    let ended = serving.finished();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
