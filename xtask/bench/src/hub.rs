//! The hub with ten thousand tasks, a thousand jobs and a million events: what each page costs the server and weighs, how soon it is painted,
//! how soon an event is on the screen, and whether a page that stays open keeps to its memory.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, ensure};
use chela::app::App;
use chela::bus::data;
use chela::client::Client;
use chela::event::{Event, Kind};
use chela::layout::StateDir;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::browser::{Browser, Tab};
use crate::events::indexing::log_of;
use crate::gateway::start_in;
use crate::{micros, rounded};

const EVENTS: u64 = 1_000_000;
const TASKS: usize = 10_000;
const JOBS: usize = 1_000;
/// Milestones, of ten items each, and todos.
const LISTED: usize = 200;
const REQUESTS: usize = 300;
const ARRIVALS: usize = 60;
/// Events a second while a page stays open.
const RATE: u64 = 200;
/// How long it stays open, unless `CHELA_BENCH_SECONDS` says otherwise.
const OPEN_S: u64 = 300;
/// No page is heavier, before it is compressed.
const PAGE_BYTES_MAX: usize = 150_000;
/// While that happens, an event of so many is watched until it is on the screen.
const WATCHED_EVERY: u64 = 97;
/// What a page takes at first is no leak.
const SETTLES_S: u64 = 10;

/// Every view; `ID` is a work session, `TASK` a task, `JOB` a job, `AGENT` an agent.
const VIEWS: [(&str, &str); 31] = [
    ("overview", "/"),
    ("conversations", "/conversations"),
    ("conversations_all", "/conversations?category=all"),
    ("conversations_search", "/conversations?category=all&q=%EB%B0%B0%ED%8F%AC"),
    ("conversations_grouped", "/conversations?category=all&group=category"),
    ("conversation", "/conversations/ID"),
    ("conversation_why", "/conversations/ID?why=1"),
    ("tasks", "/tasks"),
    ("tasks_column", "/tasks?column=backlog"),
    ("tasks_search", "/tasks?q=9999"),
    ("canvas", "/tasks?view=canvas"),
    ("schedule", "/tasks?view=schedule"),
    ("task", "/tasks/TASK"),
    ("task_conversation", "/tasks/TASK?tab=conversation"),
    ("task_events", "/tasks/TASK?tab=events"),
    ("task_why", "/tasks/TASK?tab=why"),
    ("questions", "/questions"),
    ("chat", "/chat?agent=AGENT"),
    ("agent", "/agents/AGENT"),
    ("events", "/events"),
    ("events_tree", "/events?tree=1"),
    ("jobs", "/jobs"),
    ("job", "/jobs/JOB"),
    ("plugins", "/plugins"),
    ("slot", "/plugins/classifier"),
    ("milestones", "/milestones"),
    ("todos", "/todos"),
    ("workspace", "/workspace/AGENT"),
    ("workspace_file", "/workspace/AGENT?path=tasks%2FOWN.md"),
    ("channels", "/channels"),
    ("settings", "/settings"),
];

pub fn run(binary: &Path) -> Result<Value> {
    let runtime = Runtime::new()?;
    eprintln!("{EVENTS} events, {TASKS} tasks, {JOBS} jobs …");
    let (_temp, dir) = log_of(EVENTS)?;
    let agents: Vec<&str> = chela_generate::agents().iter().map(|agent| agent.id).collect();
    tasks(&dir, &agents)?;
    jobs(&dir, &agents)?;
    lists(&dir)?;
    // Nobody is slowed down here for asking often.
    let mut config: Value = serde_json::from_slice(&fs::read(dir.config())?)?;
    config["limits"] = json!({ "requestsPerSecond": 1_000_000, "requestsBurst": 1_000_000 });
    fs::write(dir.config(), config.to_string())?;
    let app = runtime.block_on(start_in(&dir, binary))?;
    runtime.block_on(app.plugins().loaded());
    until_ready(&runtime, &app)?;
    let mut figures = Map::new();
    let paths = paths(&runtime, &app, agents[0])?;
    figures.insert("views".into(), served(&runtime, &app, &dir, &paths)?);
    figures.insert("script_kb".into(), json!(rounded(chela_page_script() as f64 / 1e3)));
    in_a_browser(&runtime, &app, &paths, agents[0], &mut figures)?;
    runtime.block_on(app.stop()).map_err(|error| anyhow!("{error}"))?;
    Ok(Value::Object(figures))
}

fn chela_page_script() -> usize {
    chela::hub::script_bytes()
}

fn tasks(dir: &StateDir, agents: &[&str]) -> Result<()> {
    for n in 0..TASKS {
        let folder = dir.path().join(format!("workspace-{}/tasks", agents[n % agents.len()]));
        fs::create_dir_all(&folder)?;
        let status = ["backlog", "pending", "blocked", "backlog"][n % 4];
        let blocked = if status == "blocked" {
            "## Blocked\n\n- **Reason:** which port is to be opened?\n- **Kind:** input\n\n"
        } else {
            ""
        };
        let text = format!(
            "# Task: task_{n:05}\n\n## Metadata\n\n- **Status:** {status}\n- **Priority:** medium\n- **Created:** 2026-02-13T12:00:00.000Z\n- **Due:** 2026-12-24\n\n## Description\n\nOAuth 로그인 구현 {n}\n\n## Steps\n\n- [x] (s1) 기존 auth 구조 파악\n- [>] (s2) Google OAuth strategy 추가\n- [ ] (s3) 통합 테스트\n\n{blocked}## Progress\n\n- Task started\n\n## Last Activity\n\n2026-02-13T12:30:{:02}.{:03}Z\n",
            n / 1_000 % 60,
            n % 1_000,
        );
        fs::write(folder.join(format!("task_{n:05}.md")), text)?;
    }
    Ok(())
}

fn jobs(dir: &StateDir, agents: &[&str]) -> Result<()> {
    fs::create_dir_all(dir.jobs())?;
    // Of this hour: what ended long ago is taken out at the start.
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis() as u64 - 3_600_000;
    for n in 0..JOBS {
        let id = format!("old-{n:04}");
        let key = |at: usize| format!("agent:{}:main", agents[at % agents.len()]);
        let status = ["COMPLETED", "FAILED", "COMPLETED", "CANCELLED"][n % 4];
        let job = json!({
            "jobId": id, "runId": id, "status": status, "sessionKey": key(n), "targetSessionKey": key(n + 1),
            "conversationId": format!("conv-{n}"), "message": "Please look at the build and say what is wrong with it.",
            "maxTurns": 5, "currentTurn": 2, "retryCount": 1, "maxRetries": 3, "lastError": "the model did not answer within 300 s",
            "createdAt": begun + n as u64, "updatedAt": begun + 60_000 + n as u64, "finishedAt": begun + 60_000 + n as u64,
            "resumeCount": 0,
        });
        fs::write(dir.jobs().join(format!("job-{id}.json")), job.to_string())?;
    }
    Ok(())
}

fn lists(dir: &StateDir) -> Result<()> {
    let row = |kind: &str, n: usize| json!({ "id": format!("{kind}_{n:04}"), "title": format!("말뚝 number {n}"), "status": "todo" });
    let milestones = (0..LISTED).map(|n| {
        let mut one = row("ms", n);
        one["items"] = (0..10).map(|item| row("mi", n * 10 + item)).collect();
        one
    });
    let milestones = json!({ "milestones": milestones.collect::<Vec<_>>() });
    fs::write(dir.path().join("milestones.json"), milestones.to_string())?;
    let todos: Vec<Value> = (0..LISTED).map(|n| row("todo", n)).collect();
    Ok(fs::write(dir.path().join("todos.json"), json!({ "todos": todos }).to_string())?)
}

fn until_ready(runtime: &Runtime, app: &App) -> Result<()> {
    let until = Instant::now() + Duration::from_secs(600);
    loop {
        let health = runtime.block_on(app.monitor().health());
        if health.indexing_percent.is_none() && health.left_to_classify == 0 && health.events >= EVENTS / 2 {
            return Ok(());
        }
        ensure!(Instant::now() < until, "the log was not indexed in ten minutes");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Every view with its path.
fn paths(runtime: &Runtime, app: &App, agent: &str) -> Result<Vec<(&'static str, String)>> {
    let query = chela::monitor::SessionsQuery { limit: 1, ..Default::default() };
    let page = runtime.block_on(app.monitor().sessions(query)).map_err(|error| anyhow!("{error}"))?;
    let session = page.rows.first().and_then(|row| row["workSessionId"].as_str()).unwrap_or_default().to_owned();
    let told = |path: &str| {
        // The first agent has the first task.
        let path = path.replace("ID", &session).replace("TASK", "task_00002").replace("OWN", "task_00000");
        path.replace("JOB", "old-0001").replace("AGENT", agent)
    };
    Ok(VIEWS.iter().map(|(name, path)| (*name, told(path))).collect())
}

/// What each page takes, over loopback, and how much it weighs.
fn served(runtime: &Runtime, app: &App, dir: &StateDir, paths: &[(&'static str, String)]) -> Result<Value> {
    let token = chela::settings::load(dir)?.tokens.owner().to_owned();
    let client = Client::new(app.addresses().hub.ok_or_else(|| anyhow!("the hub listens"))?, Some(token));
    let mut views = Map::new();
    for (name, path) in paths {
        eprintln!("{path} …");
        let (mut took, mut bytes) = (Vec::with_capacity(REQUESTS), 0);
        for _ in 0..REQUESTS {
            let from = Instant::now();
            let answer = runtime.block_on(client.get(path))?;
            took.push(from.elapsed());
            ensure!(answer.status == 200, "{path}: {}", answer.status);
            bytes = bytes.max(answer.body.len());
        }
        ensure!(bytes < PAGE_BYTES_MAX, "{path} weighs {bytes} bytes, and a page at most {PAGE_BYTES_MAX}");
        let p50 = rounded(micros(&mut took, 0.5) / 1e3);
        let p99 = rounded(micros(&mut took, 0.99) / 1e3);
        views.insert(
            (*name).into(),
            json!({ "server_p50_ms": p50, "server_p99_ms": p99, "kb": rounded(bytes as f64 / 1e3) }),
        );
    }
    Ok(Value::Object(views))
}

fn in_a_browser(
    runtime: &Runtime,
    app: &App,
    paths: &[(&'static str, String)],
    agent: &str,
    figures: &mut Map<String, Value>,
) -> Result<()> {
    let browser = Browser::start();
    let tab = browser.tab();
    tab.open(&app.hub_link().ok_or_else(|| anyhow!("the hub has a link"))?);
    let origin = format!("http://{}", app.addresses().hub.ok_or_else(|| anyhow!("the hub listens"))?);
    eprintln!("first paint …");
    let mut painted = Map::new();
    for (name, path) in paths {
        let mut took = Vec::new();
        for _ in 0..3 {
            tab.open(&format!("{origin}{path}"));
            tab.until("it is painted", "performance.getEntriesByName('first-contentful-paint').length > 0");
            let at = tab.eval("performance.getEntriesByName('first-contentful-paint')[0].startTime");
            took.push(at.as_f64().unwrap_or(f64::INFINITY));
        }
        took.sort_by(f64::total_cmp);
        painted.insert((*name).into(), json!(rounded(took[1])));
    }
    figures.insert("first_paint_ms".into(), Value::Object(painted));

    arrivals(app, &tab, &origin, agent, figures)?;
    steady(runtime, app, &tab, agent, figures)
}

/// How soon an event is on the screen while nothing else happens.
fn arrivals(app: &App, tab: &Tab<'_>, origin: &str, agent: &str, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("{ARRIVALS} events to the screen …");
    tab.open(&format!("{origin}/events"));
    tab.until("the page is live", "!document.getElementById('live').hidden");
    tab.eval("window.seen = {}; new MutationObserver(() => { for (const e of document.querySelectorAll('.event p')) { const m = /mark-\\d+/.exec(e.textContent); if (m && !window.seen[m[0]]) window.seen[m[0]] = performance.timeOrigin + performance.now(); } }).observe(document.getElementById('list'), { subtree: true, childList: true, characterData: true })");
    let mut took = Vec::new();
    for n in 0..ARRIVALS {
        // Not in step with anything that happens every tenth of a second.
        std::thread::sleep(Duration::from_millis(237 + (n as u64 * 53) % 90));
        let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3;
        emit(app, agent, &format!("mark-{n}"))?;
        tab.until("it is on the screen", &format!("window.seen['mark-{n}']"));
        let seen = tab.eval(&format!("window.seen['mark-{n}']")).as_f64().unwrap_or(f64::INFINITY);
        took.push(Duration::from_secs_f64(((seen - at) / 1e3).max(0.0)));
    }
    figures.insert("event_to_screen_ms".into(), json!(rounded(micros(&mut took, 0.5) / 1e3)));
    figures.insert("event_to_screen_p99_ms".into(), json!(rounded(micros(&mut took, 0.99) / 1e3)));
    Ok(())
}

/// How soon an event is on the screen while much happens, and what the page holds before and after that.
fn steady(runtime: &Runtime, app: &App, tab: &Tab<'_>, agent: &str, figures: &mut Map<String, Value>) -> Result<()> {
    let open_s = std::env::var("CHELA_BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(OPEN_S);
    eprintln!("{RATE} events a second for {open_s} s …");
    let mut start_mb = 0.0;
    let (from, mut sent) = (Instant::now(), 0_u64);
    // Not the marks of before.
    let busy = |sent: u64| 1_000_000 + sent;
    let mut watched: Vec<(u64, f64)> = Vec::new();
    while from.elapsed() < Duration::from_secs(SETTLES_S + open_s) {
        if start_mb == 0.0 && from.elapsed() >= Duration::from_secs(SETTLES_S) {
            start_mb = tab.heap_mb();
        }
        while sent < u64::try_from(from.elapsed().as_millis()).unwrap_or(u64::MAX) * RATE / 1_000 {
            if sent % WATCHED_EVERY == 0 {
                let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3;
                emit(app, agent, &format!("mark-{}", busy(sent)))?;
                watched.push((busy(sent), at));
            } else {
                emit(app, agent, &format!("steady {sent}"))?;
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(500)).await });
    // One that was never seen came and went between two looks, which the reader would not have seen either: it counts as the longest there is.
    let mut took: Vec<Duration> = Vec::with_capacity(watched.len());
    for (mark, at) in watched {
        let seen = tab.eval(&format!("window.seen['mark-{mark}']")).as_f64();
        took.push(seen.map_or(Duration::from_secs(60), |seen| Duration::from_secs_f64(((seen - at) / 1e3).max(0.0))));
    }
    figures.insert("event_to_screen_busy_ms".into(), json!(rounded(micros(&mut took, 0.5) / 1e3)));
    figures.insert("event_to_screen_busy_p99_ms".into(), json!(rounded(micros(&mut took, 0.99) / 1e3)));
    figures.insert("heap_mb_start".into(), json!(rounded(start_mb)));
    figures.insert("heap_mb_end".into(), json!(rounded(tab.heap_mb())));
    figures.insert("heap_seconds".into(), json!(open_s));
    Ok(())
}

fn emit(app: &App, agent: &str, text: &str) -> Result<()> {
    let facts = data(json!({ "taskId": "task_00002", "progress": text }));
    let event = Event::of(agent, Kind::TaskUpdated, chela::clock::Clock::system().now(), facts);
    app.bus().emit_event(event).map(drop).map_err(|error| anyhow!("{error}"))
}
