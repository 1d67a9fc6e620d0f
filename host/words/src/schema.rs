//! Says in plain words where a JSON value departs from a JSON schema, and what to write instead.
//! Serves configuration and method parameters alike. Keeps true: a message never repeats a value, since it may be a secret.

use std::fmt;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Nobody reads more at once, and a hostile text could make them endless.
const PROBLEMS_MAX: usize = 32;

/// One thing to change: where, and to what.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// `agents.list[1].role`; empty for the document itself.
    pub path: String,
    pub message: String,
}

impl Problem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }

    /// Its place first, as the protocol says it.
    pub fn at(&self) -> String {
        let place = if self.path.is_empty() { "root" } else { &self.path };
        format!("at {place}: {}", self.message)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}

/// A schema ready to check values with.
pub struct Schema {
    document: Value,
    validator: Validator,
}

impl Schema {
    /// The schema of a Rust type, without references, so that a path into it can be followed.
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
        let document = settings.into_generator().into_root_schema_for::<T>().to_value();
        let validator = jsonschema::validator_for(&document).expect("a derived schema is a valid schema");
        Self { document, validator }
    }

    pub fn document(&self) -> &Value {
        &self.document
    }

    /// What is wrong with `value`, up to a readable number; empty when it fits.
    pub fn problems(&self, value: &Value) -> Vec<Problem> {
        // To look is a tenth of the work of telling what is wrong.
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        let mut problems = self.validator.iter_errors(value).flat_map(|error| self.explain(value, &error));
        let mut told: Vec<Problem> = problems.by_ref().take(PROBLEMS_MAX).collect();
        if problems.next().is_some() {
            told.push(Problem::new("", "there is more; mend these first"));
        }
        told
    }

    fn explain(&self, value: &Value, error: &ValidationError<'_>) -> Vec<Problem> {
        let path = dotted(error.instance_path().as_str());
        if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
            let known = self.known_keys(error.schema_path().as_str());
            return unexpected.iter().take(PROBLEMS_MAX + 1).map(|key| unknown_key(&path, key, &known)).collect();
        }
        // For an object that takes no keys at all the validator names none of those given.
        if let (ValidationErrorKind::FalseSchema, Some(Value::Object(given))) =
            (error.kind(), value.pointer(error.instance_path().as_str()))
        {
            return given.keys().take(PROBLEMS_MAX + 1).map(|key| unknown_key(&path, key, &[])).collect();
        }
        let message = self.written_advice(error.schema_path().as_str()).unwrap_or_else(|| advice(error));
        vec![Problem::new(path, message)]
    }

    /// A type may say itself what to write, under `x-advice` beside the keyword that failed.
    fn written_advice(&self, schema_path: &str) -> Option<String> {
        let (schema, keyword) = schema_path.rsplit_once('/')?;
        let speaks = matches!(keyword, "anyOf" | "oneOf" | "pattern");
        let advice = self.document.pointer(schema)?.get("x-advice")?.as_str()?;
        speaks.then(|| advice.to_owned())
    }

    fn known_keys(&self, schema_path: &str) -> Vec<String> {
        let object = schema_path.strip_suffix("/additionalProperties").unwrap_or(schema_path);
        let properties = self.document.pointer(&format!("{object}/properties"));
        properties.and_then(Value::as_object).map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
    }
}

/// The word that was probably meant, if one is near enough.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .map(|candidate| (strsim::normalized_damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness > 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn unknown_key(path: &str, key: &str, known: &[String]) -> Problem {
    let key: String = key.chars().take(80).collect();
    let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
    let message = match nearest(&key, known.iter().map(String::as_str)) {
        Some(candidate) => format!("unknown key `{key}`; did you mean `{candidate}`?"),
        None if known.is_empty() => format!("unknown key `{key}`; no keys are taken here"),
        None => format!("unknown key `{key}`; the keys here are {}", list(known)),
    };
    Problem::new(place, message)
}

fn advice(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::Type { kind } => {
            let wanted = match kind {
                TypeKind::Single(one) => one.to_string(),
                TypeKind::Multiple(many) => many.iter().map(|one| one.to_string()).collect::<Vec<_>>().join(" or "),
            };
            format!("must be of type {wanted}, not {}", type_name(error.instance()))
        }
        ValidationErrorKind::Enum { options } => {
            let words = options.as_array().into_iter().flatten().filter_map(Value::as_str);
            format!("must be one of {}", list(&words.map(str::to_owned).collect::<Vec<_>>()))
        }
        ValidationErrorKind::Required { property } => {
            format!("the key `{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Pattern { pattern } => format!("must match {pattern}"),
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            one_of_several(error, context)
        }
        _ => error.masked().to_string(),
    }
}

/// Of several shapes the value may have, speak of the one it was meant to have: that with the same JSON type.
fn one_of_several(error: &ValidationError<'_>, shapes: &[Vec<ValidationError<'static>>]) -> String {
    let of_its_type = |shape: &&Vec<ValidationError<'static>>| {
        !shape
            .iter()
            .any(|e| matches!(e.kind(), ValidationErrorKind::Type { .. }) && e.instance_path() == error.instance_path())
    };
    let meant: Vec<_> = shapes.iter().filter(of_its_type).collect();
    if let [shape] = meant.as_slice()
        && let Some(first) = shape.first()
    {
        return advice(first);
    }
    let words: Vec<String> = shapes
        .iter()
        .flatten()
        .filter_map(|e| match e.kind() {
            ValidationErrorKind::Enum { options } => options.as_array().cloned(),
            ValidationErrorKind::Constant { expected_value } => Some(vec![(**expected_value).clone()]),
            _ => None,
        })
        .flatten()
        .filter_map(|word| word.as_str().map(str::to_owned))
        .collect();
    if words.is_empty() {
        "fits none of the shapes that are taken here; see `chela config schema`".into()
    } else {
        format!("must be one of {}", list(&words))
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn list(words: &[String]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// `/agents/list/1/role` as people write it: `agents.list[1].role`.
fn dotted(pointer: &str) -> String {
    let mut path = String::new();
    for part in pointer.split('/').skip(1) {
        let part: String = part.replace("~1", "/").replace("~0", "~").chars().take(80).collect();
        if part.chars().all(|c| c.is_ascii_digit()) && !part.is_empty() {
            path.push_str(&format!("[{part}]"));
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&part);
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, rename_all = "camelCase")]
    #[allow(dead_code)]
    struct Sample {
        listen: String,
        #[serde(default)]
        port_count: Option<u8>,
        #[serde(default)]
        mode: Option<Mode>,
        #[serde(default)]
        inner: Vec<Inner>,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Mode {
        Fast,
        Careful,
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        name: String,
    }

    fn check(value: Value, expected: &[&str]) {
        let said: Vec<String> = Schema::of::<Sample>().problems(&value).iter().map(Problem::to_string).collect();
        assert_eq!(said, expected, "for {value}");
    }

    #[test]
    fn a_problem_names_the_place_and_the_remedy() {
        use serde_json::json;
        check(json!({"listen": "x"}), &[]);
        check(
            json!({"listen": "x", "portCuont": 1}),
            &["portCuont: unknown key `portCuont`; did you mean `portCount`?"],
        );
        check(json!({"listen": 1}), &["listen: must be of type string, not number"]);
        check(json!({}), &["the key `listen` is missing"]);
        check(json!({"listen": "x", "mode": "quick"}), &["mode: must be one of `fast`, `careful`"]);
        check(
            json!({"listen": "x", "inner": [{"name": "a"}, {"name": "b", "zzz": 1}]}),
            &["inner[1].zzz: unknown key `zzz`; the keys here are `name`"],
        );
        check(json!([]), &["must be of type object, not array"]);
    }

    #[test]
    fn each_unknown_key_is_told_once() {
        #[derive(serde::Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        let value = serde_json::json!({"a": 1, "b": 2});
        let said: Vec<String> = Schema::of::<Nothing>().problems(&value).iter().map(|p| p.path.clone()).collect();
        assert_eq!(said, ["a", "b"]);
    }

    #[test]
    fn problems_have_an_end() {
        let keys = (0..1000).map(|n| (format!("key{n}"), Value::Null));
        let value = Value::Object(keys.chain([("listen".to_owned(), Value::from("x"))]).collect());
        let problems = Schema::of::<Sample>().problems(&value);
        assert_eq!(problems.len(), PROBLEMS_MAX + 1);
        assert_eq!(problems[PROBLEMS_MAX].message, "there is more; mend these first");
    }

    #[test]
    fn a_problem_never_repeats_the_value() {
        let problems = Schema::of::<Sample>().problems(&serde_json::json!({"listen": {"token": "hunter2"}}));
        assert!(!format!("{problems:?}").contains("hunter2"));
    }
}
