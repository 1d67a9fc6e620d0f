//! What a script says, as an answer of its world. `()` is the answer of a function that has nothing to say.

use chela_sdk::classifier::{Classification, Role, Source};
use chela_sdk::continuation::{Action, Layer, NextRequest};
use chela_sdk::guard::{Refusal, Verdict};
use chela_sdk::{Failure, StepStatus};
use rhai::{Array, Dynamic, Map};

use crate::problem;
use crate::values::role_word;
use crate::words::{CONFIDENCE, Word};

const ROLES: [Role; 4] =
    [Role::ConversationMain, Role::DelegationSubagent, Role::OrchestrationTask, Role::SystemObservability];

/// One of the four words; nothing means the usual one.
pub fn role(said: Dynamic, usual: Role) -> Result<Role, Failure> {
    if said.is_unit() {
        return Ok(usual);
    }
    let word = if said.is_string() { said.to_string() } else { String::new() };
    let found = ROLES.into_iter().find(|role| role_word(*role) == word);
    found.ok_or_else(|| {
        problem::answer("role", &format!("a role is one of {}", ROLES.map(role_word).join(", ")), &shown(&said))
    })
}

/// A key, a map as `category(…)` makes it, or nothing.
pub fn classification(said: Dynamic) -> Result<Classification, Failure> {
    let mut answer = Classification {
        primary: None,
        secondary: Vec::new(),
        sub_tags: Vec::new(),
        confidence: 0.0,
        source: Source::Rule,
        reason: "the script found none".into(),
    };
    if said.is_unit() {
        return Ok(answer);
    }
    if said.is_string() {
        let key = said.to_string();
        answer.reason = format!("the script says {key}");
        (answer.primary, answer.confidence) = (Some(key), CONFIDENCE);
        return Ok(answer);
    }
    let bad = |found: &str| {
        problem::answer("categories", "answer a category's key, `category(key, confidence, reason)` or `none()`", found)
    };
    let Some(map) = said.read_lock::<Map>() else { return Err(bad(&shown(&said))) };
    for (name, value) in map.iter() {
        let field = format!("{} as `{name}`", shown(value));
        match name.as_str() {
            "primary" if value.is_unit() => {}
            "primary" if value.is_string() => answer.primary = Some(value.to_string()),
            "secondary" => answer.secondary = texts(value).ok_or_else(|| bad(&field))?,
            "sub_tags" => answer.sub_tags = texts(value).ok_or_else(|| bad(&field))?,
            "confidence" => {
                let whole = value.as_int().map(|whole| whole as f64);
                answer.confidence = value.as_float().or(whole).map_err(|_| bad(&field))?;
            }
            "source" if value.to_string() == "rule" => answer.source = Source::Rule,
            "source" if value.to_string() == "heuristic" => answer.source = Source::Heuristic,
            "reason" if value.is_string() => answer.reason = value.to_string(),
            _ => return Err(bad(&field)),
        }
    }
    if let Some(key) = answer.primary.as_ref().filter(|_| answer.reason.is_empty() || !map.contains_key("reason")) {
        answer.reason = format!("the script says {key}");
    }
    Ok(answer)
}

/// One of the guard's words; nothing allows the call.
pub fn verdict(said: Dynamic) -> Result<Verdict, Failure> {
    if said.is_unit() {
        return Ok(Verdict::Allow);
    }
    let wanted =
        "answer `allow()`, `allow_with(warning)`, `block(reason, instructions, steps)` or `rewrite(arguments)`";
    let bad = || problem::answer("before_tool_call", wanted, &shown(&said));
    match said.clone().try_cast::<Word>().ok_or_else(bad)? {
        Word::Allow => Ok(Verdict::Allow),
        Word::AllowWith(warning) => Ok(Verdict::AllowWith(warning)),
        Word::Block { reason, instructions, remaining } => {
            Ok(Verdict::Block(Refusal { reason, remaining, instructions }))
        }
        Word::Rewrite(arguments) => Ok(Verdict::Rewrite(arguments)),
        Word::Send(_) | Word::Skip(_) | Word::Backoff(_) => Err(bad()),
    }
}

pub fn instructions(said: Dynamic) -> Result<String, Failure> {
    match () {
        () if said.is_unit() => Ok(String::new()),
        () if said.is_string() => Ok(said.to_string()),
        () => Err(problem::answer("instructions", "answer a text", &shown(&said))),
    }
}

/// A word of the continuation, or the prompt itself; nothing skips.
pub fn action(said: Dynamic) -> Result<Action, Failure> {
    if said.is_unit() {
        return Ok(Action::Skip("the script says nothing".into()));
    }
    if said.is_string() {
        return Ok(Action::Send(said.to_string()));
    }
    let bad = || problem::answer("next", "answer `send(prompt)`, `skip(reason)` or `backoff(ms)`", &shown(&said));
    match said.clone().try_cast::<Word>().ok_or_else(bad)? {
        Word::Send(prompt) => Ok(Action::Send(prompt)),
        Word::Skip(reason) => Ok(Action::Skip(reason)),
        Word::Backoff(ms) => u64::try_from(ms).map(Action::Backoff).map_err(|_| bad()),
        Word::Allow | Word::AllowWith(_) | Word::Block { .. } | Word::Rewrite(_) => Err(bad()),
    }
}

/// For a script that only gives instructions: what the gateway itself would say.
pub fn plain_prompt(request: &NextRequest) -> Action {
    let Some(task) = &request.task else { return Action::Skip("there is no task".into()) };
    let is_open = |status| !matches!(status, StepStatus::Done | StepStatus::Skipped);
    let open = task.steps.iter().filter(|step| is_open(step.status)).count();
    match request.layer {
        Layer::Other => Action::Skip("a layer of a later version".into()),
        Layer::SelfDriving | Layer::EventBased if open == 0 => Action::Skip("no step is open".into()),
        Layer::Unblock => {
            let (owner, reason) = match &request.blocker {
                Some(blocker) => (blocker.owner.as_str(), blocker.reason.as_str()),
                None => ("its agent", "it does not say why"),
            };
            let task = &task.description;
            Action::Send(format!("The task \"{task}\" of {owner} is blocked: {reason}. Please help to unblock it."))
        }
        _ => Action::Send(format!("Continue the task \"{}\": {open} steps are open.", task.description)),
    }
}

/// One text or a list of them.
fn texts(value: &Dynamic) -> Option<Vec<String>> {
    if value.is_string() {
        return Some(vec![value.to_string()]);
    }
    let items = value.read_lock::<Array>()?;
    items.iter().map(|item| item.is_string().then(|| item.to_string())).collect()
}

/// A value in a message: short, whatever it holds.
fn shown(value: &Dynamic) -> String {
    match () {
        () if value.is_string() => format!("{:?}", value.to_string().chars().take(60).collect::<String>()),
        () if value.is::<Word>() => "a word of another world".into(),
        () if value.is_map() || value.is_array() => format!("a {}", value.type_name()),
        () => value.to_string().chars().take(60).collect(),
    }
}
