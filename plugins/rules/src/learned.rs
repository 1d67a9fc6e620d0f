//! A linear model over hashed words and parts of words, for the ten built-in categories and for none of them.
//! Keeps true: the same text gives the same logits on every machine; features here are those of the training.

/// The categories that were learned, in the order of the model's classes; the last class is none of them.
pub const CATEGORIES: [&str; 10] = [
    "engineering_build",
    "infra_ops",
    "qa_validation",
    "planning_decision",
    "research_analysis",
    "docs_knowledge",
    "growth_marketing",
    "customer_community",
    "legal_compliance",
    "biz_strategy",
];

pub const CLASSES: usize = CATEGORIES.len() + 1;
pub const NONE: usize = CATEGORIES.len();

const SLOT_BITS: u32 = 15;
/// Each slot holds one feature; of those that fall into the same slot the most common one has it.
pub const SLOTS: usize = 1 << SLOT_BITS;

const MAGIC: &[u8; 4] = b"CLR1";
const HEADER: usize = MAGIC.len() + 4 * (1 + CLASSES) + 8 * 2;

/// A feature: the slot it falls into and a mark that tells it from the others there.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Feature(u32);

impl Feature {
    fn of(hash: u32) -> Self {
        // The mark 0 is that of an empty slot.
        let hash = mix(hash, 0);
        Self(hash >> (32 - SLOT_BITS) << 8 | (hash & 0xff).max(1))
    }

    pub fn slot(self) -> usize {
        (self.0 >> 8) as usize
    }

    fn mark(self) -> u8 {
        self.0.to_le_bytes()[0]
    }
}

/// What is learned of one feature.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub feature: Feature,
    pub weights: [f64; CLASSES],
}

/// Weights of one byte each, all of one scale, and how far rules count beside them.
pub struct Model<'a> {
    scale: f32,
    bias: [f32; CLASSES],
    pub calibration: Calibration,
    marks: &'a [u8],
    weights: &'a [u8],
}

/// Found by cross-validation, beside the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// What a point of a rule adds to a logit.
    pub rules: f64,
    /// What is added to the logit of none.
    pub none: f64,
}

/// What the model says of a text.
#[derive(Debug, PartialEq)]
pub struct Said {
    /// For each class; they add up to about zero.
    pub logits: [f64; CLASSES],
    /// How many features of the text were learned.
    pub known: usize,
}

impl<'a> Model<'a> {
    /// Reads what `to_bytes` wrote; none when it is anything else.
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (header, table) = bytes.split_at_checked(HEADER)?;
        let (magic, numbers) = header.split_at(MAGIC.len());
        if magic != MAGIC || table.len() != SLOTS * (1 + CLASSES) {
            return None;
        }
        let single = |at: usize| f32::from_le_bytes(numbers[4 * at..4 * at + 4].try_into().expect("four bytes"));
        let (rules, none) = numbers[4 * (1 + CLASSES)..].split_at(8);
        let calibration = Calibration {
            rules: f64::from_le_bytes(rules.try_into().expect("eight bytes")),
            none: f64::from_le_bytes(none.try_into().expect("eight bytes")),
        };
        let (marks, weights) = table.split_at(SLOTS);
        Some(Self {
            scale: single(0),
            bias: std::array::from_fn(|class| single(1 + class)),
            calibration,
            marks,
            weights,
        })
    }

    /// The weights as a file: each in one byte, the largest as 127. Of two rows of one slot the later has it.
    pub fn to_bytes(rows: &[Row], bias: &[f64; CLASSES], calibration: Calibration) -> Vec<u8> {
        let all = rows.iter().flat_map(|row| row.weights);
        let largest = all.fold(f64::MIN_POSITIVE, |largest, weight| largest.max(weight.abs()));
        let scale = (largest / 127.0) as f32;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(scale.to_le_bytes());
        bias.iter().for_each(|bias| bytes.extend((*bias as f32).to_le_bytes()));
        bytes.extend(calibration.rules.to_le_bytes());
        bytes.extend(calibration.none.to_le_bytes());
        let (mut marks, mut weights) = (vec![0; SLOTS], vec![0; SLOTS * CLASSES]);
        for row in rows {
            let slot = row.feature.slot();
            marks[slot] = row.feature.mark();
            for (place, weight) in weights[slot * CLASSES..].iter_mut().zip(row.weights) {
                *place = ((weight / f64::from(scale)).round().clamp(-127.0, 127.0) as i8).to_le_bytes()[0];
            }
        }
        bytes.extend(marks);
        bytes.extend(weights);
        bytes
    }

    pub fn say(&self, text: &str) -> Said {
        let mut sums = [0_i32; CLASSES];
        let mut seen = [0_u64; SLOTS / 64];
        let mut known = 0;
        features(text, |feature| {
            let slot = feature.slot();
            let (cell, bit) = (&mut seen[slot / 64], 1 << (slot % 64));
            if self.marks[slot] == feature.mark() && *cell & bit == 0 {
                *cell |= bit;
                known += 1;
                let row = &self.weights[slot * CLASSES..][..CLASSES];
                sums.iter_mut().zip(row).for_each(|(sum, weight)| *sum += i32::from(*weight as i8));
            }
        });
        let scale = f64::from(self.scale) * share(known);
        let logits = std::array::from_fn(|class| f64::from(self.bias[class]) + scale * f64::from(sums[class]));
        Said { logits, known }
    }
}

/// What each feature of a text counts: a long text has more of them, not more evidence.
pub fn share(known: usize) -> f64 {
    1.0 / libm::sqrt(known.max(1) as f64)
}

/// The features of a normalised text in its order, some more than once: English words and four letters of them, Korean
/// syllables, pairs of syllables and words, and neighbouring words by their beginnings.
pub fn features(text: &str, mut add: impl FnMut(Feature)) {
    let mut add = |hash: u32| add(Feature::of(hash));
    let mut word = Word::default();
    let mut before = START;
    for c in text.chars() {
        let kind = Kind::of(c);
        if kind != word.kind {
            before = word.end(before, &mut add);
            word = Word { kind, ..Word::default() };
        }
        if c == '\n' {
            before = START;
        }
        word.push(u32::from(c), &mut add);
    }
    word.end(before, &mut add);
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Kind {
    #[default]
    Between,
    /// Letters and digits of English: a word is a whole.
    Latin,
    /// Syllables of Korean, and every other script: a word ends in particles, so its parts count.
    Syllables,
}

impl Kind {
    fn of(c: char) -> Self {
        match c {
            'a'..='z' | '0'..='9' => Self::Latin,
            '\u{ac00}'..='\u{d7a3}' => Self::Syllables,
            _ if c.is_ascii() || !c.is_alphanumeric() => Self::Between,
            _ => Self::Syllables,
        }
    }
}

/// The hash before the first word of a message.
const START: u32 = 0x51ed_270b;

/// A word as far as it is read.
#[derive(Default)]
struct Word {
    kind: Kind,
    length: u32,
    whole: u32,
    /// The hash of its first letters.
    stem: u32,
    /// The last four letters of English, a byte each; the last syllable of Korean.
    last: u32,
}

impl Word {
    fn push(&mut self, c: u32, add: &mut impl FnMut(u32)) {
        if self.kind == Kind::Between {
            return;
        }
        self.length += 1;
        self.whole = mix(self.whole, c);
        if self.kind == Kind::Latin {
            self.last = self.last << 8 | c;
            if self.length <= 5 {
                self.stem = self.whole;
            }
            if self.length >= 4 {
                add(mix(1, self.last));
            }
        } else {
            if self.length <= 2 {
                self.stem = self.whole;
            }
            add(mix(2, c));
            if self.length >= 2 {
                add(mix(mix(3, self.last), c));
            }
            self.last = c;
        }
    }

    /// Adds what the whole word tells; answers with what the next word pairs with.
    fn end(&self, before: u32, add: &mut impl FnMut(u32)) -> u32 {
        if self.kind == Kind::Between {
            return before;
        }
        add(mix(4, self.whole));
        add(mix(mix(5, before), self.stem));
        self.stem
    }
}

fn mix(hash: u32, next: u32) -> u32 {
    let mixed = (hash.rotate_left(5) ^ next).wrapping_mul(0x9e37_79b1);
    mixed ^ (mixed >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<Feature> {
        let mut found = Vec::new();
        features(text, |feature| found.push(feature));
        found
    }

    #[test]
    fn weights_survive_their_file() {
        let text = "배포 후 장애\n";
        let mut weights = [0.0; CLASSES];
        (weights[1], weights[NONE]) = (0.5, -0.25);
        let rows: Vec<Row> = list(text).into_iter().map(|feature| Row { feature, weights }).collect();
        let calibration = Calibration { rules: 1.25, none: -0.5 };
        let bytes = Model::to_bytes(&rows, &[0.125; CLASSES], calibration);
        let model = Model::from_bytes(&bytes).expect("a model");
        assert_eq!(model.calibration, calibration);
        let said = model.say(text);
        let expected = 0.125 + 0.5 * said.known as f64 * share(said.known);
        assert!((said.logits[1] - expected).abs() < 0.02, "{said:?} {expected}");
        assert_eq!(said.logits[0], 0.125);
        assert!(Model::from_bytes(&bytes[1..]).is_none());
        assert!(Model::from_bytes(b"").is_none());
    }

    #[test]
    fn what_was_not_learned_says_nothing() {
        let rows = list("배포\n").into_iter().map(|feature| Row { feature, weights: [1.0; CLASSES] });
        let bytes = Model::to_bytes(&rows.collect::<Vec<_>>(), &[0.0; CLASSES], Calibration { rules: 1.0, none: 0.0 });
        let model = Model::from_bytes(&bytes).expect("a model");
        assert_eq!(model.say("zebra quilt\n"), Said { logits: [0.0; CLASSES], known: 0 });
        assert_eq!(model.say("배포 배포\n배포\n").known, model.say("배포\n").known);
    }

    #[test]
    fn features_are_those_of_words() {
        assert_eq!(list("\n … !\n"), []);
        assert_eq!(list("ab\n").len(), 2);
        assert_eq!(list("abcde\n").len(), 4);
        assert_eq!(list("배포\n").len(), 5);
        assert_eq!(list("서버 배포\n"), list("서버, 배포\n"));
        assert_ne!(list("서버 배포\n"), list("서버\n배포\n"));
    }
}
