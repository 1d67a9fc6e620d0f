//! `chela restore`: a state directory from a backup. Keeps true: the directory is whole or as it was before; what was there is set aside,
//! never removed.

use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use chela_storage::DirLock;
use clap::Args;
use serde_json::json;

use super::Output;
use super::backup::archive;
use crate::app;
use crate::clock::Clock;
use crate::layout::StateDir;

#[derive(Args)]
pub(super) struct Restore {
    /// An archive that `chela backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Set a state directory that is there aside, as DIR.before-TIME
    #[arg(long)]
    replace: bool,
    /// Only read the archive and check every file in it
    #[arg(long)]
    check: bool,
}

impl Restore {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let opened = || File::open(&self.file).with_context(|| format!("cannot read {}", self.file.display()));
        let head = archive::read_head(BufReader::new(opened()?)).with_context(|| self.file.display().to_string())?;
        head.stamp.may_be_read(&self.file)?;
        let target = &where_it_is(dir.path())?;
        let folder = target.parent().context("the state directory is a directory of its own")?;
        let is_there = match fs::read_dir(target) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(error).with_context(|| format!("cannot look at {}", target.display())),
        };
        if is_there && !self.replace && !self.check {
            bail!(
                "{} is there and not empty; choose another --state-dir, or set it aside with --replace",
                target.display()
            );
        }
        // Nobody may serve it meanwhile; the lock goes aside with the directory.
        let lock = match is_there && !self.check {
            true => Some(DirLock::take(&StateDir::new(target.clone()).lock()).map_err(|error| match error {
                chela_storage::LockError::Held { owner, .. } => {
                    anyhow::Error::from(app::Error::Served { path: target.clone(), owner })
                }
                error => error.into(),
            })?),
            false => None,
        };
        let beside = if self.check { std::env::temp_dir() } else { folder.to_owned() };
        fs::create_dir_all(&beside).with_context(|| format!("cannot make {}", beside.display()))?;
        let private = fs::Permissions::from_mode(0o700);
        let draft = tempfile::Builder::new().prefix(".chela-restore-").permissions(private).tempdir_in(&beside);
        let draft = draft.with_context(|| format!("cannot write in {}", beside.display()))?;
        archive::unpack(BufReader::new(opened()?), draft.path()).with_context(|| self.file.display().to_string())?;
        let document = |aside: Option<&Path>| {
            json!({
                "file": self.file, "files": head.files, "bytes": head.bytes, "at": head.at, "version": head.stamp.version,
                "stateDir": (!self.check).then_some(target), "aside": aside,
            })
        };
        if self.check {
            let said = || format!("{} is whole: {} files of {}", self.file.display(), head.files, head.at);
            output.show(&document(None), said);
            return Ok(());
        }
        if let Ok(facts) = fs::metadata(target) {
            give(draft.path(), &facts)?;
        }
        let aside = is_there.then(|| PathBuf::from(format!("{}.before-{}", target.display(), Clock::system().now().0)));
        if let Some(aside) = &aside {
            fs::rename(target, aside).with_context(|| format!("cannot set {} aside", target.display()))?;
        }
        // Renaming takes the place of an empty directory.
        fs::rename(draft.path(), target).with_context(|| {
            let back = aside.as_ref().map(|aside| format!("; what was there is in {}", aside.display()));
            format!("cannot put {} in place{}", target.display(), back.unwrap_or_default())
        })?;
        // It has a name of its own by now.
        let _ = draft.keep();
        File::open(folder).and_then(|folder| folder.sync_all()).context("cannot flush the directory")?;
        drop(lock);
        output.show(&document(aside.as_deref()), || {
            let mut text = format!("{} is as it was at {}", target.display(), head.at);
            if let Some(aside) = &aside {
                text.push_str(&format!("\nwhat was there is in {}", aside.display()));
            }
            text
        });
        Ok(())
    }
}

/// The directory itself where a link leads to it, as systemd's do: the link stays, and what it names is replaced.
fn where_it_is(dir: &Path) -> anyhow::Result<PathBuf> {
    match dir.canonicalize() {
        Ok(path) => Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !dir.is_symlink() => Ok(dir.to_owned()),
        Err(error) => Err(error).with_context(|| format!("cannot find where {} is", dir.display())),
    }
}

/// What root restores belongs to whom the directory belonged before.
fn give(draft: &Path, before: &fs::Metadata) -> anyhow::Result<()> {
    let ours = rustix::process::geteuid().as_raw();
    if ours != 0 || before.uid() == 0 {
        return Ok(());
    }
    let mut left = vec![draft.to_owned()];
    while let Some(path) = left.pop() {
        std::os::unix::fs::chown(&path, Some(before.uid()), Some(before.gid()))
            .with_context(|| format!("cannot give {} away", path.display()))?;
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    Ok(())
}
