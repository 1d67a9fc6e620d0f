//! Buttons and forms of questions.
//! Keeps true: a press is taken once, from those who are listened to; its buttons go with it.

use chela_sdk::channel::{Asked, Kind, Turn, wire};
use serde_json::{Value, json};

use crate::inbound::Message;
use crate::machine::Machine;
use crate::place::{Place, id, is_time, message_name};
use crate::web::Purpose;

/// What our buttons and our form are called; the question's id is the value of a button.
const OWN_WORDS: &str = "own-words";
const CHOICE: &str = "choice-";
const FORM: &str = "answer";
const FIELD: &str = "words";
const VALUE_MAX: usize = 2_000;
const LABEL_MAX: usize = 75;
const BUTTONS_MAX: usize = 25;
const ANSWER_MAX: usize = 3_000;

/// The blocks of a question: its text, its choices, and a button for words of their own.
pub fn blocks(text: &str, asked: &Asked) -> Value {
    let section = json!({ "type": "section", "text": { "type": "mrkdwn", "text": text } });
    if asked.id.is_empty() || asked.id.chars().count() > VALUE_MAX {
        return json!([section]);
    }
    let button = |action: String, label: String| json!({ "type": "button", "action_id": action, "value": asked.id, "text": { "type": "plain_text", "text": label } });
    let labels = asked.choices.iter().map(|choice| wire::shortened(&wire::name(choice), LABEL_MAX));
    let labels = labels.filter(|label| !label.is_empty()).take(BUTTONS_MAX - 1);
    let mut elements: Vec<Value> =
        labels.enumerate().map(|(nth, label)| button(format!("{CHOICE}{nth}"), label)).collect();
    let words = if elements.is_empty() { "Answer" } else { "Other…" };
    elements.push(button(OWN_WORDS.into(), words.into()));
    json!([section, { "type": "actions", "elements": elements }])
}

/// The form for an answer in words of their own; `about` comes back with it.
fn form(about: &Value) -> Value {
    let text = |words: &str| json!({ "type": "plain_text", "text": words });
    let field = json!({ "type": "plain_text_input", "action_id": FIELD, "multiline": true, "max_length": ANSWER_MAX });
    json!({
        "type": "modal", "callback_id": FORM, "private_metadata": about.to_string(), "title": text("Answer"),
        "submit": text("Send"), "close": text("Cancel"),
        "blocks": [{ "type": "input", "block_id": FORM, "label": text("Your answer"), "element": field }],
    })
}

/// The message that a question stands in, and who acts on it.
struct Spot {
    channel: String,
    time: String,
    thread: Option<String>,
    sender: String,
}

impl Machine {
    pub fn interaction(&mut self, turn: &mut Turn, payload: &Value) {
        let Some(sender) = id(wire::text(&payload["user"]["id"])) else { return };
        let named = [&payload["user"]["name"], &payload["user"]["username"]].map(wire::text);
        if self.state.names.of(&sender).is_none() {
            self.state.names.keep(&sender, named.into_iter().find(|name| !name.is_empty()).unwrap_or_default());
        }
        match wire::text(&payload["type"]) {
            "block_actions" => self.pressed(turn, payload, sender),
            "view_submission" if payload["view"]["callback_id"] == FORM => self.submitted(turn, payload, sender),
            _ => {}
        }
    }

    fn pressed(&mut self, turn: &mut Turn, payload: &Value, sender: String) {
        let (message, action) = (&payload["message"], &payload["actions"][0]);
        let Some(channel) = id(wire::text(&payload["channel"]["id"])) else { return };
        let (time, pressed_at) = (wire::text(&message["ts"]), wire::text(&action["action_ts"]));
        let name = format!("action.{sender}.{pressed_at}");
        if !is_time(time) || !is_time(pressed_at) || !self.state.seen.is_new(&name) {
            return;
        }
        turn.changed();
        let thread = Some(wire::text(&message["thread_ts"])).filter(|thread| is_time(thread)).map(str::to_owned);
        let spot = Spot { channel, time: time.to_owned(), thread, sender };
        if !self.hears(&spot.sender, None, &spot.channel, spot.channel.starts_with('D')) {
            return;
        }
        let question = wire::clean(wire::text(&action["value"]), VALUE_MAX);
        match wire::text(&action["action_id"]) {
            OWN_WORDS => {
                let about = json!({ "question": question, "channel": spot.channel, "time": spot.time, "thread": spot.thread,
                    "text": wire::shortened(wire::text(&message["text"]), 500) });
                let body = json!({ "trigger_id": payload["trigger_id"], "view": form(&about) });
                self.ask(turn, Purpose::Notice, "views.open", "views.open", body.to_string());
            }
            choice if choice.starts_with(CHOICE) => {
                let label = wire::name(wire::text(&action["text"]["text"]));
                self.answer(turn, &spot, name, question, label, wire::text(&message["text"]));
            }
            _ => {}
        }
    }

    fn submitted(&mut self, turn: &mut Turn, payload: &Value, sender: String) {
        let view = &payload["view"];
        let about: Value = serde_json::from_str(wire::text(&view["private_metadata"])).unwrap_or(Value::Null);
        let words = wire::clean(wire::text(&view["state"]["values"][FORM][FIELD]["value"]), ANSWER_MAX);
        let (Some(channel), time) = (id(wire::text(&about["channel"])), wire::text(&about["time"])) else { return };
        let name = format!("view.{}", wire::name(wire::text(&view["id"])));
        if !is_time(time) || words.trim().is_empty() || !self.state.seen.is_new(&name) {
            return;
        }
        turn.changed();
        let thread = Some(wire::text(&about["thread"])).filter(|thread| is_time(thread)).map(str::to_owned);
        let spot = Spot { channel, time: time.to_owned(), thread, sender };
        if self.hears(&spot.sender, None, &spot.channel, spot.channel.starts_with('D')) {
            let question = wire::text(&about["question"]).to_owned();
            self.answer(turn, &spot, name, question, words.trim().to_owned(), wire::text(&about["text"]));
        }
    }

    /// Passes an answer on, and takes the buttons away so that nobody answers again.
    fn answer(&mut self, turn: &mut Turn, spot: &Spot, name: String, question: String, answer: String, shown: &str) {
        if question.is_empty() || answer.is_empty() {
            return;
        }
        let who = self.state.names.of(&spot.sender).unwrap_or(&spot.sender).to_owned();
        let said = wire::shortened(&format!("{who}: {answer}"), 200);
        let text = wire::shortened(shown, 2_900);
        let blocks = json!([
            { "type": "section", "text": { "type": "mrkdwn", "text": if text.is_empty() { "…" } else { &text } } },
            { "type": "context", "elements": [{ "type": "plain_text", "text": said }] },
        ]);
        let body = json!({ "channel": spot.channel, "ts": spot.time, "text": text, "blocks": blocks });
        self.ask(turn, Purpose::Tidy, &spot.channel, "chat.update", body.to_string());
        let place = match (spot.channel.starts_with('D'), &spot.thread) {
            (true, _) => Place::Person(spot.sender.clone()),
            (false, thread) => Place::Channel { channel: spot.channel.clone(), thread: thread.clone() },
        };
        let message = Message {
            name,
            target: place.target(),
            team: self.state.me.as_ref().map(|me| me.team.clone()).unwrap_or_default(),
            sender: spot.sender.clone(),
            is_bot: false,
            addressed: true,
            agent: String::new(),
            text: crate::mrkdwn::escaped(&answer),
            reply_to: message_name(&spot.channel, &spot.time),
            question: None,
        };
        self.pass_as(turn, message, Kind::Answer(question));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_a_button_for_each_choice_and_one_for_other_words() {
        let asked =
            |choices: &[&str]| Asked { id: "q-1".into(), choices: choices.iter().map(|c| (*c).to_owned()).collect() };
        let labels = |choices: &[&str]| -> Vec<String> {
            let shown = blocks("Which?", &asked(choices));
            let elements = shown[1]["elements"].as_array().cloned().unwrap_or_default();
            elements.iter().map(|button| button["text"]["text"].as_str().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(labels(&["Yes", "", "No"]), ["Yes", "No", "Other…"]);
        assert_eq!(labels(&[]), ["Answer"]);
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(labels(&many.iter().map(String::as_str).collect::<Vec<_>>()).len(), BUTTONS_MAX);
        assert_eq!(
            blocks("Which?", &Asked { id: String::new(), choices: Vec::new() }).as_array().map(Vec::len),
            Some(1)
        );
    }
}
