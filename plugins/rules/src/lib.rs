//! The default classifier: roles of events by their facts, categories of conversations by rules and learned weights.
//! Keeps true: an answer below `claimAt` has no category, and no answer names one outside the deployment's table.

pub mod config;
pub mod decide;
pub mod learned;
pub mod matcher;
mod patterns;
pub mod text;

use chela_sdk::classifier::{CategoriesRequest, Classification, Classifier, Conversation, Role, RolesRequest, Source};
use chela_sdk::{ConfigError, Failure, Plugin};

use config::Config;
use decide::{Confidences, Learned, confidences};
use learned::{CATEGORIES, Model};
use matcher::{Hit, Matcher};
use text::Text;

/// Trained by `cargo xtask train` from `corpus/training.ndjson`.
const WEIGHTS: &[u8] = include_bytes!("weights.bin");

const SECONDARY_MAX: usize = 3;
/// A further category is named from here on.
const SECONDARY_AT: f64 = 0.15;
const SUB_TAGS_MAX: usize = 8;
/// So many words of a reason are named, and so much of each: a pattern can be long.
const NAMED_MAX: usize = 3;
const NAME_CHARS_MAX: usize = 40;
/// Points of rules from which on they carry a decision, when no category has more.
const CARRIED_AT: f64 = 1.0;

pub struct Rules {
    matcher: Matcher,
    model: Option<Model<'static>>,
    claim_at: f64,
}

impl Plugin for Rules {
    const CONFIG_SCHEMA: &'static str = config::SCHEMA;

    fn configure(json: &str) -> Result<Self, ConfigError> {
        Self::new(json)
    }
}

impl Classifier for Rules {
    fn roles(&self, request: RolesRequest) -> Result<Vec<Role>, Failure> {
        Ok(request.events.iter().map(|event| chela_sdk::roles::usual(event, &request.main_agents)).collect())
    }

    fn categories(&self, request: CategoriesRequest) -> Result<Vec<Classification>, Failure> {
        let table = Table::new(&request.categories, &self.matcher);
        Ok(request.conversations.iter().map(|conversation| self.classify(conversation, &table)).collect())
    }
}

/// Where the categories of a request stand among those of the rules and of the model.
struct Table<'a> {
    keys: &'a [String],
    of_rules: Vec<Option<usize>>,
    of_model: Vec<Option<usize>>,
}

impl<'a> Table<'a> {
    fn new(keys: &'a [String], matcher: &Matcher) -> Self {
        let place = |key: &String| matcher.categories().iter().position(|other| other == key);
        let class = |key: &String| CATEGORIES.iter().position(|other| other == key);
        Self { keys, of_rules: keys.iter().map(place).collect(), of_model: keys.iter().map(class).collect() }
    }
}

impl Rules {
    /// The same as `configure`, for those that do not know the SDK.
    pub fn new(json: &str) -> Result<Self, ConfigError> {
        let config = Config::parse(json)?;
        let matcher = Matcher::new(config.inherited(), config.rules)?;
        let model = if config.learned { Model::from_bytes(WEIGHTS) } else { None };
        Ok(Self { matcher, model, claim_at: config.claim_at })
    }

    /// The points of rules for each of `keys`, and what matched.
    pub fn points(&self, text: &Text, participants: &[String], keys: &[String]) -> Vec<f64> {
        let table = Table::new(keys, &self.matcher);
        self.points_of(&self.matcher.hits(text, participants), &table)
    }

    fn points_of(&self, hits: &[Hit], table: &Table<'_>) -> Vec<f64> {
        let scores = self.matcher.scores(hits);
        table.of_rules.iter().map(|place| place.map_or(0.0, |place| scores[place])).collect()
    }

    fn classify(&self, conversation: &Conversation, table: &Table<'_>) -> Classification {
        let text = Text::of(&conversation.texts, &conversation.tags);
        let hits = self.matcher.hits(&text, &conversation.participants);
        let points = self.points_of(&hits, table);
        let learned = self.model.as_ref().filter(|_| table.of_model.iter().any(Option::is_some)).and_then(|model| {
            let said = model.say(&text.all);
            (said.known > 0).then(|| Learned::new(&table.of_model, &said.logits, model.calibration))
        });
        let confidences = confidences(&points, learned.as_ref());
        let Some((best, confidence)) = confidences.best() else { return nothing("nothing to go by".into(), 0.0) };
        let named = self.named(&hits, table.of_rules[best]);
        if confidence < self.claim_at {
            let behind = if named.is_empty() { String::new() } else { format!(" ({named})") };
            return nothing(format!("closest: {} {confidence:.2}{behind}", table.keys[best]), confidence);
        }
        let carried = points[best] >= CARRIED_AT && points.iter().all(|other| *other <= points[best]);
        let said = learned.map(|learned| confidences_of_learned(&learned, best));
        let secondary = secondary(&confidences, best);
        let places = [best].iter().chain(&secondary).filter_map(|at| table.of_rules[*at]).collect::<Vec<_>>();
        Classification {
            primary: Some(table.keys[best].clone()),
            sub_tags: self.sub_tags(&hits, &places),
            secondary: secondary.into_iter().map(|at| table.keys[at].clone()).collect(),
            confidence,
            source: if carried { Source::Rule } else { Source::Heuristic },
            reason: match said {
                Some(said) if named.is_empty() => format!("learned {said:.2}"),
                Some(said) => format!("{named}; learned {said:.2}"),
                None => named,
            },
        }
    }

    /// What spoke most for a category of the rules, in words.
    fn named(&self, hits: &[Hit], place: Option<usize>) -> String {
        let Some(place) = place else { return String::new() };
        let mut hits: Vec<Hit> =
            hits.iter().copied().filter(|hit| self.matcher.speaks_for(*hit) == Some(place)).collect();
        hits.sort_by(|one, other| self.matcher.weight(*other).total_cmp(&self.matcher.weight(*one)));
        let mut names: Vec<&str> = Vec::with_capacity(NAMED_MAX);
        for name in hits.iter().map(|hit| self.matcher.name(*hit)) {
            // `배포 후` says what `배포` says.
            if names.len() < NAMED_MAX && !names.iter().any(|other| other.contains(name)) {
                names.push(name);
            }
        }
        let short = |name: &&str| name.chars().take(NAME_CHARS_MAX).collect::<String>();
        names.iter().map(short).collect::<Vec<_>>().join(", ")
    }

    /// The sub-tags of rules that spoke for the named categories, in their order.
    fn sub_tags(&self, hits: &[Hit], places: &[usize]) -> Vec<String> {
        let mut tags: Vec<String> = Vec::new();
        for place in places {
            let spoke = hits.iter().filter(|hit| self.matcher.speaks_for(**hit) == Some(*place));
            for tag in spoke.filter_map(|hit| self.matcher.sub_tag(*hit)) {
                if tags.len() < SUB_TAGS_MAX && !tags.iter().any(|other| other == tag) {
                    tags.push(tag.to_owned());
                }
            }
        }
        tags
    }
}

/// What the learned part by itself makes of a category.
fn confidences_of_learned(learned: &Learned, at: usize) -> f64 {
    confidences(&vec![0.0; learned.logits.len()], Some(learned)).of[at]
}

/// Further categories with solid support, the strongest first.
fn secondary(confidences: &Confidences, best: usize) -> Vec<usize> {
    let solid = |at: &usize| *at != best && confidences.of[*at] >= SECONDARY_AT;
    let mut further: Vec<usize> = (0..confidences.of.len()).filter(solid).collect();
    further.sort_by(|one, other| confidences.of[*other].total_cmp(&confidences.of[*one]));
    further.truncate(SECONDARY_MAX);
    further
}

fn nothing(reason: String, confidence: f64) -> Classification {
    let (secondary, sub_tags) = (Vec::new(), Vec::new());
    Classification { primary: None, secondary, sub_tags, confidence, source: Source::Heuristic, reason }
}

chela_sdk::classifier!(Rules);

#[cfg(test)]
mod tests;
