//! Jobs between agents on the simulated disk: the real machine of flows, the real journal, sessions and models in a few lines.
//! After every start, and at the end when everything has run out, the promises are checked:
//! I1 what was acknowledged is there; I2 it never goes back; I3 a turn runs again only if it was in flight when the machine stopped, and never
//! once its reply was acknowledged; I5 everything that was committed is told, once and in order; I7 one run at a time in a session, in the
//! order of acceptance; I8 a finished job never changes. (I4 and I6 are the files' and the index's, which follow from these.)

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use chela_flow::{Chain, DeliveryState, Effect, Input, Job, New, Next, Rules, Status, WaitStatus, create, step};
use chela_storage::journal::{Error, Journal, Options, Transaction};
use chela_storage::simulation::{Disk, Faults, Mutant, install, with};
use fastrand::Rng;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::tally::Tally;
use crate::world::{DIR, quiet};

pub const HAPPENS: [&str; 8] =
    ["crashes", "jobs", "turns", "retries", "resumed", "runs_repeated", "finished", "stopped"];

/// How a driver of jobs may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Every turn is sent under the key of the first.
    ReusedKey,
    /// The job has the reply before the session has.
    RecordedBeforeReply,
    /// A start goes on with the turn after the one that was under way.
    WrongTurn,
}

impl Mistake {
    pub const ALL: [Self; 3] = [Self::ReusedKey, Self::RecordedBeforeReply, Self::WrongTurn];
}

/// A message of a session, and what was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Run {
    session: String,
    order: u64,
    answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Answer {
    Reply(String),
    Busy,
}

/// A job with the events of its last step.
#[derive(Serialize, Deserialize)]
struct Kept {
    job: Job,
    events: Vec<String>,
}

/// What the outside knows, whatever the machine forgets.
#[derive(Default)]
struct Outside {
    /// Model calls by run.
    calls: HashMap<String, u32>,
    /// Times that the machine stopped, or the disk refused, while a run was in flight.
    excused: HashMap<String, u32>,
    /// Runs whose answer was acknowledged.
    answered: HashSet<String>,
    /// The last acknowledged state of each job, and the last that was tried.
    acknowledged: BTreeMap<String, Job>,
    tried: HashMap<String, u64>,
    /// Every event of every step that was acknowledged, by job in order.
    expected: BTreeMap<String, Vec<String>>,
    /// Lines of the log that a power cut keeps.
    log: Vec<String>,
}

/// A gateway that lives.
struct Life {
    journal: Journal,
    jobs: BTreeMap<String, Job>,
    runs: BTreeMap<String, Run>,
    order: u64,
    /// Lines that are not flushed, and the jobs that wait for them.
    unflushed: Vec<String>,
    telling: HashSet<String>,
    /// Up to this transaction everything is in the log.
    told: u64,
}

struct World {
    plan: Plan,
    random: Rng,
    outside: Outside,
    tally: Tally,
    mistake: Option<Mistake>,
    made: u32,
    now: u64,
}

/// Why a life is over.
enum End {
    Stopped,
    Broken(String),
}

pub fn run(seed: u64, mutant: Option<Mutant>, mistake: Option<Mistake>) -> Result<Tally, String> {
    let plan = Plan::of(seed);
    let mut disk = Disk::new(seed, plan.faults);
    disk.mutant = mutant;
    disk.place_dir(Path::new("/state")).map_err(|error| error.to_string())?;
    install(disk);
    let mut world = World {
        random: Rng::with_seed(seed),
        plan,
        outside: Outside::default(),
        tally: Tally::default(),
        mistake,
        made: 0,
        now: 1_000,
    };
    world.tally.count("seeds");
    for _ in 0..world.plan.lives {
        let (random, calls) = (&mut world.random, world.plan.calls);
        with(|disk| disk.faults.crash_at = (random.u8(0..5) > 0).then(|| disk.calls + random.u64(1..=calls)));
        let steps = world.plan.steps * 2;
        world.live(steps, false)?;
        world.tally.count("crashes");
        let power_cut = world.random.u8(0..3) > 0;
        with(|disk| disk.restart(power_cut));
    }
    with(|disk| disk.faults = Faults { capacity: None, ..quiet(disk.faults) });
    world.live(2_000, true)?;
    world.all_has_ended()?;
    Ok(world.tally)
}

impl World {
    /// One life of the gateway; `to_the_end`: until nothing is left to do.
    fn live(&mut self, steps: u32, to_the_end: bool) -> Result<(), String> {
        let Some(mut life) = self.open()? else { return Ok(()) };
        match self.resume(&mut life) {
            Ok(()) => {}
            Err(End::Stopped) => return Ok(()),
            Err(End::Broken(said)) => return Err(said),
        }
        for _ in 0..steps {
            let done = match self.one_thing(&mut life, to_the_end) {
                Ok(done) => done,
                Err(End::Stopped) => return Ok(()),
                Err(End::Broken(said)) => return Err(said),
            };
            if with(|disk| disk.has_crashed()) {
                return Ok(());
            }
            if to_the_end && done {
                self.flush(&mut life);
                return Ok(());
            }
        }
        if to_the_end { Err("the jobs do not come to an end".into()) } else { Ok(()) }
    }

    fn open(&mut self) -> Result<Option<Life>, String> {
        let options = Options {
            segment_bytes: self.plan.segment_bytes,
            dead_bytes_min: self.plan.dead_bytes_min,
            room_bytes: self.plan.room_bytes,
            aside: PathBuf::from("/state/journal.torn"),
        };
        for _ in 0..20 {
            match Journal::open(Path::new(DIR), options.clone()) {
                Ok((journal, _)) => return self.read(journal).map(Some),
                Err(error @ Error::Corrupt { .. }) => return Err(format!("a crash was taken for corruption: {error}")),
                Err(_) if with(|disk| disk.has_crashed()) => return Ok(None),
                Err(_) => with(|disk| disk.faults.capacity = disk.faults.capacity.map(|bytes| bytes + 8_000)),
            }
        }
        Err("the journal does not open".into())
    }

    /// What the journal has, held against what the outside knows.
    fn read(&mut self, journal: Journal) -> Result<Life, String> {
        let (faults, calls) = with(|disk| (disk.faults, disk.calls));
        with(|disk| disk.faults = quiet(faults));
        let life = self.read_quietly(journal);
        with(|disk| (disk.faults, disk.calls) = (faults, calls));
        life
    }

    fn read_quietly(&mut self, journal: Journal) -> Result<Life, String> {
        let said = |error: Error| format!("the journal cannot be read: {error}");
        let (mut jobs, mut runs, mut retold) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let told = match journal.get("told", "jobs").map_err(said)? {
            Some(record) => serde_json::from_slice::<u64>(&record.body).map_err(|error| error.to_string())?,
            None => 0,
        };
        for record in journal.records("job") {
            let record = record.map_err(said)?;
            let kept: Kept = serde_json::from_slice(&record.body).map_err(|error| error.to_string())?;
            if record.seq > told {
                retold.extend(kept.events);
            }
            jobs.insert(record.id, kept.job);
        }
        for record in journal.records("run") {
            let record = record.map_err(said)?;
            let run: Run = serde_json::from_slice(&record.body).map_err(|error| error.to_string())?;
            runs.insert(record.id, run);
        }
        for (id, known) in &self.outside.acknowledged {
            let Some(job) = jobs.get(id) else { return Err(format!("I1: job {id} was acknowledged and is gone")) };
            if job.message != known.message {
                return Err(format!("I1: job {id} is another one"));
            }
            if job.rev < known.rev || job.rev > self.outside.tried.get(id).copied().unwrap_or(0) {
                return Err(format!("I2: job {id} stands at {}, acknowledged {}", job.rev, known.rev));
            }
            if known.status.is_terminal() && job != known {
                return Err(format!("I8: job {id} had ended and changed"));
            }
        }
        for key in &self.outside.answered {
            if runs.get(key).is_none_or(|run| run.answer.is_none()) {
                return Err(format!("I3: the answer of {key} was acknowledged and is gone"));
            }
        }
        let order = runs.values().map(|run| run.order).max().unwrap_or(0);
        // What was committed and not acknowledged counts from now on.
        for (id, job) in &jobs {
            if self.outside.acknowledged.get(id).is_none_or(|known| known.rev < job.rev) {
                let told = retold.iter().filter(|event| event.starts_with(&format!("{id}/{}.", job.rev))).cloned();
                self.outside.expected.entry(id.clone()).or_default().extend(told);
                self.outside.acknowledged.insert(id.clone(), job.clone());
            }
        }
        Ok(Life { journal, jobs, runs, order, unflushed: retold, telling: HashSet::new(), told })
    }

    fn resume(&mut self, life: &mut Life) -> Result<(), End> {
        // What is told again must be in the log before a further step takes its place in the record.
        self.flush(life);
        let open: Vec<String> =
            life.jobs.values().filter(|job| !job.status.is_terminal()).map(|job| job.job_id.clone()).collect();
        for id in open {
            self.tally.count("resumed");
            if self.mistake == Some(Mistake::WrongTurn) {
                life.jobs.get_mut(&id).expect("it is open").current_turn += 1;
                self.apply(life, &id, Input::Due)?;
                continue;
            }
            self.apply(life, &id, Input::Resumed)?;
        }
        Ok(())
    }

    /// Something that may happen next; true when nothing is left.
    fn one_thing(&mut self, life: &mut Life, to_the_end: bool) -> Result<bool, End> {
        self.now += self.random.u64(0..5_000);
        if self.random.u8(0..6) == 0 {
            self.flush(life);
        }
        let may_make = !to_the_end && self.made < 6;
        if may_make && self.random.u8(0..4) == 0 {
            self.make(life)?;
            return Ok(false);
        }
        let open: Vec<String> =
            life.jobs.values().filter(|job| !job.status.is_terminal()).map(|job| job.job_id.clone()).collect();
        let runnable = runnable(&life.runs);
        match (open.is_empty(), runnable.is_empty()) {
            (true, true) => return Ok(true),
            (_, false) if open.is_empty() || self.random.bool() => {
                let key = runnable[self.random.usize(0..runnable.len())].clone();
                self.ask_model(life, &key)?;
            }
            (false, _) => {
                let id = open[self.random.usize(0..open.len())].clone();
                self.drive(life, &id)?;
            }
            (true, false) => {}
        }
        Ok(false)
    }

    fn make(&mut self, life: &mut Life) -> Result<(), End> {
        self.made += 1;
        let pick = self.random.usize(0..3);
        let agents = ["agent:a:main", "agent:b:main", "agent:c:main"];
        let new = New {
            job_id: format!("j{}", self.made),
            session_key: agents[pick].into(),
            target_session_key: agents[(pick + 1) % 3].into(),
            conversation_id: "c".into(),
            chain: Chain::begin("chain".into(), "a", self.now),
            message: format!("message {}", self.made),
            max_turns: self.random.u32(0..=3),
            max_retries: 2,
            ..New::default()
        };
        let next = create(new, &Rules::default(), self.now);
        self.tally.count("jobs");
        self.commit(life, next)
    }

    /// Does what a driver does with a job that it finds like this.
    fn drive(&mut self, life: &mut Life, id: &str) -> Result<(), End> {
        let job = life.jobs[id].clone();
        if let Some(at) = job.next_try_at {
            self.now = self.now.max(at);
            return self.apply(life, id, Input::Due);
        }
        let Some(delivery) = job.current().filter(|delivery| delivery.state != DeliveryState::Waiting) else {
            return self.apply(life, id, Input::Due);
        };
        match life.runs.get(&delivery.key).map(|run| run.answer.clone()) {
            None => self.apply(life, id, Input::Due),
            Some(Some(answer)) => self.apply(life, id, input_of(answer)),
            Some(None) if self.mistake == Some(Mistake::RecordedBeforeReply) => {
                let key = delivery.key.clone();
                if !runnable(&life.runs).contains(&key) {
                    return Ok(());
                }
                let answer = self.called(&key);
                self.apply(life, id, input_of(answer.clone()))?;
                self.record_answer(life, &key, answer)
            }
            Some(None) => Ok(()),
        }
    }

    fn apply(&mut self, life: &mut Life, id: &str, input: Input) -> Result<(), End> {
        match step(&life.jobs[id], input, &Rules::default(), self.now) {
            Some(next) if next.durable => self.commit(life, next),
            Some(next) => {
                life.jobs.insert(id.to_owned(), next.job);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A step with its messages in one transaction, as the gateway does it.
    fn commit(&mut self, life: &mut Life, next: Next) -> Result<(), End> {
        let Next { job, effects, .. } = next;
        let id = job.job_id.clone();
        if life.telling.contains(&id) {
            self.flush(life);
        }
        let count = effects.iter().filter(|effect| matches!(effect, Effect::Tell(_))).count();
        let events: Vec<String> = (0..count).map(|nth| format!("{id}/{}.{nth}", job.rev)).collect();
        let mut transaction = Transaction::new();
        put(&mut transaction, "job", &id, &Kept { job: job.clone(), events: events.clone() });
        let mut sent = Vec::new();
        for effect in &effects {
            let Effect::Send(message) = effect else { continue };
            let key = match self.mistake {
                Some(Mistake::ReusedKey) => format!("{id}:0"),
                _ => message.key.clone(),
            };
            if life.runs.contains_key(&key) {
                continue;
            }
            life.order += 1;
            let run = Run { session: message.session_key.clone(), order: life.order, answer: None };
            put(&mut transaction, "run", &key, &run);
            sent.push((key, run));
        }
        if self.random.u8(0..10) == 0 {
            // Everything that was flushed before is told.
            put(&mut transaction, "told", "jobs", &life.told);
        }
        let tried = self.outside.tried.entry(id.clone()).or_default();
        *tried = (*tried).max(job.rev);
        match life.journal.commit(&[transaction]) {
            Ok(_) => {}
            Err(Error::Broken { .. }) => {
                self.tally.count("stopped");
                return Err(End::Stopped);
            }
            Err(Error::NotWritten { .. }) => return Ok(()),
            Err(error) => return Err(End::Broken(format!("an unexpected refusal: {error}"))),
        }
        self.tally.add("retries", u64::from(job.retry_count > life.jobs.get(&id).map_or(0, |old| old.retry_count)));
        self.check_turns(life.jobs.get(&id), &job)?;
        self.outside.expected.entry(id.clone()).or_default().extend(events.iter().cloned());
        self.outside.acknowledged.insert(id.clone(), job.clone());
        life.unflushed.extend(events);
        life.telling.insert(id.clone());
        life.runs.extend(sent);
        life.jobs.insert(id, job);
        Ok(())
    }

    /// A turn that was answered stays answered, with what the model said under its key.
    fn check_turns(&mut self, old: Option<&Job>, job: &Job) -> Result<(), End> {
        let answered = |job: &Job| job.turns.iter().filter(|turn| turn.reply.is_some()).count();
        if old.is_some_and(|old| answered(old) > answered(job)) {
            return Err(End::Broken(format!("I3: a finished turn of {} is sent again", job.job_id)));
        }
        for turn in &job.turns {
            if turn.reply.as_ref().is_some_and(|reply| *reply != reply_of(&turn.key)) {
                return Err(End::Broken(format!("turn {} of {} has another's reply", turn.turn, job.job_id)));
            }
        }
        self.tally.add("turns", u64::from(old.is_some_and(|old| answered(old) < answered(job))));
        Ok(())
    }

    fn called(&mut self, key: &str) -> Answer {
        let calls = self.outside.calls.entry(key.to_owned()).or_default();
        *calls += 1;
        self.tally.add("runs_repeated", u64::from(*calls > 1));
        // Whether a model is busy follows from the key, so that a repetition says the same.
        let busy = key.bytes().map(u32::from).sum::<u32>() % 5 == 0;
        if busy { Answer::Busy } else { Answer::Reply(reply_of(key)) }
    }

    fn ask_model(&mut self, life: &mut Life, key: &str) -> Result<(), End> {
        let answer = self.called(key);
        self.record_answer(life, key, answer)
    }

    fn record_answer(&mut self, life: &mut Life, key: &str, answer: Answer) -> Result<(), End> {
        // Until its answer is on record it is in flight, and a crash repeats it.
        *self.outside.excused.entry(key.to_owned()).or_default() += 1;
        let run = Run { answer: Some(answer), ..life.runs[key].clone() };
        let mut transaction = Transaction::new();
        put(&mut transaction, "run", key, &run);
        match life.journal.commit(&[transaction]) {
            Ok(_) => {}
            Err(Error::Broken { .. }) => return Err(End::Stopped),
            Err(Error::NotWritten { .. }) => return Ok(()),
            Err(error) => return Err(End::Broken(format!("an unexpected refusal: {error}"))),
        }
        let excused = self.outside.excused.entry(key.to_owned()).or_default();
        *excused -= 1;
        let (calls, allowed) = (self.outside.calls[key], 1 + *excused);
        if calls > allowed || !self.outside.answered.insert(key.to_owned()) {
            return Err(End::Broken(format!("I3: {key} was run {calls} times, {allowed} allowed")));
        }
        life.runs.insert(key.to_owned(), run);
        Ok(())
    }

    fn flush(&mut self, life: &mut Life) {
        self.outside.log.append(&mut life.unflushed);
        life.telling.clear();
        life.told = life.journal.seq();
    }

    fn all_has_ended(&mut self) -> Result<(), String> {
        for (id, job) in &self.outside.acknowledged {
            if !job.status.is_terminal() {
                return Err(format!("job {id} never ended: {:?}", job.status));
            }
            self.tally.count("finished");
            if job.status == Status::Completed && job.turns.iter().any(|turn| turn.reply.is_none()) {
                return Err(format!("job {id} completed without an answer"));
            }
        }
        for (key, calls) in &self.outside.calls {
            let allowed = 1 + self.outside.excused.get(key).copied().unwrap_or(0);
            if *calls > allowed {
                return Err(format!("I3: {key} was run {calls} times, {allowed} allowed"));
            }
        }
        let mut seen = HashSet::new();
        let once: Vec<&String> = self.outside.log.iter().filter(|line| seen.insert(line.as_str())).collect();
        for (id, expected) in &self.outside.expected {
            let told: Vec<&String> = once.iter().copied().filter(|line| line.starts_with(&format!("{id}/"))).collect();
            let mut expected: Vec<&String> = expected.iter().collect();
            expected.dedup();
            if told != expected {
                return Err(format!("I5: of job {id} {told:?} is told, not {expected:?}"));
            }
        }
        Ok(())
    }
}

/// The first message without an answer of each session.
fn runnable(runs: &BTreeMap<String, Run>) -> Vec<String> {
    let mut first: BTreeMap<&str, (u64, &str)> = BTreeMap::new();
    for (key, run) in runs.iter().filter(|(_, run)| run.answer.is_none()) {
        let place = first.entry(&run.session).or_insert((run.order, key));
        *place = (*place).min((run.order, key));
    }
    first.into_values().map(|(_, key)| key.to_owned()).collect()
}

fn reply_of(key: &str) -> String {
    format!("reply to {key}")
}

fn input_of(answer: Answer) -> Input {
    match answer {
        Answer::Reply(reply) => Input::Answered { reply },
        Answer::Busy => Input::Failed { status: WaitStatus::Error, error: Some("busy".into()), transient: true },
    }
}

fn put(transaction: &mut Transaction, kind: &str, id: &str, body: &impl Serialize) {
    let body = serde_json::to_vec(body).expect("a record is plain JSON");
    transaction.put(kind, id, &body).expect("a record is small");
}
