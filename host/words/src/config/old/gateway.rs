//! The part `gateway` of the old configuration: where it listens, and what opens it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use serde_json::Value;

use super::super::{Config, Listen, Secret};
use super::PORT;
use super::notes::{Notes, below, kind, object};
use super::secret::Sources;

pub(super) struct Gateway {
    pub(super) token: Option<Secret>,
    pub(super) port: u16,
    pub(super) listen: Listen,
    /// Its port is the one that our monitor or hub would have.
    pub(super) monitor_off: bool,
    pub(super) hub_off: bool,
}

const NEW_TOKEN: &str = "a new token was made, which `chela token` prints";

pub(super) fn read(notes: &mut Notes, secrets: &Sources<'_>, value: &Value) -> Gateway {
    let (mut port, mut bind, mut custom, mut auth) = (PORT, &Value::Null, &Value::Null, &Value::Null);
    for (key, value) in object(notes, value, "gateway").into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        match key.as_str() {
            "port" => match value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0) {
                Some(given) => port = given,
                None => notes.wrong("gateway.port", "must be a number from 1 to 65535"),
            },
            "bind" => bind = value,
            "customBindHost" => custom = value,
            "auth" => auth = value,
            "mode" if value == "local" => {}
            "mode" => notes.ignore("gateway.mode", "a gateway here serves its own directory, and no other"),
            "remote" => notes.ignore("gateway.remote", "a gateway here serves its own directory, and no other"),
            "tls" => notes.ignore("gateway.tls", "put a TLS proxy in front"),
            "controlUi" => notes.ignore("gateway.controlUi", "its origins go to `gateway.allowedOrigins`"),
            _ => notes.ignore(below("gateway", key), "has no counterpart here"),
        }
    }
    let listen = SocketAddr::new(address(notes, bind, custom), port);
    let ours = Config::default().listen();
    let taken = |other: Listen| matches!(other, Listen::At(other) if other.port() == port);
    let gateway = Gateway {
        token: token(notes, secrets, auth),
        port,
        listen: Listen::At(listen),
        monitor_off: taken(ours.monitor),
        hub_off: taken(ours.hub),
    };
    for (name, off) in [("monitor", gateway.monitor_off), ("hub", gateway.hub_off)] {
        if off {
            notes.ignore(
                "gateway.port",
                format!("taken, and `{name}.listen` is off: this is the port that it would have"),
            );
        }
    }
    gateway
}

fn address(notes: &mut Notes, bind: &Value, custom: &Value) -> IpAddr {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let bind = match bind {
        Value::Null => return loopback,
        Value::String(bind) => bind.trim(),
        other => {
            notes.wrong("gateway.bind", format!("must be a text, not {}", kind(other)));
            return loopback;
        }
    };
    let custom = custom.as_str().and_then(|host| host.trim().parse().ok());
    match (bind, custom, bind.parse()) {
        ("loopback" | "auto" | "localhost", ..) => loopback,
        ("lan", ..) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ("custom", Some(address), _) | (_, _, Ok(address)) => address,
        ("custom", None, _) => {
            notes.wrong("gateway.customBindHost", "must be an address such as 192.0.2.1 beside `bind: \"custom\"`");
            loopback
        }
        _ => {
            notes.ignore(
                "gateway.bind",
                "not known here; the gateway listens on 127.0.0.1 until `gateway.listen` says otherwise",
            );
            loopback
        }
    }
}

/// What clients of the old gateway show: its token, or its password, which they may show in the same place.
fn token(notes: &mut Notes, secrets: &Sources<'_>, auth: &Value) -> Option<Secret> {
    let (mut mode, mut token, mut password) = ("", &Value::Null, &Value::Null);
    for (key, value) in object(notes, auth, "gateway.auth").into_iter().flatten().filter(|(_, value)| !value.is_null())
    {
        match key.as_str() {
            "mode" => mode = value.as_str().unwrap_or_default(),
            "token" => token = value,
            "password" => password = value,
            _ => notes.ignore(below("gateway.auth", key), "has no counterpart here"),
        }
    }
    let by_password = mode == "password" || (mode.is_empty() && token.is_null() && !password.is_null());
    let (name, value, other, other_value) = match by_password {
        true => ("password", password, "token", token),
        false => ("token", token, "password", password),
    };
    let path = format!("gateway.auth.{name}");
    if !other_value.is_null() {
        notes.ignore(format!("gateway.auth.{other}"), format!("one secret opens the gateway here: `{path}`"));
    }
    if matches!(mode, "none" | "trusted-proxy") {
        notes.ignore("gateway.auth.mode", format!("every client shows a token here; {NEW_TOKEN}"));
        return None;
    }
    match secrets.find(value) {
        Ok(Some(secret)) => Some(secret),
        Ok(None) => {
            notes.ignore(path, format!("is not there; {NEW_TOKEN}"));
            None
        }
        Err(reason) => {
            notes.ignore(path, format!("{reason}; {NEW_TOKEN}"));
            None
        }
    }
}
