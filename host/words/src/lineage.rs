//! Which work session something belongs to, and how deep in it: decided once, by whoever begins something.
//! Keeps true: an archived work session gets no new work; a child is one deeper than what caused it.

use uuid::Uuid;

/// Where work belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    pub work_session: String,
    /// The one before it, where that was over.
    pub previous: Option<String>,
    /// How many steps of work lie between this and what began it.
    pub depth: u32,
}

/// What is known where something begins, the strongest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// Said by the caller.
    pub explicit: Option<String>,
    /// Of the run that causes it.
    pub inherited: Option<Lineage>,
    /// Of the task that the agent works on. A new task does not look at it: it is never a part of the task before.
    pub active_task: Option<String>,
}

impl Sources {
    /// The work session that is meant, whether or not it is over.
    pub fn first(&self) -> Option<&str> {
        let inherited = self.inherited.as_ref().map(|parent| &parent.work_session);
        self.explicit.as_ref().or(inherited).or(self.active_task.as_ref()).map(String::as_str)
    }

    /// `is_over` tells whether a work session is archived and nothing open keeps it.
    pub fn decide(self, is_over: impl FnOnce(&str) -> bool, fresh: Uuid) -> Lineage {
        let depth = self.inherited.as_ref().map_or(0, |parent| parent.depth.saturating_add(1));
        let inherited = self.inherited.map(|parent| parent.work_session);
        let found = self.explicit.or(inherited).or(self.active_task);
        let new = || format!("ws_{fresh}");
        match found {
            Some(old) if is_over(&old) => Lineage { work_session: new(), previous: Some(old), depth },
            Some(known) => Lineage { work_session: known, previous: None, depth },
            None => Lineage { work_session: new(), previous: None, depth },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: Sources, over: &str, expected: (&str, Option<&str>, u32)) {
        let fresh = Uuid::from_u128(7);
        let new = format!("ws_{fresh}");
        let found = sources.decide(|id| id == over, fresh);
        let session = if found.work_session == new { "new" } else { &found.work_session };
        assert_eq!((session, found.previous.as_deref(), found.depth), expected);
    }

    fn parent(depth: u32) -> Option<Lineage> {
        Some(Lineage { work_session: "ws_parent".into(), previous: None, depth })
    }

    #[test]
    fn the_strongest_source_decides_and_a_child_is_one_deeper() {
        let all =
            Sources { explicit: Some("ws_said".into()), inherited: parent(2), active_task: Some("ws_task".into()) };
        check(all.clone(), "", ("ws_said", None, 3));
        check(Sources { explicit: None, ..all.clone() }, "", ("ws_parent", None, 3));
        check(Sources { explicit: None, inherited: None, ..all }, "", ("ws_task", None, 0));
        check(Sources::default(), "", ("new", None, 0));
        check(Sources { inherited: parent(u32::MAX), ..Sources::default() }, "", ("ws_parent", None, u32::MAX));
    }

    #[test]
    fn what_is_over_is_followed_by_a_new_one_that_names_it() {
        let said = Sources { explicit: Some("ws_old".into()), ..Sources::default() };
        check(said.clone(), "ws_old", ("new", Some("ws_old"), 0));
        check(said, "ws_other", ("ws_old", None, 0));
        let inherited = Sources { inherited: parent(0), ..Sources::default() };
        check(inherited, "ws_parent", ("new", Some("ws_parent"), 1));
    }
}
