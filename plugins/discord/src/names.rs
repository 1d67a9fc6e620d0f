//! What ids are called, and which channel a thread belongs to: a bounded memory of what the gateway told.
//! Keeps true: has its limits, whatever the size of a server; what it does not know can be asked for.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire;

const PLACES_MAX: usize = 200;
const ROLES_MAX: usize = 100;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    pub name: String,
    /// The channel that it is a thread of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Names {
    places: BTreeMap<u64, Place>,
    roles: BTreeMap<u64, String>,
    /// Roles that stand for the bot itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    own_roles: Vec<u64>,
}

impl Names {
    pub fn place(&self, id: u64) -> Option<&Place> {
        self.places.get(&id)
    }

    pub fn role(&self, id: u64) -> Option<&str> {
        self.roles.get(&id).map(String::as_str)
    }

    pub fn is_own_role(&self, id: u64) -> bool {
        self.own_roles.contains(&id)
    }

    /// A channel or thread object.
    pub fn learn_place(&mut self, channel: &Value) {
        let Some(id) = wire::id(&channel["id"]) else { return };
        // 10, 11 and 12 are threads; the parent of anything else is a category.
        let is_thread = matches!(channel["type"].as_u64(), Some(10..=12));
        let parent = wire::id(&channel["parent_id"]).filter(|_| is_thread);
        self.keep_place(id, Place { name: wire::name(wire::text(&channel["name"])), parent });
    }

    pub fn keep_place(&mut self, id: u64, place: Place) {
        if self.places.len() >= PLACES_MAX && !self.places.contains_key(&id) {
            // Ids grow with time: the oldest thread goes first, else the oldest channel.
            let threads = self.places.iter().find(|(_, place)| place.parent.is_some());
            let oldest = threads.or(self.places.iter().next()).map(|(id, _)| *id);
            oldest.and_then(|oldest| self.places.remove(&oldest));
        }
        self.places.insert(id, place);
    }

    pub fn forget_place(&mut self, id: u64) {
        self.places.remove(&id);
    }

    /// A guild object with its channels, threads and roles.
    pub fn learn_guild(&mut self, guild: &Value, me: Option<u64>) {
        for channel in wire::list(&guild["channels"], PLACES_MAX) {
            self.learn_place(channel);
        }
        for thread in wire::list(&guild["threads"], PLACES_MAX) {
            self.learn_place(thread);
        }
        for role in wire::list(&guild["roles"], ROLES_MAX) {
            self.learn_role(role, me);
        }
    }

    pub fn learn_role(&mut self, role: &Value, me: Option<u64>) {
        let Some(id) = wire::id(&role["id"]) else { return };
        if wire::id(&role["tags"]["bot_id"]).is_some_and(|bot| Some(bot) == me) && self.own_roles.len() < ROLES_MAX {
            self.own_roles.retain(|own| *own != id);
            self.own_roles.push(id);
        }
        if self.roles.len() < ROLES_MAX || self.roles.contains_key(&id) {
            self.roles.insert(id, wire::name(wire::text(&role["name"])));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn threads_know_their_channel_and_channels_do_not_belong_to_their_category() {
        let mut names = Names::default();
        names.learn_guild(
            &json!({
                "channels": [{ "id": "10", "type": 0, "name": "general", "parent_id": "9" }],
                "threads": [{ "id": "11", "type": 11, "name": "plans", "parent_id": "10" }],
                "roles": [{ "id": "5", "name": "crew" }, { "id": "6", "name": "bot", "tags": { "bot_id": "1" } }],
            }),
            Some(1),
        );
        assert_eq!(names.place(10), Some(&Place { name: "general".into(), parent: None }));
        assert_eq!(names.place(11), Some(&Place { name: "plans".into(), parent: Some(10) }));
        assert_eq!(names.role(5), Some("crew"));
        assert!(names.is_own_role(6) && !names.is_own_role(5));
    }

    #[test]
    fn a_server_of_any_size_is_held_in_bounds() {
        let mut names = Names::default();
        for id in 1..2_000 {
            names.learn_place(&json!({ "id": id.to_string(), "type": if id % 2 == 0 { 0 } else { 11 }, "name": "x" }));
            names.learn_role(&json!({ "id": id.to_string(), "name": "x" }), None);
        }
        assert_eq!((names.places.len(), names.roles.len()), (PLACES_MAX, ROLES_MAX));
        assert!(names.place(1_999).is_some());
    }
}
