//! A gateway under everything at once, for a long time: a team at work, flows between agents, people in a chat network, components that are
//! swapped, pages that follow, one of them in a browser, and kills. Prints one JSON object of what grew; `cargo xtask soak` calls it.

#[allow(dead_code, reason = "tests use more of it than this does")]
#[path = "../../../tests/support/browser.rs"]
mod browser;
mod followers;
mod gateway;
mod load;
mod measure;
mod page;
mod swaps;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use discord_server::{Discord, Setup};
use serde_json::json;

use gateway::Gateway;
use load::Load;
use measure::{Figures, Sample, Samples, percentile_ms};

/// Growth counts from then on.
const WARM_UP_MAX: Duration = Duration::from_secs(300);
/// How long everything may take to come to its end after the last kill.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two lines of progress.
const TOLD_EVERY: Duration = Duration::from_secs(15);

/// Tells all who work that it is over.
pub type Stop = tokio::sync::watch::Receiver<bool>;

#[derive(Clone, Parser)]
#[command(name = "chela-soak")]
pub struct Options {
    #[arg(long)]
    minutes: f64,
    /// Events a second, over all
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Between two swaps of a component
    #[arg(long, default_value_t = 10)]
    swap_seconds: u64,
    /// Pages and programs that follow
    #[arg(long, default_value_t = 12)]
    followers: usize,
    /// Kills, all of them while it warms up, and one more at the end
    #[arg(long, default_value_t = 3)]
    kills: u32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The gateway
    #[arg(long)]
    chela: PathBuf,
    /// Where the default components lie, as `cargo xtask` builds them
    #[arg(long)]
    components: PathBuf,
    /// Where everything is made; it stays there when something is wrong
    #[arg(long)]
    below: PathBuf,
}

fn main() -> Result<ExitCode> {
    let mut options = Options::parse();
    options.components = options.components.canonicalize().context("there are no components")?;
    std::fs::create_dir_all(&options.below).with_context(|| format!("cannot make {}", options.below.display()))?;
    let scratch = tempfile::tempdir_in(&options.below)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(soak(&options, scratch.path()));
    let clean = outcome.as_ref().is_ok_and(|figures| figures.clean);
    match clean {
        true => scratch.close().context("cannot remove what was made")?,
        false => eprintln!("what is left lies in {}", scratch.keep().display()),
    }
    println!("{}", serde_json::to_string(&outcome?)?);
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn soak(options: &Options, below: &Path) -> Result<Figures> {
    let setup = Setup { messages: (10_000, Duration::from_secs(1)), global_a_second: 10_000, ..Setup::default() };
    let discord = Arc::new(Discord::with(setup));
    let mut gateway = Gateway::new(&options.chela, below.join("state"));
    gateway.configure(load::SCRIPT, |config| {
        config["channels"]["discord"] = discord.channel(&json!({ "requestsPerSecond": 10_000 }));
    })?;
    gateway.start().await?;

    let (over, stop) = tokio::sync::watch::channel(false);
    let load = Arc::new(Load::new(gateway.way(), discord.clone(), options.rate));
    load.open_sessions().await?;
    let working = load.clone().spawn(&stop);
    let following = followers::spawn(options.followers, gateway.way(), &stop);
    let swapping = swaps::spawn(options, below, gateway.way(), &stop)?;

    let whole = Duration::from_secs_f64(options.minutes * 60.0);
    let warm_up = (whole / 3).min(WARM_UP_MAX);
    let (begun, mut chance) = (Instant::now(), fastrand::Rng::with_seed(options.seed));
    let mut kills: Vec<Duration> = (0..options.kills).map(|_| warm_up.mul_f64(0.1 + 0.6 * chance.f64())).collect();
    kills.sort();
    let (mut samples, mut killed, mut told) = (Samples::default(), 0, Duration::ZERO);
    let mut page = None;
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    eprintln!("{} s, of which the first {} s are warm-up", whole.as_secs(), warm_up.as_secs());
    while begun.elapsed() < whole {
        ticks.tick().await;
        if kills.first().is_some_and(|at| begun.elapsed() >= *at) {
            kills.remove(0);
            gateway.kill().await?;
            killed += 1;
            gateway.start().await?;
            eprintln!("{:>5} s: killed and started again", begun.elapsed().as_secs());
            continue;
        }
        // Each start listens elsewhere: the page is opened after the last kill before the end.
        if kills.is_empty() && page.is_none() {
            page = Some(page::open(gateway.way().open().await?, stop.clone()));
        }
        let events = load.pace().await;
        let sample = gateway.sample(begun.elapsed(), load.take_latencies(), events)?;
        if begun.elapsed() >= told {
            eprintln!("{:>5} s: {}", begun.elapsed().as_secs(), sample.line());
            told = begun.elapsed() + TOLD_EVERY;
        }
        samples.add(sample);
    }
    over.send_replace(true);
    for task in working {
        task.await?;
    }
    let swaps = swapping.await?;
    let mut followed = followers::Followed::default();
    for task in following {
        followed.add(&task.await?);
    }
    let page = page.flatten().map(|page| tokio::task::spawn_blocking(move || page.join()));
    let page = match page {
        Some(page) => Some(page.await?.map_err(|_| anyhow::anyhow!("the page in the browser did not stay live"))?),
        None => None,
    };
    // One more, while what was begun last is under way.
    gateway.kill().await?;
    killed += 1;
    gateway.start().await?;
    eprintln!("{:>5} s: killed and started again; waiting for what is under way", begun.elapsed().as_secs());
    let mut ended = load.finish(PATIENCE).await?;
    gateway.stop().await?;
    ended.tasks_lost = load.tasks_missing_in(&gateway.events()?);
    let mut figures = Figures::of(&samples, warm_up);
    figures.events_per_s_wanted = options.rate;
    figures.swaps_wanted = whole.as_secs() / options.swap_seconds.max(1);
    figures.kills = killed;
    figures.swaps = swaps.done;
    figures.swaps_refused = swaps.refused;
    figures.followers = options.followers;
    figures.page = page;
    figures.told = followed.told;
    figures.told_out_of_order = followed.out_of_order;
    figures.ended = ended;
    figures.kept = gateway.kept()?;
    let faults = figures.faults();
    faults.iter().for_each(|fault| eprintln!("fault: {fault}"));
    figures.clean = faults.is_empty();
    Ok(figures)
}

impl Sample {
    fn line(&self) -> String {
        format!(
            "{:.1} MB, {} files, {} events/s, p50 {:.1} ms, p99 {:.1} ms",
            self.resident_mb,
            self.open_files,
            self.events_per_s,
            percentile_ms(self.took.clone(), 50),
            percentile_ms(self.took.clone(), 99)
        )
    }
}
