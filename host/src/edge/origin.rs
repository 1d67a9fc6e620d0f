//! Whether a request was meant for us: by the name it calls us, and by the page it comes from.
//! A page of another site cannot choose its `Origin`, and a name that was re-pointed at us is not ours.

use std::net::IpAddr;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::config::{HostName, Origin};

/// A `Host` header names an address, `localhost`, or an allowed name. Ports do not matter: a rebound name has any port it likes.
pub(super) fn host_is_ours(host: &str, allowed: &[HostName]) -> bool {
    let Some(name) = name_of(host) else { return false };
    // An address cannot be re-pointed; only names can.
    if name.parse::<IpAddr>().is_ok() {
        return true;
    }
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost") || allowed.iter().any(|one| one.0.eq_ignore_ascii_case(&name))
}

/// An `Origin` header that is the very host and port that were called. What is `encrypted` here has no page that came plainly; in front of
/// a plain listener somebody else may encrypt.
pub(super) fn is_own(origin: &str, host: &str, encrypted: bool) -> bool {
    let of = |scheme: &str| origin.strip_prefix(scheme).is_some_and(|rest| rest.eq_ignore_ascii_case(host));
    of("https://") || (!encrypted && of("http://"))
}

/// An `Origin` header that the configuration lists.
pub(super) fn is_listed(origin: &str, allowed: &[Origin]) -> bool {
    allowed.iter().any(|one| one.0.eq_ignore_ascii_case(origin))
}

/// Tells a browser that a listed page may send what it is about to send. Tokens are headers here, never cookies.
pub(super) fn answer_preflight() -> Response {
    let headers = HeaderValue::from_static("authorization, content-type, x-task-monitor-token");
    let may = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH, DELETE")),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, headers),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600")),
    ];
    (StatusCode::NO_CONTENT, may).into_response()
}

/// Lets a page of `origin` see an answer.
pub(super) fn let_page_read(origin: HeaderValue, mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

/// The name without its port; an IPv6 address without its brackets.
fn name_of(host: &str) -> Option<&str> {
    if let Some(rest) = host.strip_prefix('[') {
        let (name, port) = rest.split_once(']')?;
        return (port.is_empty() || is_port(port.strip_prefix(':')?)).then_some(name);
    }
    match host.rsplit_once(':') {
        Some((name, port)) => (is_port(port) && !name.contains(':')).then_some(name),
        None => Some(host),
    }
    .filter(|name| !name.is_empty())
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_answered() {
        let allowed = [HostName("chela.example".into())];
        let check = |host: &str, ours: bool| assert_eq!(host_is_ours(host, &allowed), ours, "{host:?}");
        check("127.0.0.1:18789", true);
        check("127.0.0.1", true);
        check("[::1]:18789", true);
        check("[::1]", true);
        check("localhost:3102", true);
        check("LOCALHOST", true);
        check("hub.localhost:1", true);
        check("chela.example:443", true);
        check("Chela.Example.", true);
        check("evil.example", false);
        check("localhost.evil.example", false);
        check("evil-localhost", false);
        check("127.0.0.1.evil.example", false);
        check("localhost:port", false);
        check("a:b:1", false);
        check("", false);
        check(":80", false);
        check("[::1", false);
    }

    #[test]
    fn a_plain_page_is_no_page_of_an_encrypted_listener() {
        let own = |origin: &str, encrypted: bool| is_own(origin, "hub.lan:3102", encrypted);
        assert_eq!(["http://hub.lan:3102", "https://hub.lan:3102"].map(|origin| own(origin, true)), [false, true]);
        assert_eq!(["http://hub.lan:3102", "https://hub.lan:3102"].map(|origin| own(origin, false)), [true, true]);
    }

    #[test]
    fn only_our_own_pages_are_answered() {
        let allowed = [Origin("https://hub.example".into())];
        let check = |origin: &str, ours: bool| {
            assert_eq!(is_own(origin, "127.0.0.1:18789", false) || is_listed(origin, &allowed), ours, "{origin:?}");
        };
        check("http://127.0.0.1:18789", true);
        check("https://127.0.0.1:18789", true);
        check("https://hub.example", true);
        check("http://127.0.0.1:8080", false);
        check("http://127.0.0.1", false);
        check("http://evil.example", false);
        check("https://hub.example.evil.example", false);
        check("null", false);
        check("", false);
    }
}
