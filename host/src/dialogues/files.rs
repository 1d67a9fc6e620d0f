//! One file a task, one turn a line, in the order in which their runs ended. Whoever removes them gets them back.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::turns;
use crate::config::Config;

/// There when the files hold everything that ended before.
const WHOLE: &str = ".whole";
/// A line past this is not ours.
const LINE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// So much of an end is read first.
const STEP_BYTES: u64 = 16 * 1024;

fn path_of(dir: &Path, task: &str) -> PathBuf {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !task.is_empty() && task.len() <= 128 && task.chars().all(plain) {
        true => dir.join(format!("{task}.jsonl")),
        false => dir.join(format!("{}.jsonl", &blake3::hash(task.as_bytes()).to_hex()[..32])),
    }
}

/// Every turn that the file of a task has; a torn end is no turn.
pub(super) fn read(dir: &Path, task: &str) -> io::Result<Vec<Value>> {
    let file = match File::open(path_of(dir, task)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    let of_task = |turn: &Value| turn["taskId"] == *task;
    for_each_line(file, |line| found.extend(serde_json::from_slice(line).ok().filter(of_task)))?;
    Ok(found)
}

fn for_each_line(file: File, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    loop {
        line.clear();
        let mut limited = io::Read::take(&mut reader, LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        take(&line);
    }
}

/// Appends the turns of a run, unless they are there, and brings them to the disk. Runs are written one after the other, each until it is
/// there: only the last can be there already, or a part of it.
pub(super) fn append(dir: &Path, task: &str, run: &str, turns: &[Value]) -> io::Result<()> {
    chela_storage::make_private_dir(dir)?;
    if turns.is_empty() {
        return Ok(());
    }
    let path = path_of(dir, task);
    let mut file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(path)?;
    let (from, there) = end_of_run(&file, run)?;
    if there >= turns.len() {
        return Ok(());
    }
    // A part of it, or a line that a crash has cut off.
    if from != file.metadata()?.len() {
        file.set_len(from)?;
    }
    let text: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

/// Where the lines of a run begin that a file ends with, and how many they are; a torn line is none.
fn end_of_run(file: &File, run: &str) -> io::Result<(u64, usize)> {
    let len = file.metadata()?.len();
    let mut step = STEP_BYTES;
    loop {
        let start = len.saturating_sub(step);
        let mut bytes = vec![0; usize::try_from(len - start).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, start)?;
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (mut from, mut count) = (whole, 0);
        while from > 0 {
            let line = bytes[..from - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            if line == 0 && start > 0 {
                // It begins before what was read.
                break;
            }
            let turn: Option<Value> = serde_json::from_slice(&bytes[line..from - 1]).ok();
            if turn.is_none_or(|turn| turn["runId"] != *run) {
                return Ok((start + from as u64, count));
            }
            (from, count) = (line, count + 1);
        }
        if start == 0 {
            return Ok((from as u64, count));
        }
        step *= 2;
    }
}

pub(super) fn are_whole(dir: &Path) -> bool {
    dir.join(WHOLE).exists()
}

/// Makes all files anew from the transcripts of sessions.
pub(super) fn rebuild(
    dir: &Path,
    sessions: &Path,
    config: &Config,
    is_under_way: &dyn Fn(&str) -> bool,
) -> io::Result<usize> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    chela_storage::make_private_dir(dir)?;
    let mut count = 0;
    for agent in entries(sessions)? {
        let Some(name) = agent.file_name().and_then(|name| name.to_str()) else { continue };
        let files = entries(&agent)?.into_iter().chain(entries(&agent.join("archive"))?);
        for path in files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")) {
            count += take_up(dir, config, name, &path, is_under_way)?;
        }
    }
    File::create(dir.join(WHOLE))?.sync_all()?;
    Ok(count)
}

fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The runs of one transcript that worked for tasks. Runs follow each other in it, so one is in memory at a time.
fn take_up(
    dir: &Path,
    config: &Config,
    agent: &str,
    path: &Path,
    is_under_way: &dyn Fn(&str) -> bool,
) -> io::Result<usize> {
    let session_id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    let mut of_task: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let (mut rows, mut count): (Vec<Value>, usize) = (Vec::new(), 0);
    let mut close = |rows: &mut Vec<Value>| {
        let run = rows.first().and_then(|row| row["__openclaw"]["runId"].as_str()).unwrap_or_default();
        // It is written when it has ended.
        let tasks = if is_under_way(run) { Vec::new() } else { tasks_of(rows) };
        // A file that many sessions share says of each row whose it is.
        let of_row = rows.first().and_then(|row| row["__openclaw"]["sessionId"].as_str());
        let session_id = of_row.unwrap_or(&session_id).to_owned();
        for task in tasks {
            let turns = turns::of_run(config, agent, &session_id, &task, rows);
            count += turns.len();
            of_task.entry(task).or_default().extend(turns);
        }
        rows.clear();
    };
    for_each_line(File::open(path)?, |line| {
        let Ok(row) = serde_json::from_slice::<Value>(line) else { return };
        if rows.last().is_some_and(|last| last["__openclaw"]["runId"] != row["__openclaw"]["runId"]) {
            close(&mut rows);
        }
        if row["__openclaw"]["runId"].is_string() {
            rows.push(row);
        }
    })?;
    close(&mut rows);
    for (task, turns) in of_task {
        let text: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
        let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path_of(dir, &task))?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
    }
    Ok(count)
}

/// The tasks that a run worked for, as its rows say.
pub(super) fn tasks_of(rows: &[Value]) -> Vec<String> {
    let mut tasks: Vec<String> = Vec::new();
    for id in rows.iter().filter_map(|row| row["__openclaw"]["taskIds"].as_array()).flatten() {
        if let Some(id) = id.as_str().filter(|id| !tasks.iter().any(|known| known == id)) {
            tasks.push(id.to_owned());
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_is_there_once_and_a_torn_end_takes_nothing_with_it() {
        let temp = tempfile::tempdir().expect("a directory");
        let turn = |run: &str| json!({ "runId": run, "taskId": "task_1", "content": "x" });
        append(temp.path(), "task_1", "a", &[turn("a"), turn("a")]).expect("written");
        append(temp.path(), "task_1", "a", &[turn("a")]).expect("there already");
        let mut file = OpenOptions::new().append(true).open(temp.path().join("task_1.jsonl")).expect("there");
        file.write_all(b"{\"runId\":\"tor").expect("torn");
        append(temp.path(), "task_1", "b", &[turn("b")]).expect("written");
        let runs: Vec<Value> =
            read(temp.path(), "task_1").expect("read").iter().map(|turn| turn["runId"].clone()).collect();
        assert_eq!(runs, ["a", "a", "b"]);
        // A crash in the middle of a run: it is written again as a whole.
        let long =
            |run: &str, n: u64| json!({ "runId": run, "taskId": "task_1", "n": n, "content": "y".repeat(30_000) });
        append(temp.path(), "task_1", "c", &[long("c", 0), long("c", 1)]).expect("written");
        append(temp.path(), "task_1", "c", &[long("c", 0), long("c", 1), long("c", 2)]).expect("written again");
        append(temp.path(), "task_1", "c", &[long("c", 0), long("c", 1), long("c", 2)]).expect("there already");
        let found = read(temp.path(), "task_1").expect("read");
        let numbers: Vec<Option<u64>> = found.iter().map(|turn| turn["n"].as_u64()).collect();
        assert_eq!(numbers, [None, None, None, Some(0), Some(1), Some(2)]);
        assert!(read(temp.path(), "../task_1").expect("read").is_empty());
        assert!(path_of(temp.path(), "../x").starts_with(temp.path()));
        assert!(!path_of(temp.path(), "../x").to_string_lossy().contains(".."));
    }
}
