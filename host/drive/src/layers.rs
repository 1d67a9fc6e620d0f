//! Runs that start and end, and the two layers that answer at once: half a second after an end, and once more where that could not be.

use crate::agent::{Asked, Last, Timer};
use crate::counts::{Counts, Stopped, short};
use crate::step::{Answer, Ask, Begun, By, Counters, Effect, End, Facts, Layer, Look, Outcome, Step, Stop};
use crate::why::Why;

impl Step<'_> {
    /// What is known is taken up: as if a run had just ended, where an agent has work left and nothing goes on.
    pub(crate) fn begun(&mut self, begun: &Begun) {
        let Begun { look, has_run, last_run_at, order, spoke } = begun;
        self.agent.begun_at = self.now;
        // What is from a time that has not come was written before somebody set the clock back.
        self.agent.active_at = self.agent.active_at.max((*last_run_at).min(self.now));
        for counts in self.agent.counts.values_mut() {
            counts.set_back(self.now);
        }
        // The count may have begun anew meanwhile.
        self.agent.aborted = self.agent.aborted.map(|since| since.min(*order));
        self.agent.aborted = self.agent.aborted.filter(|since| spoke.is_none_or(|spoke| spoke <= *since));
        let untold: Vec<(String, Layer, Counts)> = self
            .agent
            .counts
            .iter()
            .filter_map(|(task, counts)| Some((task.clone(), counts.untold?, counts.clone())))
            .collect();
        for (task, layer, counts) in untold {
            self.effects.push(Effect::TellSent { task, layer, counts });
        }
        let by_agent = (look.running || look.waiting > 0) && !look.by_person && spoke.is_none();
        let may_go_on = self.see_after(look, by_agent);
        let Some(task) = &look.task else { return };
        if !may_go_on {
            return self.stop_again(task);
        }
        let counts = self.counts(task);
        let rests = counts.same_error > 0 && counts.resting_until > self.now;
        let idle = self.agent.timer.is_none() && !self.agent.is_busy();
        if *has_run && idle && !rests && self.why_not(look, Layer::SelfDriving).is_none() {
            self.arm(Layer::SelfDriving, self.now + self.rules.self_driving_ms);
        }
    }

    pub(crate) fn accepted(&mut self, run: &str, by: By, order: u64) {
        self.sent_as(run);
        if by == By::Person {
            self.agent.aborted.take_if(|since| order > *since);
        }
    }

    pub(crate) fn started(&mut self, run: &str, by: By, order: u64) {
        self.accepted(run, by, order);
        self.cool();
        self.agent.active_at = self.now;
        self.agent.timer = None;
        self.agent.asked = None;
        self.agent.noted = None;
    }

    pub(crate) fn aborted(&mut self, order: u64) {
        self.agent.aborted = Some(order);
        self.agent.timer = None;
        self.agent.asked = None;
        if let Some(sending) = &mut self.agent.sending {
            sending.withdrawn = true;
        }
    }

    pub(crate) fn ended(&mut self, end: &End, look: &Look) {
        self.sent_as(&end.run);
        self.agent.timer = None;
        self.agent.asked = None;
        self.agent.noted = None;
        self.agent.active_at = self.agent.active_at.max(end.at);
        self.agent.ended_at = end.at;
        let after_agent = end.by != By::Person;
        if !self.see_after(look, after_agent) {
            return;
        }
        let Some(task) = &look.task else { return };
        let counts = self.counts(task);
        counts.tokens = counts.tokens.saturating_add(end.tokens);
        if end.acted {
            counts.progressed();
        }
        self.count_errors(task, end);
        if look.running || counts_as_zombie(self.counts(task), task) {
            return;
        }
        if let Some(stop) = self.hopeless(task, end) {
            let said = self.counts(task).last_error.clone();
            let times = self.counts(task).same_error;
            self.stop(
                &task.id,
                Layer::SelfDriving,
                stop,
                format!("{times} runs in a row ended with the same error: {said}"),
            );
            return;
        }
        if self.rest(task, end) || task.open_steps == 0 {
            return;
        }
        match self.why_not(look, Layer::SelfDriving) {
            // What only a moment stands in the way of is looked at when its time has come.
            None | Some(Why::Typing | Why::Waits | Why::SubagentRuns) => {
                let compaction = if end.compacted { self.rules.compaction_ms } else { 0 };
                self.arm(Layer::SelfDriving, end.at + self.rules.self_driving_ms + compaction);
            }
            Some(why) => self.note(&task.id, Layer::SelfDriving, why),
        }
    }

    fn count_errors(&mut self, task: &Facts, end: &End) {
        let counts = self.counts(task);
        match &end.outcome {
            Outcome::Ok => {
                counts.same_error = 0;
                counts.last_error.clear();
                counts.held = false;
            }
            Outcome::Failed { said, .. } => {
                let said = short(said);
                counts.same_error =
                    if alike(&counts.last_error, &said) { counts.same_error.saturating_add(1) } else { 1 };
                counts.last_error = said;
            }
            Outcome::Aborted => {}
        }
    }

    /// Whether no further run is tried: an error that lasts came twice, or another one too often.
    fn hopeless(&mut self, task: &Facts, end: &End) -> Option<Stop> {
        let Outcome::Failed { lasting, .. } = end.outcome else { return None };
        let max = if lasting { 2 } else { self.rules.same_error_max };
        (self.counts(task).same_error >= max).then_some(Stop::Error)
    }

    /// Whether it is waited after an error.
    fn rest(&mut self, task: &Facts, end: &End) -> bool {
        let (now, rules) = (self.now, self.rules);
        let Outcome::Failed { lasting, .. } = end.outcome else { return false };
        if lasting {
            self.counts(task).held = true;
            self.note(&task.id, Layer::SelfDriving, Why::Held);
            return true;
        }
        let counts = self.counts(task);
        if counts.same_error < rules.same_error_from {
            return false;
        }
        let ms = rules.backoff(counts.same_error);
        counts.resting_until = now.saturating_add(ms);
        let reason = format!("{} runs in a row ended with the same error: {}", counts.same_error, counts.last_error);
        self.back_off(&task.id, Layer::SelfDriving, ms, reason);
        true
    }

    pub(crate) fn task_changed(&mut self, look: &Look) {
        let before = self.agent.seen.clone();
        if !self.see(look) {
            return;
        }
        let Some(task) = &look.task else {
            self.agent.timer = None;
            return;
        };
        if self.agent.seen == before {
            return;
        }
        self.counts(task).held = false;
        let idle = self.agent.timer.is_none() && !self.agent.is_busy();
        if self.agent.waits_for_change && idle && self.why_not(look, Layer::SelfDriving).is_none() {
            self.arm(Layer::SelfDriving, self.now + self.rules.self_driving_ms);
        }
    }

    pub(crate) fn rules_changed(&mut self, look: &Look) {
        self.agent.counts.values_mut().for_each(|counts| counts.held = false);
        if !self.rules.enabled {
            self.agent.waits_for_change |= self.agent.timer.take().is_some();
            return;
        }
        let idle = self.agent.timer.is_none() && !self.agent.is_busy();
        let goes_on = self.agent.waits_for_change && idle && self.see(look);
        if goes_on && look.task.is_some() && self.why_not(look, Layer::SelfDriving).is_none() {
            self.arm(Layer::SelfDriving, self.now + self.rules.self_driving_ms);
        }
    }

    pub(crate) fn due(&mut self, look: &Look) {
        let Some(timer) = self.agent.timer.take_if(|timer| timer.due <= self.now) else { return };
        if !self.see(look) {
            return;
        }
        let Some(task) = &look.task else { return };
        if self.agent.sending.is_some() {
            // What became of that prompt is known in a moment.
            return self.arm(timer.layer, self.now + self.rules.self_driving_ms.max(1));
        }
        match self.why_not(look, timer.layer) {
            Some(Why::Typing) => self.arm(timer.layer, self.agent.typing_until),
            Some(why) => self.note(&task.id, timer.layer, why),
            None => self.ask(task, timer.layer),
        }
    }

    /// Asks the policy, unless a cap is reached.
    pub(crate) fn ask(&mut self, task: &Facts, layer: Layer) {
        let (now, rules) = (self.now, self.rules);
        if let Some(reason) = self.counts(task).cap(now, rules) {
            self.stop(&task.id, layer, Stop::Limit, reason);
            return;
        }
        self.agent.round += 1;
        let round = self.agent.round;
        let idle_ms = now.saturating_sub(self.agent.active_at.max(task.activity_at));
        let counts = self.counts(task);
        let counters = Counters {
            in_a_row: counts.in_a_row + 1,
            in_a_row_max: rules.in_a_row_max,
            without_progress: counts.without_progress,
            in_all: counts.in_all,
            today: counts.today_at(now),
            tokens: counts.tokens,
        };
        let ask = Ask {
            round,
            layer,
            task: task.id.clone(),
            session: task.session.clone(),
            counters,
            idle_ms,
            last_error: counts.last_error.clone(),
            same_error: counts.same_error,
            earlier: counts.earlier.clone(),
        };
        self.agent.asked = Some(Asked { round, layer, task: task.id.clone(), session: task.session.clone() });
        self.effects.push(Effect::Ask(ask));
    }

    pub(crate) fn answered(&mut self, round: u64, answer: Answer, look: &Look) {
        let Some(asked) = self.agent.asked.take_if(|asked| asked.round == round) else { return };
        if !self.see(look) {
            return;
        }
        let layer = asked.layer;
        // The backlog's task is not in progress, and must not have been overtaken by one that is.
        let (backlog, active) = (layer == Layer::Backlog, look.task.as_ref().map(|task| &task.id));
        if (backlog && active.is_some()) || (!backlog && active != Some(&asked.task)) {
            return;
        }
        match self.why_not(look, layer) {
            Some(Why::Typing) if !matches!(layer, Layer::SelfDriving | Layer::EventBased) => return,
            Some(Why::Typing) => return self.arm(layer, self.agent.typing_until),
            Some(why) => return self.note(&asked.task, layer, why),
            None => {}
        }
        match answer {
            Answer::Send(prompt) => self.send(asked, prompt),
            Answer::Skip(reason) => {
                let polled = !matches!(layer, Layer::SelfDriving | Layer::EventBased);
                let until = self.now.saturating_add(self.rules.skip_rest_ms);
                let counts = self.counts_of(&asked.task);
                counts.earlier = format!("skip: {}", short(&reason));
                if polled {
                    counts.resting_until = until;
                }
                self.end_round(&asked.task, layer, "skip", reason);
            }
            Answer::Backoff(ms) => {
                let until = self.now.saturating_add(ms);
                let counts = self.counts_of(&asked.task);
                counts.earlier = format!("backoff: {ms} ms");
                counts.resting_until = until;
                self.back_off(&asked.task, layer, ms, "the policy asked for it".into());
            }
            Answer::Failed { why, plain } => match (layer, plain) {
                (Layer::SelfDriving, _) => self.second_try(&asked.task, layer, why),
                (Layer::EventBased, _) | (_, None) => self.end_round(&asked.task, layer, "failed", why),
                // The last resort says something in any case.
                (Layer::Polling | Layer::Backlog | Layer::Zombie, Some(prompt)) => self.send(asked, prompt),
            },
        }
    }

    /// The first look could not act: there is a second.
    pub(crate) fn second_try(&mut self, task: &str, layer: Layer, why: String) {
        self.did(task, layer, "failed", why);
        let due = self.agent.ended_at.saturating_add(self.rules.event_based_ms).max(self.now);
        self.arm(Layer::EventBased, due);
    }

    pub(crate) fn told(&mut self, task: &str, sent: u64) {
        if let Some(counts) = self.agent.counts.get_mut(task).filter(|counts| counts.sent == sent) {
            counts.untold = None;
        }
    }

    pub(crate) fn stopped(&mut self, task: &str) {
        if let Some(stopped) = self.agent.counts.get_mut(task).and_then(|counts| counts.stopped.as_mut()) {
            stopped.seen = true;
        }
    }

    /// Blocks a task.
    pub(crate) fn stop(&mut self, task: &str, layer: Layer, stop: Stop, reason: String) {
        self.counts_of(task).stopped = Some(Stopped { stop, reason: reason.clone(), seen: false });
        self.agent.timer = None;
        self.agent.waits_for_change = true;
        self.did(task, layer, "stopped", reason.clone());
        self.effects.push(Effect::Stop { task: task.to_owned(), stop, reason });
    }

    /// It could not be blocked the last time, or the gateway went down in between.
    pub(crate) fn stop_again(&mut self, task: &Facts) {
        if let Some(Stopped { stop, reason, .. }) = self.counts(task).stopped.clone() {
            self.effects.retain(|effect| !matches!(effect, Effect::Stop { .. }));
            self.effects.push(Effect::Stop { task: task.id.clone(), stop, reason });
        }
    }

    fn back_off(&mut self, task: &str, layer: Layer, ms: u64, reason: String) {
        self.end_round(task, layer, "backoff", reason.clone());
        self.effects.push(Effect::TellBackoff { task: task.to_owned(), layer, ms, reason });
    }

    pub(crate) fn end_round(&mut self, task: &str, layer: Layer, what: &'static str, why: String) {
        self.agent.waits_for_change = true;
        self.did(task, layer, what, why);
    }

    pub(crate) fn did(&mut self, task: &str, layer: Layer, what: &'static str, why: String) {
        self.agent.last = Some(Last { task: task.to_owned(), layer, at: self.now, what, why });
    }

    /// Says why nothing is done; the same is said once a round.
    pub(crate) fn note(&mut self, task: &str, layer: Layer, why: Why) {
        self.end_round(task, layer, "skip", why.to_string());
        let note = (task.to_owned(), layer, why);
        if self.agent.noted.as_ref() != Some(&note) {
            self.agent.noted = Some(note);
            self.effects.push(Effect::Note { task: task.to_owned(), layer, why });
        }
    }

    pub(crate) fn arm(&mut self, layer: Layer, due: u64) {
        self.agent.waits_for_change = false;
        self.agent.timer = Some(Timer { due, layer });
    }

    /// After a while without anything the row begins anew.
    pub(crate) fn cool(&mut self) {
        if self.now.saturating_sub(self.agent.active_at) >= self.rules.cooldown_ms {
            self.agent.counts.values_mut().for_each(|counts| counts.in_a_row = 0);
        }
    }

    pub(crate) fn counts(&mut self, task: &Facts) -> &mut Counts {
        let now = self.now;
        let fresh = || Counts { mark: task.mark, ..Counts::begun(now) };
        self.agent.counts.entry(task.id.clone()).or_insert_with(fresh)
    }

    pub(crate) fn counts_of(&mut self, task: &str) -> &mut Counts {
        let now = self.now;
        self.agent.counts.entry(task.to_owned()).or_insert_with(|| Counts::begun(now))
    }
}

/// Whether two errors say the same; numbers in them, such as times, do not count.
fn alike(one: &str, other: &str) -> bool {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    words(one) == words(other)
}

/// Whether a task was told that it will be abandoned and has shown nothing since.
pub(crate) fn counts_as_zombie(counts: &Counts, task: &Facts) -> bool {
    counts.zombie_at.is_some_and(|at| task.activity_at < at)
}
