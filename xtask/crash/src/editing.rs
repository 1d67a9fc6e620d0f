//! Many tools and one person on one task: writers call tools as fast as they like, an editor saves in three ways, a reader looks for torn files.
//! Keeps true: what was lost is told by the file at the end and by what each writer was told, never by the gateway's own word.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chela::app::App;
use chela::layout::StateDir;
use chela::session_key::SessionKey;
use chela::tools::Call;
use serde::Serialize;
use serde_json::{Value, json};

const AGENT: &str = "eden";
const WRITERS: usize = 8;
/// Between two calls of a writer, and two saves of the person.
const WRITER_PAUSE: Duration = Duration::from_millis(40);
const EDITOR_PAUSE: Duration = Duration::from_millis(120);
/// An editor that opened the file so many saves ago.
const STALE: usize = 4;

#[derive(Clone, Debug, Default, Serialize)]
pub struct Edited {
    /// Changes by tools that were acknowledged, and saves by hand.
    pub edits: u64,
    pub by_tools: u64,
    pub by_hand: u64,
    /// Of all of them, what is neither in the file nor beside it.
    pub edits_lost: u64,
    pub doubled: u64,
    /// Saves that did not fit and are kept beside the file.
    pub kept_beside: u64,
    /// Readings of a file that was not whole.
    pub torn: u64,
    pub reads: u64,
    /// What was lost, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
}

/// What the writers were told.
#[derive(Default)]
struct Told {
    lines: Vec<String>,
    /// Steps by id, each with its content.
    steps: BTreeMap<String, String>,
    done: Vec<String>,
}

/// Works on one task of the demo team for so long.
pub async fn run(app: &App, dir: &StateDir, duration: Duration) -> Result<Edited> {
    let tools = app.tools().clone();
    let session = SessionKey::parse(AGENT)?;
    let call = move |tool: &str, args: Value| {
        let (tools, session) = (tools.clone(), session.clone());
        let call = Call::of_caller(tool, args.as_object().cloned().unwrap_or_default(), session);
        async move {
            let answer = tools.invoke(call).await.map_err(|error| anyhow::anyhow!("{error}"))?;
            ensure!(answer["success"] == json!(true), "{}", Value::Object(answer.clone()));
            anyhow::Ok(answer)
        }
    };
    let steps: Vec<Value> = (0..3).map(|n| json!({ "content": format!("step {n}") })).collect();
    let started = call("task_start", json!({ "description": "함께 고치는 일", "steps": steps })).await?;
    let id = started["taskId"].as_str().context("a task has an id")?.to_owned();
    let path = dir.path().join(format!("workspace-{AGENT}/tasks/{id}.md"));
    let until = Instant::now() + duration;
    let told = Arc::new(Mutex::new(Told::default()));
    let [saving, torn, reads] = [(); 3].map(|()| Arc::new(AtomicU64::new(0)));

    let editor = {
        let (path, saving) = (path.clone(), saving.clone());
        std::thread::spawn(move || edit(&path, until, &saving))
    };
    let reader = {
        let (path, saving, torn, reads) = (path.clone(), saving, torn.clone(), reads.clone());
        std::thread::spawn(move || read(&path, until, &saving, &torn, &reads))
    };
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (call, told, id) = (call.clone(), told.clone(), id.clone());
        writers.push(tokio::spawn(async move {
            for n in 0.. {
                if Instant::now() > until {
                    break;
                }
                let line = format!("w{writer}-{n}");
                let args = match (writer, n % 4) {
                    (0, 0) if n < 400 => json!({ "action": "add_step", "step_content": line }),
                    (1, 0) if n < 400 => json!({ "action": "complete_step", "progress": line }),
                    _ => json!({ "progress": line }),
                };
                let adds = args["action"] == "add_step";
                let mut args = args;
                args["task_id"] = json!(id);
                let answer = match call("task_update", args.clone()).await {
                    Ok(answer) => answer,
                    // Nothing is in progress once every step is done: that is no change.
                    Err(_) if args["action"] == "complete_step" => continue,
                    Err(error) => return Err(error),
                };
                let step = answer.get("stepId").and_then(Value::as_str).map(str::to_owned);
                {
                    let mut told = told.lock().map_err(|_| anyhow::anyhow!("a writer died"))?;
                    match step {
                        Some(step) if adds => drop(told.steps.insert(step, line)),
                        Some(step) => {
                            told.lines.push(format!("[{step}] {line}"));
                            told.done.push(step);
                        }
                        None => told.lines.push(line),
                    }
                }
                tokio::time::sleep(WRITER_PAUSE).await;
            }
            anyhow::Ok(())
        }));
    }
    for writer in writers {
        writer.await??;
    }
    let by_hand = editor.join().map_err(|_| anyhow::anyhow!("the editor died"))??;
    reader.join().map_err(|_| anyhow::anyhow!("the reader died"))?;
    let told = std::mem::take(&mut *told.lock().map_err(|_| anyhow::anyhow!("a writer died"))?);
    let mut report = settle(&path, &told, &by_hand).await?;
    (report.torn, report.reads) = (torn.load(Ordering::Relaxed), reads.load(Ordering::Relaxed));
    Ok(report)
}

/// Saves by hand: in place, by renaming, and from what was opened a while ago. Gives the lines that were added. `saving` counts begins and
/// ends of what is saved in place.
fn edit(path: &Path, until: Instant, saving: &AtomicU64) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut opened: Vec<String> = Vec::new();
    while Instant::now() < until {
        let now = fs::read_to_string(path)?;
        if now.contains("## Last Activity") {
            opened.push(now);
        }
        let n = lines.len();
        let Some(base) = (if n % 3 == 2 { opened.get(opened.len().saturating_sub(STALE)) } else { opened.last() })
        else {
            continue;
        };
        let line = format!("hand-{n}");
        let text = with_note(base, &line);
        match n % 3 {
            0 => {
                saving.fetch_add(1, Ordering::SeqCst);
                let written = fs::write(path, &text);
                saving.fetch_add(1, Ordering::SeqCst);
                written?;
            }
            _ => {
                let beside = path.with_extension("md.swp");
                fs::write(&beside, &text)?;
                fs::rename(&beside, path)?;
            }
        }
        lines.push(line);
        opened.drain(..opened.len().saturating_sub(STALE + 1));
        std::thread::sleep(EDITOR_PAUSE);
    }
    Ok(lines)
}

/// A line more in a section of the person's own.
fn with_note(text: &str, line: &str) -> String {
    match text.find("## Notes\n\n") {
        Some(at) => {
            let after = at + "## Notes\n\n".len();
            format!("{}- {line}\n{}", &text[..after], &text[after..])
        }
        None => text.replacen("## Progress\n", &format!("## Notes\n\n- {line}\n\n## Progress\n"), 1),
    }
}

fn read(path: &Path, until: Instant, saving: &AtomicU64, torn: &AtomicU64, reads: &AtomicU64) {
    while Instant::now() < until {
        let before = saving.load(Ordering::SeqCst);
        let text = fs::read_to_string(path).unwrap_or_default();
        // What an editor that writes in place leaves for a moment is its own doing.
        if before.is_multiple_of(2) && saving.load(Ordering::SeqCst) == before {
            reads.fetch_add(1, Ordering::Relaxed);
            if !(text.starts_with("# Task: task_") && text.contains("## Last Activity\n\n20") && text.ends_with("Z\n"))
            {
                torn.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Waits until the last save is merged, then counts.
async fn settle(path: &Path, told: &Told, by_hand: &[String]) -> Result<Edited> {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let report = count(path, told, by_hand)?;
        if (report.edits_lost == 0 && report.doubled == 0) || Instant::now() > patience {
            return Ok(report);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn count(path: &Path, told: &Told, by_hand: &[String]) -> Result<Edited> {
    let text = fs::read_to_string(path)?;
    let folder = path.parent().context("a file lies somewhere")?;
    let copies: Vec<PathBuf> = fs::read_dir(folder)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().contains(".conflict-"))
        .collect();
    let beside: Vec<String> = copies.iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
    let times = |text: &str, line: &str| text.lines().filter(|known| *known == line).count();
    let mut report = Edited {
        by_tools: (told.lines.len() + told.steps.len()) as u64,
        by_hand: by_hand.len() as u64,
        kept_beside: copies.len() as u64,
        ..Edited::default()
    };
    report.edits = report.by_tools + report.by_hand;
    let mut look = |what: &str, found: usize| match found {
        0 => {
            report.edits_lost += 1;
            report.lost.push(what.to_owned());
        }
        1 => {}
        _ => report.doubled += 1,
    };
    for line in &told.lines {
        look(line, times(&text, &format!("- {line}")));
    }
    for (id, content) in &told.steps {
        look(content, text.lines().filter(|line| line.ends_with(&format!("] ({id}) {content}"))).count());
    }
    for id in &told.done {
        look(id, text.lines().filter(|line| line.starts_with(&format!("- [x] ({id}) "))).count());
    }
    for line in by_hand {
        let written = format!("- {line}");
        let found = times(&text, &written);
        look(line, if found == 0 && beside.iter().any(|copy| times(copy, &written) > 0) { 1 } else { found });
    }
    Ok(report)
}
