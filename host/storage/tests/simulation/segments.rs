//! One seed of the event log: a writer that works as the bus does, crashes and starts again, a few times over, on a disk that fails; and
//! the promises, checked after every start and every acknowledgement.

mod model;
mod plan;

use std::io::{self, ErrorKind};
use std::path::Path;

use chela_storage::simulation::{Disk, Faults, Mutant, install, with};
use chela_storage::{Catalogue, LogError, Month, Repair, SegmentLog, make_private_dir};
use fastrand::Rng;

use crate::tally::Tally;
use crate::world::quiet;
use model::{Model, text};
pub use plan::Plan;

/// Nothing of it is there at first.
const DIR: &str = "/home/state/logs";
const ACTIVE: &str = "/home/state/logs/events.ndjson";
const ASIDE: &str = "/home/state/logs/corrupt";
const MONTH: u64 = 1_000;

/// What has to happen in a run of many seeds.
pub const HAPPENS: [&str; 10] = [
    "crashes",
    "acknowledged",
    "refused",
    "given_up",
    "stopped",
    "cut",
    "unsure_kept",
    "closed",
    "starts_failed",
    "full",
];

fn time_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"ts\":")?;
    std::str::from_utf8(rest).ok()?.split(',').next()?.parse().ok()
}

fn month_of(time: u64) -> Month {
    Month { year: 2026, month: i8::try_from(1 + time / MONTH).unwrap_or(i8::MAX) }
}

fn catalogue() -> Catalogue {
    Catalogue::new(Path::new(DIR), "events", time_of)
}

struct World {
    plan: Plan,
    random: Rng,
    model: Model,
    token: u64,
    now: u64,
    tally: Tally,
}

/// Runs a seed; the error is the promise that was broken.
pub fn run(seed: u64, mutant: Option<Mutant>) -> Result<Tally, String> {
    let mut world = World::new(seed, Plan::of(seed), mutant)?;
    for _ in 0..world.plan.lives {
        let (random, calls) = (&mut world.random, world.plan.calls);
        let crash = (random.u8(0..5) > 0).then(|| random.u64(1..=calls));
        world.live(crash)?;
        world.restart();
    }
    world.last_look()?;
    Ok(world.tally)
}

/// Files that others closed, the later name with the earlier time; gives their lines in the order of the log.
fn place_foreign(disk: &mut Disk, count: usize) -> io::Result<Vec<Vec<u8>>> {
    for folder in Path::new(DIR).ancestors().collect::<Vec<_>>().into_iter().rev().skip(1) {
        disk.place_dir(folder)?;
    }
    let mut lines = Vec::new();
    for nth in 0..count {
        let line = format!("{{\"ts\":{nth},\"foreign\":true}}\n").into_bytes();
        disk.place(&Path::new(DIR).join(format!("events-{}.ndjson", count - nth)), &line)?;
        lines.push(line);
    }
    Ok(lines)
}

impl World {
    fn new(seed: u64, plan: Plan, mutant: Option<Mutant>) -> Result<Self, String> {
        let mut disk = Disk::new(seed, plan.faults);
        disk.mutant = mutant;
        let mut model = Model::default();
        if plan.foreign > 0 {
            model.unsure = place_foreign(&mut disk, plan.foreign).map_err(|error| error.to_string())?;
        }
        install(disk);
        let random = Rng::with_seed(seed);
        let mut world = Self { plan, random, model, token: 0, now: 100, tally: Tally::default() };
        world.tally.count("seeds");
        Ok(world)
    }

    /// One process, which ends at the latest with the given call of the file system.
    fn live(&mut self, crash: Option<u64>) -> Result<(), String> {
        with(|disk| disk.faults.crash_at = crash.map(|after| disk.calls + after));
        if let Some(log) = self.open()? {
            self.work(log)?;
        }
        Ok(())
    }

    /// Opens until it succeeds or the machine stops.
    fn open(&mut self) -> Result<Option<SegmentLog>, String> {
        // A disk that fails every thirtieth call may refuse many starts in a row by chance alone.
        for _ in 0..500 {
            match self.try_open()? {
                Ok((log, _)) => return Ok(Some(log)),
                Err(_) if with(|disk| disk.has_crashed()) => return Ok(None),
                Err(error) => {
                    self.tally.count("starts_failed");
                    self.make_room(&error);
                }
            }
        }
        Err("the log does not open".into())
    }

    fn try_open(&mut self) -> Result<io::Result<(SegmentLog, Option<Repair>)>, String> {
        let (before, aside) = (file(ACTIVE), file(ASIDE));
        let opened = make_private_dir(Path::new(DIR))
            .and_then(|()| SegmentLog::open(catalogue(), Path::new(ASIDE), self.plan.segment_bytes, month_of));
        self.check_cut(&before, opened.as_ref().ok().map(|(_, repair)| *repair))?;
        if let Ok((_, repair)) = &opened {
            self.tally.add("cut", u64::from(repair.is_some()));
            if repair.is_none() && file(ASIDE) != aside {
                return Err("something was kept aside, and nothing was cut off".into());
            }
            let there = self.look()?;
            self.tally.add("unsure_kept", u64::from(there > 0));
        }
        Ok(opened)
    }

    /// What opening took from the end of the log is what it says, and is kept aside; also if it failed afterwards.
    fn check_cut(&mut self, before: &[u8], told: Option<Option<Repair>>) -> Result<(), String> {
        let after = file(ACTIVE);
        if after.len() < before.len() {
            let piece = before[after.len()..].to_vec();
            if !file(ASIDE).ends_with(&[&piece[..], b"\n"].concat()) {
                return Err(format!("{} was cut off and not kept", text(&piece)));
            }
            self.model.kept.push(piece);
        }
        let Some(told) = told else { return Ok(()) };
        if !before.starts_with(&after) {
            return Err("opening changed lines".into());
        }
        let cut = (before.len() > after.len())
            .then_some(Repair { bytes: (before.len() - after.len()) as u64, offset: after.len() as u64 });
        if told == cut { Ok(()) } else { Err(format!("told {told:?}, did {cut:?}")) }
    }

    /// Writes groups as the bus does: what the log did not take is tried again with the next group, but for what somebody waited for.
    fn work(&mut self, mut log: SegmentLog) -> Result<(), String> {
        let mut batch = Vec::new();
        for _ in 0..self.plan.steps {
            self.pass_time();
            for _ in 0..self.random.usize(1..=self.plan.group) {
                batch.push(self.line());
            }
            if !self.commit(&mut log, &mut batch)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// False once the process has to end.
    fn commit(&mut self, log: &mut SegmentLog, batch: &mut Vec<Vec<u8>>) -> Result<bool, String> {
        let appended = log.append(&batch.concat(), self.now);
        if with(|disk| disk.has_crashed()) {
            // Whatever the log says, there is nobody left to hear it.
            self.model.unsure.append(batch);
            return Ok(false);
        }
        let written = match appended {
            Ok(()) => usize::MAX,
            Err(LogError::Append { written, cause }) => {
                self.tally.count("refused");
                self.make_room(&cause);
                written
            }
            Err(LogError::Flush(_)) => {
                self.model.unsure.append(batch);
                return self.stop(log);
            }
        };
        let mut end = 0;
        let taken = batch.iter().take_while(|line| {
            end += line.len();
            end <= written
        });
        let mut rest = batch.split_off(taken.count());
        let done = std::mem::take(batch);
        if written != usize::MAX && done.iter().map(Vec::len).sum::<usize>() != written {
            return Err(format!("{written} bytes were written, which are no whole lines"));
        }
        let before = rest.len();
        rest.retain(|_| self.random.bool());
        self.tally.add("given_up", (before - rest.len()) as u64);
        *batch = rest;
        if written != usize::MAX && self.random.u8(0..4) == 0 {
            // Whoever waited has been told; a power cut now must not bring back what was refused.
            with(|disk| disk.faults.crash_at = Some(disk.calls + 1));
        }
        let count = done.len();
        self.model.unsure = done;
        match log.flush() {
            Ok(()) if self.look()? == count => self.tally.add("acknowledged", count as u64),
            Ok(()) => return Err("an acknowledged line is not there".into()),
            Err(LogError::Append { .. }) => return Err("a flush that says nothing was written".into()),
            Err(LogError::Flush(_)) => return self.stop(log),
        }
        Ok(true)
    }

    /// A log that cannot know any more takes nothing more.
    fn stop(&mut self, log: &mut SegmentLog) -> Result<bool, String> {
        self.tally.count("stopped");
        let line = self.line();
        match (log.append(&line, self.now), log.flush()) {
            (Err(LogError::Flush(_)), Err(LogError::Flush(_))) => Ok(false),
            _ => Err("a log that had stopped went on".into()),
        }
    }

    /// The log as readers see it, against the model. Looking is no part of the run: the machine stops where it would have stopped, and a
    /// mutant does later what it does later.
    fn look(&mut self) -> Result<usize, String> {
        let (faults, calls, mutant) = with(|disk| (disk.faults, disk.calls, disk.mutant));
        with(|disk| (disk.faults, disk.mutant) = (quiet(faults), None));
        let segments = catalogue().segments();
        with(|disk| (disk.faults, disk.calls, disk.mutant) = (faults, calls, mutant));
        let files = with(|disk| disk.files(Path::new(DIR)));
        let lines = model::lines(&segments.map_err(|error| error.to_string())?, &files)?;
        self.model.check_kept(&file(ASIDE))?;
        self.model.settle(lines)
    }

    fn line(&mut self) -> Vec<u8> {
        self.token += 1;
        let long = self.random.u32(0..self.plan.long_lines) == 0;
        let length = if long { self.random.usize(200..2_000) } else { self.random.usize(0..40) };
        let letter = char::from(b'a' + u8::try_from(self.token % 26).unwrap_or(0));
        let fill: String = std::iter::repeat_n(letter, length).collect();
        format!("{{\"ts\":{},\"n\":{},\"fill\":\"{fill}\"}}\n", self.now, self.token).into_bytes()
    }

    fn pass_time(&mut self) {
        self.now += 1;
        if self.random.u32(0..self.plan.months) == 0 {
            // Clocks are also set back.
            self.now = if self.random.u8(0..4) == 0 { self.now.saturating_sub(MONTH) } else { self.now + MONTH };
        }
    }

    fn restart(&mut self) {
        self.tally.count("crashes");
        let power_cut = self.random.u8(0..3) > 0;
        with(|disk| disk.restart(power_cut));
    }

    /// On a good disk: it opens, a second time finds the same, and it works.
    fn last_look(&mut self) -> Result<(), String> {
        self.restart();
        with(|disk| disk.faults = Faults { capacity: None, ..quiet(disk.faults) });
        let mut seen = None;
        for _ in 0..3 {
            let (mut log, repair) = self.try_open()?.map_err(|error| error.to_string())?;
            let now = with(|disk| disk.files(Path::new(DIR)));
            if seen.as_ref().is_some_and(|before| *before != now) || (seen.is_some() && repair.is_some()) {
                return Err("opening twice gives two different logs".into());
            }
            seen = Some(now);
            if self.random.bool() {
                let mut batch = vec![self.line()];
                if !self.commit(&mut log, &mut batch)? || !batch.is_empty() {
                    return Err("a good disk was refused".into());
                }
                seen = None;
            }
        }
        let files = with(|disk| disk.files(Path::new(DIR)));
        let closed = files.keys().filter(|path| path.to_string_lossy().contains("events.2026-")).count();
        self.tally.add("closed", closed as u64);
        Ok(())
    }

    /// Somebody frees the disk, sooner or later.
    fn make_room(&mut self, error: &io::Error) {
        if error.kind() == ErrorKind::StorageFull {
            self.tally.count("full");
            let freed = self.random.usize(0..600);
            with(|disk| disk.faults.capacity = disk.faults.capacity.map(|bytes| bytes + freed));
        }
    }
}

fn file(path: &str) -> Vec<u8> {
    with(|disk| disk.files(Path::new(DIR))).remove(Path::new(path)).unwrap_or_default()
}

/// A process killed anywhere, the next one stopped by a power cut anywhere: what one left undone the other must not build on.
#[test]
fn a_kill_and_then_a_power_cut_around_a_rotation_lose_nothing() {
    let plan = Plan {
        faults: Faults { block: 512, ..Faults::default() },
        lives: 2,
        steps: 3,
        calls: 0,
        segment_bytes: 120,
        group: 2,
        long_lines: u32::MAX,
        months: u32::MAX,
        foreign: 0,
    };
    for (kill, cut) in (1..80).flat_map(|kill| (1..30).map(move |cut| (kill, cut))) {
        for seed in 0..5 {
            let mut world = World::new(seed, plan.clone(), None).expect("an empty disk");
            let mut lives = || {
                world.live(Some(kill))?;
                with(|disk| disk.restart(false));
                world.live(Some(cut))?;
                with(|disk| disk.restart(true));
                world.last_look()
            };
            assert_eq!(lives(), Ok(()), "killed at call {kill}, power cut at call {cut}, seed {seed}");
        }
    }
}
