//! Messages of people: which are taken, from where, and in which words.
//! Keeps true: who is not listed is not heard; the bot's own words and other programs' never come back; what a person writes is text; a
//! message that waits for a name is kept meanwhile, and never for long.

use chela_sdk::channel::{Inbound, Kind, Place as Where, Turn, wire};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{Direct, passes};
use crate::machine::Machine;
use crate::mrkdwn::{marked, plain};
use crate::place::{Place, id, is_time, message_name};
use crate::state::Held;
use crate::web::{Purpose, Said};

/// More than Slack lets anyone write.
const TEXT_MAX: usize = 40_000;
const FILES_MAX: usize = 10;
/// Messages that wait for names, and names that one message waits for.
const HELD_MAX: usize = 16;
const NAMES_MAX: usize = 5;

/// A message that passed all checks, in Slack's own markup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    pub name: String,
    pub target: String,
    pub team: String,
    pub sender: String,
    pub is_bot: bool,
    pub addressed: bool,
    pub agent: String,
    pub text: String,
    pub reply_to: String,
    /// The question that it answers: empty for the only one; none for a message like any other.
    pub question: Option<String>,
}

impl Machine {
    pub fn message(&mut self, turn: &mut Turn, event: &Value, team: &str) {
        let Some(message) = self.read(event, team) else { return };
        if !self.state.seen.is_new(&message.name) {
            return;
        }
        turn.changed();
        if let Some(Place::Person(person)) = Place::of(&message.target) {
            self.state.remember_direct(&person, &id(wire::text(&event["channel"])).unwrap_or_default());
        }
        self.take_in(turn, message);
    }

    /// Passes a message on, at once or when the names in it are known.
    pub fn take_in(&mut self, turn: &mut Turn, message: Message) {
        let mut waits: Vec<String> = marked(&message.text, NAMES_MAX);
        if !message.is_bot {
            waits.insert(0, message.sender.clone());
        }
        waits.retain(|person| self.state.names.of(person).is_none());
        waits.dedup();
        waits.truncate(NAMES_MAX);
        if !self.config.names || waits.is_empty() || self.state.held.len() >= HELD_MAX {
            return self.pass_on(turn, message);
        }
        waits.retain(|person| self.ask_for_name(turn, person));
        if waits.is_empty() {
            return self.pass_on(turn, message);
        }
        self.state.held.push_back(Held { message, waits });
    }

    fn ask_for_name(&mut self, turn: &mut Turn, person: &str) -> bool {
        let purpose = Purpose::Name { person: person.to_owned() };
        self.state.calls.any(|call| call.purpose == purpose)
            || self.ask(turn, purpose, &format!("name:{person}"), "users.info", format!("user={person}"))
    }

    /// What someone is called, or that it cannot be known: then the id is the name.
    pub fn name_found(&mut self, turn: &mut Turn, person: &str, said: Said) {
        match said {
            Said::Done(found) => self.state.names.learn(person, &found["user"]),
            Said::Refused(_) => self.state.names.keep(person, person),
            // Asked for again with the next message.
            Said::Wait { .. } | Said::Nothing(_) | Said::Unreachable(_) => {}
        }
        self.state.held.iter_mut().for_each(|held| held.waits.retain(|waits| waits != person));
        while let Some(at) = self.state.held.iter().position(|held| held.waits.is_empty()) {
            if let Some(held) = self.state.held.remove(at) {
                self.pass_on(turn, held.message);
            }
        }
    }

    /// After a start: nobody waits for a name any more.
    pub fn release_all(&mut self, turn: &mut Turn) {
        for held in std::mem::take(&mut self.state.held) {
            self.pass_on(turn, held.message);
        }
    }

    fn read(&self, event: &Value, team: &str) -> Option<Message> {
        let me = self.state.me.as_ref()?;
        let (channel, time) = (id(wire::text(&event["channel"]))?, wire::text(&event["ts"]));
        // Joins, topics and the like are no words of a person.
        let is_talk = matches!(
            wire::text(&event["subtype"]),
            "" | "file_share" | "thread_broadcast" | "me_message" | "bot_message"
        );
        if !is_time(time) || !is_talk {
            return None;
        }
        let bot = id(wire::text(&event["bot_id"]));
        let is_bot = bot.is_some();
        let sender = id(wire::text(&event["user"])).or(bot.clone())?;
        let is_direct = event["channel_type"] == "im" || channel.starts_with('D');
        let is_own = sender == me.user || bot.as_deref().is_some_and(|bot| bot == me.bot);
        if is_own || !self.hears(&sender, bot.as_deref(), &channel, is_direct) {
            return None;
        }
        let words = wire::text(&event["text"]);
        let root = Some(wire::text(&event["thread_ts"])).filter(|root| is_time(root) && *root != time);
        let root_name = root.map(|root| message_name(&channel, root));
        let question = root_name.as_deref().and_then(|root| self.state.questions.of(root)).map(str::to_owned);
        let names_me = event["type"] == "app_mention" || marked(words, 100).contains(&me.user);
        let follows = root_name.as_deref().is_some_and(|root| self.state.has_part_in(root));
        let addressed = is_direct || names_me || question.is_some() || (follows && self.config.follow_threads);
        let mut text = wire::clean(words, TEXT_MAX);
        for file in wire::list(&event["files"], FILES_MAX) {
            // An address of Slack's own: who follows it needs to be a member.
            let address = [&file["permalink"], &file["url_private"]].map(wire::text);
            let link = address.iter().find_map(|address| wire::link(wire::text(&file["name"]), address));
            wire::add_line(&mut text, &link.unwrap_or_else(|| "[file]".into()));
        }
        if text.trim().is_empty() || !(addressed || self.config.opens(&channel)) {
            return None;
        }
        let place = match (is_direct, root) {
            (true, _) => Place::Person(sender.clone()),
            (false, Some(root)) => Place::Channel { channel: channel.clone(), thread: Some(root.to_owned()) },
            // An answer opens a thread, which has a session of its own.
            (false, None) => Place::Channel {
                channel: channel.clone(),
                thread: Some(time.to_owned()).filter(|_| self.config.threads),
            },
        };
        Some(Message {
            name: message_name(&channel, time),
            target: place.target(),
            team: wire::name(team),
            sender,
            is_bot,
            addressed,
            agent: String::new(),
            text,
            reply_to: root_name.unwrap_or_default(),
            question,
        })
    }

    /// Whether someone is listened to there at all; `bot` is the id of a program.
    pub fn hears(&self, sender: &str, bot: Option<&str>, channel: &str, is_direct: bool) -> bool {
        let config = &self.config;
        let known = match bot {
            Some(bot) => config.bots.has(bot),
            None => passes(config.users.as_ref(), sender),
        };
        match (is_direct, config.direct) {
            (false, _) => known && passes(config.channels.as_ref(), channel),
            (true, Direct::Off) => false,
            (true, Direct::Listed) => known,
            (true, Direct::Open) => bot.is_none() || known,
        }
    }

    fn pass_on(&mut self, turn: &mut Turn, message: Message) {
        let kind = message.question.clone().map_or(Kind::Message, Kind::Answer);
        self.pass_as(turn, message, kind);
    }

    pub fn pass_as(&mut self, turn: &mut Turn, message: Message, kind: Kind) {
        let me = self.state.me.as_ref().map(|me| me.user.clone()).unwrap_or_default();
        let text = plain(&message.text, &self.state.names, &me);
        if text.is_empty() && !matches!(kind, Kind::Command(_)) {
            return;
        }
        let place = match Place::of(&message.target) {
            Some(Place::Person(_)) | None => Where::Direct,
            Some(Place::Channel { thread: None, .. }) => Where::Channel,
            Some(Place::Channel { channel, thread: Some(thread) }) => {
                self.state.joins(&message_name(&channel, &thread));
                Where::Thread
            }
        };
        let named = self.state.names.of(&message.sender).unwrap_or(&message.sender).to_owned();
        turn.inbound(Inbound {
            id: message.name,
            kind,
            session: if place == Where::Direct { message.target.clone() } else { format!("slack:{}", message.target) },
            target: message.target,
            place,
            space: message.team,
            sender_id: message.sender,
            sender_name: named,
            sender_is_bot: message.is_bot,
            addressed: message.addressed,
            agent: message.agent,
            text,
            reply_to: message.reply_to,
        });
    }
}
