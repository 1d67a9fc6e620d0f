//! Event logs for the monitor: the fixture of the old system, and lines that a test writes itself.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::TestDir;

/// A directory of `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// What must be found in the directory of the old system.
pub fn expected_of_old_system() -> Value {
    let text = fs::read_to_string(fixture("old-system.expected.json")).expect("readable");
    serde_json::from_str(&text).expect("JSON")
}

/// A state directory of ours with the team, the log and the workspaces of the old system. Its jobs are left out: a gateway would take
/// them over, and tell of it.
pub fn old_system() -> TestDir {
    let dir = old_system_with_jobs();
    fs::remove_dir_all(dir.state.jobs()).expect("it has jobs");
    dir
}

/// The same with its jobs.
pub fn old_system_with_jobs() -> TestDir {
    let dir = TestDir::with_config(|config| {
        let agent = |id: &str| json!({ "id": id });
        config["agents"]["list"] = json!([agent("eden"), agent("seum"), agent("ieum"), agent("nuri")]);
        config["agents"]["default"] = json!("eden");
        config["teams"] = json!([]);
    });
    copy_all(&fixture("old-system"), dir.state.path());
    fs::remove_file(dir.state.old_config()).expect("it has a configuration of ours");
    dir
}

/// Copies a directory's files, with those below it.
pub fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("readable") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_all(&path, &target);
        } else {
            fs::copy(&path, &target).expect("copied");
        }
    }
}

/// A state directory with these lines as its log.
pub fn with_log(lines: &[Value]) -> TestDir {
    let dir = TestDir::with_config(|_| {});
    write_log(&dir, lines);
    dir
}

pub fn write_log(dir: &TestDir, lines: &[Value]) {
    fs::create_dir_all(dir.state.logs()).expect("made");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(dir.state.event_log(), text).expect("written");
}

/// An event of the log, without an id.
pub fn event(kind: &str, ts: u64, data: Value) -> Value {
    json!({ "type": kind, "agentId": "eden", "ts": ts, "data": data })
}
