//! One call of an adapter while it is made: its time, its chance, and the outputs so far.
//! Keeps true: the same context gives the same chance; a call that changed what must be kept ends with a checkpoint.

use super::{DeliveryResult, Health, Inbound, Output, SetTimer, Status, WebhookResponse};
use crate::Context;

pub struct Turn {
    pub now_ms: u64,
    seed: u64,
    outputs: Vec<Output>,
    is_changed: bool,
}

impl Turn {
    pub fn new(context: &Context) -> Self {
        Self { now_ms: context.now_ms, seed: context.seed, outputs: Vec::new(), is_changed: false }
    }

    pub fn push(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// The state must be kept with what this call does.
    pub fn changed(&mut self) {
        self.is_changed = true;
    }

    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    pub fn status(&mut self, health: Health, detail: impl Into<String>) {
        self.push(Output::Status(Status { health, detail: detail.into() }));
    }

    pub fn timer(&mut self, name: &str, after_ms: u64) {
        self.push(Output::SetTimer(SetTimer { name: name.to_owned(), after_ms }));
    }

    pub fn cancel(&mut self, timer: &str) {
        self.push(Output::CancelTimer(timer.to_owned()));
    }

    pub fn inbound(&mut self, inbound: Inbound) {
        self.push(Output::Inbound(inbound));
        self.changed();
    }

    pub fn delivered(&mut self, result: DeliveryResult) {
        self.push(Output::Delivered(result));
        self.changed();
    }

    /// For adapters of networks that call nobody.
    pub fn no_webhook(&mut self, id: String) {
        let gone = WebhookResponse { id, status: 404, headers: Vec::new(), body: Vec::new() };
        self.push(Output::WebhookResponse(gone));
    }

    /// A number below `limit`, by the seed of the call; each asked for in turn is another.
    pub fn chance(&mut self, limit: u64) -> u64 {
        // splitmix64
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }

    /// Later each time, up to `most_ms`, and at a moment that others do not choose as well.
    pub fn backoff(&mut self, attempts: u32, most_ms: u64) -> u64 {
        let longest = (1_000_u64 << attempts.min(20)).min(most_ms);
        longest / 2 + self.chance(longest / 2)
    }

    /// What the call has come to.
    pub fn outputs(mut self) -> Vec<Output> {
        if self.is_changed {
            self.outputs.push(Output::Checkpoint);
        }
        self.outputs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(seed: u64) -> Turn {
        Turn::new(&Context { now_ms: 1, seed, deployment: "d".into(), locale: "en".into(), budget_ms: 1 })
    }

    #[test]
    fn chance_is_the_same_for_a_seed_and_another_each_time() {
        let draw = |seed: u64| -> Vec<u64> {
            let mut turn = turn(seed);
            (0..8).map(|_| turn.chance(1_000_000)).collect()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(7).windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(turn(7).chance(0), 0);
    }

    #[test]
    fn waits_grow_and_end() {
        for attempts in 0..100 {
            let wait = turn(u64::from(attempts)).backoff(attempts, 60_000);
            assert!((500..60_000).contains(&wait), "{wait}");
        }
    }

    #[test]
    fn what_changed_is_kept() {
        assert!(turn(1).outputs().is_empty());
        let mut changed = turn(1);
        changed.changed();
        assert!(matches!(changed.outputs().as_slice(), [Output::Checkpoint]));
    }
}
