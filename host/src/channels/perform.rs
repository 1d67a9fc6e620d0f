//! What an adapter's machine wants done, done: calls, commits, sockets, requests, answers to webhooks.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use chela_channel::{
    Effect, Event, Header, Open, Request, Response, Standing, Status, Text, WebhookRequest, WebhookResponse,
};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::json;

use super::Hooked;
use super::actor::Actor;
use super::routing;
use super::secrets::{Filled, Unfilled};
use super::sockets::{Happened, Opening, Socket};
use crate::bus::data;
use crate::egress::Asked;
use crate::event::Kind;
use crate::plugins::Failure;
use crate::traces::{self, Begin};

/// The same refusal is told so often.
const TOLD_EVERY: Duration = Duration::from_secs(60);
const TOLD_MAX: usize = 256;

impl Actor {
    /// Does one thing; false when what comes after it in the same list must not be done.
    pub(super) async fn perform(&mut self, effect: Effect, events: &mut VecDeque<Event>) -> bool {
        match effect {
            Effect::Make => {
                self.shared.view(&self.name, |view| view.restarts += 1);
                self.make();
            }
            Effect::Call(inputs) => {
                let Some(mut adapter) = self.adapter.take() else {
                    events.push_back(Event::Failed { said: "its instance is gone".into(), again: false });
                    return false;
                };
                let seed = getrandom::u64().unwrap_or(0);
                let (name, clock, place) = (self.name.clone(), self.shared.options.clock.clone(), traces::planned());
                self.called_in = place;
                self.call = Some(Box::pin(async move {
                    let begin = || Begin::new(format!("channel {name}"), traces::Kind::Server).at(place);
                    let probation = adapter.is_on_probation();
                    let call = adapter.handle(inputs, seed, probation);
                    let outcome = traces::traced(&clock, begin, call, |outcome, _| match outcome {
                        Ok(_) => Ok(()),
                        Err(failure) => Err(failure.kind().to_owned()),
                    });
                    let outcome = outcome.await;
                    (adapter, outcome, probation)
                }));
            }
            Effect::Commit(commit) => {
                let (clock, place) = (self.shared.options.clock.clone(), self.called_in);
                let begin = || Begin::new("channel commit", traces::Kind::Internal).within(place);
                let came: Vec<String> = commit.inbound.iter().map(|inbound| inbound.id.clone()).collect();
                let committed = traces::traced(&clock, begin, self.commit(commit), |committed, _| {
                    committed.as_ref().map_or_else(|failure| Err(failure.kind().to_owned()), |()| Ok(()))
                });
                if let Err(failure) = committed.await {
                    self.machine.not_recorded(&came, failure.is_its_own());
                    self.failed(failure).await;
                    return false;
                }
            }
            Effect::Invalid { said } => {
                self.failed(Failure::Invalid { said }).await;
                return false;
            }
            Effect::Open { epoch, open } => self.open(epoch, open, events),
            Effect::Send { connection, epoch, data } => self.send(&connection, epoch, &data, events),
            Effect::Close { connection, epoch, code } => {
                let socket = self.sockets.get(&connection).filter(|socket| socket.epoch == epoch);
                if !socket.is_some_and(|socket| socket.close(code)) {
                    events.push_back(closed(connection, epoch, "it was not open", false));
                }
            }
            Effect::Drop { connection, epoch } => self.drop_socket(&connection, epoch),
            Effect::Request(request) => self.request(request, events),
            Effect::DropRequests => self.requests.abort_all(),
            Effect::Respond(response) => self.respond(response),
            Effect::Unanswered { webhook } => drop(self.webhooks.remove(&webhook)),
            Effect::Typed { target } => {
                let config = self.shared.options.settings.current();
                if let Some(agent) = routing::hearer(&config.config, &self.name, &target) {
                    self.shared.options.continuation.typed(&agent);
                }
            }
            Effect::Status(status) => self.show(status),
            Effect::Refused(refusal) => self.tell_refused(refusal.what, &refusal.said),
            Effect::End => {
                self.sockets.clear();
                self.requests.abort_all();
            }
        }
        true
    }

    fn open(&mut self, epoch: u64, open: Open, events: &mut VecDeque<Event>) {
        let refused = |said: &str| closed(open.connection.clone(), epoch, said, true);
        let filled = self.fill(&open.url, None).and_then(|url| {
            let (headers, used) = self.headers(&open.headers, "")?;
            self.granted.secrets.may_tell(&[url.used, used].concat(), &url.text)?;
            Ok((url.text, headers))
        });
        let (url, headers) = match filled {
            Ok(filled) => filled,
            Err(unfilled) => {
                let said = self.unfilled("socket", unfilled, events);
                events.push_back(refused(&said));
                return;
            }
        };
        if !self.granted.hosts.allows(&url) {
            let said = format!("a socket to {} is not granted", host_of(&url));
            self.denied("host", &said);
            events.push_back(refused(&said));
            return;
        }
        let opening = Opening {
            connection: open.connection.clone(),
            epoch,
            url,
            headers,
            compression: open.compression,
            bytes_max: self.granted.frame_bytes(),
            hosts: self.granted.hosts.clone(),
            secrets: self.granted.secrets.clone(),
            events: self.events.clone(),
            room: self.room.clone(),
        };
        self.sockets.insert(open.connection, Socket::open(opening));
    }

    fn send(&mut self, connection: &str, epoch: u64, data: &Text, events: &mut VecDeque<Event>) {
        let Some(socket) = self.sockets.get(connection).filter(|socket| socket.epoch == epoch) else { return };
        let filled = self.granted.secrets.fill(data, None);
        let filled = filled.and_then(|filled| {
            self.granted.secrets.may_tell(&filled.used, &socket.url)?;
            Ok(filled.text)
        });
        match filled {
            Ok(text) => {
                if !socket.send(text) {
                    self.sockets.remove(connection);
                    events.push_back(closed(connection.to_owned(), epoch, "the other side does not read", false));
                }
            }
            Err(unfilled) => {
                let said = self.unfilled("frame", unfilled, events);
                self.sockets.remove(connection);
                events.push_back(closed(connection.to_owned(), epoch, &said, true));
            }
        }
    }

    fn request(&mut self, request: Request, events: &mut VecDeque<Event>) {
        let Request { id, method, url, headers, body, timeout_ms } = request;
        let filled = self.fill(&url, None).and_then(|url| {
            let body = self.fill(&body, None)?;
            let (headers, of_headers) = self.headers(&headers, &body.text)?;
            let used = [url.used, body.used, of_headers].concat();
            self.granted.secrets.may_tell(&used, &url.text)?;
            Ok((url.text, headers, body.text, !used.is_empty()))
        });
        let (url, headers, body, bound) = match filled {
            Ok(filled) => filled,
            Err(unfilled) => {
                let said = self.unfilled("request", unfilled, events);
                events.push_back(Event::Response(Response::unsent(id, said, true)));
                return;
            }
        };
        let (Some(caller), Ok(method)) = (self.granted.caller.clone(), method.parse()) else {
            events.push_back(Event::Response(Response::unsent(id, "it cannot be made".into(), true)));
            return;
        };
        if !self.granted.hosts.allows(&url) {
            let said = format!("a request to {} is not granted", host_of(&url));
            self.denied("host", &said);
            events.push_back(Event::Response(Response::unsent(id, said, true)));
            return;
        }
        let (limits, secrets, told) =
            (self.granted.limits(timeout_ms), self.granted.secrets.clone(), self.events.clone());
        let asked = Asked { method, url, headers, body: Bytes::from(body) };
        self.requests.spawn(async move {
            let response = match caller.request(asked, limits, bound).await {
                Ok(answered) => Response {
                    id,
                    status: answered.status,
                    headers: answered
                        .headers
                        .into_iter()
                        .map(|(name, value)| (name, secrets.scrub_text(&value)))
                        .collect(),
                    body: secrets.scrub(answered.body.to_vec()),
                    error: String::new(),
                    refused: false,
                    sent: true,
                },
                Err(error) => {
                    let (said, sent) = (secrets.scrub_text(&error.to_string()), error.may_be_done());
                    Response { sent, ..Response::unsent(id, said, error.is_refusal()) }
                }
            };
            // The adapter may be gone; then nobody waits for it.
            let _ = told.send(Happened::light(Event::Response(response))).await;
        });
    }

    fn respond(&mut self, response: WebhookResponse) {
        let Some((answer, path)) = self.webhooks.remove(&response.id) else { return };
        if response.status >= 400 {
            self.refused_call(&path, &format!("the adapter answered {}", response.status));
        }
        // No secret may leave by this door: whoever calls may be anybody.
        let plain = |text: &Text| self.granted.secrets.fill(text, None).ok().filter(|filled| filled.used.is_empty());
        let headers =
            response.headers.iter().filter_map(|header| Some((header.name.clone(), plain(&header.value)?.text)));
        let headers = headers.collect();
        let hooked = match plain(&response.body) {
            Some(body) => Hooked { status: response.status, headers, body: body.text },
            None => Hooked { status: 500, headers: Vec::new(), body: String::new() },
        };
        // Whoever called may have gone.
        let _ = answer.send(hooked);
    }

    /// Whether a call should be signed and is not.
    pub(super) fn lacks_signature(&self, request: &WebhookRequest) -> bool {
        let settings = self.shared.options.settings.current();
        let webhooks = settings.config.channels.get(&self.name).map(|channel| &channel.grants.webhooks);
        let rule = webhooks.and_then(|webhooks| webhooks.get(&request.path)?.verify.as_ref());
        rule.is_some() && !request.verified
    }

    pub(super) fn refused_call(&mut self, path: &str, why: &str) {
        self.shared.count(&self.name, "calls-refused");
        self.tell_refused("webhook", &format!("a call of {path:?} was refused: {why}"));
    }

    fn show(&mut self, status: Status) {
        let Status { standing, detail } = status;
        let (now, shown) = (self.shared.now(), self.granted.secrets.scrub_text(&detail));
        let mut changed = false;
        self.shared.view(&self.name, |view| {
            changed = view.status != standing || view.detail != shown;
            if view.status != standing {
                view.since = now;
            }
            (view.status, view.detail) = (standing, shown.clone());
        });
        if changed || standing == Standing::Starting {
            tracing::info!(channel = self.name, status = standing.as_str(), detail = shown, "a channel");
            let facts = json!({ "channel": self.name, "status": standing, "detail": shown });
            self.shared.options.bus.tell(Kind::ChannelStatus, data(facts));
        }
    }

    fn fill(&self, text: &Text, body: Option<&str>) -> Result<Filled, Unfilled> {
        self.granted.secrets.fill(text, body)
    }

    fn headers(&self, headers: &[Header], body: &str) -> Result<(HeaderMap, Vec<String>), Unfilled> {
        let (mut map, mut used) = (HeaderMap::new(), Vec::new());
        for header in headers {
            let filled = self.fill(&header.value, Some(body))?;
            let bad = || Unfilled::Denied(format!("the header `{}` cannot be sent", header.name));
            let name: HeaderName = header.name.parse().map_err(|_| bad())?;
            let mut value = HeaderValue::from_str(&filled.text).map_err(|_| bad())?;
            value.set_sensitive(!filled.used.is_empty());
            map.append(name, value);
            used.extend(filled.used);
        }
        Ok((map, used))
    }

    /// What follows from a text that could not be filled in, and why.
    fn unfilled(&mut self, what: &'static str, unfilled: Unfilled, events: &mut VecDeque<Event>) -> String {
        match unfilled {
            Unfilled::Denied(said) => {
                self.denied(what, &said);
                said
            }
            // Trying again is of no use before an operator has put it there.
            Unfilled::Missing(said) => {
                events.push_back(Event::Hold { said: said.clone() });
                said
            }
        }
    }

    /// Something that is not granted was refused.
    pub(super) fn denied(&mut self, what: &'static str, said: &str) {
        if self.is_news(said) {
            self.shared.options.plugins.adapter_denied(&self.name, &self.version, what, said);
            self.shared.refuse(&self.name, what, said, json!({}));
        }
    }

    fn tell_refused(&mut self, what: &'static str, said: &str) {
        if self.is_news(said) {
            self.shared.refuse(&self.name, what, said, json!({}));
        }
    }

    /// Whether it was not told within the last minute.
    fn is_news(&mut self, said: &str) -> bool {
        let now = self.shared.options.clock.elapsed();
        if self.told.len() >= TOLD_MAX {
            self.told.retain(|_, at| now.saturating_sub(*at) < TOLD_EVERY);
        }
        let lately = self.told.get(said).is_some_and(|at| now.saturating_sub(*at) < TOLD_EVERY);
        if lately || self.told.len() >= TOLD_MAX {
            return false;
        }
        self.told.insert(said.to_owned(), now);
        true
    }
}

fn closed(connection: String, epoch: u64, said: &str, refused: bool) -> chela_channel::Event {
    Event::Closed { connection, epoch, code: 0, reason: said.to_owned(), refused }
}

/// The scheme and the host of an address, which is all of it that is told.
fn host_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    [scheme, "://", host].concat().trim_start_matches("://").chars().take(200).collect()
}
