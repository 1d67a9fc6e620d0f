//! The directory of a service that runs as a user who is there already.
//! Keeps true: what would keep the service from starting is told before anything is written. Never: gives away what is there.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context as _;

use crate::cli::exit::WrongArgument;
use crate::layout::StateDir;

/// A user and the directory that is to be served for it.
#[derive(Debug)]
pub(super) struct Home {
    ids: (u32, u32),
    /// The directory, where it is to be made.
    missing: Option<PathBuf>,
}

impl Home {
    /// Looks at both, and changes nothing.
    pub(super) fn of(user: &str, dir: &StateDir) -> anyhow::Result<Self> {
        let Some(ids) = ids_of(user) else {
            let said = format!(
                "there is no user {user}; make one with `useradd --system {user}`, or leave it out: systemd makes one"
            );
            return Err(WrongArgument { flag: "--run-as", said }.into());
        };
        let wrong = |said: String| anyhow::Error::from(WrongArgument { flag: "--state-dir", said });
        let path = dir.path();
        let facts = match fs::metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let folder = path.parent().filter(|folder| folder.is_dir());
                folder.ok_or_else(|| wrong(format!("there is nothing that {} could be made in", path.display())))?;
                return Ok(Self { ids, missing: Some(path.to_owned()) });
            }
            facts => facts.with_context(|| format!("cannot look at {}", path.display()))?,
        };
        if !facts.is_dir() {
            return Err(wrong(format!("{} is not a directory", path.display())));
        }
        let of_others = |facts: &fs::Metadata| facts.uid() != ids.0;
        if of_others(&facts) || fs::metadata(dir.config()).is_ok_and(|facts| of_others(&facts)) {
            return Err(wrong(format!(
                "{0} does not belong to {user}, who is to serve it; run `chown -R {user}: {0}`, or choose another",
                path.display()
            )));
        }
        Ok(Self { ids, missing: None })
    }

    /// Makes the directory where there is none.
    pub(super) fn make(&self) -> anyhow::Result<()> {
        let Some(path) = &self.missing else { return Ok(()) };
        let made = DirBuilder::new().mode(0o700).create(path);
        made.and_then(|()| chown(path, Some(self.ids.0), Some(self.ids.1)))
            .with_context(|| format!("cannot make {}", path.display()))
    }
}

/// The numbers of a user and its group, as the system knows them, from wherever it has its users.
fn ids_of(user: &str) -> Option<(u32, u32)> {
    let asked = |flag: &str| -> Option<u32> {
        let output = Command::new("id").args([flag, "--", user]).output().ok()?;
        String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?.trim().parse().ok()
    };
    asked("-u").zip(asked("-g"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_a_directory_that_do_not_fit_are_told_and_one_that_is_missing_is_made() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = StateDir::new(temp.path().join("state"));
        let said = |user: &str, dir: &StateDir| Home::of(user, dir).expect_err("it does not fit").to_string();
        assert!(said("no-such-user-here", &dir).contains("useradd"));
        assert!(said("root", &StateDir::new(temp.path().join("none/state"))).contains("could be made in"));
        fs::write(temp.path().join("file"), "").expect("written");
        assert!(said("root", &StateDir::new(temp.path().join("file"))).contains("not a directory"));
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let home = Home::of("nobody", &dir).expect("it is made");
        assert!(!dir.path().exists(), "not before everything else was looked at");
        home.make().expect("made");
        let facts = fs::metadata(dir.path()).expect("there");
        assert_eq!((facts.uid(), facts.mode() & 0o777), (home.ids.0, 0o700));
        Home::of("nobody", &dir).expect("it fits").make().expect("nothing is left to do");
        fs::write(dir.config(), "{}").expect("written");
        assert!(said("nobody", &dir).contains("chown -R nobody:"), "root's configuration cannot be read");
        assert!(said("root", &dir).contains("chown -R root:"));
    }
}
