//! What an adapter's answer may be: counts, sizes, names. An answer out of bounds is no answer at all.

use crate::words::{Header, Inbound, Output, Piece, Signed, Text, is_target};

/// What one adapter may hold and answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub connections: usize,
    pub timers: usize,
    pub requests: usize,
    pub frame_bytes: usize,
    pub body_bytes: usize,
    pub inbound_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connections: 8,
            timers: 256,
            requests: 64,
            frame_bytes: 1 << 20,
            body_bytes: 4 << 20,
            inbound_bytes: 1 << 20,
        }
    }
}

const OUTPUTS_MIN: usize = 64;
const OUTPUTS_PER_INPUT: usize = 16;
const NAME_BYTES_MAX: usize = 128;
const URL_BYTES_MAX: usize = 8 * 1024;
const PIECES_MAX: usize = 256;
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 16 * 1024;
const MESSAGE_IDS_MAX: usize = 256;
const KEEPALIVE_MS_MIN: u64 = 1_000;
/// Headers that the host writes itself.
const OWN_HEADERS: [&str; 6] = ["connection", "content-length", "host", "te", "transfer-encoding", "upgrade"];

/// Why an answer to `inputs` inputs cannot be taken.
pub fn check(outputs: &[Output], inputs: usize, bounds: &Bounds) -> Result<(), String> {
    let most = OUTPUTS_MIN + OUTPUTS_PER_INPUT * inputs;
    if outputs.len() > most {
        return Err(format!("{} outputs for {inputs} inputs, and {most} are allowed", outputs.len()));
    }
    outputs.iter().try_for_each(|output| check_one(output, bounds))
}

fn check_one(output: &Output, bounds: &Bounds) -> Result<(), String> {
    match output {
        Output::Open(open) => {
            name("connection", &open.connection)?;
            url(&open.url)?;
            headers(&open.headers)
        }
        Output::Send { connection, data } => {
            name("connection", connection)?;
            text("frame", data, bounds.frame_bytes)
        }
        Output::Close { connection, code } => {
            name("connection", connection)?;
            match code {
                1000 | 1001 | 3000..=4999 => Ok(()),
                code => {
                    Err(format!("{code} is no close code that an adapter may send; 1000, 1001 and 3000 to 4999 are"))
                }
            }
        }
        Output::Keepalive(keepalive) => {
            name("connection", &keepalive.connection)?;
            if keepalive.interval_ms < KEEPALIVE_MS_MIN {
                return Err(format!(
                    "a keepalive every {} ms; at least a second lies between two",
                    keepalive.interval_ms
                ));
            }
            text("keepalive", &keepalive.frame, bounds.frame_bytes)
        }
        Output::SetTimer { name: timer, .. } | Output::CancelTimer { name: timer } => name("timer", timer),
        Output::Request(request) => {
            name("request", &request.id)?;
            let is_word = |byte: u8| byte.is_ascii_uppercase();
            if request.method.is_empty() || request.method.len() > 16 || !request.method.bytes().all(is_word) {
                return Err("a method is a word in capitals, such as `POST`".into());
            }
            url(&request.url)?;
            headers(&request.headers)?;
            text("body", &request.body, bounds.body_bytes)
        }
        Output::Inbound(inbound) => check_inbound(inbound, bounds),
        Output::Delivered(delivered) => {
            name("delivery", &delivered.id)?;
            if delivered.message_ids.len() > MESSAGE_IDS_MAX {
                return Err(format!("a delivery of {} messages", delivered.message_ids.len()));
            }
            delivered.message_ids.iter().try_for_each(|id| name("message", id))
        }
        Output::WebhookResponse(response) => {
            name("webhook", &response.id)?;
            if !(200..=599).contains(&response.status) {
                return Err(format!("{} is no status of an answer", response.status));
            }
            headers(&response.headers)?;
            text("body", &response.body, bounds.body_bytes)
        }
        Output::Presence(presence) => target(&presence.target),
        Output::Status { .. } | Output::Checkpoint => Ok(()),
    }
}

fn check_inbound(inbound: &Inbound, bounds: &Bounds) -> Result<(), String> {
    name("message", &inbound.id)?;
    target(&inbound.target)?;
    name("sender", &inbound.sender_id)?;
    let bytes = inbound.text.len() + inbound.sender_name.len() + inbound.space.len() + inbound.agent.len();
    match bytes <= bounds.inbound_bytes {
        true => Ok(()),
        false => Err(format!("a message of {bytes} bytes, and {} are allowed", bounds.inbound_bytes)),
    }
}

fn name(what: &str, text: &str) -> Result<(), String> {
    let good = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    if good {
        Ok(())
    } else {
        Err(format!("the name of a {what} has 1 to {NAME_BYTES_MAX} bytes and no control characters"))
    }
}

fn target(text: &str) -> Result<(), String> {
    match is_target(text) {
        true => Ok(()),
        false => {
            let shown: String = text.chars().take(80).filter(|c| !c.is_control()).collect();
            Err(format!("{shown:?} is no target; it is `channel:ID`, `channel:ID:thread:ID` or `direct:ID`"))
        }
    }
}

fn url(text_of: &Text) -> Result<(), String> {
    text("url", text_of, URL_BYTES_MAX)?;
    let mut before = String::new();
    let mut filled = false;
    for piece in text_of {
        match piece {
            Piece::Literal(text) => before.push_str(text),
            Piece::Secret { .. } => filled = true,
            Piece::Hmac { .. } => return Err("a signature stands in a header, not in a url".into()),
        }
        if filled {
            break;
        }
    }
    let host_ends = before.split_once("://").is_some_and(|(_, rest)| rest.contains(['/', '?']));
    // A secret as a part of the host's name would be told to whoever answers for names.
    if filled && !host_ends { Err("a secret stands before the end of the host in a url".into()) } else { Ok(()) }
}

fn headers(headers: &[Header]) -> Result<(), String> {
    if headers.len() > HEADERS_MAX {
        return Err(format!("{} headers, and {HEADERS_MAX} are allowed", headers.len()));
    }
    for header in headers {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        if header.name.is_empty() || header.name.len() > NAME_BYTES_MAX || !header.name.bytes().all(letter) {
            return Err("the name of a header is in lower case letters, digits, `-` and `_`".into());
        }
        if OWN_HEADERS.contains(&header.name.as_str()) || header.name.starts_with("sec-websocket-") {
            return Err(format!("the header `{}` is the host's own", header.name));
        }
        text("header", &header.value, HEADER_BYTES_MAX)?;
        let breaks = |piece: &Piece| matches!(piece, Piece::Literal(text) if text.contains(['\r', '\n', '\0']));
        if header.value.iter().any(breaks) {
            return Err(format!("the header `{}` has a line break", header.name));
        }
    }
    Ok(())
}

fn text(what: &str, text: &Text, bytes_max: usize) -> Result<(), String> {
    if text.len() > PIECES_MAX {
        return Err(format!("a {what} of {} pieces, and {PIECES_MAX} are allowed", text.len()));
    }
    let mut bytes = 0_usize;
    for piece in text {
        match piece {
            Piece::Literal(text) => bytes += text.len(),
            Piece::Secret { name: secret, .. } => name("secret", secret)?,
            Piece::Hmac { key, over, .. } => {
                name("secret", key)?;
                if over.len() > PIECES_MAX {
                    return Err(format!("a signature over {} parts, and {PIECES_MAX} are allowed", over.len()));
                }
                for part in over {
                    match part {
                        Signed::Literal(text) => bytes += text.len(),
                        Signed::Secret { name: secret, .. } => name("secret", secret)?,
                        Signed::Body => {}
                    }
                }
            }
        }
    }
    match bytes <= bytes_max {
        true => Ok(()),
        false => Err(format!("a {what} of {bytes} bytes, and {bytes_max} are allowed")),
    }
}
