//! Trains the learned part of the classifier `rules` from its training items, and tells how good it is by cross-validation.
//! Keeps true: the same items give the same bytes on every machine: one thread, a fixed order, sums in `f64`, `exp` of `libm`.
//! Never: reads the held-out items.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use rules::Rules;
use rules::decide::{Confidences, Learned, confidences};
use rules::learned::{CATEGORIES, CLASSES, Calibration, Feature, Model, NONE, Row, SLOTS, features, share};
use rules::text::Text;
use serde_json::Value;

use crate::cargo::root;

const ITEMS: &str = "plugins/rules/corpus/training.ndjson";
const WEIGHTS: &str = "plugins/rules/src/weights.bin";

const FOLDS: usize = 5;
const EPOCHS: usize = 30;
const RATE: f64 = 0.5;
const DECAY: f64 = 2e-4;
const SEED: u64 = 0x5eed;

/// What a point of a rule adds to a logit. Not fitted: the rules were written with these items in sight, so that a fit
/// would trust them too much. It is what rules deserved that had been written before.
const RULES_COUNT: f64 = 0.8;

/// A claim is an answer with at least this confidence; of claims so many have to be right here. Nine in ten are promised;
/// the rest is for new conversations, which rules know less well than these.
const CLAIM_AT: f64 = 0.6;
const PRECISION_MIN: f64 = 0.94;

/// An item as training sees it.
struct Item {
    text: Text,
    /// Each feature once, in a fixed order.
    features: Vec<Feature>,
    /// The points of the built-in rules for each category.
    points: Vec<f64>,
    class: usize,
}

type Logits = [f64; CLASSES];

/// Reads the items, cross-validates, trains on all of them and writes the weights.
pub fn run(check: bool) -> Result<()> {
    let items = read(&root().join(ITEMS))?;
    println!("{} items of {ITEMS}", items.len());
    let logits = cross_validated(&items);
    let (temper, calibration) = calibrate(&items, &logits);
    println!("logits count {temper:.2}, a point of a rule {:.2}, none {:+.2}", calibration.rules, calibration.none);
    let with = |points: &[f64], logits: &Logits| both(points, logits, temper, calibration);
    for (name, figures) in [
        ("rules alone", figures(&items, &logits, |item, _| confidences(&item.points, None))),
        ("learned alone", figures(&items, &logits, |_, logits| with(&[0.0; NONE], logits))),
        ("both", figures(&items, &logits, |item, logits| with(&item.points, logits))),
    ] {
        println!("{name:>14}: {figures}");
    }
    let all: Vec<&Item> = items.iter().collect();
    let bytes = train(&all, temper, calibration);
    if check {
        let there = fs::read(root().join(WEIGHTS)).with_context(|| format!("cannot read {WEIGHTS}"))?;
        ensure!(
            there == bytes,
            "{WEIGHTS} is not what the training items and rules.json5 give; run `cargo xtask train`"
        );
        println!("{WEIGHTS} is what training gives");
        return Ok(());
    }
    fs::write(root().join(WEIGHTS), &bytes).with_context(|| format!("cannot write {WEIGHTS}"))?;
    println!("wrote {} bytes to {WEIGHTS}", bytes.len());
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Item>> {
    let lines = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let rules =
        Rules::new(r#"{"learned": false}"#).map_err(|error| anyhow!("built-in {}: {}", error.path, error.message))?;
    let keys = CATEGORIES.map(str::to_owned);
    let mut items = Vec::new();
    for (at, line) in lines.lines().enumerate() {
        let item = item(line, &rules, &keys).with_context(|| format!("line {} of {}", at + 1, path.display()))?;
        items.push(item);
    }
    ensure!(items.len() >= 10 * FOLDS, "too few items to learn from");
    Ok(items)
}

fn item(line: &str, rules: &Rules, keys: &[String]) -> Result<Item> {
    let line: Value = serde_json::from_str(line)?;
    let list = |field: &str| -> Result<Vec<String>> {
        let strings = line[field].as_array().with_context(|| format!("{field} is a list"))?;
        strings
            .iter()
            .map(|text| Ok(text.as_str().with_context(|| format!("{field} holds texts"))?.to_owned()))
            .collect()
    };
    let class = match &line["category"] {
        Value::Null => NONE,
        Value::String(key) => {
            CATEGORIES.iter().position(|other| other == key).with_context(|| format!("category {key}"))?
        }
        other => return Err(anyhow!("category {other}")),
    };
    let text = Text::of(&list("texts")?, &list("tags")?);
    let mut found = Vec::new();
    features(&text.all, |feature| found.push(feature));
    found.sort_unstable();
    found.dedup();
    Ok(Item { points: rules.points(&text, &list("participants")?, keys), features: found, text, class })
}

/// The logits of each item by a model that has not seen it.
fn cross_validated(items: &[Item]) -> Vec<Logits> {
    // Shuffled: neighbouring lines follow the order of the categories.
    let mut fold_of: Vec<usize> = (0..items.len()).map(|at| at % FOLDS).collect();
    let mut chance = SEED;
    shuffle(&mut fold_of, &mut chance);
    let mut logits = vec![[0.0; CLASSES]; items.len()];
    for fold in 0..FOLDS {
        let seen: Vec<&Item> =
            items.iter().zip(&fold_of).filter(|(_, of)| **of != fold).map(|(item, _)| item).collect();
        // Through its bytes, so that the figures are those of quantised weights.
        let bytes = train(&seen, 1.0, Calibration { rules: 0.0, none: 0.0 });
        let model = Model::from_bytes(&bytes).expect("just written");
        for at in (0..items.len()).filter(|at| fold_of[*at] == fold) {
            logits[at] = model.say(&items[at].text.all).logits;
        }
        println!("fold {} of {FOLDS}", fold + 1);
    }
    logits
}

/// The most common feature of each slot; the smaller of equals.
fn chosen(items: &[&Item]) -> Vec<Option<Feature>> {
    let mut counts: BTreeMap<Feature, usize> = BTreeMap::new();
    items.iter().flat_map(|item| &item.features).for_each(|feature| *counts.entry(*feature).or_default() += 1);
    let mut slots = vec![(0, None); SLOTS];
    for (feature, count) in counts {
        let slot = &mut slots[feature.slot()];
        if count > slot.0 {
            *slot = (count, Some(feature));
        }
    }
    slots.into_iter().map(|(_, feature)| feature).collect()
}

/// Multinomial logistic regression: stochastic descent with a rate for each weight (AdaGrad) and decay.
fn train(items: &[&Item], temper: f64, calibration: Calibration) -> Vec<u8> {
    let chosen = chosen(items);
    let known = |item: &&Item| -> Vec<usize> {
        item.features
            .iter()
            .filter(|feature| chosen[feature.slot()] == Some(**feature))
            .map(|feature| feature.slot())
            .collect()
    };
    let slots_of: Vec<Vec<usize>> = items.iter().map(known).collect();
    let (mut weights, mut squares) = (vec![[0.0; CLASSES]; SLOTS], vec![[1e-2; CLASSES]; SLOTS]);
    let (mut bias, mut bias_squares) = ([0.0; CLASSES], [1.0; CLASSES]);
    let mut order: Vec<usize> = (0..items.len()).collect();
    let mut chance = SEED;
    for _ in 0..EPOCHS {
        shuffle(&mut order, &mut chance);
        for at in &order {
            let slots = &slots_of[*at];
            let share = share(slots.len());
            let mut errors = bias;
            for slot in slots {
                (0..CLASSES).for_each(|class| errors[class] += share * weights[*slot][class]);
            }
            softmax(&mut errors);
            errors[items[*at].class] -= 1.0;
            for slot in slots {
                let (row, squares) = (&mut weights[*slot], &mut squares[*slot]);
                for class in 0..CLASSES {
                    let slope = share * errors[class] + DECAY * row[class];
                    squares[class] += slope * slope;
                    row[class] -= RATE * slope / libm::sqrt(squares[class]);
                }
            }
            for class in 0..CLASSES {
                bias_squares[class] += errors[class] * errors[class];
                bias[class] -= 0.1 * RATE * errors[class] / libm::sqrt(bias_squares[class]);
            }
        }
    }
    let tempered = |weights: &Logits| weights.map(|weight| temper * weight);
    let row = |feature: &Feature| Row { feature: *feature, weights: tempered(&weights[feature.slot()]) };
    let rows: Vec<Row> = chosen.iter().flatten().map(row).collect();
    Model::to_bytes(&rows, &tempered(&bias), calibration)
}

fn softmax(values: &mut Logits) {
    let largest = values.iter().fold(f64::NEG_INFINITY, |largest, value| largest.max(*value));
    values.iter_mut().for_each(|value| *value = libm::exp(*value - largest));
    let sum: f64 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
}

/// Fisher and Yates, by a generator of its own: the order is part of the result.
fn shuffle(order: &mut [usize], chance: &mut u64) {
    for at in (1..order.len()).rev() {
        *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, ((*chance >> 33) % (at as u64 + 1)) as usize);
    }
}

fn both(points: &[f64], logits: &Logits, temper: f64, calibration: Calibration) -> Confidences {
    let classes: Vec<Option<usize>> = (0..NONE).map(Some).collect();
    confidences(points, Some(&Learned::new(&classes, &logits.map(|logit| temper * logit), calibration)))
}

/// How far logits count and what is added to none: the most likely by the learned part alone, whose figures are honest.
/// Then all of it cooled until enough of the claims are right.
fn calibrate(items: &[Item], logits: &[Logits]) -> (f64, Calibration) {
    let steps = |from: f64, step: f64, count: usize| (0..count).map(move |at| from + step * at as f64);
    let mut best = (f64::INFINITY, 1.0, 0.0);
    for temper in steps(0.5, 0.1, 26) {
        for none in steps(-1.0, 0.25, 13) {
            let calibration = Calibration { rules: 0.0, none };
            let loss = figures(items, logits, |_, logits| both(&[0.0; NONE], logits, temper, calibration)).loss;
            if loss < best.0 {
                best = (loss, temper, none);
            }
        }
    }
    let (_, temper, none) = best;
    let cooled =
        steps(1.0, -0.02, 26).map(|cool| (cool * temper, Calibration { rules: cool * RULES_COUNT, none: cool * none }));
    let mut last = (temper, Calibration { rules: RULES_COUNT, none });
    for (temper, calibration) in cooled {
        last = (temper, calibration);
        let figures = figures(items, logits, |item, logits| both(&item.points, logits, temper, calibration));
        if figures.precision() >= PRECISION_MIN {
            break;
        }
    }
    last
}

struct Figures {
    items: usize,
    categorised: usize,
    right: usize,
    claims: usize,
    claims_right: usize,
    /// The mean of minus the logarithm of what the truth was given.
    loss: f64,
}

impl Figures {
    fn precision(&self) -> f64 {
        self.claims_right as f64 / self.claims.max(1) as f64
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let accuracy = percent(self.right, self.categorised);
        let (precision, coverage) = (100.0 * self.precision(), percent(self.claims, self.items));
        write!(f, "accuracy {accuracy:.1} %, at {CLAIM_AT}: precision {precision:.1} %, coverage {coverage:.1} %")
    }
}

fn figures(items: &[Item], logits: &[Logits], confidences: impl Fn(&Item, &Logits) -> Confidences) -> Figures {
    let mut figures = Figures { items: items.len(), categorised: 0, right: 0, claims: 0, claims_right: 0, loss: 0.0 };
    for (item, logits) in items.iter().zip(logits) {
        let confidences = confidences(item, logits);
        let truth = confidences.of.get(item.class).unwrap_or(&confidences.none);
        figures.loss -= libm::log(truth.max(1e-9)) / items.len() as f64;
        let best = confidences.best();
        let right = best.is_some_and(|(category, _)| category == item.class);
        figures.categorised += usize::from(item.class != NONE);
        figures.right += usize::from(right);
        if best.is_some_and(|(_, confidence)| confidence >= CLAIM_AT) {
            figures.claims += 1;
            figures.claims_right += usize::from(right);
        }
    }
    figures
}
