//! What the journal must hold: the acknowledged transactions, and the one group of which nobody knows.

use std::collections::BTreeMap;

use chela_storage::journal::{Journal, Transaction};
use fastrand::Rng;

pub const KINDS: [&str; 3] = ["job", "question", "inbox_item"];

/// A transaction in plain words.
#[derive(Clone, Debug)]
pub struct Plain(pub Vec<(&'static str, String, Option<String>)>);

/// All live records: what put them last, and their body.
pub type State = BTreeMap<(String, String), (u64, String)>;

impl Plain {
    /// A few changes to a few records; each body is unlike any other.
    pub fn random(random: &mut Rng, token: &mut u64, long_bodies: u32) -> Self {
        let mut change = |random: &mut Rng| {
            let (kind, id) = (KINDS[random.usize(0..KINDS.len())], format!("id-\"{}", random.u8(0..5)));
            *token += 1;
            let drops = random.u8(0..5) == 0;
            let length = if random.u32(0..long_bodies) == 0 { random.usize(400..3_000) } else { random.usize(0..40) };
            let letter = char::from(b'a' + u8::try_from(*token % 26).unwrap_or(0));
            let fill: String = std::iter::repeat_n(letter, length).collect();
            (kind, id, (!drops).then(|| format!("{{\"n\":{token},\"fill\":\"{fill}\"}}")))
        };
        Self((0..random.usize(1..=4)).map(|_| change(random)).collect())
    }

    pub fn transaction(&self) -> Transaction {
        let mut transaction = Transaction::new();
        for (kind, id, body) in &self.0 {
            match body {
                Some(body) => transaction.put(kind, id, body.as_bytes()).expect("a body within the limits"),
                None => transaction.drop(kind, id).expect("an id within the limits"),
            }
        }
        transaction
    }

    pub fn apply(&self, state: &mut State, seq: u64) {
        for (kind, id, body) in &self.0 {
            let key = ((*kind).to_owned(), id.clone());
            match body {
                Some(body) => drop(state.insert(key, (seq, body.clone()))),
                None => drop(state.remove(&key)),
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub state: State,
    /// The last acknowledged transaction.
    pub seq: u64,
    /// The group that failed in a way that only opening again can tell about.
    pub unsure: Vec<Plain>,
}

impl Model {
    pub fn acknowledge(&mut self, group: &[Plain]) {
        for plain in group {
            self.seq += 1;
            plain.apply(&mut self.state, self.seq);
        }
    }

    /// A journal that was opened shows the acknowledged transactions and perhaps the first few of those unsure, and nothing else. From
    /// then on it may not lose those either.
    pub fn settle(&mut self, journal: &Journal) -> Result<(), String> {
        let actual = state_of(journal)?;
        let (seq, most) = (journal.seq(), self.seq + self.unsure.len() as u64);
        if seq < self.seq {
            return Err(format!("transaction {} was acknowledged, and the last one there is {seq}", self.seq));
        }
        if seq > most {
            return Err(format!("transaction {seq} was never attempted; the last one was {most}"));
        }
        let there = usize::try_from(seq - self.seq).unwrap_or(usize::MAX);
        let unsure = std::mem::take(&mut self.unsure);
        self.acknowledge(&unsure[..there]);
        self.compare(&actual)
    }

    pub fn compare(&self, actual: &State) -> Result<(), String> {
        for (key, value) in &self.state {
            match actual.get(key) {
                None => return Err(format!("{key:?} of transaction {} is missing", value.0)),
                Some(found) if found != value => {
                    return Err(format!("{key:?} is of transaction {}, not {}, or has another body", found.0, value.0));
                }
                Some(_) => {}
            }
        }
        match actual.keys().find(|key| !self.state.contains_key(key)) {
            Some(key) => Err(format!("{key:?} should not be there")),
            None => Ok(()),
        }
    }
}

/// All records, read from disk; they must come in the order of their transactions.
pub fn state_of(journal: &Journal) -> Result<State, String> {
    let mut state = State::new();
    for kind in KINDS {
        let mut last = 0;
        for record in journal.records(kind) {
            let record = record.map_err(|error| format!("a live record cannot be read: {error}"))?;
            if record.seq < last {
                return Err(format!("{kind} {} comes out of order", record.id));
            }
            last = record.seq;
            let body = String::from_utf8(record.body).map_err(|error| error.to_string())?;
            state.insert((kind.to_owned(), record.id), (record.seq, body));
        }
    }
    if state.len() == journal.len() { Ok(state) } else { Err("the journal counts its records wrongly".into()) }
}
