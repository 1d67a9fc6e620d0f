//! `chela sessions`: what is known of sessions, by kind.

mod work;

use clap::Subcommand;

use super::Output;
use crate::layout::StateDir;

#[derive(Subcommand)]
pub(super) enum Sessions {
    /// List work sessions, the latest activity first; or look at one
    Work(work::Work),
}

impl Sessions {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        match self {
            Self::Work(work) => work.run(dir, output),
        }
    }
}
