//! Asks a person at a terminal what no flag has said. Keeps true: every question has a default, and an end.

use std::fmt;
use std::io::{BufRead, Read, Write};
use std::path::Path;

use super::choices::{ANTHROPIC_MODEL, Choices, Key, Kind, is_name};
use super::words::Words;
use crate::config::{Listen, Locale, StarterTeam};
use crate::id::AgentId;
use crate::port::PerPort;

/// Whoever has not answered well by then does not want to.
const TRIES_MAX: usize = 20;
const LINE_BYTES_MAX: u64 = 4096;

/// Nobody answers any more.
#[derive(Debug)]
pub(super) struct Stopped(&'static str);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Stopped {}

pub(super) struct Asking<R, W> {
    input: R,
    output: W,
    words: &'static Words,
}

impl<R: BufRead, W: Write> Asking<R, W> {
    pub(super) fn new(input: R, output: W, words: &'static Words) -> Self {
        Self { input, output, words }
    }

    /// Asks for everything that is open.
    pub(super) fn fill(&mut self, choices: &mut Choices) -> Result<(), Stopped> {
        let words = self.words;
        self.say(words.hello);
        if choices.name.is_none() {
            let good = |text: &str| is_name(text).then(|| text.to_owned()).ok_or(words.bad_name.to_owned());
            choices.name = Some(self.ask(words.ask_name, "chela", good)?);
        }
        if choices.locale.is_none() {
            choices.locale = Some(self.pick(words.ask_language, words.locale.as_str(), &LANGUAGES)?);
        }
        if choices.team.is_none() {
            choices.team = Some(self.ask(words.ask_team, "demo", |text| team(text, words))?);
        }
        let nobody = choices.team == Some(StarterTeam::Empty);
        if choices.kind.is_none() && !nobody {
            choices.kind = Some(self.pick(words.ask_provider, "scripted", &PROVIDERS)?);
        }
        match choices.kind {
            Some(Kind::Anthropic | Kind::Openai) => self.provider(choices)?,
            Some(Kind::Scripted) | None => {}
        }
        self.addresses(&mut choices.listen)
    }

    fn provider(&mut self, choices: &mut Choices) -> Result<(), Stopped> {
        let words = self.words;
        if choices.kind == Some(Kind::Openai) && choices.base_url.is_none() {
            let good = |text: &str| match text.starts_with("https://") || text.starts_with("http://") {
                true => Ok(text.to_owned()),
                false => Err(words.bad_url.to_owned()),
            };
            choices.base_url = Some(self.ask(words.ask_url, "https://api.openai.com/v1", good)?);
        }
        if choices.model.is_none() {
            let usual = if choices.kind == Some(Kind::Anthropic) { ANTHROPIC_MODEL } else { "" };
            let good = |text: &str| match text.is_empty() || text.contains(char::is_whitespace) {
                true => Err(words.bad_model.to_owned()),
                false => Ok(text.to_owned()),
            };
            choices.model = Some(self.ask(words.ask_model, usual, good)?);
        }
        if choices.key.is_none() {
            choices.key = Some(self.key(choices)?);
        }
        Ok(())
    }

    fn key(&mut self, choices: &Choices) -> Result<Key, Stopped> {
        let words = self.words;
        let usual = if choices.usual_key().is_some() { "env" } else { "none" };
        match self.pick(words.ask_key, usual, &[("env", 0), ("file", 1), ("none", 2)])? {
            0 => {
                let variable = choices.kind.map_or("", Kind::variable);
                let good = |text: &str| Key::variable(text).map_err(|_| words.bad_variable.to_owned());
                self.ask(words.ask_variable, variable, good)
            }
            1 => {
                let good = |text: &str| match text.is_empty() {
                    true => Err(words.bad_file.to_owned()),
                    false => Key::file(Path::new(text)).map_err(|error| error.to_string()),
                };
                self.ask(words.ask_file, "", good)
            }
            _ => Ok(Key::None),
        }
    }

    /// One question for the three, and one each for who does not like them.
    fn addresses(&mut self, listen: &mut PerPort<Option<Listen>>) -> Result<(), Stopped> {
        if listen.iter().any(|(_, given)| given.is_some()) {
            return Ok(());
        }
        let words = self.words;
        let usual = crate::config::Config::default().listen();
        let shown: Vec<String> = usual.iter().map(|(port, at)| format!("{} {at}", port.as_str())).collect();
        let question = format!("{} ({})", words.ask_addresses, shown.join(", "));
        if self.pick(&question, "y", &YES_OR_NO)? {
            return Ok(());
        }
        for (port, at) in usual.iter() {
            let good = |text: &str| text.parse::<Listen>().map_err(|error| error.to_string());
            *listen.get_mut(port) = Some(self.ask(port.as_str(), &at.to_string(), good)?);
        }
        Ok(())
    }

    /// One of a few words, also by its beginning.
    fn pick<T: Copy>(&mut self, question: &str, usual: &str, among: &[(&str, T)]) -> Result<T, Stopped> {
        let words = self.words;
        let names: Vec<&str> = among.iter().map(|(name, _)| *name).collect();
        let one_of = format!("{}: {}", words.one_of, names.join(", "));
        let found = |text: &str| {
            let text = text.to_lowercase();
            let mut fits = among.iter().filter(|(name, _)| !text.is_empty() && name.starts_with(&text));
            fits.next().map(|(_, value)| *value).ok_or(one_of.clone())
        };
        self.ask(question, usual, found)
    }

    fn ask<T>(&mut self, question: &str, usual: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Stopped> {
        let stopped = Stopped(self.words.stopped);
        for _ in 0..TRIES_MAX {
            let default = if usual.is_empty() { String::new() } else { format!(" [{usual}]") };
            let asked = write!(self.output, "{question}{default}: ").and_then(|()| self.output.flush());
            let mut line = Vec::new();
            let read_on = self.input.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if asked.is_err() || !matches!(read_on, Ok(1..)) || !line.ends_with(b"\n") {
                break;
            }
            let line = String::from_utf8_lossy(&line);
            let answer = line.trim();
            match read(if answer.is_empty() { usual } else { answer }) {
                Ok(value) => return Ok(value),
                Err(said) => self.say(&format!("  {said}")),
            }
        }
        Err(stopped)
    }

    fn say(&mut self, text: &str) {
        // A reader that is gone answers no question either.
        let _ = writeln!(self.output, "{text}");
    }
}

const LANGUAGES: [(&str, Locale); 2] = [("en", Locale::En), ("ko", Locale::Ko)];
const PROVIDERS: [(&str, Kind); 3] =
    [("scripted", Kind::Scripted), ("anthropic", Kind::Anthropic), ("openai", Kind::Openai)];
const YES_OR_NO: [(&str, bool); 4] = [("yes", true), ("no", false), ("예", true), ("아니오", false)];

/// `demo`, `none`, or ids with commas or spaces between.
fn team(text: &str, words: &Words) -> Result<StarterTeam, String> {
    match text {
        "demo" => return Ok(StarterTeam::Demo),
        "none" => return Ok(StarterTeam::Empty),
        _ => {}
    }
    let ids: Result<Vec<AgentId>, _> =
        text.split([',', ' ']).filter(|id| !id.is_empty()).map(str::parse::<AgentId>).collect();
    let ids = ids.map_err(|_| words.bad_team.to_owned())?;
    let distinct: std::collections::BTreeSet<&AgentId> = ids.iter().collect();
    match !ids.is_empty() && distinct.len() == ids.len() {
        true => Ok(StarterTeam::Own(ids)),
        false => Err(words.bad_team.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(answers: &str, mut choices: Choices) -> (Result<Choices, Stopped>, String) {
        let mut output = Vec::new();
        let filled = Asking::new(answers.as_bytes(), &mut output, Words::english()).fill(&mut choices);
        (filled.map(|()| choices), String::from_utf8(output).expect("UTF-8"))
    }

    #[test]
    fn empty_lines_are_the_defaults() {
        let (choices, said) = asked("\n\n\n\n\n", Choices::default());
        let choices = choices.expect("answered");
        assert_eq!((choices.name.as_deref(), &choices.team), (Some("chela"), &Some(StarterTeam::Demo)));
        assert_eq!((choices.kind, choices.locale), (Some(Kind::Scripted), Some(Locale::En)));
        assert_eq!(said.matches("]: ").count(), 5, "{said}");
    }

    #[test]
    fn a_wrong_answer_is_asked_again_and_a_flag_is_not_asked_at_all() {
        let given = Choices { name: Some("lab".into()), locale: Some(Locale::Ko), ..Choices::default() };
        let answers = "Not An Id\nmina, joon\nother\nopenai\nhost\nhttp://127.0.0.1:1/v1\n\nqwen\n\nno\n0\n\noff\n";
        let (choices, said) = asked(answers, given);
        let choices = choices.unwrap_or_else(|error| panic!("{error} after {said}"));
        let ids = |team| matches!(team, Some(StarterTeam::Own(ids)) if ids.len() == 2);
        assert!(ids(choices.team), "{said}");
        assert_eq!((choices.key, choices.model.as_deref()), (Some(Key::None), Some("qwen")));
        let listen = choices.listen;
        assert_eq!(listen.gateway.map(|at| at.to_string()).as_deref(), Some("127.0.0.1:0"));
        assert_eq!(listen.hub, Some(Listen::Off));
        assert!(!said.contains("called"), "{said}");
    }

    #[test]
    fn a_key_is_not_taken_for_the_name_of_a_variable() {
        let given = Choices { name: Some("lab".into()), locale: Some(Locale::En), ..Choices::default() };
        let (choices, said) = asked("\nanthropic\n\n\nsk-ant-api03-x\nMY_KEY\n\n", given);
        assert_eq!(choices.expect("answered").key, Key::variable("MY_KEY").ok(), "{said}");
        assert!(said.contains("never the key itself"), "{said}");
    }

    #[test]
    fn the_end_of_the_answers_is_a_stop() {
        for answers in ["", "x\n", "x\nko", &"?\n".repeat(100)] {
            let (choices, _) = asked(answers, Choices::default());
            assert!(choices.is_err_and(|stopped| stopped.to_string().contains("nothing was written")), "{answers}");
        }
    }
}
