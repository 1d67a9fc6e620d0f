//! What people are called: a bounded memory of what Slack told, and what is asked for.

use std::collections::BTreeMap;

use chela_sdk::channel::wire;
use serde::{Deserialize, Serialize};
use serde_json::Value;

const NAMES_MAX: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Names(BTreeMap<String, String>);

impl Names {
    pub fn of(&self, user: &str) -> Option<&str> {
        self.0.get(user).map(String::as_str)
    }

    pub fn keep(&mut self, user: &str, name: &str) {
        let name = wire::name(name);
        if name.is_empty() {
            return;
        }
        if self.0.len() >= NAMES_MAX && !self.0.contains_key(user) {
            self.0.pop_first();
        }
        self.0.insert(user.to_owned(), name);
    }

    /// From a user as `users.info` gives it.
    pub fn learn(&mut self, user: &str, data: &Value) {
        let names =
            [&data["profile"]["display_name"], &data["real_name"], &data["profile"]["real_name"], &data["name"]];
        let found = names.into_iter().map(|name| wire::name(wire::text(name))).find(|name| !name.is_empty());
        self.keep(user, &found.unwrap_or_else(|| user.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_name_that_people_chose_comes_first_and_memory_has_an_end() {
        let mut names = Names::default();
        names.learn("U1", &json!({ "name": "eden", "real_name": "Eden Kim", "profile": { "display_name": "이든" } }));
        names.learn("U2", &json!({ "name": "seum", "profile": { "display_name": "" } }));
        names.learn("U3", &json!({}));
        assert_eq!((names.of("U1"), names.of("U2"), names.of("U3")), (Some("이든"), Some("seum"), Some("U3")));
        (0..1_000).for_each(|n| names.keep(&format!("U{n}"), "x"));
        assert_eq!(names.0.len(), NAMES_MAX);
    }
}
