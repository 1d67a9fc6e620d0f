//! Asks models: over the network by the formats of `chela-model`, or a script that stands in for one.
//! Keeps true: an answer comes whole or not at all; what may pass is tried again, in bounded time. Never: puts a key into a log or an error.

mod http;
mod scripts;

use std::sync::Arc;
use std::time::Duration;

use chela_model::{Answer, Delta, Failure, FailureKind, Request, Wire};

use crate::clock::Clock;
use crate::config::{Agent, Config, Model, ModelRef, Provider, ProviderKind};
use crate::layout::StateDir;
use crate::settings;

pub use scripts::DEMO;

/// The longest wait before a try, whatever a provider asks for.
const WAIT_MAX: Duration = Duration::from_secs(60);
const FIRST_WAIT: Duration = Duration::from_millis(500);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("agent {agent} has no model; name one in `agents.model` or in its own `model`, as PROVIDER/MODEL")]
    NoModel { agent: String },
    #[error("no provider is called {name:?}; add it to `providers`, or name a model of one that is there")]
    NoProvider { name: String },
}

/// A model with its provider.
#[derive(Clone, Debug)]
pub struct Chosen {
    pub provider_name: String,
    pub provider: Provider,
    pub model: Model,
}

impl Chosen {
    /// Whether it is the same model of the same provider.
    pub fn is(&self, other: &Self) -> bool {
        self.model == other.model && self.provider_name == other.provider_name
    }
}

/// The models for an agent, the one to ask first and then those to fall back to. `wanted` stands over what is configured.
pub fn choose(config: &Config, agent: &Agent, wanted: Option<&ModelRef>) -> Result<Vec<Chosen>, Error> {
    let agents = &config.agents;
    let first = wanted.or(agent.model.as_ref()).or(agents.model.as_ref());
    let first = first.ok_or_else(|| Error::NoModel { agent: agent.id.to_string() })?;
    let fallbacks = if agent.fallbacks.is_empty() { &agents.fallbacks } else { &agent.fallbacks };
    std::iter::once(first).chain(fallbacks).map(|model| chosen(config, model)).collect()
}

fn chosen(config: &Config, named: &ModelRef) -> Result<Chosen, Error> {
    let (name, model) = named.split();
    let provider = config.providers.get(name).ok_or_else(|| Error::NoProvider { name: name.to_owned() })?;
    let described = provider.models.iter().find(|known| known.id == model).cloned();
    let model = described.unwrap_or_else(|| Model::undescribed(model));
    Ok(Chosen { provider_name: name.to_owned(), provider: provider.clone(), model })
}

/// Who asks a model.
#[derive(Clone, Copy)]
pub struct Asker<'a> {
    pub agent: &'a str,
    /// Names the question: asked again after a crash, it has the same.
    pub key: &'a str,
}

/// What is heard while a model answers.
pub enum Heard {
    Delta(Delta),
    /// What was said so far does not count: the question was asked again.
    Again,
}

/// The way to the models; cheap to clone.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    dir: StateDir,
    clock: Clock,
    http: http::Http,
    scripts: scripts::Scripts,
}

impl Handle {
    pub fn new(dir: StateDir, clock: Clock) -> Self {
        Self(Arc::new(Shared { dir, clock, http: http::Http::default(), scripts: scripts::Scripts::default() }))
    }

    /// Asks one model, again after failures that may pass. Dropped, it asks no more.
    pub async fn ask(
        &self,
        chosen: &Chosen,
        asker: Asker<'_>,
        request: &Request,
        hear: &mut (dyn FnMut(Heard) + Send),
    ) -> Result<Answer, Failure> {
        let mut failures = 0;
        loop {
            let mut began = false;
            let mut heard = |delta| {
                began = true;
                hear(Heard::Delta(delta));
            };
            let failure = match self.once(chosen, asker, request, failures, &mut heard).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            if began {
                hear(Heard::Again);
            }
            if !failure.is_worth_retrying() || failures >= chosen.provider.retries {
                return Err(failure);
            }
            let wait = failure.retry_after.unwrap_or_else(|| FIRST_WAIT * 2u32.saturating_pow(failures)).min(WAIT_MAX);
            tracing::info!(provider = chosen.provider_name, %failure, wait_ms = wait.as_millis(), "a model is asked again");
            failures += 1;
            self.0.clock.sleep(wait).await;
        }
    }

    async fn once(
        &self,
        chosen: &Chosen,
        asker: Asker<'_>,
        request: &Request,
        failures: u32,
        hear: &mut (dyn FnMut(Delta) + Send),
    ) -> Result<Answer, Failure> {
        let shared = &self.0;
        let wire = match chosen.provider.kind {
            ProviderKind::Anthropic => Wire::Anthropic,
            ProviderKind::Openai => Wire::OpenAi,
            ProviderKind::Scripted => {
                let path = chosen.provider.script.as_ref().map(|path| shared.dir.path().join(path));
                let script =
                    shared.scripts.get(path.as_deref()).map_err(|said| Failure::new(FailureKind::Invalid, said))?;
                let scripted = script.answer_after(asker.agent, request, failures);
                if scripted.delay_ms > 0 {
                    shared.clock.sleep(Duration::from_millis(scripted.delay_ms)).await;
                }
                scripted.pieces.into_iter().for_each(|piece| hear(Delta::Text(piece)));
                return scripted.failure.map_or(Ok(scripted.answer), Err);
            }
        };
        let key = match &chosen.provider.key {
            Some(secret) => settings::secret_text(secret, &shared.dir).map_err(|said| {
                Failure::new(FailureKind::Auth, format!("providers.{}.key: {said}", chosen.provider_name))
            })?,
            None => String::new(),
        };
        let asked = shared.http.ask(&shared.clock, &chosen.provider, wire, (&key, asker.key), request, hear).await;
        asked.map_err(|mut failure| {
            // Providers repeat what they were sent, and not every key looks like one.
            if !key.is_empty() {
                failure.message = failure.message.replace(&key, "[redacted]");
            }
            failure
        })
    }
}
