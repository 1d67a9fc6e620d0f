//! Which listeners are encrypted, and with which certificate.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use super::secret::FromCredential;
use crate::port::Port;
use crate::schema::Problem;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Tls {
    /// The certificate and those that vouch for it, as PEM, its own first; none for plain connections.
    pub certificate: Option<Pem>,
    /// Its private key, as PEM, in a file that not everyone can read.
    pub key: Option<Pem>,
    /// The listeners that speak TLS once there is a certificate.
    pub listeners: Vec<Secured>,
}

/// Where a PEM text is: a file, relative to the state directory, or a systemd credential.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("x-advice" = "write the path of a file, or {credential: NAME}"))]
pub enum Pem {
    File(PathBuf),
    Credential(FromCredential),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Secured {
    Gateway,
    Monitor,
    Hub,
}

impl Default for Tls {
    fn default() -> Self {
        Self { certificate: None, key: None, listeners: vec![Secured::Gateway, Secured::Monitor, Secured::Hub] }
    }
}

impl From<Secured> for Port {
    fn from(secured: Secured) -> Self {
        match secured {
            Secured::Gateway => Self::Gateway,
            Secured::Monitor => Self::Monitor,
            Secured::Hub => Self::Hub,
        }
    }
}

impl Tls {
    /// Whether a listener is to be encrypted.
    pub fn covers(&self, port: Port) -> bool {
        self.certificate.is_some() && self.listeners.iter().any(|listener| Port::from(*listener) == port)
    }
}

/// One without the other says nothing.
pub(super) fn problems(config: &Config) -> Option<Problem> {
    match (&config.tls.certificate, &config.tls.key) {
        (Some(_), None) => Some(Problem::new("tls.key", "a certificate needs its private key; say where it is")),
        (None, Some(_)) => Some(Problem::new("tls.certificate", "a key needs its certificate; say where it is")),
        _ => None,
    }
}
