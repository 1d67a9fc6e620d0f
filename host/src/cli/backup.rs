//! `chela backup`: one archive of all that a state directory keeps, as it was at one moment, while a gateway serves it or not.
//! Keeps true: an archive that is there is whole; what is made from other files again is left out; nothing of the directory is changed.

pub(super) mod archive;
mod gather;

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use chela_storage::DirLock;
use clap::Args;
use serde_json::json;

use super::exit::NoGateway;
use super::progress::Progress;
use super::serve::raise_open_files;
use super::{Output, ask, block_on};
use crate::app::{self, Stamp};
use crate::clock::Clock;
use crate::layout::StateDir;
use archive::Head;
use gather::{Changed, Gathered};

/// How often a moment is asked for that was long enough.
const TRIES: usize = 3;
/// Begins the name of an archive that is being written.
pub(super) const DRAFT: &str = ".chela-backup-";
const DOING: &str = "backing up";

#[derive(Args)]
pub(super) struct Backup {
    /// The archive to write, a tar file that only its owner can read; `-` is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

impl Backup {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        if !dir.config().exists() {
            bail!("there is no {}, so nothing to back up; check --state-dir", dir.config().display());
        }
        let piped = self.file == Path::new("-");
        let file = std::path::absolute(&self.file).with_context(|| format!("{} is no path", self.file.display()))?;
        if !piped {
            if fs::canonicalize(file.parent().unwrap_or(Path::new("/")))
                .is_ok_and(|folder| fs::canonicalize(dir.path()).is_ok_and(|state| folder.starts_with(state)))
            {
                bail!(
                    "{} lies in the state directory, which is what is backed up; choose another place",
                    file.display()
                );
            }
            if file.exists() && !self.force {
                bail!("{} is there already; choose another name, or replace it with --force", file.display());
            }
        }
        raise_open_files();
        if piped {
            let Moment { head, mut gathered, held } = moment(dir)?;
            // Nothing else may be said on standard output.
            for path in std::mem::take(&mut gathered.skipped) {
                Output::note(&left_out(&path));
            }
            let mut progress = Progress::new(output, DOING, head.all());
            let mut out = BufWriter::new(io::stdout().lock());
            let written = archive::write(&mut out, &head, gathered, &mut |more| progress.more(more));
            let written = written.and_then(|()| out.flush());
            drop(progress);
            written.context("cannot write the archive")?;
            drop(held);
            return Ok(());
        }
        let (head, skipped) = keep(dir, &file, output)?;
        let document = json!({
            "file": file, "files": head.files, "bytes": head.bytes,
            "at": head.at, "version": head.stamp.version, "skipped": skipped,
        });
        output.show(&document, || {
            let mut text = format!("{}: {} files, {} kB", file.display(), head.files, head.bytes >> 10);
            for path in &skipped {
                text.push_str(&format!("\n{}", left_out(path)));
            }
            text.push_str("\nit holds tokens and all that was said; keep it where only you can read it");
            text
        });
        Ok(())
    }
}

fn left_out(path: &str) -> String {
    format!("left out: {path}; neither what a link leads to is kept, nor a pipe, nor what a restore set aside")
}

/// Writes the archive; of another moment where a file was lost that could not be held open.
fn keep(dir: &StateDir, file: &Path, output: Output) -> anyhow::Result<(Head, Vec<String>)> {
    let mut tries = 1;
    loop {
        let Moment { head, mut gathered, held } = moment(dir)?;
        let skipped = std::mem::take(&mut gathered.skipped);
        let mut progress = Progress::new(output, DOING, head.all());
        let written = put(file, |out| archive::write(out, &head, gathered, &mut |more| progress.more(more)));
        // Before anything else is said.
        drop(progress);
        drop(held);
        match written {
            Ok(()) => return Ok((head, skipped)),
            Err(error) if tries < TRIES && Changed::is_in(&error) => tries += 1,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot write {}; nothing is left of it", file.display()));
            }
        }
    }
}

/// The directory as it was, and what is said of it.
struct Moment {
    head: Head,
    gathered: Gathered,
    /// Where nobody serves it: a gateway that began to would trim and fill again what is being copied.
    held: Option<DirLock>,
}

fn moment(dir: &StateDir) -> anyhow::Result<Moment> {
    let (gathered, held) = at_one_moment(dir)?;
    let head = Head {
        format: archive::FORMAT,
        stamp: Stamp::read(dir)?.unwrap_or_else(|| Stamp { layout: 1, ..Stamp::ours() }),
        at: Clock::system().now(),
        files: gathered.files.len(),
        bytes: gathered.files.iter().map(|kept| kept.bytes).sum(),
    };
    Ok(Moment { head, gathered, held })
}

/// Opens every file while nothing is committed.
fn at_one_moment(dir: &StateDir) -> anyhow::Result<(Gathered, Option<DirLock>)> {
    let cannot = || format!("cannot read {}", dir.path().display());
    let open_max = gather::open_max();
    let gathered = || gather::gather(dir, open_max).with_context(cannot);
    let owner = match DirLock::take(&dir.lock()) {
        Ok(lock) => return Ok((gathered()?, Some(lock))),
        Err(chela_storage::LockError::Held { owner, .. }) => owner,
        // Who may only read the directory can still back it up while nobody serves it.
        Err(error) if DirLock::is_held(&dir.lock()).unwrap_or(true) => return Err(error.into()),
        Err(_) => return Ok((gathered()?, None)),
    };
    let client = ask::gateway(dir).map_err(|error| match error.is::<NoGateway>() {
        // Another backup, or a gateway that is still starting.
        true => anyhow::Error::from(app::Error::Served { path: dir.path().to_owned(), owner }),
        false => error,
    })?;
    for _ in 0..TRIES {
        let held = block_on(client.call("backup.hold", json!({})))??;
        let gathered = gathered();
        let released = block_on(client.call("backup.release", json!({ "id": held["id"] })))??;
        let gathered = gathered?;
        if released["held"] == json!(true) {
            return Ok((gathered, None));
        }
    }
    bail!(
        "the gateway could not stand still for as long as its files are opened; back up while it is less busy, or stop it"
    )
}

/// Writes a file beside, flushes it, and puts it in place.
fn put(path: &Path, write: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let private = fs::Permissions::from_mode(0o600);
    let draft = tempfile::Builder::new().prefix(DRAFT).permissions(private).tempfile_in(folder)?;
    let mut out = BufWriter::with_capacity(1 << 20, draft.as_file());
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    draft.persist(path)?;
    File::open(folder)?.sync_all()
}
