//! What connected clients are told as it happens: the words of runs, sessions that change, ticks.
//! Keeps true: telling never waits; whoever falls too far behind is told that it missed something. Never: keeps anything for later.

use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

/// Tellings that a slow listener may be behind.
const BEHIND_MAX: usize = 4_096;

/// Who may hear something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    Everyone,
    /// Whoever may read.
    Readers,
    /// Readers that asked for the calls of tools as they are made.
    ToolWatchers,
}

/// One thing that is told, written once for all who hear it.
#[derive(Debug)]
pub struct Told {
    pub event: &'static str,
    pub audience: Audience,
    /// JSON.
    pub payload: String,
    value: OnceLock<Value>,
}

impl Told {
    pub fn new(event: &'static str, audience: Audience, payload: String) -> Self {
        Self { event, audience, payload, value: OnceLock::new() }
    }

    /// What it says, taken apart by the first who asks for all of them.
    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| serde_json::from_str(&self.payload).unwrap_or_default())
    }
}

#[derive(Clone)]
pub struct Feed(broadcast::Sender<Arc<Told>>);

/// What a listener hears next.
#[derive(Debug)]
pub enum Heard {
    Told(Arc<Told>),
    /// So many were told meanwhile and are gone.
    Missed(u64),
    /// Nothing more will come.
    End,
}

pub struct Listener(broadcast::Receiver<Arc<Told>>);

impl Default for Feed {
    fn default() -> Self {
        Self(broadcast::Sender::new(BEHIND_MAX))
    }
}

impl Feed {
    /// Whether anybody listens; what takes work to say need not be said otherwise.
    pub fn is_heard(&self) -> bool {
        self.0.receiver_count() > 0
    }

    pub fn tell(&self, event: &'static str, audience: Audience, payload: &impl Serialize) {
        if !self.is_heard() {
            return;
        }
        let payload = serde_json::to_string(payload).expect("what is told is plain JSON");
        // Nobody listening any more is no fault.
        let _ = self.0.send(Arc::new(Told::new(event, audience, payload)));
    }

    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Listener {
    pub async fn next(&mut self) -> Heard {
        match self.0.recv().await {
            Ok(told) => Heard::Told(told),
            Err(broadcast::error::RecvError::Lagged(count)) => Heard::Missed(count),
            Err(broadcast::error::RecvError::Closed) => Heard::End,
        }
    }

    /// What has been told already, without waiting.
    pub fn at_hand(&mut self) -> Option<Heard> {
        match self.0.try_recv() {
            Ok(told) => Some(Heard::Told(told)),
            Err(broadcast::error::TryRecvError::Lagged(count)) => Some(Heard::Missed(count)),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_listener_that_falls_behind_is_told_how_much_it_missed() {
        let feed = Feed::default();
        let mut listener = feed.listen();
        for n in 0..BEHIND_MAX + 10 {
            feed.tell("tick", Audience::Everyone, &n);
        }
        assert!(matches!(listener.next().await, Heard::Missed(10)));
        assert!(matches!(listener.next().await, Heard::Told(told) if told.payload == "10"));
        while listener.at_hand().is_some() {}
        drop(feed);
        assert!(matches!(listener.next().await, Heard::End));
    }
}
