//! The configuration in force, a part at a time, with what its schema says of every entry; and who may come in.

mod change;

use chela_page::{SettingRow, Settings, TokenRow, clip};
use serde_json::Value;

use super::Handle;
use crate::config::Config;

pub use change::change_of;

/// Entries that one part shows, and how deep they are looked for.
const ROWS_MAX: usize = 200;
const DEPTH_MAX: usize = 3;
const VALUE_BYTES: usize = 160;

impl Handle {
    /// `section` is the part that is looked at; the first there is where there is none of that name.
    pub fn settings(&self, section: Option<&str>) -> Settings {
        let settings = self.0.settings.current();
        let standing = self.0.settings.standing();
        let schema = Config::schema().document();
        let value = settings.config.to_value();
        let known = schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
        let sections: Vec<String> = known.filter(|name| !name.starts_with('$')).collect();
        let wanted = section.filter(|section| sections.iter().any(|known| known == section));
        let section = wanted.or(sections.first().map(String::as_str)).unwrap_or_default().to_owned();
        let mut rows = Vec::new();
        rows_of(schema, &schema["properties"][&section], &value[&section], &section, 0, &mut rows);
        let owner = settings.tokens.owner_name();
        Settings {
            path: self.0.dir.config().display().to_string(),
            revision: settings.revision.clone(),
            problems: standing.problems.iter().map(ToString::to_string).collect(),
            restart_needed: standing.restart_needed,
            tokens: settings
                .tokens
                .principals()
                .map(|one| TokenRow {
                    name: one.name.clone(),
                    scope: one.scope.as_str().to_owned(),
                    is_owner: one.name == owner,
                })
                .collect(),
            text: serde_json::to_string_pretty(&value[&section]).unwrap_or_default(),
            section,
            sections,
            rows,
        }
    }
}

/// The definition that a part of a schema points to.
fn resolved<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    let name = part["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/"));
    name.map_or(part, |name| &document["$defs"][name])
}

fn rows_of(document: &Value, part: &Value, value: &Value, path: &str, depth: usize, rows: &mut Vec<SettingRow>) {
    if rows.len() >= ROWS_MAX {
        return;
    }
    let inner = resolved(document, part);
    let said = part["description"].as_str().or(inner["description"].as_str()).unwrap_or_default();
    let properties = inner["properties"].as_object().filter(|_| depth < DEPTH_MAX);
    let Some(properties) = properties else {
        let shown = if value.is_null() { "–".to_owned() } else { value.to_string() };
        rows.push(SettingRow {
            path: path.to_owned(),
            kind: kind_of(inner),
            said: said.to_owned(),
            value: clip(&shown, VALUE_BYTES),
        });
        return;
    };
    for (name, part) in properties {
        rows_of(document, part, &value[name], &format!("{path}.{name}"), depth + 1, rows);
    }
}

fn kind_of(part: &Value) -> String {
    match &part["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            kinds.iter().filter_map(Value::as_str).filter(|kind| *kind != "null").collect::<Vec<_>>().join(" | ")
        }
        _ => part["enum"]
            .as_array()
            .map_or_else(String::new, |words| words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_every_part_is_named_with_its_meaning() {
        let document = Config::schema().document();
        let value = Config::default().to_value();
        for (section, part) in document["properties"].as_object().expect("an object") {
            let mut rows = Vec::new();
            rows_of(document, part, &value[section], section, 0, &mut rows);
            assert!(!rows.is_empty() && rows.len() < ROWS_MAX, "{section}: {}", rows.len());
            assert!(rows.iter().all(|row| row.path.starts_with(section.as_str())), "{section}");
        }
        let mut rows = Vec::new();
        rows_of(document, &document["properties"]["limits"], &value["limits"], "limits", 0, &mut rows);
        let body = rows.iter().find(|row| row.path == "limits.bodyBytes").expect("a setting");
        assert!(body.kind == "integer" && body.said.contains("largest body") && body.value != "–", "{body:?}");
    }
}
