//! Power cuts: the state lies on a file system in a file. The gateway is frozen, the file copied as the disk has it, the gateway killed, and
//! the next life begins on the copy. What was never flushed is not in it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chela::layout::StateDir;

use super::gateway::configure;
use super::model::Model;
use super::{AGENTS, Known, LIFE_MS, Options, Report, finish, made, talk};
use crate::gateway::Gateway;

const DISK_MB: u64 = 96;

/// A mounted file, unmounted when it goes.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: PathBuf) -> Result<Self> {
        let at = made(at)?;
        done(Command::new("mount").args(["-o", "loop"]).arg(image).arg(&at))?;
        Ok(Self(at))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What holds it is gone; were it not, the directory stays and says so.
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

fn done(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn new_disk(scratch: &Path) -> Result<PathBuf> {
    let image = scratch.join("disk-0.img");
    std::fs::File::create(&image)?.set_len(DISK_MB * 1024 * 1024)?;
    done(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
    Ok(image)
}

pub fn run(options: &Options, model: &Model, report: &mut Report, say: &mut impl FnMut(&str)) -> Result<()> {
    let tried = new_disk(&options.scratch).and_then(|image| {
        let probe = Mounted::new(&image, options.scratch.join("probe"))?;
        drop(probe);
        Ok(image)
    });
    let mut image = match tried {
        Ok(image) => image,
        Err(error) => {
            say(&format!("power cuts are left out: {error:#}"));
            return Ok(());
        }
    };
    let mut chance = fastrand::Rng::with_seed(options.seed ^ 0xc07);
    let mut known = Known::default();
    let state = |mount: &Mounted| StateDir::new(mount.0.join("state"));
    {
        let mount = Mounted::new(&image, options.scratch.join("mount-0"))?;
        configure(&state(&mount), model.address(), AGENTS)?;
        done(Command::new("umount").arg(&mount.0))?;
    }
    for cut in 1..=options.cuts {
        let mount = Mounted::new(&image, options.scratch.join(format!("mount-{cut}")))?;
        let gateway = Gateway::start(&options.chela, &state(&mount))?;
        let until = Instant::now() + Duration::from_millis(chance.u64(LIFE_MS) + 150);
        talk(&gateway, &mut known, model, &mut chance, options.flows, until);
        done(Command::new("kill").args(["-STOP", &gateway.pid().to_string()]))?;
        let next = options.scratch.join(format!("disk-{cut}.img"));
        std::fs::copy(&image, &next).context("cannot copy the disk")?;
        gateway.kill()?;
        model.note_kill();
        drop(mount);
        std::fs::remove_file(&image)?;
        image = next;
        report.cuts += 1;
    }
    say(&format!("{} power cuts: {} flows", report.cuts, known.calls.values().flatten().count()));
    let mount = Mounted::new(&image, options.scratch.join("mount-last"))?;
    finish(&options.chela, &state(&mount), &mut known, model, report, say)
}
