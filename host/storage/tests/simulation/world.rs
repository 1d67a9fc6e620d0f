//! One seed: a journal that works, crashes and is opened again, a few times over, on a disk that fails; and the promises, checked after
//! every start.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use chela_storage::journal::{Checkpoint, Error, Journal, Options, Recovery, Written};
use chela_storage::simulation::{Disk, Faults, Mutant, install, with};
use fastrand::Rng;

use crate::model::{Model, Plain, state_of};
use crate::plan::Plan;
use crate::tally::Tally;

pub const DIR: &str = "/state/journal";

/// What has to happen in a run of many seeds.
pub const HAPPENS: [&str; 9] = [
    "crashes",
    "acknowledged",
    "refused",
    "stopped",
    "cut",
    "unsure_kept",
    "checkpoints",
    "checkpoints_failed",
    "starts_failed",
];

struct World {
    plan: Plan,
    random: Rng,
    model: Model,
    token: u64,
    tally: Tally,
}

/// A checkpoint between its steps.
enum Step {
    Begun(Checkpoint),
    Written(Written),
}

/// Runs a seed; the error is the promise that was broken.
pub fn run(seed: u64, mutant: Option<Mutant>) -> Result<Tally, String> {
    let plan = Plan::of(seed);
    let mut disk = Disk::new(seed, plan.faults);
    disk.mutant = mutant;
    disk.place_dir(Path::new("/state")).map_err(|error| error.to_string())?;
    install(disk);
    let random = Rng::with_seed(seed);
    let mut world = World { plan, random, model: Model::default(), token: 0, tally: Tally::default() };
    world.tally.count("seeds");
    for _ in 0..world.plan.lives {
        world.live()?;
    }
    world.last_look()?;
    Ok(world.tally)
}

impl World {
    fn live(&mut self) -> Result<(), String> {
        let (random, calls) = (&mut self.random, self.plan.calls);
        with(|disk| disk.faults.crash_at = (random.u8(0..5) > 0).then(|| disk.calls + random.u64(1..=calls)));
        if let Some(journal) = self.open()? {
            self.work(journal)?;
        }
        self.restart();
        Ok(())
    }

    /// Opens until it succeeds or the machine stops.
    fn open(&mut self) -> Result<Option<Journal>, String> {
        for _ in 0..20 {
            match Journal::open(Path::new(DIR), self.options()) {
                Ok((journal, recovery)) => {
                    self.settle(&journal, &recovery)?;
                    return Ok(Some(journal));
                }
                Err(error @ Error::Corrupt { .. }) => return Err(format!("a crash was taken for corruption: {error}")),
                Err(_) if with(|disk| disk.has_crashed()) => return Ok(None),
                Err(error) => {
                    self.tally.count("starts_failed");
                    self.make_room(&error);
                }
            }
        }
        Err("the journal does not open".into())
    }

    fn work(&mut self, mut journal: Journal) -> Result<(), String> {
        let mut step = None;
        for _ in 0..self.plan.steps {
            if self.random.u32(0..self.plan.checkpoints) == 0 {
                step = self.advance(&mut journal, step);
            } else if self.random.u8(0..8) == 0 {
                self.read_one(&journal)?;
            } else {
                self.commit(&mut journal)?;
            }
            if with(|disk| disk.has_crashed()) {
                break;
            }
        }
        Ok(())
    }

    fn commit(&mut self, journal: &mut Journal) -> Result<(), String> {
        let count = self.random.usize(1..=self.plan.group);
        let plain = |_| Plain::random(&mut self.random, &mut self.token, self.plan.long_bodies);
        let group: Vec<Plain> = (0..count).map(plain).collect();
        let transactions: Vec<_> = group.iter().map(Plain::transaction).collect();
        let stopped = !self.model.unsure.is_empty();
        match journal.commit(&transactions) {
            Ok(_) if stopped => return Err("a journal that had stopped went on".into()),
            Ok(numbers) => {
                self.tally.add("acknowledged", group.len() as u64);
                self.model.acknowledge(&group);
                if numbers.end != self.model.seq + 1 {
                    return Err(format!("the group ends with {}, not {}", numbers.end, self.model.seq + 1));
                }
            }
            Err(Error::Broken { .. }) if stopped => {}
            Err(Error::Broken { .. }) => {
                self.tally.count("stopped");
                self.model.unsure = group;
            }
            Err(Error::NotWritten { .. }) => self.tally.count("refused"),
            Err(error) => return Err(format!("an unexpected refusal: {error}")),
        }
        Ok(())
    }

    /// The next step of a checkpoint; a failure gives it up.
    fn advance(&mut self, journal: &mut Journal, step: Option<Step>) -> Option<Step> {
        let outcome = match step {
            None if journal.wants_checkpoint() || self.random.u8(0..4) == 0 => {
                journal.begin_checkpoint().map(|checkpoint| Some(Step::Begun(checkpoint)))
            }
            None => return None,
            Some(Step::Begun(checkpoint)) => checkpoint.write().map(|written| Some(Step::Written(written))),
            Some(Step::Written(written)) => {
                self.tally.count("checkpoints");
                journal.finish_checkpoint(written).map(|()| None)
            }
        };
        outcome.unwrap_or_else(|_| {
            self.tally.count("checkpoints_failed");
            None
        })
    }

    /// What lives is what was acknowledged, also while it works; only an error of the disk is an excuse.
    fn read_one(&mut self, journal: &Journal) -> Result<(), String> {
        let keys: Vec<_> = self.model.state.keys().cloned().collect();
        let Some(key) = self.random.choice(keys) else { return Ok(()) };
        match journal.get(&key.0, &key.1) {
            Ok(Some(record)) => {
                let found = (record.seq, String::from_utf8_lossy(&record.body).into_owned());
                if self.model.state.get(&key) == Some(&found) {
                    Ok(())
                } else {
                    Err(format!("{key:?} reads as transaction {}", found.0))
                }
            }
            Ok(None) => Err(format!("{key:?} is gone while the journal works")),
            Err(Error::Io { .. }) => Ok(()),
            // After a failed flush the kernel may even forget what it showed before; the checksum tells.
            Err(Error::Corrupt { .. }) if !self.model.unsure.is_empty() => Ok(()),
            Err(error) => Err(format!("{key:?} cannot be read: {error}")),
        }
    }

    fn settle(&mut self, journal: &Journal, recovery: &Recovery) -> Result<(), String> {
        self.tally.add("cut", u64::from(recovery.cut.is_some()));
        let acknowledged = self.model.seq;
        // Looking is no part of the run: the machine stops where it would have stopped.
        let (faults, calls) = with(|disk| (disk.faults, disk.calls));
        with(|disk| disk.faults = quiet(faults));
        let outcome = self.model.settle(journal).and_then(|()| no_leftovers());
        with(|disk| (disk.faults, disk.calls) = (faults, calls));
        self.tally.add("unsure_kept", u64::from(self.model.seq > acknowledged));
        outcome
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
            let (mut journal, recovery) = Journal::open(Path::new(DIR), self.options()).map_err(|e| e.to_string())?;
            self.settle(&journal, &recovery)?;
            let now = (state_of(&journal)?, journal.seq());
            if seen.as_ref().is_some_and(|before| *before != now) || (seen.is_some() && recovery.cut.is_some()) {
                return Err("opening twice gives two different journals".into());
            }
            seen = Some(now);
            if self.random.bool() {
                self.commit(&mut journal)?;
                seen = None;
            }
        }
        Ok(())
    }

    fn options(&self) -> Options {
        Options {
            segment_bytes: self.plan.segment_bytes,
            dead_bytes_min: self.plan.dead_bytes_min,
            room_bytes: self.plan.room_bytes,
            aside: PathBuf::from("/state/journal.torn"),
        }
    }

    /// Somebody frees the disk, as the message asks.
    fn make_room(&self, error: &Error) {
        let Error::Io { source, .. } = error else { return };
        if source.kind() == ErrorKind::StorageFull {
            with(|disk| disk.faults.capacity = disk.faults.capacity.map(|bytes| bytes + 8_000));
        }
    }
}

/// For looking: nothing fails, and nothing happens by itself.
pub fn quiet(faults: Faults) -> Faults {
    Faults { io_errors: 0, write_backs: 0, crash_at: None, ..faults }
}

fn no_leftovers() -> Result<(), String> {
    let names: Vec<String> = with(|disk| disk.files(Path::new(DIR)))
        .into_keys()
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    let number = |name: &str| name.split('.').nth(1).and_then(|number| number.parse::<u64>().ok());
    let snapshot = names.iter().filter(|name| name.starts_with("snapshot.")).filter_map(|name| number(name)).max();
    match names.iter().find(|name| number(name).is_none() || number(name) < snapshot) {
        Some(name) => Err(format!("{name} was left behind")),
        None => Ok(()),
    }
}
