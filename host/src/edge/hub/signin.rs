//! Signing in: by the token in a form, or by the code of a link that works once. What the browser keeps is no token: it says whose it
//! is and until when, sealed with the token, so that it ends with the token and survives a restart.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chela_page::Notice;

use super::form::Form;
use super::look::{cookie, shell};
use super::{FRAGMENTS, SCRIPT, html, own_path, see_other};
use crate::edge::guard::{check_presented, client_of};
use crate::edge::{Context, Refusal, body, origin, upgrade};
use crate::port::Port;
use crate::settings::{Principal, Seal, Settings};

/// How long a browser stays signed in.
const STAYS: Duration = Duration::from_secs(30 * 86_400);
/// How long the code of a link waits to be used.
const CODE_WAITS: Duration = Duration::from_secs(3_600);
/// Codes that wait at once.
const CODES_MAX: usize = 16;
/// A form with a token.
const FORM_BYTES_MAX: usize = 16 * 1024;

/// Codes of links, each for one use.
#[derive(Default)]
pub struct Codes(Mutex<Vec<Waiting>>);

struct Waiting {
    fingerprint: blake3::Hash,
    name: String,
    until: Duration,
}

impl Codes {
    /// A new code for whoever holds the token of this name.
    pub fn mint(&self, name: &str, now: Duration) -> Option<String> {
        let mut bytes = [0_u8; 18];
        getrandom::fill(&mut bytes).ok()?;
        let code = URL_SAFE_NO_PAD.encode(bytes);
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| one.until > now);
        if waiting.len() >= CODES_MAX {
            waiting.remove(0);
        }
        let fingerprint = blake3::hash(code.as_bytes());
        waiting.push(Waiting { fingerprint, name: name.to_owned(), until: now + CODE_WAITS });
        Some(code)
    }

    /// Whose code this is; it is used up by that.
    fn redeem(&self, code: &str, now: Duration) -> Option<String> {
        let fingerprint = blake3::hash(code.as_bytes());
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| one.until > now);
        let at = waiting.iter().position(|one| one.fingerprint == fingerprint)?;
        Some(waiting.remove(at).name)
    }
}

/// Cookies know no ports: two hubs of one machine must not take each other's.
fn cookie_name(context: &Context) -> String {
    let port = context.addresses.get(Port::Hub).map_or(0, |address| address.port());
    format!("chela_hub_{port}")
}

fn sealed(settings: &Settings, port_name: &str, name: &str, until: u64) -> Option<(Principal, String)> {
    let (principal, seal) = settings.tokens.seal(Seal::Browser, name, &format!("{port_name}.{name}.{until}"))?;
    Some((principal, format!("{}.{until}.{}", URL_SAFE_NO_PAD.encode(name), seal.to_hex())))
}

/// Whose cookie this is, if it is one of ours and has not ended.
fn opened(context: &Context, value: &str) -> Option<Principal> {
    let (name, rest) = value.split_once('.')?;
    let (until, seal) = rest.split_once('.')?;
    let name = String::from_utf8(URL_SAFE_NO_PAD.decode(name).ok()?).ok()?;
    let until: u64 = until.parse().ok()?;
    let seal = blake3::Hash::from_hex(seal).ok()?;
    let settings = context.settings.current();
    let (principal, expected) =
        settings.tokens.seal(Seal::Browser, &name, &format!("{}.{name}.{until}", cookie_name(context)))?;
    // Hashes compare in constant time.
    (seal == expected && until > context.clock.now().0).then_some(principal)
}

/// Who is signed in by the cookie of this request: on the hub's listener alone, and for a change or a socket only from the hub's own page.
pub(in crate::edge) fn signed_in(
    context: &Context,
    port: Port,
    request: &Request,
) -> Result<Option<Principal>, Refusal> {
    let headers = request.headers();
    if port != Port::Hub || headers.contains_key(header::AUTHORIZATION) {
        return Ok(None);
    }
    let Some(principal) = cookie(headers, &cookie_name(context)).and_then(|value| opened(context, value)) else {
        return Ok(None);
    };
    let reads = [Method::GET, Method::HEAD].contains(request.method()) && !upgrade::is_asked(request);
    match is_from_own_page(context, headers) {
        Some(true) => Ok(Some(principal)),
        None if reads => Ok(Some(principal)),
        _ => Err(Refusal::Origin),
    }
}

/// Whether the cookie that a socket was opened with still counts.
pub(super) fn still_signed_in(context: &Context, headers: &HeaderMap) -> bool {
    // A token that is lost ends its socket by itself.
    headers.contains_key(header::AUTHORIZATION)
        || cookie(headers, &cookie_name(context)).is_some_and(|value| opened(context, value).is_some())
}

/// None where the browser does not say from which page.
fn is_from_own_page(context: &Context, headers: &HeaderMap) -> Option<bool> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let from = headers.get(header::ORIGIN)?.to_str().unwrap_or_default();
    Some(origin::is_own(from, host, context.settings.current().identity_of(Port::Hub).is_some()))
}

/// Where somebody who is not signed in is sent; none for scripts, which are told.
pub(in crate::edge) fn redirect_to_login(request: &Request) -> Option<Response> {
    let headers = request.headers();
    if headers.contains_key(FRAGMENTS) || headers.contains_key(SCRIPT) || headers.contains_key(header::AUTHORIZATION) {
        return None;
    }
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let next = if *request.method() == Method::GET { own_path(path) } else { "/" };
    Some(see_other(&format!("/login?next={}", chela_page::encode(next))))
}

/// `GET /login`: the form; with `?code=` the cookie, once.
pub(super) async fn ask(State(context): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let form = Form::of_query(&head);
    let next = own_path(form.get("next").unwrap_or("/")).to_owned();
    let Some(code) = form.get("code") else { return login_page(&context, &head, &next, None).await };
    match context.codes.redeem(code, context.clock.elapsed()) {
        Some(name) => admit(&context, &name, &next),
        None => login_page(&context, &head, &next, Some(Wrong::Code)).await,
    }
}

#[derive(Clone, Copy)]
enum Wrong {
    Token,
    Locked,
    Code,
}

/// `POST /login` with the field `token`.
pub(super) async fn sign_in(State(context): State<Context>, request: Request) -> Response {
    let client = client_of(&request);
    let (head, sent) = request.into_parts();
    // Anybody may send one.
    let form = match body::read_up_to(&context, sent, FORM_BYTES_MAX).await {
        Ok(form) => Form::of(&form),
        // Whatever it was, it was no token.
        Err(_) => return login_page(&context, &head, "/", Some(Wrong::Token)).await,
    };
    let next = own_path(form.get("next").unwrap_or("/")).to_owned();
    let token = form.get("token").unwrap_or_default().trim();
    match check_presented(&context, token.as_bytes(), client) {
        Ok(principal) => admit(&context, &principal.name, &next),
        Err(Refusal::TokenLocked { .. }) => login_page(&context, &head, &next, Some(Wrong::Locked)).await,
        Err(_) => login_page(&context, &head, &next, Some(Wrong::Token)).await,
    }
}

async fn login_page(context: &Context, head: &Parts, next: &str, wrong: Option<Wrong>) -> Response {
    let mut shell = shell(context, head).await;
    // After a form was sent, the address is no place to come back to.
    shell.path = format!("/login?next={}", chela_page::encode(next));
    let words = shell.words();
    let (status, said) = match wrong {
        None => (StatusCode::OK, None),
        Some(Wrong::Token) => (StatusCode::UNAUTHORIZED, Some(words.token_wrong)),
        Some(Wrong::Locked) => (StatusCode::TOO_MANY_REQUESTS, Some(words.token_locked)),
        Some(Wrong::Code) => (StatusCode::UNAUTHORIZED, Some(words.code_wrong)),
    };
    shell.notice = said.map(Notice::Wrong);
    html(status, chela_page::login(&shell, next).whole(&shell))
}

/// Gives the browser its cookie and goes on.
fn admit(context: &Context, name: &str, next: &str) -> Response {
    let until = context.clock.now().0.saturating_add(u64::try_from(STAYS.as_millis()).unwrap_or(u64::MAX));
    let cookie_name = cookie_name(context);
    let settings = context.settings.current();
    let Some((_, value)) = sealed(&settings, &cookie_name, name, until) else { return see_other("/login") };
    let stays = STAYS.as_secs();
    let kept = format!("{cookie_name}={value}; Path=/; Max-Age={stays}; HttpOnly; SameSite=Strict{}", secure(context));
    set_cookie(see_other(next), &kept)
}

pub(super) async fn sign_out(State(context): State<Context>) -> Response {
    let gone = format!("{}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict{}", cookie_name(&context), secure(&context));
    set_cookie(see_other("/login"), &gone)
}

/// What was set over TLS is not sent without it.
fn secure(context: &Context) -> &'static str {
    if context.settings.current().identity_of(Port::Hub).is_some() { "; Secure" } else { "" }
}

fn set_cookie(mut response: Response, cookie: &str) -> Response {
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_works_once_and_not_for_ever() {
        let (codes, now) = (Codes::default(), Duration::from_secs(10));
        let code = codes.mint("owner", now).expect("a code");
        assert_eq!(codes.redeem("another", now), None);
        assert_eq!(codes.redeem(&code, now).as_deref(), Some("owner"));
        assert_eq!(codes.redeem(&code, now), None);
        let late = codes.mint("owner", now).expect("a code");
        assert_eq!(codes.redeem(&late, now + CODE_WAITS), None);
        for _ in 0..100 {
            codes.mint("owner", now);
        }
        assert_eq!(codes.0.lock().expect("whole").len(), CODES_MAX);
    }
}
