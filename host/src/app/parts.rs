//! The parts of a gateway that run until they are told to stop. Keeps true: one that ends by itself is noticed.

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Error;

/// Tasks that run until they are told to stop.
#[derive(Default)]
pub(super) struct Parts {
    tasks: JoinSet<&'static str>,
    pub(super) stop: CancellationToken,
}

impl Parts {
    pub(super) fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            task.await;
            name
        });
    }

    /// The first part that ends although nobody told it to.
    pub(super) async fn died(&mut self) -> Error {
        match self.tasks.join_next().await {
            Some(Ok(part)) => Error::Died { part },
            Some(Err(_)) => Error::Died { part: "a part of the gateway" },
            None => std::future::pending().await,
        }
    }

    pub(super) async fn end(&mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_or_panics_by_itself_is_noticed_and_one_that_was_told_is_not_missed() {
        let mut parts = Parts::default();
        parts.spawn("a part that ends", async {});
        assert!(matches!(parts.died().await, Error::Died { part: "a part that ends" }));
        parts.spawn("a part that panics", async { panic!("for the test") });
        assert!(matches!(parts.died().await, Error::Died { .. }));
        let stop = parts.stop.clone();
        parts.spawn("a part that goes on", async move { stop.cancelled().await });
        parts.end().await;
        assert!(parts.tasks.is_empty());
    }
}
