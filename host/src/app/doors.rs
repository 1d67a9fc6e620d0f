//! Opens the listeners that the command line and the configuration ask for.

use super::Error;
use crate::config::Listen;
use crate::edge::{self, Listener};
use crate::port::PerPort;
use crate::run::Addresses;
use crate::settings::Settings;

pub(super) async fn bind(given: PerPort<Option<Listen>>, settings: &Settings) -> Result<Vec<Listener>, Error> {
    let configured = settings.config.listen();
    let mut listeners = Vec::new();
    for (port, given) in given.iter() {
        listeners.extend(edge::bind(port, given.unwrap_or(*configured.get(port))).await?);
    }
    Ok(listeners)
}

pub(super) fn warn_beyond_this_machine(listeners: &[Listener], settings: &Settings) {
    let open = |listener: &&Listener| {
        !listener.address().ip().is_loopback() && settings.identity_of(listener.port()).is_none()
    };
    for listener in listeners.iter().filter(open) {
        let (port, address) = (listener.port().as_str(), listener.address());
        tracing::warn!(listener = port, %address, "other machines can connect and nothing is encrypted; set `tls` in chela.json, or put a TLS proxy in front");
    }
}

pub(super) fn addresses_of(listeners: &[Listener]) -> Addresses {
    let mut addresses = Addresses::default();
    for listener in listeners {
        *addresses.get_mut(listener.port()) = Some(listener.address());
    }
    addresses
}
