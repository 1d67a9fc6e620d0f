//! The world around one agent: lanes, a task, a policy, a journal, people, and what must hold of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fastrand::Rng;

use crate::{
    Agent, Answer, Begun, Blocked, By, Counts, Effect, End, Facts, Input, Layer, Look, Outcome, Poll, Rules, Send, step,
};

const POLL_MS: u64 = 120_000;

/// How often what happened.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) prompts: u64,
    pub(super) stops: u64,
    pub(super) withdrawn: u64,
    pub(super) second_tries: u64,
    pub(super) given_up: u64,
    pub(super) backed_off: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.prompts += other.prompts;
        self.stops += other.stops;
        self.withdrawn += other.withdrawn;
        self.second_tries += other.second_tries;
        self.given_up += other.given_up;
        self.backed_off += other.backed_off;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Status {
    InProgress,
    Blocked,
    BlockedForPerson,
    Over,
}

struct Message {
    run: String,
    by: By,
    order: u64,
}

/// What the machine is still to hear of.
enum News {
    Accepted(String, By, u64),
    Started(String, By, u64),
    Ended(End),
    TaskChanged,
}

pub(super) struct World {
    rng: Rng,
    rules: Rules,
    now: u64,
    poll_at: u64,
    agent: Agent,
    // On the disk.
    counts: BTreeMap<String, Counts>,
    silenced: Option<u64>,
    keys: BTreeSet<String>,
    // Around.
    waiting: VecDeque<Message>,
    running: Option<Message>,
    subagents: usize,
    question: bool,
    has_run: bool,
    ended_at: u64,
    status: Status,
    steps: u64,
    activity_at: u64,
    news: VecDeque<News>,
    asks: Vec<(u64, Layer)>,
    sends: Vec<Send>,
    // What must hold.
    /// A person has aborted and not spoken; the gateway may not have heard of the latter.
    aborted: bool,
    /// Something happened that a prompt of the quick layers may answer.
    open_end: bool,
    in_all: u32,
    without_progress: u32,
    /// The steps as the gateway last saw them: progress counts from then on.
    seen_steps: u64,
    /// The agent has resumed a task that was stopped, and the gateway has not seen it.
    helped_itself: bool,
    to_withdraw: BTreeSet<String>,
    friendly: bool,
    n: u64,
    pub(super) tally: Tally,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let caps = (rng.u32(2..10), rng.u32(2..15), rng.u32(4..40));
        let rules = Rules {
            in_a_row_max: caps.0,
            without_progress_max: caps.1,
            in_all_max: caps.2,
            zombie_ms: 3_600_000,
            zombie_to_backlog: rng.bool(),
            ..Rules::default()
        };
        Self::with(rng, rules)
    }

    /// The real rules, a policy that always answers, nothing but runs.
    pub(super) fn quiet(seed: u64) -> Self {
        let mut world = Self::with(Rng::with_seed(seed), Rules::default());
        world.friendly = true;
        world
    }

    fn with(rng: Rng, rules: Rules) -> Self {
        let now = 1_700_000_000_000;
        let mut world = Self {
            rng,
            rules,
            now,
            poll_at: now + POLL_MS,
            agent: Agent::default(),
            counts: BTreeMap::new(),
            silenced: None,
            keys: BTreeSet::new(),
            waiting: VecDeque::new(),
            running: None,
            subagents: 0,
            question: false,
            has_run: true,
            ended_at: now,
            status: Status::InProgress,
            steps: 0,
            activity_at: now,
            news: VecDeque::new(),
            asks: Vec::new(),
            sends: Vec::new(),
            aborted: false,
            open_end: true,
            in_all: 0,
            without_progress: 0,
            seen_steps: 0,
            helped_itself: false,
            to_withdraw: BTreeSet::new(),
            friendly: false,
            n: 0,
            tally: Tally::default(),
        };
        world.restart();
        world
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.status == Status::Blocked
    }

    fn look(&self) -> Look {
        let task = Facts {
            id: "task_1".into(),
            open_steps: 2,
            mark: self.steps,
            activity_at: self.activity_at,
            session: "agent:eden:main".into(),
        };
        Look {
            running: self.running.is_some(),
            by_person: self.running.as_ref().is_some_and(|run| run.by == By::Person),
            waiting: self.waiting.len(),
            subagents: self.subagents,
            task: (self.status == Status::InProgress).then_some(task),
            waits_for_person: self.status == Status::BlockedForPerson,
        }
    }

    /// One thing happens, whatever it is.
    pub(super) fn happen(&mut self) {
        match self.rng.u8(0..60) {
            0 | 1 => self.say(By::Agent),
            4 => self.say(By::Person),
            2 | 3 | 5..10 => self.begin(),
            10..16 => self.end(),
            16 => self.abort(),
            17 => self.give(Input::Typed),
            18 => {
                self.question = !self.question;
                self.give(Input::Questions { open: self.question.into() });
            }
            19 => self.change_task(),
            20..24 => self.answer(),
            24..27 => self.commit(),
            27 => self.restart(),
            28..38 => self.wait_for_timer(),
            38 => self.pass(POLL_MS),
            39 => self.pass(30 * POLL_MS),
            40..47 => self.answer(),
            47..54 => self.commit(),
            _ => {
                let ms = self.rng.u64(0..3_000);
                self.pass(ms);
            }
        }
        // News may come late, and in order.
        while !self.news.is_empty() && self.rng.u8(0..4) > 0 {
            self.hear();
        }
    }

    fn say(&mut self, by: By) {
        self.n += 1;
        let run = format!("run-{}", self.n);
        if by == By::Person {
            self.aborted = false;
        }
        self.news.push_back(News::Accepted(run.clone(), by, self.n));
        self.waiting.push_back(Message { run, by, order: self.n });
    }

    fn begin(&mut self) {
        if self.running.is_none()
            && let Some(message) = self.waiting.pop_front()
        {
            self.has_run = true;
            self.news.push_back(News::Started(message.run.clone(), message.by, message.order));
            self.running = Some(message);
        }
    }

    fn end(&mut self) {
        let outcome = match self.rng.u8(0..8) {
            0 => Outcome::Failed { said: "overloaded".into(), lasting: false },
            1 => Outcome::Failed { said: format!("odd {}", self.rng.u8(0..2)), lasting: false },
            2 if !self.friendly => Outcome::Failed { said: "no key".into(), lasting: true },
            3 => Outcome::Aborted,
            _ => Outcome::Ok,
        };
        let acted = self.rng.u8(0..4) == 0;
        self.end_as(outcome, acted);
    }

    fn end_as(&mut self, outcome: Outcome, acted: bool) {
        let Some(message) = self.running.take() else { return };
        if acted {
            self.without_progress = 0;
            if self.rng.bool() {
                self.steps += 1;
            }
            self.activity_at = self.now;
            if self.rng.u8(0..6) == 0 && !self.friendly {
                self.subagents += 1;
            }
        }
        self.ended_at = self.now;
        self.open_end = true;
        let (tokens, compacted) = (self.rng.u64(0..20_000), self.rng.u8(0..8) == 0);
        self.news.push_back(News::Ended(End {
            run: message.run,
            by: message.by,
            at: self.now,
            outcome,
            tokens,
            acted,
            compacted,
        }));
    }

    fn abort(&mut self) {
        self.aborted = true;
        self.give(Input::Aborted { order: self.n });
        self.waiting.clear();
        self.end_as(Outcome::Aborted, false);
    }

    fn change_task(&mut self) {
        match (&self.status, self.rng.u8(0..5)) {
            (Status::InProgress, 0) => self.status = Status::BlockedForPerson,
            (Status::InProgress, 1) => self.status = Status::Over,
            (Status::InProgress, _) => self.touch(),
            (Status::Blocked | Status::BlockedForPerson | Status::Over, 0..3) => {
                // Somebody resumes it, and wants it tried again.
                if self.status == Status::Blocked {
                    self.helped_itself = self.running.as_ref().is_some_and(|run| run.by != By::Person);
                    if !self.helped_itself {
                        (self.in_all, self.without_progress) = (0, 0);
                    }
                }
                self.status = Status::InProgress;
                self.activity_at = self.now;
            }
            (Status::Blocked | Status::BlockedForPerson | Status::Over, _) => {
                self.subagents = self.subagents.saturating_sub(1);
            }
        }
        self.open_end = true;
        self.news.push_back(News::TaskChanged);
    }

    fn touch(&mut self) {
        self.steps += 1;
        self.activity_at = self.now;
        self.without_progress = 0;
    }

    fn answer(&mut self) {
        let Some((round, layer)) = self.asks.pop() else { return };
        let answer = match self.rng.u8(0..12) {
            0 if !self.friendly => Answer::Skip("not now".into()),
            1 if !self.friendly => Answer::Backoff(self.rng.u64(0..600_000)),
            2 | 3 if !self.friendly => {
                self.tally.second_tries += u64::from(layer == Layer::SelfDriving);
                Answer::Failed { why: "trapped".into(), plain: Some("go on".into()) }
            }
            _ => Answer::Send("go on".into()),
        };
        let look = self.look();
        self.give(Input::Answered { round, answer, look });
    }

    /// A prompt on its way reaches its lane, or does not.
    fn commit(&mut self) {
        let Some(send) = self.sends.pop() else { return };
        let round = send.round;
        if self.running.is_some() || !self.waiting.is_empty() {
            return self.give(Input::Refused { round, busy: true, why: "busy".into() });
        }
        if !self.friendly && self.rng.u8(0..8) == 0 {
            return self.give(Input::Refused { round, busy: false, why: "the disk is full".into() });
        }
        self.put(send);
        // The answer and the run are heard of in any order.
        if self.rng.bool() {
            self.give(Input::Sent { round });
        } else {
            self.hear_all();
            self.give(Input::Sent { round });
        }
    }

    fn put(&mut self, send: Send) {
        assert!(self.keys.insert(send.key.clone()), "{} was sent twice", send.key);
        if matches!(send.layer, Layer::SelfDriving | Layer::EventBased) {
            assert!(self.open_end, "two prompts for one end");
        }
        self.open_end = false;
        self.in_all += 1;
        self.without_progress += 1;
        assert!(self.in_all <= self.rules.in_all_max, "{} in all", self.in_all);
        assert!(self.without_progress <= self.rules.without_progress_max, "{} for nothing", self.without_progress);
        assert!(send.counts.in_a_row <= self.rules.in_a_row_max, "{} in a row", send.counts.in_a_row);
        if self.aborted {
            self.to_withdraw.insert(send.key.clone());
        }
        self.tally.prompts += 1;
        self.counts.insert(send.task, send.counts);
        self.n += 1;
        self.news.push_back(News::Accepted(send.key.clone(), By::Gateway, self.n));
        self.waiting.push_back(Message { run: send.key, by: By::Gateway, order: self.n });
    }

    /// Everything in memory is gone; what was on its way is on the disk or not.
    fn restart(&mut self) {
        for send in std::mem::take(&mut self.sends) {
            if self.running.is_none() && self.waiting.is_empty() && !self.aborted && self.rng.bool() {
                self.put(send);
            }
        }
        self.news.clear();
        self.asks.clear();
        if self.helped_itself && self.running.is_none() {
            // Who resumed it is not known after a crash; a person gets the benefit of the doubt.
            (self.in_all, self.without_progress) = (0, 0);
        }
        // A run that was cut off goes on first.
        if let Some(message) = self.running.take() {
            self.waiting.push_front(message);
        }
        // A message of a person that waits speaks for it.
        let people = self.waiting.iter().filter(|message| message.by == By::Person);
        let spoke = people.map(|message| message.order).max();
        self.agent = Agent::kept(self.counts.clone(), self.silenced);
        self.seen_steps = self.agent.counts("task_1").map_or(0, |counts| counts.mark);
        self.open_end = true;
        let look = self.look();
        let free = !look.running && look.waiting == 0 && look.subagents == 0 && look.task.is_some();
        let (has_run, last_run_at, order) = (self.has_run, self.ended_at, self.n);
        self.give(Input::Begun(Begun { look, has_run, last_run_at, order, spoke }));
        let counts = self.counts.get("task_1").cloned().unwrap_or_default();
        let rests = counts.held || counts.stopped.is_some() || counts.resting_until > self.now;
        if free && self.has_run && self.silenced.is_none() && !rests && counts.zombie_at.is_none() {
            assert!(self.agent.timer().is_some(), "forgotten over a restart: {:?}", self.agent);
        }
        let open = u32::from(self.question);
        self.give(Input::Questions { open });
    }

    fn wait_for_timer(&mut self) {
        if let Some(timer) = self.agent.timer() {
            self.pass(timer.due.saturating_sub(self.now));
        }
    }

    /// Time passes; what is due is done on the way.
    fn pass(&mut self, ms: u64) {
        let until = self.now + ms;
        loop {
            let due = self.agent.timer().map_or(u64::MAX, |timer| timer.due);
            let next = due.min(self.poll_at);
            if next > until {
                break;
            }
            self.now = self.now.max(next);
            if due <= self.poll_at {
                let look = self.look();
                self.give(Input::Due { look });
                let armed = self.agent.timer().map(|timer| timer.due);
                assert!(armed.is_none_or(|armed| armed > self.now), "a timer that was due is still armed");
            } else {
                self.poll_at = self.now + POLL_MS;
                self.poll();
            }
        }
        self.now = until;
    }

    fn poll(&mut self) {
        let blocked = Blocked {
            id: "task_1".into(),
            by_person: self.status == Status::BlockedForPerson,
            requests: 0,
            escalated: false,
            failed: false,
            activity_at: self.activity_at,
        };
        let is_blocked = matches!(self.status, Status::Blocked | Status::BlockedForPerson);
        let blocked = is_blocked.then_some(blocked).into_iter().collect();
        let look = self.look();
        self.give(Input::Poll(Poll { look, blocked, ..Poll::default() }));
    }

    fn hear(&mut self) {
        let Some(news) = self.news.pop_front() else { return };
        if matches!(&news, News::Ended(end) if end.acted) {
            self.without_progress = 0;
        }
        let look = self.look();
        let input = match news {
            News::Accepted(run, by, order) => Input::Accepted { run, by, order },
            News::Started(run, by, order) => Input::Started { run, by, order },
            News::Ended(end) => Input::Ended { end, look },
            News::TaskChanged => Input::TaskChanged { look },
        };
        self.give(input);
    }

    fn hear_all(&mut self) {
        while !self.news.is_empty() {
            self.hear();
        }
    }

    fn give(&mut self, input: Input) {
        let (agent, effects) = step(std::mem::take(&mut self.agent), input, self.now, &self.rules);
        self.agent = agent;
        let seen = self.agent.counts("task_1").map_or(0, |counts| counts.mark);
        if seen != self.seen_steps {
            (self.seen_steps, self.without_progress) = (seen, 0);
        }
        self.helped_itself &= self.news.iter().any(|news| matches!(news, News::TaskChanged));
        effects.into_iter().for_each(|effect| self.act(effect));
    }

    fn act(&mut self, effect: Effect) {
        match effect {
            Effect::Ask(ask) => self.asks.push((ask.round, ask.layer)),
            Effect::Send(send) => {
                assert!(!self.aborted || !self.agent.is_aborted(), "a prompt after an abort");
                assert_eq!(self.status, Status::InProgress, "a prompt for a task that is not in progress");
                assert!(self.running.is_none() && self.waiting.is_empty(), "a prompt while something goes on");
                assert_eq!((self.subagents, self.question), (0, false), "a prompt while somebody is waited for");
                assert!(self.sends.is_empty(), "two prompts on their way");
                self.sends.push(*send);
            }
            Effect::Withdraw { key, .. } => {
                self.tally.withdrawn += 1;
                self.to_withdraw.remove(&key);
                self.waiting.retain(|message| message.run != key);
                if self.running.as_ref().is_some_and(|run| run.run == key) {
                    self.end_as(Outcome::Aborted, false);
                }
            }
            Effect::Stop { task, .. } => {
                self.tally.stops += 1;
                // The file may be read-only for once.
                if self.status == Status::InProgress && (self.friendly || self.rng.u8(0..5) > 0) {
                    self.status = Status::Blocked;
                    self.give(Input::Stopped { task });
                }
            }
            Effect::GiveUp { .. } => {
                self.tally.given_up += 1;
                assert!(self.now - self.activity_at >= self.rules.zombie_ms, "given up while it shows life");
                self.status = Status::Over;
            }
            Effect::Unblock { .. } => assert_ne!(self.status, Status::BlockedForPerson, "a person is not nagged"),
            Effect::Keep { task, counts } => drop(self.counts.insert(task, counts)),
            Effect::KeepAborted(aborted) => self.silenced = aborted,
            Effect::Forget { task } => drop(self.counts.remove(&task)),
            Effect::TellBackoff { .. } => self.tally.backed_off += 1,
            Effect::TellSent { .. } | Effect::Note { .. } => {}
        }
    }

    /// Runs end at once, prompts are answered, and `acts` says whether a run does anything.
    pub(super) fn run_for(&mut self, ms: u64, mut acts: impl FnMut(&mut Rng) -> bool) {
        let until = self.now + ms;
        while self.now < until {
            self.pass(250);
            self.answer();
            self.commit();
            self.begin();
            self.hear_all();
            let acted = acts(&mut self.rng);
            self.end_as(Outcome::Ok, acted);
            self.hear_all();
        }
    }

    /// Once nothing happens any more, a task in progress is not left alone: it ends, or something that is told stands in the way.
    pub(super) fn come_to_an_end(&mut self) {
        self.hear_all();
        self.commit();
        self.hear_all();
        assert!(self.to_withdraw.is_empty(), "{:?} were sent after an abort", self.to_withdraw);
        (self.friendly, self.subagents, self.question) = (true, 0, false);
        self.give(Input::Questions { open: 0 });
        self.say(By::Person);
        self.run_for(2 * 3_600_000, |_| false);
        let counts = self.counts.get("task_1").cloned().unwrap_or_default();
        assert!(self.status != Status::InProgress || counts.held, "left alone: {:?} {counts:?}", self.agent);
    }
}
