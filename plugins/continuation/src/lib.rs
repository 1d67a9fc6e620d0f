//! The default continuation: the rules that agents work by, and the prompt for one that stopped with work left.
//! Keeps true: every text it gives has an end, whatever the size of the task. Never: waits, counts or remembers; the
//! host has the timers and the counters, and tells them with each request.

mod config;
mod decision;
mod facts;
mod guidance;
mod prompts;
mod template;
mod text;
#[cfg(test)]
mod sample;

use chela_sdk::continuation::{Action, InstructionsRequest, NextRequest};
use chela_sdk::{ConfigError, Failure, Plugin, parse_config};

use config::Config;
use facts::Facts;

pub struct Continuation {
    config: Config,
}

impl Plugin for Continuation {
    const CONFIG_SCHEMA: &'static str = include_str!("config.schema.json");

    fn configure(json: &str) -> Result<Self, ConfigError> {
        parse_config(json).map(|config| Self { config })
    }
}

impl chela_sdk::continuation::Continuation for Continuation {
    fn instructions(&self, request: InstructionsRequest) -> Result<String, Failure> {
        // Sub-agents may not use the task tools that the rules are about.
        if is_subagent(&request.agent.session_key) {
            return Ok(String::new());
        }
        let rules = guidance::rules(self.config.language, &request.context.locale);
        let extra = self.config.extra_instructions.as_str().trim();
        Ok(if extra.is_empty() { rules.to_owned() } else { format!("{rules}\n\n{extra}") })
    }

    fn next(&self, request: NextRequest) -> Result<Action, Failure> {
        let task = match decision::task_to_prompt(&request) {
            Ok(task) => task,
            Err(action) => return Ok(action),
        };
        let facts = Facts::of(task, &request);
        Ok(Action::Send(match self.config.prompts.own(request.layer) {
            Some(template) => template.render(&facts),
            None => prompts::built_in(&facts),
        }))
    }
}

fn is_subagent(session_key: &str) -> bool {
    session_key.contains(":subagent:")
}

chela_sdk::continuation!(Continuation);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{request, steps};
    use chela_sdk::continuation::{Continuation as _, Layer};
    use chela_sdk::{Agent, Context};

    fn configured(json: &str) -> Continuation {
        Continuation::configure(json).expect("a good configuration")
    }

    fn check(json: &str, locale: &str, session_key: &str, start: &str, end: &str) {
        let request = InstructionsRequest {
            context: Context { now_ms: 0, seed: 0, deployment: String::new(), locale: locale.into(), budget_ms: 50 },
            agent: Agent { id: "eden".into(), role: "agent".into(), session_key: session_key.into() },
            attrs: Vec::new(),
        };
        let text = configured(json).instructions(request).expect("instructions");
        assert!(text.starts_with(start) && text.ends_with(end) && text.is_empty() == start.is_empty(), "{text}");
    }

    const MAIN: &str = "agent:eden:main";
    const KOREAN: (&str, &str) = ("### Task Steps (구조화된 작업 단계)\n", "멈출 필요가 없다면 멈추지 마라.");
    const ENGLISH: (&str, &str) = ("### Task Steps (structured", "do not stop.");

    #[test]
    fn the_rules_are_in_the_language_of_the_deployment() {
        check("{}", "ko", MAIN, KOREAN.0, KOREAN.1);
        check("{}", "ko-KR", MAIN, KOREAN.0, KOREAN.1);
        check("{}", "en", MAIN, ENGLISH.0, ENGLISH.1);
        check("{}", "", MAIN, ENGLISH.0, ENGLISH.1);
        check("{}", "k한", MAIN, ENGLISH.0, ENGLISH.1);
    }

    #[test]
    fn a_configured_language_overrides_that_of_the_deployment() {
        check(r#"{"language": "en"}"#, "ko", MAIN, ENGLISH.0, ENGLISH.1);
        check(r#"{"language": "ko"}"#, "en", MAIN, KOREAN.0, KOREAN.1);
        check(r#"{"language": "auto"}"#, "ko", MAIN, KOREAN.0, KOREAN.1);
    }

    #[test]
    fn extra_instructions_follow_the_rules() {
        check(r#"{"extraInstructions": " Run the tests. "}"#, "en", MAIN, ENGLISH.0, "do not stop.\n\nRun the tests.");
        check(r#"{"extraInstructions": "  "}"#, "en", MAIN, ENGLISH.0, ENGLISH.1);
    }

    #[test]
    fn a_subagent_is_told_nothing() {
        check(r#"{"extraInstructions": "Run the tests."}"#, "ko", "agent:eden:subagent:7", "", "");
    }

    #[test]
    fn an_own_template_replaces_the_prompt_of_its_layer_only() {
        let plugin = configured(r#"{"prompts": {"polling": "Go on: {task} ({idle})"}}"#);
        let mut polling = request(Layer::Polling, steps("x>"));
        polling.idle_ms = 300_000;
        assert!(matches!(plugin.next(polling), Ok(Action::Send(prompt)) if prompt == "Go on: OAuth (5 minutes)"));
        let other = plugin.next(request(Layer::EventBased, steps("x>")));
        assert!(matches!(other, Ok(Action::Send(prompt)) if prompt.starts_with("[SYSTEM REMINDER")));
    }

    #[test]
    fn the_example_of_the_readme_is_accepted() {
        let example = include_str!("../README.md").split("```json").nth(1).and_then(|rest| rest.split("```").next());
        configured(example.expect("an example"));
    }

    #[test]
    fn an_own_template_is_not_sent_where_there_is_nothing_to_do() {
        let plugin = configured(r#"{"prompts": {"selfDriving": "Go on"}}"#);
        assert!(matches!(plugin.next(request(Layer::SelfDriving, steps("xx"))), Ok(Action::Skip(_))));
    }
}
