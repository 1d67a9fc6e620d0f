//! `connect`: who may come in, with which scopes, or why not. Decides; sends nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::super::frame::{ErrorCode, ErrorShape, Request};
use super::device::{self, Device, DeviceToken};
use crate::clock::Timestamp;
use crate::schema::Schema;
use crate::scope::Scope;
use crate::settings::{Principal, Tokens};

pub(super) const PROTOCOL: u32 = 4;
/// Probes and nodes may be one version older.
const PROTOCOL_OF_PROBES: u32 = 3;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
pub(super) struct Connect {
    #[schemars(range(min = 1))]
    pub(super) min_protocol: u32,
    #[schemars(range(min = 1))]
    pub(super) max_protocol: u32,
    pub(super) client: ClientInfo,
    role: Option<String>,
    #[schemars(length(max = 64))]
    scopes: Option<Vec<String>>,
    #[schemars(length(max = 64))]
    #[serde(default)]
    pub(super) caps: Vec<String>,
    commands: Option<Vec<String>>,
    permissions: Option<BTreeMap<String, bool>>,
    path_env: Option<String>,
    pub(super) locale: Option<String>,
    user_agent: Option<String>,
    computer_use: Option<Value>,
    worker_runs: Option<Value>,
    #[serde(default)]
    pub(super) auth: Credentials,
    pub(super) device: Option<Device>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
pub(super) struct ClientInfo {
    pub(super) id: ClientId,
    #[schemars(length(min = 1, max = 128))]
    pub(super) version: String,
    #[schemars(length(min = 1, max = 128))]
    pub(super) platform: String,
    pub(super) mode: Mode,
    #[schemars(length(max = 128))]
    pub(super) display_name: Option<String>,
    #[schemars(length(max = 96))]
    build_id: Option<String>,
    #[schemars(length(max = 128))]
    pub(super) device_family: Option<String>,
    model_identifier: Option<String>,
    #[schemars(length(max = 64))]
    time_zone: Option<String>,
    #[schemars(length(max = 128))]
    pub(super) instance_id: Option<String>,
}

macro_rules! words {
    ($(#[$note:meta])* $name:ident { $($variant:ident $word:literal,)* }) => {
        $(#[$note])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
        pub(super) enum $name { $(#[serde(rename = $word)] $variant,)* }

        impl $name {
            pub(super) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// The programs that speak the protocol.
    ClientId {
        WebchatUi "webchat-ui", ControlUi "openclaw-control-ui", BrowserCopilot "openclaw-browser-copilot", Tui "openclaw-tui",
        Webchat "webchat", Cli "cli", GatewayClient "gateway-client", Macos "openclaw-macos", Linux "openclaw-linux",
        Ios "openclaw-ios", Watchos "openclaw-watchos", Android "openclaw-android", NodeHost "node-host",
        Worker "openclaw-worker", Test "test", Fingerprint "fingerprint", Probe "openclaw-probe", Chela "chela",
    }
}

words! {
    Mode {
        Webchat "webchat", Cli "cli", Ui "ui", Backend "backend", Node "node", Worker "worker", Probe "probe", Test "test",
    }
}

impl ClientId {
    /// Programs that live in a page, which a browser names by its origin.
    fn is_page(self) -> bool {
        matches!(self, Self::WebchatUi | Self::ControlUi | Self::Webchat)
    }
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "the protocol has fields that mean nothing here and must be taken all the same")]
pub(super) struct Credentials {
    pub(super) token: Option<String>,
    pub(super) password: Option<String>,
    pub(super) device_token: Option<String>,
    bootstrap_token: Option<String>,
    approval_runtime_token: Option<String>,
    agent_runtime_identity_token: Option<String>,
}

/// What is known when `connect` comes.
pub(super) struct Facts<'a> {
    pub(super) tokens: &'a Tokens,
    pub(super) nonce: &'a str,
    pub(super) now: Timestamp,
    /// The browser has named a page that may come in.
    pub(super) has_page: bool,
    /// How long this address must wait after too many wrong tokens.
    pub(super) locked: Option<Duration>,
}

/// Who has come in.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) principal: Principal,
    /// The name of the token behind it, by which it is here.
    pub(super) holder: String,
    /// The widest scope of those that were granted; none where none was asked for.
    pub(super) scope: Option<Scope>,
    pub(super) scopes: Vec<String>,
    pub(super) device_token: Option<String>,
    pub(super) connect: Connect,
}

/// Why somebody may not come in, and how the connection ends.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) error: Box<ErrorShape>,
    pub(super) close: CloseCode,
    pub(super) wrong_secret: bool,
}

impl Denied {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { error: Box::new(ErrorShape::new(code, message)), close: CloseCode::Policy, wrong_secret: false }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    fn details(mut self, details: Value) -> Self {
        self.error.details = Some(details);
        self
    }
}

/// Decides on the first request of a connection.
pub(super) fn decide(request: Request, facts: &Facts<'_>) -> Result<Granted, Denied> {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(Schema::of::<Connect>);
    if request.method != "connect" {
        return Err(Denied::invalid("invalid handshake: first request must be connect"));
    }
    let params = request.params.unwrap_or_else(|| json!({}));
    if let Some(problem) = SCHEMA.problems(&params).first() {
        return Err(Denied::invalid(format!("invalid connect params: {}", problem.at())));
    }
    let connect: Connect = serde_json::from_value(params)
        .map_err(|error| Denied::invalid(format!("invalid connect params: at root: {error}")))?;
    check_version(&connect)?;
    match connect.role.as_deref().unwrap_or("operator") {
        "operator" => {}
        "node" => return Err(Denied::invalid("invalid role: this gateway has no nodes; connect as `operator`")),
        _ => return Err(Denied::invalid("invalid role")),
    }
    if connect.client.id.is_page() && !facts.has_page {
        let said = "origin not allowed: list the page's origin in `gateway.allowedOrigins`";
        return Err(Denied::invalid(said).details(json!({ "code": "CONTROL_UI_ORIGIN_NOT_ALLOWED" })));
    }
    if let Some(wait) = facts.locked {
        let details = json!({
            "code": "AUTH_RATE_LIMITED", "authReason": "rate_limited", "recommendedNextStep": "wait_then_retry",
        });
        let mut denied = Denied::invalid("unauthorized: too many failed attempts; wait, then retry").details(details);
        denied.error.retryable = Some(true);
        denied.error.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        return Err(denied);
    }
    let (principal, holder) = authenticate(&connect, facts)?;
    let (scope, scopes) = grant(connect.scopes.as_deref(), principal.scope);
    let device_token = connect
        .device
        .as_ref()
        .and_then(|device| DeviceToken::of(facts.tokens, &device.id, ROLE, &holder))
        .map(|token| token.to_string());
    Ok(Granted { principal, holder, scope, scopes, device_token, connect })
}

fn check_version(connect: &Connect) -> Result<(), Denied> {
    let (min, max) = (connect.min_protocol, connect.max_protocol);
    let fits = (min..=max).contains(&PROTOCOL);
    let older = connect.client.mode == Mode::Probe && (min..=max).contains(&PROTOCOL_OF_PROBES);
    if fits || older {
        return Ok(());
    }
    let details = json!({
        "code": "PROTOCOL_MISMATCH", "clientMinProtocol": min, "clientMaxProtocol": max,
        "expectedProtocol": PROTOCOL, "minimumProbeProtocol": PROTOCOL_OF_PROBES,
    });
    let denied = Denied::invalid("protocol mismatch").details(details);
    Err(Denied { close: CloseCode::Protocol, ..denied })
}

const ROLE: &str = "operator";

/// Who it is, and the name of the token behind it.
fn authenticate(connect: &Connect, facts: &Facts<'_>) -> Result<(Principal, String), Denied> {
    if let Some(device) = &connect.device {
        let token = connect.auth.token.as_deref().or(connect.auth.device_token.as_deref()).unwrap_or_default();
        let signed = device::Signed {
            client_id: connect.client.id.as_str(),
            mode: connect.client.mode.as_str(),
            role: connect.role.as_deref().unwrap_or(ROLE),
            scopes: connect.scopes.as_deref().unwrap_or_default(),
            token,
            platform: &connect.client.platform,
            family: connect.client.device_family.as_deref().unwrap_or_default(),
        };
        device.verify(&signed, facts.nonce, facts.now).map_err(|wrong| {
            Denied::invalid(wrong.to_string()).details(json!({ "code": wrong.code(), "reason": wrong.reason() }))
        })?;
    }
    let auth = &connect.auth;
    let presented = [&auth.token, &auth.password, &auth.device_token];
    let mut presented = presented.into_iter().flatten().filter(|secret| !secret.is_empty()).peekable();
    if presented.peek().is_none() {
        return Err(match connect.device {
            None => Denied::new(ErrorCode::NotPaired, "device identity required")
                .details(json!({ "code": "DEVICE_IDENTITY_REQUIRED" })),
            Some(_) => Denied::new(ErrorCode::NotPaired, "pairing required: connect once with the gateway's token")
                .details(json!({
                    "code": "PAIRING_REQUIRED", "reason": "not-paired", "recommendedNextStep": "update_auth_credentials",
                })),
        });
    }
    let of_token = |secret: &str| {
        let principal = facts.tokens.find(secret.as_bytes())?;
        Some((principal.clone(), principal.name))
    };
    let of_device = |secret: &str| {
        let device = connect.device.as_ref()?;
        let holder = DeviceToken::holder_of(facts.tokens, &device.id, ROLE, secret)?;
        let name = format!("device {}", device.id.chars().take(12).collect::<String>());
        Some((Principal { name, scope: holder.scope }, holder.name))
    };
    presented.find_map(|secret| of_token(secret).or_else(|| of_device(secret))).ok_or_else(|| {
        let said = "unauthorized: gateway token mismatch (`chela token` prints the token of a state directory)";
        let details = json!({
            "code": "AUTH_TOKEN_MISMATCH", "authReason": "token_mismatch", "canRetryWithDeviceToken": false,
            "recommendedNextStep": "update_auth_credentials",
        });
        Denied { wrong_secret: true, ..Denied::invalid(said).details(details) }
    })
}

/// Scopes that clients of the old system ask for beside our three, each with what it takes here.
const FURTHER_SCOPES: [(&str, Scope); 3] =
    [("operator.approvals", Scope::Write), ("operator.questions", Scope::Write), ("operator.pairing", Scope::Admin)];

/// Of what was asked for, what the token holds; whoever does not say gets all of it. Unknown scopes are dropped.
fn grant(asked: Option<&[String]>, held: Scope) -> (Option<Scope>, Vec<String>) {
    let known = Scope::ALL.iter().map(|scope| (scope.as_str(), *scope)).chain(FURTHER_SCOPES);
    let held: Vec<(&str, Scope)> = known.filter(|(_, needed)| held.holds(*needed)).collect();
    let asked: Option<BTreeSet<&str>> = asked.map(|asked| asked.iter().map(String::as_str).collect());
    let granted: Vec<&str> = held
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| asked.as_ref().is_none_or(|asked| asked.contains(name)))
        .collect();
    let widest = Scope::ALL.into_iter().rev().find(|scope| granted.contains(&scope.as_str()));
    (widest, granted.into_iter().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests;
