//! What a change is about, for its line in the audit log: the slot, the session, the job, the task.
//! Keeps true: only parameters that are listed here are named, few and short.
//! Never: names a text, a value or a secret of a change.

use serde_json::{Map, Value};

/// Of one parameter, and of one name in a configuration.
const CHARS_MAX: usize = 200;
/// Parts of a configuration that one line names.
const PARTS_MAX: usize = 16;

/// Parameters of methods, paths and forms that name what is changed.
const PARAMS: [&str; 11] =
    ["slot", "source", "name", "key", "sessionKey", "agentId", "runId", "taskId", "id", "channel", "to"];
/// The same of tools, in their `args`.
const ARGS: [&str; 10] =
    ["task_id", "plan_id", "step_id", "milestone_id", "item_id", "todo_id", "agentId", "sessionKey", "target", "path"];

/// Parameters by their own names; `config` has the parts of a configuration that are changed.
pub(in crate::edge) type Of = Map<String, Value>;

/// What is said of a change with these parameters; empty where none of them names anything.
pub(in crate::edge) fn of(params: &Value) -> Of {
    let mut of = named(params, &PARAMS);
    let parts = params.get("raw").and_then(Value::as_str).map(parts_of).unwrap_or_default();
    if !parts.is_empty() {
        of.insert("config".to_owned(), Value::Array(parts));
    }
    let args = params.get("args").map(|args| named(args, &ARGS)).unwrap_or_default();
    if !args.is_empty() {
        of.insert("args".to_owned(), Value::Object(args));
    }
    of
}

fn named(params: &Value, names: &[&str]) -> Of {
    let one = |name: &&str| Some(((*name).to_owned(), short(params.get(*name)?.as_str()?)?));
    names.iter().filter_map(one).collect()
}

/// The top-level keys of a change of the configuration.
fn parts_of(raw: &str) -> Vec<Value> {
    let patch = crate::config::json5_value(raw).unwrap_or_default();
    let keys = patch.as_object().into_iter().flat_map(Map::keys);
    keys.filter_map(|key| short(key)).take(PARTS_MAX).collect()
}

/// On one line, and not at any length; none where nothing is left.
fn short(text: &str) -> Option<Value> {
    let text: String = text.chars().filter(|c| !c.is_control()).take(CHARS_MAX).collect();
    (!text.is_empty()).then_some(Value::String(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(params: Value, expected: Value) {
        assert_eq!(Value::Object(of(&params)), expected, "{params}");
    }

    #[test]
    fn a_change_is_named_by_what_it_is_about() {
        check(json!({}), json!({}));
        check(Value::Null, json!({}));
        check(json!({ "slot": "guard:x" }), json!({ "slot": "guard:x" }));
        check(json!({ "key": "agent:eden:main", "deleteTranscript": true }), json!({ "key": "agent:eden:main" }));
        check(json!({ "id": 7, "taskId": null, "runId": "" }), json!({}));
        check(json!({ "raw": "{ limits: { bodyBytes: 7 }, hub: null }" }), json!({ "config": ["limits", "hub"] }));
        check(json!({ "raw": "{ limits:" }), json!({}));
        check(json!({ "raw": "'limits'" }), json!({}));
        check(
            json!({ "name": "task_block", "sessionKey": "agent:eden:main", "args": { "task_id": "t", "id": "x" } }),
            json!({ "name": "task_block", "sessionKey": "agent:eden:main", "args": { "task_id": "t" } }),
        );
    }

    #[test]
    fn texts_values_and_secrets_are_not_named() {
        let secret = "s3cret";
        let others = ["message", "answer", "reason", "label", "note", "idempotencyKey", "baseHash", "text", "token"];
        for name in others {
            check(json!({ name: secret, "args": { name: secret } }), json!({}));
        }
        check(json!({ "slot": "guard:x", "config": { "token": secret } }), json!({ "slot": "guard:x" }));
        check(json!({ "raw": "{ providers: { a: { key: 's3cret' } } }" }), json!({ "config": ["providers"] }));
        check(json!({ "args": { "description": secret, "source": secret, "url": secret } }), json!({}));
    }

    #[test]
    fn a_line_stays_one_line_and_has_an_end() {
        check(json!({ "id": "a\nb\u{1b}[31m\u{7f}" }), json!({ "id": "ab[31m" }));
        check(json!({ "id": "가".repeat(300) }), json!({ "id": "가".repeat(CHARS_MAX) }));
        let long = "🦀".repeat(1_000);
        let all = |names: &[&str]| -> Of { names.iter().map(|name| ((*name).to_owned(), json!(long))).collect() };
        let mut params = all(&PARAMS);
        params.insert("args".into(), Value::Object(all(&ARGS)));
        let parts: Of = (0..100).map(|nth| (format!("{nth}{long}"), json!(1))).collect();
        params.insert("raw".into(), json!(Value::Object(parts).to_string()));
        let of = of(&Value::Object(params));
        let parts = of["config"].as_array().map(Vec::len);
        assert_eq!((of.len(), parts), (PARAMS.len() + 2, Some(PARTS_MAX)));
        let bytes = Value::Object(of).to_string().len();
        assert!((bytes as u64) < crate::edge::audit::LINE_BYTES_MAX, "{bytes}");
    }
}
