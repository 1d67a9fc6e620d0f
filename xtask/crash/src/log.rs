//! Reads the log of many lives and counts what should not be. Pure but for the reading of the files.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{BufRead, BufReader};

use anyhow::{Context, Result};
use chela::bus;
use chela::event::Kind;
use chela::layout::{EVENT_LOG_STEM, StateDir};
use chela_storage::Catalogue;
use serde::Deserialize;

use crate::mark::Mark;

#[derive(Default)]
pub struct Reading {
    lanes: BTreeMap<(u32, usize), Lane>,
    ids: HashSet<String>,
    /// The latest life so far.
    life: u32,
    found: Found,
}

/// What is wrong with a log, and how much of it there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub lost: u64,
    pub doubled: u64,
    pub out_of_order: u64,
    pub torn: u64,
    pub events: u64,
    pub mended: u64,
    pub segments: usize,
    /// The latest time of an event.
    pub latest: u64,
}

/// The events of one emitter in one life.
#[derive(Default)]
struct Lane {
    seen: HashSet<u64>,
    /// One more than the highest that was seen.
    end: u64,
    /// So many were acknowledged before an event that was read already.
    promised: u64,
}

#[derive(Deserialize)]
struct Line {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    ts: u64,
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    mark: Option<Mark>,
}

impl Reading {
    /// Every segment in the order of the log. Of the one that grows, a line without its end is what the next start mends.
    pub fn read(&mut self, dir: &StateDir) -> Result<()> {
        let segments = Catalogue::new(&dir.logs(), EVENT_LOG_STEM, bus::time_of).segments();
        let segments = segments.context("cannot list the event log")?;
        self.found.segments = segments.len();
        for segment in segments {
            let cannot = || format!("cannot read {}", segment.path.display());
            let mut file = BufReader::with_capacity(1024 * 1024, File::open(&segment.path).with_context(cannot)?);
            let mut line = Vec::new();
            while file.read_until(b'\n', &mut line).with_context(cannot)? > 0 {
                if line.pop() == Some(b'\n') {
                    self.line(&line);
                } else {
                    self.found.torn += u64::from(segment.closed);
                }
                line.clear();
            }
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) {
        let Ok(Line { id, kind, ts, data }) = serde_json::from_slice(line) else {
            self.found.torn += 1;
            return;
        };
        self.found.events += 1;
        self.found.latest = self.found.latest.max(ts);
        self.found.mended += u64::from(kind == Kind::LogRepaired.as_str());
        let is_new = self.ids.insert(id);
        let is_new = data.mark.map_or(is_new, |mark| self.mark(mark) && is_new);
        self.found.doubled += u64::from(!is_new);
    }

    /// Whether it comes for the first time.
    fn mark(&mut self, Mark { life, lane, n, after }: Mark) -> bool {
        for (other, count) in after.into_iter().enumerate() {
            let other = self.lanes.entry((life, other)).or_default();
            other.promised = other.promised.max(count);
        }
        let own = self.lanes.entry((life, lane)).or_default();
        if !own.seen.insert(n) {
            return false;
        }
        let is_late = life < self.life || n < own.end || n < own.promised;
        self.found.out_of_order += u64::from(is_late);
        self.life = self.life.max(life);
        own.end = own.end.max(n + 1);
        true
    }

    /// What was read, beside how many events of each life and lane were acknowledged. An acknowledgement covers what its lane emitted before.
    pub fn end(mut self, lives: &[Vec<u64>]) -> Found {
        for (life, acknowledged) in (1..).zip(lives) {
            for (lane, count) in acknowledged.iter().enumerate() {
                let lane = self.lanes.entry((life, lane)).or_default();
                lane.promised = lane.promised.max(*count);
            }
        }
        let missing = |lane: &Lane| lane.end.max(lane.promised) - lane.seen.len() as u64;
        self.found.lost = self.lanes.values().map(missing).sum();
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Lines as `life lane n`, with how many of lanes 0 and 1 were acknowledged before.
    type Row = (u32, usize, u64, [u64; 2]);

    /// A log in which nothing is wrong: both lanes of two lives.
    const GOOD: [Row; 7] = [
        (1, 0, 0, [0, 0]),
        (1, 1, 0, [0, 0]),
        (1, 0, 1, [1, 0]),
        (1, 1, 1, [1, 1]),
        (2, 1, 0, [0, 0]),
        (2, 0, 0, [0, 1]),
        (2, 0, 1, [1, 1]),
    ];
    const ACKNOWLEDGED: [[u64; 2]; 2] = [[1, 2], [2, 1]];

    fn line((life, lane, n, after): Row) -> Vec<u8> {
        let mark = json!({ "life": life, "lane": lane, "n": n, "after": after });
        let id = format!("{life}-{lane}-{n}");
        json!({ "id": id, "type": "task.updated", "ts": 1, "data": { "mark": mark } }).to_string().into_bytes()
    }

    /// What is found as `[lost, doubled, out of order, torn]`.
    fn found(lines: &[Vec<u8>]) -> [u64; 4] {
        let mut reading = Reading::default();
        lines.iter().for_each(|line| reading.line(line));
        let Found { lost, doubled, out_of_order, torn, .. } = reading.end(&ACKNOWLEDGED.map(Vec::from));
        [lost, doubled, out_of_order, torn]
    }

    fn check(change: impl FnOnce(&mut Vec<Vec<u8>>), expected: [u64; 4]) {
        let mut lines: Vec<Vec<u8>> = GOOD.into_iter().map(line).collect();
        change(&mut lines);
        assert_eq!(found(&lines), expected);
    }

    #[test]
    fn a_whole_log_is_clean_and_each_fault_is_counted_as_what_it_is() {
        check(|_| {}, [0, 0, 0, 0]);
        check(|lines| drop(lines.remove(0)), [1, 0, 0, 0]);
        check(|lines| drop(lines.remove(6)), [1, 0, 0, 0]);
        check(|lines| lines.truncate(4), [3, 0, 0, 0]);
        check(|lines| lines.push(lines[2].clone()), [0, 1, 0, 0]);
        check(|lines| lines.swap(0, 2), [0, 0, 1, 0]);
        check(|lines| lines[1].truncate(20), [1, 0, 0, 1]);
    }

    #[test]
    fn what_was_acknowledged_before_another_emitter_began_must_stand_before() {
        // Neither lane is out of order by itself.
        check(|lines| lines.swap(1, 3), [0, 0, 1, 0]);
        check(|lines| lines.swap(4, 5), [0, 0, 1, 0]);
        // These were under way at the same time.
        check(|lines| lines.swap(0, 1), [0, 0, 0, 0]);
    }

    #[test]
    fn a_life_stands_after_those_before_it() {
        check(|lines| lines.rotate_left(4), [0, 0, 4, 0]);
    }

    #[test]
    fn what_was_not_acknowledged_may_be_missing_at_the_end_only() {
        let short = |lines: &mut Vec<Vec<u8>>| drop(lines.remove(2));
        check(short, [0, 0, 0, 0]);
        check(|lines| lines.push(line((2, 0, 3, [2, 1]))), [1, 0, 0, 0]);
    }
}
