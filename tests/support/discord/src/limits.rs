//! Discord's rate limits: a bucket for each route and channel, and one for all, told by headers before and by 429 after.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::json;

use super::http::Answer;

#[derive(Default)]
pub(super) struct Limits {
    buckets: HashMap<String, Window>,
    all: Option<Window>,
}

#[derive(Clone, Copy)]
struct Window {
    started: Instant,
    count: u32,
}

impl Window {
    /// Counts one more; how long to wait when it is too many.
    fn count(window: &mut Option<Self>, most: u32, length: Duration, now: Instant) -> Result<Self, Duration> {
        let mut current = window.filter(|window| now - window.started < length);
        let current = current.get_or_insert(Self { started: now, count: 0 });
        if current.count >= most {
            let wait = length.saturating_sub(now - current.started);
            *window = Some(*current);
            return Err(wait);
        }
        current.count += 1;
        *window = Some(*current);
        Ok(*current)
    }
}

/// A route and how often it may be used.
pub(super) struct Allowed<'a> {
    pub(super) bucket: &'a str,
    pub(super) major: &'a str,
    pub(super) most: u32,
    pub(super) length: Duration,
    /// Requests a second over all; none for interactions.
    pub(super) global: Option<u32>,
}

impl Limits {
    /// The headers of an answer, or the refusal of a request that is too much.
    pub(super) fn take(&mut self, allowed: &Allowed<'_>) -> Result<Vec<(&'static str, String)>, Box<Answer>> {
        let now = Instant::now();
        if let Some(most) = allowed.global
            && let Err(wait) = Window::count(&mut self.all, most, Duration::from_secs(1), now)
        {
            return Err(Box::new(refused(wait, true, Vec::new())));
        }
        let key = format!("{}:{}", allowed.bucket, allowed.major);
        let mut window = self.buckets.get(&key).copied();
        let counted = Window::count(&mut window, allowed.most, allowed.length, now);
        if let Some(window) = window {
            self.buckets.insert(key, window);
        }
        let (left, wait) = match &counted {
            Ok(window) => (allowed.most - window.count, allowed.length.saturating_sub(now - window.started)),
            Err(wait) => (0, *wait),
        };
        let headers = vec![
            ("x-ratelimit-limit", allowed.most.to_string()),
            ("x-ratelimit-remaining", left.to_string()),
            ("x-ratelimit-reset-after", format!("{:.3}", wait.as_secs_f64())),
            ("x-ratelimit-bucket", allowed.bucket.to_owned()),
        ];
        match counted {
            Ok(_) => Ok(headers),
            Err(wait) => Err(Box::new(refused(wait, false, headers))),
        }
    }
}

fn refused(wait: Duration, global: bool, mut headers: Vec<(&'static str, String)>) -> Answer {
    let seconds = (wait.as_secs_f64() * 1_000.0).ceil() / 1_000.0;
    headers.push(("retry-after", wait.as_secs_f64().ceil().to_string()));
    headers.push(("x-ratelimit-scope", if global { "global" } else { "user" }.to_owned()));
    if global {
        headers.push(("x-ratelimit-global", "true".to_owned()));
    }
    let body = json!({ "message": "You are being rate limited.", "retry_after": seconds, "global": global });
    Answer { status: 429, headers, body }
}
