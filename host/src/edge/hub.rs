//! The hub's pages: which path shows which view, whole or the fragments that a page asks for again, and what every answer carries.

mod actions;
mod form;
mod further;
mod lists;
mod live;
mod look;
mod operate;
mod pages;
mod refused;
mod sent;
mod signin;
mod tries;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chela_page::{Page, Shell};

use super::params::Named;
use super::{Access, Context, Routes};
use crate::hub;
use crate::port::Port;
use crate::scope::Scope;

pub(super) use sent::answer_refused;
pub use signin::Codes;
pub(super) use signin::{redirect_to_login, signed_in};

/// The fragments that a page wants again, by their names.
pub(super) const FRAGMENTS: HeaderName = HeaderName::from_static("chela-fragments");
/// Sent by the page's script: it shows refusals itself.
pub(super) const SCRIPT: HeaderName = HeaderName::from_static("chela-script");

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

pub(super) fn routes(routes: Routes) -> Routes {
    const HUB: &[Port] = &[Port::Hub];
    const READ: Access = Access::Page(Scope::Read);
    const WRITE: Access = Access::Page(Scope::Write);
    const ADMIN: Access = Access::Page(Scope::Admin);
    routes
        .get("/", READ, HUB, pages::overview)
        .get("/conversations", READ, HUB, pages::conversations)
        .get("/conversations/{id}", READ, HUB, pages::conversation)
        .get("/tasks", READ, HUB, pages::tasks)
        .get("/tasks/{id}", READ, HUB, pages::task)
        .get("/questions", READ, HUB, pages::questions)
        .get("/chat", READ, HUB, pages::chat)
        .get("/agents/{id}", READ, HUB, pages::agent)
        .get("/events", READ, HUB, further::events)
        .get("/jobs", READ, HUB, further::jobs)
        .get("/jobs/{id}", READ, HUB, further::job)
        .get("/plugins", READ, HUB, further::plugins)
        .get("/plugins/{slot}", READ, HUB, further::slot)
        .get("/milestones", READ, HUB, further::milestones)
        .get("/todos", READ, HUB, further::todos)
        .get("/workspace", READ, HUB, further::workspaces)
        .get("/workspace/{agent}", READ, HUB, further::workspace)
        .get("/channels", READ, HUB, further::channels)
        .get("/settings", READ, HUB, further::settings)
        .get("/live", Access::Needs(Scope::Read), HUB, live::live)
        .get("/login", Access::Open, HUB, signin::ask)
        .post("/login", Access::Open, HUB, signin::sign_in)
        .post("/logout", Access::Open, HUB, signin::sign_out)
        .get("/look", Access::Open, HUB, look::change)
        .get("/assets/{name}", Access::Open, HUB, asset)
        .post("/questions/{id}/answer", WRITE, HUB, actions::answer)
        .post("/tasks/{id}/move", WRITE, HUB, actions::move_task)
        .post("/tasks/{id}/steps", WRITE, HUB, actions::steps)
        .post("/tasks/{id}/note", WRITE, HUB, actions::note)
        .post("/conversations/{id}/category", WRITE, HUB, actions::category)
        .post("/chat/send", WRITE, HUB, actions::send)
        .post("/chat/abort", WRITE, HUB, actions::abort)
        .post("/jobs/{id}", WRITE, HUB, operate::job)
        .post("/milestones", WRITE, HUB, lists::milestones)
        .post("/milestones/{id}", WRITE, HUB, lists::milestone)
        .post("/todos", WRITE, HUB, lists::todos)
        .post("/plugins/{slot}", ADMIN, HUB, operate::slot)
        .post("/plugins/{slot}/upload", ADMIN, HUB, operate::upload)
        .post("/plugins/{slot}/rules", ADMIN, HUB, operate::rules)
        .post("/plugins/{slot}/try", ADMIN, HUB, tries::typed)
        .post("/plugins/{slot}/try/upload", ADMIN, HUB, tries::upload)
        .post("/channels/{channel}", ADMIN, HUB, operate::channel)
        .post("/settings", ADMIN, HUB, operate::settings)
}

async fn asset(Named(name): Named<String>) -> Response {
    let Some(asset) = chela_page::asset(&name) else { return StatusCode::NOT_FOUND.into_response() };
    let headers = [(header::CONTENT_TYPE, asset.kind), (header::CACHE_CONTROL, "public, max-age=31536000, immutable")];
    (headers, asset.text).into_response()
}

/// A view, or why there is none, as a page.
async fn show(context: &Context, head: &Parts, view: Result<impl FnOnce(&Shell) -> Page, hub::Error>) -> Response {
    let shell = look::shell(context, head).await;
    let (status, page) = match view {
        Ok(view) => (StatusCode::OK, view(&shell)),
        Err(error) => {
            let found = error.is_found();
            let status = if found { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NOT_FOUND };
            if found && !matches!(error, hub::Error::Indexing { .. }) {
                tracing::error!(error = &error as &dyn std::error::Error, "a view could not be gathered");
            }
            (status, chela_page::problem(&shell, &refused::unseen(shell.words(), &error), found))
        }
    };
    let wanted = head.headers.get(FRAGMENTS).and_then(|names| names.to_str().ok());
    match wanted {
        Some(_) if status != StatusCode::OK => status.into_response(),
        Some(names) => {
            let names: Vec<&str> = names.split(',').take(32).collect();
            fragments(head, page.some(&shell, &names))
        }
        None => html(status, page.whole(&shell)),
    }
}

/// Whether whoever is refused reads what that says on a page of ours.
pub(super) fn reads_refusals(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    headers.contains_key(SCRIPT) || accepted.contains("text/html")
}

/// Whether somebody looks for a page, and not a program for a path.
pub(super) fn wants_page(head: &Parts) -> bool {
    let accepted = head.headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or_default();
    head.method == Method::GET && accepted.contains("text/html")
}

/// For an address that leads nowhere.
pub(super) async fn no_such_page(context: &Context, head: &Parts) -> Response {
    let shell = look::shell(context, head).await;
    let path = head.uri.path().chars().take(200).collect::<String>();
    html(StatusCode::NOT_FOUND, chela_page::problem(&shell, &path.as_str().into(), false).whole(&shell))
}

/// Fragments, unless the page has exactly these.
fn fragments(head: &Parts, text: String) -> Response {
    let tag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..24]);
    let known = head.headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => html(StatusCode::OK, text),
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// A page, which may load nothing from elsewhere and stand in no other page.
fn html(status: StatusCode, text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::REFERRER_POLICY, "same-origin"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    (status, headers, text).into_response()
}

/// On to another page of ours.
fn see_other(path: &str) -> Response {
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(header::LOCATION, path)]).into_response()
}

/// A path of our own, whatever a form or a link says.
fn own_path(text: &str) -> &str {
    let good = text.starts_with('/')
        && !text[1..].starts_with(['/', '\\'])
        && text.len() <= 2_000
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if good { text } else { "/" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_link_leads_away() {
        let check = |text: &str, path: &str| assert_eq!(own_path(text), path, "{text:?}");
        check("/tasks?q=1#m", "/tasks?q=1#m");
        check("//evil.example", "/");
        check("/\\evil.example", "/");
        check("https://evil.example", "/");
        check("/a\r\nSet-Cookie: x", "/");
        check("", "/");
    }
}
