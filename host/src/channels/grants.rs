//! What one adapter may reach and use, as the configuration says it when the adapter starts.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chela_channel::Rates;
use ring::hmac;

use super::secrets::Secrets;
use super::{Error, Shared};
use crate::config::{ChannelRates, Grants, ReachableHost, Secret, SignatureCoding, Webhook};
use crate::egress::{Caller, Hosts, Limits};
use crate::settings::secret_text;

/// Where a list of hosts stands, for whoever is to add to it.
const PLACE: &str = "channels.*.grants.hosts";
/// How long the key of a webhook is not read again.
const KEY_KEPT: Duration = Duration::from_secs(5);

/// Grants with their secrets found.
pub(super) struct Granted {
    pub(super) hosts: Arc<Hosts>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) caller: Option<Caller>,
    rates: ChannelRates,
}

impl Granted {
    pub(super) fn of(shared: &Shared, channel: &str) -> Self {
        let grants = grants_of(shared, channel);
        let hosts = Arc::new(hosts_of(&grants.hosts));
        let caller = Caller::new(shared.options.clock.clone(), hosts.clone());
        if let Err(error) = &caller {
            tracing::error!(channel, error = error as &dyn std::error::Error, "no requests can be made");
        }
        Self { hosts, secrets: Arc::new(secrets_of(shared, &grants)), caller: caller.ok(), rates: grants.rates }
    }

    /// The largest message that a socket takes.
    pub(super) fn frame_bytes(&self) -> usize {
        self.rates.frame_bytes
    }

    /// What one request may take; the adapter may ask for less time.
    pub(super) fn limits(&self, timeout_ms: u32) -> Limits {
        let most = self.rates.request_ms;
        let time = if timeout_ms == 0 { most } else { u64::from(timeout_ms).min(most) };
        Limits { time: Duration::from_millis(time), bytes: self.rates.response_bytes }
    }
}

pub(super) fn rates_of(shared: &Shared, channel: &str) -> Rates {
    let settings = shared.options.settings.current();
    let rates = settings.config.channels.get(channel).map(|channel| channel.grants.rates).unwrap_or_default();
    Rates { frames: rates.frames, requests: rates.requests, messages: rates.messages }
}

/// The secrets of a channel as they are found now.
pub(super) fn find_secrets(shared: &Shared, channel: &str) -> Secrets {
    secrets_of(shared, &grants_of(shared, channel))
}

fn grants_of(shared: &Shared, channel: &str) -> Grants {
    let settings = shared.options.settings.current();
    settings.config.channels.get(channel).map(|channel| channel.grants.clone()).unwrap_or_default()
}

fn hosts_of(hosts: &[ReachableHost]) -> Hosts {
    Hosts::by_tls(hosts.iter().map(|host| host.0.as_str()), PLACE)
}

fn secrets_of(shared: &Shared, grants: &Grants) -> Secrets {
    let mut secrets = Secrets::default();
    for (name, granted) in &grants.secrets {
        let value = secret_text(&granted.value, &shared.options.dir);
        secrets.add(name.clone(), value, hosts_of(&granted.hosts));
    }
    secrets
}

/// A secret that signatures are checked with, as it was read lately.
pub(super) struct HookKey {
    secret: Secret,
    value: Option<Arc<str>>,
    read_at: Duration,
}

/// The rule for calls of a path, where a webhook is granted there.
pub(super) fn webhook(shared: &Shared, channel: &str, path: &str) -> Result<Webhook, Error> {
    let unknown = || Error::NoWebhook(channel.chars().take(80).collect());
    let settings = shared.options.settings.current();
    let grants = &settings.config.channels.get(channel).ok_or_else(unknown)?.grants;
    grants.webhooks.get(path).cloned().ok_or_else(unknown)
}

/// The text of a granted secret. A file is read once in a while and not for every call: whoever calls may be anybody.
async fn hook_key(shared: &Shared, channel: &str, name: &str) -> Option<Arc<str>> {
    let settings = shared.options.settings.current();
    let secret = settings.config.channels.get(channel)?.grants.secrets.get(name)?.value.clone();
    let (id, now) = ((channel.to_owned(), name.to_owned()), shared.options.clock.elapsed());
    let is_young = |known: &&HookKey| known.secret == secret && now < known.read_at + KEY_KEPT;
    if let Some(known) = shared.state().hook_keys.get(&id).filter(is_young) {
        return known.value.clone();
    }
    let (dir, source) = (shared.options.dir.clone(), secret.clone());
    let read = tokio::task::spawn_blocking(move || secret_text(&source, &dir).ok()).await;
    let value: Option<Arc<str>> = read.ok().flatten().filter(|value| !value.is_empty()).map(Arc::from);
    let mut state = shared.state();
    state.hook_keys.retain(|_, known| now < known.read_at + KEY_KEPT);
    state.hook_keys.insert(id, HookKey { secret, value: value.clone(), read_at: now });
    value
}

/// Whether this call of a webhook carries the network's signature.
pub(super) async fn verify(
    shared: &Shared,
    channel: &str,
    webhook: &Webhook,
    header: impl Fn(&str) -> Option<String>,
    body: &[u8],
) -> bool {
    let Some(rule) = &webhook.verify else { return false };
    let given = header(&rule.header);
    let given = given.as_deref().and_then(|given| given.strip_prefix(rule.prefix.as_str()));
    let signature = given.and_then(|given| match rule.coding {
        SignatureCoding::Hex => from_hex(given),
        SignatureCoding::Base64 => STANDARD.decode(given).ok(),
    });
    let Some(signature) = signature else { return false };
    let Some(key) = hook_key(shared, channel, &rule.secret).await else { return false };
    let mut signed = Vec::with_capacity(body.len() + 64);
    for part in &rule.over {
        match (part.as_str(), part.strip_prefix("header:")) {
            ("body", _) => signed.extend_from_slice(body),
            (_, Some(name)) => match header(name) {
                Some(value) => signed.extend_from_slice(value.as_bytes()),
                None => return false,
            },
            (literal, None) => signed.extend_from_slice(literal.as_bytes()),
        }
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    hmac::verify(&key, &signed, &signature).is_ok()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let even = text.len().is_multiple_of(2) && text.is_ascii();
    even.then(|| (0..text.len()).step_by(2).map(digit).collect()).flatten()
}
