//! From the old system's `openclaw.json` to a first `chela.json`. Keeps true: the old file is only read, and nothing is written that has
//! not passed every check.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{Error, file, secrets};
use crate::config::old::{self, Ignored, Old, Place};
use crate::config::{self, Problems, Secret};
use crate::layout::StateDir;
use crate::schema::Problem;

/// What became of a configuration of the old system.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Adopted {
    pub from: PathBuf,
    pub config: PathBuf,
    /// The old token could not be kept: clients need the new one.
    pub new_token: bool,
    /// What of the old configuration was not taken over.
    pub ignored: Vec<Ignored>,
}

/// An adoption that can be made, and is not made yet.
pub struct Adoption {
    adopted: Adopted,
    text: String,
    port: u16,
}

/// Reads the old system's configuration of `dir` as far as it means the same here.
pub fn read_old(dir: &StateDir) -> Result<Old, Error> {
    let path = dir.old_config();
    let opened = file::open(&path).map_err(|error| match error {
        Error::Missing { path } => Error::NothingToAdopt { path },
        other => other,
    });
    let text = file::read(opened?, &path, old::BYTES_MAX)?;
    let mut roots = vec![dir.path().to_owned()];
    roots.extend(fs::canonicalize(dir.path()).ok().filter(|real| real != dir.path()));
    let is_dir = |inside: &Path| dir.path().join(inside).is_dir();
    let place = Place { roots, home: std::env::home_dir(), is_dir: &is_dir };
    Old::read(&text, &place).map_err(|problem| Error::Invalid { path, problems: problem.into() })
}

impl Adoption {
    /// Reads and checks; writes nothing.
    pub fn prepare(dir: &StateDir) -> Result<Self, Error> {
        let mut old = read_old(dir)?;
        let from = dir.old_config();
        let invalid = |problems| Error::Invalid { path: from.clone(), problems: Problems(problems) };
        if !old.problems.is_empty() {
            return Err(invalid(std::mem::take(&mut old.problems)));
        }
        if let Some(Secret::Text(text)) = &old.token
            && let Some(fault) = secrets::fault(text)
        {
            let reason = format!("{fault}; a new token was made, which `chela token` prints");
            old.ignored.push(Ignored { path: "gateway.auth".into(), reason });
            old.token = None;
        }
        let new_token = old.token.is_none();
        let text = old.to_text(new_token.then(file::fresh_token).as_deref());
        if text.len() as u64 > config::BYTES_MAX {
            let said = format!("makes a chela.json larger than {} bytes; shorten it", config::BYTES_MAX);
            return Err(invalid(vec![Problem::new("", said)]));
        }
        file::checked(&text, &from, dir)?;
        let adopted = Adopted { from, config: dir.config(), new_token, ignored: old.ignored };
        Ok(Self { adopted, text, port: old.port })
    }

    /// Where the old gateway listens if it runs.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Puts the new configuration in place; never over one that is there.
    pub fn write(self, dir: &StateDir) -> Result<Adopted, Error> {
        file::put(dir, &self.text)?;
        Ok(self.adopted)
    }
}
