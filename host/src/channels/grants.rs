//! What one adapter may reach and use, as the configuration says it when the adapter starts.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chela_channel::Rates;
use ring::hmac;

use super::secrets::Secrets;
use super::{Error, Shared};
use crate::config::{ChannelRates, Grants, ReachableHost, SignatureCoding};
use crate::egress::{Caller, Hosts, Limits};
use crate::settings::secret_text;

/// Where a list of hosts stands, for whoever is to add to it.
const PLACE: &str = "channels.*.grants.hosts";

/// Grants with their secrets found.
pub(super) struct Granted {
    pub(super) hosts: Arc<Hosts>,
    pub(super) secrets: Arc<Secrets>,
    pub(super) caller: Option<Caller>,
    rates: ChannelRates,
}

impl Granted {
    pub(super) fn of(shared: &Shared, channel: &str) -> Self {
        let settings = shared.options.settings.current();
        let grants = settings.config.channels.get(channel).map(|channel| channel.grants.clone()).unwrap_or_default();
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

/// Whether a webhook is granted at a path, and whether this call carries the network's signature.
pub(super) fn verify(
    shared: &Shared,
    channel: &str,
    path: &str,
    header: impl Fn(&str) -> Option<String>,
    body: &[u8],
) -> Result<bool, Error> {
    let unknown = || Error::NoWebhook(channel.chars().take(80).collect());
    let settings = shared.options.settings.current();
    let grants = &settings.config.channels.get(channel).ok_or_else(unknown)?.grants;
    let webhook = grants.webhooks.get(path).ok_or_else(unknown)?;
    let Some(rule) = &webhook.verify else { return Ok(false) };
    let given = header(&rule.header);
    let given = given.as_deref().and_then(|given| given.strip_prefix(rule.prefix.as_str()));
    let signature = given.and_then(|given| match rule.coding {
        SignatureCoding::Hex => from_hex(given),
        SignatureCoding::Base64 => STANDARD.decode(given).ok(),
    });
    let secrets = secrets_of(shared, grants);
    let (Some(signature), Some(key)) = (signature, secrets.plain(&rule.secret)) else { return Ok(false) };
    let mut signed = Vec::with_capacity(body.len() + 64);
    for part in &rule.over {
        match (part.as_str(), part.strip_prefix("header:")) {
            ("body", _) => signed.extend_from_slice(body),
            (_, Some(name)) => match header(name) {
                Some(value) => signed.extend_from_slice(value.as_bytes()),
                None => return Ok(false),
            },
            (literal, None) => signed.extend_from_slice(literal.as_bytes()),
        }
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    Ok(hmac::verify(&key, &signed, &signature).is_ok())
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| text.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let even = text.len().is_multiple_of(2) && text.is_ascii();
    even.then(|| (0..text.len()).step_by(2).map(digit).collect()).flatten()
}
