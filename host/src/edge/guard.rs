//! What every request passes before its handler: name, origin and rate for all, then token and scope by route.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::error::Refused;
use super::limiter::{self, Limiter, WRONG_TOKENS};
use super::{Access, Context, Refusal, health, hub, origin};
use crate::metrics;
use crate::port::Port;
use crate::scope::Scope;
use crate::settings::{Principal, Settings, Tokens};
use crate::traces::{self, Begin, Kind, Place};

/// The address a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client(pub(super) SocketAddr);

impl Client {
    pub(super) fn is_local(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }
}

/// The route that answered, for the metrics.
#[derive(Clone, Copy)]
struct Matched(&'static str);

/// Stands before all routes of a listener, and counts what comes out.
pub(super) async fn admit(State((context, port)): State<(Context, Port)>, request: Request, next: Next) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let asked = context.clock.elapsed();
    let verb = method.clone();
    let asker = request.headers().get("traceparent").and_then(|value| Place::of_header(value.to_str().ok()?));
    let work = async {
        match page_of(&context, port, &request) {
            Ok(page) => answer(&context, port, page, request, next).await,
            Err(refusal) => answer_refused(&context, port, request, refusal).await,
        }
    };
    let begin = || Begin::new(verb.as_str(), Kind::Server).within(asker).with("chela.listener", port.as_str());
    let mut response = traces::traced(&context.clock, begin, work, |response, attributes| {
        let route = response.extensions().get::<Matched>().map(|matched| (traces::ROUTE, matched.0.to_owned()));
        let status = response.status();
        attributes.extend([
            ("http.request.method", verb.to_string()),
            ("http.response.status_code", status.as_u16().to_string()),
        ]);
        attributes.extend(route);
        if status.is_server_error() { Err(status.as_str().to_owned()) } else { Ok(()) }
    })
    .await;
    if let Some(refused) = response.extensions().get::<Refused>() {
        context.metrics.refused(refused.0);
    }
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let route = response.extensions().get::<Matched>().map_or("other", |matched| matched.0);
    let status = response.status().as_u16();
    let labels = metrics::Request { listener: metrics::Word(port.as_str()), route: metrics::Word(route), status };
    context.metrics.requests.get_or_create(&labels).inc();
    let took = context.clock.elapsed().saturating_sub(asked);
    context.metrics.request_times.took(&metrics::Listener { listener: metrics::Word(port.as_str()) }, took);
    tracing::debug!(listener = port.as_str(), %method, path, status, "answered");
    response
}

/// The page a request comes from, as far as it may come in.
enum Page {
    OursOrNone,
    /// Of a site that the configuration lists: it must be told that it may read.
    Listed(HeaderValue),
}

async fn answer(context: &Context, port: Port, page: Page, request: Request, next: Next) -> Response {
    let response = match (within_rate(context, port, &request), &page) {
        (Err(refusal), _) => answer_refused(context, port, request, refusal).await,
        (Ok(()), Page::Listed(_)) if is_preflight(&request) => origin::answer_preflight(),
        (Ok(()), _) => next.run(request).await,
    };
    match page {
        Page::Listed(origin) => origin::let_page_read(origin, response),
        Page::OursOrNone => response,
    }
}

/// What is refused before anybody is known: on a page for people at the hub, else as programs read it.
async fn answer_refused(context: &Context, port: Port, request: Request, refusal: Refusal) -> Response {
    if port != Port::Hub || !hub::reads_refusals(request.headers()) {
        return refusal.into_response();
    }
    let (head, _) = request.into_parts();
    hub::answer_refused(context, &head, &refusal, &[], "/").await
}

fn page_of(context: &Context, port: Port, request: &Request) -> Result<Page, Refusal> {
    let settings = context.settings.current();
    let encrypted = settings.identity_of(port).is_some();
    let gateway = &settings.config.gateway;
    let host = called_host(request).filter(|host| origin::host_is_ours(host, &gateway.allowed_hosts));
    let host = host.ok_or(Refusal::Host)?;
    let mut page = Page::OursOrNone;
    for value in request.headers().get_all(header::ORIGIN) {
        let from = value.to_str().unwrap_or_default();
        if origin::is_listed(from, &gateway.allowed_origins) {
            page = Page::Listed(value.clone());
        } else if !origin::is_own(from, host, encrypted) {
            return Err(Refusal::Origin);
        }
    }
    Ok(page)
}

/// Who shows a token that counts has a rate of their own, beside the one of everybody at their address.
fn within_rate(context: &Context, port: Port, request: &Request) -> Result<(), Refusal> {
    // A flood must not make a healthy gateway look dead to its supervisor.
    if health::is_probe(request.uri().path()) {
        return Ok(());
    }
    let settings = context.settings.current();
    let (quota, requests) = (limiter::requests_quota(&settings.config.limits), &context.limiters.requests);
    let (client, now) = (client_of(request), context.clock.elapsed());
    // While there is room for anybody nothing tells whether a token is right.
    let Err(wait) = requests.take(client.0.ip(), quota, now) else { return Ok(()) };
    let wrong = &context.limiters.wrong_tokens;
    let shown = presented_token(request.headers(), request.uri().path());
    let found = shown.filter(|_| may_try(wrong, client, now).is_ok()).and_then(|token| settings.tokens.find(token));
    match found.or_else(|| hub::signed_in(context, port, request).ok().flatten()) {
        Some(known) => {
            let asks = limiter::Asks::new(client.0.ip(), Some(known.name));
            requests.take(asks, quota, now).map_err(|wait| Refusal::Rate { wait })
        }
        None => {
            if shown.is_some() {
                // A guess like any other: else whoever is not told to wait would know that it was right.
                count_wrong(wrong, client, now);
            }
            Err(Refusal::Rate { wait })
        }
    }
}

/// A browser asking whether a page may send a request that it is about to send.
fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The one name a request calls us by; none if it gives none or two that differ.
fn called_host(request: &Request) -> Option<&str> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let host = hosts.next()?.to_str().ok()?;
    let one_name = hosts.next().is_none() && request.uri().authority().is_none_or(|named| named.as_str() == host);
    one_name.then_some(host)
}

/// Stands before one route.
pub(super) async fn authorise(
    context: Context,
    access: Access,
    (port, path): (Port, &'static str),
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match may_use(&context, access, port, &request) {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            next.run(request).await
        }
        Err(Refusal::TokenMissing) if matches!(access, Access::Page(_)) => {
            hub::redirect_to_login(&request).unwrap_or_else(|| Refusal::TokenMissing.into_response())
        }
        Err(refusal) if matches!(access, Access::Page(_)) && hub::reads_refusals(request.headers()) => {
            let (head, _) = request.into_parts();
            hub::answer_refused(&context, &head, &refusal, &[], "/").await
        }
        Err(refusal) => refusal.into_response(),
    };
    response.extensions_mut().insert(Matched(path));
    response
}

fn may_use(context: &Context, access: Access, port: Port, request: &Request) -> Result<Option<Principal>, Refusal> {
    let open_reads = || {
        let open = context.settings.current().config.monitor.open_reads;
        open && port == Port::Monitor && client_of(request).is_local()
    };
    let needed = match access {
        Access::Open => return Ok(None),
        // Nobody has to say who they are; who does goes on when reads are open no longer.
        Access::Watching if open_reads() => {
            let shown = presented_token(request.headers(), request.uri().path());
            return Ok(shown.and_then(|token| context.settings.current().tokens.find(token)));
        }
        Access::Watching => Some(Scope::Read),
        Access::PerMethod => None,
        Access::Needs(scope) | Access::Page(scope) => Some(scope),
    };
    let principal = match hub::signed_in(context, port, request)? {
        Some(principal) => principal,
        None => authenticate(context, &context.settings.current(), request)?,
    };
    match needed {
        Some(needed) if !principal.scope.holds(needed) => Err(Refusal::ScopeMissing { needed }),
        _ => Ok(Some(principal)),
    }
}

/// Who is asking, by the token of the request.
pub(super) fn authenticate(context: &Context, settings: &Settings, request: &Request) -> Result<Principal, Refusal> {
    let token = presented_token(request.headers(), request.uri().path()).ok_or(Refusal::TokenMissing)?;
    let wrong = &context.limiters.wrong_tokens;
    check_token(&settings.tokens, wrong, token, client_of(request), context.clock.elapsed())
}

/// Completes when `holder` has another token than in `before`, another scope, or none; for whoever came without one, when that is no longer
/// allowed.
pub(super) async fn token_lost(context: &Context, before: &Settings, holder: Option<&str>) {
    let mut settings = context.settings.subscribe();
    let keeps = |now: &Settings| match holder {
        Some(holder) => now.tokens.keeps(&before.tokens, holder),
        None => now.config.monitor.open_reads,
    };
    if settings.wait_for(|now| !keeps(now)).await.is_err() {
        // Nothing changes any more: the gateway stops, and says so itself.
        std::future::pending::<()>().await;
    }
}

/// Whose token this is, for a form.
pub(super) fn check_presented(context: &Context, token: &[u8], client: Client) -> Result<Principal, Refusal> {
    let settings = context.settings.current();
    check_token(&settings.tokens, &context.limiters.wrong_tokens, token, client, context.clock.elapsed())
}

fn check_token(
    tokens: &Tokens,
    wrong: &Limiter,
    presented: &[u8],
    client: Client,
    now: Duration,
) -> Result<Principal, Refusal> {
    may_try(wrong, client, now).map_err(|wait| Refusal::TokenLocked { wait })?;
    tokens.find(presented).ok_or_else(|| {
        count_wrong(wrong, client, now);
        Refusal::TokenWrong
    })
}

/// Whether tokens of this client are looked at. One local program with a wrong token must not lock out the others.
fn may_try(wrong: &Limiter, client: Client, now: Duration) -> Result<(), Duration> {
    if client.is_local() { Ok(()) } else { wrong.peek(client.0.ip(), WRONG_TOKENS, now) }
}

fn count_wrong(wrong: &Limiter, client: Client, now: Duration) {
    if !client.is_local() {
        // There was room when we looked; if others took it since, the next try is told so.
        let _ = wrong.take(client.0.ip(), WRONG_TOKENS, now);
    }
}

/// The header that tools of the old monitor send.
const MONITOR_TOKEN: HeaderName = HeaderName::from_static("x-task-monitor-token");

fn presented_token<'a>(headers: &'a HeaderMap, path: &str) -> Option<&'a [u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    let monitor =
        || headers.get(MONITOR_TOKEN).filter(|_| path.starts_with("/api/") || path == "/ws").map(HeaderValue::as_bytes);
    bearer.or_else(monitor).map(<[u8]>::trim_ascii)
}

pub(super) fn client_of(request: &Request) -> Client {
    let known = request.extensions().get::<Client>().copied();
    known.expect("the listener puts the client's address on every request")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Auth;
    use crate::layout::StateDir;

    #[test]
    fn an_address_that_guesses_is_locked_out_and_others_are_not() {
        let auth: Auth = serde_json::from_str(r#"{"token": "0123456789abcdef"}"#).expect("a token");
        let tokens = Tokens::of(&auth, &StateDir::new("nowhere")).expect("a good token");
        let wrong = Limiter::default();
        let from = |client: &str, token: &str, seconds: u64| {
            let client = Client(client.parse().expect("an address"));
            match check_token(&tokens, &wrong, token.as_bytes(), client, Duration::from_secs(seconds)) {
                Ok(principal) => principal.name,
                Err(refusal) => refusal.code().to_owned(),
            }
        };
        let (stranger, neighbour) = ("203.0.113.7:1", "203.0.113.8:1");
        for _ in 0..10 {
            assert_eq!(from(stranger, "a guess", 0), "token_wrong");
        }
        assert_eq!(from(stranger, "a guess", 0), "token_locked");
        assert_eq!(from(stranger, "0123456789abcdef", 0), "token_locked", "the right one, but too late");
        assert_eq!(from(neighbour, "0123456789abcdef", 0), "owner");
        assert_eq!(from(stranger, "0123456789abcdef", 30), "owner");
        for _ in 0..20 {
            assert_eq!(from("127.0.0.1:1", "a guess", 0), "token_wrong", "this machine is exempt");
            assert_eq!(from("[::ffff:127.0.0.1]:1", "a guess", 0), "token_wrong");
        }
    }
}
