//! What lies in the agents' workspaces and in the directory of jobs, read as it is: by whoever wrote it, never changed here.
//! Keeps true: a file that cannot be read is listed with its problem, it does not vanish.

use std::fs;
use std::path::{Path, PathBuf};

use chela_taskfile::{Document, History, month_of};
use serde_json::{Value, json};

/// A larger file is listed, not read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Of a directory no more files than these are read.
const FILES_MAX: usize = 10_000;
/// Of finished tasks, the newest files; a month may have several.
const MONTHS_MAX: usize = 120;

/// The tasks of a workspace that are not archived, by id.
pub fn tasks(workspace: &Path) -> Vec<Value> {
    let is_copy = |path: &PathBuf| path.to_string_lossy().contains(".conflict-");
    markdown_in(&workspace.join("tasks")).into_iter().filter(|path| !is_copy(path)).map(|path| task_of(&path)).collect()
}

/// One task by its id, archived ones too.
pub fn task(workspace: &Path, id: &str) -> Option<Value> {
    let open = tasks(workspace).into_iter().find(|task| task["id"] == id);
    open.or_else(|| history(workspace).into_iter().find(|task| task["id"] == id))
}

/// Finished tasks, the newest month first.
pub fn history(workspace: &Path) -> Vec<Value> {
    let files = markdown_in(&workspace.join("task-history"));
    let named = files.iter().filter_map(|path| Some((month_of(path.file_name()?.to_str()?)?, path)));
    let mut months: Vec<((&str, u32), &PathBuf)> = named.collect();
    months.sort();
    months.reverse();
    months.truncate(MONTHS_MAX);
    let mut found = Vec::new();
    for ((month, _), path) in months {
        let Ok(text) = text_of(path) else { continue };
        for (id, range) in History::of(&text).tasks {
            let mut task = shown(&Document::parse(&text[range]), &id);
            task["month"] = json!(month);
            found.push(task);
        }
    }
    found
}

/// Plans that were handed in.
pub fn plans(workspace: &Path) -> Vec<Value> {
    let read = |path: PathBuf| {
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        match text_of(&path) {
            Ok(text) => {
                let document = Document::parse(&text);
                json!({ "id": id, "status": document.label("Status"), "taskId": document.label("Task"), "body": text })
            }
            Err(problem) => json!({ "id": id, "problem": problem }),
        }
    };
    markdown_in(&workspace.join("plans")).into_iter().map(read).collect()
}

/// The task that an agent works on: of those in progress, the one with the latest activity.
pub fn current(workspace: &Path) -> Option<Value> {
    let in_progress = tasks(workspace).into_iter().filter(|task| task["status"] == "in_progress");
    in_progress.max_by_key(|task| task["lastActivity"].as_str().unwrap_or_default().to_owned())
}

/// The records of jobs, the latest first.
pub fn jobs(dir: &Path) -> Vec<Value> {
    let mut jobs: Vec<Value> = files_in(dir, "json").into_iter().filter_map(|path| job_of(&path)).collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(job["updatedAt"].as_u64()));
    jobs
}

fn job_of(path: &Path) -> Option<Value> {
    path.file_name()?.to_str()?.strip_prefix("job-")?;
    let text = text_of(path).ok()?;
    serde_json::from_str(&text).ok().filter(Value::is_object)
}

fn markdown_in(dir: &Path) -> Vec<PathBuf> {
    files_in(dir, "md")
}

fn files_in(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let paths = entries.filter(is_file).map(|entry| entry.path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|found| found == ending)).take(FILES_MAX).collect();
    paths.sort();
    paths
}

fn text_of(path: &Path) -> Result<String, String> {
    let facts = fs::metadata(path).map_err(|error| error.to_string())?;
    if facts.len() > FILE_BYTES_MAX {
        return Err(format!("larger than {FILE_BYTES_MAX} bytes"));
    }
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| format!("not UTF-8 (byte {})", error.utf8_error().valid_up_to()))
}

fn task_of(path: &Path) -> Value {
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match text_of(path) {
        Ok(text) => shown(&Document::parse(&text), &id),
        Err(problem) => json!({ "id": id, "problem": problem }),
    }
}

/// What a file says, and what is wrong with it.
fn shown(document: &Document, id: &str) -> Value {
    let mut task = document.task();
    if task.id.is_empty() {
        id.clone_into(&mut task.id);
    }
    let mut fields = task.to_json();
    if let Some(problem) = document.problems().first() {
        fields.insert("problem".into(), json!(format!("line {}: {}", problem.line, problem.said)));
    }
    Value::Object(fields)
}
