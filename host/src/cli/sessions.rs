//! `chela sessions`: conversations with agents, and work sessions.

mod talks;
mod work;

use clap::{Args, Subcommand};

use super::Output;
use super::exit::WrongArgument;
use crate::layout::StateDir;

#[derive(Args)]
pub(super) struct Sessions {
    #[command(flatten)]
    list: talks::List,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// List conversations with agents, the latest first, as without any of these
    List(talks::List),
    /// Show the last messages of a conversation
    Show(talks::Show),
    /// Begin a conversation anew: no prompt has what was said before, and the transcript keeps it
    Reset(talks::Reset),
    /// Sum a conversation up now: prompts begin with the summary, and the transcript keeps everything
    Compact(talks::Compact),
    /// Take a conversation off the list; its transcript is archived
    Delete(talks::Delete),
    /// List work sessions, the latest activity first; or look at one
    Work(Box<work::Work>),
}

impl Sessions {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        // clap's own check of this would refuse `--json` before the name of a command.
        if self.what.is_some() && self.list != talks::List::default() {
            let said = "filters stand behind `list`; leave them out before the name of a command".to_owned();
            return Err(WrongArgument { flag: "sessions", said }.into());
        }
        match self.what {
            None => self.list.run(dir, output),
            Some(What::List(list)) => list.run(dir, output),
            Some(What::Show(show)) => show.run(dir, output),
            Some(What::Reset(reset)) => reset.run(dir, output),
            Some(What::Compact(compact)) => compact.run(dir, output),
            Some(What::Delete(delete)) => delete.run(dir, output),
            Some(What::Work(work)) => work.run(dir, output),
        }
    }
}
