//! When an agent that stopped with work left is told to go on: how far from its time, for one agent and for a thousand that stop at once.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use chela::app::App;
use chela::clock::{Clock, Timestamp};
use chela::session_key::SessionKey;
use chela::sessions::{Asked, Follow, Follower, News, OriginKind};
use chela::tools::Call;
use serde_json::{Map, Value, json};

use crate::gateway::Gateway;
use crate::rounded;

/// What the configuration says by default.
const DELAY: Duration = Duration::from_millis(500);
/// Times that one agent is told alone.
const ALONE: usize = 15;
const TOGETHER: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

pub fn run(binary: &Path) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut figures = json!({ "delay_ms": DELAY.as_millis() as u64 });
        let mut late: Vec<f64> = team(binary, 1, ALONE).await?.into_iter().flatten().collect();
        late.sort_by(f64::total_cmp);
        figures["alone"] = json!(late.len());
        figures["alone_earliest_ms"] = json!(late.first().map(|late| rounded(*late)));
        figures["alone_latest_ms"] = json!(late.last().map(|late| rounded(*late)));
        eprintln!("alone: {figures}");
        let mut late: Vec<f64> = team(binary, TOGETHER, 1).await?.into_iter().flatten().collect();
        late.sort_by(f64::total_cmp);
        figures["together"] = json!(late.len());
        figures["together_p50_ms"] = json!(late.get(late.len() / 2).map(|late| rounded(*late)));
        figures["together_latest_ms"] = json!(late.last().map(|late| rounded(*late)));
        Ok(figures)
    })
}

/// So many agents with an open task each, whose model says one word; by agent, how much later than its time each was told to go on.
async fn team(binary: &Path, agents: usize, times: usize) -> Result<Vec<Vec<f64>>> {
    let scripts = tempfile::tempdir()?;
    let script = scripts.path().join("word.json5");
    std::fs::write(&script, "{ otherwise: 'later' }")?;
    let gateway = Gateway::start(binary, |config| {
        config["limits"]["drainTimeoutMs"] = json!(0);
        config["runs"]["concurrency"] = json!(10_000);
        config["providers"] = json!({ "script": { "kind": "scripted", "script": script } });
        let list: Vec<Value> = (0..agents).map(|nth| json!({ "id": format!("a{nth}"), "role": "agent" })).collect();
        config["agents"] = json!({ "model": "script/any", "list": list });
    })
    .await?;
    let keys: Vec<SessionKey> = (0..agents)
        .map(|nth| SessionKey::parse(&format!("a{nth}")).map_err(|error| anyhow!("{error}")))
        .collect::<Result<_>>()?;
    for key in &keys {
        begin_task(&gateway.app, key).await?;
    }
    let mut news = gateway.app.sessions().follow();
    for key in &keys {
        let run = format!("first-{}", key.agent);
        gateway.app.sessions().accept(Asked::new(run, "chat.send", key.clone(), "begin".into())).await?;
    }
    let late = listen(&mut news, &keys, times).await?;
    gateway.stop().await?;
    Ok(late)
}

async fn begin_task(app: &App, key: &SessionKey) -> Result<()> {
    let args = json!({ "description": "clear the shelf", "steps": [{ "content": "look" }, { "content": "clear" }] });
    let args: Map<String, Value> = args.as_object().cloned().context("an object")?;
    app.tools().invoke(Call::of_caller("task_start", args, key.clone())).await?;
    Ok(())
}

async fn listen(news: &mut Follower, keys: &[SessionKey], times: usize) -> Result<Vec<Vec<f64>>> {
    let clock = Clock::system();
    let mut ended: HashMap<SessionKey, Timestamp> = HashMap::new();
    let mut late: HashMap<SessionKey, Vec<f64>> = HashMap::new();
    let until = Instant::now() + PATIENCE;
    while late.values().filter(|late| late.len() >= times).count() < keys.len() {
        ensure!(Instant::now() < until, "{} of {} agents were told in time", late.len(), keys.len());
        let Ok(next) = tokio::time::timeout(PATIENCE, news.next()).await else { continue };
        match next {
            // When it ended, not when this was heard: a thousand ends are a while in the queue.
            Follow::News(News::Ended { session, ended: end, .. }) => {
                ended.insert(session, end.at);
            }
            Follow::News(News::Accepted { session, by: OriginKind::InternalSystem, .. }) => {
                if let Some(at) = ended.remove(&session) {
                    let after = clock.now().0 as f64 - at.0 as f64 - DELAY.as_secs_f64() * 1e3;
                    let told = late.entry(session).or_default();
                    if told.len() < times {
                        told.push(after);
                    }
                }
            }
            Follow::News(_) => {}
            Follow::Missed | Follow::Closed => return Err(anyhow!("news was missed")),
        }
    }
    Ok(late.into_values().collect())
}
