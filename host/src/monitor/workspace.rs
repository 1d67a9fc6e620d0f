//! What lies in the agents' workspaces and in the directory of jobs, read as it is: by whoever wrote it, never changed here.
//! Keeps true: a file that cannot be read is listed with its problem, it does not vanish.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// A larger file is listed, not read.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Of a directory no more files than these are read.
const FILES_MAX: usize = 10_000;
/// Of finished tasks, the newest months.
const MONTHS_MAX: usize = 120;

/// The tasks of a workspace that are not archived, by id.
pub fn tasks(workspace: &Path) -> Vec<Value> {
    markdown_in(&workspace.join("tasks")).into_iter().map(|path| task_of(&path)).collect()
}

/// One task by its id, archived ones too.
pub fn task(workspace: &Path, id: &str) -> Option<Value> {
    let open = tasks(workspace).into_iter().find(|task| task["id"] == id);
    open.or_else(|| history(workspace).into_iter().find(|task| task["id"] == id))
}

/// Finished tasks, the newest month first.
pub fn history(workspace: &Path) -> Vec<Value> {
    let mut months = markdown_in(&workspace.join("task-history"));
    months.reverse();
    months.truncate(MONTHS_MAX);
    let mut found = Vec::new();
    for path in months {
        let month = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let Ok(text) = text_of(&path) else { continue };
        for document in documents(&text) {
            let mut task = parse(&document);
            task.insert("month".into(), json!(month));
            found.push(Value::Object(task));
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
                let labels = labels(&text);
                json!({ "id": id, "status": labels.get("Status"), "taskId": labels.get("Task"), "body": text })
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
        Ok(text) => {
            let mut task = parse(&text);
            task.entry("id").or_insert_with(|| json!(id));
            Value::Object(task)
        }
        Err(problem) => json!({ "id": id, "problem": problem }),
    }
}

/// Whole tasks of a month, which `---` parts.
fn documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.lines() {
        if line.starts_with("# Task:") && documents.last().is_some_and(|last| last.contains("# Task:")) {
            documents.push(String::new());
        }
        if line.trim() != "---" {
            let last = documents.last_mut().expect("one is there from the start");
            last.push_str(line);
            last.push('\n');
        }
    }
    documents.retain(|document| document.contains("# Task:"));
    documents
}

/// `- **Label:** value`, wherever it stands.
fn labels(text: &str) -> std::collections::BTreeMap<String, String> {
    let label = |line: &str| {
        let (label, value) = line.trim().strip_prefix("- **")?.split_once(":**")?;
        Some((label.to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(label).collect()
}

fn parse(text: &str) -> Map<String, Value> {
    let mut task = Map::new();
    let mut sections: Vec<(String, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        if let Some(id) = line.strip_prefix("# Task:") {
            task.insert("id".into(), json!(id.trim()));
        } else if let Some(name) = line.strip_prefix("## ") {
            sections.push((name.trim().to_owned(), Vec::new()));
        } else if let Some((_, lines)) = sections.last_mut() {
            lines.push(line);
        }
    }
    for (name, lines) in sections {
        section(&mut task, &name, &lines);
    }
    task
}

fn section(task: &mut Map<String, Value>, name: &str, lines: &[&str]) {
    let text = lines.join("\n").trim().to_owned();
    match name {
        "Metadata" | "Blocked" => {
            for (label, value) in labels(&text) {
                if let Some(key) = key_of(&label) {
                    task.insert(key.into(), json!(value));
                }
            }
        }
        "Description" => drop(task.insert("description".into(), json!(text))),
        "Context" => drop(task.insert("context".into(), json!(text))),
        "Last Activity" => drop(task.insert("lastActivity".into(), json!(text))),
        "Progress" => {
            let progress: Vec<&str> = lines.iter().filter_map(|line| line.trim().strip_prefix("- ")).collect();
            task.insert("progress".into(), json!(progress));
        }
        "Outcome" => drop(task.insert("outcome".into(), json!(text))),
        "Steps" => steps(task, lines),
        _ => {}
    }
}

fn key_of(label: &str) -> Option<&'static str> {
    Some(match label {
        "Status" => "status",
        "Priority" => "priority",
        "Created" => "created",
        "Source" => "source",
        "Work Session" => "workSessionId",
        "Previous Work Session" => "previousWorkSessionId",
        "Created By" => "createdBy",
        "Assignee" => "assignee",
        "Effort" => "estimatedEffort",
        "Start" => "startDate",
        "Due" => "dueDate",
        "Reason" => "blockedReason",
        "Kind" => "blockedKind",
        "Unblocked By" => "unblockedBy",
        "Action" | "Unblock Action" => "unblockedAction",
        "Escalation" => "escalationState",
        _ => return None,
    })
}

fn steps(task: &mut Map<String, Value>, lines: &[&str]) {
    let mut steps = Vec::new();
    let mut counts = [0_u64; 4];
    for line in lines {
        let Some((marker, rest)) = line.trim().strip_prefix("- [").and_then(|rest| rest.split_once("] (")) else {
            continue;
        };
        let Some((id, content)) = rest.split_once(") ") else { continue };
        let (at, status) = match marker {
            "x" => (0, "done"),
            ">" => (1, "in_progress"),
            " " => (2, "pending"),
            "-" => (3, "skipped"),
            _ => continue,
        };
        counts[at] += 1;
        steps.push(json!({ "id": id, "content": content, "status": status, "order": steps.len() + 1 }));
    }
    if steps.is_empty() {
        return;
    }
    let [done, in_progress, pending, skipped] = counts;
    let progress = json!({ "total": steps.len(), "done": done, "inProgress": in_progress, "pending": pending, "skipped": skipped });
    task.insert("steps".into(), json!(steps));
    task.insert("stepsProgress".into(), progress);
}
