//! systemd, by its own command: where it looks for units, and what is asked of it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use serde_json::{Map, Value};

/// What is asked about a unit.
const SHOWN: &str =
    "ActiveState,SubState,UnitFileState,MainPID,NRestarts,Result,ExecMainStatus,StatusText,FragmentPath";

pub(super) struct Manager {
    pub(super) system: bool,
    name: String,
    folder: PathBuf,
}

impl Manager {
    pub(super) fn new(system: bool, name: &str) -> anyhow::Result<Self> {
        let folder = match system {
            true => PathBuf::from("/etc/systemd/system"),
            false => match std::env::var_os("XDG_CONFIG_HOME").filter(|path| !path.is_empty()) {
                Some(path) => PathBuf::from(path),
                None => {
                    std::env::home_dir().context("there is no home directory for a unit of this user")?.join(".config")
                }
            }
            .join("systemd/user"),
        };
        Ok(Self { system, name: name.to_owned(), folder })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn unit_path(&self) -> PathBuf {
        self.folder.join(self.unit())
    }

    fn unit(&self) -> String {
        format!("{}.service", self.name)
    }

    /// Has it started now and at every boot; one that runs is started anew, so that it runs by the new unit.
    pub(super) fn start(&self) -> anyhow::Result<()> {
        self.ask(&["daemon-reload"])?;
        self.ask(&["enable", &self.unit()])?;
        self.ask(&["restart", &self.unit()])?;
        Ok(())
    }

    pub(super) fn stop(&self) -> anyhow::Result<()> {
        self.ask(&["disable", "--now", &self.unit()]).map(drop)
    }

    /// After the unit is gone.
    pub(super) fn forget(&self) -> anyhow::Result<()> {
        self.ask(&["daemon-reload"]).map(drop)
    }

    /// What systemd says of the unit, by property.
    pub(super) fn show(&self) -> anyhow::Result<Value> {
        let said = self.ask(&["show", "--property", SHOWN, &self.unit()])?;
        let pairs = said.lines().filter_map(|line| line.split_once('='));
        Ok(Value::Object(pairs.map(|(name, value)| (name.to_owned(), value.into())).collect::<Map<_, _>>()))
    }

    fn ask(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("systemctl");
        if !self.system {
            command.arg("--user");
        }
        let line = format!("systemctl{} {}", if self.system { "" } else { " --user" }, arguments.join(" "));
        let output = command.args(arguments).output();
        let output = output.with_context(|| format!("cannot run `{line}`; is systemd here?"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("`{line}` failed: {}", said.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
