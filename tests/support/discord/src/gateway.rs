//! One connection of the gateway: hello, heartbeats, identify or resume, then events. What Discord closes for is closed for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::packing::Packing;
use super::world::{self, MESSAGE_CONTENT};
use super::{Shared, TOKEN};

/// Frames that may wait for a client that does not read.
const PUSHES_MAX: usize = 20_000;
/// A frame of a client, in bytes.
const FRAME_MAX: usize = 4_096;
/// Frames of a client in a minute.
const FRAMES_A_MINUTE: usize = 120;
/// Bits that are intents of version 10.
const INTENTS: u64 = ((1 << 17) - 1) | (1 << 20) | (1 << 21) | (1 << 24) | (1 << 25);
/// Those that the application must be given: members, presences, and the words of messages.
const PRIVILEGED: u64 = 1 << 1 | 1 << 8;

/// What a connection is told by the rest of the server.
pub(super) enum Push {
    Frame(Value),
    /// Breaks off within the frame.
    Half(Value),
    Close(u16, &'static str),
    /// Ends without a word.
    Cut,
}

type Socket = WebSocketStream<TcpStream>;
/// Why a connection is closed by Discord.
type Closing = (u16, &'static str);

pub(super) async fn connection(stream: TcpStream, path: &str, shared: Arc<Shared>) {
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
    let (sender, receiver) = mpsc::channel(PUSHES_MAX);
    let link = {
        let mut state = shared.state();
        state.last_link += 1;
        state.counts.connections += 1;
        let link = state.last_link;
        state.links.insert(link, sender);
        link
    };
    let ended = match complaint_of_path(path) {
        Some(closing) => End::Closed(closing),
        None => talk(&mut socket, receiver, link, Packing::of(path), &shared).await,
    };
    left(&shared, link, &ended);
    if let End::Closed((code, reason)) = ended {
        let _ = socket.close(Some(CloseFrame { code: code.into(), reason: reason.into() })).await;
        // The other side's close frame, so that it reads ours before the socket is gone.
        let rest = async { while let Some(Ok(_)) = socket.next().await {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), rest).await;
    }
}

/// What is left of a connection that has ended: its session, if that can be resumed.
fn left(shared: &Shared, link: u64, ended: &End) {
    let mut state = shared.state();
    state.links.remove(&link);
    match ended {
        End::Closed((code, _)) => state.counts.closed.push(*code),
        // A client that closes with one of these ends its session as well.
        End::Left(Some(1_000 | 1_001)) => state.sessions.retain(|session| session.link != Some(link)),
        End::Left(_) | End::Cut => {}
    }
    if let Some(session) = state.session(link) {
        session.link = None;
    }
}

enum End {
    /// By Discord.
    Closed(Closing),
    /// By the client, with its code.
    Left(Option<u16>),
    Cut,
}

fn complaint_of_path(path: &str) -> Option<Closing> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let has = |wanted: &str| query.split('&').any(|pair| pair == wanted);
    if !has("v=10") {
        return Some((4_012, "Invalid API version"));
    }
    let packed = query.split('&').find_map(|pair| pair.strip_prefix("compress="));
    let known = packed.is_none_or(|way| way == "zlib-stream");
    (!has("encoding=json") || !known).then_some((4_002, "Decode error"))
}

/// What is known of the client.
struct Talk<'a> {
    shared: &'a Shared,
    link: u64,
    authenticated: bool,
    frames: Vec<Instant>,
}

/// Sends a frame in the way that the client asked for.
async fn give(socket: &mut Socket, packing: &mut Packing, frame: &Value, shared: &Shared) -> Result<(), End> {
    let splits = shared.state().faults.splitting;
    for message in packing.messages(&frame.to_string(), splits) {
        socket.send(message).await.map_err(|_| End::Cut)?;
    }
    Ok(())
}

async fn talk(
    socket: &mut Socket,
    mut pushes: mpsc::Receiver<Push>,
    link: u64,
    mut packing: Packing,
    shared: &Shared,
) -> End {
    let interval = shared.setup.heartbeat;
    let hello = json!({ "op": 10, "d": { "heartbeat_interval": interval.as_millis() as u64 }, "s": null, "t": null });
    if let Err(end) = give(socket, &mut packing, &hello, shared).await {
        return end;
    }
    let mut talk = Talk { shared, link, authenticated: false, frames: Vec::new() };
    // There is tolerance in the interval, and not much.
    let patience = interval + interval / 4 + Duration::from_millis(250);
    let mut deadline = tokio::time::Instant::now() + patience;
    loop {
        tokio::select! {
            biased;
            push = pushes.recv() => match push {
                Some(Push::Frame(frame)) => {
                    if let Err(end) = give(socket, &mut packing, &frame, shared).await {
                        return end;
                    }
                }
                Some(Push::Half(frame)) => {
                    // Who has half of a frame has nothing of it.
                    let _ = socket.get_mut().write_all(&half_frame(&frame.to_string())).await;
                    return End::Cut;
                }
                Some(Push::Close(code, reason)) => return End::Closed((code, reason)),
                Some(Push::Cut) | None => return End::Cut,
            },
            frame = socket.next() => match frame {
                Some(Ok(Message::Text(text))) => match talk.take(text.as_str()) {
                    Ok(Took::Heartbeat(answer)) => {
                        deadline = tokio::time::Instant::now() + patience;
                        if let Some(answer) = answer
                            && let Err(end) = give(socket, &mut packing, &answer, shared).await
                        {
                            return end;
                        }
                    }
                    Ok(Took::Other) => {}
                    Err(closing) => return End::Closed(closing),
                },
                Some(Ok(Message::Binary(_))) => return End::Closed((4_002, "Decode error")),
                Some(Ok(Message::Close(frame))) => return End::Left(frame.map(|frame| frame.code.into())),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return End::Left(None),
            },
            () = tokio::time::sleep_until(deadline) => return End::Closed((4_009, "Session timed out")),
        }
    }
}

/// The head of a text frame and the first half of what it promises.
fn half_frame(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let length = u64::try_from(bytes.len()).expect("a length").to_be_bytes();
    let mut half = vec![0x81, 127];
    half.extend(length);
    half.extend(&bytes[..bytes.len() / 2]);
    half
}

enum Took {
    /// With its acknowledgement.
    Heartbeat(Option<Value>),
    Other,
}

impl Talk<'_> {
    fn take(&mut self, text: &str) -> Result<Took, Closing> {
        let now = Instant::now();
        self.frames.retain(|at| now - *at < Duration::from_secs(60));
        self.frames.push(now);
        if self.frames.len() > FRAMES_A_MINUTE {
            return Err((4_008, "Rate limited"));
        }
        if text.len() > FRAME_MAX {
            return Err((4_002, "Decode error"));
        }
        let frame: Value = serde_json::from_str(text).map_err(|_| (4_002, "Decode error"))?;
        match frame["op"].as_u64() {
            Some(1) => self.heartbeat(&frame["d"]),
            Some(2) if self.authenticated => Err((4_005, "Already authenticated")),
            Some(2) => self.identify(&frame["d"]),
            Some(6) if self.authenticated => Err((4_005, "Already authenticated")),
            Some(6) => self.resume(&frame["d"]),
            Some(3 | 4 | 8 | 31) if self.authenticated => Ok(Took::Other),
            Some(3 | 4 | 8 | 31) => Err((4_003, "Not authenticated")),
            Some(_) => Err((4_001, "Unknown opcode")),
            None => Err((4_002, "Decode error")),
        }
    }

    fn heartbeat(&self, data: &Value) -> Result<Took, Closing> {
        if !data.is_null() && !data.is_u64() {
            return Err((4_002, "Decode error"));
        }
        let mut state = self.shared.state();
        state.counts.heartbeats += 1;
        let acknowledged = json!({ "op": 11, "d": null, "s": null, "t": null });
        Ok(Took::Heartbeat((!state.faults.silent).then_some(acknowledged)))
    }

    fn push(&self, frame: Value) {
        let state = self.shared.state();
        if let Some(link) = state.links.get(&self.link) {
            let _ = link.try_send(Push::Frame(frame));
        }
    }

    fn invalid_session(&self) -> Result<Took, Closing> {
        self.push(json!({ "op": 9, "d": false, "s": null, "t": null }));
        Ok(Took::Other)
    }

    fn identify(&mut self, data: &Value) -> Result<Took, Closing> {
        self.shared.state().counts.identifies += 1;
        if data["token"] != TOKEN {
            return Err((4_004, "Authentication failed"));
        }
        if !data["properties"].is_object() {
            return Err((4_002, "Decode error"));
        }
        let intents = data["intents"].as_u64().filter(|intents| intents & !INTENTS == 0);
        let intents = intents.ok_or((4_013, "Invalid intent(s)"))?;
        let allowed = if self.shared.setup.message_content { MESSAGE_CONTENT } else { 0 };
        if intents & (PRIVILEGED | MESSAGE_CONTENT) & !allowed != 0 {
            return Err((4_014, "Disallowed intent(s)"));
        }
        let mut state = self.shared.state();
        let now = Instant::now();
        if state.identified.is_some_and(|last| now - last < self.shared.setup.identify_every) {
            drop(state);
            return self.invalid_session();
        }
        state.identified = Some(now);
        self.authenticated = true;
        // A new session of the same bot ends the one that it had on this shard.
        state.sessions.clear();
        let at = state.open_session(intents, self.link);
        let ready = world::ready(&state.sessions[at].id, &format!("ws://{}", self.shared.address));
        state.give(at, "READY", ready);
        if intents & world::GUILDS != 0 {
            state.give(at, "GUILD_CREATE", world::guild(self.shared.setup.crowd));
        }
        Ok(Took::Other)
    }

    fn resume(&mut self, data: &Value) -> Result<Took, Closing> {
        let mut state = self.shared.state();
        state.counts.resumes += 1;
        if data["token"] != TOKEN {
            return Err((4_004, "Authentication failed"));
        }
        let Some(at) = state.sessions.iter().position(|session| data["session_id"] == session.id.as_str()) else {
            drop(state);
            return self.invalid_session();
        };
        let seq = data["seq"].as_u64().filter(|seq| *seq <= state.sessions[at].seq).ok_or((4_007, "Invalid seq"))?;
        state.counts.resumed += 1;
        self.authenticated = true;
        // One connection a session: the one of before is over.
        if let Some(before) = state.sessions[at].link.replace(self.link).filter(|before| *before != self.link)
            && let Some(before) = state.links.get(&before)
        {
            let _ = before.try_send(Push::Cut);
        }
        let missed: Vec<Value> = state.sessions[at].events.iter().skip(seq as usize).cloned().collect();
        if let Some(link) = state.links.get(&self.link) {
            missed.into_iter().for_each(|frame| drop(link.try_send(Push::Frame(frame))));
        }
        state.give(at, "RESUMED", json!({}));
        Ok(Took::Other)
    }
}
