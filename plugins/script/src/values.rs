//! What the host asks, as the maps, lists and texts of a script. Fields have the names of the WIT with `_` for `-`.

use chela_sdk::classifier::{Conversation, EventFacts, Role};
use chela_sdk::continuation::{InstructionsRequest, Layer, NextRequest};
use chela_sdk::guard::Request;
use chela_sdk::{Agent, Context, Failure, StepStatus, Task};
use rhai::{Array, Dynamic, INT, Map};
use serde_json::Value;

/// Deeper values are no arguments of a tool.
const DEPTH_MAX: usize = 64;

pub fn strings(texts: &[String]) -> Array {
    texts.iter().map(|text| text.as_str().into()).collect()
}

fn map<const N: usize>(fields: [(&str, Dynamic); N]) -> Map {
    fields.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn number(of: u64) -> Dynamic {
    INT::try_from(of).unwrap_or(INT::MAX).into()
}

/// A call's own fields, and its surroundings beside them.
fn with_context<const N: usize>(fields: [(&str, Dynamic); N], context: &Context) -> Dynamic {
    let mut map = map(fields);
    map.insert("now_ms".into(), number(context.now_ms));
    map.insert("seed".into(), number(context.seed >> 1));
    map.insert("deployment".into(), context.deployment.as_str().into());
    map.insert("locale".into(), context.locale.as_str().into());
    Dynamic::from_map(map)
}

pub fn event(event: &EventFacts, usual: Role, main_agents: &Array, context: &Context) -> Dynamic {
    let fields = [
        ("type", event.event_type.as_str().into()),
        ("agent", event.agent.as_str().into()),
        ("from_agent", event.from_agent.as_str().into()),
        ("to_agent", event.to_agent.as_str().into()),
        ("session_keys", strings(&event.session_keys).into()),
        ("work_session", event.work_session.as_str().into()),
        ("usual", role_word(usual).into()),
        ("main_agents", main_agents.clone().into()),
    ];
    with_context(fields, context)
}

pub fn role_word(role: Role) -> &'static str {
    match role {
        Role::ConversationMain => "conversation.main",
        Role::DelegationSubagent => "delegation.subagent",
        Role::OrchestrationTask => "orchestration.task",
        Role::SystemObservability => "system.observability",
        Role::Other => "other",
    }
}

pub fn conversation(given: &Conversation, table: &Array, context: &Context) -> Dynamic {
    let fields = [
        ("text", given.texts.join("\n").into()),
        ("texts", strings(&given.texts).into()),
        ("participants", strings(&given.participants).into()),
        ("tags", strings(&given.tags).into()),
        ("categories", table.clone().into()),
    ];
    with_context(fields, context)
}

pub fn call(request: &Request) -> Result<Dynamic, Failure> {
    let arguments: Value = serde_json::from_str(&request.arguments)
        .map_err(|error| Failure::InvalidInput(format!("the arguments are not JSON: {error}")))?;
    let fields = [
        ("tool", request.tool.as_str().into()),
        ("arguments", of_json(&arguments)),
        ("agent", agent(&request.agent).into()),
        ("task", task(request.task.as_ref())),
    ];
    Ok(with_context(fields, &request.context))
}

pub fn agent_about_to_run(request: &InstructionsRequest) -> Dynamic {
    let Agent { id, role, session_key } = &request.agent;
    let fields =
        [("id", id.as_str().into()), ("role", role.as_str().into()), ("session_key", session_key.as_str().into())];
    with_context(fields, &request.context)
}

pub fn stop(request: &NextRequest) -> Dynamic {
    let counters = &request.counters;
    let counters = map([
        ("in_a_row", INT::from(counters.in_a_row).into()),
        ("in_a_row_max", INT::from(counters.in_a_row_max).into()),
        ("without_progress", INT::from(counters.without_progress).into()),
        ("requests", INT::from(counters.requests).into()),
        ("requests_max", INT::from(counters.requests_max).into()),
    ]);
    let blocker = request.blocker.as_ref().map(|blocker| {
        map([
            ("kind", blocker.kind.as_str().into()),
            ("reason", blocker.reason.as_str().into()),
            ("action", blocker.action.as_str().into()),
            ("owner", blocker.owner.as_str().into()),
        ])
    });
    let fields = [
        ("agent", agent(&request.agent).into()),
        ("layer", layer_word(request.layer).into()),
        ("task", task(request.task.as_ref())),
        ("blocker", blocker.map_or(Dynamic::UNIT, Dynamic::from_map)),
        ("counters", counters.into()),
        ("idle_ms", number(request.idle_ms)),
        ("last_error", request.last_error.as_str().into()),
        ("same_error", INT::from(request.same_error).into()),
        ("earlier", request.earlier.as_str().into()),
    ];
    with_context(fields, &request.context)
}

fn layer_word(layer: Layer) -> &'static str {
    match layer {
        Layer::SelfDriving => "self-driving",
        Layer::EventBased => "event-based",
        Layer::Polling => "polling",
        Layer::Unblock => "unblock",
        Layer::Backlog => "backlog",
        Layer::Zombie => "zombie",
        Layer::Other => "other",
    }
}

fn agent(agent: &Agent) -> Map {
    map([
        ("id", agent.id.as_str().into()),
        ("role", agent.role.as_str().into()),
        ("session_key", agent.session_key.as_str().into()),
    ])
}

fn task(task: Option<&Task>) -> Dynamic {
    let Some(task) = task else { return Dynamic::UNIT };
    let status = |status| match status {
        StepStatus::Pending => "pending",
        StepStatus::InProgress => "in_progress",
        StepStatus::Done => "done",
        StepStatus::Skipped => "skipped",
        StepStatus::Other => "other",
    };
    let step = |step: &chela_sdk::Step| {
        Dynamic::from_map(map([
            ("id", step.id.as_str().into()),
            ("content", step.content.as_str().into()),
            ("status", status(step.status).into()),
        ]))
    };
    Dynamic::from_map(map([
        ("id", task.id.as_str().into()),
        ("description", task.description.as_str().into()),
        ("status", task.status.as_str().into()),
        ("steps", task.steps.iter().map(step).collect::<Array>().into()),
    ]))
}

/// JSON as a script's value. A number that is no whole one of 64 bits becomes a float.
pub fn of_json(value: &Value) -> Dynamic {
    match value {
        Value::Null => Dynamic::UNIT,
        Value::Bool(truth) => (*truth).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64().unwrap_or(f64::NAN).into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(items) => items.iter().map(of_json).collect::<Array>().into(),
        Value::Object(fields) => {
            Dynamic::from_map(fields.iter().map(|(name, value)| (name.as_str().into(), of_json(value))).collect())
        }
    }
}

/// A script's value as JSON; functions and answers are none.
pub fn to_json(value: &Dynamic) -> Result<Value, String> {
    to_json_at(value, 0)
}

fn to_json_at(value: &Dynamic, depth: usize) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!("the arguments are more than {DEPTH_MAX} levels deep"));
    }
    if value.is_unit() {
        return Ok(Value::Null);
    }
    if let Ok(truth) = value.as_bool() {
        return Ok(truth.into());
    }
    if let Ok(whole) = value.as_int() {
        return Ok(whole.into());
    }
    if let Ok(number) = value.as_float() {
        return serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| format!("{number} is no number of JSON"));
    }
    if value.is_string() || value.is_char() {
        return Ok(value.to_string().into());
    }
    if let Some(items) = value.read_lock::<Array>() {
        return items.iter().map(|item| to_json_at(item, depth + 1)).collect();
    }
    if let Some(fields) = value.read_lock::<Map>() {
        let field = |(name, value): (&_, &Dynamic)| Ok((ToString::to_string(name), to_json_at(value, depth + 1)?));
        return fields.iter().map(field).collect::<Result<serde_json::Map<_, _>, String>>().map(Value::Object);
    }
    Err(format!("a value of the type {} is not JSON", value.type_name()))
}
