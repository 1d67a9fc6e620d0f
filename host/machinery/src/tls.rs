//! TLS, both ends of it: the certificate that our listeners show, the ones that we trust when we connect, and the one that a command takes
//! for the gateway's own. Alone knows rustls. Keeps true: an identity in hand is whole, and its key belongs to its certificate; a key is
//! never shown. Never: connects or listens by itself.

mod der;
mod identity;
mod pinned;
mod wire;

use std::sync::{Arc, LazyLock};

use hyper_rustls::ConfigBuilderExt;
use rustls::ClientConfig;

pub use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
pub use identity::{Error, Identity};
pub use pinned::Pinned;
pub use wire::Wire;

/// A connector that speaks TLS where the address asks for it.
pub type Secured<C> = HttpsConnector<C>;

/// Puts TLS over a plain connector, with the certificates that the machine trusts.
pub fn secured<C>(plain: C) -> Result<Secured<C>, String> {
    // Read once: a machine trusts some hundred certificates.
    static TRUSTED: LazyLock<Result<Arc<ClientConfig>, String>> = LazyLock::new(|| {
        let trusting = ClientConfig::builder()
            .with_native_roots()
            .map_err(|error| format!("the machine's certificates cannot be read: {error}"))?;
        Ok(Arc::new(trusting.with_no_client_auth()))
    });
    TRUSTED.clone().map(|trusted| HttpsConnector::from((plain, trusted)))
}
