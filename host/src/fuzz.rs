//! Cases by number, for what must hold whatever comes in: each case follows from its seed alone, and one that fails is made smaller before
//! it is told. `CHELA_SEED=7` runs one case; `CHELA_FROM` and `CHELA_MINUTES` choose others, as `cargo xtask fuzz` does.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use fastrand::Rng;

/// How many cases the suite runs.
const CASES: u64 = 50_000;
/// Between two words about how far it is.
const PROGRESS: Duration = Duration::from_secs(10);
/// Attempts to make a failing case smaller.
const ATTEMPTS_MAX: usize = 2_000;

/// Makes the case of a seed.
type Make<'a> = &'a dyn Fn(u64, &mut Rng) -> Vec<u8>;
/// What a case breaks, if it breaks anything. The seed chooses what a case costs, never what must hold.
type Holds<'a> = &'a dyn Fn(u64, &[u8]) -> Result<(), String>;

/// A kind of input, and what must hold for each of it.
pub(crate) struct Area<'a> {
    pub(crate) name: &'static str,
    pub(crate) make: Make<'a>,
    pub(crate) holds: Holds<'a>,
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is not a number")))
}

impl Area<'_> {
    /// Runs the cases, says the figures as one line of JSON to whoever chose them, and fails with the first that breaks a promise.
    pub(crate) fn run(&self) {
        let begun = Instant::now();
        let one = setting("CHELA_SEED");
        let until = setting("CHELA_MINUTES").map(|minutes| begun + Duration::from_secs(60 * minutes));
        let from = one.or_else(|| setting("CHELA_FROM")).unwrap_or(0);
        let (mut cases, mut told, mut failure) = (0, begun, None);
        while failure.is_none() {
            let enough = match (one, until) {
                (Some(_), _) => cases == 1,
                (None, Some(until)) => Instant::now() >= until,
                (None, None) => cases == CASES,
            };
            if enough {
                break;
            }
            let seed = from + cases;
            failure = self.broken(seed, &self.case(seed)).map(|what| (seed, what));
            cases += 1;
            if until.is_some() && told.elapsed() >= PROGRESS {
                told = Instant::now();
                say(std::io::stderr(), &format!("fuzz {}: {cases} cases, from seed {from} to {seed}", self.name));
            }
        }
        let (name, seconds, failures) = (self.name, begun.elapsed().as_secs_f64(), u8::from(failure.is_some()));
        if one.is_some() || until.is_some() {
            let figures = format!("\"cases\":{cases},\"seconds\":{seconds:.1},\"failures\":{failures}");
            say(std::io::stdout(), &format!("{{\"area\":\"{name}\",{figures}}}"));
        }
        if let Some((seed, what)) = failure {
            let smallest = self.smallest(seed);
            let what = self.broken(seed, &smallest).unwrap_or(what);
            panic!("seed {seed} of {name}: {what}\nwith {}\nagain with CHELA_SEED={seed}", shown(&smallest));
        }
    }

    fn case(&self, seed: u64) -> Vec<u8> {
        (self.make)(seed, &mut Rng::with_seed(seed))
    }

    /// What a case breaks; a panic is told like anything else.
    fn broken(&self, seed: u64, case: &[u8]) -> Option<String> {
        let outcome = catch_unwind(AssertUnwindSafe(|| (self.holds)(seed, case)));
        match outcome {
            Ok(held) => held.err(),
            Err(panic) => {
                let words = panic.downcast_ref::<String>().map(String::as_str);
                let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
                Some(format!("panicked: {}", words.unwrap_or("without words")))
            }
        }
    }

    /// The case of a seed without all that can be left out of it, so that it still fails.
    fn smallest(&self, seed: u64) -> Vec<u8> {
        let mut case = self.case(seed);
        let (mut size, mut attempts) = (case.len().div_ceil(2), 0);
        // Every attempt may panic: only the last word counts.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        while size > 0 {
            let mut at = 0;
            while at < case.len() && attempts < ATTEMPTS_MAX {
                attempts += 1;
                let mut less = case.clone();
                less.drain(at..(at + size).min(case.len()));
                match self.broken(seed, &less) {
                    Some(_) => case = less,
                    None => at += size,
                }
            }
            size /= 2;
        }
        std::panic::set_hook(hook);
        case
    }
}

/// A line for whoever asked for more cases than the suite runs.
fn say(mut to: impl std::io::Write, line: &str) {
    // Nobody who reads it: the cases count all the same.
    let _ = writeln!(to, "{line}");
}

/// Bytes as they can be put into a test; of many, the two ends.
fn shown(bytes: &[u8]) -> String {
    const ENDS: usize = 1_000;
    let mut text = format!("{} bytes: b\"", bytes.len());
    let (head, tail) =
        if bytes.len() > 2 * ENDS { (&bytes[..ENDS], &bytes[bytes.len() - ENDS..]) } else { (bytes, &[][..]) };
    let _ = write!(text, "{}", head.escape_ascii());
    if !tail.is_empty() {
        let _ = write!(text, " … {}", tail.escape_ascii());
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_that_fails_is_told_with_its_seed_and_made_small() {
        let make = |_: u64, random: &mut Rng| -> Vec<u8> { (0..200).map(|_| random.alphabetic() as u8).collect() };
        let holds = |_: u64, case: &[u8]| -> Result<(), String> {
            assert!(!case.contains(&b'x') || !case.contains(&b'y'), "both");
            Ok(())
        };
        let area = Area { name: "letters", make: &make, holds: &holds };
        let seed = (0..).find(|seed| area.broken(*seed, &area.case(*seed)).is_some()).expect("some have both");
        assert_eq!(area.case(seed), area.case(seed), "the seed is all there is to it");
        let mut smallest = area.smallest(seed);
        smallest.sort_unstable();
        assert_eq!(smallest, b"xy");
        assert_eq!(area.broken(seed, &smallest).as_deref(), Some("panicked: both"));
        assert_eq!(shown(b"a\"\xff"), "3 bytes: b\"a\\\"\\xff\"");
    }
}
