//! `chela monitor`: the monitor API over a directory that another process writes, ours or the old system's.
//! Keeps true: nothing is written there, but for overrides where that was allowed; what this process needs to keep is in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::{Value, json};

use super::Output;
use super::serve::{Signals, raise_open_files, start_logging, until_stopped};
use crate::app::{App, Options, Watched};
use crate::bus::SEGMENT_BYTES;
use crate::clock::Clock;
use crate::config::{self, Config, Listen, Log};
use crate::layout::StateDir;
use crate::port::PerPort;
use crate::run::RunFile;
use crate::settings;
use crate::supervisor::Supervisor;

#[derive(Args)]
pub(super) struct Monitor {
    /// HOST:PORT, or a port on 127.0.0.1 (0 is any free one)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:3847")]
    listen: Listen,
    /// Where the index is kept [default: a directory below the user's cache directory, one for each state directory]
    #[arg(long, value_name = "DIR")]
    index_dir: Option<PathBuf>,
    /// A file whose first line is the token; else the token of the directory's configuration
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let operators say which category a work session has: writes work-session-category-overrides.json there
    #[arg(long)]
    allow_overrides: bool,
    /// Let programs of this machine read without a token
    #[arg(long)]
    open_reads: bool,
}

impl Monitor {
    pub(super) fn run(self, watched: &StateDir, _: Output) -> anyhow::Result<()> {
        let level = start_logging(&Log::default());
        raise_open_files();
        if !watched.path().is_dir() {
            bail!("there is no directory {}; give --state-dir DIR", watched.path().display());
        }
        let own = StateDir::new(self.own_dir(watched)?);
        self.configure(watched, &own)?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start")?;
        let served = runtime.block_on(async {
            let signals = Signals::new().context("cannot listen for signals")?;
            let compiler = std::env::current_exe().context("cannot find this program's own file")?;
            let listen = PerPort { gateway: Some(Listen::Off), monitor: Some(self.listen), hub: Some(Listen::Off) };
            let watched = Some(Watched { dir: watched.clone(), overrides: self.allow_overrides });
            let (dir, segment_bytes) = (own.clone(), SEGMENT_BYTES);
            let options = Options { dir, clock: Clock::system(), listen, compiler, watched, segment_bytes };
            let app = App::start(options).await?;
            let ready = RunFile::of_this_process(app.addresses());
            // One line for programs, whatever was asked for: there is nothing else to say.
            let said = json!({ "monitor": ready.addresses.monitor, "pid": ready.pid, "indexDir": own.path() });
            // Whoever started it may not read what it says.
            let _ = Output { json: true }.lines(&[said], |_| String::new());
            until_stopped(app, &own, signals, level, Supervisor::of_environment()).await
        });
        runtime.shutdown_background();
        served
    }

    fn own_dir(&self, watched: &StateDir) -> anyhow::Result<PathBuf> {
        if let Some(given) = &self.index_dir {
            let own = std::path::absolute(given)?;
            if own.starts_with(watched.path()) {
                bail!(
                    "{} lies in the directory that is watched, where nothing is written; choose another --index-dir",
                    own.display()
                );
            }
            return Ok(own);
        }
        let caches = match std::env::var_os("XDG_CACHE_HOME").filter(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => std::env::home_dir().context("there is no home directory; give --index-dir DIR")?.join(".cache"),
        };
        // The same directory under two names is one.
        let path = fs::canonicalize(watched.path()).unwrap_or_else(|_| watched.path().to_owned());
        let name = blake3::hash(path.as_os_str().as_encoded_bytes()).to_hex();
        Ok(caches.join("chela").join(format!("monitor-{}", &name[..16])))
    }

    /// Writes the configuration of this process: the team and the token of the directory, and what was asked for here.
    fn configure(&self, watched: &StateDir, own: &StateDir) -> anyhow::Result<()> {
        let found = found_in(watched)?;
        let token = match &self.token_file {
            Some(path) => first_line(path)?,
            None => {
                let none = || anyhow::anyhow!("its configuration names none");
                let said =
                    || format!("{} has no token for this monitor; give --token-file FILE", watched.path().display());
                found.token.unwrap_or_else(|| Err(none())).with_context(said)?
            }
        };
        if let Some(fault) = settings::token_fault(&token) {
            bail!(
                "the token of {} cannot be used ({fault}); give another with --token-file FILE",
                watched.path().display()
            );
        }
        let mut value = Config { agents: config::Agents::default(), ..Config::default() }.to_value();
        value["agents"] = json!({ "list": found.agents });
        value["categories"] = found.categories.unwrap_or_else(|| value["categories"].clone());
        value["gateway"]["auth"]["token"] = json!(token);
        value["monitor"]["openReads"] = json!(self.open_reads);
        value["decisions"]["record"] = json!("off");
        chela_storage::make_private_dir(own.path())
            .with_context(|| format!("cannot make {}; give another --index-dir", own.path().display()))?;
        let text = serde_json::to_vec_pretty(&value)?;
        chela_storage::replace(&own.config(), &text, chela_storage::Mode::Private)
            .with_context(|| format!("cannot write {}", own.config().display()))
    }
}

/// What a directory says about its team.
#[derive(Default)]
struct Found {
    agents: Vec<Value>,
    categories: Option<Value>,
    /// None where it has none; why not where it cannot be had.
    token: Option<anyhow::Result<String>>,
}

fn found_in(watched: &StateDir) -> anyhow::Result<Found> {
    if watched.config().exists() {
        let settings = settings::load(watched)?;
        let value = settings.config.to_value();
        let agents = value["agents"]["list"].as_array().into_iter().flatten();
        // Teams and orchestrators are for who serves; the monitor shows who there is.
        let agents =
            agents.map(|agent| json!({ "id": agent["id"], "name": agent["name"], "workspace": agent["workspace"] }));
        return Ok(Found {
            agents: agents.map(without_nulls).collect(),
            categories: Some(value["categories"].clone()),
            token: Some(Ok(settings.tokens.owner().to_owned())),
        });
    }
    if watched.old_config().exists() {
        return old_system(watched);
    }
    Ok(Found::default())
}

/// The team and the token of the old system; what is not understood is left out and said.
fn old_system(watched: &StateDir) -> anyhow::Result<Found> {
    let old = settings::read_old(watched)?;
    for problem in &old.problems {
        tracing::warn!(%problem, path = %watched.old_config().display(), "left out");
    }
    let agents = old.agents.list.iter();
    let agents = agents.map(|agent| json!({ "id": agent.id, "name": agent.name, "workspace": agent.workspace }));
    let token = old.token.as_ref().map(|secret| settings::secret_text(secret, watched)).transpose();
    let token = token.map_err(|said| anyhow::anyhow!("gateway.auth of {}: {said}", watched.old_config().display()));
    Ok(Found { agents: agents.map(without_nulls).collect(), categories: None, token: token.transpose() })
}

fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, field| !field.is_null());
    }
    value
}

fn first_line(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read the token in {}", path.display()))?;
    let line = text.lines().next().unwrap_or_default().trim().to_owned();
    if line.is_empty() {
        bail!("{} is empty; its first line must be the token", path.display());
    }
    Ok(line)
}
