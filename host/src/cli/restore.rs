//! `chela restore`: a state directory from a backup. Keeps true: the directory is whole or as it was before, in one step where it can be
//! renamed; what was there is set aside, never removed.

use std::fs::{self, File};
use std::io::BufReader;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use chela_storage::DirLock;
use clap::Args;
use serde_json::json;
use tempfile::TempDir;

use super::Output;
use super::backup::archive;
use super::progress::Progress;
use crate::app;
use crate::clock::Clock;
use crate::layout::StateDir;

/// Begins the name of what is being unpacked.
pub(super) const DRAFT: &str = ".chela-restore-";
/// Begins the name of what was there, where that cannot be beside.
pub(super) const ASIDE: &str = ".chela-before-";
/// What a disk has that nothing was written to.
const OF_THE_DISK: &str = "lost+found";

#[derive(Args)]
pub(super) struct Restore {
    /// An archive that `chela backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Set a state directory that is there aside, as DIR.before-TIME
    #[arg(long)]
    replace: bool,
    /// Only read the archive and check every file in it; nothing is written
    #[arg(long)]
    check: bool,
}

impl Restore {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let opened = || File::open(&self.file).with_context(|| format!("cannot read {}", self.file.display()));
        let head = archive::read_head(BufReader::new(opened()?)).with_context(|| self.file.display().to_string())?;
        head.stamp.may_be_read(&self.file)?;
        let doing = if self.check { "checking" } else { "restoring" };
        let unpack = |into: Option<&Path>| {
            let (from, mut progress) = (BufReader::new(opened()?), Progress::new(output, doing, head.all()));
            let unpacked = archive::unpack(from, into, &mut |more| progress.more(more));
            unpacked.with_context(|| self.file.display().to_string())
        };
        let document = |target: Option<&Path>, aside: Option<&Path>| {
            json!({
                "file": self.file, "files": head.files, "bytes": head.bytes, "at": head.at, "version": head.stamp.version,
                "stateDir": target, "aside": aside,
            })
        };
        if self.check {
            unpack(None)?;
            let said = || format!("{} is whole: {} files of {}", self.file.display(), head.files, head.at);
            output.show(&document(None, None), said);
            return Ok(());
        }
        let target = &where_it_is(dir.path())?;
        let is_there = has_something(target)?;
        if is_there && !self.replace {
            bail!(
                "{} is there and not empty; choose another --state-dir, or set it aside with --replace",
                target.display()
            );
        }
        let lock = if is_there { Some(lock(target)?) } else { None };
        let folder = target.parent().context("the state directory is a directory of its own")?;
        let place = Place::of(target, folder);
        let beside = match place {
            Place::Beside => folder.to_owned(),
            Place::Inside => target.clone(),
        };
        fs::create_dir_all(&beside).with_context(|| format!("cannot make {}", beside.display()))?;
        let private = fs::Permissions::from_mode(0o700);
        let draft = tempfile::Builder::new().prefix(DRAFT).permissions(private).tempdir_in(&beside);
        let draft = draft.with_context(|| format!("cannot write in {}", beside.display()))?;
        unpack(Some(draft.path()))?;
        if let Ok(facts) = fs::metadata(target) {
            give(draft.path(), &facts)?;
        }
        let aside = match place {
            Place::Inside => change_inside(draft, target, is_there)?,
            Place::Beside => change_places(draft, target, is_there)?,
        };
        File::open(&beside).and_then(|folder| folder.sync_all()).context("cannot flush the directory")?;
        drop(lock);
        output.show(&document(Some(target.as_path()), aside.as_deref()), || {
            let mut text = format!("{} is as it was at {}", target.display(), head.at);
            if let Some(aside) = &aside {
                text.push_str(&format!("\nwhat was there is in {}", aside.display()));
            }
            text
        });
        Ok(())
    }
}

/// Where an archive is unpacked before it is put in place.
#[derive(Clone, Copy)]
enum Place {
    /// Beside the directory, which is replaced in one step.
    Beside,
    /// In the directory itself: a mount point cannot be renamed, nor anything in a folder that cannot be written.
    Inside,
}

impl Place {
    fn of(target: &Path, folder: &Path) -> Self {
        let Ok(facts) = fs::metadata(target) else { return Self::Beside };
        let other_disk = fs::metadata(folder).is_ok_and(|above| above.dev() != facts.dev());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let is_mounted = mounts.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == target));
        let writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok();
        if other_disk || is_mounted || !writable { Self::Inside } else { Self::Beside }
    }
}

/// Whether there is something that a restore would replace. What every new disk has does not count.
fn has_something(target: &Path) -> anyhow::Result<bool> {
    let entries = match fs::read_dir(target) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        entries => entries.with_context(|| format!("cannot look at {}", target.display()))?,
    };
    Ok(entries.flatten().any(|entry| entry.file_name() != OF_THE_DISK))
}

/// Nobody may serve it meanwhile; the lock goes aside with the directory.
fn lock(target: &Path) -> anyhow::Result<DirLock> {
    let path = StateDir::new(target).lock();
    if !path.parent().is_some_and(Path::is_dir) {
        // Never served, so not served now.
        let folder = path.parent().context("a lock lies in a directory")?;
        chela_storage::make_private_dir(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    DirLock::take(&path).map_err(|error| match error {
        chela_storage::LockError::Held { owner, .. } => {
            anyhow::Error::from(app::Error::Served { path: target.to_owned(), owner })
        }
        error => error.into(),
    })
}

fn change_places(draft: TempDir, target: &Path, is_there: bool) -> anyhow::Result<Option<PathBuf>> {
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
    Ok(aside)
}

/// The same, entry by entry. What was there is set aside first, and the configuration comes last: until then nothing can be served.
fn change_inside(draft: TempDir, target: &Path, is_there: bool) -> anyhow::Result<Option<PathBuf>> {
    let aside = is_there.then(|| target.join(format!("{ASIDE}{}", Clock::system().now().0)));
    if let Some(aside) = &aside {
        chela_storage::make_private_dir(aside).with_context(|| format!("cannot make {}", aside.display()))?;
        let stays = |path: &Path| path == draft.path() || path == aside || path.ends_with(OF_THE_DISK);
        move_all(target, aside, stays)?;
    }
    let config = StateDir::new(draft.path()).config();
    let moved = move_all(draft.path(), target, |path| path == config)
        .and_then(|()| fs::rename(&config, StateDir::new(target).config()).context("cannot put chela.json in place"));
    moved.with_context(|| {
        let back = aside.as_ref().map(|aside| format!("; what was there is in {}", aside.display()));
        format!("{} is not whole{}", target.display(), back.unwrap_or_default())
    })?;
    Ok(aside)
}

fn move_all(from: &Path, to: &Path, stays: impl Fn(&Path) -> bool) -> anyhow::Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("cannot look at {}", from.display()))? {
        let entry = entry?;
        let path = entry.path();
        if !stays(&path) {
            fs::rename(&path, to.join(entry.file_name())).with_context(|| format!("cannot move {}", path.display()))?;
        }
    }
    Ok(())
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
