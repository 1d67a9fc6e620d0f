//! What somebody made of a part of the configuration, as a change of the file: what they left out goes, lists become what they wrote, and what
//! they did not touch stays as the file has it.

use serde_json::{Map, Value, json};

use crate::config::REDACTED;

/// A patch of the file, and the lists in it that may lose entries.
#[derive(Debug, PartialEq)]
pub struct Change {
    pub patch: Value,
    pub replaced: Vec<String>,
}

/// `file` is what the file has of the part, `shown` what was in force and on the page, `written` what it is to be.
pub fn change_of(section: &str, file: Option<&Value>, shown: &Value, written: &Value) -> Result<Change, String> {
    let wanted = kept(file, Some(shown), written);
    let (mut path, mut replaced) = (vec![section.to_owned()], Vec::new());
    let part = difference(file, wanted.as_ref(), &mut path, &mut replaced);
    let patch = part.map_or_else(|| json!({}), |part| json!({ section: part }));
    if holds_redacted(&patch) {
        return Err(format!(
            "`{REDACTED}` stands for a secret that is not shown; leave its entry where it was, or write the secret"
        ));
    }
    Ok(Change { patch, replaced })
}

/// What the file is to have: where nothing was changed, what it has, or has not.
fn kept(file: Option<&Value>, shown: Option<&Value>, written: &Value) -> Option<Value> {
    if shown == Some(written) {
        return file.cloned();
    }
    match (shown, written) {
        (Some(Value::Object(shown)), Value::Object(written)) => {
            let mut all = file.and_then(Value::as_object).cloned().unwrap_or_default();
            all.retain(|name, _| written.contains_key(name) || !shown.contains_key(name));
            for (name, value) in written {
                if let Some(value) = kept(all.get(name), shown.get(name), value) {
                    all.insert(name.clone(), value);
                }
            }
            Some(Value::Object(all))
        }
        (Some(Value::Array(shown)), Value::Array(written)) => {
            let file = file.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            Some(written.iter().map(|entry| kept_entry(file, shown, entry)).collect())
        }
        _ => Some(written.clone()),
    }
}

fn id_of(entry: &Value) -> Option<&Value> {
    entry.get("id").filter(|id| id.is_string())
}

/// An entry of a list is the one of its id, or the one that was shown just so.
fn kept_entry(file: &[Value], shown: &[Value], written: &Value) -> Value {
    let by_id = id_of(written).and_then(|id| {
        let of = |list: &[Value]| list.iter().find(|entry| id_of(entry) == Some(id)).cloned();
        Some((of(file)?, of(shown)?))
    });
    let by_place = || {
        let at = shown.iter().position(|entry| entry == written).filter(|_| file.len() == shown.len())?;
        Some((file[at].clone(), shown[at].clone()))
    };
    let known = by_id.or_else(by_place);
    known.and_then(|(file, shown)| kept(Some(&file), Some(&shown), written)).unwrap_or_else(|| written.clone())
}

/// The merge patch from one value to another; none where they are the same.
fn difference(
    old: Option<&Value>,
    new: Option<&Value>,
    path: &mut Vec<String>,
    replaced: &mut Vec<String>,
) -> Option<Value> {
    match (old, new) {
        (old, new) if old == new => None,
        (_, None) => Some(Value::Null),
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let mut patch: Map<String, Value> =
                old.keys().filter(|name| !new.contains_key(*name)).map(|name| (name.clone(), Value::Null)).collect();
            for (name, value) in new {
                path.push(name.clone());
                if let Some(value) = difference(old.get(name), Some(value), path, replaced) {
                    patch.insert(name.clone(), value);
                }
                path.pop();
            }
            Some(Value::Object(patch))
        }
        (old, Some(new)) => {
            if old.is_some_and(Value::is_array) {
                replaced.push(written_path(path));
            }
            Some(new.clone())
        }
    }
}

/// A path as `config.patch` reads it.
fn written_path(path: &[String]) -> String {
    let plain = |name: &str| !name.is_empty() && !name.contains(['.', '[', ']', '"']);
    path.iter().fold(String::new(), |path, name| match (plain(name), path.is_empty()) {
        (true, true) => name.clone(),
        (true, false) => format!("{path}.{name}"),
        (false, _) => format!("{path}[{}]", Value::from(name.as_str())),
    })
}

fn holds_redacted(value: &Value) -> bool {
    match value {
        Value::String(text) => text == REDACTED,
        Value::Array(entries) => entries.iter().any(holds_redacted),
        Value::Object(fields) => fields.values().any(holds_redacted),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: Value, shown: Value, written: Value, patch: Value, replaced: &[&str]) {
        let change = change_of("part", Some(&file), &shown, &written).expect("a change");
        assert_eq!(change.patch, patch, "{written}");
        assert_eq!(change.replaced, replaced, "{written}");
    }

    #[test]
    fn what_is_left_out_goes_and_what_is_not_touched_stays_as_the_file_has_it() {
        let (file, shown) = (json!({ "a": 1, "b": { "c": 2 } }), json!({ "a": 1, "b": { "c": 2, "d": 3 }, "e": 4 }));
        check(file.clone(), shown.clone(), shown.clone(), json!({}), &[]);
        let written = json!({ "a": 1, "b": { "c": 5, "d": 3 }, "e": 4 });
        check(file.clone(), shown.clone(), written, json!({ "part": { "b": { "c": 5 } } }), &[]);
        check(file.clone(), shown.clone(), json!({ "a": 1 }), json!({ "part": { "b": null } }), &[]);
        check(file, shown, json!({ "a": 1, "b": "x" }), json!({ "part": { "b": "x" } }), &[]);
    }

    #[test]
    fn a_list_becomes_what_was_written_and_its_entries_stay_short() {
        let file = json!({ "list": [{ "id": "a" }, { "id": "b", "name": "B" }], "odd.name": [1, 2] });
        let shown = json!({ "list": [{ "id": "a", "role": "x" }, { "id": "b", "name": "B", "role": "x" }], "odd.name": [1, 2] });
        let mut written = shown.clone();
        written["list"] = json!([{ "id": "a", "role": "x" }]);
        check(
            file.clone(),
            shown.clone(),
            written.clone(),
            json!({ "part": { "list": [{ "id": "a" }] } }),
            &["part.list"],
        );
        written["list"] = json!([{ "id": "b", "name": "C", "role": "x" }, { "id": "n" }]);
        let list = json!([{ "id": "b", "name": "C" }, { "id": "n" }]);
        check(file.clone(), shown.clone(), written, json!({ "part": { "list": list } }), &["part.list"]);
        let mut written = shown.clone();
        written["odd.name"] = json!([2]);
        check(file, shown, written, json!({ "part": { "odd.name": [2] } }), &["part[\"odd.name\"]"]);
    }

    #[test]
    fn a_secret_that_is_not_shown_stays_or_is_asked_for() {
        let (file, shown) = (json!({ "t": { "a": "secret", "x": 1 } }), json!({ "t": { "a": REDACTED, "x": 1 } }));
        let written = json!({ "t": { "a": REDACTED, "x": 2 } });
        check(file.clone(), shown.clone(), written, json!({ "part": { "t": { "x": 2 } } }), &[]);
        let moved = json!({ "other": { "a": REDACTED, "x": 1 } });
        assert!(change_of("part", Some(&file), &shown, &moved).unwrap_err().contains("not shown"));
    }

    #[test]
    fn a_part_that_the_file_lacks_is_made_of_what_differs() {
        let change = change_of("part", None, &json!({ "a": 1, "b": 2 }), &json!({ "a": 3, "b": 2 }));
        assert_eq!(change, Ok(Change { patch: json!({ "part": { "a": 3 } }), replaced: Vec::new() }));
    }
}
