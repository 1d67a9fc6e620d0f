//! `/ws`: the event log as it grows. Each follower keeps its own place; one that reads too slowly is told so and let go, and nobody waits for it.

use std::time::Duration;

use axum::extract::{RawQuery, Request as HttpRequest, State};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::guard::token_lost;
use super::params::bad;
use super::{Context, Phase, Refusal, upgrade};
use crate::clock::Timestamp;
use crate::monitor::{Followed, Told, seq_of_cursor};
use crate::settings::Principal;

/// Events that are sent before the follower must have shown that it reads.
const WINDOW: usize = 1_024;
/// Events after which a follower is asked whether it reads: with every round it would be woken twice as often as it is told something.
const ASK_EVERY: u64 = 256;
/// Events of one round.
const ROUND: usize = 256;
/// How long a follower may take to show that it reads.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the reason why it was let go waits for a follower to read it.
const LINGER: Duration = Duration::from_secs(30);
/// A sign of life when nothing happens.
const QUIET: Duration = Duration::from_secs(30);
/// Followers only listen: nothing long comes from them.
const INBOUND_BYTES_MAX: usize = 16 * 1024;

type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Turns a request into a follower of the log.
pub(super) async fn follow(
    State(context): State<Context>,
    RawQuery(query): RawQuery,
    mut request: HttpRequest,
) -> Result<Response, Refusal> {
    let since = since(query.as_deref())?;
    let accepted = upgrade::accept(&request)?;
    upgrade::within_limit(&context)?;
    let upgraded = hyper::upgrade::on(&mut request);
    let followed = context.monitor.follow(since);
    let holder = request.extensions().get::<Principal>().map(|principal| principal.name.clone());
    let settings = context.settings.current();
    let sockets = context.sockets.clone();
    sockets.spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let limits = WebSocketConfig::default()
            .max_message_size(Some(INBOUND_BYTES_MAX))
            .max_frame_size(Some(INBOUND_BYTES_MAX));
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, Some(limits)).await;
        let lost = token_lost(&context, &settings, holder.as_deref());
        Follower { socket, followed, sent: 0, asked: 0, acknowledged: 0 }.run(&context, lost).await;
    });
    Ok(accepted)
}

/// `since=SEQ` or a cursor; nothing else is taken.
pub(super) fn since(query: Option<&str>) -> Result<Option<i64>, Refusal> {
    let mut since = None;
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if name != "since" {
            return Err(bad(&name.chars().take(64).collect::<String>(), "this path takes `since` alone".into()));
        }
        let seq = value.parse().ok().or_else(|| seq_of_cursor(&value)).filter(|seq: &i64| *seq >= 0);
        since = Some(seq.ok_or_else(|| bad("since", "must be the `seq` of an event".into()))?);
    }
    Ok(since)
}

struct Follower {
    socket: Socket,
    followed: Followed,
    /// Events that were sent, of those how many it was asked about, and how many are known to be read.
    sent: u64,
    asked: u64,
    acknowledged: u64,
}

/// Why a follower is let go.
enum End {
    Gone,
    Slow,
    Stopping,
    TokenLost,
    Failed(String),
}

impl Follower {
    /// Tells until there is a reason to end, such as that its token is `lost`.
    async fn run(mut self, context: &Context, lost: impl Future<Output = ()>) {
        let end = tokio::select! {
            end = self.tell(context) => end,
            () = lost => End::TokenLost,
        };
        let (code, reason) = match &end {
            End::Gone => return,
            End::Slow => {
                context.metrics.refused("slow_follower");
                let seq = self.followed.seq();
                (
                    CloseCode::Again,
                    format!("too slow: {} events behind; reconnect with since={seq}", self.followed.behind()),
                )
            }
            End::TokenLost => (CloseCode::Policy, "the token of this follower is another one now; connect anew".into()),
            End::Stopping => (CloseCode::Restart, "the gateway stops; reconnect".into()),
            End::Failed(said) => (CloseCode::Error, said.chars().take(100).collect()),
        };
        let close = CloseFrame { code, reason: Utf8Bytes::from(reason) };
        let patience = if matches!(end, End::Slow) { LINGER } else { Duration::from_secs(1) };
        let goodbye = async {
            // Whoever reads the reason answers it; whoever does not is cut off in the end.
            if self.socket.close(Some(close)).await.is_ok() {
                while let Some(Ok(_)) = self.socket.next().await {}
            }
        };
        let mut phase = context.phase.clone();
        tokio::select! {
            _ = tokio::time::timeout(patience, goodbye) => {}
            () = stopping(&mut phase), if matches!(end, End::Slow) => {}
        }
    }

    async fn tell(&mut self, context: &Context) -> End {
        let mut phase = context.phase.clone();
        loop {
            tokio::select! {
                () = stopping(&mut phase) => return End::Stopping,
                heard = self.socket.next() => if let Some(end) = self.hear(heard) { return end },
                told = self.followed.next(ROUND) => {
                    let told = match told {
                        Ok(Some(told)) => told,
                        Ok(None) => return End::Stopping,
                        Err(error) => return End::Failed(error.to_string()),
                    };
                    if let Err(end) = self.send(&told).await {
                        return end;
                    }
                }
                () = tokio::time::sleep(QUIET) => {
                    if let Err(end) = self.ping().await {
                        return end;
                    }
                }
            }
        }
    }

    /// Sends a round and asks now and then whether it was read; waits for those before when too many are under way.
    async fn send(&mut self, told: &[std::sync::Arc<Told>]) -> Result<(), End> {
        for event in told {
            for frame in event.frames(frames) {
                // Made of JSON, so it is text.
                let Ok(text) = Utf8Bytes::try_from(frame.clone()) else { continue };
                timely(self.socket.feed(Message::Text(text))).await?;
            }
        }
        self.sent += told.len() as u64;
        match self.sent - self.asked >= ASK_EVERY {
            true => self.ping().await?,
            false => timely(self.socket.flush()).await?,
        }
        let until = tokio::time::Instant::now() + PATIENCE;
        while self.sent - self.acknowledged > WINDOW as u64 {
            match tokio::time::timeout_at(until, self.socket.next()).await {
                Err(_) => return Err(End::Slow),
                Ok(heard) => self.hear(heard).map_or(Ok(()), Err)?,
            }
        }
        Ok(())
    }

    async fn ping(&mut self) -> Result<(), End> {
        self.asked = self.sent;
        timely(self.socket.send(Message::Ping(self.sent.to_be_bytes().to_vec().into()))).await
    }

    fn hear(&mut self, heard: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>) -> Option<End> {
        match heard {
            None | Some(Err(_) | Ok(Message::Close(_))) => Some(End::Gone),
            Some(Ok(Message::Pong(bytes))) => {
                let count = <[u8; 8]>::try_from(&bytes[..]).map(u64::from_be_bytes).unwrap_or(0);
                self.acknowledged = self.acknowledged.max(count.min(self.sent));
                None
            }
            // Followers have nothing to say; what they say all the same is not our business.
            Some(Ok(_)) => None,
        }
    }
}

/// Completes when connections are to end.
pub(super) async fn stopping(phase: &mut watch::Receiver<Phase>) {
    // A sender that is gone has stopped.
    let _ = phase.wait_for(|phase| *phase == Phase::Stopping).await.is_ok();
}

async fn timely<E>(sending: impl Future<Output = Result<(), E>>) -> Result<(), End> {
    match tokio::time::timeout(PATIENCE, sending).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => Err(End::Gone),
        Err(_) => Err(End::Slow),
    }
}

fn frames(told: &Told) -> Vec<Bytes> {
    envelopes(told).iter().map(|envelope| envelope.to_string().into()).collect()
}

/// What a follower is told of an event: the event itself, and what it means to those who show tasks, continuations, jobs or questions.
fn envelopes(told: &Told) -> Vec<Value> {
    let event = &told.event;
    let time = Timestamp(event["ts"].as_u64().unwrap_or_default()).to_string();
    let envelope = |name: &str, data: Value| {
        let mut envelope = json!({ "type": name, "timestamp": time, "seq": told.seq, "data": data });
        for (field, value) in [("agentId", &event["agentId"]), ("taskId", &event["data"]["taskId"])] {
            if value.is_string() {
                envelope[field] = value.clone();
            }
        }
        envelope
    };
    let meant = meanings(event).into_iter().map(|(name, word)| {
        let mut data = event["data"].clone();
        data["event"] = json!(word);
        envelope(name, data)
    });
    std::iter::once(envelope("event", event.clone())).chain(meant).collect()
}

/// The envelopes beside the event itself, each with the word for what happened.
fn meanings(event: &Value) -> Vec<(&'static str, &str)> {
    let kind = event["type"].as_str().unwrap_or_default();
    let (group, rest) = kind.split_once('.').unwrap_or((kind, kind));
    match (group, rest) {
        ("task", "updated") => {
            let step = event["data"]["action"].as_str().and_then(step_word);
            std::iter::once(("task_update", rest)).chain(step.map(|word| ("task_step_update", word))).collect()
        }
        ("task", _) => vec![("task_update", rest)],
        ("continuation", "self_driving") => vec![("continuation_event", "self_driving_triggered")],
        ("continuation", _) => vec![("continuation_event", rest)],
        ("job", _) => vec![("job_update", rest)],
        ("human_query", _) => vec![("human_query", rest)],
        _ => Vec::new(),
    }
}

/// What an action on steps has done.
fn step_word(action: &str) -> Option<&'static str> {
    match action {
        "set_steps" => Some("steps_set"),
        "add_step" => Some("step_added"),
        "start_step" => Some("step_started"),
        "complete_step" => Some("step_completed"),
        "skip_step" => Some("step_skipped"),
        "reorder_steps" => Some("steps_reordered"),
        _ => None,
    }
}
