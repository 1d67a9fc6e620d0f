//! A deployment's own prompt: text with placeholders, checked when it is configured.
//! Keeps true: a value is put in as it is and never read again, so braces in a task's text stay what they are.
//! Never: renders more than a prompt may hold.

use std::borrow::Cow;

use serde::Deserialize;

use crate::facts::Facts;
use crate::text::{PROMPT_CHARS_MAX, TEXT_CHARS_MAX, cut};

#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Template(Vec<Piece>);

#[derive(Debug)]
enum Piece {
    Text(String),
    Value(Placeholder),
}

#[derive(Clone, Copy, Debug)]
enum Placeholder {
    Task,
    Steps,
    Remaining,
    Current,
    Count,
    Max,
    Idle,
    Owner,
    Reason,
    Action,
    Error,
}

const KNOWN: [(&str, Placeholder); 11] = [
    ("{task}", Placeholder::Task),
    ("{steps}", Placeholder::Steps),
    ("{remaining}", Placeholder::Remaining),
    ("{current}", Placeholder::Current),
    ("{count}", Placeholder::Count),
    ("{max}", Placeholder::Max),
    ("{idle}", Placeholder::Idle),
    ("{owner}", Placeholder::Owner),
    ("{reason}", Placeholder::Reason),
    ("{action}", Placeholder::Action),
    ("{error}", Placeholder::Error),
];

impl TryFrom<String> for Template {
    type Error = String;

    fn try_from(source: String) -> Result<Self, String> {
        let length = source.chars().count();
        if length > TEXT_CHARS_MAX {
            return Err(format!("{length} characters; write at most {TEXT_CHARS_MAX}"));
        }
        if source.trim().is_empty() {
            return Err("an empty prompt; leave it out for the built-in one".to_owned());
        }
        let (mut pieces, mut rest) = (Vec::new(), source.as_str());
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            pieces.push(Piece::Text(before.to_owned()));
            let (piece, length) = read_brace(from)?;
            pieces.push(piece);
            rest = &from[length..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }
}

/// What begins with a brace, and how many bytes of the source it is.
fn read_brace(from: &str) -> Result<(Piece, usize), String> {
    for brace in ["{{", "}}"] {
        if from.starts_with(brace) {
            return Ok((Piece::Text(brace[..1].to_owned()), brace.len()));
        }
    }
    if let Some((name, placeholder)) = KNOWN.iter().find(|(name, _)| from.starts_with(name)) {
        return Ok((Piece::Value(*placeholder), name.len()));
    }
    match from.find('}') {
        Some(end) if end > 0 => {
            let known = KNOWN.map(|(name, _)| name).join(", ");
            Err(format!("unknown placeholder {}; known are {known}", cut(&from[..=end], 50)))
        }
        Some(_) | None => Err("a single brace; write {{ or }} for a brace of the text itself".to_owned()),
    }
}

impl Template {
    pub fn render(&self, facts: &Facts) -> String {
        let mut prompt = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => prompt.push_str(text),
                Piece::Value(placeholder) => prompt.push_str(&value(*placeholder, facts)),
            }
            // A character has at most four bytes: past this the rest would be cut off anyway.
            if prompt.len() > 4 * PROMPT_CHARS_MAX {
                break;
            }
        }
        cut(&prompt, PROMPT_CHARS_MAX).into_owned()
    }
}

fn value<'a>(placeholder: Placeholder, facts: &'a Facts) -> Cow<'a, str> {
    match placeholder {
        Placeholder::Task => Cow::Borrowed(&facts.task),
        Placeholder::Steps => Cow::Borrowed(&facts.steps),
        Placeholder::Remaining => Cow::Owned(facts.remaining.to_string()),
        Placeholder::Current => {
            Cow::Borrowed(facts.current.as_deref().or(facts.first_open.as_deref()).unwrap_or_default())
        }
        Placeholder::Count => Cow::Owned(facts.count.to_string()),
        Placeholder::Max => Cow::Owned(facts.max.to_string()),
        Placeholder::Idle => Cow::Borrowed(&facts.idle),
        Placeholder::Owner => Cow::Borrowed(&facts.owner),
        Placeholder::Reason => Cow::Borrowed(&facts.reason),
        Placeholder::Action => Cow::Borrowed(&facts.action),
        Placeholder::Error => Cow::Borrowed(&facts.error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{blocker, request, steps};
    use chela_sdk::continuation::{Layer, NextRequest};

    fn render(source: &str, request: &NextRequest) -> String {
        let template = Template::try_from(source.to_owned()).expect("a good template");
        template.render(&Facts::of(request.task.as_ref().expect("a task"), request))
    }

    fn check(source: &str, expected: &str) {
        let blocker = Some(blocker("external"));
        let request = NextRequest { blocker, last_error: "overloaded".into(), ..request(Layer::Unblock, steps("x.")) };
        assert_eq!(render(source, &request), expected);
    }

    fn check_refused(source: &str, message: &str) {
        let error = Template::try_from(source.to_owned()).expect_err("refused");
        assert!(error.starts_with(message), "{error}");
    }

    #[test]
    fn every_placeholder_has_its_value() {
        check("{task}: {remaining} left, {current}", "OAuth: 1 left, do s2");
        check("{steps}", "✅ (s1) do s1\n□ (s2) do s2");
        check("{count}/{max} after {idle}", "2/3 after less than a minute");
        check("{owner}, {reason}, {action}, {error}", "noah, no API key, send the key, overloaded");
        check("한글 {task}{task} 끝", "한글 OAuthOAuth 끝");
        check("no placeholder", "no placeholder");
    }

    #[test]
    fn a_value_that_is_missing_is_empty() {
        let polling = request(Layer::Polling, Vec::new());
        assert_eq!(render("[{current}{reason}{action}{error}{steps}] {remaining} {owner}", &polling), "[] 0 eden");
    }

    #[test]
    fn a_doubled_brace_is_a_brace() {
        check("{{task}} {{}} {{{task}}}", "{task} {} {OAuth}");
    }

    #[test]
    fn what_is_no_placeholder_is_refused() {
        check_refused("{tsak}", "unknown placeholder {tsak}; known are {task}, {steps}");
        check_refused("{}", "unknown placeholder {}");
        check_refused("{ task }", "unknown placeholder { task }");
        check_refused("{task", "a single brace");
        check_refused("task}", "a single brace");
        check_refused(&format!("{{{}}}", "한".repeat(9_000)), "unknown placeholder {한");
        check_refused(" \n", "an empty prompt");
    }

    #[test]
    fn braces_in_the_description_are_not_expanded() {
        let mut hostile = request(Layer::Polling, steps(">"));
        let task = hostile.task.as_mut().expect("a task");
        (task.description, task.steps[0].content) = ("{error} {{steps}} {nothing".into(), "}{task}".into());
        assert_eq!(render("{task}\n{steps}", &hostile), "{error} {{steps}} {nothing\n▶ (s1) }{task}");
    }

    #[test]
    fn a_prompt_has_an_end() {
        let mut hostile = request(Layer::Polling, steps(&".".repeat(200)));
        for step in &mut hostile.task.as_mut().expect("a task").steps {
            step.content = "🦀".repeat(1_000);
        }
        let prompt = render(&"{steps}".repeat(1_000), &hostile);
        assert_eq!(prompt.chars().count(), PROMPT_CHARS_MAX + 1);
    }
}
