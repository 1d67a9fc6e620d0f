//! What a policy costs: natively, at the instance, through the room; what a swap and an endless loop do to others.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use chela::plugins::{About, Decision, From, Handle, Load, SlotName, Workbench, shipped_beside};
use chela::policy::{Actor, Conversation, InstructionsInput, Step, StepStatus, Task, ToolCall};
use chela_sdk::Context;
use chela_sdk::classifier::{CategoriesRequest, Classifier};
use rules::Rules;
use rules::learned::CATEGORIES;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::gateway::{Gateway, directory, start_in};
use crate::{micros, rounded};

const INSTANCE_CALLS: usize = 1_000;
const ROUNDS: usize = 7;
const HANDLE_CALLS: usize = 3_000;
const STARTS: usize = 11;
const SWAPS: usize = 100;
const SWAP_CALLS: u64 = 1_000_000;
const CALLERS: usize = 4;
const LOOPS: usize = 15;
/// How long others are measured without the loop.
const QUIET: Duration = Duration::from_secs(1);

pub fn run(binary: &Path, guests: Option<&Path>) -> Result<Value> {
    let runtime = Runtime::new()?;
    let mut figures = Map::new();
    at_the_instance(binary, &mut figures)?;
    eprintln!("  {}", json!(figures));
    through_the_room(&runtime, binary, &mut figures)?;
    bare_round_trips(&mut figures);
    eprintln!("  {}", json!(figures));
    from_the_start(&runtime, binary, &mut figures)?;
    while_swapping(&runtime, binary, &mut figures)?;
    match guests {
        Some(guests) => beside_a_loop(&runtime, binary, guests, &mut figures)?,
        None => eprintln!("no guests: the loop is left out"),
    }
    Ok(Value::Object(figures))
}

/// About a kilobyte of talk in both languages.
fn conversation() -> Conversation {
    let texts = [
        "어제 배포한 3.2.1 버전에서 결제 승인 API가 간헐적으로 504를 돌려주고 있습니다. 인그레스 쪽 타임아웃을 먼저 확인해 주세요.",
        "checked the ingress: upstream connect errors started at 02:14 UTC, right after the node pool was resized. I rolled back the pool and error rate went from 4% to 0.1%.",
        "그럼 원인은 노드풀 축소로 보이네요. 오토스케일 하한을 6으로 올려 두고, 알람 임계치도 같이 조정하겠습니다.",
        "ok. I'll write down the timeline and keep an eye on the dashboards for the next hour. pod restarts are stable now, no new pages.",
        "고객사 두 곳에서 문의가 왔는데 장애 공지 문구만 공유해 주시면 제가 답변하겠습니다. 재발 방지 대책은 내일 회의에서 정리하죠.",
        "deploying the hotfix for the retry storm behind a flag, canary at 5% first",
    ];
    Conversation {
        texts: texts.map(str::to_owned).into(),
        participants: vec!["ruda".into(), "eden".into()],
        tags: vec!["결제 승인 타임아웃".into()],
    }
}

fn tool_call() -> ToolCall {
    let step = |n: usize| Step {
        id: format!("s{n}"),
        content: format!("단계 {n}: read the module, change it, run its tests and note what was found"),
        status: if n < 15 { StepStatus::Done } else { StepStatus::Pending },
    };
    let task = Task {
        id: "task_1".into(),
        description: "OAuth 로그인 구현".into(),
        status: "in_progress".into(),
        steps: (1..=20).map(step).collect(),
    };
    let agent = actor();
    let mut arguments = Map::new();
    arguments.insert("summary".into(), "done".into());
    ToolCall { tool: "task_complete".into(), arguments, agent, task: Some(task) }
}

fn actor() -> Actor {
    Actor { id: "eden".into(), role: "worker".into(), session_key: "agent:eden:main".into() }
}

fn at_the_instance(binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("at the instance …");
    let rules = Rules::new("{}").map_err(|error| anyhow!("{}", error.message))?;
    let given = conversation();
    let bytes: usize = given.texts.iter().map(String::len).sum();
    let request = || CategoriesRequest {
        context: Context { now_ms: 0, seed: 0, deployment: "bench".into(), locale: "en".into(), budget_ms: 50 },
        categories: CATEGORIES.map(str::to_owned).into(),
        conversations: vec![chela_sdk::classifier::Conversation {
            texts: given.texts.clone(),
            participants: given.participants.clone(),
            tags: given.tags.clone(),
        }],
        attrs: Vec::new(),
    };
    let cache = tempfile::tempdir()?;
    let bench = Workbench::new(cache.path().to_owned(), shipped_beside(binary), binary.to_owned())?;
    let input = json!(given);
    // Side by side, in turns, and the best of several rounds: the machine's moods meet all of them.
    let blocking = json!(tool_call());
    let passing = json!(ToolCall { tool: "task_update".into(), ..tool_call() });
    let mut best = [[f64::INFINITY; 2]; 4];
    for _ in 0..ROUNDS {
        let mut native = Vec::new();
        for _ in 0..INSTANCE_CALLS {
            let from = Instant::now();
            let answer = rules.categories(request());
            native.push(from.elapsed());
            anyhow::ensure!(answer.is_ok(), "the classifier answers natively");
        }
        let guest = bench.time("builtin:rules", "categories", input.clone(), INSTANCE_CALLS)?;
        let guard = bench.time("builtin:stop-guard", "before-tool-call", blocking.clone(), INSTANCE_CALLS)?;
        let other = bench.time("builtin:stop-guard", "before-tool-call", passing.clone(), INSTANCE_CALLS)?;
        for (best, mut took) in best.iter_mut().zip([native, guest, guard, other]) {
            *best = [best[0].min(micros(&mut took, 0.5)), best[1].min(micros(&mut took, 0.99))];
        }
    }
    let [[native, native_p99], [guest, guest_p99], [guard, _], [passing, _]] = best;
    figures.insert("conversation_bytes".into(), json!(bytes));
    figures.insert("categories_native_us".into(), json!(native));
    figures.insert("categories_us".into(), json!(guest));
    // What the machine alone adds: nothing but this thread runs here.
    figures.insert("categories_native_p99_us".into(), json!(native_p99));
    figures.insert("categories_p99_us".into(), json!(guest_p99));
    figures.insert("categories_ratio".into(), json!(rounded(guest / native)));
    figures.insert("guard_us".into(), json!(guard));
    figures.insert("guard_passing_us".into(), json!(passing));
    Ok(())
}

fn through_the_room(runtime: &Runtime, binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("through the room …");
    runtime.block_on(async {
        let gateway = Gateway::start(binary, |_| {}).await?;
        let plugins = gateway.app.plugins().clone();
        let about = About::default();
        // p50 and p99 of classifier and guard, the best of several rounds.
        let mut best = [f64::INFINITY; 4];
        for _ in 0..ROUNDS {
            let (mut categories, mut guard) = (Vec::new(), Vec::new());
            for _ in 0..HANDLE_CALLS {
                let given = vec![conversation()];
                let from = Instant::now();
                let answered = plugins.categories(given, &about).await;
                categories.push(from.elapsed());
                anyhow::ensure!(answered.by.is_some(), "the classifier answers");
            }
            for _ in 0..HANDLE_CALLS {
                let call = ToolCall { tool: "task_update".into(), ..tool_call() };
                let from = Instant::now();
                plugins.before_tool_call(call, &about, |_| Ok(())).await;
                guard.push(from.elapsed());
            }
            let round = [&mut categories, &mut guard].map(|took| [micros(took, 0.5), micros(took, 0.99)]);
            for (best, took) in best.iter_mut().zip(round.as_flattened()) {
                *best = best.min(*took);
            }
        }
        let [categories_p50, categories_p99, guard_p50, guard_p99] = best;
        figures.insert("handle_p50_us".into(), json!(categories_p50));
        figures.insert("handle_p99_us".into(), json!(categories_p99.max(guard_p99)));
        figures.insert("handle_guard_p50_us".into(), json!(guard_p50));
        figures.insert("handle_guard_p99_us".into(), json!(guard_p99));
        gateway.stop().await
    })
}

/// What two threads take to wake each other and back, with nothing in between: the floor of any call that changes threads asleep.
fn bare_round_trips(figures: &mut Map<String, Value>) {
    let (to, inbox) = std::sync::mpsc::channel::<()>();
    let (from, answers) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || inbox.iter().try_for_each(|()| from.send(())));
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        let mut took = Vec::new();
        for _ in 0..HANDLE_CALLS {
            let since = Instant::now();
            if to.send(()).is_err() || answers.recv().is_err() {
                return;
            }
            took.push(since.elapsed());
        }
        best = [best[0].min(micros(&mut took, 0.5)), best[1].min(micros(&mut took, 0.99))];
    }
    figures.insert("bare_round_trip_p50_us".into(), json!(best[0]));
    figures.insert("bare_round_trip_p99_us".into(), json!(best[1]));
}

/// From nothing to an answer of every default component, with compiled code in place.
fn from_the_start(runtime: &Runtime, binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("from the start …");
    let (_temp, dir) = directory(|_| {})?;
    let mut ready: Vec<Duration> = Vec::new();
    for _ in 0..STARTS {
        let took = runtime.block_on(async {
            let from = Instant::now();
            let app = start_in(&dir, binary).await?;
            let plugins = app.plugins();
            let about = About::default();
            let (classified, _, told) = tokio::join!(
                plugins.categories(vec![conversation()], &about),
                plugins.before_tool_call(tool_call(), &about, |_| Ok(())),
                plugins.instructions(InstructionsInput { agent: actor() }.agent),
            );
            let took = from.elapsed();
            anyhow::ensure!(classified.by.is_some() && told.by.is_some(), "every component answers");
            app.stop().await.map_err(|error| anyhow!("{error}"))?;
            Ok(took)
        })?;
        ready.push(took);
    }
    figures.insert("ready_ms".into(), json!(rounded(micros(&mut ready, 0.5) / 1e3)));
    figures.insert("ready_ms_worst".into(), json!(rounded(micros(&mut ready, 1.0) / 1e3)));
    Ok(())
}

fn while_swapping(runtime: &Runtime, binary: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("a million calls while swapping …");
    let gateway = runtime.block_on(Gateway::start(binary, |config| config["decisions"]["record"] = "off".into()))?;
    let plugins = gateway.app.plugins().clone();
    let slot: SlotName = "continuation".parse()?;
    let (calls, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (plugins, calls, failed) = (plugins.clone(), calls.clone(), failed.clone());
            runtime.spawn(async move {
                while calls.fetch_add(1, Ordering::Relaxed) < SWAP_CALLS {
                    if plugins.instructions(actor()).await.by.is_none() {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        })
        .collect();
    // Every load has another configuration, so every one is a swap of a component whose code is in the cache.
    let mut swap_ms = Vec::new();
    for n in 0..SWAPS {
        // Spread over the million calls.
        while calls.load(Ordering::Relaxed) < SWAP_CALLS / SWAPS as u64 * n as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let config = json!({ "extraInstructions": format!("swap {n}") }).as_object().cloned();
        let load = Load {
            slot: slot.clone(),
            from: From::Source("builtin:continuation".into()),
            config,
            shadow_only: false,
            fresh: false,
        };
        let from = Instant::now();
        let report = runtime.block_on(plugins.load(load))?;
        anyhow::ensure!(report["outcome"] == "serving", "{report}");
        swap_ms.push(from.elapsed());
        if (n + 1) % 25 == 0 {
            eprintln!("  {} of {SWAPS} swaps", n + 1);
        }
    }
    for caller in callers {
        runtime.block_on(caller)?;
    }
    figures.insert("swap_calls".into(), json!(SWAP_CALLS));
    figures.insert("swap_failed_calls".into(), json!(failed.load(Ordering::Relaxed)));
    figures.insert("swaps".into(), json!(SWAPS));
    figures.insert("swap_ms".into(), json!(rounded(micros(&mut swap_ms, 0.5) / 1e3)));
    runtime.block_on(gateway.stop())
}

/// A classifier that never ends, while a thousand guard calls a second go on.
fn beside_a_loop(runtime: &Runtime, binary: &Path, guests: &Path, figures: &mut Map<String, Value>) -> Result<()> {
    eprintln!("beside an endless loop …");
    let unruly = guests.join("unruly.wasm");
    anyhow::ensure!(unruly.is_file(), "the guest `unruly` is not built");
    let binding = json!({ "source": unruly, "config": { "on": "categories", "do": "loop" } });
    let gateway = runtime.block_on(Gateway::start(binary, |config| {
        config["decisions"]["record"] = "off".into();
        config["plugins"]["classifier"] = binding;
    }))?;
    let plugins = gateway.app.plugins().clone();
    let slot: SlotName = "classifier".parse()?;
    let mut cut = Vec::new();
    let (mut quiet_p99, mut loud_p99) = (f64::INFINITY, f64::INFINITY);
    // In turns, and the best of several rounds; on a task of their own, as the agents' calls are.
    for _ in 0..ROUNDS {
        let stop = Arc::new(AtomicBool::new(false));
        let quiet = runtime.spawn(guard_calls(plugins.clone(), stop.clone(), Some(QUIET)));
        quiet_p99 = quiet_p99.min(micros(&mut runtime.block_on(quiet)?, 0.99));
        let loud = runtime.spawn(guard_calls(plugins.clone(), stop.clone(), None));
        for _ in 0..LOOPS {
            let from = Instant::now();
            let answered = runtime.block_on(plugins.categories(vec![conversation()], &About::default()));
            cut.push(from.elapsed());
            anyhow::ensure!(answered.by.is_none(), "an endless loop gave an answer");
            // Ten failures are quarantine; every call is to meet the loop.
            if plugins.slots().iter().any(|view| view.state == "quarantined") {
                runtime.block_on(plugins.release(slot.clone()))?;
            }
        }
        stop.store(true, Ordering::Relaxed);
        loud_p99 = loud_p99.min(micros(&mut runtime.block_on(loud)?, 0.99));
    }
    figures.insert("loop_cut_ms".into(), json!(rounded(micros(&mut cut, 1.0) / 1e3)));
    figures.insert("loop_cuts".into(), json!(cut.len()));
    figures.insert("others_p99_us".into(), json!(quiet_p99));
    figures.insert("others_beside_loop_p99_us".into(), json!(loud_p99));
    figures.insert("others_ratio".into(), json!(rounded(loud_p99 / quiet_p99)));
    runtime.block_on(gateway.stop())
}

/// About a thousand calls a second until `stop`.
async fn guard_calls(plugins: Handle, stop: Arc<AtomicBool>, time: Option<Duration>) -> Vec<Duration> {
    let mut took = Vec::new();
    let since = Instant::now();
    while !stop.load(Ordering::Relaxed) && time.is_none_or(|time| since.elapsed() < time) {
        let call = tool_call();
        let from = Instant::now();
        let decision = plugins.before_tool_call(call, &About::default(), |_| Ok(())).await;
        took.push(from.elapsed());
        assert!(matches!(decision, Decision::Blocked { .. }), "the guard answers");
        tokio::time::sleep(Duration::from_micros(900)).await;
    }
    took
}
