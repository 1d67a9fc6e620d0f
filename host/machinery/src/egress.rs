//! Connections out of this machine: TLS with the certificates that the machine trusts, and requests that go only where a list allows.
//! Keeps true: of a listed request every name is looked up here, all answers are checked, and what was checked is what is connected to;
//! each redirect passes the same checks. Never: connects to an inner address that the list does not name itself. Alone knows TLS.

mod address;
mod call;
mod fetch;
mod hosts;
mod socket;
mod target;

use std::sync::{Arc, LazyLock};

use hyper_rustls::{ConfigBuilderExt, HttpsConnector};
use rustls::ClientConfig;

pub use call::{Answered, Caller};
pub use fetch::{Asked, Error, Fetched, Gate, Limits};
pub use hosts::Hosts;
pub use socket::{Socket, connect};

/// A connector that speaks TLS where the address asks for it.
pub type Secured<C> = HttpsConnector<C>;

/// Puts TLS over a plain connector.
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

/// An error with all that caused it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
