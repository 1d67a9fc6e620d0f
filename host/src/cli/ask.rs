//! Finds the gateway that serves a state directory, and asks it; waits while it is still reading its log.

use std::time::Duration;

use anyhow::Context as _;
use hyper::Method;
use serde_json::Value;

use super::exit::{ListenerOff, NoGateway, WrongArgument};
use super::{Output, block_on};
use crate::client::{self, Client};
use crate::layout::StateDir;
use crate::port::Port;
use crate::run::{Encryption, RunFile};
use crate::settings;

/// Between two questions to a gateway that is reading its log.
const ASK_EVERY: Duration = Duration::from_millis(300);
/// An index that grows no further for so long is not waited for.
const STANDSTILL: Duration = Duration::from_secs(120);

/// The gateway's own listener, for methods.
pub(super) fn gateway(dir: &StateDir) -> anyhow::Result<Client> {
    find(dir, &[Port::Gateway])
}

/// Whichever listener there is: the monitor's paths are on all of them.
pub(super) fn monitor(dir: &StateDir) -> anyhow::Result<Client> {
    find(dir, &Port::ALL)
}

/// Of these listeners, the first that is on.
fn find(dir: &StateDir, ports: &[Port]) -> anyhow::Result<Client> {
    let run = RunFile::read(dir).with_context(|| format!("cannot read {}", dir.run_file().display()))?;
    let Some(run) = run else { return Err(NoGateway { dir: dir.path().to_owned() }.into()) };
    if !lives(dir, &run)? {
        return Err(NoGateway { dir: dir.path().to_owned() }.into());
    }
    let on = ports.iter().find_map(|port| Some((*port, (*run.addresses.get(*port))?)));
    let Some((port, address)) = on else { return Err(ListenerOff { dir: dir.path().to_owned() }.into()) };
    let way = Encryption::way_to(dir, port).with_context(|| format!("cannot read {}", dir.run_tls().display()))?;
    Ok(Client::new(address, Some(settings::owner_token(dir)?)).over(way))
}

/// Whether the gateway of a run file is still there. The lock, not the address, tells: somebody else may listen there by now, and must not
/// get the token. Who holds the lock may be somebody else too, such as a backup after a kill.
pub(super) fn lives(dir: &StateDir, run: &RunFile) -> anyhow::Result<bool> {
    let path = dir.lock();
    let cannot = || format!("cannot look at {}", path.display());
    if !chela_storage::DirLock::is_held(&path).with_context(cannot)? {
        return Ok(false);
    }
    let holder = std::fs::read_to_string(&path).with_context(cannot)?;
    Ok(holder.trim().parse::<u32>().is_ok_and(|holder| holder == run.pid))
}

/// A path with parameters, each with the argument that it came by.
#[derive(Clone)]
pub(super) struct Query {
    path: String,
    given: Vec<(&'static str, &'static str, String)>,
}

impl Query {
    pub(super) fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), given: Vec::new() }
    }

    pub(super) fn with(mut self, name: &'static str, flag: &'static str, value: Option<impl ToString>) -> Self {
        if let Some(value) = value {
            self.given.push((name, flag, value.to_string()));
        }
        self
    }

    /// A list; none of it is no parameter.
    pub(super) fn list(self, name: &'static str, flag: &'static str, values: &[String]) -> Self {
        let joined = (!values.is_empty()).then(|| values.join(","));
        self.with(name, flag, joined)
    }

    fn url(&self) -> String {
        let parts: Vec<String> =
            self.given.iter().map(|(name, _, value)| format!("{name}={}", encoded(value))).collect();
        if parts.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, parts.join("&")) }
    }

    pub(super) async fn get(&self, client: &Client) -> anyhow::Result<Value> {
        let url = self.url();
        let answer = patiently(|| client.api(Method::GET, &url, None)).await;
        answer.map_err(|error| self.in_arguments(error))
    }

    pub(super) fn get_now(&self, dir: &StateDir) -> anyhow::Result<Value> {
        let client = monitor(dir)?;
        block_on(self.get(&client))?
    }

    /// What is wrong with a parameter is told of the argument.
    fn in_arguments(&self, error: client::Error) -> anyhow::Error {
        let client::Error::Declined { message, field: Some(field), .. } = &error else { return error.into() };
        let given = self.given.iter().find(|(name, _, _)| name == field);
        let Some((name, flag, _)) = given else { return error.into() };
        let said = message.strip_prefix(&format!("{name}: ")).unwrap_or(message).to_owned();
        WrongArgument { flag, said }.into()
    }
}

/// Asks again while the gateway reads its log, and says so.
pub(super) async fn patiently<F>(mut ask: impl FnMut() -> F) -> Result<Value, client::Error>
where
    F: Future<Output = Result<Value, client::Error>>,
{
    let mut told = String::new();
    let mut stood = Duration::ZERO;
    loop {
        let error = match ask().await {
            Err(error) if is_indexing(&error) && stood < STANDSTILL => error,
            answered => return answered,
        };
        let said = error.to_string();
        if said != told {
            let said = said.trim_end_matches("; ask again in a moment");
            Output::note(&format!("chela: {said}; waiting for it"));
            told = error.to_string();
            stood = Duration::ZERO;
        }
        tokio::time::sleep(ASK_EVERY).await;
        stood += ASK_EVERY;
    }
}

fn is_indexing(error: &client::Error) -> bool {
    match error {
        client::Error::Declined { code, .. } => code == "indexing",
        client::Error::Refused(shape) => shape.details.as_ref().is_some_and(|details| details["code"] == "indexing"),
        _ => false,
    }
}

/// A value as part of a path or a query.
pub(super) fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
