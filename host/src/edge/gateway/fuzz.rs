//! What holds for any frame: it is a request that says the same again, or is refused in bounded words; nobody comes in without a token, and
//! no secret is repeated.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use fastrand::Rng;
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::super::frame::{ErrorCode, ErrorShape, Request, Response};
use super::super::table::Methods;
use super::super::{api, methods};
use super::BEFORE_CONNECT_BYTES_MAX;
use super::connection::{REASON_BYTES_MAX, first_of};
use super::handshake::{Facts, decide};
use crate::clock::Timestamp;
use crate::config::Auth;
use crate::fuzz::Area;
use crate::layout::StateDir;
use crate::scope::Scope;
use crate::settings::Tokens;

const TOKEN: &str = "0123456789abcdef";
/// What a client has sent by mistake and must not see again.
const SECRET: &str = "s3cret-of-another";
/// The longest refusal, its details included.
const REFUSAL_BYTES_MAX: usize = 16 * 1024;
const DEPTHS: [usize; 6] = [1, 2, 60, 127, 129, 5_000];

static METHODS: LazyLock<Methods> = LazyLock::new(methods);

#[test]
fn no_frame_breaks_a_promise() {
    let auth: Auth = serde_json::from_value(json!({
        "token": TOKEN, "tokens": { "eye": { "token": "fedcba9876543210", "scope": "operator.read" } },
    }))
    .expect("good");
    let tokens = Tokens::of(&auth, &StateDir::new("nowhere")).expect("good tokens");
    let holds = |_: u64, case: &[u8]| holds(case, &tokens);
    Area { name: "frames", make: &|_, random| make(random), holds: &holds }.run();
}

/// A frame as a client may send it: mostly a good one with something wrong in it.
fn make(random: &mut Rng) -> Vec<u8> {
    let mut frame = good(random);
    for _ in 0..random.usize(0..4) {
        spoil(&mut frame, random);
    }
    let mut bytes = frame.to_string().into_bytes();
    match random.u32(0..12) {
        0 => nest(&mut bytes, random),
        1..4 => splice(&mut bytes, random),
        4 => bytes.truncate(random.usize(0..=bytes.len())),
        _ => {}
    }
    bytes
}

fn good(random: &mut Rng) -> Value {
    let token = *random.choice(&[TOKEN, TOKEN, "fedcba9876543210", SECRET, ""]).expect("some");
    let (method, params) = match random.u32(0..4) {
        0 => {
            let id = *random.choice(&["cli", "webchat-ui", "openclaw-probe", "test"]).expect("some");
            let mode = *random.choice(&["cli", "probe", "node", "ui"]).expect("some");
            let device = json!({
                "id": "d", "publicKey": "AAAA", "signature": SECRET, "signedAt": random.u64(..), "nonce": "n",
            });
            let mut params = json!({
                "minProtocol": random.u32(0..6), "maxProtocol": random.u32(0..6), "auth": { "token": token },
                "client": { "id": id, "version": "1", "platform": "linux", "mode": mode },
                "scopes": ["operator.read", "operator.admin"], "role": "operator", "caps": ["tool-events"],
            });
            if random.u32(0..4) == 0 {
                params["device"] = device;
            }
            ("connect", params)
        }
        1 => ("chat.send", json!({ "sessionKey": "agent:eden:main", "message": "hi", "idempotencyKey": "k" })),
        2 => ("tools.invoke", json!({ "name": "task_list", "args": {}, "idempotencyKey": "k" })),
        _ => {
            let names: Vec<&str> = METHODS.list().map(|(name, _)| name).collect();
            (*random.choice(&names).expect("some"), json!({}))
        }
    };
    json!({ "type": "req", "id": random.u32(0..100).to_string(), "method": method, "params": params })
}

/// Something that does not belong where it is put.
fn odd(random: &mut Rng) -> Value {
    match random.u32(0..14) {
        0 => Value::Null,
        1 => json!(random.bool()),
        2 => json!(random.i64(..)),
        3 => json!(random.u64(..)),
        4 => json!(random.f64() * 1e300),
        5 => json!(""),
        6 => json!("x".repeat(*random.choice(&[127_usize, 128, 129, 256, 257, 5_000, 70_000]).expect("some"))),
        7 => json!((0..random.usize(0..40)).map(|_| random.char(..)).collect::<String>()),
        8 => json!([]),
        9 => json!(vec![json!({}); random.usize(0..100)]),
        10 => json!({}),
        11 => json!("\u{0}\u{202e}\u{feff}"),
        12 => {
            let depth = *random.choice(&DEPTHS[..4]).expect("some");
            (0..depth).fold(json!(1), |below, _| json!([below]))
        }
        _ => json!(*random.choice(&["req", "res", "event", "connect", "operator", "agent:eden:main"]).expect("some")),
    }
}

/// Changes one place of a value: takes something out, puts something in, or makes something of it.
fn spoil(value: &mut Value, random: &mut Rng) {
    if let Value::Object(fields) = value
        && !fields.is_empty()
        && random.u32(0..5) > 0
    {
        return spoil_field(fields, random);
    }
    *value = odd(random);
}

fn spoil_field(fields: &mut Map<String, Value>, random: &mut Rng) {
    let names: Vec<String> = fields.keys().cloned().collect();
    let name = random.choice(&names).cloned().unwrap_or_default();
    match random.u32(0..8) {
        0 => drop(fields.remove(&name)),
        1 => {
            let new: String = (0..random.usize(0..200)).map(|_| random.char(..)).collect();
            fields.insert(new, odd(random));
        }
        2 => drop(fields.insert(name, odd(random))),
        _ => fields.get_mut(&name).into_iter().for_each(|below| spoil(below, random)),
    }
}

fn nest(bytes: &mut Vec<u8>, random: &mut Rng) {
    let depth = *random.choice(&DEPTHS).expect("some");
    let (open, close) =
        *random.choice(&[("[", "]"), ("{\"a\":", "}"), ("[", ""), ("{\"params\":", "}")]).expect("some");
    *bytes = [open.repeat(depth).as_bytes(), bytes, close.repeat(depth).as_bytes()].concat();
}

fn splice(bytes: &mut Vec<u8>, random: &mut Rng) {
    const PIECES: [&[u8]; 18] = [
        b"\xff",
        b"\xc3\x28",
        b"\0",
        b"\"",
        b"\\",
        b"\\ud800",
        b"\\u0000",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"1e999",
        b"-0",
        b"\"id\":\"2\",",
        b"\"type\":\"req\",",
        b"//",
        b"\xef\xbb\xbf",
    ];
    for _ in 0..random.usize(1..4) {
        let at = random.usize(0..=bytes.len());
        let to = (at + random.usize(0..6)).min(bytes.len());
        let piece = *random.choice(&PIECES).expect("some");
        drop(bytes.splice(at..to, piece.iter().copied()));
    }
}

macro_rules! ensure {
    ($holds:expr, $($said:tt)+) => {
        if !$holds {
            return Err(format!($($said)+));
        }
    };
}

fn holds(bytes: &[u8], tokens: &Tokens) -> Result<(), String> {
    if let Some(read) = Request::read(bytes) {
        let decided =
            api::decode_by_schema(bytes).map_err(|(_, error)| format!("read, and refused: {}", error.message))?;
        ensure!(read == decided, "{read:?} is {decided:?} by the schema");
    }
    match api::decode(bytes) {
        Ok(request) => requested(&request)?,
        Err((id, error)) => {
            ensure!(error.message.starts_with("invalid request frame: "), "refused with {:?}", error.message);
            ensure!(
                id.as_ref().is_none_or(|id| id.len() <= 256),
                "an id of {} bytes is repeated",
                id.map_or(0, |id| id.len())
            );
            refused(&error)?;
            let answer = serde_json::to_string(&Response::new(id, Err(*error))).map_err(|error| error.to_string())?;
            serde_json::from_str::<Response>(&answer).map_err(|error| format!("{answer} is no answer: {error}"))?;
        }
    }
    match first_of(bytes) {
        Ok(request) => came(request, bytes, tokens),
        Err((code, reason)) => {
            let known = [CloseCode::Normal, CloseCode::Policy, CloseCode::Size];
            ensure!(known.contains(&code) && reason.len() <= REASON_BYTES_MAX, "closed with {code} {reason}");
            let is_long = bytes.len() > BEFORE_CONNECT_BYTES_MAX;
            ensure!(is_long == (code == CloseCode::Size), "{} bytes are closed with {code}", bytes.len());
            Ok(())
        }
    }
}

/// A request is within its bounds, says the same when it is written again, and is made or refused by name.
fn requested(request: &Request) -> Result<(), String> {
    ensure!((1..=128).contains(&request.method.chars().count()), "a method of {} letters", request.method.len());
    ensure!(request.id.as_ref().is_none_or(|id| (1..=256).contains(&id.chars().count())), "the id {:?}", request.id);
    let text = serde_json::to_string(request).map_err(|error| error.to_string())?;
    let again = api::decode(text.as_bytes()).map_err(|(_, error)| format!("{text}: {}", error.message))?;
    let is_exact = !request.params.as_ref().is_some_and(has_fraction);
    ensure!(!is_exact || again == *request, "{text} is another request when it is read again");
    let params = request.params.clone().filter(|params| !params.is_null()).unwrap_or_else(|| json!({}));
    let known: BTreeSet<&str> = METHODS.list().map(|(name, _)| name).collect();
    match METHODS.check(Some(Scope::Admin), &request.method, &params) {
        Ok(()) => ensure!(known.contains(request.method.as_str()), "{} is no method", request.method),
        Err(error) => {
            ensure!(error.code == ErrorCode::InvalidRequest, "refused with {:?}", error.code);
            refused(&error)?;
        }
    }
    let narrow = METHODS.check(None, &request.method, &params);
    ensure!(narrow.is_err(), "{} is made for somebody without a scope", request.method);
    Ok(())
}

/// Fractions are read as the nearest that there is, and that may be another the second time.
fn has_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_fraction),
        Value::Object(fields) => fields.values().any(has_fraction),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// The first request brings nobody in who has no token, and never wider than it.
fn came(request: Request, bytes: &[u8], tokens: &Tokens) -> Result<(), String> {
    let presented = request.params.as_ref().map(|params| params["auth"].clone()).unwrap_or_default();
    let shown: Vec<&str> =
        ["token", "password", "deviceToken"].into_iter().filter_map(|name| presented[name].as_str()).collect();
    let facts = Facts { tokens, nonce: "n", now: Timestamp(1), has_page: false, locked: None };
    match decide(request, &facts) {
        Ok(granted) => {
            let (owner, eye) = (shown.contains(&TOKEN), shown.contains(&"fedcba9876543210"));
            ensure!(owner || eye, "somebody came in with {shown:?}");
            ensure!(
                owner || granted.scope.is_none_or(|scope| scope == Scope::Read),
                "{:?} by a narrow token",
                granted.scope
            );
            Ok(())
        }
        Err(denied) => {
            ensure!([CloseCode::Policy, CloseCode::Protocol].contains(&denied.close), "closed with {}", denied.close);
            ensure!(!denied.wrong_secret || !shown.is_empty(), "a wrong secret in {} bytes without one", bytes.len());
            refused(&denied.error)
        }
    }
}

fn refused(error: &ErrorShape) -> Result<(), String> {
    let text = serde_json::to_string(error).map_err(|error| error.to_string())?;
    ensure!(
        !error.message.is_empty() && text.len() <= REFUSAL_BYTES_MAX,
        "refused in {} bytes: {:.300}",
        text.len(),
        text
    );
    ensure!(!text.contains(SECRET) && !text.contains(TOKEN), "a secret is repeated: {text}");
    Ok(())
}
