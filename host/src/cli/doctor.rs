//! `chela doctor`: looks at everything a gateway stands on, and says how to mend what is wrong. Changes nothing unless it is told to.

mod bound;
mod growth;
mod kept;
mod lost;
mod surroundings;

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use serde_json::json;

use super::output::table;
use super::status::{self, Found};
use super::{Output, exit};
use crate::config::{AgentRole, Listen};
use crate::edge;
use crate::layout::StateDir;
use crate::plugins;
use crate::port::Port;
use crate::settings::{self, Settings};

const SPACE_LOW: u64 = 1 << 30;
const SPACE_GONE: u64 = 64 << 20;
/// Files that are told of by name.
const NAMED_MAX: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Good,
    Warning,
    Wrong,
}

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    state: State,
    detail: String,
    /// What to do; empty when nothing is to be done.
    remedy: String,
}

impl Finding {
    fn good(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: State::Good, detail: detail.into(), remedy: String::new() }
    }

    fn warning(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: State::Warning, detail: detail.into(), remedy: remedy.into() }
    }

    fn wrong(check: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, state: State::Wrong, detail: detail.into(), remedy: remedy.into() }
    }
}

#[derive(clap::Args)]
pub(super) struct Doctor {
    /// Mend what can be mended without losing anything that is whole
    #[arg(long)]
    fix: bool,
}

impl Doctor {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
        examine(dir, output, self.fix)
    }
}

fn examine(dir: &StateDir, output: Output, mends: bool) -> anyhow::Result<ExitCode> {
    let mut findings = Vec::new();
    findings.extend(directory(dir));
    findings.push(surroundings::version(dir));
    findings.push(space(dir));
    findings.push(growth::growth(dir));
    findings.push(surroundings::clock(dir));
    findings.extend(lost::leftovers(dir, mends));
    findings.push(surroundings::index(dir, mends));
    let settings = settings::load(dir);
    findings.extend(match dir.old_config().exists() && !dir.config().exists() {
        true => vec![old_system(dir)],
        false => configuration(&settings),
    });
    let found = status::find(dir);
    findings.push(gateway(&found));
    findings.extend(match &found {
        Ok(Found::Serving(_)) => bound::serving(dir, settings.as_ref().ok()),
        _ => settings.iter().flat_map(|settings| bound::files(dir, settings)).collect(),
    });
    if matches!(found, Ok(Found::None | Found::Dead(_))) {
        findings.extend(settings.iter().flat_map(ports));
    }
    findings.extend(settings.iter().flat_map(|settings| surroundings::certificate(dir, settings)));
    findings.extend(settings.iter().map(|settings| surroundings::secrets(dir, settings)));
    findings.extend(settings.iter().flat_map(|settings| lost::orphans(dir, settings)));
    findings.extend(settings.iter().map(questions));
    findings.extend(settings.iter().map(open_files));
    findings.push(event_log(dir));
    findings.push(kept::journal(dir, mends));
    findings.extend(kept::lists(dir));
    findings.extend(settings.iter().map(|settings| kept::tasks(dir, settings)));
    findings.push(components());

    let healthy = findings.iter().all(|finding| finding.state != State::Wrong);
    output.show(&json!({ "healthy": healthy, "findings": findings }), || text(&findings, healthy));
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
}

fn directory(dir: &StateDir) -> Vec<Finding> {
    const CHECK: &str = "state directory";
    let path = dir.path().display();
    let Ok(facts) = fs::metadata(dir.path()) else {
        return vec![Finding::wrong(CHECK, format!("there is no {path}"), "`chela init` or `chela serve` makes it")];
    };
    if !facts.is_dir() {
        return vec![Finding::wrong(CHECK, format!("{path} is not a directory"), "choose another --state-dir")];
    }
    let writable = rustix::fs::access(dir.path(), rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    if writable.is_err() {
        return vec![Finding::wrong(CHECK, format!("{path} cannot be written"), "give it to the user who serves it")];
    }
    let mode = facts.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let remedy = format!("run `chmod 700 {path}` unless others are meant to look in");
        return vec![Finding::warning(CHECK, format!("others can enter {path} (mode {mode:o})"), remedy)];
    }
    vec![Finding::good(CHECK, path.to_string())]
}

fn space(dir: &StateDir) -> Finding {
    const CHECK: &str = "disk space";
    let there = dir.path().ancestors().find(|path| path.exists()).unwrap_or(dir.path());
    let Ok(facts) = rustix::fs::statvfs(there) else {
        return Finding::warning(CHECK, "unknown", "check the file system of the state directory");
    };
    let free = facts.f_bavail.saturating_mul(facts.f_frsize);
    let detail = format!("{} MB free", free >> 20);
    match free {
        ..SPACE_GONE => Finding::wrong(CHECK, detail, "make room: a full disk refuses new work"),
        SPACE_GONE..SPACE_LOW => Finding::warning(CHECK, detail, "make room soon"),
        SPACE_LOW.. => Finding::good(CHECK, detail),
    }
}

fn old_system(dir: &StateDir) -> Finding {
    let detail = format!("{} is of the old system, and there is no chela.json", dir.old_config().display());
    Finding::warning(
        "configuration",
        detail,
        "stop the old gateway, then `chela serve --adopt` takes the directory over",
    )
}

/// Whether somebody asks people, and somebody hears of questions that nobody answers.
fn questions(settings: &Settings) -> Finding {
    const CHECK: &str = "questions to people";
    let config = &settings.config;
    let orchestrators = config.agents.list.iter().filter(|agent| agent.role == AgentRole::Orchestrator).count();
    let lost = config
        .agents
        .list
        .iter()
        .find(|agent| agent.role == AgentRole::Worker && config.orchestrator_of(agent).is_none());
    if let Some(worker) = lost {
        let detail = format!("the worker {} has no orchestrator", worker.id);
        return Finding::warning(CHECK, detail, "give one agent the role `orchestrator`, or name it in `orchestrator`");
    }
    if orchestrators == 0 && !config.agents.list.is_empty() {
        let remedy = "give one agent the role `orchestrator` if agents are to ask people";
        return Finding::warning(CHECK, "no agent asks people: none has the role `orchestrator`", remedy);
    }
    match config.human.deadline_minutes {
        0 => Finding::good(CHECK, format!("{orchestrators} orchestrators, no deadline")),
        minutes => Finding::good(CHECK, format!("{orchestrators} orchestrators, {minutes} minutes to answer")),
    }
}

fn configuration(settings: &Result<Settings, settings::Error>) -> Vec<Finding> {
    const CHECK: &str = "configuration";
    match settings {
        Ok(settings) => {
            let agents = settings.config.agents.list.len();
            vec![Finding::good(CHECK, format!("valid, {agents} agents"))]
        }
        Err(error @ settings::Error::Invalid { path, .. }) => {
            let remedy = format!("edit {}", path.display());
            error.problems().iter().map(|problem| Finding::wrong(CHECK, problem.to_string(), &*remedy)).collect()
        }
        Err(error @ settings::Error::SecretsElsewhere { .. }) => {
            let said = error.problems().first().map(ToString::to_string).unwrap_or_default();
            vec![Finding::warning(CHECK, said, "good if the gateway has what this command has not")]
        }
        Err(settings::Error::Missing { .. }) => {
            vec![Finding::wrong(CHECK, "there is no chela.json", "`chela init` or `chela serve` writes one")]
        }
        Err(error) => {
            let remedy = "put it right, then `chela config check`";
            vec![Finding::wrong(CHECK, error.to_string(), remedy)]
        }
    }
}

fn gateway(found: &anyhow::Result<Found>) -> Finding {
    const CHECK: &str = "gateway";
    match found {
        Ok(Found::None) => Finding::good(CHECK, "not serving"),
        Ok(Found::Dead(run)) => Finding::warning(
            CHECK,
            format!("the last one (pid {}) ended without a word", run.pid),
            "`chela serve` takes over, with no further step",
        ),
        Ok(Found::Serving(status)) => {
            let version = status["runtimeVersion"].as_str().unwrap_or_default();
            let detail = format!("serving, pid {}, version {version}", status["pid"]);
            if version == env!("CARGO_PKG_VERSION") {
                Finding::good(CHECK, detail)
            } else {
                Finding::warning(CHECK, detail, "this command is of another version; restart the gateway")
            }
        }
        Err(error) => Finding::wrong(CHECK, format!("{error:#}"), "see the gateway's log"),
    }
}

fn ports(settings: &Settings) -> Vec<Finding> {
    let look = |(port, listen): (Port, &Listen)| {
        let check = match port {
            Port::Gateway => "gateway port",
            Port::Monitor => "monitor port",
            Port::Hub => "hub port",
        };
        match listen {
            Listen::Off => Finding::good(check, "off"),
            Listen::At(address) => match TcpListener::bind(address) {
                Ok(_) => Finding::good(check, format!("{address} is free")),
                Err(error) => {
                    Finding::wrong(check, format!("{address}: {error}"), format!("change `{}.listen`", port.as_str()))
                }
            },
        }
    };
    settings.config.listen().iter().map(look).collect()
}

/// Every connection needs a descriptor; `serve` raises the soft limit to the hard one.
fn open_files(settings: &Settings) -> Finding {
    const CHECK: &str = "open files";
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let (wanted, share) = (settings.config.limits.connections, edge::connections_share(hard, Port::ALL.len()));
    let detail = format!("room for {} of {wanted} connections on each listener", share.min(wanted));
    if share < wanted {
        return Finding::warning(CHECK, detail, "raise LimitNOFILE= or `ulimit -Hn`, or lower `limits.connections`");
    }
    Finding::good(CHECK, detail)
}

fn event_log(dir: &StateDir) -> Finding {
    const CHECK: &str = "event log";
    let path = dir.event_log();
    let Ok(mut file) = fs::File::open(&path) else {
        return if path.exists() {
            Finding::wrong(CHECK, format!("{} cannot be read", path.display()), "check its owner and rights")
        } else {
            Finding::good(CHECK, "none yet")
        };
    };
    let size = file.metadata().map(|facts| facts.len()).unwrap_or_default();
    let mut last = [b'\n'];
    if size > 0 && file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).is_err() {
        return Finding::wrong(CHECK, format!("{} cannot be read", path.display()), "check the disk");
    }
    if last == [b'\n'] {
        Finding::good(CHECK, format!("{} kB", size >> 10))
    } else {
        Finding::warning(CHECK, "the last line is torn", "the next `chela serve` sets it aside by itself")
    }
}

fn components() -> Finding {
    const CHECK: &str = "components";
    let started = Instant::now();
    match plugins::prove() {
        Ok((name, version)) => {
            let took = started.elapsed().as_millis();
            Finding::good(CHECK, format!("{name} {version} compiled and answered in {took} ms"))
        }
        Err(error) => Finding::wrong(
            CHECK,
            format!("{:#}", anyhow::Error::from(error)),
            "this machine must allow executable memory (see SELinux or MemoryDenyWriteExecute=)",
        ),
    }
}

fn few(mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", names.join("; "))
}

fn text(findings: &[Finding], healthy: bool) -> String {
    let row = |finding: &Finding| {
        let mark = match finding.state {
            State::Good => "ok",
            State::Warning => "warning",
            State::Wrong => "WRONG",
        };
        let remedy = if finding.remedy.is_empty() { String::new() } else { format!("; {}", finding.remedy) };
        vec![mark.to_owned(), finding.check.to_owned(), format!("{}{remedy}", finding.detail)]
    };
    let rows: Vec<Vec<String>> = findings.iter().map(row).collect();
    let end = if healthy { "nothing is wrong" } else { "mend what is WRONG, then run `chela doctor` again" };
    format!("{}\n{end}", table(&rows))
}
