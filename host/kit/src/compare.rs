//! Whether an answer is what a case expects. Fields that the case does not name are not looked at; lists are whole.

use serde_json::Value;

/// The first place at which `found` is not what is expected, in words; none when all of it is there.
pub fn difference(expected: &Value, found: &Value) -> Option<String> {
    at("", expected, found)
}

fn at(path: &str, expected: &Value, found: &Value) -> Option<String> {
    match (expected, found) {
        (Value::Object(fields), Value::Object(others)) => fields.iter().find_map(|(name, value)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match others.get(name) {
                Some(other) => at(&path, value, other),
                None => Some(format!("{path} is missing; expected {}", shown(value))),
            }
        }),
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let mut pairs = items.iter().zip(others).enumerate();
            pairs.find_map(|(n, (item, other))| at(&format!("{path}[{n}]"), item, other))
        }
        // 1 and 1.0 are the same number.
        (Value::Number(one), Value::Number(other)) if one.as_f64() == other.as_f64() => None,
        _ if expected == found => None,
        _ => {
            let place = if path.is_empty() { "the answer" } else { path };
            Some(format!("{place} is {}; expected {}", shown(found), shown(expected)))
        }
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(expected: Value, found: Value, said: Option<&str>) {
        assert_eq!(difference(&expected, &found).as_deref(), said);
    }

    #[test]
    fn what_is_named_must_be_there_and_the_rest_may_be_anything() {
        check(json!({ "verdict": "block" }), json!({ "verdict": "block", "reason": "no" }), None);
        check(json!({ "a": { "b": 1 } }), json!({ "a": { "b": 1.0, "c": 2 } }), None);
        check(json!("text"), json!("text"), None);
        check(json!({ "a": 1 }), json!({}), Some("a is missing; expected 1"));
        check(json!({ "a": { "b": [1, 2] } }), json!({ "a": { "b": [1, 3] } }), Some("a.b[1] is 3; expected 2"));
        check(json!([1]), json!([1, 2]), Some("the answer is [1,2]; expected [1]"));
        check(json!("가"), json!(null), Some("the answer is null; expected \"가\""));
    }
}
