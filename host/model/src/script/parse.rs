//! Reads a script and says what to change in one that is not right.
//! Keeps true: an error names the rule, the step and the key; a key that means nothing is refused instead of passed over.
//! Never: accepts more than its bounds.

use serde_json::{Map, Value};

use super::fill::unknown_placeholder;
use super::{Act, Call, OTHERWISE, Rule, Script, ScriptError, Step};
use crate::FailureKind;

pub(super) const SCRIPT_BYTES_MAX: usize = 1024 * 1024;
const RULES_MAX: usize = 1000;
const STEPS_MAX: usize = 50;
const CALLS_MAX: usize = 20;
const WORDS_MAX: usize = 100;
const ARGS_DEPTH_MAX: usize = 16;
const DELAY_MS_MAX: u64 = 600_000;
const TIMES_MAX: u64 = 1000;

type Checked<T> = Result<T, ScriptError>;

pub(super) fn script(text: &str) -> Checked<Script> {
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(ScriptError::TooLong { bytes: text.len() });
    }
    let value =
        chela_json5::read(text).map_err(|unread| ScriptError::Syntax { place: unread.place, problem: unread.words })?;
    let top = Keys::of(&value, "the script", &["rules", "otherwise"])?;
    let rules = match top.get("rules") {
        None => &[][..],
        Some(_) => top.list("rules", "`[{ steps: [...] }]`", RULES_MAX)?,
    };
    let rules = rules.iter().zip(1..).map(|(value, number)| rule(value, &format!("rule {number}")));
    let otherwise = top.filled("otherwise")?.unwrap_or(OTHERWISE);
    Ok(Script { rules: rules.collect::<Checked<_>>()?, otherwise: otherwise.to_owned() })
}

fn rule(value: &Value, place: &str) -> Checked<Rule> {
    let keys = Keys::of(value, place, &["agent", "when", "steps"])?;
    let steps = keys.list("steps", "a list of steps, as `[{ say: \"...\" }]`", STEPS_MAX)?;
    let steps = steps.iter().zip(1..).map(|(value, number)| step(value, &format!("{place}, step {number}")));
    Ok(Rule {
        agent: keys.text("agent")?.map(str::to_owned),
        when: when(&keys)?,
        steps: steps.collect::<Checked<_>>()?,
    })
}

fn when(keys: &Keys) -> Checked<Vec<String>> {
    let problem =
        || keys.problem("when", "write a text, or a list of texts of which one must occur; leave it out for always");
    let words = match keys.get("when") {
        None => return Ok(Vec::new()),
        Some(word @ Value::String(_)) => std::slice::from_ref(word),
        Some(_) => keys.list("when", "a text or a list of texts", WORDS_MAX)?,
    };
    let word = |word: &Value| word.as_str().filter(|word| !word.is_empty()).map(str::to_lowercase).ok_or_else(problem);
    if words.is_empty() { Err(problem()) } else { words.iter().map(word).collect() }
}

fn step(value: &Value, place: &str) -> Checked<Step> {
    let keys = Keys::of(value, place, &["say", "call", "calls", "fail", "delayMs"])?;
    let delay_ms = keys.number("delayMs", 0, DELAY_MS_MAX)?.unwrap_or(0);
    let spoken: Vec<&str> = ["say", "call", "calls"].into_iter().filter(|key| keys.get(key).is_some()).collect();
    let act = match (keys.get("fail"), spoken.as_slice()) {
        (Some(fail), []) => failing(fail, place)?,
        (Some(_), [other, ..]) => return Err(keys.problem(other, "leave it out, since the step has `fail`")),
        (None, []) => return Err(keys.problem("say", "write `say`, `call`, `calls` or `fail`")),
        (None, [.., "call", "calls"]) => return Err(keys.problem("call", "put it into `calls`")),
        (None, _) => Act::Answer { say: keys.filled("say")?.unwrap_or_default().to_owned(), calls: calls(&keys)? },
    };
    Ok(Step { act, delay_ms })
}

fn calls(keys: &Keys) -> Checked<Vec<Call>> {
    if let Some(one) = keys.get("call") {
        return Ok(vec![call(one, &format!("{}, `call`", keys.place))?]);
    }
    if keys.get("calls").is_none() {
        return Ok(Vec::new());
    }
    let list = keys.list("calls", "a list of calls, as `[{ tool: \"...\", args: {} }]`", CALLS_MAX)?;
    list.iter().zip(1..).map(|(value, number)| call(value, &format!("{}, `calls` {number}", keys.place))).collect()
}

fn call(value: &Value, place: &str) -> Checked<Call> {
    let keys = Keys::of(value, place, &["tool", "args"])?;
    let tool = keys.text("tool")?.filter(|tool| !tool.is_empty());
    let tool = tool.ok_or_else(|| keys.problem("tool", "write the name of a tool"))?.to_owned();
    let args = match keys.get("args") {
        None => Map::new(),
        Some(Value::Object(args)) => args.clone(),
        Some(_) => return Err(keys.problem("args", "write an object, as `{ description: \"...\" }`")),
    };
    args.values().try_for_each(|value| args_value(&keys, value, 1))?;
    Ok(Call { tool, args })
}

fn args_value(keys: &Keys, value: &Value, depth: usize) -> Checked<()> {
    match value {
        Value::Array(_) | Value::Object(_) if depth == ARGS_DEPTH_MAX => {
            Err(keys.problem("args", &format!("nest no deeper than {ARGS_DEPTH_MAX} levels")))
        }
        Value::Array(items) => items.iter().try_for_each(|item| args_value(keys, item, depth + 1)),
        Value::Object(object) => object.values().try_for_each(|item| args_value(keys, item, depth + 1)),
        Value::String(text) => keys.placeholders("args", text),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

fn failing(value: &Value, place: &str) -> Checked<Act> {
    let keys = Keys::of(value, &format!("{place}, `fail`"), &["kind", "message", "times"])?;
    let kind = keys.text("kind")?.and_then(FailureKind::parse).ok_or_else(|| {
        let words = FailureKind::ALL.map(FailureKind::as_str).join(", ");
        keys.problem("kind", &format!("write one of {words}"))
    })?;
    let message = keys.filled("message")?.unwrap_or("the script lets the provider fail").to_owned();
    let times = keys.number("times", 1, TIMES_MAX)?.unwrap_or(1);
    Ok(Act::Fail { kind, message, times: u32::try_from(times).unwrap_or(u32::MAX) })
}

/// An object and where it stands.
struct Keys<'a> {
    keys: &'a Map<String, Value>,
    place: String,
}

impl<'a> Keys<'a> {
    fn of(value: &'a Value, place: &str, known: &[&str]) -> Checked<Self> {
        let names = known.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
        let problem = |problem: String| ScriptError::Rule { place: place.to_owned(), problem };
        let keys = value.as_object().ok_or_else(|| problem(format!("write an object with the keys {names}")))?;
        match keys.keys().find(|key| !known.contains(&key.as_str())) {
            Some(key) => Err(problem(format!("the key `{key}` means nothing here; the keys are {names}"))),
            None => Ok(Self { keys, place: place.to_owned() }),
        }
    }

    fn get(&self, key: &str) -> Option<&'a Value> {
        self.keys.get(key)
    }

    fn problem(&self, key: &str, problem: &str) -> ScriptError {
        ScriptError::Rule { place: format!("{}, `{key}`", self.place), problem: problem.to_owned() }
    }

    fn text(&self, key: &str) -> Checked<Option<&'a str>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.problem(key, "write a text"))
    }

    /// A text with placeholders.
    fn filled(&self, key: &str) -> Checked<Option<&'a str>> {
        let text = self.text(key)?;
        self.placeholders(key, text.unwrap_or_default())?;
        Ok(text)
    }

    fn placeholders(&self, key: &str, text: &str) -> Checked<()> {
        let Some(name) = unknown_placeholder(text) else { return Ok(()) };
        let known = "write {{input}}, {{result}}, {{result.KEY}}, {{agent}} or {{turn}}";
        Err(self.problem(key, &format!("the placeholder {{{{{name}}}}} is not known; {known}")))
    }

    fn number(&self, key: &str, least: u64, most: u64) -> Checked<Option<u64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = value.as_u64().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| self.problem(key, &format!("write a whole number from {least} to {most}")))
    }

    fn list(&self, key: &str, wanted: &str, most: usize) -> Checked<&'a [Value]> {
        match self.get(key) {
            Some(Value::Array(items)) if items.len() <= most => Ok(items),
            Some(Value::Array(_)) => Err(self.problem(key, &format!("keep the list within {most}"))),
            Some(_) | None => Err(self.problem(key, &format!("write {wanted}"))),
        }
    }
}
