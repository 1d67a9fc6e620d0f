//! Messages to people while they are sent: part after part, and told of when the last one is there.
//! Keeps true: a delivery is done once, however often it is asked for; what was sent stays sent when the rest must wait.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::keep::{Seldom, push, trim};
use super::{DeliveryResult, Outbound, Question, Turn};

/// Deliveries under way, and those that wait for the host to ask again.
const OPEN_MAX: usize = 64;
/// Results that are told again when the host asks again.
const DONE_MAX: usize = 32;

/// A question that goes with the last part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub id: String,
    pub choices: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    pub id: String,
    pub target: String,
    pub parts: Vec<String>,
    /// The network's ids of the parts that are there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<String>,
    /// Messages of before that are changed instead of new ones made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reply_to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Asked>,
    /// The host asks again later.
    #[serde(default)]
    parked: bool,
}

impl Delivery {
    pub fn new(outbound: Outbound, parts: Vec<String>) -> Self {
        let Outbound { id, target, reply_to, edits, question, .. } = outbound;
        let question = question.map(|Question { id, choices }| Asked { id, choices });
        Self { id, target, parts, sent: Vec::new(), edits, reply_to, question, parked: false }
    }

    /// The number of the next part.
    pub fn nth(&self) -> usize {
        self.sent.len()
    }

    pub fn is_at_last(&self) -> bool {
        self.nth() + 1 == self.parts.len()
    }

    pub fn is_over(&self) -> bool {
        self.nth() >= self.parts.len()
    }

    /// The message of before that the next part takes the place of.
    pub fn edited(&self) -> Option<&str> {
        self.edits.get(self.nth()).map(String::as_str)
    }

    /// What it asks, if the next part is the one that carries the question.
    pub fn asks_now(&self) -> Option<&Asked> {
        self.question.as_ref().filter(|_| self.is_at_last())
    }

    /// The same for the same part on every try.
    pub fn key(&self) -> String {
        format!("{:016x}-{}", super::wire::hash(&self.id), self.nth())
    }
}

/// A delivery that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Done {
    id: String,
    messages: Vec<String>,
    error: String,
}

impl Done {
    fn result(&self) -> DeliveryResult {
        let (id, message_ids, error) = (self.id.clone(), self.messages.clone(), self.error.clone());
        DeliveryResult { id, message_ids, error, retry: false, retry_ms: 0 }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deliveries {
    open: VecDeque<Delivery>,
    done: Seldom<VecDeque<Seldom<Done>>>,
}

/// What is to be done about a message that the host wants delivered.
pub enum Wanted {
    /// Nothing: it is over and was told again, or it is under way.
    Nothing,
    /// It goes on where it stopped.
    GoOn(String),
    New(Outbound),
}

impl Deliveries {
    pub fn wanted(&mut self, turn: &mut Turn, outbound: Outbound) -> Wanted {
        if let Some(done) = self.done.iter().find(|done| done.id == outbound.id) {
            turn.delivered(done.result());
            return Wanted::Nothing;
        }
        let Some(delivery) = self.open.iter_mut().find(|delivery| delivery.id == outbound.id) else {
            return Wanted::New(outbound);
        };
        if !std::mem::take(&mut delivery.parked) {
            return Wanted::Nothing;
        }
        turn.changed();
        Wanted::GoOn(outbound.id)
    }

    /// Begins one. Of too many, the oldest that waits for the host goes: the host has it still.
    pub fn begin(&mut self, turn: &mut Turn, delivery: Delivery) {
        if self.open.len() >= OPEN_MAX
            && let Some(at) = self.open.iter().position(|delivery| delivery.parked)
        {
            self.open.remove(at);
        }
        self.open.push_back(delivery);
        turn.changed();
    }

    pub fn get(&self, id: &str) -> Option<&Delivery> {
        self.open.iter().find(|delivery| delivery.id == id)
    }

    pub fn get_mut(&mut self, id: &str) -> Option<&mut Delivery> {
        self.open.iter_mut().find(|delivery| delivery.id == id)
    }

    /// Those that are not parked.
    pub fn under_way(&self) -> impl Iterator<Item = &Delivery> {
        self.open.iter().filter(|delivery| !delivery.parked)
    }

    /// Every part is there.
    pub fn finish(&mut self, turn: &mut Turn, id: &str) -> Option<Delivery> {
        let at = self.open.iter().position(|delivery| delivery.id == id)?;
        let delivery = self.open.remove(at)?;
        self.end(turn, Done { id: delivery.id.clone(), messages: delivery.sent.clone(), error: String::new() });
        Some(delivery)
    }

    /// The host is to ask again.
    pub fn park(&mut self, turn: &mut Turn, id: &str, error: &str, retry_ms: u64) {
        if let Some(delivery) = self.get_mut(id) {
            delivery.parked = true;
        }
        let (id, error) = (id.to_owned(), error.to_owned());
        turn.delivered(DeliveryResult { id, message_ids: Vec::new(), error, retry: true, retry_ms });
    }

    /// It cannot be delivered, now or later.
    pub fn refuse(&mut self, turn: &mut Turn, id: &str, error: impl Into<String>) {
        self.open.retain(|delivery| delivery.id != id);
        self.end(turn, Done { id: id.to_owned(), messages: Vec::new(), error: error.into() });
    }

    fn end(&mut self, turn: &mut Turn, done: Done) {
        turn.delivered(done.result());
        push(&mut self.done, done.into(), DONE_MAX);
    }

    /// A state of before may have had other limits.
    pub fn trim(&mut self) {
        trim(&mut self.done, DONE_MAX);
    }
}

/// Messages that carry a question, and its id: a reply to one is an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Questions(VecDeque<(String, String)>);

impl Questions {
    const MAX: usize = 100;

    pub fn remember(&mut self, message: &str, question: &str) {
        push(&mut self.0, (message.to_owned(), question.to_owned()), Self::MAX);
    }

    pub fn of(&self, message: &str) -> Option<&str> {
        self.0.iter().find(|(id, _)| id == message).map(|(_, question)| question.as_str())
    }

    /// An answer as a person writes it: `#ID WORDS`, or `ID WORDS` where we remember such a question, else words for the only one.
    pub fn named<'a>(&self, words: &'a str) -> (String, &'a str) {
        let parts = words.trim().split_once(char::is_whitespace);
        let known = |id: &str| self.0.iter().any(|(_, asked)| asked == id);
        match parts {
            Some((first, rest)) if first.strip_prefix('#').is_some_and(|id| !id.is_empty()) => {
                (first[1..].to_owned(), rest.trim())
            }
            Some((first, rest)) if known(first) => (first.to_owned(), rest.trim()),
            _ => (String::new(), words.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Context;
    use crate::channel::Output;

    fn turn() -> Turn {
        Turn::new(&Context { now_ms: 1, seed: 1, deployment: "d".into(), locale: "en".into(), budget_ms: 1 })
    }

    fn outbound(id: &str) -> Outbound {
        let (target, text) = ("channel:1".to_owned(), "a".to_owned());
        Outbound { id: id.into(), target, text, reply_to: String::new(), edits: Vec::new(), question: None }
    }

    fn begun(deliveries: &mut Deliveries, id: &str) {
        let Wanted::New(new) = deliveries.wanted(&mut turn(), outbound(id)) else { panic!("it is new") };
        deliveries.begin(&mut turn(), Delivery::new(new, vec!["a".into(), "b".into()]));
    }

    fn results(turn: Turn) -> Vec<(String, usize, bool)> {
        let result = |output| match output {
            Output::Delivered(result) => Some((result.error, result.message_ids.len(), result.retry)),
            _ => None,
        };
        turn.outputs().into_iter().filter_map(result).collect()
    }

    #[test]
    fn a_delivery_is_done_once_and_told_as_often_as_it_is_asked_for() {
        let mut deliveries = Deliveries::default();
        begun(&mut deliveries, "d1");
        assert!(matches!(deliveries.wanted(&mut turn(), outbound("d1")), Wanted::Nothing), "under way");
        deliveries.get_mut("d1").expect("there").sent = vec!["1".into(), "2".into()];
        deliveries.finish(&mut turn(), "d1");
        let mut again = turn();
        assert!(matches!(deliveries.wanted(&mut again, outbound("d1")), Wanted::Nothing));
        assert_eq!(results(again), [(String::new(), 2, false)]);
    }

    #[test]
    fn what_waits_goes_on_where_it_stopped_and_its_key_is_its_part() {
        let mut deliveries = Deliveries::default();
        begun(&mut deliveries, "d1");
        let first = deliveries.get("d1").expect("there").key();
        deliveries.get_mut("d1").expect("there").sent.push("1".into());
        let mut parked = turn();
        deliveries.park(&mut parked, "d1", "later", 5);
        assert_eq!(results(parked), [("later".into(), 0, true)]);
        assert_eq!(deliveries.under_way().count(), 0);
        assert!(matches!(deliveries.wanted(&mut turn(), outbound("d1")), Wanted::GoOn(id) if id == "d1"));
        let delivery = deliveries.get("d1").expect("there");
        assert!(delivery.is_at_last() && delivery.nth() == 1 && delivery.key() != first && delivery.key().len() <= 25);
    }

    #[test]
    fn lists_have_ends() {
        let mut deliveries = Deliveries::default();
        for n in 0..1_000 {
            let id = format!("d{n}");
            begun(&mut deliveries, &id);
            match n % 2 {
                0 => deliveries.park(&mut turn(), &id, "later", 0),
                _ => deliveries.refuse(&mut turn(), &id, "no"),
            }
        }
        assert!(deliveries.open.len() <= OPEN_MAX && deliveries.done.len() == DONE_MAX);
        let mut questions = Questions::default();
        (0..1_000).for_each(|n| questions.remember(&n.to_string(), "q"));
        assert_eq!((questions.0.len(), questions.of("999"), questions.of("1")), (Questions::MAX, Some("q"), None));
    }

    #[test]
    fn an_answer_may_name_its_question() {
        let mut questions = Questions::default();
        questions.remember("m", "q-7");
        let check =
            |words: &str, id: &str, rest: &str| assert_eq!(questions.named(words), (id.to_owned(), rest), "{words}");
        check(" 8080 ", "", "8080");
        check("nine thousand", "", "nine thousand");
        check("q-7 nine thousand", "q-7", "nine thousand");
        check("#q-9  nine\nthousand", "q-9", "nine\nthousand");
        check("# nine", "", "# nine");
        check("#q-9", "", "#q-9");
        check("q-7", "", "q-7");
    }
}
