//! What an adapter is told and what it answers, between the component and the host.

use chela_channel as words;
use chela_channel::{Input, Output, State};

use super::super::bindings::adapter as wit;
use super::super::failure::Failure;
use super::super::instance::{Instance, Surroundings};
use super::super::worlds::context;

pub(super) fn handle(instance: &mut Instance, inputs: &[Input], around: &Surroundings) -> Result<Vec<Output>, Failure> {
    let lent: Vec<Lent<'_>> = inputs.iter().map(Lent::of).collect();
    let inputs: Vec<wit::Input<'_>> = lent.iter().map(Lent::input).collect();
    let answer = instance.call_adapter(around, |adapter, store, budget_ms| {
        let request = wit::Request { context: context(around, budget_ms), inputs: &inputs, attrs: &[] };
        adapter.call_handle(store, request)
    })?;
    let outputs = answer.outputs.into_iter().map(output).collect::<Result<_, _>>();
    outputs.map_err(|what: &str| Failure::Invalid { said: format!("`other` is no {what}") })
}

pub(super) fn snapshot(instance: &mut Instance, around: &Surroundings) -> Result<State, Failure> {
    let state = instance.call_adapter(around, |adapter, store, _| adapter.call_snapshot(store).map(Ok))?;
    Ok(State { schema: state.schema, bytes: state.bytes })
}

pub(super) fn restore(instance: &mut Instance, state: &State, around: &Surroundings) -> Result<(), Failure> {
    instance.call_adapter(around, |adapter, store, _| {
        adapter.call_restore(store, wit::StateParam { schema: &state.schema, bytes: &state.bytes })
    })
}

/// Lists that an input lends.
struct Lent<'a> {
    input: &'a Input,
    headers: Vec<(&'a str, &'a str)>,
    edits: Vec<&'a str>,
    choices: Vec<&'a str>,
}

impl<'a> Lent<'a> {
    fn of(input: &'a Input) -> Self {
        let headers: &[(String, String)] = match input {
            Input::Response(response) => &response.headers,
            Input::Webhook(request) => &request.headers,
            _ => &[],
        };
        let (edits, choices): (&[String], &[String]) = match input {
            Input::Deliver(outbound) => {
                (&outbound.edits, outbound.question.as_ref().map_or(&[], |question| &question.choices))
            }
            _ => (&[], &[]),
        };
        Self {
            input,
            headers: headers.iter().map(|(name, value)| (&**name, &**value)).collect(),
            edits: edits.iter().map(String::as_str).collect(),
            choices: choices.iter().map(String::as_str).collect(),
        }
    }

    fn input(&self) -> wit::Input<'_> {
        match self.input {
            Input::Started { restored } => wit::Input::Started(*restored),
            Input::Opened { connection } => wit::Input::SocketOpened(connection),
            Input::Text { connection, data } => wit::Input::SocketText(wit::SocketText { connection, data }),
            Input::Binary { connection, data } => wit::Input::SocketBinary(wit::SocketBinary { connection, data }),
            Input::Closed { connection, code, reason, refused } => {
                let (code, refused) = (*code, *refused);
                wit::Input::SocketClosed(wit::SocketClosed { connection, code, reason, refused })
            }
            Input::KeepaliveSent { connection } => wit::Input::KeepaliveSent(connection),
            Input::Timer { name } => wit::Input::Timer(name),
            Input::Response(response) => wit::Input::HttpResponse(wit::HttpResponse {
                id: &response.id,
                status: response.status,
                headers: &self.headers,
                body: &response.body,
                error: &response.error,
                refused: response.refused,
                sent: response.sent,
            }),
            Input::Deliver(outbound) => wit::Input::Deliver(wit::Outbound {
                id: &outbound.id,
                target: &outbound.target,
                text: &outbound.text,
                reply_to: &outbound.reply_to,
                edits: &self.edits,
                question: (outbound.question.as_ref())
                    .map(|question| wit::Question { id: &question.id, choices: &self.choices }),
            }),
            Input::Webhook(request) => wit::Input::Webhook(wit::WebhookRequest {
                id: &request.id,
                method: &request.method,
                path: &request.path,
                query: &request.query,
                headers: &self.headers,
                body: &request.body,
                verified: request.verified,
            }),
            Input::Presence(presence) => {
                wit::Input::Presence(wit::PresenceParam { target: &presence.target, typing: presence.typing })
            }
            Input::Stopping => wit::Input::Stopping,
        }
    }
}

fn output(output: wit::Output) -> Result<Output, &'static str> {
    Ok(match output {
        wit::Output::OpenSocket(open) => Output::Open(words::Open {
            connection: open.connection,
            url: text(open.url)?,
            headers: headers(open.headers)?,
            compression: match open.compression {
                wit::Compression::None => words::Compression::None,
                wit::Compression::ZlibStream => words::Compression::ZlibStream,
                wit::Compression::Other => return Err("compression"),
            },
        }),
        wit::Output::SendSocket(send) => Output::Send { connection: send.connection, data: text(send.data)? },
        wit::Output::CloseSocket(close) => Output::Close { connection: close.connection, code: close.code },
        wit::Output::Keepalive(keepalive) => Output::Keepalive(words::Keepalive {
            connection: keepalive.connection,
            first_ms: keepalive.first_ms,
            interval_ms: keepalive.interval_ms,
            frame: text(keepalive.frame)?,
        }),
        wit::Output::SetTimer(timer) => Output::SetTimer { name: timer.name, after_ms: timer.after_ms },
        wit::Output::CancelTimer(name) => Output::CancelTimer { name },
        wit::Output::HttpRequest(request) => Output::Request(words::Request {
            id: request.id,
            method: request.method,
            url: text(request.url)?,
            headers: headers(request.headers)?,
            body: text(request.body)?,
            timeout_ms: request.timeout_ms,
        }),
        wit::Output::Inbound(message) => Output::Inbound(inbound(message)?),
        wit::Output::Delivered(result) => Output::Delivered(words::Delivered {
            id: result.id,
            message_ids: result.message_ids,
            error: result.error,
            retry: result.retry,
            retry_ms: result.retry_ms,
        }),
        wit::Output::WebhookResponse(response) => Output::WebhookResponse(words::WebhookResponse {
            id: response.id,
            status: response.status,
            headers: headers(response.headers)?,
            body: text(response.body)?,
        }),
        wit::Output::Status(status) => {
            let health = match status.health {
                wit::Health::Connecting => words::Health::Connecting,
                wit::Health::Ready => words::Health::Ready,
                wit::Health::Degraded => words::Health::Degraded,
                wit::Health::NeedsAuth => words::Health::NeedsAuth,
                wit::Health::Failed => words::Health::Failed,
                wit::Health::Other => return Err("health"),
            };
            Output::Status { health, detail: status.detail }
        }
        wit::Output::Presence(presence) => {
            Output::Presence(words::Presence { target: presence.target, typing: presence.typing })
        }
        wit::Output::Checkpoint => Output::Checkpoint,
        wit::Output::Other(_) => return Err("output"),
    })
}

fn inbound(message: wit::Inbound) -> Result<words::Inbound, &'static str> {
    let wants = match message.kind {
        wit::Kind::Message => words::Wants::Message,
        wit::Kind::Answer(id) => words::Wants::Answer(id),
        wit::Kind::Command(command) => {
            words::Wants::Command(words::Command { name: command.name, arguments: command.arguments })
        }
        wit::Kind::Other(_) => return Err("kind of message"),
    };
    let direct = match message.place {
        wit::Place::Direct => true,
        wit::Place::Channel | wit::Place::Thread => false,
        wit::Place::Other => return Err("place"),
    };
    Ok(words::Inbound {
        id: message.id,
        wants,
        target: message.target,
        session: message.session,
        direct,
        space: message.space,
        sender_id: message.sender_id,
        sender_name: message.sender_name,
        sender_is_bot: message.sender_is_bot,
        addressed: message.addressed,
        agent: message.agent,
        text: message.text,
        reply_to: message.reply_to,
    })
}

fn headers(headers: Vec<wit::Header>) -> Result<Vec<words::Header>, &'static str> {
    headers.into_iter().map(|header| Ok(words::Header { name: header.name, value: text(header.value)? })).collect()
}

fn text(pieces: Vec<wit::Piece>) -> Result<words::Text, &'static str> {
    let piece = |piece| {
        Ok(match piece {
            wit::Piece::Literal(text) => words::Piece::Literal(text),
            wit::Piece::Secret(secret) => {
                words::Piece::Secret { encoding: encoding(secret.encoding)?, name: secret.name }
            }
            wit::Piece::Hmac(signature) => words::Piece::Hmac {
                key: signature.key,
                hex: signature.hex,
                over: signature.over.into_iter().map(signed).collect::<Result<_, _>>()?,
            },
            wit::Piece::Other(_) => return Err("piece"),
        })
    };
    pieces.into_iter().map(piece).collect()
}

fn signed(part: wit::Signed) -> Result<words::Signed, &'static str> {
    Ok(match part {
        wit::Signed::Literal(text) => words::Signed::Literal(text),
        wit::Signed::Secret(secret) => {
            words::Signed::Secret { encoding: encoding(secret.encoding)?, name: secret.name }
        }
        wit::Signed::Body => words::Signed::Body,
        wit::Signed::Other(_) => return Err("part of a signature"),
    })
}

fn encoding(encoding: wit::Encoding) -> Result<words::Encoding, &'static str> {
    Ok(match encoding {
        wit::Encoding::Raw => words::Encoding::Raw,
        wit::Encoding::Json => words::Encoding::Json,
        wit::Encoding::Url => words::Encoding::Url,
        wit::Encoding::Base64 => words::Encoding::Base64,
        wit::Encoding::Other => return Err("encoding"),
    })
}
