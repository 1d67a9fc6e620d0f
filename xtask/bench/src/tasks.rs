//! What a task costs: a durable change beside a plain durable write, lists and starts with ten thousand files, and edits from all sides.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use chela::session_key::SessionKey;
use chela::tools::Call;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::gateway::{directory, start_in};
use crate::{micros, rounded};

const WRITES: usize = 300;
const TASKS: usize = 10_000;
const ROUNDS: usize = 5;
const EDITING: Duration = Duration::from_secs(60);

pub fn run(binary: &Path) -> Result<Value> {
    let runtime = Runtime::new()?;
    let mut figures = Map::new();
    updates(&runtime, binary, &mut figures)?;
    many(&runtime, binary, &mut figures)?;
    editing(&runtime, binary, &mut figures)?;
    Ok(Value::Object(figures))
}

/// In turns, so that the disk's moods meet both: a change by the tool, and the same bytes by hand.
fn updates(runtime: &Runtime, binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("{WRITES} durable changes beside {WRITES} plain writes …");
    let (_temp, dir) = directory(|_| {})?;
    runtime.block_on(async {
        let app = start_in(&dir, binary).await?;
        app.plugins().loaded().await;
        let session = SessionKey::parse("eden")?;
        let call = |tool: &str, args: Value| {
            let args = args.as_object().cloned().unwrap_or_default();
            app.tools().invoke(Call::of_caller(tool, args, session.clone()))
        };
        let steps: Vec<Value> =
            (0..20).map(|n| json!({ "content": format!("step {n} of a task of usual size") })).collect();
        let started = call("task_start", json!({ "description": "a task of usual size", "steps": steps })).await;
        let started = started.map_err(|error| anyhow!("{error}"))?;
        let id = started["taskId"].as_str().unwrap_or_default();
        let folder = dir.path().join("workspace-eden/tasks");
        let (mut ours, mut inside, mut plain, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for n in 0..WRITES {
            let from = Instant::now();
            let step = format!("s{}", n % 20 + 1);
            let answer =
                call("task_update", json!({ "action": "start_step", "step_id": step, "progress": "on" })).await;
            ours.push(from.elapsed());
            ensure!(answer.map_err(|error| anyhow!("{error}"))?["success"] == json!(true), "a change is taken");
            let from = Instant::now();
            let noted = app.tasks().note("eden".parse()?, id.to_owned(), "on".into(), None, Map::new()).await;
            inside.push(from.elapsed());
            noted.map_err(|error| anyhow!("{error}"))?;
            let text = fs::read(folder.join(format!("{id}.md")))?;
            bytes = text.len();
            let from = Instant::now();
            plain_write(&folder, &text)?;
            plain.push(from.elapsed());
        }
        fs::remove_file(folder.join("plain"))?;
        let (ours, plain) = (micros(&mut ours, 0.5), micros(&mut plain, 0.5));
        figures.insert("update_us".into(), json!(ours));
        // Without schema and guards.
        figures.insert("note_us".into(), json!(micros(&mut inside, 0.5)));
        figures.insert("raw_write_us".into(), json!(plain));
        figures.insert("update_ratio".into(), json!(rounded(ours / plain)));
        figures.insert("task_bytes".into(), json!(bytes));
        eprintln!("  {}", Value::Object(figures.clone()));
        app.stop().await.map_err(|error| anyhow!("{error}"))
    })
}

/// A temporary file, fsync, rename, fsync of the directory.
fn plain_write(folder: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = folder.join("plain.tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, folder.join("plain"))?;
    File::open(folder)?.sync_all()?;
    Ok(())
}

fn many(runtime: &Runtime, binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("{TASKS} task files …");
    let (_temp, dir) = directory(|_| {})?;
    let folder = dir.path().join("workspace-eden/tasks");
    fs::create_dir_all(&folder)?;
    for n in 0..TASKS {
        let text = format!(
            "# Task: task_{n:05}\n\n## Metadata\n\n- **Status:** {}\n- **Priority:** medium\n- **Created:** 2026-02-13T12:00:00.000Z\n\n## Description\n\nOAuth 로그인 구현 {n}\n\n## Steps\n\n- [x] (s1) 기존 auth 구조 파악\n- [>] (s2) Google OAuth strategy 추가\n- [ ] (s3) 통합 테스트\n\n## Progress\n\n- Task started\n\n## Last Activity\n\n2026-02-13T12:30:00.000Z\n",
            if n % 2 == 0 { "pending" } else { "backlog" },
        );
        fs::write(folder.join(format!("task_{n:05}.md")), text)?;
    }
    // The second start finds everything as a service does that is started again.
    let (mut started, mut listed, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        runtime.block_on(async {
            let from = Instant::now();
            let app = start_in(&dir, binary).await?;
            started.push(from.elapsed());
            let from = Instant::now();
            let views = app.tasks().all();
            let pending = views.iter().filter(|view| view.task.status.as_str() == "pending").count();
            listed.push(from.elapsed());
            ensure!(views.len() == TASKS && pending == TASKS / 2, "every task is listed");
            app.plugins().loaded().await;
            let args = json!({ "status": "pending", "limit": 500 }).as_object().cloned().unwrap_or_default();
            let from = Instant::now();
            let answer = app.tools().invoke(Call::of_caller("task_list", args, SessionKey::parse("eden")?)).await;
            shown.push(from.elapsed());
            let answer = answer.map_err(|error| anyhow!("{error}"))?;
            ensure!(answer["total"] == json!(TASKS / 2), "{}", answer["total"]);
            app.stop().await.map_err(|error| anyhow!("{error}"))
        })?;
    }
    figures.insert("startup_10k_ms".into(), json!(rounded(micros(&mut started, 0.5) / 1e3)));
    figures.insert("list_10k_ms".into(), json!(rounded(micros(&mut listed, 0.5) / 1e3)));
    figures.insert("task_list_page_ms".into(), json!(rounded(micros(&mut shown, 0.5) / 1e3)));
    Ok(())
}

fn editing(runtime: &Runtime, binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("eight writers and a person on one task for {} s …", EDITING.as_secs());
    let (_temp, dir) = directory(|_| {})?;
    let report = runtime.block_on(async {
        let app = start_in(&dir, binary).await?;
        app.plugins().loaded().await;
        let report = chela_crash::editing::run(&app, &dir, EDITING).await?;
        app.stop().await.map_err(|error| anyhow!("{error}"))?;
        anyhow::Ok(report)
    })?;
    if let Value::Object(report) = json!(report) {
        figures.extend(report);
    }
    Ok(())
}
