//! `chela completions` and `chela man`: what the command line says of itself, for shells and for `man`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use super::{Arguments, Output};

#[derive(Args)]
pub(super) struct Completions {
    /// For which shell; what is printed belongs where that shell looks for completions
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, output: Output) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "chela", &mut script);
        let script = String::from_utf8(script).context("a script is text")?;
        output.show(&json!({ "shell": self.shell.to_string(), "script": script }), || script.clone());
        Ok(())
    }
}

#[derive(Args)]
pub(super) struct Man {
    /// Write a page for every command into this directory; without it the first page goes to standard output
    #[arg(value_name = "DIR")]
    into: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self, output: Output) -> anyhow::Result<()> {
        let command = Arguments::command().disable_help_subcommand(true);
        let Some(into) = &self.into else {
            let page = page(&command)?;
            output.show(&json!({ "page": page }), || page.clone());
            return Ok(());
        };
        if !into.is_dir() {
            bail!("{} is not a directory; make it first", into.display());
        }
        let mut written = Vec::new();
        write_all(&command, "chela", into, &mut written)?;
        output.show(&json!({ "pages": written }), || {
            written.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join("\n")
        });
        Ok(())
    }
}

/// A page for a command and each below it: `chela-plugin-load.1`.
fn write_all(command: &clap::Command, name: &str, into: &Path, written: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let path = into.join(format!("{name}.1"));
    let named = command.clone().display_name(name.to_owned()).bin_name(name.replace('-', " "));
    let mut file = std::fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.write_all(page(&named)?.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    written.push(path);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        write_all(below, &format!("{name}-{}", below.get_name()), into, written)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> anyhow::Result<String> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text).context("cannot write a page")?;
    String::from_utf8(text).context("a page is text")
}
