//! `run/gateway.json`: what a serving gateway tells scripts, and how a command finds it.
//! Keeps true: the file is whole whenever it is there. After a kill it may name a dead process, which a reader must expect.

use std::io;
use std::net::SocketAddr;

use chela_storage::Mode;
use serde::{Deserialize, Serialize};

use crate::layout::StateDir;
use crate::port::PerPort;

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
