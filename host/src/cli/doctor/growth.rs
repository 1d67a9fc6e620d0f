//! What `chela doctor` says of how a state directory grows: what a week has added, by part, and when the disk is full if it goes on so.
//! Counts what is new: a file by its birth, a log by the dates of its lines. What is made again, written over or bounded does not grow.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::{Finding, NAMED_MAX};
use crate::clock::{Clock, Timestamp};
use crate::layout::StateDir;

const DAY_MS: u64 = 86_400_000;
const WEEK_MS: u64 = 7 * DAY_MS;
/// Files that are looked at to tell how the directory grows.
pub(super) const FILES_MAX: usize = 200_000;
/// Of a line no more is read to find its date.
const LINE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// A forecast that is further away is of no use.
const SOON_DAYS: u64 = 30;

/// What a directory holds, and what of it is new.
#[derive(Debug, Default)]
struct Sums {
    total: u64,
    /// By the part of the directory.
    parts: BTreeMap<String, u64>,
    new: BTreeMap<String, u64>,
    /// The time of the oldest that was found.
    oldest: u64,
}

/// How large the directory is, what takes the room, and when the disk is full if it goes on so.
pub(super) fn growth(dir: &StateDir) -> Finding {
    const CHECK: &str = "growth";
    let now = Clock::system().now().0;
    let Some(sums) = look(dir, now) else {
        return Finding::good(CHECK, format!("more than {FILES_MAX} files; `du` tells more"));
    };
    let named: Vec<String> = largest(&sums.parts).take(NAMED_MAX).map(said).collect();
    let detail = format!("{} MB ({})", sums.total >> 20, named.join(", "));
    // A directory that is younger has not lived a week yet.
    let days = (now.saturating_sub(sums.oldest) / DAY_MS).clamp(1, 7);
    let a_day = sums.new.values().sum::<u64>() / days;
    let free = rustix::fs::statvfs(dir.path()).map_or(u64::MAX, |facts| facts.f_bavail.saturating_mul(facts.f_frsize));
    let full_in = free / a_day.max(1);
    if full_in >= SOON_DAYS {
        return Finding::good(CHECK, format!("{detail}, about {} MB a day", a_day >> 20));
    }
    let when = Timestamp(now + full_in * DAY_MS).date();
    let (part, bytes) = largest(&sums.new).next().unwrap_or(("", 0));
    let remedy = format!("most of it is {}: {}", said((part, bytes)), setting_of(part));
    Finding::warning(CHECK, format!("{detail}; at this rate the disk is full on {when}"), remedy)
}

fn said((part, bytes): (&str, u64)) -> String {
    format!("{part} {} MB", bytes >> 20)
}

fn largest(parts: &BTreeMap<String, u64>) -> impl Iterator<Item = (&str, u64)> {
    let mut sorted: Vec<(&str, u64)> = parts.iter().map(|(part, bytes)| (part.as_str(), *bytes)).collect();
    sorted.sort_by_key(|(_, bytes)| Reverse(*bytes));
    sorted.into_iter()
}

/// What makes a part smaller.
fn setting_of(part: &str) -> &'static str {
    match part {
        "logs" => "keep events for a shorter time (`events.keepDays`), or make room",
        "sessions" => {
            "archive sessions of sub-agents sooner (`session.subagentKeepDays`), delete old ones (`chela sessions delete --erase`), or make room"
        }
        "a2a-jobs" => "keep finished jobs for a shorter time (`a2a.keepDays`), or make room",
        "transcripts" | "human" => "make room; it goes with the tasks and questions that it is about",
        "plugins" => "remove components that nothing is bound to, or make room",
        _ if part.starts_with("workspace") => {
            "it is what the agent has written there: move what is not needed away, or make room"
        }
        _ => "make room",
    }
}

/// None where there are too many files.
fn look(dir: &StateDir, now: u64) -> Option<Sums> {
    let bounded = [dir.index(), dir.journal(), dir.plugin_cache(), dir.run(), dir.decisions(), dir.plugin_logs()];
    let mut sums = Sums { oldest: now, ..Sums::default() };
    let (mut left, mut seen) = (vec![(dir.path().to_owned(), true)], 0);
    while let Some((folder, grows)) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let (path, Ok(facts)) = (entry.path(), entry.metadata()) else { continue };
            seen += 1;
            if seen > FILES_MAX {
                return None;
            }
            if facts.is_dir() {
                let grows = grows && !bounded.contains(&path);
                left.push((path, grows));
                continue;
            }
            let bytes = facts.blocks() * 512;
            sums.total += bytes;
            let below = path.strip_prefix(dir.path()).unwrap_or(&path);
            let part = below.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
            let part = part.unwrap_or_default();
            if grows {
                sums.oldest = sums.oldest.min(began(&facts).max(1));
                *sums.new.entry(part.clone()).or_default() += new_of(&path, &facts, now.saturating_sub(WEEK_MS));
            }
            *sums.parts.entry(part).or_default() += bytes;
        }
    }
    Some(sums)
}

fn ms(time: io::Result<SystemTime>) -> Option<u64> {
    time.ok()?.duration_since(UNIX_EPOCH).ok().and_then(|since| u64::try_from(since.as_millis()).ok())
}

/// When a file was made, as far as that can be told: one that was restored has an earlier change than its birth.
fn began(facts: &Metadata) -> u64 {
    let changed = ms(facts.modified()).unwrap_or_default();
    ms(facts.created()).map_or(changed, |born| born.min(changed))
}

/// Bytes of a file that came after `since`.
fn new_of(path: &Path, facts: &Metadata, since: u64) -> u64 {
    let changed = ms(facts.modified()).unwrap_or_default();
    if changed < since {
        return 0;
    }
    let is_log = path.extension().is_some_and(|ending| ending == "ndjson" || ending == "jsonl");
    if is_log && let Ok(Some(new)) = new_lines(path, facts.len(), since) {
        return new;
    }
    if began(facts) >= since { facts.blocks() * 512 } else { 0 }
}

/// Bytes of the lines that are dated after `since`, which lie at the end; none where they have no dates.
fn new_lines(path: &Path, bytes: u64, since: u64) -> io::Result<Option<u64>> {
    let mut file = File::open(path)?;
    let (mut old, mut new) = (0, bytes);
    // As near as it matters.
    while new - old > 64 * 1024 {
        let middle = old + (new - old) / 2;
        match date_after(&mut file, middle)? {
            Some(at) if at >= since => new = middle,
            Some(_) => old = middle,
            None => return Ok(None),
        }
    }
    match old {
        0 => Ok(date_after(&mut file, 0)?.map(|first| if first >= since { bytes } else { bytes - new })),
        _ => Ok(Some(bytes - new)),
    }
}

/// The date of the first whole line from here on.
fn date_after(file: &mut File, from: u64) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(from))?;
    let (mut reader, mut line) = (BufReader::new(file), Vec::new());
    for nth in 0..=1 {
        line.clear();
        (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if nth == 0 && from == 0 {
            break;
        }
    }
    let line: Value = serde_json::from_slice(&line).unwrap_or_default();
    Ok(["ts", "timestamp"].iter().find_map(|name| line[*name].as_u64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(path: &Path, lines: u64, dated: bool) -> u64 {
        let filler = "x".repeat(1_000);
        let line = |nth: u64| match dated {
            true => format!("{{\"ts\":{},\"text\":\"{filler}\"}}\n", nth * 1_000),
            false => format!("{{\"text\":\"{filler}\"}}\n"),
        };
        fs::write(path, (0..lines).map(line).collect::<String>()).expect("written");
        fs::metadata(path).expect("there").len()
    }

    #[test]
    fn of_a_log_only_the_lines_of_the_week_are_new() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("log.ndjson");
        let bytes = log(&path, 2_000, true);
        for (since, share) in [(0, 1.0), (500_000, 0.75), (1_900_000, 0.05), (2_000_000, 0.0)] {
            let new = new_lines(&path, bytes, since).expect("readable").expect("dated");
            let difference = (new as f64 / bytes as f64 - share).abs();
            assert!(difference < 0.05, "{since}: {new} of {bytes}");
        }
        let bytes = log(&path, 2_000, false);
        assert_eq!(new_lines(&path, bytes, 1).expect("readable"), None);
        assert_eq!(new_lines(&path, log(&path, 0, true), 1).expect("readable"), None, "an empty one");
    }

    #[test]
    fn what_is_made_again_or_was_there_before_does_not_grow() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = StateDir::new(temp.path());
        let put = |path: std::path::PathBuf, kilobytes: usize| {
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, vec![b'x'; kilobytes << 10]).expect("written");
        };
        put(dir.event_index(), 4_096);
        put(dir.journal().join("state.00000001.ndjson"), 4_096);
        put(dir.plugin_cache().join("a.cwasm"), 4_096);
        put(dir.path().join("workspace-eden/new"), 512);
        put(dir.path().join("workspace-eden/old"), 512);
        let old = File::options().append(true).open(dir.path().join("workspace-eden/old")).expect("there");
        let now = Clock::system().now().0;
        old.set_modified(UNIX_EPOCH + std::time::Duration::from_millis(now - 30 * DAY_MS)).expect("ours");
        let sums = look(&dir, now).expect("few files");
        assert!(sums.total > 13_000 << 10, "{sums:?}");
        let new: Vec<(&str, u64)> = largest(&sums.new).filter(|(_, bytes)| *bytes > 0).collect();
        assert_eq!(new, [("workspace-eden", 512 << 10)], "{sums:?}");
    }
}
