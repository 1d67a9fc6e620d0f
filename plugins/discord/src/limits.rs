//! Discord's rate limits, learned from its headers: buckets by route and top-level resource, and the one for all.
//! Keeps true: nothing is sent into a bucket that is known to be empty; what is kept has an end. Never: counts by a fixed table.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::wire;

const BUCKETS_MAX: usize = 256;
/// So few are kept even when they have run out.
const SMALL: usize = 16;

/// What a request counts against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Route {
    /// Method and path, ids of anything but the top-level resource left out.
    pub path: String,
    /// The channel, webhook or interaction.
    pub major: String,
    /// Whether the limit for all counts it; interactions it does not.
    pub global: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// The bucket of a route, as the headers name it.
    names: BTreeMap<String, String>,
    /// Only the empty ones are kept for the next instance: the others teach it with its first answer.
    #[serde(serialize_with = "empty_ones")]
    buckets: BTreeMap<String, Bucket>,
    global_until_ms: u64,
    second_ms: u64,
    second_count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bucket {
    remaining: u32,
    until_ms: u64,
}

fn empty_ones<S: Serializer>(buckets: &BTreeMap<String, Bucket>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(buckets.iter().filter(|(_, bucket)| bucket.remaining == 0))
}

impl Limits {
    /// When a request of this route may be sent; now or earlier if at once.
    /// `a_second` is the limit over all routes, the only one that no header tells before it is reached.
    pub fn free_at(&self, route: &Route, a_second: u32, now_ms: u64) -> u64 {
        let empty = self.buckets.get(&self.bucket_of(route)).filter(|bucket| bucket.remaining == 0);
        let own = empty.map_or(0, |bucket| bucket.until_ms);
        if !route.global {
            return own;
        }
        let second_ends = self.second_ms.saturating_add(1_000);
        let full = self.second_count >= a_second && now_ms < second_ends;
        own.max(self.global_until_ms).max(if full { second_ends } else { 0 })
    }

    /// Counts a request that is sent now.
    pub fn spend(&mut self, route: &Route, now_ms: u64) {
        let key = self.bucket_of(route);
        if let Some(bucket) = self.buckets.get_mut(&key) {
            bucket.remaining = bucket.remaining.saturating_sub(1);
        }
        if route.global {
            if now_ms >= self.second_ms.saturating_add(1_000) {
                (self.second_ms, self.second_count) = (now_ms, 0);
            }
            self.second_count = self.second_count.saturating_add(1);
        }
    }

    /// Learns from an answer's headers.
    pub fn learn(&mut self, route: &Route, headers: &[(String, String)], now_ms: u64) {
        let Some(remaining) = number(headers, "x-ratelimit-remaining") else { return };
        let Some(after) = number(headers, "x-ratelimit-reset-after") else { return };
        if let Some(name) = wire::header(headers, "x-ratelimit-bucket") {
            self.names.insert(route.path.clone(), wire::name(name));
        }
        let bucket = Bucket { remaining: remaining.max(0.0) as u32, until_ms: now_ms + wire::seconds_as_ms(after) };
        self.buckets.insert(self.bucket_of(route), bucket);
        self.shrink(now_ms);
    }

    /// Learns from a refusal (429), and says when to try again.
    pub fn refused(&mut self, route: &Route, headers: &[(String, String)], body: &Value, now_ms: u64) -> u64 {
        // The body is the more exact of both.
        let after = body["retry_after"].as_f64().or_else(|| number(headers, "retry-after")).unwrap_or(1.0);
        let until_ms = now_ms + wire::seconds_as_ms(after).max(1);
        let scope = wire::header(headers, "x-ratelimit-scope");
        let is_global = body["global"] == true
            || scope == Some("global")
            || wire::header(headers, "x-ratelimit-global").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        if is_global {
            self.global_until_ms = self.global_until_ms.max(until_ms);
        } else {
            self.buckets.insert(self.bucket_of(route), Bucket { remaining: 0, until_ms });
            self.shrink(now_ms);
        }
        until_ms
    }

    fn bucket_of(&self, route: &Route) -> String {
        let name = self.names.get(&route.path).unwrap_or(&route.path);
        format!("{name}:{}", route.major)
    }

    /// Forgets what has run out; if that is not enough, what runs out first.
    fn shrink(&mut self, now_ms: u64) {
        if self.buckets.len() > SMALL {
            self.buckets.retain(|_, bucket| bucket.until_ms > now_ms);
        }
        while self.buckets.len() > BUCKETS_MAX {
            let first = self.buckets.iter().min_by_key(|(_, bucket)| bucket.until_ms).map(|(key, _)| key.clone());
            first.and_then(|key| self.buckets.remove(&key));
        }
        while self.names.len() > SMALL {
            self.names.pop_first();
        }
    }
}

fn number(headers: &[(String, String)], name: &str) -> Option<f64> {
    wire::header(headers, name).and_then(|value| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn route(channel: &str) -> Route {
        Route { path: "POST /channels/*/messages".into(), major: channel.into(), global: true }
    }

    fn headers(remaining: &str, after: &str) -> Vec<(String, String)> {
        let pairs =
            [("X-RateLimit-Remaining", remaining), ("x-ratelimit-reset-after", after), ("x-ratelimit-bucket", "abcd")];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    #[test]
    fn an_empty_bucket_waits_for_its_reset_and_others_do_not() {
        let mut limits = Limits::default();
        limits.learn(&route("1"), &headers("0", "1.25"), 10_000);
        assert_eq!(limits.free_at(&route("1"), 50, 10_000), 11_250);
        assert!(limits.free_at(&route("2"), 50, 10_000) <= 10_000, "a bucket is one of its channel");
        limits.learn(&route("1"), &headers("2", "1"), 12_000);
        for _ in 0..2 {
            assert!(limits.free_at(&route("1"), 50, 12_000) <= 12_000);
            limits.spend(&route("1"), 12_000);
        }
        assert_eq!(limits.free_at(&route("1"), 50, 12_000), 13_000);
    }

    #[test]
    fn routes_that_share_a_bucket_share_its_limit() {
        let mut limits = Limits::default();
        let edit = Route { path: "PATCH /channels/*/messages/*".into(), ..route("1") };
        limits.learn(&edit, &headers("5", "1"), 0);
        limits.learn(&route("1"), &headers("0", "2"), 0);
        assert_eq!(limits.free_at(&edit, 50, 0), 2_000);
    }

    #[test]
    fn a_refusal_of_one_route_and_a_refusal_of_all() {
        let mut limits = Limits::default();
        let body = json!({ "message": "You are being rate limited.", "retry_after": 0.3, "global": false });
        assert_eq!(limits.refused(&route("1"), &[], &body, 1_000), 1_300);
        assert_eq!(limits.free_at(&route("1"), 50, 1_000), 1_300);
        assert!(limits.free_at(&route("2"), 50, 1_000) <= 1_000);
        let global = [("X-RateLimit-Global".to_owned(), "true".to_owned()), ("Retry-After".to_owned(), "2".to_owned())];
        limits.refused(&route("1"), &global, &Value::Null, 1_000);
        assert_eq!(limits.free_at(&route("2"), 50, 1_000), 3_000);
        assert!(limits.free_at(&Route { global: false, ..route("2") }, 50, 1_000) <= 1_000, "interactions go on");
    }

    #[test]
    fn no_more_than_fifty_a_second_over_all() {
        let mut limits = Limits::default();
        for n in 0..50 {
            assert!(limits.free_at(&route(&n.to_string()), 50, 5_000) <= 5_000);
            limits.spend(&route(&n.to_string()), 5_000);
        }
        assert_eq!(limits.free_at(&route("99"), 50, 5_400), 6_000);
        limits.spend(&route("99"), 6_000);
        assert!(limits.free_at(&route("99"), 50, 6_000) <= 6_000);
    }

    #[test]
    fn senseless_headers_do_no_harm() {
        let mut limits = Limits::default();
        for value in ["NaN", "-5", "inf", "1e300", "", "x"] {
            limits.learn(&route("1"), &headers(value, value), 1_000);
            limits.refused(&route("1"), &headers(value, value), &json!({ "retry_after": value }), 1_000);
            let after = [("retry-after".to_owned(), value.to_owned())];
            assert!(limits.refused(&route("1"), &after, &Value::Null, 1_000) <= 1_000 + 86_400_000);
        }
        for n in 0..1_000 {
            limits.learn(&route(&n.to_string()), &headers("0", "60"), 1_000);
        }
        assert_eq!(limits.buckets.len(), BUCKETS_MAX);
    }
}
