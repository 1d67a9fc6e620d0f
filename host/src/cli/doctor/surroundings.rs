//! What `chela doctor` says of what a gateway stands on beside its files: the version that wrote them, certificate, secrets, clock and
//! index. Mends what is safe to mend.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use chela_storage::DirLock;

use super::{Finding, few};
use crate::app::{self, Stamp};
use crate::clock::{Clock, Timestamp};
use crate::config::{Pem, Secret, Tls};
use crate::layout::StateDir;
use crate::schema::Problem;
use crate::settings::{self, Settings};

const DAY_MS: u64 = 86_400_000;
/// A certificate that ends so soon should have been renewed.
const CERTIFICATE_SOON_MS: u64 = 14 * DAY_MS;
/// A clock that is behind what was written by more than this was set back.
const CLOCK_BACK_MS: u64 = 120_000;

/// Which version wrote the directory.
pub(super) fn version(dir: &StateDir) -> Finding {
    const CHECK: &str = "version";
    let read = Stamp::read(dir).and_then(|stamp| {
        stamp.as_ref().map_or(Ok(()), |stamp| stamp.may_be_read(dir.path()))?;
        Ok(stamp)
    });
    match read {
        Ok(Some(stamp)) => Finding::good(CHECK, format!("served last by {}, layout {}", stamp.version, stamp.layout)),
        Ok(None) => Finding::good(CHECK, "not served by a version that says so"),
        Err(error @ app::Error::Newer { .. }) => {
            let remedy = "this command is too old for it: run the one of the version that it names";
            Finding::wrong(CHECK, error.to_string(), remedy)
        }
        Err(error) => Finding::wrong(CHECK, error.to_string(), "restore a backup, or put state.json right by hand"),
    }
}

/// The certificate of encrypted listeners.
pub(super) fn certificate(dir: &StateDir, settings: &Settings) -> Vec<Finding> {
    const CHECK: &str = "certificate";
    let identity = match settings::identity(&settings.config.tls, dir) {
        Ok(None) => return Vec::new(),
        Ok(Some(identity)) => identity,
        Err(problems) => {
            let told = |problem: &Problem| match is_for_the_service(&settings.config.tls, problem) {
                true => {
                    Finding::warning(CHECK, problem.to_string(), "good if the service has what this command has not")
                }
                false => {
                    Finding::wrong(CHECK, problem.to_string(), "give the gateway a whole certificate with its key")
                }
            };
            return problems.0.iter().map(told).collect();
        }
    };
    let now = Clock::system().now().0;
    vec![match identity.until() {
        None => Finding::good(CHECK, "whole; its end cannot be read"),
        Some(until) if until.0 <= now => Finding::wrong(
            CHECK,
            format!("it ended at {until}"),
            "renew it; the gateway takes the new one up by itself",
        ),
        Some(until) if until.0 - now < CERTIFICATE_SOON_MS => Finding::warning(
            CHECK,
            format!("it ends at {until}"),
            "renew it; the gateway takes the new one up by itself",
        ),
        Some(until) => Finding::good(CHECK, format!("good until {until}")),
    }]
}

/// Whether it is said of a credential, which systemd hands to the service and to nobody else.
fn is_for_the_service(tls: &Tls, problem: &Problem) -> bool {
    let pem = if problem.path == "tls.key" { &tls.key } else { &tls.certificate };
    let named = matches!(pem, Some(Pem::Credential(source)) if !source.credential.contains('/'));
    named && std::env::var_os("CREDENTIALS_DIRECTORY").is_none()
}

/// Whether the secrets are there that the configuration names for others than ourselves.
pub(super) fn secrets(dir: &StateDir, settings: &Settings) -> Finding {
    const CHECK: &str = "secrets";
    let config = &settings.config;
    let keys = config
        .providers
        .iter()
        .filter_map(|(name, provider)| provider.key.as_ref().map(|key| (format!("providers.{name}.key"), key.clone())));
    let granted = config.channels.iter().flat_map(|(channel, one)| {
        let of = move |name: &String| format!("channels.{channel}.grants.secrets.{name}");
        one.grants.secrets.iter().map(move |(name, secret)| (of(name), secret.value.clone()))
    });
    let headers = config.traces.headers.iter();
    let headers = headers.map(|(name, secret)| (format!("traces.headers.{name}"), secret.clone()));
    let all: Vec<(String, Secret)> = keys.chain(granted).chain(headers).collect();
    let missing: Vec<String> = all
        .iter()
        .filter_map(|(path, secret)| Some(format!("{path}: {}", settings::secret_text(secret, dir).err()?)))
        .collect();
    if missing.is_empty() {
        return Finding::good(CHECK, format!("{} of models, channels and traces, all there", all.len()));
    }
    let remedy = "good if the gateway has what this command has not; else put them where the configuration says";
    Finding::warning(CHECK, few(missing), remedy)
}

/// Whether the clock is behind what was written.
pub(super) fn clock(dir: &StateDir) -> Finding {
    const CHECK: &str = "clock";
    let now = Clock::system().now();
    let written = [dir.event_log(), dir.audit_log(), dir.stamp()];
    let latest = written.iter().filter_map(|path| changed(path)).max().unwrap_or(Timestamp(0));
    if latest.0 > now.0 + CLOCK_BACK_MS {
        let detail = format!("it is {now}, and something was written at {latest}");
        let remedy = "set the clock (`timedatectl`); new events are told with earlier times than old ones, and deadlines of questions are later by as much";
        return Finding::warning(CHECK, detail, remedy);
    }
    Finding::good(CHECK, now.to_string())
}

fn changed(path: &Path) -> Option<Timestamp> {
    let facts = fs::metadata(path).ok()?;
    u64::try_from(facts.mtime()).ok().map(|seconds| Timestamp(seconds * 1_000))
}

/// The index of the event log, which can always be made again.
pub(super) fn index(dir: &StateDir, mends: bool) -> Finding {
    const CHECK: &str = "index";
    const BEGIN: &[u8] = b"SQLite format 3\0";
    let path = dir.event_index();
    let Ok(mut file) = fs::File::open(&path) else {
        return Finding::good(CHECK, "none yet; the next start makes it from the log");
    };
    let mut begin = [0; BEGIN.len()];
    let size = file.metadata().map_or(0, |facts| facts.len());
    if size == 0 || file.read_exact(&mut begin).is_ok_and(|()| begin == BEGIN) {
        return Finding::good(CHECK, format!("{} kB", size >> 10));
    }
    let said = format!("{} is no index", path.display());
    if !mends || DirLock::is_held(&dir.lock()).unwrap_or(true) {
        let remedy =
            "stop the gateway and run `chela doctor --fix`, which removes it; the next start makes it from the log";
        return Finding::wrong(CHECK, said, remedy);
    }
    match fs::remove_dir_all(dir.index()) {
        Ok(()) => Finding::good(CHECK, format!("{said}; removed, the next start makes it from the log")),
        Err(error) => Finding::wrong(CHECK, format!("{said}: {error}"), "remove the directory `index` by hand"),
    }
}
