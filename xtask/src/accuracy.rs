//! How good the default classifier is on conversations that it was not made from.

use std::fs;

use anyhow::{Context, Result, anyhow};
use chela_sdk::Context as Surroundings;
use chela_sdk::classifier::{CategoriesRequest, Classifier, Conversation};
use rules::Rules;
use rules::learned::CATEGORIES;
use serde::Deserialize;

use crate::cargo::root;

const HELD_OUT: &str = "plugins/rules/corpus/held-out.ndjson";

#[derive(Deserialize)]
struct Item {
    texts: Vec<String>,
    participants: Vec<String>,
    tags: Vec<String>,
    category: Option<String>,
    lang: String,
}

/// Shares of the held-out items, in percent.
pub struct Figures {
    pub items: usize,
    /// Right category, or rightly none.
    pub accuracy: f64,
    /// Right ones of those that were given a category.
    pub precision: f64,
    /// Given a category, of those that have one.
    pub coverage: f64,
}

/// A table of all of it.
pub fn print() -> Result<()> {
    println!(
        "{:<24} {:<5} {:>5} {:>9} {:>10} {:>9}",
        "classifier", "lang", "items", "accuracy", "precision", "coverage"
    );
    for (name, config) in [
        ("rules and learned", "{}"),
        ("rules alone", r#"{"learned": false}"#),
        ("learned alone", r#"{"extends": "none"}"#),
    ] {
        for language in [None, Some("ko"), Some("en")] {
            let Figures { items, accuracy, precision, coverage } = measure(config, language)?;
            let language = language.unwrap_or("all");
            println!("{name:<24} {language:<5} {items:>5} {accuracy:>9} {precision:>10} {coverage:>9}");
        }
    }
    Ok(())
}

/// Of the classifier with this configuration, on the items of a language; `None` for all.
pub fn measure(config: &str, language: Option<&str>) -> Result<Figures> {
    let rules = Rules::new(config).map_err(|error| anyhow!("{}: {}", error.path, error.message))?;
    let text = fs::read_to_string(root().join(HELD_OUT)).with_context(|| format!("cannot read {HELD_OUT}"))?;
    let categories = CATEGORIES.map(str::to_owned);
    let (mut items, mut with_category, mut right, mut claimed, mut claimed_right, mut covered) = (0, 0, 0, 0, 0, 0);
    for line in text.lines() {
        let item: Item = serde_json::from_str(line).with_context(|| format!("a line of {HELD_OUT}"))?;
        if language.is_some_and(|language| language != item.lang) {
            continue;
        }
        let answer = category(&rules, &categories, item.texts, item.participants, item.tags)?;
        items += 1;
        with_category += usize::from(item.category.is_some());
        right += usize::from(answer == item.category);
        claimed += usize::from(answer.is_some());
        claimed_right += usize::from(answer.is_some() && answer == item.category);
        covered += usize::from(answer.is_some() && item.category.is_some());
    }
    let percent = |part: usize, whole: usize| (part as f64 * 1_000.0 / whole.max(1) as f64).round() / 10.0;
    Ok(Figures {
        items,
        accuracy: percent(right, items),
        precision: percent(claimed_right, claimed),
        coverage: percent(covered, with_category),
    })
}

fn category(
    rules: &Rules,
    categories: &[String],
    texts: Vec<String>,
    participants: Vec<String>,
    tags: Vec<String>,
) -> Result<Option<String>> {
    let context = Surroundings { now_ms: 0, seed: 0, deployment: String::new(), locale: String::new(), budget_ms: 50 };
    let conversations = vec![Conversation { texts, participants, tags }];
    let request = CategoriesRequest { context, categories: categories.to_vec(), conversations, attrs: Vec::new() };
    let mut answers = rules.categories(request).map_err(|failure| anyhow!("{failure:?}"))?;
    Ok(answers.pop().and_then(|answer| answer.primary))
}
