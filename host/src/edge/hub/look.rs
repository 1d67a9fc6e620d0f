//! What every page knows of its reader: language, colours, name, and how many questions wait.

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use chela_page::{Lang, Notice, Shell, Theme, Who};

use super::form::Form;
use super::{own_path, see_other};
use crate::config::Locale;
use crate::edge::Context;
use crate::scope::Scope;
use crate::settings::Principal;

const LANG: &str = "chela_lang";
const THEME: &str = "chela_theme";
/// That something was done: for the page that whoever has no script is led to, and no longer.
const DONE: &str = "chela_done";
const DONE_SECONDS: u32 = 5;

pub(super) async fn shell(context: &Context, head: &Parts) -> Shell {
    let settings = context.settings.current();
    let headers = &head.headers;
    let principal = head.extensions.get::<Principal>();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let lang = lang(headers, settings.config.deployment.locale);
    Shell {
        lang,
        theme: cookie(headers, THEME).and_then(Theme::parse).unwrap_or_default(),
        deployment: chela_page::clip(&settings.config.deployment.name, 60),
        path: own_path(path).to_owned(),
        who: principal.map(|one| Who {
            name: one.name.clone(),
            may_write: one.scope.holds(Scope::Write),
            may_admin: one.scope.holds(Scope::Admin),
        }),
        notice: cookie(headers, DONE).map(|_| Notice::Done(lang.words().saved.to_owned())),
        open_questions: if principal.is_some() { context.hub.open_questions().await } else { 0 },
        names: settings.config.hub.names.clone().into_iter().collect(),
    }
}

pub(super) fn lang(headers: &HeaderMap, locale: Locale) -> Lang {
    let accepted = || headers.get(header::ACCEPT_LANGUAGE).and_then(|value| Lang::accepted(value.to_str().ok()?));
    cookie(headers, LANG).and_then(Lang::parse).or_else(accepted).unwrap_or(match locale {
        Locale::Ko => Lang::Ko,
        Locale::En => Lang::En,
    })
}

/// On to a page that says that it was done.
pub(super) fn done_at(path: &str) -> Response {
    let mut response = see_other(path);
    let cookie = format!("{DONE}=1; Path=/; Max-Age={DONE_SECONDS}; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// The value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// `GET /look?lang=ko` or `?theme=dark`: remembers it and goes back. It changes nothing but how pages look to this browser.
pub(super) async fn change(State(_): State<Context>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let form = Form::of_query(&head);
    let mut response = see_other(own_path(form.get("back").unwrap_or("/")));
    let lang = form.get("lang").and_then(Lang::parse).map(|lang| (LANG, lang.as_str()));
    let theme = form.get("theme").and_then(Theme::parse).map(|theme| (THEME, theme.as_str()));
    for (name, value) in lang.into_iter().chain(theme) {
        let cookie = format!("{name}={value}; Path=/; Max-Age=31536000; SameSite=Lax");
        if let Ok(cookie) = HeaderValue::from_str(&cookie) {
            response.headers_mut().append(header::SET_COOKIE, cookie);
        }
    }
    response
}
