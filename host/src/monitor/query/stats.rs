//! Counts by day: how categories are spread, and how much nobody could tell.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{QueryError, Readers};
use crate::clock::Timestamp;
use crate::event::Role;
use crate::monitor::category::FALLBACK;
use crate::monitor::index::{DAY_MS, signed};

impl Readers {
    /// The last `days` days up to `now`, and all of them together.
    pub(in crate::monitor) fn stats(&self, days: u32, now: u64) -> Result<Value, QueryError> {
        let today = now / DAY_MS;
        let from = signed(today.saturating_sub(u64::from(days.saturating_sub(1))));
        self.read(|db| {
            let mut total = Day::default();
            let mut by_day: BTreeMap<i64, Day> = BTreeMap::new();
            let mut statement = db.prepare_cached(
                "SELECT day, category, source, sessions FROM daily_categories WHERE day >= ? AND sessions > 0",
            )?;
            let mut rows = statement.query([from])?;
            while let Some(row) = rows.next()? {
                let (category, source): (String, String) = (row.get(1)?, row.get(2)?);
                let count = row.get::<_, i64>(3)?.unsigned_abs();
                by_day.entry(row.get(0)?).or_default().sessions(&category, &source, count);
                total.sessions(&category, &source, count);
            }
            let mut statement = db.prepare_cached("SELECT day, role, how, events FROM daily_roles WHERE day >= ?")?;
            let mut rows = statement.query([from])?;
            while let Some(row) = rows.next()? {
                let role = crate::monitor::fold::role_at(row.get(1)?);
                let (unknown, count) = (row.get::<_, i64>(2)? == 2, row.get::<_, i64>(3)?.unsigned_abs());
                by_day.entry(row.get(0)?).or_default().events(role, unknown, count);
                total.events(role, unknown, count);
            }
            let days: Vec<Value> = by_day.iter().map(|(day, counts)| counts.to_value(Some(*day))).collect();
            Ok(json!({ "days": days, "total": total.to_value(None) }))
        })
    }

    /// Lines that were no events, and events whose role nobody could tell.
    pub(in crate::monitor) fn counts(&self) -> Result<(u64, u64, u64), QueryError> {
        self.read(|db| {
            let malformed: Option<i64> =
                db.query_row("SELECT max(value) FROM meta WHERE key = 'malformed'", [], |row| row.get(0))?;
            let (events, unknown): (Option<i64>, Option<i64>) = db.query_row(
                "SELECT sum(events), sum(CASE WHEN how = 2 THEN events END) FROM daily_roles",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            let count = |number: Option<i64>| number.unwrap_or(0).unsigned_abs();
            Ok((count(events), count(malformed), count(unknown)))
        })
    }
}

#[derive(Default)]
struct Day {
    categories: BTreeMap<String, u64>,
    sources: BTreeMap<String, u64>,
    sessions: u64,
    roles: [u64; 4],
    events: u64,
    unknown: u64,
}

impl Day {
    fn sessions(&mut self, category: &str, source: &str, count: u64) {
        if !category.is_empty() {
            *self.categories.entry(category.to_owned()).or_default() += count;
        }
        *self.sources.entry(source.to_owned()).or_default() += count;
        self.sessions += count;
    }

    fn events(&mut self, role: Role, unknown: bool, count: u64) {
        self.roles[crate::monitor::fold::place(role)] += count;
        self.events += count;
        if unknown {
            self.unknown += count;
        }
    }

    fn to_value(&self, day: Option<i64>) -> Value {
        let share = |part: u64, of: u64| {
            #[allow(clippy::cast_precision_loss)]
            if of == 0 { 0.0 } else { (part as f64 / of as f64 * 10_000.0).round() / 10_000.0 }
        };
        let roles: Map<String, Value> =
            Role::ALL.iter().zip(self.roles).map(|(role, count)| (role.as_str().to_owned(), json!(count))).collect();
        let fallback = self.sources.get(FALLBACK).copied().unwrap_or(0);
        let mut value = json!({
            "workSessions": self.sessions,
            "categories": self.categories,
            "sources": self.sources,
            "fallbackShare": share(fallback, self.sessions),
            "events": self.events,
            "roles": roles,
            "unknownRoles": self.unknown,
            "unknownShare": share(self.unknown, self.events),
        });
        if let Some(day) = day {
            value["day"] = json!(Timestamp(day.unsigned_abs() * DAY_MS).date().to_string());
        }
        value
    }
}
