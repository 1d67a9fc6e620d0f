//! `run/gateway.json`: what a serving gateway tells scripts, and how a command finds it; `run/tls.json`: what it shows whoever connects.
//! Keeps true: the file is whole whenever it is there. After a kill it may name a dead process, which a reader must expect.

use std::io;
use std::net::SocketAddr;

use chela_storage::Mode;
use serde::{Deserialize, Serialize};

use crate::layout::StateDir;
use crate::port::{PerPort, Port};
use crate::tls::Pinned;

/// The real addresses of a serving gateway; `None` for a listener that is off.
pub type Addresses = PerPort<Option<SocketAddr>>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    pub pid: u32,
    pub version: String,
    #[serde(flatten)]
    pub addresses: Addresses,
}

impl RunFile {
    pub fn of_this_process(addresses: Addresses) -> Self {
        Self { pid: std::process::id(), version: env!("CARGO_PKG_VERSION").into(), addresses }
    }

    pub fn write(&self, dir: &StateDir) -> io::Result<()> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        chela_storage::replace(&dir.run_file(), &text, Mode::Shared)
    }

    /// `None` when no gateway has said that it serves.
    pub fn read(dir: &StateDir) -> io::Result<Option<Self>> {
        match std::fs::read(dir.run_file()) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn remove(dir: &StateDir) -> io::Result<()> {
        match std::fs::remove_file(dir.run_file()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Which listeners are encrypted, and with which certificate; there only while a gateway serves so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Encryption {
    pub listeners: Vec<String>,
    /// PEM, the gateway's own certificate first.
    pub certificate: String,
}

impl Encryption {
    /// Puts it in place; none takes it away.
    pub fn write(this: Option<&Self>, dir: &StateDir) -> io::Result<()> {
        match this {
            Some(encryption) => chela_storage::replace(&dir.run_tls(), &serde_json::to_vec(encryption)?, Mode::Private),
            None => match std::fs::remove_file(dir.run_tls()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// How to connect to a listener: over TLS with what the gateway of `dir` shows, or plainly.
    pub fn way_to(dir: &StateDir, port: Port) -> io::Result<Option<Pinned>> {
        let bytes = match std::fs::read(dir.run_tls()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let encryption: Self = serde_json::from_slice(&bytes)?;
        if !encryption.listeners.iter().any(|listener| listener == port.as_str()) {
            return Ok(None);
        }
        let pinned = Pinned::to(&encryption.certificate);
        pinned.map(Some).ok_or_else(|| io::Error::other("it holds no certificate"))
    }
}
