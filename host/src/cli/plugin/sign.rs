//! `chela plugin sign` and `verify`: keys, and who vouches for which component.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;

use super::{read_input, workbench};
use crate::cli::Output;
use crate::config::Signatures;
use crate::layout::StateDir;
use crate::plugins::{self, Manifest, SigningKey};
use crate::settings;

#[derive(Args)]
pub(in crate::cli) struct Sign {
    /// The component; its signature is written beside it, as FILE.sig
    #[arg(required_unless_present = "new_key")]
    file: Option<PathBuf>,
    /// The file of the key to sign with
    #[arg(long, value_name = "FILE", required_unless_present = "new_key", conflicts_with = "new_key")]
    key: Option<PathBuf>,
    /// Make a new key in this file first, and print its public half
    #[arg(long, value_name = "FILE")]
    new_key: Option<PathBuf>,
}

#[derive(Args)]
pub(in crate::cli) struct Verify {
    /// The component; its signature lies beside it, as FILE.sig
    file: PathBuf,
    /// A public key that it has to be signed with, instead of those of the state directory's configuration
    #[arg(long, value_name = "PUBLIC")]
    key: Vec<String>,
}

/// The file of a component's signature.
pub(super) fn signature_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

impl Sign {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let key = match (&self.new_key, &self.key) {
            (Some(path), _) => make_key(path)?,
            (None, Some(path)) => {
                SigningKey::read(&read_input(path)?).with_context(|| format!("cannot sign with {}", path.display()))?
            }
            (None, None) => bail!("give --key FILE, or --new-key FILE to make one"),
        };
        let public = key.public.clone();
        let Some(file) = &self.file else {
            output.show(&json!({ "public": public, "key": self.new_key }), || public.clone());
            return Ok(());
        };
        let (bench, _temporary) = workbench(dir)?;
        let (identity, inspection) = bench.identify(&file.display().to_string())?;
        let signature = key.sign(Manifest::new(&identity.name, &identity.version, &inspection))?;
        let path = signature_of(file);
        let text = serde_json::to_string_pretty(&signature)?;
        fs::write(&path, text + "\n").with_context(|| format!("cannot write {}", path.display()))?;
        let document = json!({ "file": path, "public": public, "manifest": signature.manifest });
        output.show(&document, || {
            format!("{} {} is signed in {} with the key {public}", identity.name, identity.version, path.display())
        });
        Ok(())
    }
}

fn make_key(path: &Path) -> anyhow::Result<SigningKey> {
    if path.exists() {
        bail!("{} is there already; a key is not replaced by accident, choose another file", path.display());
    }
    let key = SigningKey::generate()?;
    let text = serde_json::to_string_pretty(&key)? + "\n";
    chela_storage::replace(path, text.as_bytes(), chela_storage::Mode::Private)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(key)
}

impl Verify {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let configured = match dir.config().is_file() {
            true => settings::load(dir)?.config.plugins.signatures,
            false => Signatures::default(),
        };
        let given = self.key.iter().map(|key| (key.clone(), key.clone())).collect();
        let keys = if self.key.is_empty() { configured.keys } else { given };
        // Without any key to go by, it only says whether the signature is one, and whose.
        let rules = Signatures { require: !keys.is_empty(), keys, revoked: configured.revoked };
        let bytes = fs::read(&self.file).with_context(|| format!("cannot read {}", self.file.display()))?;
        let beside = fs::read(signature_of(&self.file)).ok();
        let verified = plugins::verify_signature(&bytes, beside.as_deref(), &rules)
            .with_context(|| format!("{} is not vouched for", self.file.display()))?;
        let Some(signature) = verified else {
            bail!("{} has no signature; `chela plugin sign` makes one", self.file.display());
        };
        let name = rules.keys.iter().find(|(_, key)| **key == signature.key).map(|(name, _)| name.clone());
        let document = json!({ "key": signature.key, "name": name, "manifest": signature.manifest });
        output.show(&document, || {
            let manifest = &signature.manifest;
            let known = name.as_ref().filter(|name| **name != signature.key).map(|name| format!(" ({name})"));
            let key = format!("{}{}", signature.key, known.unwrap_or_default());
            let trust = if rules.require { "" } else { "; no key was given to hold it to" };
            format!("{} {} is signed with the key {key}{trust}", manifest.name, manifest.version)
        });
        Ok(())
    }
}
