//! The scripted provider, as a script writer meets it.

use serde_json::{Value, json};

use super::*;
use crate::ToolResult;

const DEPLOY: &str = r#"{
  // Deployments, and nothing else.
  rules: [
    { agent: "eden",
      when: "deploy",
      steps: [
        { say: "I look at it.", call: { tool: "task_start", args: { description: "Deploy {{input}}", deep: [{ by: "{{agent}}" }] } } },
        { say: "Done: {{result}} ({{result.id}}, {{ result.n }}{{result.none}})", delayMs: 200 },
      ] },
    { when: ["hello", "안녕"], steps: [{ say: "Hi, {{turn}}." }] },
    { when: "shaky", steps: [
        { say: "a", calls: [{ tool: "x" }, { tool: "y", args: {} }] },
        { fail: { kind: "overloaded", message: "busy with {{input}}", times: 2 }, delayMs: 5 },
        { fail: { kind: "rate_limit" } },
        { say: "b", call: { tool: "x" } },
        { say: "c" } ] },
  ],
}"#;

fn user(text: &str) -> Turn {
    Turn::User { text: text.into() }
}

fn assistant() -> Turn {
    Turn::Assistant { text: "…".into(), calls: vec![] }
}

fn results(text: &str) -> Turn {
    Turn::Results(vec![ToolResult { call_id: "c".into(), text: text.into(), is_error: false }])
}

fn answer(agent: &str, turns: &[Turn]) -> Scripted {
    answer_after(agent, turns, 0)
}

fn answer_after(agent: &str, turns: &[Turn], failures: u32) -> Scripted {
    let request = Request { turns: turns.to_vec(), ..Request::default() };
    Script::parse(DEPLOY).expect("a good script").answer_after(agent, &request, failures)
}

fn said(script: &str, turns: &[Turn]) -> String {
    let request = Request { turns: turns.to_vec(), ..Request::default() };
    Script::parse(script).expect("a good script").answer("eden", &request).answer.text
}

fn refused(script: &str, message: &str) {
    assert_eq!(Script::parse(script).unwrap_err().to_string(), message);
}

#[test]
fn the_steps_follow_each_other_and_then_the_run_ends() {
    let mut turns = vec![user("old"), assistant(), user("please DEPLOY it")];
    let first = answer("eden", &turns);
    assert_eq!(first.answer.text, "I look at it.");
    assert_eq!(first.answer.stop, Stop::ToolCalls);
    let call = &first.answer.calls[0];
    assert_eq!((call.id.as_str(), call.name.as_str()), ("call_2_1_1", "task_start"));
    let arguments = json!({"description": "Deploy please DEPLOY it", "deep": [{"by": "eden"}]});
    assert_eq!(Value::Object(call.arguments.clone()), arguments);
    assert_eq!(first.pieces, ["I ", "look ", "at ", "it."]);

    turns.extend([assistant(), results(r#"{"id": "task_1", "n": 7}"#)]);
    let second = answer("eden", &turns);
    assert_eq!(second.answer.text, r#"Done: {"id": "task_1", "n": 7} (task_1, 7)"#);
    assert_eq!((second.answer.stop, second.delay_ms), (Stop::End, 200));
    assert_eq!(second.pieces.concat(), second.answer.text);

    turns.push(assistant());
    let third = answer("eden", &turns);
    assert_eq!((third.answer.text.as_str(), third.answer.stop), ("", Stop::End));
    assert_eq!(third.pieces, [""; 0]);
}

#[test]
fn a_rule_is_for_its_agent_and_its_words_in_any_case() {
    assert_eq!(answer("noa", &[user("deploy")]).answer.text, "You said: deploy");
    assert_eq!(answer("noa", &[user("HELLO")]).answer.text, "Hi, 1.");
    assert_eq!(answer("noa", &[user("a"), user("안녕!")]).answer.text, "Hi, 2.");
    assert_eq!(answer("noa", &[user("x"), assistant()]).answer.text, "");
    assert_eq!(answer("noa", &[]).answer.text, "You said: ");
    assert_eq!(said("{}", &[user("x")]), "You said: x");
    assert_eq!(said("{ otherwise: '{{agent}} {{ {{input' }", &[user("x")]), "eden {{ {{input");
    assert_eq!(Script::parse("{}"), Ok(Script::default()));
}

#[test]
fn a_failing_step_fails_as_often_as_it_says_and_is_then_passed_over() {
    let turns = [user("shaky"), assistant(), results("")];
    for failures in [0, 1] {
        let scripted = answer_after("eden", &turns, failures);
        assert_eq!(scripted.failure, Some(Failure::new(FailureKind::Overloaded, "busy with shaky")));
        assert_eq!((scripted.delay_ms, scripted.answer.text.as_str()), (5, ""));
    }
    assert_eq!(answer_after("eden", &turns, 2).failure.expect("a whole answer").kind, FailureKind::RateLimit);
    let scripted = answer_after("eden", &turns, 3);
    assert_eq!((scripted.failure, scripted.answer.text.as_str()), (None, "b"));
    assert_eq!(scripted.answer.calls[0].id, "call_1_4_1");
    assert_eq!(answer("eden", &[user("shaky"), assistant(), results(""), assistant(), results("")]).answer.text, "c");
}

#[test]
fn several_calls_have_ids_of_their_own() {
    let scripted = answer("eden", &[user("shaky")]);
    let ids: Vec<&str> = scripted.answer.calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["call_1_1_1", "call_1_1_2"]);
}

#[test]
fn usage_is_estimated() {
    let request = Request { system: "abcdefg".into(), turns: vec![user("안녕하세요")], ..Request::default() };
    let usage = Script::parse("{ otherwise: 'abcdefg' }").expect("a good script").answer("eden", &request).answer.usage;
    assert_eq!(usage, Usage { input: 7, output: 2, ..Usage::default() });
}

#[test]
fn nobodys_words_become_a_placeholder_and_what_is_put_in_is_short() {
    assert_eq!(said("{}", &[user("{{agent}}")]), "You said: {{agent}}");
    assert_eq!(said("{}", &[user(&"가".repeat(9000))]).chars().count(), 510);
    let greedy = format!("{{ otherwise: '{}' }}", "{{input}}".repeat(100_000));
    assert_eq!(said(&greedy, &[user(&"x".repeat(500))]).len(), 1024 * 1024);
    assert_eq!(said(&greedy, &[user(&"가".repeat(500))]).len(), 1024 * 1024 - 1);
}

#[test]
fn a_script_that_is_not_right_says_where_and_what_to_write() {
    refused("[]", "the script: write an object with the keys `rules`, `otherwise`");
    refused("{ rules: 1 }", "the script, `rules`: write `[{ steps: [...] }]`");
    refused("{ rule: [] }", "the script: the key `rule` means nothing here; the keys are `rules`, `otherwise`");
    refused("{ otherwise: 1 }", "the script, `otherwise`: write a text");
    let rule = |rule: &str, message: &str| refused(&format!("{{ rules: [{{ steps: [] }}, {rule}] }}"), message);
    rule("{}", "rule 2, `steps`: write a list of steps, as `[{ say: \"...\" }]`");
    rule("{ steps: [], agent: 1 }", "rule 2, `agent`: write a text");
    let when = "rule 2, `when`: write a text, or a list of texts of which one must occur; leave it out for always";
    rule("{ steps: [], when: '' }", when);
    rule("{ steps: [], when: [] }", when);
    rule("{ steps: [], when: [1] }", when);
    let step = |step: &str, message: &str| rule(&format!("{{ steps: [{{ say: '' }}, {step}] }}"), message);
    step("{}", "rule 2, step 2, `say`: write `say`, `call`, `calls` or `fail`");
    step("{ say: 1 }", "rule 2, step 2, `say`: write a text");
    step("{ say: '', fail: {} }", "rule 2, step 2, `say`: leave it out, since the step has `fail`");
    step("{ call: {}, calls: [] }", "rule 2, step 2, `call`: put it into `calls`");
    step("{ say: '', call: {}, calls: [] }", "rule 2, step 2, `call`: put it into `calls`");
    step("{ call: {} }", "rule 2, step 2, `call`, `tool`: write the name of a tool");
    step(
        "{ calls: [{ tool: 'x', args: 1 }] }",
        "rule 2, step 2, `calls` 1, `args`: write an object, as `{ description: \"...\" }`",
    );
    step("{ say: '', delayMs: 600001 }", "rule 2, step 2, `delayMs`: write a whole number from 0 to 600000");
    step(
        "{ fail: { kind: 'overloaded', times: 0 } }",
        "rule 2, step 2, `fail`, `times`: write a whole number from 1 to 1000",
    );
    step(
        "{ fail: { kind: 'tired' } }",
        "rule 2, step 2, `fail`, `kind`: write one of auth, rate_limit, overloaded, timeout, context_length, invalid, refusal, server, broken, too_large, malformed",
    );
    step(
        "{ say: 'a {{imput}}' }",
        "rule 2, step 2, `say`: the placeholder {{imput}} is not known; write {{input}}, {{result}}, {{result.KEY}}, {{agent}} or {{turn}}",
    );
}

#[test]
fn text_that_is_no_json5_says_its_line() {
    refused("{ rules: [\n  { steps: ", "the script is no JSON5 at line 2 column 3: the text ends within the value");
    refused("{} more", "the script is no JSON5 at line 1 column 4: take out what follows the closing brace");
    let twice = Script::parse("{ rules: [], rules: [] }").unwrap_err().to_string();
    assert!(twice.contains("the key `rules` stands twice"), "{twice}");
    assert!(matches!(Script::parse("{ otherwise: NaN }"), Err(ScriptError::Syntax { .. })));
}

#[test]
fn every_bound_of_a_script_is_kept() {
    let steps = |count: usize| format!("{{ rules: [{{ steps: [{}] }}] }}", "{ say: '' },".repeat(count));
    assert!(Script::parse(&steps(50)).is_ok());
    refused(&steps(51), "rule 1, `steps`: keep the list within 50");
    let rules = |count: usize| format!("{{ rules: [{}] }}", "{ steps: [] },".repeat(count));
    assert!(Script::parse(&rules(1000)).is_ok());
    refused(&rules(1001), "the script, `rules`: keep the list within 1000");
    refused(&" ".repeat(1024 * 1024 + 1), "the script has 1048577 bytes; keep it within 1048576");
    let args = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        format!("{{ rules: [{{ steps: [{{ call: {{ tool: 'x', args: {{ a: {open}{close} }} }} }}] }}] }}")
    };
    assert!(Script::parse(&args(16)).is_ok());
    refused(&args(17), "rule 1, step 1, `call`, `args`: nest no deeper than 16 levels");
    assert!(matches!(Script::parse(&"[".repeat(500_000)), Err(ScriptError::Syntax { .. })));
}
