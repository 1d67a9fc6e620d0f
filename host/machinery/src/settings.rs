//! The configuration in force: read from `chela.json`, watched, replaced whole or not at all.
//! Owns the file. Keeps true: what is in force has passed every check; a bad file changes nothing and says why; the certificate that is in
//! force is renewed whatever the file says.
//! Never: prints a secret, or half applies.

mod adopt;
mod file;
mod identity;
mod secrets;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::bus::{Bus, data};
use crate::clock::Clock;
use crate::config::{self, Config, Problems};
use crate::event::Kind;
use crate::layout::StateDir;
use crate::metrics::{Metrics, Outcome, Word};
use crate::port::Port;
use crate::schema::Problem;
use crate::tls::Identity;
use crate::watch::Watcher;

pub use adopt::{Adopted, Adoption, read_old};
pub use file::{check, create, edit, load, load_serving, make_workspaces, owner_token};
pub use identity::identity;
pub use secrets::{Principal, Seal, Tokens, fault as token_fault, secret_text};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no {}; `chela init` writes one, and so does a first `chela serve`", path.display())]
    Missing { path: PathBuf },
    #[error("{} is there already; edit it, or choose another --state-dir", path.display())]
    Exists { path: PathBuf },
    #[error("cannot read {} ({cause}); check its owner and rights", path.display())]
    Read { path: PathBuf, cause: std::io::Error },
    #[error("cannot write {} ({cause}); check its owner and rights, and the disk", path.display())]
    Write { path: PathBuf, cause: std::io::Error },
    #[error("others can read {} (mode {mode:o}) and it holds a token; run `chmod 600 {}`", path.display(), path.display())]
    Rights { path: PathBuf, mode: u32 },
    #[error("{} is larger than {bytes_max} bytes", path.display())]
    TooLarge { path: PathBuf, bytes_max: u64 },
    #[error("there is no {} to adopt; leave --adopt out for a first start, or choose another --state-dir", path.display())]
    NothingToAdopt { path: PathBuf },
    #[error("{} is not UTF-8 (byte {at}); save it as UTF-8 text", path.display())]
    NotUtf8 { path: PathBuf, at: usize },
    #[error("{} cannot be used:\n{problems}", path.display())]
    Invalid { path: PathBuf, problems: Problems },
    #[error("the secrets that {} names are not here:\n{problems}", path.display())]
    SecretsElsewhere { path: PathBuf, problems: Problems },
    #[error("the change cannot be made: {0}")]
    Edit(#[from] chela_json5::Error),
    #[error("{} has changed since it was read; read it again and make the change anew", path.display())]
    Changed { path: PathBuf },
    #[error("the gateway is stopping")]
    Stopping,
}

impl Error {
    /// What to change, as rows; one row for what is wrong with the file itself.
    pub fn problems(&self) -> Vec<Problem> {
        match self {
            Self::Invalid { problems, .. } | Self::SecretsElsewhere { problems, .. } => problems.0.clone(),
            other => vec![Problem::new("", other.to_string())],
        }
    }
}

/// A configuration with its secrets found.
pub struct Settings {
    pub config: Config,
    pub tokens: Tokens,
    /// What encrypted listeners show; none where nothing is encrypted, and for commands that do not serve.
    pub identity: Option<Identity>,
    /// Tells one state of the file from another, without telling what is in it.
    pub revision: String,
}

impl Settings {
    /// What a listener shows, if it is encrypted.
    pub fn identity_of(&self, port: Port) -> Option<&Identity> {
        self.identity.as_ref().filter(|_| self.config.tls.covers(port))
    }
}

/// How often the files of certificate and key are looked at.
const CERTIFICATE_LOOK: Duration = Duration::from_secs(30);

/// What became of a reading of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub changed: Vec<String>,
    pub restart_needed: Vec<String>,
}

/// What a reader may know of the file's state.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// Why the file as it is now is not in force; empty when it is.
    pub problems: Vec<Problem>,
    /// Changed in the file, but taken up only by a restart.
    pub restart_needed: Vec<String>,
}

#[derive(Clone)]
pub struct Handle {
    settings: watch::Receiver<Arc<Settings>>,
    standing: watch::Receiver<Standing>,
    asked: watch::Receiver<u64>,
    requests: mpsc::Sender<Request>,
}

/// What is asked of the one who replaces settings.
enum Request {
    Reload(oneshot::Sender<Result<Applied, Error>>),
    Patch {
        patch: serde_json::Value,
        base: String,
        replace: Vec<String>,
        answer: oneshot::Sender<Result<Applied, Error>>,
    },
}

impl Handle {
    pub fn current(&self) -> Arc<Settings> {
        self.settings.borrow().clone()
    }

    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// Completes when other settings than the ones last seen are in force.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Settings>> {
        self.settings.clone()
    }

    /// Completes when somebody has asked for a reading, whatever that found. Files of secrets are not watched: they may
    /// hold others now.
    pub fn readings(&self) -> watch::Receiver<u64> {
        self.asked.clone()
    }

    /// Reads the file now.
    pub async fn reload(&self) -> Result<Applied, Error> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Reload(answer)).await.map_err(|_| Error::Stopping)?;
        answered.await.map_err(|_| Error::Stopping)?
    }

    /// Changes the file by a merge patch, comments kept, if it is still the one of revision `base`; `replace` names lists that may
    /// lose entries.
    pub async fn patch(&self, patch: serde_json::Value, base: String, replace: Vec<String>) -> Result<Applied, Error> {
        let (answer, answered) = oneshot::channel();
        self.requests.send(Request::Patch { patch, base, replace, answer }).await.map_err(|_| Error::Stopping)?;
        answered.await.map_err(|_| Error::Stopping)?
    }
}

/// The one task that replaces settings.
pub struct Service {
    pub dir: StateDir,
    pub bus: Bus,
    pub clock: Clock,
    pub metrics: Metrics,
}

impl Service {
    /// Puts `first` in force; the future watches the file until `stop`.
    pub fn start(self, first: Settings, stop: CancellationToken) -> (Handle, impl Future<Output = ()> + Send) {
        let started_with = first.config.clone();
        let (settings, settings_seen) = watch::channel(Arc::new(first));
        let (standing, standing_seen) = watch::channel(Standing::default());
        let (asked, asked_seen) = watch::channel(0);
        let (requests, inbox) = mpsc::channel(8);
        let handle = Handle { settings: settings_seen, standing: standing_seen, asked: asked_seen, requests };
        let watcher = Watcher::file(&self.dir.config(), self.clock.clone());
        let looked = identity::look(&started_with.tls, &self.dir);
        let mut state = State { service: self, started_with, settings, standing, asked, looked };
        // What changed between the first reading and the watch is taken up now.
        drop(state.reload());
        (handle, state.run(watcher, inbox, stop))
    }
}

struct State {
    service: Service,
    started_with: Config,
    settings: watch::Sender<Arc<Settings>>,
    standing: watch::Sender<Standing>,
    /// How often somebody has asked for a reading.
    asked: watch::Sender<u64>,
    /// How the files of certificate and key looked when they were last read.
    looked: [identity::Look; 2],
}

impl State {
    async fn run(mut self, mut watcher: Watcher, mut inbox: mpsc::Receiver<Request>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                request = inbox.recv() => match request {
                    // The asker may have gone: what was done stands all the same.
                    Some(Request::Reload(answer)) => {
                        let read = self.reload();
                        // After it: whoever looks again does so by the settings in force.
                        self.asked.send_modify(|asked| *asked += 1);
                        drop(answer.send(read));
                    }
                    Some(Request::Patch { patch, base, replace, answer }) => {
                        drop(answer.send(self.patch(&patch, &base, replace)));
                    }
                    None => return,
                },
                () = watcher.changed() => drop(self.reload()),
                () = self.service.clock.sleep(CERTIFICATE_LOOK) => self.look_at_certificate(),
            }
        }
    }

    fn patch(&mut self, patch: &serde_json::Value, base: &str, replace: Vec<String>) -> Result<Applied, Error> {
        let path = self.service.dir.config();
        edit(&self.service.dir, |text| {
            if file::revision(text) != base {
                return Err(Error::Changed { path });
            }
            Ok(chela_json5::patch(text, patch, &chela_json5::Options { replace_paths: replace })?)
        })?;
        self.reload()
    }

    /// A certificate that was renewed is taken up without a word; who renews it need not know us.
    fn look_at_certificate(&mut self) {
        let tls = self.settings.borrow().config.tls.clone();
        if identity::look(&tls, &self.service.dir) != self.looked {
            drop(self.reload());
        }
    }

    fn reload(&mut self) -> Result<Applied, Error> {
        let tls = self.settings.borrow().config.tls.clone();
        self.looked = identity::look(&tls, &self.service.dir);
        let loaded =
            load_serving(&self.service.dir).and_then(|new| make_workspaces(&self.service.dir, &new).map(|()| new));
        match loaded {
            Ok(settings) => {
                if settings.config.tls != tls {
                    self.looked = identity::look(&settings.config.tls, &self.service.dir);
                }
                Ok(self.apply(settings))
            }
            Err(error) => {
                let mut problems = error.problems();
                let more = self.renew_identity();
                problems.extend(more.into_iter().filter(|problem| !error.problems().contains(problem)));
                self.refuse(problems);
                Err(error)
            }
        }
    }

    /// Shows the certificate in force as its files are now, although the configuration in the file is bad: it would end some day while
    /// somebody mends a typing error elsewhere. Gives what is wrong with it.
    fn renew_identity(&mut self) -> Vec<Problem> {
        let old = self.settings.borrow().clone();
        let found = match identity(&old.config.tls, &self.service.dir) {
            Ok(found) => found,
            Err(problems) => return problems.0,
        };
        if found != old.identity {
            let (config, tokens, revision) = (old.config.clone(), old.tokens.clone(), old.revision.clone());
            self.settings.send_replace(Arc::new(Settings { config, tokens, identity: found, revision }));
            let restart_needed = self.standing.borrow().restart_needed.clone();
            self.tell_applied(&Applied { changed: vec!["tls".into()], restart_needed });
        }
        Vec::new()
    }

    fn apply(&mut self, new: Settings) -> Applied {
        let old = self.settings.borrow().clone();
        let mut changed = config::changed_paths(&old.config, &new.config);
        if old.tokens != new.tokens && !changed.iter().any(|path| path.starts_with("gateway.auth")) {
            changed.push("gateway.auth".into());
        }
        if old.identity != new.identity && !changed.iter().any(|path| path.starts_with("tls")) {
            changed.push("tls".into());
        }
        let restart_needed = config::needing_restart(&config::changed_paths(&self.started_with, &new.config));
        let applied = Applied { changed, restart_needed };
        let standing = Standing { problems: Vec::new(), restart_needed: applied.restart_needed.clone() };
        let was_refused = !self.standing.send_replace(standing).problems.is_empty();
        if new.revision != old.revision || old.tokens != new.tokens || old.identity != new.identity {
            self.settings.send_replace(Arc::new(new));
        }
        // A change of comments alone is no news, unless the file was refused before.
        if applied.changed.is_empty() && !was_refused {
            return applied;
        }
        self.tell_applied(&applied);
        applied
    }

    fn tell_applied(&self, applied: &Applied) {
        self.count("applied");
        tracing::info!(changed = ?applied.changed, restart_needed = ?applied.restart_needed, "configuration applied");
        self.service.bus.tell(
            Kind::ConfigApplied,
            data(json!({ "changed": applied.changed, "restartNeeded": applied.restart_needed })),
        );
    }

    fn refuse(&mut self, problems: Vec<Problem>) {
        // The same bad file may be seen more than once while it is being written.
        if self.standing.borrow().problems == problems {
            return;
        }
        self.count("refused");
        let said: Vec<String> = problems.iter().map(Problem::to_string).collect();
        tracing::warn!(problems = said.join("; "), "configuration refused; the one before stays in force");
        self.service.bus.tell(Kind::ConfigRefused, data(json!({ "problems": problems })));
        self.standing.send_modify(|standing| standing.problems = problems);
    }

    fn count(&self, outcome: &'static str) {
        self.service.metrics.config_reloads.get_or_create(&Outcome { outcome: Word(outcome) }).inc();
    }
}
