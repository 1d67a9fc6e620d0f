//! The methods of the Web API: refusals in Slack's words.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::world::{Sent, State, direct_channel, is_channel};
use super::{APP_TOKEN, BOT, BOT_TOKEN, CROWD, OTHER_PERSON, PERSON, TEAM};
use crate::net::{Answer, Asked};

const TEXT_MAX: usize = 40_000;
const SECTION_MAX: usize = 3_000;
const LABEL_MAX: usize = 75;
const BUTTONS_MAX: usize = 25;

fn refused(word: &str) -> Answer {
    Answer::new(200, json!({ "ok": false, "error": word }))
}

fn done(mut body: Value) -> Answer {
    body["ok"] = json!(true);
    Answer::new(200, body)
}

pub(super) fn answer(state: &mut State, address: SocketAddr, asked: &Asked) -> Answer {
    if asked.method != "POST" {
        return refused("insecure_request");
    }
    if let Some(trigger) = asked.path.strip_prefix("/commands/") {
        return reply(state, trigger, &asked.json);
    }
    let Some(method) = asked.path.strip_prefix("/api/") else { return Answer::new(404, json!({})) };
    let token = asked.header("authorization").and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    let wanted = if method == "apps.connections.open" { APP_TOKEN } else { BOT_TOKEN };
    if token != wanted {
        state.counts.refused_tokens += 1;
        return refused(match token {
            "" => "not_authed",
            APP_TOKEN | BOT_TOKEN => "not_allowed_token_type",
            _ => "invalid_auth",
        });
    }
    if state.faults.failing.0 > 0 {
        state.faults.failing.0 -= 1;
        return Answer::new(state.faults.failing.1, json!({ "ok": false, "error": "the test wants it so" }));
    }
    let is_json = asked.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    if is_json && !asked.json.is_object() {
        return refused("invalid_json");
    }
    let form = asked.form();
    let field = |name: &str| form.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value.as_str());
    match method {
        "auth.test" => {
            done(json!({ "user_id": BOT, "bot_id": "B0BOT", "user": "chela", "team_id": TEAM, "team": "Crew" }))
        }
        "apps.connections.open" => {
            let ticket = state.last_link + 1_000 + state.tickets.len() as u64;
            state.tickets.push(ticket);
            done(json!({ "url": format!("ws://{address}/link/?ticket={ticket}&app_id=A1") }))
        }
        "users.info" if [PERSON, OTHER_PERSON].contains(&field("user")) => {
            let name = if field("user") == PERSON { "Eden" } else { "Seum" };
            done(
                json!({ "user": { "id": field("user"), "name": name.to_lowercase(), "profile": { "display_name": name } } }),
            )
        }
        "users.info" if field("user").starts_with(CROWD) => {
            done(json!({ "user": { "id": field("user"), "name": field("user") } }))
        }
        "users.info" => refused("user_not_found"),
        "conversations.open" => match asked.json["users"].as_str() {
            Some(person @ (PERSON | OTHER_PERSON)) => done(json!({ "channel": { "id": direct_channel(person) } })),
            _ => refused("user_not_found"),
        },
        "conversations.history" => history(state, field("channel"), None, field("oldest")),
        "conversations.replies" => history(state, field("channel"), Some(field("ts")), field("oldest")),
        "chat.postMessage" => post(state, &asked.json),
        "chat.update" => update(state, &asked.json),
        "chat.delete" => match find(state, &asked.json) {
            Some(at) => {
                state.sent[at].deleted = true;
                done(json!({ "ts": state.sent[at].time }))
            }
            None => refused("message_not_found"),
        },
        "views.open" => open_form(state, &asked.json),
        _ => refused("unknown_method"),
    }
}

/// What Slack refuses of the words and the blocks of a message.
fn complaint(body: &Value) -> Option<Answer> {
    let text = body["text"].as_str().unwrap_or_default();
    if text.trim().is_empty() && body["blocks"].is_null() {
        return Some(refused("no_text"));
    }
    if text.chars().count() > TEXT_MAX {
        return Some(refused("msg_too_long"));
    }
    for block in body["blocks"].as_array().into_iter().flatten() {
        let words = block["text"]["text"].as_str().unwrap_or_default().chars().count();
        let elements = block["elements"].as_array().cloned().unwrap_or_default();
        let good_button = |element: &Value| {
            let label = element["text"]["text"].as_str().unwrap_or_default().chars().count();
            element["type"] != "button" || ((1..=LABEL_MAX).contains(&label) && element["action_id"].is_string())
        };
        let good = match block["type"].as_str() {
            Some("section") => (1..=SECTION_MAX).contains(&words),
            Some("actions") => (1..=BUTTONS_MAX).contains(&elements.len()) && elements.iter().all(good_button),
            Some("context") => (1..=10).contains(&elements.len()),
            _ => false,
        };
        if !good {
            return Some(refused("invalid_blocks"));
        }
    }
    let note = &body["metadata"];
    let good_note = note.is_null() || (note["event_type"].is_string() && note["event_payload"].is_object());
    (!good_note).then(|| refused("invalid_metadata_format"))
}

fn post(state: &mut State, body: &Value) -> Answer {
    let channel = body["channel"].as_str().unwrap_or_default().to_owned();
    if !is_channel(&channel) {
        return refused("channel_not_found");
    }
    if state.faults.refusing.0 > 0 {
        state.faults.refusing.0 -= 1;
        return refused(state.faults.refusing.1);
    }
    if let Some(complaint) = complaint(body) {
        return complaint;
    }
    let thread = body["thread_ts"].as_str().map(str::to_owned);
    let is_known = |time: &String| {
        state.people.iter().any(|(place, known)| *place == channel && known == time)
            || state.sent.iter().any(|sent| sent.channel == channel && sent.time == *time)
    };
    if thread.as_ref().is_some_and(|thread| !is_known(thread)) {
        return refused("thread_not_found");
    }
    if let Some(seconds) = state.is_limited(&channel) {
        return Answer::new(429, json!({ "ok": false, "error": "ratelimited" })).with("retry-after", seconds);
    }
    let time = state.next_time();
    let text = body["text"].as_str().unwrap_or_default().to_owned();
    state.sent.push(Sent {
        channel: channel.clone(),
        time: time.clone(),
        thread,
        text,
        body: body.clone(),
        edits: 0,
        deleted: false,
    });
    done(json!({ "channel": channel, "ts": time, "message": { "text": body["text"] } }))
}

fn find(state: &State, body: &Value) -> Option<usize> {
    let (channel, time) = (body["channel"].as_str()?, body["ts"].as_str()?);
    state.sent.iter().position(|sent| sent.channel == channel && sent.time == time && !sent.deleted)
}

fn update(state: &mut State, body: &Value) -> Answer {
    let Some(at) = find(state, body) else { return refused("message_not_found") };
    if let Some(complaint) = complaint(body) {
        return complaint;
    }
    let sent = &mut state.sent[at];
    sent.text = body["text"].as_str().unwrap_or_default().to_owned();
    if !body["blocks"].is_null() {
        sent.body["blocks"] = body["blocks"].clone();
    }
    sent.edits += 1;
    done(json!({ "channel": sent.channel, "ts": sent.time, "text": sent.text }))
}

fn history(state: &State, channel: &str, thread: Option<&str>, oldest: &str) -> Answer {
    if !is_channel(channel) {
        return refused("channel_not_found");
    }
    let within = |sent: &&Sent| {
        sent.channel == channel
            && !sent.deleted
            && sent.time.as_str() >= oldest
            && thread.is_none_or(|thread| sent.thread.as_deref() == Some(thread) || sent.time == thread)
    };
    let shown = |sent: &Sent| json!({ "ts": sent.time, "text": sent.text, "bot_id": "B0BOT", "metadata": sent.body["metadata"] });
    let mut messages: Vec<Value> = state.sent.iter().filter(within).map(shown).collect();
    if thread.is_none() {
        messages.reverse();
    }
    messages.truncate(200);
    done(json!({ "messages": messages, "has_more": false }))
}

fn open_form(state: &mut State, body: &Value) -> Answer {
    let trigger = body["trigger_id"].as_str().unwrap_or_default();
    let Some(at) = state.triggers.iter().position(|known| known == trigger) else {
        return refused("expired_trigger_id");
    };
    state.triggers.remove(at);
    let view = &body["view"];
    let good = view["type"] == "modal"
        && view["callback_id"].is_string()
        && view["title"]["text"].as_str().is_some_and(|title| (1..=24).contains(&title.chars().count()))
        && view["private_metadata"].as_str().is_none_or(|about| about.len() <= 3_000)
        && view["blocks"].as_array().is_some_and(|blocks| !blocks.is_empty());
    if !good {
        return refused("invalid_arguments");
    }
    state.forms.push(view.clone());
    done(json!({ "view": { "id": "V1" } }))
}

/// An address for replies to a command: five of them.
fn reply(state: &mut State, trigger: &str, body: &Value) -> Answer {
    if let Some(complaint) = complaint(body) {
        return complaint;
    }
    match state.replies.get_mut(trigger).filter(|replies| replies.len() < 6) {
        Some(replies) => {
            replies.push(body.clone());
            Answer::new(200, json!("ok"))
        }
        None => Answer::new(404, json!({ "ok": false, "error": "expired_url" })),
    }
}
