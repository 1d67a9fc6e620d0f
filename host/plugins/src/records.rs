//! What commands and dropped files have bound, over the configuration: `plugins/bindings.json`, and copies of the components.
//! Keeps true: what a binding names is kept until the binding is gone; a change of the configuration's own binding wins over it.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::PathBuf;

use chela_storage::Mode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::Error;
use super::source::{FILE_BYTES_CEILING, Material, Source, read_file, signature_of};
use crate::layout::StateDir;

const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Hashes of versions that were rolled back, for each slot.
const REFUSED_MAX: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Records {
    pub(super) slots: BTreeMap<String, Record>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Record {
    /// The configuration's binding when this was written; another one there makes this void.
    pub(super) over: String,
    /// Tells the `config` that a channel without a `source` had when somebody last said what serves there: another one is taken up.
    pub(super) under: Option<String>,
    /// What is bound over the configuration.
    pub(super) current: Option<Bound>,
    /// What served last, whoever bound it.
    pub(super) served: Option<Bound>,
    /// What served before that.
    pub(super) previous: Option<Bound>,
    /// Versions, as [`version_key`], that failed here and are not taken up again by themselves.
    pub(super) refused: Vec<String>,
    pub(super) disabled: bool,
}

/// A component as it was bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bound {
    pub(super) source: String,
    pub(super) hash: String,
    pub(super) name: String,
    pub(super) version: String,
    #[serde(default)]
    pub(super) config: Map<String, Value>,
    #[serde(default)]
    pub(super) grants: Vec<String>,
}

impl Bound {
    /// Its copy, for when its own file is gone or holds something else.
    pub(super) fn read_kept(&self, dir: &StateDir) -> Result<Material, Error> {
        let source = match Source::parse(&self.source, &dir.plugins()) {
            Source::Builtin(name) => Source::Builtin(name),
            Source::File(_) => Source::File(kept(dir, &self.hash)),
        };
        Ok(Material::read(&source, FILE_BYTES_CEILING)?)
    }
}

impl Record {
    pub(super) fn refuse(&mut self, version: String) {
        self.forgive(&version);
        self.refused.push(version);
        let surplus = self.refused.len().saturating_sub(REFUSED_MAX);
        self.refused.drain(..surplus);
    }

    /// Somebody insists on it.
    pub(super) fn forgive(&mut self, version: &str) {
        self.refused.retain(|known| known != version);
    }
}

/// Tells one version in a slot from another: by its content and its configuration.
pub(super) fn version_key(hash: &str, config: &str) -> String {
    format!("{hash}:{}", &blake3::hash(config.as_bytes()).to_hex()[..16])
}

impl Records {
    /// What was bound before; a file that cannot be read counts as none, since the configuration alone is enough to serve.
    pub(super) fn load(dir: &StateDir) -> Self {
        Self::read(dir).unwrap_or_else(|error| {
            tracing::error!(%error, "what chela.json binds is used, and nothing else");
            Self::default()
        })
    }

    /// What was bound before; nothing where nothing was.
    pub(super) fn read(dir: &StateDir) -> Result<Self, Error> {
        let path = dir.plugin_bindings();
        if !path.exists() {
            return Ok(Self::default());
        }
        let bytes = read_file(&path, FILE_BYTES_MAX)?;
        serde_json::from_slice(&bytes).map_err(|error| Error::DroppedFile { path, said: error.to_string() })
    }

    pub(super) fn save(&self, dir: &StateDir) -> Result<(), Error> {
        let path = dir.plugin_bindings();
        let bytes = serde_json::to_vec_pretty(self).expect("bindings are plain JSON");
        chela_storage::replace(&path, &bytes, Mode::Private).map_err(|cause| Error::Directory { path, cause })
    }

    /// Keeps a copy of a component's bytes, so that it can serve again after its file was replaced.
    pub(super) fn keep(dir: &StateDir, material: &Material) -> Result<(), Error> {
        let path = kept(dir, &material.hash);
        let failed = |cause| Error::Directory { path: dir.plugin_store(), cause };
        chela_storage::make_private_dir(&dir.plugin_store()).map_err(failed)?;
        if let Some(signature) = &material.signature {
            chela_storage::replace(&signature_of(&path), signature, Mode::Private).map_err(failed)?;
        }
        if path.is_file() {
            return Ok(());
        }
        chela_storage::replace(&path, &material.bytes, Mode::Private).map_err(failed)
    }

    /// Drops the copies that no binding names.
    pub(super) fn drop_unneeded(&self, dir: &StateDir) {
        let bounds = self.slots.values().flat_map(|record| [&record.current, &record.served, &record.previous]);
        let files = bounds.flatten().map(|bound| kept(dir, &bound.hash));
        let needed: HashSet<PathBuf> = files.flat_map(|path| [signature_of(&path), path]).collect();
        for entry in fs::read_dir(dir.plugin_store()).into_iter().flatten().flatten() {
            if !needed.contains(&entry.path()) {
                // It will be tried again at the next change.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn kept(dir: &StateDir, hash: &str) -> PathBuf {
    dir.plugin_store().join(format!("{hash}.wasm"))
}
