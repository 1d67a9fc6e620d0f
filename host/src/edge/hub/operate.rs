//! What operators do on the pages: to jobs, plugins, rules, channels and settings. Each is the method of that name, or ends in one.

use axum::extract::{Request, State};
use axum::response::Response;
use chela_page::{RULES_BYTES_MAX, Rules, encode};
use serde_json::{Value, json};

use super::form::Form;
use super::sent::{Sent, by_method, refusal_of};
use crate::edge::params::{Named, bad};
use crate::edge::table::{Caller, change};
use crate::edge::{Context, ErrorShape, Refusal, audit, body, plugins};
use crate::hub;

/// Reads a form, does something, and goes on to where it was sent from.
macro_rules! form {
    ($name:ident, $done:ident) => {
        pub(super) async fn $name(
            State(context): State<Context>,
            Named(id): Named<String>,
            request: Request,
        ) -> Response {
            let sent = match Sent::read(&context, request).await {
                Ok(sent) => sent,
                Err(response) => return *response,
            };
            let done = $done(&context, &id, &sent).await;
            sent.answer(&context, done).await
        }
    };
}

form!(job, changed_job);
form!(slot, changed_slot);
form!(rules, changed_rules);
form!(channel, changed_channel);

async fn changed_job(context: &Context, id: &str, sent: &Sent) -> Result<String, Refusal> {
    let method = match sent.form.get("do") {
        Some("cancel") => "jobs.cancel",
        Some("retry") => "jobs.retry",
        _ => return Err(bad("do", "a job is cancelled or tried again".into())),
    };
    let done = by_method(context, &sent.caller, method, json!({ "id": id })).await?;
    // What is tried again is a job of its own.
    let next = done["job"]["jobId"].as_str().filter(|_| method == "jobs.retry");
    Ok(next.map_or_else(|| sent.back().to_owned(), |id| format!("/jobs/{}", encode(id))))
}

async fn changed_slot(context: &Context, slot: &str, sent: &Sent) -> Result<String, Refusal> {
    let wanted = sent.form.get("do").unwrap_or_default();
    let params = match wanted {
        "load" => json!({ "slot": slot, "source": sent.form.written("source") }),
        "config" => {
            let config = hub::config_of(&sent.form.written("config")).map_err(|said| bad("config", said))?;
            let now = context.hub.slot(slot, hub::Wanted::default()).await.ok().map(|now| now.mark());
            sent.as_seen("what serves here", now.as_deref())?;
            json!({ "slot": slot, "source": sent.form.written("source"), "config": config })
        }
        "unload" | "disable" | "enable" | "accept" | "rollback" | "release" => json!({ "slot": slot }),
        _ => return Err(bad("do", "there is no such change of a slot".into())),
    };
    let method = if wanted == "config" { "load" } else { wanted };
    let done = by_method(context, &sent.caller, &format!("plugin.{method}"), params).await;
    done.map_err(|refusal| match refusal {
        Refusal::Conflict { said } if wanted == "config" => {
            Refusal::Conflict { said: hub::with_line(&sent.form.written("config"), &said) }
        }
        refusal => refusal,
    })?;
    Ok(format!("/plugins/{}", encode(slot)))
}

/// A component as the body of a request, its name behind `?`.
pub(super) async fn upload(State(context): State<Context>, Named(slot): Named<String>, request: Request) -> Response {
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    let name = Form::of_query(&head).text("name").unwrap_or_default();
    let done = uploaded(&context, &caller, &slot, name, body).await;
    Sent::of(caller, head).answer(&context, done.map(|()| format!("/plugins/{}", encode(&slot)))).await
}

async fn uploaded(
    context: &Context,
    caller: &Caller,
    slot: &str,
    name: String,
    sent: axum::body::Body,
) -> Result<(), Refusal> {
    let limit = usize::try_from(context.settings.current().config.plugins.file_bytes).unwrap_or(usize::MAX);
    let bytes = body::read_up_to(context, sent, limit).await?;
    plugins::load_sent(context, caller, slot, name, bytes).await.map(drop).map_err(refusal_of)
}

/// Rules that serve are replaced by ones that were tried first; ones that were refused never reach the file.
async fn changed_rules(context: &Context, slot: &str, sent: &Sent) -> Result<String, Refusal> {
    let text = sent.form.written("rules");
    let now = context.hub.rules().await.map_err(|error| Refusal::Unavailable { said: error.to_string() })?;
    let Rules::Text(now) = now else {
        let said = "plugins/rules.json5 is too long for a page, is not UTF-8 or cannot be read; use an editor".into();
        return Err(Refusal::Conflict { said });
    };
    sent.as_seen("the file of rules", Some(&chela_page::mark_of(&now)))?;
    if text.len() > RULES_BYTES_MAX {
        return Err(bad("rules", format!("a page takes at most {RULES_BYTES_MAX} bytes; use an editor")));
    }
    let config =
        hub::config_of(&text).map_err(|said| bad("rules", format!("{said}; the rules before go on serving")))?;
    let tried = json!({ "slot": slot, "source": "builtin:rules", "config": config, "shadow": true });
    let refused = |refusal: Refusal| {
        let said = format!("{}; the rules before go on serving", hub::with_line(&text, &refusal.to_string()));
        Refusal::Conflict { said }
    };
    by_method(context, &sent.caller, "plugin.load", tried).await.map_err(refused)?;
    let path = context.dir.rules();
    let write = async move {
        let work = move || chela_storage::replace(&path, text.as_bytes(), chela_storage::Mode::Private);
        let written = tokio::task::spawn_blocking(work).await;
        match written {
            Ok(Ok(())) => Ok(()),
            Ok(Err(cause)) => Err(ErrorShape::unavailable(format!("the rules could not be written ({cause})"))),
            Err(_) => Err(ErrorShape::unavailable("the rules could not be written; see the gateway's log")),
        }
    };
    let of = audit::of(&json!({ "slot": slot }));
    change(context, &sent.caller, "hub.rules", of, write).await.map_err(refusal_of)?;
    // Not back to a trial of what is saved by now.
    Ok(format!("/plugins/{}", encode(slot)))
}

async fn changed_channel(context: &Context, channel: &str, sent: &Sent) -> Result<String, Refusal> {
    match sent.form.get("do") {
        Some("restart") => by_method(context, &sent.caller, "channel.restart", json!({ "channel": channel })).await?,
        _ => return Err(bad("do", "a channel is restarted".into())),
    };
    Ok(sent.back().to_owned())
}

pub(super) async fn settings(State(context): State<Context>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = changed_settings(&context, &sent).await;
    sent.answer(&context, done).await
}

/// One part of the configuration becomes what is written there, if the file is still the one that was looked at.
async fn changed_settings(context: &Context, sent: &Sent) -> Result<String, Refusal> {
    let section = sent.form.get("section").unwrap_or_default();
    let good = !section.is_empty() && section.len() <= 64 && section.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !good {
        return Err(bad("section", "there is no such part of the configuration".into()));
    }
    let text = sent.form.written("text");
    let value: Value = crate::config::json5_value(&text).map_err(|problem| bad("text", problem.to_string()))?;
    let (path, shown) = (context.dir.config(), context.settings.current().config.to_value());
    let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
    let file = match read.map(|read| read.map(|text| crate::config::json5_value(&text))) {
        Ok(Ok(Ok(file))) => file,
        Ok(Ok(Err(problem))) => return Err(Refusal::Conflict { said: format!("nothing is changed: {problem}") }),
        Ok(Err(_)) | Err(_) => {
            return Err(Refusal::Unavailable { said: "the configuration could not be read".into() });
        }
    };
    let change =
        hub::change_of(section, file.get(section), &shown[section], &value).map_err(|said| bad("text", said))?;
    let raw = change.patch.to_string();
    let seen = sent.form.get("seen").unwrap_or_default();
    let params = json!({ "raw": raw, "baseHash": seen, "replacePaths": change.replaced });
    by_method(context, &sent.caller, "config.patch", params).await?;
    Ok(format!("/settings?section={section}"))
}
