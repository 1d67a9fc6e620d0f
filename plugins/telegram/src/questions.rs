//! Questions to people: a button for each choice, and what follows when one is pressed.
//! Keeps true: a press is taken once, from those who are listened to; its buttons go with it.

use chela_sdk::channel::{Asked, Kind, Turn, wire};
use serde_json::{Value, json};

use crate::bot::Purpose;
use crate::inbound::Message;
use crate::machine::Machine;
use crate::place::{Place, message_name};

/// What our buttons carry: the choice's number and the question's id, or that words of their own are wanted.
const CHOICE: &str = "choice:";
const OWN_WORDS: &str = "words:";
/// Telegram's limit, in bytes.
const DATA_MAX: usize = 64;
const LABEL_MAX: usize = 60;
const BUTTONS_MAX: usize = 24;

/// The buttons below a question: its choices, and one that says how to answer in words of their own. None when its id is too long for one.
/// Buttons rather than a field for a reply: Telegram lets only a message with buttons or with nothing below it be changed, as it must be
/// once the question is over.
pub fn markup(asked: &Asked) -> Option<Value> {
    if asked.id.is_empty() || format!("{CHOICE}{BUTTONS_MAX}:{}", asked.id).len() > DATA_MAX {
        return None;
    }
    let labels = asked.choices.iter().map(|choice| wire::shortened(&wire::name(choice), LABEL_MAX));
    let labels = labels.filter(|label| !label.is_empty()).take(BUTTONS_MAX - 1);
    let button = |label: String, data: String| json!([{ "text": label, "callback_data": data }]);
    let mut rows: Vec<Value> =
        labels.enumerate().map(|(nth, label)| button(label, format!("{CHOICE}{nth}:{}", asked.id))).collect();
    let words = if rows.is_empty() { "Answer" } else { "Other…" };
    rows.push(button(words.into(), format!("{OWN_WORDS}{}", asked.id)));
    Some(json!({ "inline_keyboard": rows }))
}

/// The words on the button that carries this, as the message shows them.
fn label_of(message: &Value, data: &str) -> Option<String> {
    let rows = wire::list(&message["reply_markup"]["inline_keyboard"], BUTTONS_MAX);
    let mut buttons = rows.flat_map(|row| wire::list(row, 8));
    let pressed = buttons.find(|button| button["callback_data"] == data)?;
    Some(wire::name(wire::text(&pressed["text"]))).filter(|label| !label.is_empty())
}

impl Machine {
    /// A person has pressed a button.
    pub fn callback(&mut self, turn: &mut Turn, query: &Value) {
        let id = wire::name(wire::text(&query["id"]));
        let (message, data) = (&query["message"], wire::text(&query["data"]));
        let numbers = (message["chat"]["id"].as_i64(), message["message_id"].as_i64(), query["from"]["id"].as_i64());
        let (Some(chat), Some(number), Some(sender)) = numbers else { return };
        let named = format!("callback.{id}");
        if id.is_empty() || !self.state.seen.is_new(&named) {
            return;
        }
        let question =
            data.strip_prefix(OWN_WORDS).or_else(|| data.strip_prefix(CHOICE)?.split_once(':').map(|it| it.1));
        if let Some(question) = question {
            self.pressed(turn, chat, number, question);
        }
        let is_direct = message["chat"]["type"] == "private";
        let chosen = data.strip_prefix(CHOICE).and_then(|rest| rest.split_once(':')).map(|(_, id)| id.to_owned());
        let heard = self.hears(sender, query["from"]["is_bot"] == true, chat, is_direct);
        let (said, answer) = match (heard, chosen.zip(label_of(message, data))) {
            (false, _) => ("This bot does not take that from you here.", None),
            (true, _) if data.starts_with(OWN_WORDS) => ("Reply to this message with your answer.", None),
            (true, None) => ("This button is over.", None),
            (true, Some(answer)) => ("Passed on.", Some(answer)),
        };
        let body = json!({ "callback_query_id": id, "text": said, "show_alert": answer.is_none() });
        self.ask(turn, Purpose::Notice, chat, "answerCallbackQuery", &body);
        turn.changed();
        let Some((question, label)) = answer else { return };
        // Nobody is to answer again.
        let none = json!({ "chat_id": chat, "message_id": number, "reply_markup": { "inline_keyboard": [] } });
        self.ask(turn, Purpose::Tidy, chat, "editMessageReplyMarkup", &none);
        let topic = message["message_thread_id"].as_i64().filter(|_| message["is_topic_message"] == true);
        let pressed = Message {
            name: named,
            number,
            place: Place { chat, topic },
            is_direct,
            space: wire::name(wire::text(&message["chat"]["title"])),
            sender,
            sender_name: crate::inbound::person(&query["from"]),
            addressed: true,
            agent: String::new(),
            text: label,
            reply_to: message_name(chat, number),
        };
        self.pass_on(turn, pressed, Kind::Answer(question));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(id: &str, choices: &[&str]) -> Asked {
        Asked { id: id.into(), choices: choices.iter().map(|choice| (*choice).to_owned()).collect() }
    }

    fn labels(id: &str, choices: &[&str]) -> Option<Vec<String>> {
        let rows = markup(&asked(id, choices))?["inline_keyboard"].as_array().cloned()?;
        Some(rows.iter().map(|row| row[0]["text"].as_str().unwrap_or_default().to_owned()).collect())
    }

    #[test]
    fn choices_are_buttons_within_telegrams_limits() {
        assert_eq!(labels("q-1", &["Yes", "", "No\nway"]).expect("buttons"), ["Yes", "No way", "Other…"]);
        let shown = markup(&asked("q-1", &["Yes"])).expect("buttons");
        assert_eq!(shown["inline_keyboard"][0][0]["callback_data"], "choice:0:q-1");
        assert_eq!(labels("0192f0c4-7f1e-7c3a-9d55-3f2b1a0c9e88", &[]).expect("ids of the host fit"), ["Answer"]);
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(labels("q", &many).map(|labels| labels.len()), Some(BUTTONS_MAX));
        assert_eq!(labels(&"x".repeat(60), &["a"]), None);
        assert_eq!(labels("", &["a"]), None);
    }
}
