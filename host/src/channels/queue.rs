//! Messages that wait to be taken up: in order within a channel, the channels by turns.
//! Keeps true: one that cannot be taken up yet holds up no other channel; what finds no room is on record and can be read again.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::store::Taken;
use super::take::TAKEN_MAX;

#[derive(Default)]
pub(super) struct Queue {
    channels: HashMap<String, Lane>,
    turns: u64,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Taken>,
    /// The first could not be taken up; not before then again.
    until: Duration,
    /// When it had its last turn.
    turn: u64,
}

impl Queue {
    /// Takes one in; false where its channel has no room for it. One that waits already is the same.
    pub(super) fn push(&mut self, taken: Taken) -> bool {
        let lane = self.channels.entry(taken.channel.clone()).or_default();
        if lane.waiting.iter().any(|known| known.message.id == taken.message.id) {
            return true;
        }
        let has_room = lane.waiting.len() < TAKEN_MAX;
        if has_room {
            lane.waiting.push_back(taken);
        }
        has_room
    }

    /// The next one, of the channel that has waited longest for its turn.
    pub(super) fn next(&mut self, now: Duration) -> Option<Taken> {
        let lanes = self.channels.values_mut().filter(|lane| !lane.waiting.is_empty() && lane.until <= now);
        let lane = lanes.min_by_key(|lane| lane.turn)?;
        self.turns += 1;
        lane.turn = self.turns;
        lane.waiting.pop_front()
    }

    /// It could not be taken up: it is the first of its channel again, after a while.
    pub(super) fn put_back(&mut self, taken: Taken, until: Duration) {
        let lane = self.channels.entry(taken.channel.clone()).or_default();
        lane.waiting.push_front(taken);
        lane.until = until;
    }

    /// Until one may be taken up; none where none waits.
    pub(super) fn rest(&self, now: Duration) -> Option<Duration> {
        let waiting = self.channels.values().filter(|lane| !lane.waiting.is_empty());
        waiting.map(|lane| lane.until.saturating_sub(now)).min()
    }
}

#[cfg(test)]
mod tests {
    use chela_channel::{Inbound, Wants};

    use super::*;
    use crate::clock::Timestamp;

    fn taken(channel: &str, id: &str) -> Taken {
        let message = Inbound {
            id: id.into(),
            wants: Wants::Message,
            target: "channel:7".into(),
            session: "test:channel:7".into(),
            direct: false,
            space: String::new(),
            sender_id: "1".into(),
            sender_name: "Mina".into(),
            sender_is_bot: false,
            addressed: true,
            agent: String::new(),
            text: "hello".into(),
            reply_to: String::new(),
        };
        Taken { channel: channel.into(), message, at: Timestamp(1) }
    }

    fn ids(queue: &mut Queue, now: Duration) -> Vec<String> {
        std::iter::from_fn(|| queue.next(now)).map(|taken| taken.key()).collect()
    }

    #[test]
    fn one_that_cannot_be_taken_up_holds_up_its_own_channel_alone() {
        let (mut queue, now, later) = (Queue::default(), Duration::from_secs(1), Duration::from_secs(2));
        for id in ["1", "2"] {
            assert!(queue.push(taken("a", id)) && queue.push(taken("a", id)), "the same is there once");
        }
        let first = queue.next(now).expect("one waits");
        queue.put_back(first, later);
        assert!(queue.push(taken("b", "1")));
        assert_eq!(ids(&mut queue, now), ["b:1"]);
        assert_eq!(queue.rest(now), Some(Duration::from_secs(1)));
        assert_eq!(ids(&mut queue, later), ["a:1", "a:2"], "in their order");
        assert_eq!(queue.rest(later), None);
    }

    #[test]
    fn channels_have_their_turns() {
        let mut queue = Queue::default();
        for (channel, id) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")] {
            assert!(queue.push(taken(channel, id)));
        }
        let mut two = |_| (queue.next(Duration::ZERO), queue.next(Duration::ZERO));
        for (one, other) in (0..2).map(&mut two) {
            assert_ne!(one.expect("one waits").channel, other.expect("another waits").channel);
        }
    }

    #[test]
    fn what_finds_no_room_is_told_and_leaves_room_for_other_channels() {
        let mut queue = Queue::default();
        assert!((0..TAKEN_MAX).all(|nth| queue.push(taken("a", &nth.to_string()))));
        assert!(!queue.push(taken("a", "more")) && queue.push(taken("b", "1")));
    }
}
