//! The REST interface: routes, refusals in Discord's words and codes, messages made once for a nonce.

use std::time::Duration;

use serde_json::{Value, json};

use super::http::{Answer, Asked};
use super::limits::Allowed;
use super::world::{Event, Sent, State, channel, direct_channel};
use super::{APPLICATION, OTHER_PERSON, PERSON, Setup, TOKEN};

const CONTENT_MAX: usize = 2_000;
const NONCE_MAX: usize = 25;
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
const TOKEN_GOOD: Duration = Duration::from_secs(15 * 60);

fn refused(status: u16, code: u64, message: &str) -> Answer {
    Answer::new(status, json!({ "message": message, "code": code }))
}

fn not_found() -> Answer {
    refused(404, 0, "404: Not Found")
}

/// A body that is not as it must be: where, and Discord's name for it.
fn invalid(field: &str, code: &str, message: &str) -> Answer {
    let errors = json!({ field: { "_errors": [{ "code": code, "message": message }] } });
    Answer::new(400, json!({ "message": "Invalid Form Body", "code": 50_035, "errors": errors }))
}

pub(super) fn answer(setup: &Setup, state: &mut State, asked: &Asked) -> Answer {
    let path = asked.path.split('?').next().unwrap_or_default();
    let Some(path) = path.strip_prefix("/api/v10/") else { return not_found() };
    let parts: Vec<&str> = path.split('/').collect();
    // An interaction's own token opens these; all others need the bot's.
    let is_interaction = matches!(parts.first(), Some(&("interactions" | "webhooks")));
    if !is_interaction && asked.header("authorization") != Some(&format!("Bot {TOKEN}")) {
        return refused(401, 0, "401: Unauthorized");
    }
    if !asked.header("user-agent").is_some_and(|agent| agent.starts_with("DiscordBot (")) {
        return refused(403, 40_333, "internal network error");
    }
    if !asked.bytes.is_empty() {
        if asked.header("content-type") != Some("application/json") {
            return invalid("_", "CONTENT_TYPE_INVALID", "Expected \"Content-Type\" header to be application/json.");
        }
        if asked.json.is_null() {
            return refused(400, 50_109, "The request body contains invalid JSON.");
        }
    }
    let is_message = asked.method == "POST" && path.ends_with("/messages");
    if is_message && std::mem::take(&mut state.faults.echoing) {
        return refused(403, 50_001, &format!("Missing Access for Bot {TOKEN}"));
    }
    if state.faults.failing.0 > 0 {
        state.faults.failing.0 -= 1;
        return refused(state.faults.failing.1, 0, "the test wants it so");
    }
    let (bucket, most, length) = match (asked.method.as_str(), parts.as_slice()) {
        ("POST", ["channels", _, "messages"]) => ("messages", setup.messages.0, setup.messages.1),
        ("POST", ["channels", _, "typing"]) => ("typing", 5, Duration::from_secs(5)),
        _ => ("others", 1_000, Duration::from_secs(1)),
    };
    let global = (!is_interaction).then_some(setup.global_a_second);
    let major = parts.get(1).copied().unwrap_or_default();
    let headers = match state.limits.take(&Allowed { bucket, major, most, length, global }) {
        Ok(headers) => headers,
        Err(refusal) => {
            state.counts.limited += 1;
            return *refusal;
        }
    };
    let mut answer = route(setup, state, asked, &parts);
    answer.headers.extend(headers);
    answer
}

fn route(setup: &Setup, state: &mut State, asked: &Asked, parts: &[&str]) -> Answer {
    let body = &asked.json;
    match (asked.method.as_str(), parts) {
        ("GET", ["gateway", "bot"]) => Answer::new(200, json!({ "shards": 1 })),
        ("POST", ["users", "@me", "channels"]) => open_direct(body),
        ("PUT", ["applications", application, "commands"]) => set_commands(state, application, body),
        ("POST", ["interactions", id, token, "callback"]) => callback(state, id, token, body),
        (method, ["webhooks", application, token, rest @ ..]) => webhook(state, method, application, token, rest, body),
        (method, ["channels", id, rest @ ..]) => {
            let Some(id) = id.parse().ok().filter(|id| !channel(*id).is_null()) else {
                return refused(404, 10_003, "Unknown Channel");
            };
            of_channel(setup, state, method, id, rest, body)
        }
        _ => not_found(),
    }
}

fn of_channel(setup: &Setup, state: &mut State, method: &str, id: u64, rest: &[&str], body: &Value) -> Answer {
    match (method, rest) {
        ("GET", []) => Answer::new(200, channel(id)),
        ("POST", ["typing"]) => {
            state.typed.push(id);
            Answer::new(204, Value::Null)
        }
        ("POST", ["messages"]) => create(setup, state, id, body),
        ("PATCH", ["messages", message]) => match find(state, id, message) {
            Ok(at) => complaint(body, false).unwrap_or_else(|| edit(state, at, body)),
            Err(refusal) => *refusal,
        },
        ("DELETE", ["messages", message]) => match find(state, id, message) {
            Ok(at) => {
                state.sent[at].deleted = true;
                Answer::new(204, Value::Null)
            }
            Err(refusal) => *refusal,
        },
        _ => not_found(),
    }
}

/// The place of a message of the bot.
fn find(state: &State, channel: u64, message: &str) -> Result<usize, Box<Answer>> {
    let id: Option<u64> = message.parse().ok();
    let of_bot = |sent: &Sent| Some(sent.id) == id && sent.channel == channel && !sent.deleted;
    if let Some(at) = state.sent.iter().position(of_bot) {
        return Ok(at);
    }
    let is_other = id.is_some_and(|id| state.people.get(&id).is_some_and(|at| *at == channel.to_string()));
    Err(Box::new(match is_other {
        true => refused(403, 50_005, "Cannot edit a message authored by another user"),
        false => refused(404, 10_008, "Unknown Message"),
    }))
}

/// What Discord refuses of a message's body.
fn complaint(body: &Value, is_new: bool) -> Option<Answer> {
    let Some(content) = body["content"].as_str() else {
        return is_new.then(|| refused(400, 50_006, "Cannot send an empty message"));
    };
    if content.trim().is_empty() {
        return Some(refused(400, 50_006, "Cannot send an empty message"));
    }
    if content.chars().count() > CONTENT_MAX {
        return Some(invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be 2000 or fewer in length."));
    }
    if let Some(nonce) = body.get("nonce") {
        let fits = nonce.is_u64() || nonce.as_str().is_some_and(|nonce| nonce.chars().count() <= NONCE_MAX);
        if !fits {
            return Some(invalid("nonce", "NONCE_TYPE_TOO_LONG", "Must be 25 or fewer in length."));
        }
    }
    let mentions = &body["allowed_mentions"];
    let parse: Vec<&str> = mentions["parse"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if parse.iter().any(|kind| !matches!(*kind, "users" | "roles" | "everyone")) {
        return Some(invalid("allowed_mentions", "BASE_TYPE_CHOICES", "Value must be one of users, roles, everyone."));
    }
    complaint_of_components(&body["components"])
}

fn complaint_of_components(components: &Value) -> Option<Answer> {
    let bad = |message: &str| Some(invalid("components", "COMPONENT_INVALID", message));
    let rows = components.as_array().into_iter().flatten();
    let mut ids = Vec::new();
    for (nth, row) in rows.enumerate() {
        let buttons = row["components"].as_array().cloned().unwrap_or_default();
        if nth >= 5 || row["type"] != 1 || buttons.is_empty() || buttons.len() > 5 {
            return bad("at most five rows of one to five components");
        }
        for button in buttons {
            let id = button["custom_id"].as_str().unwrap_or_default().to_owned();
            let label = button["label"].as_str().unwrap_or_default().chars().count();
            let fits = (1..=100).contains(&id.chars().count()) && (1..=80).contains(&label);
            if button["type"] != 2 || !(1..=4).contains(&button["style"].as_u64().unwrap_or(0)) || !fits {
                return bad("a button has a style, a label and a custom_id");
            }
            if ids.contains(&id) {
                return bad("Component custom id cannot be duplicated");
            }
            ids.push(id);
        }
    }
    None
}

fn create(setup: &Setup, state: &mut State, channel: u64, body: &Value) -> Answer {
    if let Some(refusal) = complaint(body, true) {
        return refusal;
    }
    let reference = &body["message_reference"];
    if let Some(to) = reference["message_id"].as_str() {
        let known = to.parse().ok().filter(|id| {
            state.people.contains_key(id) || state.sent.iter().any(|sent| sent.id == *id && !sent.deleted)
        });
        if known.is_none() && reference["fail_if_not_exists"] != false {
            return invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message");
        }
    }
    let nonce = body["nonce"].as_str().map(str::to_owned);
    if let Some(nonce) = &nonce {
        *state.counts.by_nonce.entry(nonce.clone()).or_default() += 1;
        let before = state.nonces.get(nonce).filter(|_| body["enforce_nonce"] == true);
        let before = before.filter(|(_, at)| at.elapsed() < setup.nonces_for).map(|(id, _)| *id);
        if let Some(sent) = before.and_then(|id| state.sent.iter().find(|sent| sent.id == id)) {
            return Answer::new(200, sent.as_message());
        }
    }
    let id = state.next_id();
    if let Some(nonce) = nonce {
        state.nonces.insert(nonce, (id, std::time::Instant::now()));
    }
    let text = body["content"].as_str().unwrap_or_default().to_owned();
    let sent = Sent { id, channel, text, body: body.clone(), edits: 0, deleted: false, at: std::time::Instant::now() };
    let mut message = sent.as_message();
    state.sent.push(sent);
    let shown = super::world::channel(channel);
    if let Some(guild) = shown["guild_id"].as_str() {
        message["guild_id"] = json!(guild);
    }
    // The bot hears its own words too.
    state.dispatch(setup, Event::Message, "MESSAGE_CREATE", message.clone());
    Answer::new(200, message)
}

fn edit(state: &mut State, at: usize, body: &Value) -> Answer {
    let sent = &mut state.sent[at];
    if let Some(content) = body["content"].as_str() {
        sent.text = content.to_owned();
    }
    if !body["components"].is_null() {
        sent.body["components"] = body["components"].clone();
    }
    sent.edits += 1;
    Answer::new(200, sent.as_message())
}

fn open_direct(body: &Value) -> Answer {
    match body["recipient_id"].as_str().and_then(|id| id.parse().ok()) {
        Some(person @ (PERSON | OTHER_PERSON)) => Answer::new(200, channel(direct_channel(person))),
        Some(_) => refused(400, 50_033, "Invalid Recipient(s)"),
        None => invalid("recipient_id", "BASE_TYPE_REQUIRED", "This field is required"),
    }
}

fn set_commands(state: &mut State, application: &str, body: &Value) -> Answer {
    if application != APPLICATION.to_string() {
        return refused(404, 10_002, "Unknown Application");
    }
    let is_name = |name: &str| {
        (1..=32).contains(&name.chars().count()) && name.chars().all(|c| c.is_ascii_lowercase() || c == '-')
    };
    let bad = |item: &Value| {
        let description = item["description"].as_str().unwrap_or_default().chars().count();
        !item["name"].as_str().is_some_and(is_name) || !(1..=100).contains(&description)
    };
    let commands = body.as_array().cloned().unwrap_or_default();
    let mut items = commands
        .iter()
        .flat_map(|command| std::iter::once(command).chain(command["options"].as_array().into_iter().flatten()));
    if !body.is_array() || items.any(bad) {
        return invalid("0", "APPLICATION_COMMAND_INVALID_NAME", "Command name is invalid");
    }
    state.commands = body.clone();
    Answer::new(200, body.clone())
}

fn callback(state: &mut State, id: &str, token: &str, body: &Value) -> Answer {
    let found = state.interactions.iter().position(|acted| acted.id.to_string() == id && acted.token == token);
    let Some(at) = found.filter(|at| state.interactions[*at].age() <= ANSWER_WITHIN) else {
        return refused(404, 10_062, "Unknown interaction");
    };
    if state.interactions[at].callback.is_some() {
        return refused(400, 40_060, "Interaction has already been acknowledged.");
    }
    let kind = body["type"].as_u64().unwrap_or(0);
    let data = &body["data"];
    let refusal = match kind {
        4 => complaint(data, true),
        5 | 6 => None,
        7 => complaint(data, false),
        9 if data["custom_id"].is_string() && data["title"].is_string() && data["components"].is_array() => None,
        _ => Some(invalid("type", "BASE_TYPE_CHOICES", "Value must be one of 1, 4, 5, 6, 7, 8, 9, 10, 12.")),
    };
    if let Some(refusal) = refusal {
        return refusal;
    }
    state.interactions[at].callback = Some(body.clone());
    if kind == 4 {
        state.interactions[at].original = Some(data.clone());
    }
    Answer::new(204, Value::Null)
}

fn webhook(state: &mut State, method: &str, application: &str, token: &str, rest: &[&str], body: &Value) -> Answer {
    let good = |acted: &super::world::Acted| acted.token == token && acted.age() <= TOKEN_GOOD;
    let found = state.interactions.iter().position(good).filter(|_| application == APPLICATION.to_string());
    let Some(at) = found else { return refused(404, 10_015, "Unknown Webhook") };
    if state.interactions[at].callback.is_none() {
        return refused(404, 10_015, "Unknown Webhook");
    }
    if let Some(refusal) = complaint(body, true) {
        return refusal;
    }
    let id = state.next_id();
    let message = json!({ "id": id.to_string(), "content": body["content"] });
    match (method, rest) {
        ("PATCH", ["messages", "@original"]) => state.interactions[at].original = Some(body.clone()),
        ("POST", []) => state.interactions[at].followups.push(body.clone()),
        _ => return not_found(),
    }
    Answer::new(200, message)
}
