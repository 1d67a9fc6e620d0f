//! The methods of the Bot API: refusals in Telegram's words and codes.

use serde_json::{Value, json};

use super::world::{Sent, State, chat, me};
use super::{FORUM, TOKEN, TOPIC};
use crate::net::{Answer, Asked};

const TEXT_MAX: usize = 4_096;
const DATA_MAX: usize = 64;

pub(super) fn refused(status: u16, said: &str) -> Answer {
    Answer::new(status, json!({ "ok": false, "error_code": status, "description": said }))
}

fn done(result: Value) -> Answer {
    Answer::new(200, json!({ "ok": true, "result": result }))
}

/// The method of a request with the right token, or the refusal.
pub(super) fn method_of(asked: &Asked) -> Result<String, (u16, &'static str)> {
    let rest = asked.path.strip_prefix("/bot").ok_or((404, "Not Found"))?;
    let (token, method) = rest.split_once('/').ok_or((404, "Not Found"))?;
    if token != TOKEN {
        let is_token = token.split_once(':').is_some_and(|(id, _)| id.parse::<u64>().is_ok());
        return Err(if is_token { (401, "Unauthorized") } else { (404, "Not Found") });
    }
    let is_json = asked.header("content-type") == Some("application/json") && asked.json.is_object();
    if !asked.bytes.is_empty() && !is_json {
        return Err((400, "Bad Request: can't parse JSON object"));
    }
    Ok(method.to_owned())
}

pub(super) fn answer(state: &mut State, method: &str, asked: &Asked) -> Answer {
    if state.faults.failing.0 > 0 {
        state.faults.failing.0 -= 1;
        return refused(state.faults.failing.1, "the test wants it so");
    }
    let body = &asked.json;
    match method {
        "getMe" => done(me()),
        "deleteWebhook" => {
            state.webhook = false;
            done(json!(true))
        }
        "setMyCommands" => set_commands(state, body),
        "sendMessage" => send(state, body),
        "editMessageText" => edit(state, body, true),
        "editMessageReplyMarkup" => edit(state, body, false),
        "deleteMessage" => match find(state, body) {
            Some(at) => {
                state.sent[at].deleted = true;
                done(json!(true))
            }
            None => refused(400, "Bad Request: message to delete not found"),
        },
        "answerCallbackQuery" => {
            let id = body["callback_query_id"].as_str().unwrap_or_default();
            match state.presses.get_mut(id) {
                Some(shown @ None) => {
                    *shown = Some(body["text"].as_str().unwrap_or_default().to_owned());
                    done(json!(true))
                }
                _ => refused(400, "Bad Request: query is too old and response timeout expired or query ID is invalid"),
            }
        }
        "sendChatAction" => match body["chat_id"].as_i64().filter(|id| !chat(*id).is_null()) {
            Some(id) if body["action"] == "typing" => {
                state.typed.push(id);
                done(json!(true))
            }
            Some(_) => refused(400, "Bad Request: wrong parameter action in request"),
            None => refused(400, "Bad Request: chat not found"),
        },
        _ => refused(404, "Not Found"),
    }
}

fn set_commands(state: &mut State, body: &Value) -> Answer {
    let commands = body["commands"].as_array().cloned().unwrap_or_default();
    let good = |command: &Value| {
        let name = command["command"].as_str().unwrap_or_default();
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let told = command["description"].as_str().unwrap_or_default().chars().count();
        (1..=32).contains(&name.len()) && name.chars().all(letters) && (1..=256).contains(&told)
    };
    if commands.is_empty() || commands.len() > 100 || !commands.iter().all(good) {
        return refused(400, "Bad Request: BOT_COMMAND_INVALID");
    }
    state.counts.commands_set += 1;
    done(json!(true))
}

/// What Telegram refuses of the words of a message and of what stands below it.
fn complaint(body: &Value) -> Option<Answer> {
    let text = body["text"].as_str().unwrap_or_default();
    if text.trim().is_empty() {
        return Some(refused(400, "Bad Request: message text is empty"));
    }
    let units = text.encode_utf16().count();
    if units > TEXT_MAX {
        return Some(refused(400, "Bad Request: message is too long"));
    }
    for entity in body["entities"].as_array().into_iter().flatten() {
        let (offset, length) = (entity["offset"].as_u64(), entity["length"].as_u64());
        let fits = offset.zip(length).is_some_and(|(offset, length)| length > 0 && (offset + length) as usize <= units);
        let known = ["bold", "code", "pre", "text_link", "strikethrough"]
            .contains(&entity["type"].as_str().unwrap_or_default());
        if !fits || !known {
            return Some(refused(400, "Bad Request: can't parse entities"));
        }
    }
    buttons_complaint(body)
}

fn buttons_complaint(body: &Value) -> Option<Answer> {
    let rows = body["reply_markup"]["inline_keyboard"].as_array().into_iter().flatten();
    for button in rows.flat_map(|row| row.as_array().into_iter().flatten()) {
        let data = button["callback_data"].as_str().unwrap_or_default().len();
        if !(1..=DATA_MAX).contains(&data) || button["text"].as_str().unwrap_or_default().is_empty() {
            return Some(refused(400, "Bad Request: BUTTON_DATA_INVALID"));
        }
    }
    None
}

/// The chat of a request, or why there is none to write to.
fn open_chat(state: &State, body: &Value) -> Result<i64, Answer> {
    let Some(id) = body["chat_id"].as_i64() else { return Err(refused(400, "Bad Request: chat_id is empty")) };
    if let Some(to) = state.moved.get(&id) {
        let said = "Bad Request: group chat was upgraded to a supergroup chat";
        let body =
            json!({ "ok": false, "error_code": 400, "description": said, "parameters": { "migrate_to_chat_id": to } });
        return Err(Answer::new(400, body));
    }
    if chat(id).is_null() {
        return Err(refused(400, "Bad Request: chat not found"));
    }
    if state.blocked.contains(&id) {
        return Err(refused(403, "Forbidden: bot was blocked by the user"));
    }
    Ok(id)
}

fn send(state: &mut State, body: &Value) -> Answer {
    let id = match open_chat(state, body) {
        Ok(id) => id,
        Err(refusal) => return refusal,
    };
    let topic = body["message_thread_id"].as_i64();
    if topic.is_some_and(|topic| id != FORUM || topic != TOPIC) {
        return refused(400, "Bad Request: message thread not found");
    }
    if let Some(complaint) = complaint(body) {
        return complaint;
    }
    let reply = &body["reply_parameters"];
    if let Some(to) = reply["message_id"].as_i64() {
        let known =
            state.people.contains(&(id, to)) || state.sent.iter().any(|sent| sent.number == to && sent.chat == id);
        if !known && reply["allow_sending_without_reply"] != true {
            return refused(400, "Bad Request: message to be replied not found");
        }
    }
    if let Some(seconds) = state.is_limited(id) {
        let said = format!("Too Many Requests: retry after {seconds}");
        let body =
            json!({ "ok": false, "error_code": 429, "description": said, "parameters": { "retry_after": seconds } });
        return Answer::new(429, body).with("retry-after", seconds);
    }
    let number = state.next_message(id);
    let text = body["text"].as_str().unwrap_or_default().to_owned();
    let sent = Sent {
        number,
        chat: id,
        topic,
        text,
        body: body.clone(),
        markup: body["reply_markup"].clone(),
        edits: 0,
        deleted: false,
    };
    let shown = shown(&sent);
    state.sent.push(sent);
    done(shown)
}

fn shown(sent: &Sent) -> Value {
    json!({ "message_id": sent.number, "date": 1_700_000_000, "chat": chat(sent.chat), "from": me(), "text": sent.text,
        "reply_markup": sent.markup })
}

fn find(state: &State, body: &Value) -> Option<usize> {
    let (chat, number) = (body["chat_id"].as_i64()?, body["message_id"].as_i64()?);
    state.sent.iter().position(|sent| sent.chat == chat && sent.number == number && !sent.deleted)
}

/// A keyboard without buttons is none.
fn shown_below(markup: &Value) -> Option<&Value> {
    markup.as_object().map(|_| markup).filter(|markup| markup["inline_keyboard"] != json!([]))
}

fn edit(state: &mut State, body: &Value, words: bool) -> Answer {
    let chat = match open_chat(state, body) {
        Ok(chat) => chat,
        Err(refusal) => return refusal,
    };
    let Some(number) = body["message_id"].as_i64().filter(|number| *number > 0) else {
        return refused(400, "Bad Request: message identifier is not specified");
    };
    if state.people.contains(&(chat, number)) {
        return refused(400, "Bad Request: message can't be edited");
    }
    let Some(at) = find(state, body) else { return refused(400, "Bad Request: message to edit not found") };
    if let Some(complaint) = if words { complaint(body) } else { buttons_complaint(body) } {
        return complaint;
    }
    if !state.sent[at].markup.is_null() && !state.sent[at].markup["inline_keyboard"].is_array() {
        return refused(400, "Bad Request: message can't be edited");
    }
    if !body["reply_markup"].is_null() && !body["reply_markup"]["inline_keyboard"].is_array() {
        return refused(400, "Bad Request: inline keyboard expected");
    }
    let sent = &mut state.sent[at];
    let text = if words { body["text"].as_str().unwrap_or_default().to_owned() } else { sent.text.clone() };
    let markup = body["reply_markup"].clone();
    if text == sent.text && shown_below(&markup) == shown_below(&sent.markup) {
        let said = "Bad Request: message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message";
        return refused(400, said);
    }
    (sent.text, sent.markup) = (text, markup);
    sent.edits += 1;
    let shown = shown(sent);
    done(shown)
}
