//! The bot's commands: /ask an agent, list /tasks and /questions, /answer a question; /start and /help tell of them.

use chela_sdk::channel::{Command, Kind, Turn, wire};
use chela_sdk::log;
use serde_json::{Value, json};

use crate::bot::{Purpose, Said};
use crate::inbound::Message;
use crate::machine::Machine;

const HELP: &str = "Write to me, or mention me in a group. /ask TEXT asks an agent (/ask @NAME TEXT that one), /tasks lists what the agents work on, /questions what they ask, /answer TEXT answers (/answer #ID TEXT that one).";

/// What Telegram is told of them.
fn definitions() -> Value {
    let command = |name: &str, description: &str| json!({ "command": name, "description": description });
    json!([
        command("ask", "Ask an agent: /ask TEXT, or /ask @NAME TEXT"),
        command("tasks", "Show what the agents work on"),
        command("questions", "Show what the agents ask"),
        command("answer", "Answer a question: /answer TEXT"),
        command("help", "How to talk to this bot"),
    ])
}

/// A command as a person wrote it.
#[derive(Debug, PartialEq, Eq)]
pub struct Given<'a> {
    pub name: &'a str,
    /// Whether it names this bot, or no bot at all.
    pub for_us: bool,
    pub rest: &'a str,
}

impl<'a> Given<'a> {
    /// The command that a text begins with: `/name` or `/name@bot`.
    pub fn of(text: &'a str, username: &str) -> Option<Self> {
        let rest = text.strip_prefix('/')?;
        let ends = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(ends);
        let (name, bot) = word.split_once('@').map_or((word, None), |(name, bot)| (name, Some(bot)));
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let for_us = bot.is_none_or(|bot| bot.eq_ignore_ascii_case(username));
        is_name.then(|| Self { name, for_us, rest: rest.trim() })
    }
}

impl Machine {
    /// Sets the bot's commands to ours, once for each form that they have had.
    pub fn register_commands(&mut self, turn: &mut Turn) {
        let Some(me) = self.state.me.as_ref().filter(|_| self.config.commands) else { return };
        let definitions = definitions();
        let hash = format!("{}:{:016x}", me.id, wire::hash(&definitions.to_string()));
        let is_asked = self.state.calls.any(|call| matches!(call.purpose, Purpose::Commands { .. }));
        if self.state.commands != hash && !is_asked {
            self.ask(turn, Purpose::Commands { hash }, 0, "setMyCommands", &json!({ "commands": definitions }));
        }
    }

    pub fn commands_answered(&mut self, hash: String, said: &Said) {
        match said {
            Said::Done(_) => self.state.commands = hash,
            Said::Refused { status, said, .. } => {
                log::warn(&format!("the commands were not registered: {status} {said}"));
            }
            Said::Wait { .. } | Said::Nothing(_) | Said::Uncertain(_) | Said::Unreachable(_) => {
                log::warn("the commands were not registered; it is tried at the next start");
            }
        }
    }

    /// Takes a command of ours; gives back what is none.
    pub fn command(&mut self, turn: &mut Turn, mut message: Message) -> Option<Message> {
        let username = self.state.me.as_ref().map(|me| me.username.clone()).unwrap_or_default();
        let text = message.text.clone();
        let Some(given) = Given::of(&text, &username).filter(|given| given.for_us) else { return Some(message) };
        match given.name {
            "start" | "help" => self.notice(turn, &message, HELP),
            "ask" if given.rest.is_empty() => self.notice(turn, &message, "Write what you want: /ask TEXT"),
            "answer" if given.rest.is_empty() => self.notice(turn, &message, "Write your answer: /answer TEXT"),
            "ask" => {
                let named = given.rest.strip_prefix('@').and_then(|rest| rest.split_once(char::is_whitespace));
                let (agent, words) = named.unwrap_or(("", given.rest));
                message.agent = wire::name(agent);
                message.text = words.trim().to_owned();
                self.pass_on(turn, message, Kind::Message);
            }
            "tasks" => {
                let agent = wire::name(given.rest.trim_start_matches('@'));
                let arguments = if agent.is_empty() { Vec::new() } else { vec![("agent".to_owned(), agent)] };
                self.pass_on(turn, message, Kind::Command(Command { name: "tasks".into(), arguments }));
            }
            "questions" => {
                let command = Command { name: "questions".into(), arguments: Vec::new() };
                self.pass_on(turn, message, Kind::Command(command));
            }
            "answer" => {
                let (question, words) = self.state.questions.named(given.rest);
                message.text = words.to_owned();
                self.pass_on(turn, message, Kind::Answer(question));
            }
            _ => return Some(message),
        }
        None
    }

    /// Something small that the adapter says by itself.
    fn notice(&mut self, turn: &mut Turn, message: &Message, words: &str) {
        let mut body = json!({ "text": words });
        message.place.put_into(&mut body);
        body["reply_parameters"] = json!({ "message_id": message.number, "allow_sending_without_reply": true });
        self.ask(turn, Purpose::Notice, message.place.chat, "sendMessage", &body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_words_after_a_slash_and_may_name_their_bot() {
        let check = |text: &str, expected: Option<(&str, bool, &str)>| {
            let given = Given::of(text, "chela_bot");
            assert_eq!(given.map(|given| (given.name, given.for_us, given.rest)), expected, "{text}");
        };
        check("/ask what is new?", Some(("ask", true, "what is new?")));
        check("/ask@Chela_Bot hi", Some(("ask", true, "hi")));
        check("/ask@other_bot hi", Some(("ask", false, "hi")));
        check("/tasks", Some(("tasks", true, "")));
        check("/answer\n8080", Some(("answer", true, "8080")));
        check("/usr/bin is full", None);
        check("/ hi", None);
        check("ask", None);
    }
}
