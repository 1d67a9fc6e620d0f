//! `chela init`: a first configuration.

use clap::Args;
use serde_json::json;

use super::{Listeners, Output};
use crate::app;
use crate::config::Starter;
use crate::layout::StateDir;

#[derive(Args)]
pub(super) struct Init {
    #[command(flatten)]
    listeners: Listeners,
    /// Leave the team empty instead of adding the demo team
    #[arg(long)]
    empty_team: bool,
}

impl Init {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        app::init(dir, &Starter { listen: self.listeners.into(), empty_team: self.empty_team })?;
        let path = dir.config();
        output.show(&json!({ "config": path, "stateDir": dir.path() }), || {
            format!("wrote {} with a new token (`chela token` prints it)\nnext: chela serve", path.display())
        });
        Ok(())
    }
}
