//! Finds the certificate and the key that a configuration names.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::file::open_regular;
use super::secrets::NO_CREDENTIALS;
use crate::config::{Pem, Problems, Tls};
use crate::layout::StateDir;
use crate::schema::Problem;
use crate::tls::Identity;

/// A chain of certificates is a few kilobytes.
const PEM_BYTES_MAX: u64 = 256 * 1024;

/// What a file looks like from outside, to tell whether it was written anew, or may be read now: its change time also moves when only
/// the rights do.
pub(super) type Look = Option<(u64, i64, i64, u64)>;

/// The identity of our listeners; none where none is configured.
pub fn identity(tls: &Tls, dir: &StateDir) -> Result<Option<Identity>, Problems> {
    let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else { return Ok(None) };
    let chain = read(certificate, dir, false).map_err(|said| Problem::new("tls.certificate", said));
    let private = read(key, dir, true).map_err(|said| Problem::new("tls.key", said));
    let (chain, private) = match (chain, private) {
        (Ok(chain), Ok(private)) => (chain, private),
        (chain, private) => {
            let problems = [chain.err(), private.err()].into_iter().flatten();
            return Err(Problems(problems.collect()));
        }
    };
    Identity::read(&chain, &private).map(Some).map_err(|error| {
        let (path, pem) = if error.is_of_key() { ("tls.key", key) } else { ("tls.certificate", certificate) };
        let named = place(pem, dir).map_or_else(|said| said, |path| format!("{}: {error}", path.display()));
        Problem::new(path, named).into()
    })
}

/// How the files of certificate and key look now.
pub(super) fn look(tls: &Tls, dir: &StateDir) -> [Look; 2] {
    [&tls.certificate, &tls.key].map(|pem| {
        let facts = std::fs::metadata(place(pem.as_ref()?, dir).ok()?).ok()?;
        Some((facts.len(), facts.ctime(), facts.ctime_nsec(), facts.ino()))
    })
}

fn place(pem: &Pem, dir: &StateDir) -> Result<PathBuf, String> {
    match pem {
        Pem::File(path) => Ok(dir.path().join(path)),
        Pem::Credential(source) if source.credential.contains('/') => Err("a credential's name has no `/`".into()),
        Pem::Credential(source) => match std::env::var_os("CREDENTIALS_DIRECTORY") {
            Some(home) => Ok(Path::new(&home).join(&source.credential)),
            None => Err(format!("{NO_CREDENTIALS}, or name a file")),
        },
    }
}

fn read(pem: &Pem, dir: &StateDir, secret: bool) -> Result<String, String> {
    let path = place(pem, dir)?;
    let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let file = open_regular(&path).map_err(failed)?;
    let facts = file.metadata().map_err(failed)?;
    if secret && facts.permissions().mode() & 0o007 != 0 {
        return Err(format!("everyone can read {}; run `chmod 600 {}`", path.display(), path.display()));
    }
    let mut text = String::new();
    let read = file.take(PEM_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if read as u64 > PEM_BYTES_MAX {
        return Err(format!("{} is larger than {PEM_BYTES_MAX} bytes", path.display()));
    }
    Ok(text)
}
