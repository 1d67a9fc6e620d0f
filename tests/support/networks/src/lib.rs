//! Networks of the tests: a Telegram, a Slack, and a program that talks by webhooks, each on a free port of its own and strict where its
//! network documents a refusal. A crate of its own, since measurements and kills need them as well.

pub mod net;
pub mod slack;
pub mod telegram;
pub mod webhook;

use std::path::PathBuf;

/// An adapter as a component, as `cargo xtask` builds it.
fn component(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("whoever runs is a file");
    let path = format!("components/{name}.wasm");
    let found = own.ancestors().map(|folder| folder.join(&path)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("target/{path} is not built; run `cargo xtask test`"))
}
