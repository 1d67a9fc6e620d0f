//! Takes over a directory of the old system: only while nobody serves it, the old gateway included.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::Error;
use super::claim::{is_ours_to_serve, take};
use crate::layout::StateDir;
use crate::settings::{Adopted, Adoption};

/// A listener of this machine answers at once or not at all.
const PATIENCE: Duration = Duration::from_millis(500);

/// Writes a `chela.json` from the directory's `openclaw.json`; nothing where there is one already.
pub fn adopt(dir: &StateDir) -> Result<Option<Adopted>, Error> {
    if dir.config().exists() {
        return Ok(None);
    }
    is_ours_to_serve(dir)?;
    let adoption = Adoption::prepare(dir)?;
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let address = SocketAddr::new(address, adoption.port());
        if TcpStream::connect_timeout(&address, PATIENCE).is_ok() {
            return Err(Error::OldServes { address });
        }
    }
    let _lock = take(dir)?;
    let adopted = adoption.write(dir)?;
    tracing::info!(from = %adopted.from.display(), config = %adopted.config.display(), "configuration adopted");
    for ignored in &adopted.ignored {
        tracing::warn!(path = ignored.path, reason = ignored.reason, "not taken over from the old configuration");
    }
    Ok(Some(adopted))
}
