//! The words that a script answers with, and the few that it asks with.

use crate::problem::Misuse;
use rhai::{Array, Dynamic, Engine, INT, ImmutableString, Map};

/// What a guard or a continuation says; a script makes one and returns it.
#[derive(Clone, Debug, PartialEq)]
pub enum Word {
    Allow,
    AllowWith(String),
    Block { reason: String, instructions: Vec<String>, remaining: Vec<String> },
    Rewrite(String),
    Send(String),
    Skip(String),
    Backoff(INT),
}

type Fallible<T> = Result<T, Box<rhai::EvalAltResult>>;

pub fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Word>("answer");
    guards(engine);
    engine.register_fn("send", |prompt: ImmutableString| Word::Send(prompt.into()));
    engine.register_fn("skip", |reason: ImmutableString| Word::Skip(reason.into()));
    engine.register_fn("backoff", |ms: INT| Word::Backoff(ms));
    categories(engine);
    engine.register_fn("open_steps", open_steps);
    engine.register_fn("mentions", |text: &str, word: &str| contains(&text.to_lowercase(), word));
    engine.register_fn("mentions", |text: &str, words: Array| any(&text.to_lowercase(), &words));
    engine.register_fn("mentions", |texts: Array, word: &str| texts.iter().any(|text| contains(&lowered(text), word)));
    engine.register_fn("mentions", |texts: Array, words: Array| texts.iter().any(|text| any(&lowered(text), &words)));
}

fn guards(engine: &mut Engine) {
    engine.register_fn("allow", || Word::Allow);
    engine.register_fn("allow_with", |warning: ImmutableString| Word::AllowWith(warning.into()));
    let block = |reason: ImmutableString, instructions: &Dynamic, remaining: &Dynamic| -> Fallible<Word> {
        let (instructions, remaining) = (lines("instructions", instructions)?, lines("ids of steps", remaining)?);
        Ok(Word::Block { reason: reason.into(), instructions, remaining })
    };
    engine.register_fn("block", move |reason: ImmutableString| block(reason, &Dynamic::UNIT, &Dynamic::UNIT));
    engine.register_fn("block", move |reason: ImmutableString, instructions: Dynamic| {
        block(reason, &instructions, &Dynamic::UNIT)
    });
    engine.register_fn("block", move |reason: ImmutableString, instructions: Dynamic, remaining: Dynamic| {
        block(reason, &instructions, &remaining)
    });
    engine.register_fn("rewrite", |arguments: Map| -> Fallible<Word> {
        let value = crate::values::to_json(&Dynamic::from_map(arguments)).map_err(Misuse)?;
        Ok(Word::Rewrite(value.to_string()))
    });
}

/// A category is a map, so that a script can add `secondary` and `sub_tags` to it.
fn categories(engine: &mut Engine) {
    let category = |key: ImmutableString, confidence: f64, reason: ImmutableString| -> Map {
        let mut map = Map::new();
        map.insert("primary".into(), key.into());
        map.insert("confidence".into(), confidence.into());
        map.insert("reason".into(), reason.into());
        map
    };
    engine.register_fn("category", move |key: ImmutableString| category(key, CONFIDENCE, "".into()));
    engine.register_fn("category", move |key: ImmutableString, confidence: f64| category(key, confidence, "".into()));
    engine.register_fn("category", category);
    let none = |reason: ImmutableString| -> Map { Map::from([("reason".into(), reason.into())]) };
    engine.register_fn("none", move || none("the script found none".into()));
    engine.register_fn("none", none);
}

/// How sure a script is that does not say how sure it is.
pub const CONFIDENCE: f64 = 0.8;

/// One line, several, or none.
fn lines(what: &str, given: &Dynamic) -> Fallible<Vec<String>> {
    if given.is_unit() {
        return Ok(Vec::new());
    }
    if given.is_string() {
        return Ok(vec![given.to_string()]);
    }
    let items = given.read_lock::<Array>().filter(|items| items.iter().all(Dynamic::is_string));
    match items {
        Some(items) => Ok(items.iter().map(ToString::to_string).collect()),
        None => Err(Misuse(format!("{what} are a text or a list of texts, not {}", given.type_name())).into()),
    }
}

/// The ids of a task's open steps; none when there is no task.
fn open_steps(task: Dynamic) -> Array {
    let Some(task) = task.try_cast::<Map>() else { return Array::new() };
    let steps = task.get("steps").and_then(|steps| steps.clone().try_cast::<Array>()).unwrap_or_default();
    let open = steps.into_iter().filter_map(|step| {
        let step = step.try_cast::<Map>()?;
        let status = step.get("status")?.to_string();
        (status != "done" && status != "skipped").then(|| step.get("id").cloned())?
    });
    open.collect()
}

fn lowered(text: &Dynamic) -> String {
    text.to_string().to_lowercase()
}

fn contains(lowered: &str, word: &str) -> bool {
    !word.is_empty() && lowered.contains(&word.to_lowercase())
}

fn any(lowered: &str, words: &[Dynamic]) -> bool {
    words.iter().any(|word| contains(lowered, &word.to_string()))
}
