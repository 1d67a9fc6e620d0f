//! A classifier tried before it serves: a source, rules and a configuration as they stand in an editor, and a component that was sent. Nothing is
//! changed; what runs is what somebody brought, so it is in the audit log all the same.

use axum::extract::{Request, State};
use axum::response::Response;
use chela_page::{RULES_BYTES_MAX, encode};
use serde_json::{Map, Value, json};

use super::form::Form;
use super::further::try_on;
use super::sent::{Sent, refusal_of};
use crate::edge::params::{Named, bad};
use crate::edge::table::{Caller, change};
use crate::edge::{Context, ErrorShape, Refusal, audit, body, plugins};
use crate::hub::{self, Trial, TryOn};
use crate::plugins::{From, SlotName};
use crate::policy::World;

pub(super) async fn typed(State(context): State<Context>, Named(slot): Named<String>, request: Request) -> Response {
    let sent = match Sent::read(&context, request).await {
        Ok(sent) => sent,
        Err(response) => return *response,
    };
    let done = tried_typed(&context, &slot, &sent).await;
    sent.answer(&context, done).await
}

/// The longest text that a classifier is tried on.
const TEXT_CHARS_MAX: usize = 4_000;

/// The source, the rules or the configuration of a form, tried as they stand there.
async fn tried_typed(context: &Context, slot: &str, sent: &Sent) -> Result<String, Refusal> {
    let (what, on) = sent.form.get("try").and_then(|word| word.split_once(':')).unwrap_or_default();
    let on = try_on(on, &sent.form);
    let text = match &on {
        TryOn::Text(text) if text.trim().is_empty() => return Err(bad("text", "write a text to try it on".into())),
        TryOn::Text(text) if text.chars().count() > TEXT_CHARS_MAX => {
            return Err(bad("text", format!("it is tried on at most {TEXT_CHARS_MAX} characters")));
        }
        TryOn::Text(text) => text.clone(),
        TryOn::Sessions => String::new(),
    };
    let written = match what {
        "source" => {
            let from = From::Source(sent.form.written("source"));
            return tried(context, &sent.caller, slot, (from, None), on, Trial { text, ..Trial::default() }).await;
        }
        "rules" | "config" => sent.form.written(what),
        _ => return Err(bad("try", "a source, rules or a configuration are tried".into())),
    };
    if written.len() > RULES_BYTES_MAX {
        return Err(bad(what, format!("a page takes at most {RULES_BYTES_MAX} bytes")));
    }
    let config = hub::config_of(&written).map_err(|said| bad(what, said))?;
    let (source, mut trial) = match what {
        "rules" => ("builtin:rules".to_owned(), Trial { rules: Some(written.clone()), ..Trial::default() }),
        _ => (sent.form.written("source"), Trial { config: Some(written.clone()), ..Trial::default() }),
    };
    trial.text = text;
    let refused = |refusal: Refusal| match refusal {
        Refusal::Conflict { said } => Refusal::Conflict { said: hub::with_line(&written, &said) },
        refusal => refusal,
    };
    let done = tried(context, &sent.caller, slot, (From::Source(source), Some(config)), on, trial).await;
    done.map_err(refused)
}

/// A component as the body of a request, its name behind `?`: tried on work sessions, and not kept.
pub(super) async fn upload(State(context): State<Context>, Named(slot): Named<String>, request: Request) -> Response {
    let caller = Caller::of(&request);
    let (head, body) = request.into_parts();
    let name = Form::of_query(&head).text("name").unwrap_or_default();
    let done = tried_sent(&context, &caller, &slot, name, body).await;
    Sent::of(caller, head).answer(&context, done).await
}

async fn tried_sent(
    context: &Context,
    caller: &Caller,
    slot: &str,
    name: String,
    sent: axum::body::Body,
) -> Result<String, Refusal> {
    let limit = usize::try_from(context.settings.current().config.plugins.file_bytes).unwrap_or(usize::MAX);
    let bytes = body::read_up_to(context, sent, limit).await?;
    let load = plugins::load_of(slot, name, bytes).map_err(refusal_of)?;
    tried(context, caller, slot, (load.from, None), TryOn::Sessions, Trial::default()).await
}

/// The page that shows what came of it; what could not be tried is said where it was asked for.
async fn tried(
    context: &Context,
    caller: &Caller,
    slot: &str,
    (from, config): (From, Option<Map<String, Value>>),
    on: TryOn,
    trial: Trial,
) -> Result<String, Refusal> {
    let classifies = slot.parse::<SlotName>().is_ok_and(|slot| slot.world() == World::Classifier);
    if !classifies {
        return Err(bad("slot", "only a classifier is tried".into()));
    }
    let of = match &from {
        From::Source(source) => audit::of(&json!({ "slot": slot, "source": source })),
        From::Bytes { name, .. } => audit::of(&json!({ "slot": slot, "name": name })),
    };
    let hub = context.hub.clone();
    let work = async move {
        let tried = hub.tried(from, config, on).await.map_err(|error| ErrorShape::unavailable(error.to_string()))?;
        match tried.problem {
            Some(said) => Err(ErrorShape::invalid(said)),
            None => Ok(hub.keep_trial(Trial { tried, ..trial })),
        }
    };
    let id = change(context, caller, "plugin.try", of, work).await.map_err(refusal_of)?;
    Ok(format!("/plugins/{}?tried={id}", encode(slot)))
}
