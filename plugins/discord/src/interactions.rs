//! Buttons, forms and slash commands: each acknowledged at once, as Discord asks for it within three seconds.
//! Keeps true: an interaction is taken once; its token stays here, and only opens the reply to it.

use chela_sdk::channel::keep::push;
use chela_sdk::channel::{Inbound, Kind, Question, Turn};
use chela_sdk::log;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::inbound::Spot;
use crate::machine::Machine;
use crate::mentions::display_name;
use crate::rest::{Ask, Outcome, Purpose};
use crate::state::{INTERACTIONS_MAX, QUESTIONS_MAX};
use crate::wire;

/// Discord's tokens are good for fifteen minutes; the last one is for what is under way.
const TOKEN_GOOD_MS: u64 = 14 * 60_000;
const ANSWER_MAX: usize = 4_000;
/// Only the one who acted sees it.
pub const PRIVATE: u64 = 64;

/// Discord's code for an acknowledgement that it has already.
const ACKNOWLEDGED_BEFORE: u64 = 40_060;

/// Kinds of answers to an interaction.
const MESSAGE: u64 = 4;
const LATER: u64 = 5;
const UPDATE: u64 = 7;
const FORM: u64 = 9;

/// An interaction that a delivery may answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    pub id: u64,
    pub token: String,
    pub until_ms: u64,
    pub private: bool,
    /// Who acted; 0 in states of versions that did not keep it.
    #[serde(default)]
    pub sender: u64,
}

/// An interaction as it came.
pub struct Interaction<'a> {
    pub id: u64,
    token: &'a str,
    pub guild: Option<u64>,
    pub sender: u64,
    pub name: String,
    /// The agent that it asks for.
    pub agent: String,
    pub spot: Spot,
    pub data: &'a Value,
    message: &'a Value,
}

impl Machine {
    pub fn interaction(&mut self, turn: &mut Turn, event: &Value) {
        let (Some(id), Some(channel)) = (wire::id(&event["id"]), wire::id(&event["channel_id"])) else { return };
        let token = wire::text(&event["token"]);
        let is_token = !token.is_empty() && token.len() <= 1_000;
        if !is_token || !token.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=')) {
            return;
        }
        let in_guild = event["member"].is_object();
        let user = if in_guild { &event["member"]["user"] } else { &event["user"] };
        let Some(sender) = wire::id(&user["id"]) else { return };
        if !self.state.is_new(id) {
            return;
        }
        let guild = wire::id(&event["guild_id"]);
        if guild.is_some() {
            self.state.names.learn_place(&event["channel"]);
        }
        let spot = self.spot(guild, channel, sender).filter(|_| self.hears(sender, user["bot"] == true, guild));
        let Some(spot) = spot else {
            let no = json!({ "content": "This bot does not take that from you here.", "flags": PRIVATE });
            return self.respond(turn, id, token, MESSAGE, no);
        };
        if guild.is_none() {
            self.state.remember_direct(sender, channel);
        }
        let name = display_name(user, &event["member"]["nick"]);
        let (data, message) = (&event["data"], &event["message"]);
        let agent = String::new();
        let interaction = Interaction { id, token, guild, sender, name, agent, spot, data, message };
        match event["type"].as_u64() {
            Some(2) => self.command(turn, interaction),
            Some(3) => self.button(turn, interaction),
            Some(5) => self.form(turn, interaction),
            _ => {}
        }
    }

    fn respond(&mut self, turn: &mut Turn, id: u64, token: &str, kind: u64, data: Value) {
        let path = format!("/interactions/{id}/{token}/callback");
        let body = json!({ "type": kind, "data": data });
        let ask = Ask::interaction("POST", path, "/interactions/*/*/callback", id, body);
        if !self.ask(turn, Purpose::Acknowledge { interaction: id }, ask) {
            log::warn("too many requests wait; an interaction is not acknowledged");
        }
    }

    /// A reply follows; Discord shows that it is being thought about.
    pub fn reply_later(&mut self, turn: &mut Turn, interaction: &Interaction, private: bool) {
        let data = if private { json!({ "flags": PRIVATE }) } else { json!({}) };
        self.respond(turn, interaction.id, interaction.token, LATER, data);
        self.await_reply(turn, interaction, private);
    }

    /// An answer at once, which a reply may still replace.
    pub fn reply_now(&mut self, turn: &mut Turn, interaction: &Interaction, said: &str) {
        let data = json!({ "content": said, "flags": PRIVATE });
        self.respond(turn, interaction.id, interaction.token, MESSAGE, data);
        self.await_reply(turn, interaction, true);
    }

    fn await_reply(&mut self, turn: &mut Turn, interaction: &Interaction, private: bool) {
        let until_ms = turn.now_ms + TOKEN_GOOD_MS;
        let (id, token, sender) = (interaction.id, interaction.token.to_owned(), interaction.sender);
        let pending = Pending { id, token, until_ms, private, sender };
        push(&mut self.state.interactions, pending, INTERACTIONS_MAX);
    }

    /// The interaction of this id, while its token is good.
    pub fn pending(&self, id: u64, now_ms: u64) -> Option<&Pending> {
        self.state.interactions.iter().find(|pending| pending.id == id && pending.until_ms > now_ms)
    }

    /// The interaction that a private reply belongs to, whether or not its token is good.
    pub fn private(&self, id: u64) -> Option<&Pending> {
        self.state.interactions.iter().find(|pending| pending.id == id && pending.private)
    }

    /// Its token opens nothing any more. What is private stays known as that, so that no reply to it is shown to all.
    pub fn close_pending(&mut self, id: u64) {
        self.state.interactions.retain(|pending| pending.id != id || pending.private);
        for pending in self.state.interactions.iter_mut().filter(|pending| pending.id == id) {
            pending.token.clear();
            pending.until_ms = 0;
        }
    }

    pub fn acknowledged(&mut self, turn: &mut Turn, interaction: u64, outcome: &Outcome) {
        // An earlier try whose answer was lost has done it.
        let is_known = matches!(outcome, Outcome::Refused { code: ACKNOWLEDGED_BEFORE, .. });
        if is_known || matches!(outcome, Outcome::Done(_)) {
            return;
        }
        // Too late or unknown: a reply to it goes to the channel instead, a private one to the person.
        self.close_pending(interaction);
        for delivery in self.withdraw_answers(interaction) {
            self.advance(turn, &delivery);
        }
    }

    fn button(&mut self, turn: &mut Turn, interaction: Interaction) {
        let pressed = wire::text(&interaction.data["custom_id"]);
        if let Some(question) = pressed.strip_prefix(OWN_WORDS) {
            let form = answer_form(question);
            return self.respond(turn, interaction.id, interaction.token, FORM, form);
        }
        let chosen = pressed.strip_prefix(CHOICE).and_then(|rest| rest.split_once(':'));
        let Some((question, label)) = chosen.map(|(_, id)| id.to_owned()).zip(label_of(interaction.message, pressed))
        else {
            return;
        };
        self.take_answer(turn, &interaction, question, label);
    }

    fn form(&mut self, turn: &mut Turn, interaction: Interaction) {
        let Some(question) = wire::text(&interaction.data["custom_id"]).strip_prefix(OWN_WORDS) else { return };
        let question = question.to_owned();
        // A row of one field, or a label around one: both forms are documented.
        let fields = wire::list(&interaction.data["components"], 5)
            .flat_map(|row| wire::list(&row["components"], 5).chain(std::iter::once(&row["component"])));
        let words = fields.map(|field| wire::text(&field["value"])).find(|words| !words.trim().is_empty());
        let words = wire::clean(words.unwrap_or_default(), ANSWER_MAX);
        if !words.trim().is_empty() {
            self.take_answer(turn, &interaction, question, words.trim().to_owned());
        }
    }

    /// Passes an answer on, and takes the buttons away so that nobody answers again.
    fn take_answer(&mut self, turn: &mut Turn, interaction: &Interaction, question: String, answer: String) {
        let shown =
            format!("-# {}: {}", interaction.name, answer.chars().take(200).collect::<String>().replace('\n', " "));
        let asked: String = wire::text(&interaction.message["content"]).chars().take(1_600).collect();
        let none = json!({ "parse": [] });
        let data = json!({ "content": format!("{asked}\n{shown}"), "components": [], "allowed_mentions": none });
        self.respond(turn, interaction.id, interaction.token, UPDATE, data);
        let reply_to = wire::id(&interaction.message["id"]);
        self.pass_interaction(turn, interaction, Kind::Answer(question), answer, reply_to);
    }

    pub fn pass_interaction(
        &mut self,
        turn: &mut Turn,
        interaction: &Interaction,
        kind: Kind,
        text: String,
        reply_to: Option<u64>,
    ) {
        let Spot { target, session, place } = &interaction.spot;
        turn.inbound(Inbound {
            id: interaction.id.to_string(),
            kind,
            target: target.clone(),
            session: session.clone(),
            place: *place,
            space: interaction.guild.map(|guild| guild.to_string()).unwrap_or_default(),
            sender_id: interaction.sender.to_string(),
            sender_name: interaction.name.clone(),
            sender_is_bot: false,
            addressed: true,
            agent: interaction.agent.clone(),
            text,
            reply_to: reply_to.map(|id| id.to_string()).unwrap_or_default(),
        });
    }

    /// The question that a message of ours carries.
    pub fn question_of(&self, message: u64) -> Option<String> {
        self.state.questions.iter().find(|(id, _)| *id == message).map(|(_, question)| question.clone())
    }

    pub fn remember_question(&mut self, message: u64, question: &str) {
        push(&mut self.state.questions, (message, question.to_owned()), QUESTIONS_MAX);
    }
}

/// What our buttons are called: `answer:` and the question's id, or `choice:`, the choice's number and the question's id.
const OWN_WORDS: &str = "answer:";
const CHOICE: &str = "choice:";
const CUSTOM_ID_MAX: usize = 100;
const LABEL_MAX: usize = 80;
const BUTTONS_MAX: usize = 25;

/// The buttons of a question: its choices, or one that opens a form. None when its id is too long for a button.
pub fn buttons(question: &Question) -> Value {
    let id = &question.id;
    let longest = format!("{CHOICE}{BUTTONS_MAX}:{id}");
    if id.is_empty() || longest.chars().count() > CUSTOM_ID_MAX {
        return json!([]);
    }
    let button = |label: String, custom_id: String, style: u64| json!({ "type": 2, "style": style, "label": label, "custom_id": custom_id });
    let choices = question
        .choices
        .iter()
        .map(|choice| wire::shortened(&wire::name(choice), LABEL_MAX))
        .filter(|label| !label.is_empty());
    let mut all: Vec<Value> = choices
        .take(BUTTONS_MAX - 1)
        .enumerate()
        .map(|(nth, label)| button(label, format!("{CHOICE}{nth}:{id}"), 1))
        .collect();
    let words = if all.is_empty() { "Answer" } else { "Other…" };
    all.push(button(words.into(), format!("{OWN_WORDS}{id}"), 2));
    let rows = all.chunks(5).map(|row| json!({ "type": 1, "components": row }));
    Value::Array(rows.collect())
}

fn answer_form(question: &str) -> Value {
    let field = json!({
        "type": 4, "custom_id": "words", "style": 2, "label": "Your answer", "max_length": 2_000, "required": true,
    });
    let row = json!({ "type": 1, "components": [field] });
    json!({ "custom_id": format!("{OWN_WORDS}{question}"), "title": "Answer", "components": [row] })
}

/// The words on the button that was pressed, as the message shows them.
fn label_of(message: &Value, custom_id: &str) -> Option<String> {
    let mut buttons = wire::list(&message["components"], 5).flat_map(|row| wire::list(&row["components"], 5));
    let pressed = buttons.find(|button| button["custom_id"] == custom_id)?;
    Some(wire::name(wire::text(&pressed["label"]))).filter(|label| !label.is_empty())
}
