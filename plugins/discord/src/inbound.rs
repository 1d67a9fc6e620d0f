//! Messages of people: which are taken, from where, and in which words.
//! Keeps true: who is not listed is not heard; the bot's own words and other programs' never come back; what a person writes is text.

use std::collections::VecDeque;

use chela_sdk::channel::{Inbound, Kind, Place as Where, Turn};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Direct, passes};
use crate::machine::Machine;
use crate::mentions::{Reader, display_name};
use crate::names::Place;
use crate::rest::{Ask, Outcome, Purpose};
use crate::wire;

/// More than Discord lets anyone write.
const TEXT_MAX: usize = 8_000;
const ATTACHMENTS_MAX: usize = 10;
/// Messages that wait for what kind of place they came from.
const HELD_MAX: usize = 16;

/// What is read of a message.
pub const FIELDS: &[&str] = &[
    "id",
    "type",
    "channel_id",
    "guild_id",
    "webhook_id",
    "author",
    "member",
    "content",
    "mentions",
    "mention_roles",
    "message_reference",
    "referenced_message",
    "message_snapshots",
    "attachments",
    "sticker_items",
];

/// A message that passed all but what depends on its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    pub id: u64,
    pub channel: u64,
    pub guild: Option<u64>,
    pub sender: u64,
    pub name: String,
    pub is_bot: bool,
    pub addressed: bool,
    pub text: String,
    pub reply_to: Option<u64>,
    /// The question that it replies to.
    pub question: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    pub message: Message,
}

/// Where something was said, in the words of the host.
pub struct Spot {
    pub target: String,
    pub session: String,
    pub place: Where,
}

impl Machine {
    pub fn message(&mut self, turn: &mut Turn, data: &Value) {
        let Some(message) = self.read_message(data) else { return };
        if !self.state.is_new(message.id) {
            return;
        }
        let Some(_) = message.guild else {
            self.state.remember_direct(message.sender, message.channel);
            return self.pass_on(turn, message);
        };
        if self.state.names.place(message.channel).is_some() || self.state.held.len() >= HELD_MAX {
            return self.pass_on(turn, message);
        }
        let place = message.channel;
        let is_asked = self.state.held.iter().any(|held| held.message.channel == place);
        let ask = || Ask::channel("GET", place, "", "", Value::Null);
        if is_asked || self.ask(turn, Purpose::Lookup { place }, ask()) {
            self.state.held.push_back(Held { message });
            turn.changed();
        } else {
            self.pass_on(turn, message);
        }
    }

    /// The answer about a place; what waited for it goes on. A place that cannot be read is taken for a channel.
    pub fn place_found(&mut self, turn: &mut Turn, place: u64, outcome: Outcome) {
        match outcome {
            Outcome::Done(channel) if wire::id(&channel["id"]) == Some(place) => self.state.names.learn_place(&channel),
            Outcome::Done(_) | Outcome::Refused { .. } | Outcome::Failed { .. } => {
                self.state.names.keep_place(place, Place { name: place.to_string(), parent: None });
            }
        }
        let held = std::mem::take(&mut self.state.held);
        let (ready, left): (VecDeque<Held>, _) = held.into_iter().partition(|held| held.message.channel == place);
        self.state.held = left;
        for held in ready {
            self.pass_on(turn, held.message);
        }
    }

    fn read_message(&self, data: &Value) -> Option<Message> {
        let me = self.state.me.as_ref()?.id;
        let author = &data["author"];
        let (id, channel, sender) = (wire::id(&data["id"])?, wire::id(&data["channel_id"])?, wire::id(&author["id"])?);
        let is_bot = author["bot"] == true;
        // Joins, pins and the like are no words of a person; 19 is a reply.
        let is_talk = matches!(data["type"].as_u64().unwrap_or(0), 0 | 19) && data["webhook_id"].is_null();
        let guild = wire::id(&data["guild_id"]);
        if sender == me || !is_talk || !self.hears(sender, is_bot, guild) {
            return None;
        }
        let reply_to = wire::id(&data["message_reference"]["message_id"]);
        let question = reply_to.and_then(|to| self.question_of(to));
        let addressed = guild.is_none() || self.is_to_me(data, me);
        let may_pass = addressed || question.is_some() || self.config.opens_any();
        let text = self.read_text(data, me);
        if !may_pass || text.is_empty() {
            return None;
        }
        let name = display_name(author, &data["member"]["nick"]);
        Some(Message { id, channel, guild, sender, name, is_bot, addressed, text, reply_to, question })
    }

    /// Whether someone is listened to at all.
    pub fn hears(&self, sender: u64, is_bot: bool, guild: Option<u64>) -> bool {
        let config = &self.config;
        let known = if is_bot { config.bots.has(sender) } else { passes(config.users.as_ref(), sender) };
        match (guild, config.direct) {
            (Some(guild), _) => known && passes(config.guilds.as_ref(), guild),
            (None, Direct::Off) => false,
            (None, Direct::Listed) => known,
            (None, Direct::Open) => !is_bot || known,
        }
    }

    fn is_to_me(&self, data: &Value, me: u64) -> bool {
        let names_me = wire::list(&data["mentions"], 100).any(|person| wire::id(&person["id"]) == Some(me));
        let mut roles = wire::list(&data["mention_roles"], 100).filter_map(wire::id);
        names_me
            || wire::id(&data["referenced_message"]["author"]["id"]) == Some(me)
            || roles.any(|role| self.state.names.is_own_role(role))
    }

    fn read_text(&self, data: &Value, me: u64) -> String {
        let reader = Reader { names: &self.state.names, people: &data["mentions"], me };
        let mut text = reader.read(&wire::clean(wire::text(&data["content"]), TEXT_MAX));
        for forwarded in wire::list(&data["message_snapshots"], 1) {
            let words = reader.read(&wire::clean(wire::text(&forwarded["message"]["content"]), TEXT_MAX));
            wire::add_line(&mut text, &words.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n"));
        }
        for attachment in wire::list(&data["attachments"], ATTACHMENTS_MAX) {
            let link = wire::link(wire::text(&attachment["filename"]), wire::text(&attachment["url"]));
            wire::add_line(&mut text, &link.unwrap_or_default());
        }
        for sticker in wire::list(&data["sticker_items"], ATTACHMENTS_MAX) {
            wire::add_line(&mut text, &format!("[sticker: {}]", wire::name(wire::text(&sticker["name"]))));
        }
        text
    }

    /// Where a channel of a server is; none when it is not listened to.
    pub fn spot(&self, guild: Option<u64>, channel: u64, sender: u64) -> Option<Spot> {
        if guild.is_none() {
            let target = format!("direct:{sender}");
            return Some(Spot { session: target.clone(), target, place: Where::Direct });
        }
        let parent = self.state.names.place(channel).and_then(|place| place.parent);
        let listed = |id: u64| passes(self.config.channels.as_ref(), id);
        if !listed(channel) && !parent.is_some_and(listed) {
            return None;
        }
        let (target, place) = match parent {
            Some(parent) => (format!("channel:{parent}:thread:{channel}"), Where::Thread),
            None => (format!("channel:{channel}"), Where::Channel),
        };
        Some(Spot { session: format!("discord:{target}"), target, place })
    }

    fn pass_on(&mut self, turn: &mut Turn, message: Message) {
        let Some(spot) = self.spot(message.guild, message.channel, message.sender) else { return };
        let parent = self.state.names.place(message.channel).and_then(|place| place.parent);
        let is_open = self.config.opens(message.channel) || parent.is_some_and(|parent| self.config.opens(parent));
        if !message.addressed && message.question.is_none() && !is_open {
            return;
        }
        turn.inbound(Inbound {
            id: message.id.to_string(),
            kind: message.question.map_or(Kind::Message, Kind::Answer),
            target: spot.target,
            session: spot.session,
            place: spot.place,
            space: message.guild.map(|guild| guild.to_string()).unwrap_or_default(),
            sender_id: message.sender.to_string(),
            sender_name: message.name,
            sender_is_bot: message.is_bot,
            addressed: message.addressed,
            agent: String::new(),
            text: message.text,
            reply_to: message.reply_to.map(|id| id.to_string()).unwrap_or_default(),
        });
    }
}
