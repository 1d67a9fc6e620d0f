//! The journal on a simulated disk: 20,000 seeds without a broken promise, and every known mistake found within them.
//! `CHELA_SEED=7` runs one seed alone; `CHELA_SEEDS` and `CHELA_FROM` choose how many and which. On a failure the seed and everything that
//! was derived from it are printed.

mod damage;
mod model;
mod plan;
mod world;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use chela_storage::simulation::Mutant;

use world::{Tally, run};

const SEEDS: u64 = 20_000;
const THREADS: u64 = 2;

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

/// Runs the seeds until one breaks a promise; gives the tally of all, or the first failure that any thread met.
fn run_all(from: u64, count: u64, mutant: Option<Mutant>) -> Result<Tally, (u64, String)> {
    let (next, stop) = (AtomicU64::new(from), AtomicU64::new(u64::MAX));
    let worker = || {
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= from + count || seed > stop.load(Relaxed) {
                return Ok(tally);
            }
            match run(seed, mutant) {
                Ok(one) => tally += one,
                Err(violation) => {
                    stop.fetch_min(seed, Relaxed);
                    return Err((seed, violation));
                }
            }
            if count > SEEDS && tally.seeds % 50_000 == 0 {
                eprintln!("simulation: {} of {count} seeds", seed - from + 1);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        let outcomes: Vec<_> = workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
        let mut failures: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.clone().err()).collect();
        failures.sort_unstable();
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure);
        }
        let mut tally = Tally::default();
        outcomes.into_iter().flatten().for_each(|one| tally += one);
        Ok(tally)
    })
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = setting("CHELA_SEED") {
        println!("{:#?}", plan::Plan::of(seed));
        match run(seed, None) {
            Ok(tally) => println!("seed {seed} keeps every promise: {tally:?}"),
            Err(violation) => panic!("seed {seed}: {violation}"),
        }
        return;
    }
    let (from, count) = (setting("CHELA_FROM").unwrap_or(0), setting("CHELA_SEEDS").unwrap_or(SEEDS));
    let begun = Instant::now();
    let outcome = run_all(from, count, None);
    let seconds = begun.elapsed().as_secs_f64();
    let lost = u64::from(outcome.is_err());
    let tally = outcome.clone().unwrap_or_default();
    // One line for whoever runs many.
    println!(
        "{{\"seeds\":{count},\"crashes\":{},\"acknowledged\":{},\"lost\":{lost},\"seconds\":{seconds:.1}}}",
        tally.crashes, tally.acknowledged
    );
    if let Err((seed, violation)) = outcome {
        panic!("seed {seed}: {violation}\n{:#?}\nagain with CHELA_SEED={seed}", plan::Plan::of(seed));
    }
    if count >= SEEDS {
        println!("{tally:?}");
        tally.assert_everything_happened();
    }
}

fn assert_caught(mutant: Mutant) {
    match run_all(0, SEEDS, Some(mutant)) {
        Ok(_) => panic!("{mutant:?} was not caught within {SEEDS} seeds"),
        Err((seed, violation)) => println!("{mutant:?} is caught at seed {seed}: {violation}"),
    }
}

#[test]
fn a_journal_that_does_not_flush_files_is_caught() {
    assert_caught(Mutant::NoFileSync);
}

#[test]
fn a_journal_that_does_not_flush_directories_is_caught() {
    assert_caught(Mutant::NoDirectorySync);
}

#[test]
fn a_journal_without_checksums_is_caught() {
    assert_caught(Mutant::NoChecksum);
}

#[test]
fn an_answer_before_the_flush_is_caught() {
    assert_caught(Mutant::AckBeforeSync);
}

#[test]
fn a_swallowed_error_of_a_flush_is_caught() {
    assert_caught(Mutant::SwallowedSyncError);
}

#[test]
fn dropping_the_old_file_before_the_new_is_durable_is_caught() {
    assert_caught(Mutant::OldDroppedFirst);
}
