//! Lets a backup be taken while the gateway serves: for a moment nothing is committed, so that whoever opens the files then has them as
//! a power cut would leave them. Keeps true: the moment ends by itself, whatever becomes of who asked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::methods::Nothing;
use super::{Context, ErrorShape, Methods};
use crate::id;
use crate::journal::{self, Held};
use crate::scope::Scope;

/// The longest that commits wait.
const AT_MOST: Duration = Duration::from_secs(5);

/// The moment that is being held.
pub struct Backups {
    journal: journal::Handle,
    held: Mutex<Option<(Uuid, Held)>>,
}

impl Backups {
    pub fn new(journal: journal::Handle) -> Self {
        Self { journal, held: Mutex::new(None) }
    }
}

pub(super) fn methods(methods: Methods) -> Methods {
    methods.add("backup.hold", Scope::Admin, hold).add("backup.release", Scope::Admin, release)
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Release {
    #[schemars(length(max = 64))]
    id: String,
}

async fn hold(context: Context, _: Nothing) -> Result<Value, ErrorShape> {
    let id = id::fresh(context.clock.now());
    let asked = context.clone();
    let held = tokio::task::spawn_blocking(move || asked.backups.journal.hold(AT_MOST)).await;
    let held = held.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    let held = held.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
    // Who held before has had its time, or shares it: it is told that it was too late.
    let before = context.backups.held.lock().unwrap_or_else(PoisonError::into_inner).replace((id, held));
    drop(before);
    Ok(json!({ "id": id, "atMostMs": AT_MOST.as_millis() as u64 }))
}

/// Whether nothing was committed since the hold of this id.
async fn release(context: Context, asked: Release) -> Result<Value, ErrorShape> {
    let mut held = context.backups.held.lock().unwrap_or_else(PoisonError::into_inner);
    let ours = held.take_if(|(id, _)| id.to_string() == asked.id);
    Ok(json!({ "held": ours.is_some_and(|(_, held)| held.release()) }))
}
