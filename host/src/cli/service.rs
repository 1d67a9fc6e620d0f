//! `chela service`: the gateway as a unit of systemd, of the whole machine or of one user.
//! Keeps true: a unit that is not ours is neither replaced nor removed; what cannot be done is told before anything is written.

mod home;
mod manager;
mod unit;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::exit::{self, WrongArgument};
use super::output::table;
use super::status::{self, Found};
use super::{Output, state_dir};
use crate::config::Listen;
use crate::layout::StateDir;
use crate::settings;
use home::Home;
use manager::Manager;
use unit::{Credential, MARK, Unit, User};

/// Run the gateway under systemd
#[derive(Subcommand)]
pub(super) enum Service {
    /// Write a unit, have it started at boot or login, and start it
    Install(Install),
    /// Stop the service and remove its unit; the state directory stays
    Uninstall(Uninstall),
    /// Show the unit, what systemd says of it, and what the gateway says of itself
    Status(Which),
}

#[derive(Args)]
pub(super) struct Which {
    /// A service of the whole machine; the default for root
    #[arg(long, conflicts_with = "user")]
    system: bool,
    /// A service of this user; the default for others
    #[arg(long)]
    user: bool,
    /// What the unit is called, without `.service`
    #[arg(long, value_name = "NAME", default_value = "chela")]
    name: String,
}

#[derive(Args)]
pub(super) struct Install {
    #[command(flatten)]
    which: Which,
    /// The user that the service of the machine runs as [default: one that systemd makes for it alone]
    #[arg(long, value_name = "USER")]
    run_as: Option<String>,
    /// The most memory it may take, such as 2G
    #[arg(long, value_name = "SIZE", default_value = "2G")]
    memory_max: String,
    /// A secret of the configuration, `{credential: NAME}`, from a file that systemd reads; may be given often
    #[arg(long, value_name = "NAME=FILE")]
    credential: Vec<String>,
    /// Print the unit and do nothing
    #[arg(long)]
    print: bool,
    /// Write the unit and leave it at that: systemd is asked for nothing
    #[arg(long)]
    no_start: bool,
    /// Replace a unit of this name that is not ours
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(super) struct Uninstall {
    #[command(flatten)]
    which: Which,
    /// Only remove the unit: systemd is asked for nothing
    #[arg(long)]
    no_stop: bool,
}

impl Service {
    pub(super) fn run(self, given: Option<PathBuf>, output: Output) -> anyhow::Result<ExitCode> {
        match self {
            Self::Install(install) => install.run(given, output)?,
            Self::Uninstall(uninstall) => uninstall.run(output)?,
            Self::Status(which) => return which.status(given, output),
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Which {
    fn manager(&self) -> anyhow::Result<Manager> {
        if !unit::is_name(&self.name) {
            let said = "a name has 1 to 64 letters, digits, `-` and `_`, and begins with a letter".to_owned();
            return Err(WrongArgument { flag: "--name", said }.into());
        }
        let system = self.system || (!self.user && rustix::process::geteuid().is_root());
        Manager::new(system, &self.name)
    }

    /// The directory that the service serves: the one that was given, else the usual one of its kind.
    fn dir(&self, manager: &Manager, given: Option<PathBuf>) -> anyhow::Result<StateDir> {
        match given {
            None if manager.system => Ok(StateDir::new(Path::new("/var/lib").join(&self.name))),
            given => state_dir(given),
        }
    }

    fn status(&self, given: Option<PathBuf>, output: Output) -> anyhow::Result<ExitCode> {
        let manager = self.manager()?;
        let shown = manager.show();
        // A package has its unit elsewhere; systemd knows where.
        let known =
            shown.as_ref().ok().and_then(|shown| shown["FragmentPath"].as_str()).filter(|path| !path.is_empty());
        let own = manager.unit_path();
        let path = if own.exists() { own } else { known.map_or(own, PathBuf::from) };
        let text = fs::read_to_string(&path).ok();
        let installed = text.is_some();
        let dir = match text.as_deref().and_then(unit::served_by) {
            Some(served) if given.is_none() => StateDir::new(served),
            _ => self.dir(&manager, given)?,
        };
        let found = status::find(&dir);
        let (serving, said) = match &found {
            Ok(Found::Serving(status)) => (true, json!({ "pid": status["pid"], "version": status["runtimeVersion"] })),
            Ok(_) => (false, Value::Null),
            Err(error) => (false, json!({ "error": format!("{error:#}") })),
        };
        let ours = text.as_deref().is_some_and(|text| text.starts_with(MARK));
        let document = json!({
            "installed": installed, "unit": path, "ours": ours, "system": manager.system, "stateDir": dir.path(),
            "serving": serving, "gateway": said, "systemd": shown.as_ref().ok(),
        });
        output.show(&document, || self.text(&document, shown.as_ref().err().map(ToString::to_string)));
        Ok(if serving { ExitCode::SUCCESS } else { ExitCode::from(exit::UNAVAILABLE) })
    }

    fn text(&self, document: &Value, unheard: Option<String>) -> String {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let row = |name: &str, value: String| vec![name.to_owned(), value];
        let unit = match (document["installed"] == json!(true), document["ours"] == json!(true)) {
            (false, _) => format!("none at {}; `chela service install` writes one", word(&document["unit"])),
            (true, true) => word(&document["unit"]),
            (true, false) => format!("{}, which is not of `chela service install`", word(&document["unit"])),
        };
        let mut rows = vec![row("unit", unit), row("state", word(&document["stateDir"]))];
        match (&document["systemd"], unheard) {
            (_, Some(said)) => rows.push(row("systemd", said)),
            (shown, None) => {
                let of = |name: &str| word(&shown[name]);
                rows.push(row(
                    "systemd",
                    format!("{} ({}), {}", of("ActiveState"), of("SubState"), of("UnitFileState")),
                ));
                rows.push(row("restarts", of("NRestarts")));
                if shown["Result"] != "success" {
                    rows.push(row("result", format!("{}, exit code {}", of("Result"), of("ExecMainStatus"))));
                }
                if shown["StatusText"].as_str().is_some_and(|text| !text.is_empty()) {
                    rows.push(row("said", of("StatusText")));
                }
            }
        }
        rows.push(match (&document["serving"], &document["gateway"]["error"]) {
            (_, Value::String(error)) => row("gateway", error.clone()),
            (Value::Bool(true), _) => {
                let gateway = &document["gateway"];
                row("gateway", format!("serving, pid {}, version {}", gateway["pid"], word(&gateway["version"])))
            }
            _ => row("gateway", "not serving".into()),
        });
        table(&rows)
    }
}

impl Install {
    fn run(self, given: Option<PathBuf>, output: Output) -> anyhow::Result<()> {
        let manager = self.which.manager()?;
        let dir = self.which.dir(&manager, given)?;
        let unit = self.unit(&manager, &dir)?;
        let text = unit.text()?;
        if self.print {
            output.show(&json!({ "unit": text }), || text.clone());
            return Ok(());
        }
        if manager.system && !rustix::process::geteuid().is_root() {
            bail!("a service of the machine is installed by root; run this with sudo, or use --user");
        }
        let home = match &unit.user {
            User::Named(user) => Some(Home::of(user, &dir)?),
            User::Made | User::Own => None,
        };
        if manager.system {
            others_can_run(&unit.program)?;
        }
        let path = manager.unit_path();
        let before = fs::read_to_string(&path).ok();
        if before.as_deref().is_some_and(|before| !before.starts_with(MARK)) && !self.force {
            bail!("{} is there and not ours; choose another --name, or replace it with --force", path.display());
        }
        home.map_or(Ok(()), |home| home.make())?;
        let folder = path.parent().context("a unit lies in a directory")?;
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        chela_storage::replace(&path, text.as_bytes(), chela_storage::Mode::Shared)
            .with_context(|| format!("cannot write {}", path.display()))?;
        let changed = before.as_deref() != Some(&*text);
        if !self.no_start {
            manager.start().with_context(|| {
                format!("{} is written, but systemd does not take it; --no-start leaves systemd alone", path.display())
            })?;
        }
        let started = !self.no_start;
        let document = json!({ "unit": path, "stateDir": dir.path(), "changed": changed, "started": started });
        output.show(&document, || told(&manager, &path, &dir, started));
        Ok(())
    }

    fn unit(&self, manager: &Manager, dir: &StateDir) -> anyhow::Result<Unit> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let wrong = |flag: &'static str, said: &str| WrongArgument { flag, said: said.to_owned() };
        if !unit::is_size(&self.memory_max) {
            return Err(wrong("--memory-max", "write a number with K, M, G or T behind it, such as 2G").into());
        }
        let user = match (&self.run_as, manager.system) {
            (None, false) => User::Own,
            (Some(_), false) => return Err(wrong("--run-as", "a service of a user runs as that user").into()),
            (Some(user), true) if unit::is_user(user) => User::Named(user.clone()),
            (Some(_), true) => return Err(wrong("--run-as", "this is no name of a user").into()),
            (None, true) if dir.path() == Path::new("/var/lib").join(&self.which.name) => User::Made,
            (None, true) => {
                let said =
                    "a user that systemd makes has its directory in /var/lib alone; name one for this --state-dir";
                return Err(wrong("--run-as", said).into());
            }
        };
        let credentials: Result<Vec<Credential>, String> =
            self.credential.iter().map(|given| Credential::parse(given)).collect();
        let credentials = credentials.map_err(|said| WrongArgument { flag: "--credential", said })?;
        let low_port = match settings::load(dir) {
            Ok(settings) => {
                let low = |listen: &Listen| matches!(listen, Listen::At(at) if at.port() != 0 && at.port() < 1024);
                settings.config.listen().iter().any(|(_, listen)| low(listen))
            }
            // There is none yet, or its secrets are for the service alone.
            Err(settings::Error::Missing { .. } | settings::Error::SecretsElsewhere { .. }) => false,
            Err(settings::Error::Read { .. }) if self.print => false,
            // What could never start is not installed.
            Err(error) => return Err(error.into()),
        };
        let (name, dir, memory_max) = (self.which.name.clone(), dir.path().to_owned(), self.memory_max.clone());
        Ok(Unit { name, program, dir, user, memory_max, credentials, low_port })
    }
}

/// A service of the machine runs as another user, who must be able to get at the program.
fn others_can_run(program: &Path) -> anyhow::Result<()> {
    let closed = program.ancestors().find(|path| fs::metadata(path).is_ok_and(|facts| facts.mode() & 0o001 == 0));
    match closed {
        Some(closed) => bail!(
            "other users cannot get at {}, since {} is closed to them; put it into /usr/local/bin, with the directory `components` beside it",
            program.display(),
            closed.display()
        ),
        None => Ok(()),
    }
}

fn told(manager: &Manager, path: &Path, dir: &StateDir, started: bool) -> String {
    let (name, flag) = (manager.name(), if manager.system { "" } else { " --user" });
    let mut text = format!("wrote {}\n", path.display());
    match started {
        true => text.push_str("the service runs, and is started again at every boot\n"),
        false => text.push_str(&format!("start it with `systemctl{flag} enable --now {name}`\n")),
    }
    if !manager.system {
        text.push_str("to have it run while nobody is logged in: `loginctl enable-linger`\n");
    }
    let state = dir.path().display();
    text.push_str(&format!("its log: `journalctl{flag} -u {name}`; its own settings: `systemctl{flag} edit {name}`\n"));
    text.push_str(&format!("the token: `chela token --state-dir {state}`"));
    text
}

impl Uninstall {
    fn run(self, output: Output) -> anyhow::Result<()> {
        let manager = self.which.manager()?;
        let path = manager.unit_path();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!("there is no {}; `chela service status` says what is there", path.display())
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        if !text.starts_with(MARK) {
            bail!("{} is not ours; remove it by hand", path.display());
        }
        if !self.no_stop {
            manager.stop().with_context(|| {
                format!("{} stays, since systemd did not stop it; --no-stop leaves systemd alone", path.display())
            })?;
        }
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        if !self.no_stop {
            manager.forget()?;
        }
        let dir = unit::served_by(&text);
        output.show(&json!({ "removed": path, "stateDir": dir }), || match &dir {
            Some(dir) => format!("removed {}; {dir} stays as it is", path.display()),
            None => format!("removed {}", path.display()),
        });
        Ok(())
    }
}
