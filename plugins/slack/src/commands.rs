//! Slash commands: /ask an agent, list /tasks and /questions, /answer a question; under these names, or as the first word of any other.
//! Keeps true: a command is taken once; the address for its reply stays here, and only opens that reply.

use chela_sdk::channel::keep::push;
use chela_sdk::channel::{Command, Kind, Turn, wire};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::inbound::Message;
use crate::machine::Machine;
use crate::place::{Place, id};
use crate::state::PENDING_MAX;

/// Slack's addresses for replies are good for half an hour; the last minute is for what is under way.
const REPLY_GOOD_MS: u64 = 29 * 60_000;
const WORDS_MAX: usize = 4_000;
const HELP: &str = "Write `/ask TEXT` to ask an agent (`/ask @NAME TEXT` that one), `/tasks` to see what the agents work on, `/questions` to see what they ask, `/answer TEXT` to answer (`/answer #ID TEXT` that one).";

/// A command that a delivery may answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    pub name: String,
    pub url: String,
    pub until_ms: u64,
    /// Only the one who gave it sees the reply.
    pub private: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender: String,
}

impl Machine {
    /// Takes a command; gives what the one who gave it sees at once.
    pub fn slash_command(&mut self, turn: &mut Turn, payload: &Value) -> Option<Value> {
        let says = |words: &str| Some(json!({ "response_type": "ephemeral", "text": words }));
        let (channel, sender) = (id(wire::text(&payload["channel_id"]))?, id(wire::text(&payload["user_id"]))?);
        let trigger = wire::name(wire::text(&payload["trigger_id"]));
        let name = format!("command.{trigger}");
        if trigger.is_empty() || !self.state.seen.is_new(&name) {
            return None;
        }
        turn.changed();
        let is_direct = channel.starts_with('D');
        if !self.hears(&sender, None, &channel, is_direct) {
            return says("This bot does not take that from you here.");
        }
        self.state.names.keep(&sender, wire::text(&payload["user_name"]));
        let words = wire::clean(wire::text(&payload["text"]), WORDS_MAX);
        let command = wire::text(&payload["command"]).trim_start_matches('/');
        let (word, rest) = match command {
            "ask" | "tasks" | "questions" | "answer" => (command, words.trim()),
            _ => words.trim().split_once(char::is_whitespace).unwrap_or((words.trim(), "")),
        };
        let place = if is_direct { Place::Person(sender.clone()) } else { Place::Channel { channel, thread: None } };
        let message = Message {
            name: name.clone(),
            target: place.target(),
            team: wire::name(wire::text(&payload["team_id"])),
            sender,
            is_bot: false,
            addressed: true,
            agent: String::new(),
            text: rest.trim().to_owned(),
            reply_to: String::new(),
            question: None,
        };
        let (kind, message, private) = match (word, rest.trim()) {
            ("ask", words) if !words.is_empty() => {
                let named = words.strip_prefix('@').and_then(|rest| rest.split_once(char::is_whitespace));
                let (agent, text) = named.unwrap_or(("", words));
                (Kind::Message, Message { agent: wire::name(agent), text: text.trim().to_owned(), ..message }, false)
            }
            ("tasks", agent) => {
                let agent = wire::name(agent.trim_start_matches('@'));
                let arguments = if agent.is_empty() { Vec::new() } else { vec![("agent".to_owned(), agent)] };
                (Kind::Command(Command { name: "tasks".into(), arguments }), message, true)
            }
            ("questions", _) => {
                (Kind::Command(Command { name: "questions".into(), arguments: Vec::new() }), message, true)
            }
            ("answer", words) if !words.is_empty() => {
                let (question, text) = self.state.questions.named(words);
                (Kind::Answer(question), Message { text: text.to_owned(), ..message }, true)
            }
            _ => return says(HELP),
        };
        self.await_reply(turn, &name, wire::text(&payload["response_url"]), private.then_some(&message.sender));
        let at_once = if matches!(kind, Kind::Answer(_)) { says("Your answer is passed on.") } else { None };
        self.pass_as(turn, message, kind);
        at_once
    }

    /// `sender`: who alone is to read the reply.
    fn await_reply(&mut self, turn: &mut Turn, name: &str, url: &str, sender: Option<&String>) {
        if let Some(sender) = sender {
            self.state.remember_private(name, sender);
        }
        let (private, sender) = (sender.is_some(), sender.cloned().unwrap_or_default());
        let is_address = url.starts_with("https://") || url.starts_with("http://");
        let is_plain = url.len() <= 1_000 && url.chars().all(|c| c.is_ascii_graphic());
        if is_address && is_plain {
            let until_ms = turn.now_ms + REPLY_GOOD_MS;
            let pending = Pending { name: name.to_owned(), url: url.to_owned(), until_ms, private, sender };
            push(&mut self.state.pending, pending, PENDING_MAX);
        }
    }

    /// The command of this name, while its address is good.
    pub fn pending(&self, name: &str, now_ms: u64) -> Option<&Pending> {
        self.state.pending.iter().find(|pending| pending.name == name && pending.until_ms > now_ms)
    }

    /// Its address is of no use any more. That it is private stays known.
    pub fn forget_pending(&mut self, name: &str) {
        self.state.pending.retain(|pending| pending.name != name);
    }
}
