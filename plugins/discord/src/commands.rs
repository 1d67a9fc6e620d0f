//! The application's commands: /ask an agent, list /tasks, /answer a question.

use chela_sdk::channel::{Command, Kind, Turn};
use chela_sdk::log;
use serde_json::{Value, json};

use crate::interactions::Interaction;
use crate::machine::Machine;
use crate::rest::{Ask, Outcome, Purpose};
use crate::wire;

const WORDS_MAX: usize = 4_000;

/// What Discord is told of them. 3 is an option of text.
fn definitions() -> Value {
    let option = |name: &str, description: &str, required: bool| json!({ "type": 3, "name": name, "description": description, "required": required });
    json!([
        { "name": "ask", "description": "Ask an agent", "options": [
            option("text", "What you want", true), option("agent", "The agent to ask", false) ] },
        { "name": "tasks", "description": "Show what the agents work on", "options": [
            option("agent", "Only the tasks of this agent", false) ] },
        { "name": "answer", "description": "Answer a question of an agent", "options": [
            option("text", "Your answer", true), option("question", "The question's id, when several are open", false) ] },
    ])
}

impl Machine {
    /// Sets the application's commands to ours, once for each form that they have had.
    pub fn register_commands(&mut self, turn: &mut Turn) {
        let Some(me) = self.state.me.as_ref().filter(|_| self.config.commands) else { return };
        let (application, definitions) = (me.application, definitions());
        let hash = format!("{application}:{:016x}", wire::hash(&definitions.to_string()));
        let is_asked = |call: &crate::rest::Call| matches!(call.purpose, Purpose::Commands { .. });
        if self.state.commands == hash || self.state.calls.iter().any(is_asked) {
            return;
        }
        let path = format!("/applications/{application}/commands");
        let ask = Ask::other("PUT", path, "/applications/*/commands", definitions);
        self.ask(turn, Purpose::Commands { hash }, ask);
    }

    pub fn commands_answered(&mut self, hash: String, outcome: &Outcome) {
        match outcome {
            Outcome::Done(_) => self.state.commands = hash,
            Outcome::Refused { status, said, .. } => {
                log::warn(&format!("the commands were not registered: {status} {said}"));
            }
            Outcome::Failed { said, .. } => log::warn(&format!("the commands were not registered: {said}")),
        }
    }

    pub fn command(&mut self, turn: &mut Turn, mut interaction: Interaction) {
        let option = |name: &str| {
            let mut options = wire::list(&interaction.data["options"], 25);
            let found = options.find(|option| option["name"] == name).map(|option| wire::text(&option["value"]));
            wire::clean(found.unwrap_or_default(), WORDS_MAX).trim().to_owned()
        };
        let (text, agent, question) = (option("text"), wire::name(&option("agent")), wire::name(&option("question")));
        match wire::text(&interaction.data["name"]) {
            "ask" if !text.is_empty() => {
                self.reply_later(turn, &interaction, false);
                interaction.agent = agent;
                self.pass_interaction(turn, &interaction, Kind::Message, text, None);
            }
            "tasks" => {
                self.reply_later(turn, &interaction, true);
                let arguments = if agent.is_empty() { Vec::new() } else { vec![("agent".to_owned(), agent)] };
                let command = Command { name: "tasks".into(), arguments };
                self.pass_interaction(turn, &interaction, Kind::Command(command), String::new(), None);
            }
            "answer" if !text.is_empty() => {
                self.reply_now(turn, &interaction, "Your answer is passed on.");
                self.pass_interaction(turn, &interaction, Kind::Answer(question), text, None);
            }
            _ => self.reply_now(turn, &interaction, "This bot does not know that command."),
        }
    }
}
