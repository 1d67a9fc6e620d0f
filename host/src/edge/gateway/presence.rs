//! Who is connected.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

use super::handshake::Granted;
use crate::clock::Timestamp;

/// Of more than these only the latest are shown to who asks.
const ASKED_MAX: usize = 100;
/// Of more than these only the latest are told to everybody who connects or is connected: with thousands, each telling goes to all of them.
const TOLD_MAX: usize = 20;

/// Everybody who is connected now; cheap to clone.
#[derive(Clone)]
pub struct Presence(Arc<Shared>);

struct Shared {
    connected: Mutex<BTreeMap<Uuid, Value>>,
    /// Counts changes.
    version: watch::Sender<u64>,
}

impl Default for Presence {
    fn default() -> Self {
        Self(Arc::new(Shared { connected: Mutex::default(), version: watch::Sender::new(0) }))
    }
}

/// One who is connected, until it is dropped.
pub(super) struct Present {
    presence: Presence,
    id: Uuid,
}

impl Presence {
    pub(super) fn come(&self, id: Uuid, granted: &Granted, now: Timestamp) -> Present {
        let client = &granted.connect.client;
        let mut entry = json!({
            "host": client.display_name.as_deref().unwrap_or(client.id.as_str()), "version": client.version,
            "platform": client.platform, "deviceFamily": client.device_family, "mode": client.mode.as_str(),
            "reason": "connect", "text": format!("{} {}", client.id.as_str(), client.version),
            "deviceId": granted.connect.device.as_ref().map(|device| &device.id), "roles": ["operator"],
            "scopes": granted.scopes, "instanceId": client.instance_id, "ts": now,
        });
        if let Some(entry) = entry.as_object_mut() {
            entry.retain(|_, value| !value.is_null());
        }
        self.change(|connected| connected.insert(id, entry));
        Present { presence: self.clone(), id }
    }

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Uuid, Value>) -> T) {
        change(&mut self.0.connected.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.version.send_modify(|version| *version += 1);
    }

    /// The latest first, for who asks.
    pub fn list(&self) -> Vec<Value> {
        self.latest(ASKED_MAX)
    }

    /// The latest first, for everybody.
    pub(super) fn told(&self) -> Vec<Value> {
        self.latest(TOLD_MAX)
    }

    fn latest(&self, most: usize) -> Vec<Value> {
        let connected = self.0.connected.lock().unwrap_or_else(PoisonError::into_inner);
        // Ids are ordered by time.
        connected.values().rev().take(most).cloned().collect()
    }

    pub fn version(&self) -> u64 {
        *self.0.version.borrow()
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.0.version.subscribe()
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.presence.change(|connected| connected.remove(&self.id));
    }
}
