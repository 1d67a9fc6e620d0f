//! The other end of our own listeners: takes exactly the certificate that the gateway of a state directory says is its own, whatever name
//! or authority stands in it. Who could put another one there could read the token as well.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Wire;

/// Connects to who shows one certificate.
#[derive(Clone)]
pub struct Pinned(TlsConnector);

impl Pinned {
    /// To whoever shows the first certificate of a chain; none if there is none in it.
    pub fn to(chain: &str) -> Option<Self> {
        let own = CertificateDer::from_pem_slice(chain.as_bytes()).ok()?;
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Only { own, provider });
        let mut config =
            ClientConfig::builder().dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        config.enable_sni = false;
        Some(Self(TlsConnector::from(Arc::new(config))))
    }

    pub async fn connect(&self, stream: TcpStream) -> std::io::Result<Wire<TcpStream>> {
        let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
        Ok(Wire::Secured(Box::new(self.0.connect(name, stream).await?.into())))
    }
}

#[derive(Debug)]
struct Only {
    own: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match shown.as_ref() == self.own.as_ref() {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
