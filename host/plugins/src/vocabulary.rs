//! Words of the deployment in a plugin's configuration: where its schema says `"format": "chela-category"`, a category of the deployment must stand.
//! Keeps true: the walk goes no deeper than the configuration, whatever the schema says. Never: judges anything else of a configuration,
//! which is for the plugin itself.

use serde_json::{Map, Value};

/// The format of a text that is the key of a category.
const CATEGORY: &str = "chela-category";
/// References that lead to references.
const HOPS_MAX: usize = 8;

/// A category that the deployment does not have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) path: String,
    pub(super) given: String,
}

/// The first category of a configuration that is not among `known`.
pub(super) fn unknown_category(schema: &str, config: &Map<String, Value>, known: &[String]) -> Option<Unknown> {
    // A plugin without a schema, or with one that is none, says nothing about its categories.
    let root: Value = serde_json::from_str(schema).ok()?;
    let look = Look { root: &root, known };
    look.fields(&root, config, "")
}

struct Look<'a> {
    root: &'a Value,
    known: &'a [String],
}

impl Look<'_> {
    fn at(&self, schema: &Value, value: &Value, path: &str) -> Option<Unknown> {
        let schema = self.resolved(schema)?;
        match value {
            Value::String(given) => {
                let is_wrong = schema["format"] == CATEGORY && !self.known.contains(given);
                is_wrong.then(|| Unknown { path: path.to_owned(), given: given.chars().take(80).collect() })
            }
            Value::Array(items) => {
                let of_items = schema.get("items")?;
                items.iter().enumerate().find_map(|(at, item)| self.at(of_items, item, &format!("{path}[{at}]")))
            }
            Value::Object(fields) => self.fields(schema, fields, path),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    fn fields(&self, schema: &Value, fields: &Map<String, Value>, path: &str) -> Option<Unknown> {
        fields.iter().find_map(|(name, value)| {
            let own = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"))?;
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            self.at(own, value, &path)
        })
    }

    fn resolved<'s>(&'s self, mut schema: &'s Value) -> Option<&'s Value> {
        for _ in 0..HOPS_MAX {
            match schema["$ref"].as_str() {
                None => return Some(schema),
                Some(reference) => schema = self.root.pointer(reference.strip_prefix('#')?)?,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: Value, config: Value, expected: Option<(&str, &str)>) {
        let config = config.as_object().cloned().expect("an object");
        let found = unknown_category(&schema.to_string(), &config, &["infra_ops".into(), "own".into()]);
        assert_eq!(found.as_ref().map(|found| (found.path.as_str(), found.given.as_str())), expected, "{config:?}");
    }

    fn rules() -> Value {
        json!({
            "properties": { "rules": { "items": { "$ref": "#/$defs/rule" } }, "default": { "format": "chela-category" } },
            "additionalProperties": { "items": { "format": "chela-category" } },
            "$defs": { "rule": { "properties": { "category": { "type": "string", "format": "chela-category" } } } },
        })
    }

    #[test]
    fn a_category_that_the_deployment_lacks_is_found_by_its_place() {
        let of = |category: &str| json!({ "category": category, "keywords": ["infra_opss"] });
        check(rules(), json!({ "rules": [of("infra_ops"), of("own")] }), None);
        check(rules(), json!({ "rules": [of("own"), of("infra_opss")] }), Some(("rules[1].category", "infra_opss")));
        check(rules(), json!({ "default": "nothing" }), Some(("default", "nothing")));
        check(rules(), json!({ "more": ["own", "less"] }), Some(("more[1]", "less")));
        check(rules(), json!({ "rules": "own", "default": 3 }), None);
    }

    #[test]
    fn a_schema_that_is_none_or_leads_nowhere_says_nothing() {
        check(json!("text"), json!({ "category": "x" }), None);
        check(json!({ "properties": { "a": { "$ref": "#/properties/a" } } }), json!({ "a": "x" }), None);
        check(json!({ "properties": { "a": { "$ref": "https://elsewhere" } } }), json!({ "a": "x" }), None);
        let config = json!({ "a": "x" }).as_object().cloned().expect("an object");
        assert_eq!(unknown_category("", &config, &[]), None);
    }
}
