//! What `chela init` was told, by flags and by answers, and what becomes of it.

use std::path::Path;

use clap::ValueEnum;

use crate::cli::exit::WrongArgument;
use crate::config::{self, Listen, Locale, ProviderKind, Secret, Starter, StarterProvider, StarterTeam};
use crate::port::PerPort;

/// The model of Anthropic that a team has unless another is named.
pub(super) const ANTHROPIC_MODEL: &str = "claude-sonnet-5";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Kind {
    Scripted,
    Anthropic,
    Openai,
}

impl Kind {
    /// The variable that usually has the key.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::Openai | Self::Scripted => "OPENAI_API_KEY",
        }
    }
}

/// Where the key of a provider is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Key {
    In(Secret),
    None,
}

impl Key {
    /// A key itself in place of a name must not end up in a file.
    pub(super) fn variable(name: &str) -> Result<Self, WrongArgument> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !starts_well || !name.chars().all(good) || name.len() > 128 {
            let said = "give the name of a variable such as ANTHROPIC_API_KEY, never the key itself".to_owned();
            return Err(WrongArgument { flag: "--key-env", said });
        }
        Ok(Self::In(secret(&[("env", name)])))
    }

    pub(super) fn file(path: &Path) -> Result<Self, WrongArgument> {
        let absolute = std::path::absolute(path).ok();
        let text = absolute.as_deref().and_then(Path::to_str);
        let wrong = || WrongArgument { flag: "--key-file", said: "give the path of a file, in UTF-8".into() };
        Ok(Self::In(secret(&[("file", text.ok_or_else(wrong)?)])))
    }
}

fn secret(fields: &[(&str, &str)]) -> Secret {
    let fields: serde_json::Map<_, _> =
        fields.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    serde_json::from_value(fields.into()).expect("a place where a secret is found")
}

/// What was said; the rest is open.
#[derive(Default)]
pub(super) struct Choices {
    pub(super) name: Option<String>,
    pub(super) locale: Option<Locale>,
    pub(super) team: Option<StarterTeam>,
    pub(super) kind: Option<Kind>,
    pub(super) base_url: Option<String>,
    pub(super) model: Option<String>,
    pub(super) key: Option<Key>,
    pub(super) listen: PerPort<Option<Listen>>,
}

impl Choices {
    /// What is open as usual, and all of it checked.
    pub(super) fn starter(self, locale: Locale) -> Result<Starter, WrongArgument> {
        let provider = self.provider()?;
        let starter = Starter {
            listen: self.listen,
            name: self.name.map(|name| name.trim().to_owned()),
            locale: self.locale.or(Some(locale)),
            team: self.team.unwrap_or_default(),
            provider,
        };
        if starter.name.as_ref().is_some_and(|name| !is_name(name)) {
            return Err(WrongArgument { flag: "--name", said: "give 1 to 100 characters on one line".into() });
        }
        match config::parse(&config::starter(&starter, "0123456789abcdef")) {
            Ok(_) => Ok(starter),
            Err(problems) => {
                let said = problems.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                Err(WrongArgument { flag: "init", said })
            }
        }
    }

    fn provider(&self) -> Result<Option<StarterProvider>, WrongArgument> {
        let Some(kind) = self.kind else { return Ok(None) };
        let wrong = |flag, said: &str| Err(WrongArgument { flag, said: said.to_owned() });
        let model = match (kind, &self.model) {
            (_, Some(model)) => model.clone(),
            (Kind::Anthropic, None) => ANTHROPIC_MODEL.into(),
            (Kind::Openai, None) => return wrong("--model", "name the model that the server has, such as qwen3:8b"),
            (Kind::Scripted, None) => String::new(),
        };
        let kind = match kind {
            Kind::Scripted if self.base_url.is_some() || self.key.is_some() || self.model.is_some() => {
                return wrong("--provider", "a script has no address, no key and no model; leave them out");
            }
            Kind::Scripted => return Ok(Some(StarterProvider::scripted())),
            Kind::Anthropic => ProviderKind::Anthropic,
            Kind::Openai => ProviderKind::Openai,
        };
        let key = match self.key.clone().or_else(|| self.usual_key()) {
            Some(Key::In(secret)) => Some(secret),
            Some(Key::None) | None => None,
        };
        Ok(Some(StarterProvider { kind, base_url: self.base_url.clone(), key, model }))
    }

    /// A server of this machine usually wants no key.
    pub(super) fn usual_key(&self) -> Option<Key> {
        let local = ["http://127.0.0.1", "http://localhost", "http://[::1]"];
        if self.base_url.as_deref().is_some_and(|url| local.iter().any(|start| url.starts_with(start))) {
            return None;
        }
        self.kind.and_then(|kind| Key::variable(kind.variable()).ok())
    }
}

pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= 100 && !name.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(choices: Choices, expected: Result<&str, &str>) {
        match (choices.starter(Locale::En), expected) {
            (Ok(starter), Ok(expected)) => {
                let key =
                    starter.provider.and_then(|provider| provider.key).map(|key| serde_json::json!(key).to_string());
                assert_eq!(key.unwrap_or_default(), expected);
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{:?} instead of {expected:?}", found.map(|starter| starter.provider)),
        }
    }

    fn of(kind: Kind) -> Choices {
        Choices { kind: Some(kind), ..Choices::default() }
    }

    #[test]
    fn what_is_not_said_is_as_usual() {
        check(Choices::default(), Ok(""));
        check(of(Kind::Scripted), Ok(""));
        check(of(Kind::Anthropic), Ok(r#"{"env":"ANTHROPIC_API_KEY"}"#));
        check(Choices { model: Some("m".into()), ..of(Kind::Openai) }, Ok(r#"{"env":"OPENAI_API_KEY"}"#));
        let local = Some("http://127.0.0.1:11434/v1".to_owned());
        check(Choices { model: Some("m".into()), base_url: local, ..of(Kind::Openai) }, Ok(""));
    }

    #[test]
    fn what_cannot_work_is_refused_before_anything_is_written() {
        check(of(Kind::Openai), Err("--model: name the model"));
        check(Choices { model: Some("m".into()), ..of(Kind::Scripted) }, Err("a script has no address"));
        check(Choices { name: Some("  ".into()), ..Choices::default() }, Err("--name"));
        let open = Some("http://198.51.100.7/v1".to_owned());
        check(
            Choices { model: Some("m".into()), base_url: open, ..of(Kind::Openai) },
            Err("must not travel unencrypted"),
        );
        assert!(Key::variable("sk-ant-0123").is_err());
    }
}
