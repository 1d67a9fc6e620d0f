//! Messages for people that nobody takes: where no adapter serves, what could not be delivered for a day is refused, as adapters' own outboxes do.
//! Keeps true: what is refused is told, and taken off record; a channel that comes back posts nothing of long ago.

use chela_channel::AGE_MS_MAX;
use serde_json::json;

use super::replies::target_of;
use super::store::{self, Posted};
use super::{Error, Shared};
use crate::clock::Timestamp;
use crate::jobs::Outgoing;
use crate::journal::Transaction;

const TOO_OLD: &str = "its channel took nothing for a day";
/// Records that one transaction takes out.
const AT_ONCE: usize = 1_000;

/// Refuses what is too old in channels that no adapter serves.
pub(super) async fn sweep(shared: &Shared) {
    loop {
        let old = too_old(shared);
        if old.is_empty() {
            return;
        }
        if let Err(error) = take_out(shared, &old).await {
            // They are found again with the next look.
            return tracing::warn!(error = &error as &dyn std::error::Error, "old messages for people stay on record");
        }
        for Posted { channel, outbound, .. } in old {
            if let Some(outbox) = shared.state().outbox.get_mut(&channel) {
                outbox.forget(&outbound.id);
            }
            shared.count(&channel, "undeliverable");
            let more = json!({ "deliveryId": outbound.id, "target": outbound.target });
            shared.refuse(&channel, "delivery", TOO_OLD, more);
        }
    }
}

fn too_old(shared: &Shared) -> Vec<Posted> {
    let now = shared.now();
    let state = shared.state();
    let unserved = state.outbox.iter().filter(|(channel, _)| !state.running.contains_key(*channel));
    let posts = unserved.flat_map(|(_, outbox)| outbox.in_order.values());
    posts.filter(|posted| is_old(posted.at, now)).take(AT_ONCE).cloned().collect()
}

async fn take_out(shared: &Shared, old: &[Posted]) -> Result<(), Error> {
    let mut transaction = Transaction::default();
    old.iter().try_for_each(|posted| store::drop_posted(&mut transaction, &posted.outbound.id))?;
    shared.options.journal.commit_async(transaction).await?;
    Ok(())
}

/// Whether an announcement that could not be posted is too old; then it is refused.
pub(super) async fn is_over(shared: &Shared, outgoing: &Outgoing) -> bool {
    if !is_old(Timestamp(outgoing.at), shared.now()) {
        return false;
    }
    let mut transaction = Transaction::default();
    let taken = match outgoing.take_out(&mut transaction) {
        Ok(()) => shared.options.journal.commit_async(transaction).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = taken {
        tracing::warn!(error = &error as &dyn std::error::Error, "an old announcement stays on record");
        return false;
    }
    let more = json!({ "deliveryId": format!("job:{}", outgoing.id()), "target": target_of(&outgoing.to) });
    shared.refuse(&outgoing.to.channel, "delivery", TOO_OLD, more);
    true
}

fn is_old(at: Timestamp, now: Timestamp) -> bool {
    now.0.saturating_sub(at.0) > AGE_MS_MAX
}
