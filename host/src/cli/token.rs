//! `chela token`: the owner's token, and nothing else on the line.

use serde_json::json;

use super::Output;
use crate::layout::StateDir;
use crate::settings;

pub(super) fn run(dir: &StateDir, output: Output) -> anyhow::Result<()> {
    let token = settings::owner_token(dir)?;
    output.show(&json!({ "token": token }), || token.clone());
    Ok(())
}
