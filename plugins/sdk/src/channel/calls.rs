//! Requests of an adapter: queued, sent when nothing holds them back, tried again where that helps.
//! Keeps true: requests of one lane go one after the other, so messages of a place keep their order; how many wait and how many are under
//! way has an end. Never: knows a network; what an answer means is the adapter's to say.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::{HttpRequest, HttpResponse, Output, Turn};

/// Fires when something that was held back may be sent.
pub const CALLS_TIMER: &str = "calls";

/// Requests that wait or are under way; past them only what a person waits for is taken, up to twice as many.
const CALLS_MAX: usize = 256;
const UNDER_WAY_MAX: usize = 32;
const TRIES_MAX: u32 = 5;
const HOLDS_MAX: usize = 256;

/// A request; `P` says what it is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call<P> {
    pub id: u64,
    pub purpose: P,
    /// Requests of a lane wait for each other.
    pub lane: String,
    /// What it asks for, such as a method of the network or a path.
    pub what: String,
    pub body: String,
    pub tries: u32,
    not_before_ms: u64,
    under_way: bool,
}

impl<P> Call<P> {
    pub fn is_under_way(&self) -> bool {
        self.under_way
    }
}

/// A request before it is queued.
pub struct Ask {
    pub lane: String,
    pub what: String,
    /// Empty for none.
    pub body: String,
    /// A person waits for it.
    pub urgent: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Calls<P> {
    queue: VecDeque<Call<P>>,
    next: u64,
    /// Lanes that the network wants to rest, and until when.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    holds: BTreeMap<String, u64>,
    all_until_ms: u64,
    second_ms: u64,
    second_count: u32,
}

impl<P> Default for Calls<P> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), next: 0, holds: BTreeMap::new(), all_until_ms: 0, second_ms: 0, second_count: 0 }
    }
}

/// A request that was answered, and where it stood.
pub struct Answered<P> {
    pub call: Call<P>,
    at: usize,
}

impl<P: Clone> Calls<P> {
    /// Queues a request; false when there is no room for it.
    pub fn ask(&mut self, turn: &mut Turn, purpose: P, ask: Ask) -> bool {
        let room = if ask.urgent { 2 * CALLS_MAX } else { CALLS_MAX };
        if self.queue.len() >= room {
            return false;
        }
        self.next += 1;
        let Ask { lane, what, body, .. } = ask;
        let call = Call { id: self.next, purpose, lane, what, body, tries: 0, not_before_ms: 0, under_way: false };
        self.queue.push_back(call);
        turn.changed();
        true
    }

    pub fn any(&self, is_it: impl FnMut(&Call<P>) -> bool) -> bool {
        self.queue.iter().any(is_it)
    }

    /// After a start nothing is under way. Each call is looked at as it was, may be changed, and is dropped where that answers false.
    pub fn restarted(&mut self, mut keeps: impl FnMut(&mut Call<P>) -> bool) {
        self.queue.retain_mut(&mut keeps);
        self.queue.iter_mut().for_each(|call| call.under_way = false);
    }

    /// Drops those that do not matter any more; what is under way is answered to nobody.
    pub fn retain(&mut self, keeps: impl FnMut(&Call<P>) -> bool) {
        self.queue.retain(keeps);
    }

    /// Those that were sent and have no answer yet.
    pub fn under_way_mut(&mut self) -> impl Iterator<Item = &mut Call<P>> {
        self.queue.iter_mut().filter(|call| call.under_way)
    }

    /// No more of this lane until then, or longer where it is held longer.
    pub fn hold(&mut self, lane: &str, until_ms: u64) {
        let held_ms = self.holds.get(lane).copied().unwrap_or(0);
        self.holds.insert(lane.to_owned(), until_ms.max(held_ms));
        while self.holds.len() > HOLDS_MAX {
            let first = self.holds.iter().min_by_key(|(_, until)| **until).map(|(lane, _)| lane.clone());
            first.and_then(|lane| self.holds.remove(&lane));
        }
    }

    /// The network wants nothing more until then.
    pub fn hold_all(&mut self, until_ms: u64) {
        self.all_until_ms = self.all_until_ms.max(until_ms);
    }

    /// Sends what may be sent now, at most `a_second` in each second, and sets the timer for what may not.
    pub fn pump(&mut self, turn: &mut Turn, a_second: u32, request: impl Fn(&Call<P>) -> HttpRequest) {
        let now_ms = turn.now_ms;
        self.holds.retain(|_, until_ms| *until_ms > now_ms);
        let mut under_way = self.queue.iter().filter(|call| call.under_way).count();
        let mut busy: Vec<String> = Vec::new();
        let mut next_ms = u64::MAX;
        for at in 0..self.queue.len() {
            let call = &self.queue[at];
            if busy.contains(&call.lane) {
                continue;
            }
            busy.push(call.lane.clone());
            if call.under_way {
                continue;
            }
            let held = self.holds.get(&call.lane).copied().unwrap_or(0).max(call.not_before_ms);
            let free_ms = held.max(self.all_until_ms).max(self.second_is_full_until(a_second, now_ms));
            if free_ms > now_ms {
                next_ms = next_ms.min(free_ms);
                continue;
            }
            if under_way >= UNDER_WAY_MAX {
                continue;
            }
            self.spend(now_ms);
            self.queue[at].under_way = true;
            turn.push(Output::HttpRequest(request(&self.queue[at])));
            turn.changed();
            under_way += 1;
        }
        if next_ms < u64::MAX {
            turn.timer(CALLS_TIMER, next_ms - now_ms);
        }
    }

    fn second_is_full_until(&self, a_second: u32, now_ms: u64) -> u64 {
        let ends = self.second_ms.saturating_add(1_000);
        if self.second_count >= a_second && now_ms < ends { ends } else { 0 }
    }

    fn spend(&mut self, now_ms: u64) {
        if now_ms >= self.second_ms.saturating_add(1_000) {
            (self.second_ms, self.second_count) = (now_ms, 0);
        }
        self.second_count = self.second_count.saturating_add(1);
    }

    /// The name of a call, as its request has it.
    pub fn name(call: &Call<P>) -> String {
        format!("call-{}", call.id)
    }

    /// Takes out the call that this answers; none when nobody waits for it.
    pub fn answered(&mut self, response: &HttpResponse) -> Option<Answered<P>> {
        let number = response.id.strip_prefix("call-").and_then(|id| id.parse::<u64>().ok());
        let at = self.queue.iter().position(|call| Some(call.id) == number && call.under_way)?;
        self.queue.remove(at).map(|call| Answered { call, at })
    }

    /// Back to where it was, so that its lane keeps its order.
    pub fn again(&mut self, answered: Answered<P>, not_before_ms: u64) {
        let Answered { mut call, at } = answered;
        call.under_way = false;
        call.not_before_ms = not_before_ms;
        self.queue.insert(at.min(self.queue.len()), call);
    }

    /// Once more after a fault, later each time; gives the call back when it was tried often enough.
    pub fn try_again(&mut self, turn: &mut Turn, mut answered: Answered<P>) -> Option<Call<P>> {
        answered.call.tries += 1;
        if answered.call.tries >= TRIES_MAX {
            return Some(answered.call);
        }
        let wait_ms = (500_u64 << answered.call.tries) + turn.chance(500);
        self.again(answered, turn.now_ms + wait_ms);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;

    fn turn(now_ms: u64) -> Turn {
        Turn::new(&Context { now_ms, seed: 1, deployment: "d".into(), locale: "en".into(), budget_ms: 1 })
    }

    fn ask(lane: &str) -> Ask {
        Ask { lane: lane.into(), what: "say".into(), body: String::new(), urgent: false }
    }

    fn request(call: &Call<u8>) -> HttpRequest {
        let (id, method) = (Calls::name(call), "POST".to_owned());
        HttpRequest { id, method, url: Vec::new(), headers: Vec::new(), body: Vec::new(), timeout_ms: 0 }
    }

    fn response(id: &str) -> HttpResponse {
        let (headers, body) = (Vec::new(), Vec::new());
        HttpResponse { id: id.into(), status: 200, headers, body, error: String::new(), refused: false, sent: true }
    }

    /// What is sent at this time, and when the timer fires.
    fn pumped(calls: &mut Calls<u8>, now_ms: u64, a_second: u32) -> (Vec<String>, Option<u64>) {
        let mut turn = turn(now_ms);
        calls.pump(&mut turn, a_second, request);
        let (mut sent, mut timer) = (Vec::new(), None);
        for output in turn.outputs() {
            match output {
                Output::HttpRequest(request) => sent.push(request.id),
                Output::SetTimer(set) => timer = Some(set.after_ms),
                _ => {}
            }
        }
        (sent, timer)
    }

    fn queued(lanes: &[&str]) -> Calls<u8> {
        let mut calls = Calls::default();
        lanes.iter().for_each(|lane| assert!(calls.ask(&mut turn(0), 0, ask(lane))));
        calls
    }

    #[test]
    fn a_lane_goes_one_by_one_and_lanes_beside_each_other() {
        let mut calls = queued(&["a", "a", "b"]);
        assert_eq!(pumped(&mut calls, 10, 50), (vec!["call-1".into(), "call-3".into()], None));
        assert_eq!(pumped(&mut calls, 11, 50), (vec![], None));
        assert!(calls.answered(&response("call-1")).is_some());
        assert!(calls.answered(&response("call-1")).is_none(), "once");
        assert!(calls.answered(&response("call-2")).is_none(), "it was never sent");
        assert_eq!(pumped(&mut calls, 12, 50).0, ["call-2"]);
    }

    #[test]
    fn what_is_held_back_waits_and_keeps_its_place() {
        let mut calls = queued(&["a", "a", "b"]);
        calls.hold("a", 5_000);
        calls.hold("a", 2_000);
        assert_eq!(pumped(&mut calls, 1_000, 50), (vec!["call-3".into()], Some(4_000)));
        assert_eq!(calls.under_way_mut().map(|call| call.id).collect::<Vec<_>>(), [3]);
        assert_eq!(pumped(&mut calls, 5_000, 50).0, ["call-1"]);
        let answered = calls.answered(&response("call-1")).expect("it waits");
        calls.again(answered, 9_000);
        assert_eq!(pumped(&mut calls, 6_000, 50), (vec![], Some(3_000)), "the second of the lane does not overtake");
        calls.hold_all(20_000);
        assert_eq!(pumped(&mut calls, 9_000, 50), (vec![], Some(11_000)));
        assert_eq!(pumped(&mut calls, 20_000, 50).0, ["call-1"]);
    }

    #[test]
    fn no_more_in_a_second_than_the_network_takes() {
        let mut calls = queued(&["a", "b", "c"]);
        assert_eq!(pumped(&mut calls, 5_000, 2), (vec!["call-1".into(), "call-2".into()], Some(1_000)));
        assert_eq!(pumped(&mut calls, 6_000, 2).0, ["call-3"]);
    }

    #[test]
    fn a_call_that_fails_too_often_is_given_back() {
        let mut calls = queued(&["a"]);
        let mut now_ms = 0;
        for tries in 1..=TRIES_MAX {
            now_ms += 100_000;
            assert_eq!(pumped(&mut calls, now_ms, 50).0, ["call-1"]);
            let answered = calls.answered(&response("call-1")).expect("it waits");
            let given_up = calls.try_again(&mut turn(now_ms), answered);
            assert_eq!(given_up.is_some(), tries == TRIES_MAX);
        }
    }

    #[test]
    fn queues_have_ends_and_a_start_begins_anew() {
        let mut calls: Calls<u8> = Calls::default();
        (0..CALLS_MAX).for_each(|n| assert!(calls.ask(&mut turn(0), 0, ask(&n.to_string()))));
        assert!(!calls.ask(&mut turn(0), 0, ask("x")));
        assert!(calls.ask(&mut turn(0), 9, Ask { urgent: true, ..ask("x") }));
        assert_eq!(pumped(&mut calls, 1, 1_000).0.len(), UNDER_WAY_MAX);
        calls.restarted(|call| call.purpose == 9 || call.is_under_way());
        assert_eq!(calls.queue.len(), UNDER_WAY_MAX + 1);
        assert!(!calls.any(Call::is_under_way));
        for n in 0..1_000 {
            calls.hold(&n.to_string(), n + 10);
        }
        assert_eq!(calls.holds.len(), HOLDS_MAX);
    }
}
