//! Who we say we are: a chain of certificates with its private key, as PEM texts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;

use super::Wire;
use super::der::valid_until;
use crate::clock::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no certificate in it; it must begin with -----BEGIN CERTIFICATE-----")]
    NoCertificate,
    #[error("it is not PEM: {0}")]
    NotPem(String),
    #[error("there is no private key in it; it must have one block such as -----BEGIN PRIVATE KEY-----")]
    NoKey,
    #[error("its private key cannot be used: {0}")]
    BadKey(String),
    #[error(
        "the private key does not belong to the certificate; give the two that were made together, its own certificate first"
    )]
    Strangers,
}

impl Error {
    /// Whether it is said of the key, and not of the certificate.
    pub fn is_of_key(&self) -> bool {
        matches!(self, Self::NoKey | Self::BadKey(_) | Self::Strangers)
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Identity {
    acceptor: TlsAcceptor,
    chain: Arc<str>,
    fingerprint: blake3::Hash,
    until: Option<Timestamp>,
}

impl Identity {
    /// Reads a chain, our own certificate first, and its key; refuses what does not belong together.
    pub fn read(chain: &str, key: &str) -> Result<Self, Error> {
        let certificates: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let certificates = certificates.map_err(|error| Error::NotPem(error.to_string()))?;
        let first = certificates.first().ok_or(Error::NoCertificate)?;
        let until = valid_until(first);
        // What is wrong with a key is told by its kind alone: the text is a secret.
        let private = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| Error::NoKey)?;
        let private = any_supported_type(&private).map_err(|error| Error::BadKey(error.to_string()))?;
        let certified = CertifiedKey::new(certificates, private);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
            Err(rustls::Error::InconsistentKeys(_)) => return Err(Error::Strangers),
            Err(error) => return Err(Error::NotPem(error.to_string())),
        }
        // Both, since the same certificate may come with another key.
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(chain.len() as u64).to_le_bytes()).update(chain.as_bytes()).update(key.as_bytes());
        let mut config =
            ServerConfig::builder().with_no_client_auth().with_cert_resolver(Arc::new(Always(Arc::new(certified))));
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { acceptor, chain: chain.into(), fingerprint: hasher.finalize(), until })
    }

    /// The certificates, as PEM.
    pub fn chain(&self) -> &str {
        &self.chain
    }

    /// When our own certificate ends, where it says so in a way that we can read.
    pub fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Greets whoever connected.
    pub async fn accept<S>(&self, stream: S, patience: Duration) -> std::io::Result<Wire<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let greeted = tokio::time::timeout(patience, self.acceptor.accept(stream)).await;
        let greeted = greeted.map_err(|_| std::io::ErrorKind::TimedOut)??;
        Ok(Wire::Secured(Box::new(greeted.into())))
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("until", &self.until).finish_non_exhaustive()
    }
}

/// Shows one certificate to everybody: we have one name.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl rustls::server::ResolvesServerCert for Always {
    fn resolve(&self, _: rustls::server::ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}
