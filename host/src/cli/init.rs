//! `chela init`: a first configuration, from flags, from answers of a person at a terminal, or from defaults.
//! Keeps true: nothing is written before everything is answered and checked; no key is ever asked for, only where it is found.

mod choices;
mod questions;
mod words;

use std::io::{IsTerminal, stdin, stdout};
use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::output::table;
use super::{Listeners, Output};
use crate::app;
use crate::config::{Locale, Starter, StarterTeam};
use crate::id::AgentId;
use crate::layout::StateDir;
use crate::settings;
use choices::{Choices, Key, Kind};
use questions::Asking;
use words::Words;

#[derive(Args)]
pub(super) struct Init {
    #[command(flatten)]
    listeners: Listeners,
    /// What the deployment is called [default: chela]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The language in which agents are instructed [default: ko for Korean users, else en]
    #[arg(long, value_name = "en|ko", value_parser = locale)]
    locale: Option<Locale>,
    /// Agents of your own instead of the demo team, the first the default
    #[arg(long = "agent", value_name = "ID,…", value_delimiter = ',', conflicts_with_all = ["demo_team", "empty_team"])]
    agents: Vec<AgentId>,
    /// The demo team of three, as without any of these
    #[arg(long, conflicts_with = "empty_team")]
    demo_team: bool,
    /// Leave the team empty instead of adding the demo team
    #[arg(long)]
    empty_team: bool,
    /// Who answers for models: a script that needs no key, Anthropic, or a server that speaks OpenAI's chat API
    #[arg(long, value_enum, value_name = "scripted|anthropic|openai")]
    provider: Option<Kind>,
    /// Where the provider is, such as http://127.0.0.1:11434/v1 [default: the vendor's own address]
    #[arg(long, value_name = "URL", requires = "provider")]
    base_url: Option<String>,
    /// The model of the team [default for anthropic: claude-sonnet-5]
    #[arg(long, value_name = "MODEL", requires = "provider")]
    model: Option<String>,
    /// The environment variable that has the key [default: ANTHROPIC_API_KEY or OPENAI_API_KEY]
    #[arg(long, value_name = "VARIABLE", requires = "provider", conflicts_with_all = ["key_file", "no_key"])]
    key_env: Option<String>,
    /// A file whose first line is the key
    #[arg(long, value_name = "FILE", requires = "provider", conflicts_with = "no_key")]
    key_file: Option<PathBuf>,
    /// The provider wants no key
    #[arg(long, requires = "provider")]
    no_key: bool,
    /// Ask nothing: what no flag says is as usual
    #[arg(long, short)]
    yes: bool,
}

fn locale(text: &str) -> Result<Locale, String> {
    match text {
        "en" => Ok(Locale::En),
        "ko" => Ok(Locale::Ko),
        _ => Err("write en or ko".into()),
    }
}

impl Init {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let person = stdin().is_terminal() && stdout().is_terminal();
        let asks = person && !self.yes && !output.json;
        let mut choices = self.choices()?;
        let mut words = Words::english();
        if asks {
            refuse_early(dir)?;
            words = Words::of(users_locale());
            Asking::new(stdin().lock(), stdout().lock(), words).fill(&mut choices)?;
        }
        let starter = choices.starter(users_locale())?;
        app::init(dir, &starter)?;
        show(dir, &starter, output, words)
    }

    /// What the flags say; the rest is still open.
    fn choices(self) -> anyhow::Result<Choices> {
        let team = match (self.agents, self.empty_team, self.demo_team) {
            (ids, ..) if !ids.is_empty() => Some(StarterTeam::Own(ids)),
            (_, true, _) => Some(StarterTeam::Empty),
            (_, _, true) => Some(StarterTeam::Demo),
            _ => None,
        };
        let key = match (self.key_env, self.key_file, self.no_key) {
            (Some(name), ..) => Some(Key::variable(&name)?),
            (_, Some(file), _) => Some(Key::file(&file)?),
            (_, _, true) => Some(Key::None),
            _ => None,
        };
        Ok(Choices {
            name: self.name,
            locale: self.locale,
            team,
            kind: self.provider,
            base_url: self.base_url,
            model: self.model,
            key,
            listen: self.listeners.into(),
        })
    }
}

/// Nobody answers questions for nothing.
fn refuse_early(dir: &StateDir) -> Result<(), app::Error> {
    if dir.config().exists() {
        return Err(settings::Error::Exists { path: dir.config() }.into());
    }
    match dir.old_config().exists() {
        true => Err(app::Error::Foreign { path: dir.path().to_owned() }),
        false => Ok(()),
    }
}

/// The language of the person who calls, as the environment tells it.
fn users_locale() -> Locale {
    let said = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().filter_map(|name| std::env::var(name).ok());
    match said.into_iter().find(|value| !value.is_empty()) {
        Some(value) if value.starts_with("ko") => Locale::Ko,
        _ => Locale::En,
    }
}

fn show(dir: &StateDir, starter: &Starter, output: Output, words: &Words) -> anyhow::Result<()> {
    let config = settings::load(dir)?.config;
    let team: Vec<&str> = config.agents.list.iter().map(|agent| agent.id.as_ref()).collect();
    let model = config.agents.model.as_ref().map(|model| model.0.as_str());
    let key = starter.provider.as_ref().and_then(|provider| provider.key.as_ref());
    let document = json!({
        "config": dir.config(), "stateDir": dir.path(), "name": config.deployment.name,
        "locale": config.deployment.locale, "agents": team, "model": model, "key": key,
    });
    output.show(&document, || {
        let row = |name: &str, value: String| vec![format!("  {name}"), value];
        let mut rows = vec![
            row(words.name, config.deployment.name.clone()),
            row(words.language, config.deployment.locale.as_str().into()),
            row(words.team, if team.is_empty() { words.nobody.into() } else { team.join(", ") }),
            row(words.model, model.unwrap_or("-").into()),
        ];
        rows.extend(config.listen().iter().map(|(port, listen)| row(port.as_str(), listen.to_string())));
        let mut text = format!("{}\n{}\n", words.wrote(&dir.config()), table(&rows));
        text.extend(key.and_then(|key| words.key_is_missing(key)).map(|said| format!("{}: {said}\n", words.next)));
        text.push_str(&format!("{}: chela serve --state-dir {}", words.next, dir.path().display()));
        text
    });
    Ok(())
}
