//! The Telegram of the tests refuses what Telegram refuses: a client that misbehaves is told so in Telegram's words.

use serde_json::{Value, json};
use support::RawHttp;
use support::telegram::{FEW, FORUM, GROUP, OTHER_PERSON, PERSON, Said, TOKEN, TOPIC, Telegram};

/// One request; its status and its body.
fn ask(telegram: &Telegram, token: &str, method: &str, body: &Value) -> (u16, Value) {
    let body = body.to_string();
    let request = format!(
        "POST /bot{token}/{method} HTTP/1.1\r\nhost: telegram\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = RawHttp::connect(telegram.address()).send(request).read_to_end();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn check(method: &str, body: Value, status: u16, said: &str) {
    let telegram = Telegram::start();
    let (found, answer) = ask(&telegram, TOKEN, method, &body);
    let words = answer["description"].as_str().unwrap_or_default();
    assert!(found == status && words.contains(said), "{method} {body}: {found} {answer}");
    assert_eq!(answer["ok"] == true, status == 200);
}

#[test]
fn tokens_and_methods_that_are_none_are_refused() {
    let telegram = Telegram::start();
    assert_eq!(ask(&telegram, "701:other", "getMe", &json!({})).0, 401);
    assert_eq!(ask(&telegram, "nonsense", "getMe", &json!({})).0, 404);
    assert_eq!(ask(&telegram, TOKEN, "getNothing", &json!({})).0, 404);
    assert_eq!(ask(&telegram, TOKEN, "getMe", &json!({})).1["result"]["username"], "chela_bot");
}

#[test]
fn messages_are_refused_for_what_telegram_refuses_them_for() {
    let to = |chat: i64, text: &str| json!({ "chat_id": chat, "text": text });
    check("sendMessage", to(GROUP, "hello"), 200, "");
    check("sendMessage", to(-1, "hello"), 400, "chat not found");
    check("sendMessage", to(GROUP, " "), 400, "message text is empty");
    check("sendMessage", to(GROUP, &"😀".repeat(2_048)), 200, "");
    check("sendMessage", to(GROUP, &"😀".repeat(2_049)), 400, "message is too long");
    let mut topic = to(FORUM, "x");
    topic["message_thread_id"] = json!(TOPIC);
    check("sendMessage", topic.clone(), 200, "");
    topic["message_thread_id"] = json!(1);
    check("sendMessage", topic, 400, "message thread not found");
    let mut reply = to(GROUP, "x");
    reply["reply_parameters"] = json!({ "message_id": 5 });
    check("sendMessage", reply, 400, "message to be replied not found");
    let mut marked = to(GROUP, "x");
    marked["entities"] = json!([{ "type": "bold", "offset": 0, "length": 2 }]);
    check("sendMessage", marked, 400, "can't parse entities");
    let mut button = to(GROUP, "x");
    button["reply_markup"] = json!({ "inline_keyboard": [[{ "text": "a", "callback_data": "x".repeat(65) }]] });
    check("sendMessage", button, 400, "BUTTON_DATA_INVALID");
    check(
        "editMessageText",
        json!({ "chat_id": GROUP, "message_id": 1, "text": "x" }),
        400,
        "message to edit not found",
    );
    check("deleteMessage", json!({ "chat_id": GROUP, "message_id": 1 }), 400, "message to delete not found");
    check("answerCallbackQuery", json!({ "callback_query_id": "1" }), 400, "query is too old");
    check(
        "setMyCommands",
        json!({ "commands": [{ "command": "Ask!", "description": "x" }] }),
        400,
        "BOT_COMMAND_INVALID",
    );
}

#[test]
fn an_update_comes_until_it_is_confirmed_and_only_one_poll_has_it() {
    let telegram = Telegram::start();
    telegram.say(Said::direct("one"));
    telegram.say(Said::direct("two"));
    let poll = |body: Value| ask(&telegram, TOKEN, "getUpdates", &body);
    let first = poll(json!({ "limit": 1 })).1["result"].clone();
    assert_eq!(first.as_array().map(Vec::len), Some(1));
    assert_eq!(poll(json!({})).1["result"].as_array().map(Vec::len), Some(2), "not confirmed yet");
    let next = first[0]["update_id"].as_i64().expect("a number") + 1;
    let rest = poll(json!({ "offset": next })).1["result"].clone();
    assert_eq!((rest[0]["message"]["text"].as_str(), telegram.unconfirmed()), (Some("two"), 1));
    assert_eq!(poll(json!({ "offset": next + 1, "timeout": 1 })).1["result"], json!([]));
    assert_eq!(poll(json!({ "limit": 0 })).0, 400);
    telegram.conflict_next(1);
    assert_eq!(poll(json!({})).0, 409);
    telegram.set_webhook();
    assert!(poll(json!({})).1["description"].as_str().is_some_and(|said| said.contains("webhook is active")));
    assert_eq!(ask(&telegram, TOKEN, "deleteWebhook", &json!({})).0, 200);
    assert_eq!(poll(json!({})).0, 200);
}

#[test]
fn what_is_too_much_waits_and_what_is_the_same_is_not_modified() {
    let telegram = Telegram::start();
    telegram.limit(1);
    let hello = json!({ "chat_id": PERSON, "text": "hello" });
    let sent = ask(&telegram, TOKEN, "sendMessage", &hello).1;
    let (status, answer) = ask(&telegram, TOKEN, "sendMessage", &hello);
    assert_eq!((status, &answer["parameters"]["retry_after"]), (429, &json!(1)));
    let same = json!({ "chat_id": PERSON, "message_id": sent["result"]["message_id"], "text": "hello" });
    let (status, answer) = ask(&telegram, TOKEN, "editMessageText", &same);
    assert!(
        status == 400 && answer["description"].as_str().is_some_and(|said| said.contains("not modified")),
        "{answer}"
    );
    assert_eq!(telegram.counts().limited, 1);
}

#[test]
fn a_supergroup_counts_its_messages_and_private_chats_and_basic_groups_are_counted_together() {
    let telegram = Telegram::start();
    let send = |chat: i64| {
        let sent = ask(&telegram, TOKEN, "sendMessage", &json!({ "chat_id": chat, "text": "x" })).1;
        sent["result"]["message_id"].as_i64().expect("a number")
    };
    let first = send(PERSON);
    assert_eq!(telegram.say(Said::among_few("hello")), first + 1);
    assert_eq!((send(FEW), send(OTHER_PERSON)), (first + 2, first + 3));
    let own = telegram.say(Said::here("hello"));
    assert_eq!((send(GROUP), send(GROUP), send(PERSON)), (own + 1, own + 2, first + 4));
    assert_eq!(send(FORUM), own, "it has a count of its own");
}

#[test]
fn only_a_message_of_the_bot_in_that_chat_is_edited_and_only_to_something_else() {
    let telegram = Telegram::start();
    let buttons = json!({ "inline_keyboard": [[{ "text": "a", "callback_data": "x" }]] });
    let hello = json!({ "chat_id": PERSON, "text": "hello", "reply_markup": buttons });
    let number = ask(&telegram, TOKEN, "sendMessage", &hello).1["result"]["message_id"].as_i64().expect("a number");
    let theirs = telegram.say(Said::direct("hello"));
    let check = |chat: i64, number: i64, markup: &Value, status: u16, said: &str| {
        let mut body = json!({ "chat_id": chat, "message_id": number });
        if !markup.is_null() {
            body["reply_markup"] = markup.clone();
        }
        let (found, answer) = ask(&telegram, TOKEN, "editMessageReplyMarkup", &body);
        let words = answer["description"].as_str().unwrap_or_default();
        assert!(found == status && words.contains(said), "{body}: {found} {answer}");
    };
    check(PERSON, number, &buttons, 400, "message is not modified");
    check(PERSON, theirs, &buttons, 400, "message can't be edited");
    check(PERSON, theirs + 1, &buttons, 400, "message to edit not found");
    check(OTHER_PERSON, number, &buttons, 400, "message to edit not found");
    check(PERSON, 0, &buttons, 400, "message identifier is not specified");
    check(-404, number, &buttons, 400, "chat not found");
    check(PERSON, number, &Value::Null, 200, "");
    check(PERSON, number, &Value::Null, 400, "message is not modified");
    check(PERSON, number, &json!({ "inline_keyboard": [] }), 400, "message is not modified");
    let sent = telegram.sent();
    assert_eq!((sent[0].text.as_str(), sent[0].edits), ("hello", 1));
    telegram.block(PERSON);
    check(PERSON, number, &Value::Null, 403, "blocked by the user");
}
