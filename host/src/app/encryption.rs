//! Tells commands of this machine what the listeners show: `run/tls.json` follows the settings in force.

use tokio_util::sync::CancellationToken;

use crate::layout::StateDir;
use crate::port::Port;
use crate::run::Encryption;
use crate::settings::{self, Settings};

/// What is to be said of these settings; none where nothing is encrypted.
fn of(settings: &Settings) -> Option<Encryption> {
    let covered = Port::ALL.into_iter().filter(|port| settings.identity_of(*port).is_some());
    let listeners: Vec<String> = covered.map(|port| port.as_str().to_owned()).collect();
    let certificate = settings.identity.as_ref().filter(|_| !listeners.is_empty())?.chain().to_owned();
    Some(Encryption { listeners, certificate })
}

pub(super) fn tell(settings: &Settings, dir: &StateDir) -> std::io::Result<()> {
    Encryption::write(of(settings).as_ref(), dir)
}

/// Tells it again whenever it changes.
pub(super) async fn keep_told(settings: settings::Handle, dir: StateDir, stop: CancellationToken) {
    let mut changes = settings.subscribe();
    while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
        let current = changes.borrow_and_update().clone();
        if let Err(error) = tell(&current, &dir) {
            tracing::warn!(%error, "run/tls.json cannot be written; commands of this machine may not find the gateway");
        }
    }
    stop.cancelled().await;
}
