//! The name of a plugin: of its project, its package, its file and the slot that it may serve in.

use std::fmt;

/// As long as the name of a guard may be.
const LENGTH_MAX: usize = 40;

/// Words that already mean something where a plugin's name stands.
const RESERVED: [&str; 11] =
    ["builtin", "channel", "chela", "chela-sdk", "classifier", "continuation", "core", "guard", "std", "test", "wit"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error(
        "{given:?} is no name for a plugin; use a-z, 0-9 and `-`, begin with a letter, at most {LENGTH_MAX}, as in {advice:?}"
    )]
    Form { given: String, advice: String },
    #[error("{given:?} is the name of something else; add a word, as in \"my-{given}\"")]
    Reserved { given: String },
}

impl Name {
    /// Checks a name; `taken` are further ones that mean something here, such as default components.
    pub fn parse<'a>(given: &str, taken: impl IntoIterator<Item = &'a str>) -> Result<Self, BadName> {
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let begins = given.starts_with(|c: char| c.is_ascii_lowercase());
        if !begins || !given.chars().all(good) || given.ends_with('-') || given.len() > LENGTH_MAX {
            return Err(BadName::Form { given: given.chars().take(80).collect(), advice: advice(given) });
        }
        let mut reserved = RESERVED.into_iter().chain(taken);
        match reserved.any(|word| word == given) {
            true => Err(BadName::Reserved { given: given.to_owned() }),
            false => Ok(Self(given.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// As a name of a type: `no-deletes` is `NoDeletes`.
    pub fn as_type(&self) -> String {
        let capital = |word: &str| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
        };
        self.0.split('-').map(capital).collect()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The nearest name that would do.
fn advice(given: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = given.chars().map(letter).collect();
    let words: Vec<&str> = text.split('-').filter(|word| !word.is_empty()).collect();
    let joined: String = words.join("-").chars().take(LENGTH_MAX - 3).collect();
    match joined.trim_matches('-') {
        "" => "my-plugin".into(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("my-{name}"),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(given: &str, expected: &str) {
        let said = Name::parse(given, ["rules"]).expect_err("refused").to_string();
        assert!(said.contains(expected), "{said}");
    }

    #[test]
    fn a_name_fits_wherever_it_goes() {
        let name = Name::parse("no-deletes2", ["rules"]).expect("a name");
        assert_eq!((name.as_str(), name.as_type().as_str()), ("no-deletes2", "NoDeletes2"));
        refused("no deletes", "as in \"no-deletes\"");
        refused("NoDeletes", "as in \"nodeletes\"");
        refused("", "as in \"my-plugin\"");
        refused("../evil", "as in \"evil\"");
        refused("2fast", "as in \"my-2fast\"");
        refused("차단", "as in \"my-plugin\"");
        refused(&"long".repeat(20), "at most 40");
        refused("ends-", "as in \"ends\"");
    }

    #[test]
    fn words_of_slots_and_default_components_are_taken() {
        refused("guard", "add a word, as in \"my-guard\"");
        refused("classifier", "is the name of something else");
        refused("rules", "is the name of something else");
    }
}
