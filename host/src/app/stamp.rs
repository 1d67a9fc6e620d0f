//! Which layout a state directory has and who served it last: `state.json`.
//! Keeps true: a directory of a later layout is refused before anything in it is touched; one of an earlier layout is brought up step by
//! step, each finished before it is noted, so that a crash repeats a step and never skips one.

use std::io;

use chela_storage::Mode;
use serde::{Deserialize, Serialize};

use super::Error;
use crate::layout::StateDir;

/// The layout that this version reads and writes. It grows when an older version could misread what is written.
const LAYOUT: u32 = 1;
/// What brings a directory from one layout to the next; the first leads from 1 to 2. Each may be done again.
const STEPS: &[Step] = &[];
const _: () = assert!(STEPS.len() as u32 == LAYOUT - 1, "each layout after the first has a way to it");

type Step = fn(&StateDir) -> io::Result<()>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    pub layout: u32,
    /// The version that served it last.
    pub version: String,
}

impl Stamp {
    /// What this version writes.
    pub fn ours() -> Self {
        Self { layout: LAYOUT, version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Of a directory, or of what a backup says of itself: whether this version can read it.
    pub fn may_be_read(&self, what: &std::path::Path) -> Result<(), Error> {
        if self.layout > LAYOUT {
            let (path, layout, version) = (what.to_owned(), self.layout, self.version.clone());
            return Err(Error::Newer { path, layout, version, known: LAYOUT });
        }
        Ok(())
    }

    /// None where no version has left one: directories of before there were stamps have the first layout.
    pub fn read(dir: &StateDir) -> Result<Option<Self>, Error> {
        let path = dir.stamp();
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) => return Err(Error::Directory { path, cause }),
        };
        let stamp = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
        let stamp = stamp.and_then(|stamp: Self| (stamp.layout > 0).then_some(stamp).ok_or("layout 0".into()));
        stamp.map(Some).map_err(|said: String| Error::Stamp { path, said })
    }
}

/// Refuses what a later version has written; for before anything is touched.
pub(super) fn check(dir: &StateDir) -> Result<(), Error> {
    Stamp::read(dir)?.map_or(Ok(()), |stamp| stamp.may_be_read(dir.path()))
}

/// Brings the directory to our layout and notes that we serve it. Under the lock.
pub(super) fn renew(dir: &StateDir) -> Result<(), Error> {
    bring_up(dir, Stamp::read(dir)?, STEPS)
}

fn bring_up(dir: &StateDir, found: Option<Stamp>, steps: &[Step]) -> Result<(), Error> {
    let ours = Stamp { layout: steps.len() as u32 + 1, ..Stamp::ours() };
    if found.as_ref() == Some(&ours) {
        return Ok(());
    }
    let cannot = |cause| Error::Directory { path: dir.stamp(), cause };
    let from = found.as_ref().map_or(1, |stamp| stamp.layout);
    for (layout, step) in (1..).zip(steps).filter(|(layout, _)| *layout >= from) {
        tracing::info!(from = layout, to = layout + 1, "the state directory is brought to another layout");
        step(dir).map_err(cannot)?;
        write(dir, &Stamp { layout: layout + 1, ..ours.clone() }).map_err(cannot)?;
    }
    if let Some(before) = found.filter(|stamp| stamp.version != ours.version) {
        tracing::info!(before = before.version, now = ours.version, "another version served this directory before");
    }
    write(dir, &ours).map_err(cannot)
}

fn write(dir: &StateDir, stamp: &Stamp) -> io::Result<()> {
    let mut text = serde_json::to_vec(stamp)?;
    text.push(b'\n');
    chela_storage::replace(&dir.stamp(), &text, Mode::Private)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(dir: &StateDir, word: &str) -> io::Result<()> {
        let path = dir.path().join("steps");
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(path, format!("{before}{word} "))
    }

    fn first(dir: &StateDir) -> io::Result<()> {
        note(dir, "first")
    }

    fn second(dir: &StateDir) -> io::Result<()> {
        note(dir, "second")
    }

    fn fails(_: &StateDir) -> io::Result<()> {
        Err(io::Error::other("no room"))
    }

    #[test]
    fn each_step_is_done_in_order_and_a_failed_one_is_where_the_next_start_goes_on() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = StateDir::new(temp.path());
        let steps = |done: Step| [first as Step, done];
        let failed = bring_up(&dir, Stamp::read(&dir).expect("none yet"), &steps(fails));
        assert!(failed.expect_err("the second fails").to_string().contains("no room"));
        assert_eq!(Stamp::read(&dir).expect("whole").map(|stamp| stamp.layout), Some(2));
        bring_up(&dir, Stamp::read(&dir).expect("whole"), &steps(second)).expect("it goes on");
        bring_up(&dir, Stamp::read(&dir).expect("whole"), &steps(second)).expect("nothing is left to do");
        assert_eq!(std::fs::read_to_string(temp.path().join("steps")).expect("written"), "first second ");
        let stamp = Stamp::read(&dir).expect("whole").expect("written");
        assert_eq!(stamp, Stamp { layout: 3, ..Stamp::ours() });
        assert!(matches!(check(&dir), Err(Error::Newer { layout: 3, known: 1, .. })));
    }

    #[test]
    fn what_is_no_stamp_is_named() {
        let temp = tempfile::tempdir().expect("a directory");
        let dir = StateDir::new(temp.path());
        for text in ["", "{", "{\"layout\": 0, \"version\": \"0.1.0\"}", "{\"layout\": -1}", "[]"] {
            std::fs::write(dir.stamp(), text).expect("written");
            let said = check(&dir).expect_err("it is none").to_string();
            assert!(said.contains("state.json"), "{said}");
        }
    }
}
