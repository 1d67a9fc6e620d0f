//! Numbers of messages, as far as they are known: the highest that was given out, and while a message is on its way which of those since
//! then belong to nobody that we know of.
//! Telegram counts the messages of a supergroup or channel by themselves, and those of all private chats and basic groups of a bot
//! together. Keeps true: a number leaves the gaps only when its message is known; what is kept has its limit.

use std::collections::VecDeque;

use chela_sdk::channel::keep::trim;
use serde::{Deserialize, Serialize};

/// Counts that are kept; of too many, the one that was used least lately goes.
const COUNTS_MAX: usize = 64;
const GAPS_MAX: usize = 128;
/// Ids of supergroups and channels are not above this.
const OWN_COUNT_FROM: i64 = -1_000_000_000_000;
/// Telegram's numbers have 32 bits.
const NUMBER_MAX: i64 = i32::MAX as i64;
/// How far above the highest known number a message may be that was just sent: as many as may be on their way at once. In a supergroup
/// also what people say there and a bot is not told.
const MARGIN: i64 = 32;
const MARGIN_OWN: i64 = 96;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Numbers(VecDeque<Count>);

type Gaps = Vec<(i64, i64)>;

/// Written as a list, for it is written with every message.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "(i64, i64, Gaps)", into = "(i64, i64, Gaps)")]
struct Count {
    /// Whose count it is; 0 for that of all private chats and basic groups.
    of: i64,
    top: i64,
    /// First and last of each, rising.
    gaps: Gaps,
}

impl From<(i64, i64, Gaps)> for Count {
    fn from((of, top, gaps): (i64, i64, Gaps)) -> Self {
        Self { of, top, gaps }
    }
}

impl From<Count> for (i64, i64, Gaps) {
    fn from(Count { of, top, gaps }: Count) -> Self {
        (of, top, gaps)
    }
}

/// Whose numbers those of a chat are.
pub fn count_of(chat: i64) -> i64 {
    if chat < OWN_COUNT_FROM { chat } else { 0 }
}

impl Numbers {
    /// The highest number that is known to be given out.
    pub fn top(&self, chat: i64) -> Option<i64> {
        self.count(chat).map(|count| count.top)
    }

    fn count(&self, chat: i64) -> Option<&Count> {
        self.0.iter().find(|count| count.of == count_of(chat))
    }

    /// The message of this number is known. Gaps are of use only while a message is on its way.
    pub fn learn(&mut self, chat: i64, number: i64, is_sending: bool) {
        if !(1..=NUMBER_MAX).contains(&number) {
            return;
        }
        let at = self.0.iter().position(|count| count.of == count_of(chat));
        let known = at.and_then(|at| self.0.remove(at));
        let mut count = known.unwrap_or_else(|| Count { of: count_of(chat), top: number, gaps: Gaps::new() });
        count.learn(number);
        if !is_sending {
            count.gaps.clear();
        }
        self.0.push_back(count);
        if self.0.len() > COUNTS_MAX
            && let Some(at) = self.0.iter().position(|count| count.of != 0)
        {
            self.0.remove(at);
        }
    }

    /// The next number above `at` that a message may have which was sent to this chat when `since` was the highest: one of which nothing
    /// is known.
    pub fn candidate(&self, chat: i64, since: i64, at: i64) -> Option<i64> {
        let (top, gaps) = self.count(chat).map_or((0, [].as_slice()), |count| (count.top, count.gaps.as_slice()));
        let next = at.saturating_add(1);
        let in_gaps = gaps.iter().find(|(_, last)| *last >= next).map(|(first, _)| next.max(*first));
        in_gaps.or_else(|| {
            let top = top.max(since);
            let margin = if count_of(chat) == 0 { MARGIN } else { MARGIN_OWN };
            let above = next.max(top.saturating_add(1));
            (above <= top.saturating_add(margin)).then_some(above)
        })
    }

    /// A state of before may have had other limits.
    pub fn trim(&mut self) {
        trim(&mut self.0, COUNTS_MAX);
        self.0.iter_mut().for_each(Count::join);
    }
}

impl Count {
    fn learn(&mut self, number: i64) {
        if number > self.top {
            let next = self.top.saturating_add(1);
            if number > next {
                self.gaps.push((next, number - 1));
            }
            self.top = number;
        } else if let Some(at) = self.gaps.iter().position(|(first, last)| (*first..=*last).contains(&number)) {
            let (first, last) = self.gaps[at];
            let left = [(first, number - 1), (number + 1, last)].into_iter().filter(|(first, last)| first <= last);
            self.gaps.splice(at..=at, left);
        }
        self.join();
    }

    /// Of too many gaps the nearest become one: a number too many is looked at, none too few.
    fn join(&mut self) {
        while self.gaps.len() > GAPS_MAX {
            let between = |at: &usize| self.gaps[at + 1].0.saturating_sub(self.gaps[*at].1);
            let Some(at) = (0..self.gaps.len() - 1).min_by_key(between) else { return };
            self.gaps[at].1 = self.gaps[at + 1].1;
            self.gaps.remove(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREW: i64 = -1_000_000_000_123;

    fn learned(numbers: &[(i64, i64)]) -> Numbers {
        let mut known = Numbers::default();
        numbers.iter().for_each(|(chat, number)| known.learn(*chat, *number, true));
        known
    }

    fn candidates(known: &Numbers, chat: i64, since: i64) -> Vec<i64> {
        let next = |at: &i64| known.candidate(chat, since, *at);
        std::iter::successors(next(&since), next).collect()
    }

    #[test]
    fn private_chats_and_basic_groups_count_together_and_a_supergroup_by_itself() {
        let known = learned(&[(7, 10), (-5, 12), (CREW, 900)]);
        assert_eq!(
            (known.top(8), known.top(-1), known.top(CREW), known.top(CREW - 1)),
            (Some(12), Some(12), Some(900), None)
        );
    }

    #[test]
    fn what_is_known_is_not_looked_at() {
        let mut known = learned(&[(7, 10), (7, 14), (8, 12), (-5, 20), (7, 17)]);
        assert_eq!(candidates(&known, 7, 12)[..7], [13, 15, 16, 18, 19, 21, 22]);
        assert_eq!(candidates(&known, 7, 20).len(), MARGIN as usize);
        assert_eq!(known.candidate(7, 12, 52), None, "beyond what may be");
        known.learn(7, 15, true);
        known.learn(7, 15, true);
        assert_eq!(candidates(&known, 7, 14)[..2], [16, 18]);
        known.learn(7, 21, false);
        assert_eq!(candidates(&known, 7, 12)[0], 22, "gaps are forgotten where nothing is on its way");
        assert_eq!(candidates(&Numbers::default(), CREW, 5).len(), MARGIN_OWN as usize, "nothing is known any more");
    }

    #[test]
    fn lists_have_ends_and_a_gap_is_never_lost() {
        let mut known = learned(&[(7, 1)]);
        (1..1_000).for_each(|n| known.learn(7, n * 3, true));
        (1..1_000).for_each(|n| known.learn(CREW - n, n, true));
        assert_eq!((known.0.len(), known.top(7)), (COUNTS_MAX, Some(2_997)));
        let all = candidates(&known, 7, 1);
        assert!((1..999).all(|n| all.contains(&(n * 3 + 1)) && all.contains(&(n * 3 + 2))));
        assert!(serde_json::to_string(&known).expect("JSON").len() < 5_000);
        for bad in [0, -1, i64::MIN, i64::MAX, NUMBER_MAX + 1] {
            known.learn(7, bad, true);
        }
        assert_eq!(known.top(7), Some(2_997));
        known.learn(7, NUMBER_MAX, true);
        assert!(known.candidate(7, 1, i64::MAX).is_none() && known.candidate(7, 1, NUMBER_MAX).is_some());
    }

    #[test]
    fn a_count_is_a_short_list() {
        let known = learned(&[(7, 10), (7, 12), (CREW, 5)]);
        let written = serde_json::to_string(&known).expect("JSON");
        assert_eq!(written, "[[0,12,[[11,11]]],[-1000000000123,5,[]]]");
        assert_eq!(serde_json::from_str::<Numbers>(&written).expect("it reads back"), known);
    }
}
