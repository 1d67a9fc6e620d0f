//! Joins what rules and the learned part say into one confidence for each category.
//! Keeps true: confidences of a conversation and of none add up to one; a category outside the table gets none.

use crate::learned::{Calibration, NONE};

/// Without the learned part: a rule of weight 1 that matches alone is claimed at 0.6, one of weight 2 at 0.82.
const RULES_ALONE: Calibration = Calibration { rules: 1.1, none: 0.65 };

/// The confidence of each category of the table.
pub struct Confidences {
    pub of: Vec<f64>,
    pub none: f64,
}

/// What the learned part says about the categories of a table.
pub struct Learned {
    /// None for a category that was not learned.
    pub logits: Vec<Option<f64>>,
    pub none: f64,
    pub calibration: Calibration,
}

impl Learned {
    /// `classes` names the class of each category of the table.
    pub fn new(classes: &[Option<usize>], logits: &[f64], calibration: Calibration) -> Self {
        let logits_of = classes.iter().map(|class| class.map(|class| logits[class])).collect();
        Self { logits: logits_of, none: logits[NONE], calibration }
    }
}

/// A softmax over the categories that anything speaks of, and none of them.
pub fn confidences(rules: &[f64], learned: Option<&Learned>) -> Confidences {
    let calibration = learned.map_or(RULES_ALONE, |learned| learned.calibration);
    let none = calibration.none + learned.map_or(0.0, |learned| learned.none);
    let logits: Vec<Option<f64>> = rules
        .iter()
        .enumerate()
        .map(|(at, points)| match learned.and_then(|learned| learned.logits[at]) {
            Some(logit) => Some(logit + calibration.rules * points),
            // Nothing is known of a category without a rule; beside learned ones it stands where an average one does.
            None => (*points != 0.0).then_some(calibration.rules * points),
        })
        .collect();
    let largest = logits.iter().flatten().fold(none, |largest, logit| largest.max(*logit));
    let mut of: Vec<f64> = logits.iter().map(|logit| logit.map_or(0.0, |logit| libm::exp(logit - largest))).collect();
    let none = libm::exp(none - largest);
    let sum = of.iter().sum::<f64>() + none;
    of.iter_mut().for_each(|confidence| *confidence /= sum);
    Confidences { of, none: none / sum }
}

impl Confidences {
    /// The category that most speaks for, by its place in the table.
    pub fn best(&self) -> Option<(usize, f64)> {
        let better = |best: Option<(usize, f64)>, (at, confidence): (usize, &f64)| match best {
            Some((_, largest)) if largest >= *confidence => best,
            _ => Some((at, *confidence)),
        };
        self.of.iter().enumerate().fold(None, better).filter(|(_, confidence)| *confidence > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &[f64], learned: Option<&Learned>, expected: &str) {
        let confidences = confidences(rules, learned);
        let sum = confidences.of.iter().sum::<f64>() + confidences.none;
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let best = confidences.best().map(|(at, confidence)| format!("{at} {confidence:.2}"));
        assert_eq!(best.unwrap_or_default(), expected, "{rules:?}");
    }

    #[test]
    fn one_rule_of_weight_one_is_just_claimed() {
        check(&[0.0, 1.0, 0.0], None, "1 0.61");
        check(&[0.0, 2.0, 0.0], None, "1 0.82");
        check(&[2.0, 2.0, 0.0], None, "0 0.45");
    }

    #[test]
    fn without_evidence_there_is_no_category() {
        check(&[0.0, 0.0], None, "");
        check(&[], None, "");
        check(&[0.0, -1.0], None, "1 0.15");
    }

    #[test]
    fn an_own_category_stands_beside_learned_ones() {
        let learned =
            Learned { logits: vec![Some(1.0), None], none: -1.0, calibration: Calibration { rules: 1.0, none: 0.0 } };
        check(&[0.0, 0.0], Some(&learned), "0 0.88");
        check(&[0.0, 3.0], Some(&learned), "1 0.87");
    }
}
