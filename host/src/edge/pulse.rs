//! Whether a gateway still answers, asked from inside: the runtime must run a new task, and that one must get every lock that a question
//! about the gateway's health gets. Never: looks at the disk, whose fullness no restart mends; keeps a gateway from ending.

use std::sync::{Arc, Weak};

use super::{Context, Shared, methods};

#[derive(Clone)]
pub struct Pulse(Weak<Shared>);

impl Pulse {
    pub fn of(context: &Context) -> Self {
        Self(Arc::downgrade(&context.0))
    }

    /// Comes back when the gateway answers; for ever if it does not. One that has ended needs not answer.
    pub async fn beat(&self) {
        let Some(shared) = self.0.upgrade() else { return };
        let asked = tokio::spawn(async move { drop(methods::health_of(&Context(shared))) });
        // One that panicked did not answer.
        if asked.await.is_err_and(|error| error.is_panic()) {
            std::future::pending::<()>().await;
        }
    }
}
