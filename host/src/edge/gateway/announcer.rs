//! What every client hears without asking: ticks, health, who is connected, tasks and settings that changed.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::super::{Context, methods, old_tasks};
use super::TICK_MS;
use crate::bus::Delivery;
use crate::feed::Audience;

/// Comings and goings within this are told at once.
const PRESENCE_EVERY: Duration = Duration::from_secs(1);
/// Health is told at every so manieth tick.
const HEALTH_TICKS: u32 = 2;

/// Tells until `stop`.
pub async fn announce(context: Context, stop: CancellationToken) {
    let mut presence = context.presence.changes();
    let mut tasks = context.bus.subscribe("task.");
    let mut settings = context.bus.subscribe("config.applied");
    let mut ticks = 0;
    let mut next_tick = Box::pin(context.clock.sleep(Duration::from_millis(TICK_MS)));
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = &mut next_tick => {
                next_tick = Box::pin(context.clock.sleep(Duration::from_millis(TICK_MS)));
                ticks += 1;
                context.feed.tell("tick", Audience::Everyone, &json!({ "ts": context.clock.now() }));
                if ticks % HEALTH_TICKS == 0 {
                    context.feed.tell("health", Audience::Everyone, &methods::health_of(&context));
                }
            }
            Ok(()) = presence.changed() => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = context.clock.sleep(PRESENCE_EVERY) => {}
                }
                presence.mark_unchanged();
                context.feed.tell("presence", Audience::Everyone, &json!({ "presence": context.presence.told() }));
            }
            Some(delivery) = tasks.next() => if let Delivery::Event(event) = delivery {
                let id = event.data.get("taskId").and_then(|id| id.as_str()).unwrap_or_default();
                if let Ok(Some(task)) = old_tasks::find(&context, id.to_owned()).await {
                    let payload = json!({ "action": "upserted", "task": old_tasks::row(&task) });
                    context.feed.tell("task", Audience::Readers, &payload);
                }
            },
            Some(Delivery::Event(_)) = settings.next() => {
                let payload = json!({
                    "path": context.dir.config(), "hash": context.settings.current().revision, "ts": context.clock.now(),
                });
                context.feed.tell("config.changed", Audience::Readers, &payload);
            }
        }
    }
}
