//! Slots and what fills them, as their pages show them.

use super::{CategoryBadge, Indexed};
use crate::assets::mark_of;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotCard {
    pub slot: String,
    /// `loading`, `serving`, `probation`, `quarantined`, `disabled`, `failed` or `empty`.
    pub state: String,
    pub plugin: Option<PluginName>,
    pub grants: Vec<String>,
    pub on_failure: String,
    pub problem: Option<String>,
    /// An update that wants more, and what more it wants.
    pub waiting: Option<(String, Vec<String>)>,
    pub calls: u64,
    pub fallbacks: u64,
    pub failures: Vec<(String, u64)>,
    pub p50_micros: u64,
    pub p99_micros: u64,
    pub memory_bytes: u64,
    pub memory_mb_max: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginName {
    pub name: String,
    pub version: String,
    pub hash: String,
    pub source: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugins {
    pub slots: Vec<SlotCard>,
    /// Files that nothing is bound to.
    pub installed: Vec<String>,
    pub interface: String,
    /// Decisions that the disk was too slow for.
    pub unrecorded: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SwapRow {
    pub at: u64,
    pub kind: String,
    pub said: String,
}

/// What a version answers, beside what the one that serves does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TriedRow {
    /// The work session, or the text.
    pub title: String,
    /// Its id, for a work session.
    pub session: Option<String>,
    pub before: Answered,
    pub after: Answered,
}

/// What a classifier has answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answered {
    /// The key of a category.
    pub category: Option<String>,
    /// How sure it is, with tags; or why there is no answer.
    pub rest: String,
    pub failed: bool,
}

/// What came of trying a version without putting it in service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tried {
    pub source: String,
    pub on_sessions: bool,
    pub asked: usize,
    pub changed: usize,
    pub rows: Vec<TriedRow>,
    /// Why it could not be tried.
    pub problem: Option<String>,
}

/// Rules that are longer are not edited in a page: what is not shown whole would be lost by saving it.
pub const RULES_BYTES_MAX: usize = 100_000;

/// The file of rules, as far as a page can edit it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rules {
    /// All of it; empty while there is no file.
    Text(String),
    TooLong,
    /// It is no UTF-8.
    NotText,
    /// It could not be read, and why.
    Unread(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct SlotDetail {
    pub card: SlotCard,
    /// Its configuration as JSON.
    pub config: String,
    /// The file of rules, where the slot takes one.
    pub rules: Option<Rules>,
    /// What could be loaded here by name.
    pub sources: Vec<String>,
    /// The newest first, and where older ones begin.
    pub history: Indexed<(Vec<SwapRow>, Option<String>)>,
    pub logs: Vec<(String, String, u64)>,
    /// Whether it classifies, so that it can be tried on a text; and the names of what it finds.
    pub classifies: bool,
    pub categories: Vec<CategoryBadge>,
    /// What the reader wants tried, as it was asked for.
    pub text: String,
    /// Rules and a configuration that were tried and are not saved.
    pub typed_rules: Option<String>,
    pub typed_config: Option<String>,
    pub tried: Option<Tried>,
}

impl SlotDetail {
    /// Tells what a reader saw to serve, and with which configuration, from what serves now.
    pub fn mark(&self) -> String {
        let plugin = self.card.plugin.as_ref();
        mark_of(&format!("{}\n{}", plugin.map_or("", |plugin| plugin.hash.as_str()), self.config))
    }
}
