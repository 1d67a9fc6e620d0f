//! How much an adapter may do a minute: a bucket each, filled by time.

const MINUTE_MS: u64 = 60_000;

/// What one adapter may do a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    pub frames: u32,
    pub requests: u32,
    pub messages: u32,
}

/// Holds a minute's worth; what is taken comes back with time.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// In sixty-thousandths of one.
    level: u64,
    at: u64,
}

impl Bucket {
    pub(crate) fn full(rate: u32, now: u64) -> Self {
        Self { level: u64::from(rate) * MINUTE_MS, at: now }
    }

    /// Takes `count` if there are so many.
    pub(crate) fn take(&mut self, count: usize, rate: u32, now: u64) -> bool {
        let (rate, passed) = (u64::from(rate), now.saturating_sub(self.at));
        self.at = now;
        self.level = self.level.saturating_add(passed.saturating_mul(rate)).min(rate * MINUTE_MS);
        let wanted = (count as u64).saturating_mul(MINUTE_MS);
        let enough = wanted <= self.level;
        if enough {
            self.level -= wanted;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_rate_and_no_more() {
        let mut bucket = Bucket::full(60, 0);
        assert!(bucket.take(60, 60, 0) && !bucket.take(1, 60, 0) && !bucket.take(1, 60, 999));
        assert!(bucket.take(1, 60, 1_000) && !bucket.take(1, 60, 1_000));
        assert!(bucket.take(60, 60, 10_000_000) && !bucket.take(1, 60, 10_000_000), "it holds a minute's worth");
        assert!(!bucket.take(usize::MAX, 60, u64::MAX));
    }
}
