//! Test cases of a plugin, as its author writes them in `tests/*.json`: what it is asked, and what it should say.

use serde::Deserialize;
use serde_json::{Map, Value};

/// More cases are not a file, they are a corpus.
const CASES_MAX: usize = 10_000;

/// One question and what should come of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What people know it by: its name, else its place.
    pub name: String,
    /// Its place in the file, as `cases[3]`.
    pub path: String,
    /// The plugin's configuration.
    pub config: Map<String, Value>,
    pub expected: Expected,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// The function answers with at least this.
    Answer { export: String, input: Value, answer: Value },
    /// The function fails, and says this among other things.
    Failure { export: String, input: Value, said: String },
    /// The plugin refuses the configuration, and says this among other things.
    Refusal { said: String },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{said}", at(path))]
pub struct BadCase {
    pub path: String,
    pub said: String,
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// For every case that has none of its own.
    #[serde(default)]
    config: Map<String, Value>,
    cases: Vec<WrittenCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCase {
    name: Option<String>,
    config: Option<Map<String, Value>>,
    export: Option<String>,
    input: Option<Map<String, Value>>,
    // `null` is an answer like any other.
    #[serde(default, deserialize_with = "given")]
    expect: Option<Value>,
    fails: Option<String>,
    refuses: Option<String>,
}

fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The cases of a file.
pub fn cases(text: &str) -> Result<Vec<Case>, BadCase> {
    let mut json = serde_json::Deserializer::from_str(text);
    let written: Written = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        BadCase { path: crate::known(&path), said: error.inner().to_string() }
    })?;
    json.end().map_err(|error| BadCase { path: String::new(), said: error.to_string() })?;
    if written.cases.is_empty() || written.cases.len() > CASES_MAX {
        let said = format!("a file holds 1 to {CASES_MAX} cases");
        return Err(BadCase { path: "cases".into(), said });
    }
    let Written { config, cases } = written;
    cases.into_iter().enumerate().map(|(at, case)| case.read(format!("cases[{at}]"), &config)).collect()
}

impl WrittenCase {
    fn read(self, path: String, config: &Map<String, Value>) -> Result<Case, BadCase> {
        let bad = |field: &str, said: &str| Err(BadCase { path: format!("{path}{field}"), said: said.to_owned() });
        let asked = || "`export` and `input` belong together: which function, and what it is asked";
        let expected = match (self.export, self.input, self.expect, self.fails, self.refuses) {
            (None, None, None, None, Some(said)) => Expected::Refusal { said },
            (_, _, None, None, None) => return bad("", "it expects nothing; add `expect`, `fails` or `refuses`"),
            (.., Some(_)) => return bad(".refuses", "a case that refuses its configuration asks nothing"),
            (Some(export), Some(input), Some(answer), None, None) => {
                Expected::Answer { export, input: Value::Object(input), answer }
            }
            (Some(export), Some(input), None, Some(said), None) => {
                Expected::Failure { export, input: Value::Object(input), said }
            }
            (.., Some(_), Some(_), None) => return bad(".fails", "either `expect` or `fails`, not both"),
            (None, ..) => return bad(".export", asked()),
            (_, None, ..) => return bad(".input", asked()),
        };
        let name = self.name.unwrap_or_else(|| path.clone());
        Ok(Case { name, path, config: self.config.unwrap_or_else(|| config.clone()), expected })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cases_are_read_with_the_configuration_of_their_file() {
        let read = cases(
            r#"{"config": {"a": 1}, "cases": [
                {"name": "first", "export": "next", "input": {}, "expect": null},
                {"config": {}, "export": "next", "input": {"layer": "polling"}, "fails": "no"},
                {"config": {"a": "x"}, "refuses": "at a"}
            ]}"#,
        );
        let read = read.expect("good cases");
        let config = json!({ "a": 1 }).as_object().cloned().expect("an object");
        assert_eq!((read[0].name.as_str(), &read[0].config), ("first", &config));
        assert_eq!(read[0].expected, Expected::Answer { export: "next".into(), input: json!({}), answer: Value::Null });
        assert_eq!((read[1].name.as_str(), read[1].config.len()), ("cases[1]", 0));
        assert_eq!(read[2].expected, Expected::Refusal { said: "at a".into() });
    }

    #[test]
    fn a_wrong_field_is_told_by_its_path() {
        let refused = |text: &str, path: &str, said: &str| {
            let error = cases(text).expect_err("refused");
            assert_eq!(error.path, path, "{error}");
            assert!(error.said.contains(said), "{error}");
        };
        refused(r#"{"cases": [{"exprt": "next"}]}"#, "cases[0].exprt", "unknown field `exprt`");
        refused(r#"{"cases": [{"export": 3}]}"#, "cases[0].export", "invalid type: integer `3`");
        refused(r#"{"cases": []}"#, "cases", "1 to 10000");
        refused(r#"{"case": []}"#, "case", "unknown field `case`");
        refused(r#"{"cases": [{"export": "next", "input": {}}]}"#, "cases[0]", "it expects nothing");
        refused(r#"{"cases": [{"export": "next", "expect": 1}]}"#, "cases[0].input", "belong together");
        refused(r#"{"cases": [{"input": {}, "expect": 1}]}"#, "cases[0].export", "belong together");
        refused(
            r#"{"cases": [{"export": "next", "input": {}, "expect": 1, "fails": ""}]}"#,
            "cases[0].fails",
            "not both",
        );
        refused(r#"{"cases": [{"export": "next", "refuses": ""}]}"#, "cases[0].refuses", "asks nothing");
        refused(r#"{"cases": [{"export": "next", "input": [], "expect": 1}]}"#, "cases[0].input", "invalid type");
        refused("[]", "", "expected struct");
        refused("{", "", "EOF while parsing");
        refused(r#"{"cases": [{"#, "cases[0]", "EOF while parsing");
    }
}
