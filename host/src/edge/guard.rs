//! What every request passes before its handler: name, origin and rate for all, then token and scope by route.

use std::net::SocketAddr;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::limiter::{self, WRONG_TOKENS};
use super::{Access, Context, Port, Refusal, health, origin};
use crate::metrics;
use crate::settings::{Principal, Settings};

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
    let mut response = match may_enter(&context, &request) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refuse(&context, refusal),
    };
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let route = response.extensions().get::<Matched>().map_or("other", |matched| matched.0);
    let status = response.status().as_u16();
    let labels = metrics::Request { listener: metrics::Word(port.as_str()), route: metrics::Word(route), status };
    context.metrics.requests.get_or_create(&labels).inc();
    tracing::debug!(listener = port.as_str(), %method, path, status, "answered");
    response
}

fn may_enter(context: &Context, request: &Request) -> Result<(), Refusal> {
    let settings = context.settings.current();
    let host = called_host(request).filter(|host| origin::host_is_ours(host, &settings.config.gateway.allowed_hosts));
    let host = host.ok_or(Refusal::Host)?;
    for value in request.headers().get_all(header::ORIGIN) {
        let from = value.to_str().unwrap_or_default();
        if !origin::origin_is_ours(from, host, &settings.config.gateway.allowed_origins) {
            return Err(Refusal::Origin);
        }
    }
    // A flood must not make a healthy gateway look dead to its supervisor.
    if !health::is_probe(request.uri().path()) {
        let quota = limiter::requests_quota(&settings.config.limits);
        let client = client_of(request).0.ip();
        let taken = context.limiters.requests.take(client, quota, context.clock.elapsed());
        taken.map_err(|wait| Refusal::Rate { wait })?;
    }
    Ok(())
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
    path: &'static str,
    mut request: Request,
    next: Next,
) -> Response {
    let mut response = match may_use(&context, access, &request) {
        Ok(principal) => {
            if let Some(principal) = principal {
                request.extensions_mut().insert(principal);
            }
            next.run(request).await
        }
        Err(refusal) => refuse(&context, refusal),
    };
    response.extensions_mut().insert(Matched(path));
    response
}

fn may_use(context: &Context, access: Access, request: &Request) -> Result<Option<Principal>, Refusal> {
    let needed = match access {
        Access::Open => return Ok(None),
        Access::PerMethod => None,
        Access::Needs(scope) => Some(scope),
    };
    let principal = authenticate(context, &context.settings.current(), request)?;
    match needed {
        Some(needed) if !principal.scope.holds(needed) => Err(Refusal::ScopeMissing { needed }),
        _ => Ok(Some(principal)),
    }
}

/// Who is asking, by the token of the request.
pub(super) fn authenticate(context: &Context, settings: &Settings, request: &Request) -> Result<Principal, Refusal> {
    let token = presented_token(request.headers(), request.uri().path()).ok_or(Refusal::TokenMissing)?;
    let client = client_of(request);
    let (now, ip) = (context.clock.elapsed(), client.0.ip());
    // One local program with a wrong token must not lock out the others.
    let counted = !client.is_local();
    if counted {
        context.limiters.wrong_tokens.peek(ip, WRONG_TOKENS, now).map_err(|wait| Refusal::TokenLocked { wait })?;
    }
    settings.tokens.find(token).ok_or_else(|| {
        if counted {
            let _ = context.limiters.wrong_tokens.take(ip, WRONG_TOKENS, now);
        }
        Refusal::TokenWrong
    })
}

/// The header that tools of the old monitor send.
const MONITOR_TOKEN: HeaderName = HeaderName::from_static("x-task-monitor-token");

fn presented_token<'a>(headers: &'a HeaderMap, path: &str) -> Option<&'a [u8]> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| {
        let (scheme, token) = value.as_bytes().split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
    });
    let monitor = || headers.get(MONITOR_TOKEN).filter(|_| path.starts_with("/api/")).map(HeaderValue::as_bytes);
    bearer.or_else(monitor).map(<[u8]>::trim_ascii)
}

pub(super) fn client_of(request: &Request) -> Client {
    let known = request.extensions().get::<Client>().copied();
    known.expect("the listener puts the client's address on every request")
}

fn refuse(context: &Context, refusal: Refusal) -> Response {
    context.metrics.refused(refusal.code());
    refusal.into_response()
}
