//! Every function that the host calls in a component: how its input is handed over, and what makes its answer usable.
//! Keeps true: nothing that a component answers leaves here unchecked. Never: runs a guest by itself.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use wasmtime::Store;

use super::bindings::{classification, prompts, tasks, tool_guard, types};
use super::instance::{Exports, Guest, Surroundings};
use crate::event::Role;
use crate::policy::{
    Action, Actor, Block, CategoriesInput, Classification, Counters, InstructionsInput, Layer, NextInput, RolesInput,
    Source, StepStatus, Task, ToolCall, Verdict, World,
};

/// Texts that people and models read are cut at this many bytes; a longer one is no good answer.
const TEXT_BYTES_MAX: usize = 256 * 1024;
const REASON_CHARS_MAX: usize = 1_000;
const SUB_TAGS_MAX: usize = 8;
const SUB_TAG_CHARS_MAX: usize = 40;
const LINES_MAX: usize = 50;
/// A day: whoever wants to wait longer may as well not wait.
const BACKOFF_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// One function of one world.
pub(super) trait Call: 'static {
    const WORLD: World;
    const EXPORT: &'static str;
    type Input: Clone + Send + Sync + Serialize + DeserializeOwned + 'static;
    type Answer;
    type Output: Clone + PartialEq + Send + Serialize + DeserializeOwned + 'static;

    /// Lends the input to the component and gives what it answers.
    fn call(
        exports: &Exports,
        store: &mut Store<Guest>,
        input: &Self::Input,
        around: &Surroundings,
        budget_ms: u32,
    ) -> wasmtime::Result<Result<Self::Answer, types::Failure>>;

    /// What the answer means, or why it means nothing.
    fn check(answer: Self::Answer, input: &Self::Input) -> Result<Self::Output, String>;

    /// Whether every such answer is told as an event; `named` when the question was about a task, a job or a work session.
    fn is_notable(_output: &Self::Output, _named: bool) -> bool {
        false
    }
}

pub(super) struct Roles;
pub(super) struct Categories;
pub(super) struct BeforeToolCall;
pub(super) struct Instructions;
pub(super) struct Next;

/// The component was checked for this interface when it was loaded.
fn missing() -> wasmtime::Error {
    wasmtime::Error::msg("the component does not export this interface")
}

impl Call for Roles {
    const WORLD: World = World::Classifier;
    const EXPORT: &'static str = "roles";
    type Input = RolesInput;
    type Answer = classification::RolesAnswer;
    type Output = Vec<Role>;

    fn call(
        exports: &Exports,
        store: &mut Store<Guest>,
        input: &RolesInput,
        around: &Surroundings,
        budget_ms: u32,
    ) -> wasmtime::Result<Result<Self::Answer, types::Failure>> {
        let keys: Vec<Vec<&str>> = input.events.iter().map(|event| lent(&event.session_keys)).collect();
        let facts = input.events.iter().zip(&keys).map(|(event, session_keys)| classification::EventFacts {
            event_type: &event.event_type,
            agent: &event.agent,
            from_agent: &event.from_agent,
            to_agent: &event.to_agent,
            session_keys,
            work_session: &event.work_session,
        });
        let request = classification::RolesRequest {
            context: context(around, budget_ms),
            main_agents: &lent(&input.main_agents),
            events: &facts.collect::<Vec<_>>(),
            attrs: &[],
        };
        exports.classification.as_ref().ok_or_else(missing)?.call_roles(store, request)
    }

    fn check(answer: Self::Answer, input: &RolesInput) -> Result<Vec<Role>, String> {
        same_count(answer.roles.len(), input.events.len(), "roles", "events")?;
        let role = |role| match role {
            classification::Role::ConversationMain => Ok(Role::Conversation),
            classification::Role::DelegationSubagent => Ok(Role::Delegation),
            classification::Role::OrchestrationTask => Ok(Role::Orchestration),
            classification::Role::SystemObservability => Ok(Role::System),
            classification::Role::Other => Err("`other` is no role".to_owned()),
        };
        answer.roles.into_iter().map(role).collect()
    }
}

impl Call for Categories {
    const WORLD: World = World::Classifier;
    const EXPORT: &'static str = "categories";
    type Input = CategoriesInput;
    type Answer = classification::CategoriesAnswer;
    type Output = Vec<Classification>;

    fn call(
        exports: &Exports,
        store: &mut Store<Guest>,
        input: &CategoriesInput,
        around: &Surroundings,
        budget_ms: u32,
    ) -> wasmtime::Result<Result<Self::Answer, types::Failure>> {
        let lists = input
            .conversations
            .iter()
            .map(|given| [&given.texts, &given.participants, &given.tags].map(|list| lent(list)));
        let lists: Vec<[Vec<&str>; 3]> = lists.collect();
        let conversations =
            lists.iter().map(|[texts, participants, tags]| classification::Conversation { texts, participants, tags });
        let request = classification::CategoriesRequest {
            context: context(around, budget_ms),
            categories: &lent(&input.categories),
            conversations: &conversations.collect::<Vec<_>>(),
            attrs: &[],
        };
        exports.classification.as_ref().ok_or_else(missing)?.call_categories(store, request)
    }

    fn check(answer: Self::Answer, input: &CategoriesInput) -> Result<Vec<Classification>, String> {
        same_count(answer.classifications.len(), input.conversations.len(), "classifications", "conversations")?;
        answer.classifications.into_iter().map(|given| classified(given, input)).collect()
    }

    fn is_notable(_output: &Self::Output, named: bool) -> bool {
        named
    }
}

fn classified(given: classification::Classification, input: &CategoriesInput) -> Result<Classification, String> {
    let known = |key: &String| match input.categories.contains(key) {
        true => Ok(()),
        false => Err(format!("the category {:?} is not in the deployment's table", short(key))),
    };
    given.primary.iter().chain(&given.secondary).try_for_each(known)?;
    if !(0.0..=1.0).contains(&given.confidence) {
        return Err(format!("the confidence {} is not between 0 and 1", given.confidence));
    }
    if given.sub_tags.len() > SUB_TAGS_MAX || given.sub_tags.iter().any(|tag| tag.chars().count() > SUB_TAG_CHARS_MAX) {
        return Err(format!("sub-tags are at most {SUB_TAGS_MAX} of {SUB_TAG_CHARS_MAX} characters each"));
    }
    let reason: String = given.reason.chars().take(REASON_CHARS_MAX).collect();
    let source = match given.source {
        classification::Source::Rule => Source::Rule,
        classification::Source::Heuristic => Source::Heuristic,
        classification::Source::Other => return Err("the source must be `rule` or `heuristic`".into()),
    };
    let Some(primary) = given.primary else { return Ok(Classification::none(reason)) };
    let secondary = distinct(given.secondary.into_iter().filter(|key| *key != primary));
    Ok(Classification {
        primary: Some(primary),
        secondary,
        sub_tags: given.sub_tags,
        confidence: given.confidence,
        source,
        reason,
    })
}

impl Call for BeforeToolCall {
    const WORLD: World = World::Guard;
    const EXPORT: &'static str = "before-tool-call";
    type Input = ToolCall;
    type Answer = tool_guard::Answer;
    type Output = Verdict;

    fn call(
        exports: &Exports,
        store: &mut Store<Guest>,
        input: &ToolCall,
        around: &Surroundings,
        budget_ms: u32,
    ) -> wasmtime::Result<Result<Self::Answer, types::Failure>> {
        let steps = steps(input.task.as_ref());
        let request = tool_guard::Request {
            context: context(around, budget_ms),
            tool: &input.tool,
            arguments: &serde_json::to_string(&input.arguments)?,
            agent: agent(&input.agent),
            task: input.task.as_ref().map(|found| task(found, &steps)),
            attrs: &[],
        };
        exports.tool_guard.as_ref().ok_or_else(missing)?.call_before_tool_call(store, request)
    }

    fn check(answer: Self::Answer, input: &ToolCall) -> Result<Verdict, String> {
        match answer.verdict {
            tool_guard::Verdict::Allow => Ok(Verdict::Allow),
            tool_guard::Verdict::AllowWith(warning) => Ok(Verdict::AllowWith { warning: fitting("warning", warning)? }),
            tool_guard::Verdict::Block(refusal) => {
                let steps = input.task.iter().flat_map(|task| &task.steps);
                let known: Vec<&str> = steps.map(|step| step.id.as_str()).collect();
                if let Some(id) = refusal.remaining.iter().find(|id| !known.contains(&id.as_str())) {
                    return Err(format!("the task has no step {:?}", short(id)));
                }
                if refusal.instructions.len() > LINES_MAX {
                    return Err(format!("more than {LINES_MAX} instructions"));
                }
                let instructions = refusal.instructions.into_iter().map(|line| fitting("instruction", line));
                Ok(Verdict::Block(Block {
                    reason: fitting("reason", refusal.reason)?,
                    remaining: distinct(refusal.remaining.into_iter()),
                    instructions: instructions.collect::<Result<_, _>>()?,
                }))
            }
            tool_guard::Verdict::Rewrite(text) => {
                let arguments = serde_json::from_str::<Map<String, Value>>(&fitting("rewritten arguments", text)?);
                let arguments =
                    arguments.map_err(|error| format!("the rewritten arguments are no JSON object: {error}"))?;
                Ok(Verdict::Rewrite { arguments })
            }
            tool_guard::Verdict::Other(_) => Err("`other` is no verdict".into()),
        }
    }

    fn is_notable(output: &Verdict, named: bool) -> bool {
        *output != Verdict::Allow || named
    }
}

impl Call for Instructions {
    const WORLD: World = World::Continuation;
    const EXPORT: &'static str = "instructions";
    type Input = InstructionsInput;
    type Answer = prompts::InstructionsAnswer;
    type Output = String;

    fn call(
        exports: &Exports,
        store: &mut Store<Guest>,
        input: &InstructionsInput,
        around: &Surroundings,
        budget_ms: u32,
    ) -> wasmtime::Result<Result<Self::Answer, types::Failure>> {
        let context = context(around, budget_ms);
        let request = prompts::InstructionsRequest { context, agent: agent(&input.agent), attrs: &[] };
        exports.prompts.as_ref().ok_or_else(missing)?.call_instructions(store, request)
    }

    fn check(answer: Self::Answer, _input: &InstructionsInput) -> Result<String, String> {
        fitting("text", answer.text)
    }
}

impl Call for Next {
    const WORLD: World = World::Continuation;
    const EXPORT: &'static str = "next";
    type Input = NextInput;
    type Answer = prompts::NextAnswer;
    type Output = Action;

    fn call(
        exports: &Exports,
        store: &mut Store<Guest>,
        input: &NextInput,
        around: &Surroundings,
        budget_ms: u32,
    ) -> wasmtime::Result<Result<Self::Answer, types::Failure>> {
        let attrs: Vec<(&str, &str)> =
            input.attrs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let steps = steps(input.task.as_ref());
        let request = prompts::NextRequest {
            context: context(around, budget_ms),
            agent: agent(&input.agent),
            layer: layer(input.layer),
            task: input.task.as_ref().map(|found| task(found, &steps)),
            blocker: input.blocker.as_ref().map(|blocker| prompts::Blocker {
                kind: &blocker.kind,
                reason: &blocker.reason,
                action: &blocker.action,
                owner: &blocker.owner,
            }),
            counters: counters(input.counters),
            idle_ms: input.idle_ms,
            last_error: &input.last_error,
            same_error: input.same_error,
            earlier: &input.earlier,
            attrs: &attrs,
        };
        exports.prompts.as_ref().ok_or_else(missing)?.call_next(store, request)
    }

    fn check(answer: Self::Answer, _input: &NextInput) -> Result<Action, String> {
        match answer.action {
            prompts::Action::Send(prompt) if prompt.trim().is_empty() => Err("the prompt is empty".into()),
            prompts::Action::Send(prompt) => Ok(Action::Send { prompt: fitting("prompt", prompt)? }),
            prompts::Action::Skip(reason) => Ok(Action::Skip { reason: fitting("reason", reason)? }),
            prompts::Action::Backoff(ms) if ms > BACKOFF_MS_MAX => Err(format!("a backoff of {ms} ms; at most a day")),
            prompts::Action::Backoff(ms) => Ok(Action::Backoff { ms }),
            prompts::Action::Other(_) => Err("`other` is no action".into()),
        }
    }

    fn is_notable(_output: &Action, _named: bool) -> bool {
        true
    }
}

fn same_count(given: usize, wanted: usize, things: &str, of: &str) -> Result<(), String> {
    if given == wanted { Ok(()) } else { Err(format!("{given} {things} for {wanted} {of}")) }
}

fn fitting(what: &str, text: String) -> Result<String, String> {
    match text.len() {
        0..=TEXT_BYTES_MAX => Ok(text),
        length => Err(format!("the {what} has {length} bytes, {TEXT_BYTES_MAX} are allowed")),
    }
}

/// Each one once; they are known words, so there are few.
fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = std::collections::BTreeSet::new();
    words.filter(|word| seen.insert(word.clone())).collect()
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

fn lent(strings: &[String]) -> Vec<&str> {
    strings.iter().map(String::as_str).collect()
}

pub(super) fn context(around: &Surroundings, budget_ms: u32) -> types::Context<'_> {
    types::Context {
        now_ms: around.now_ms,
        seed: around.seed,
        deployment: &around.deployment,
        locale: around.locale,
        budget_ms,
    }
}

fn agent(actor: &Actor) -> tasks::Agent<'_> {
    tasks::Agent { id: &actor.id, role: &actor.role, session_key: &actor.session_key }
}

fn steps(task: Option<&Task>) -> Vec<tasks::Step<'_>> {
    let status = |status| match status {
        StepStatus::Pending => tasks::StepStatus::Pending,
        StepStatus::InProgress => tasks::StepStatus::InProgress,
        StepStatus::Done => tasks::StepStatus::Done,
        StepStatus::Skipped => tasks::StepStatus::Skipped,
    };
    let steps = task.map(|task| task.steps.as_slice()).unwrap_or_default().iter();
    steps.map(|step| tasks::Step { id: &step.id, content: &step.content, status: status(step.status) }).collect()
}

fn task<'a>(task: &'a Task, steps: &'a [tasks::Step<'a>]) -> tasks::Task<'a> {
    tasks::Task { id: &task.id, description: &task.description, status: &task.status, steps }
}

fn layer(layer: Layer) -> prompts::Layer {
    match layer {
        Layer::SelfDriving => prompts::Layer::SelfDriving,
        Layer::EventBased => prompts::Layer::EventBased,
        Layer::Polling => prompts::Layer::Polling,
        Layer::Unblock => prompts::Layer::Unblock,
        Layer::Backlog => prompts::Layer::Backlog,
        Layer::Zombie => prompts::Layer::Zombie,
    }
}

fn counters(counters: Counters) -> prompts::Counters {
    prompts::Counters {
        in_a_row: counters.in_a_row,
        in_a_row_max: counters.in_a_row_max,
        without_progress: counters.without_progress,
        requests: counters.requests,
        requests_max: counters.requests_max,
    }
}
