//! Scripts as people write them, and as they get them wrong. Native: the suite runs them inside the component.

use chela_sdk::classifier::{
    CategoriesRequest, Classification, Classifier, Conversation, EventFacts, Role, RolesRequest,
};
use chela_sdk::continuation::{Action, Continuation, Counters, InstructionsRequest, Layer, NextRequest};
use chela_sdk::guard::{Guard, Request, Verdict};
use chela_sdk::{Agent, Context, Failure, Plugin, Step, StepStatus, Task};
use serde_json::json;

use super::Script;

fn script(text: &str) -> Script {
    configured(json!({ "script": text })).unwrap_or_else(|said| panic!("{said}"))
}

fn configured(config: serde_json::Value) -> Result<Script, String> {
    Script::configure(&config.to_string()).map_err(|error| format!("{}: {}", error.path, error.message))
}

fn refused(text: &str, expected: &str) {
    let said = configured(json!({ "script": text, "file": "guard.rhai" })).err().expect("refused");
    assert_eq!(said, expected);
}

fn context() -> Context {
    Context { now_ms: 1_700_000_000_000, seed: 7, deployment: "team".into(), locale: "ko".into(), budget_ms: 50 }
}

fn agent() -> Agent {
    Agent { id: "eden".into(), role: "worker".into(), session_key: "agent:eden:main".into() }
}

fn task() -> Task {
    let step = |id: &str, status| Step { id: id.into(), content: format!("do {id}"), status };
    let steps = vec![step("s1", StepStatus::Done), step("s2", StepStatus::InProgress), step("s3", StepStatus::Pending)];
    Task { id: "task_1".into(), description: "로그인".into(), status: "in_progress".into(), steps }
}

fn guard(text: &str, tool: &str, arguments: &str) -> Result<Verdict, Failure> {
    let (context, agent, task) = (context(), agent(), Some(task()));
    let request = Request { context, tool: tool.into(), arguments: arguments.into(), agent, task, attrs: Vec::new() };
    script(text).before_tool_call(request)
}

/// The verdict in one line.
fn check(text: &str, tool: &str, arguments: &str, expected: &str) {
    let said = match guard(text, tool, arguments) {
        Ok(Verdict::Allow) => "allow".to_owned(),
        Ok(Verdict::AllowWith(warning)) => format!("allow with {warning}"),
        Ok(Verdict::Block(refusal)) => {
            format!("block {}; {}; {}", refusal.reason, refusal.instructions.join("|"), refusal.remaining.join(","))
        }
        Ok(Verdict::Rewrite(arguments)) => format!("rewrite {arguments}"),
        Ok(Verdict::Other(_)) => "other".to_owned(),
        Err(failure) => failed(&failure),
    };
    assert_eq!(said, expected);
}

fn failed(failure: &Failure) -> String {
    match failure {
        Failure::Unsupported(said) => format!("unsupported: {said}"),
        Failure::InvalidInput(said) => format!("invalid: {said}"),
        Failure::Internal(said) => format!("internal: {said}"),
        Failure::Other((code, said)) => format!("{code}: {said}"),
    }
}

const NO_DELETES: &str = r#"
fn before_tool_call(request) {
    if request.tool != "files_delete" { return allow(); }
    if request.arguments.path.starts_with("tmp/") { return allow_with("임시 파일"); }
    block(`${request.agent.id} may not delete ${request.arguments.path}`, ["ask a person", "move it"], open_steps(request.task))
}"#;

#[test]
fn a_guard_answers_with_its_words() {
    check(NO_DELETES, "files_read", "{}", "allow");
    check(NO_DELETES, "files_delete", r#"{"path": "tmp/a"}"#, "allow with 임시 파일");
    let blocked = "block eden may not delete src/로그인.rs; ask a person|move it; s2,s3";
    check(NO_DELETES, "files_delete", r#"{"path": "src/로그인.rs"}"#, blocked);
    check("fn before_tool_call(request) { block(\"no\") }", "x", "{}", "block no; ; ");
    check("fn before_tool_call(request) { block(\"no\", \"wait\") }", "x", "{}", "block no; wait; ");
    check("fn before_tool_call(request) { }", "x", "{}", "allow");
}

#[test]
fn arguments_are_values_and_can_be_rewritten() {
    let tidy = r#"fn before_tool_call(request) {
        let arguments = request.arguments;
        arguments.text.trim();
        arguments.count += 1;
        rewrite(arguments)
    }"#;
    let given = r#"{"text": "  배포  ", "count": 1, "list": [1.5, null, true, {"a": "b"}]}"#;
    check(tidy, "x", given, r#"rewrite {"count":2,"list":[1.5,null,true,{"a":"b"}],"text":"배포"}"#);
    let bad = "fn before_tool_call(request) { rewrite(#{ f: || 1 }) }";
    check(bad, "x", "{}", "internal: `before_tool_call` at line 1, column 32: a value of the type Fn is not JSON");
    check(NO_DELETES, "x", "{", "invalid: the arguments are not JSON: EOF while parsing an object at line 1 column 1");
}

#[test]
fn a_mistake_names_function_line_and_column() {
    let misspelt = "\nfn before_tool_call(request) {\n    if request.tool == \"x\" { blok(\"no\") }\n}";
    check(
        misspelt,
        "x",
        "{}",
        "internal: `before_tool_call` at line 3, column 30: function not found: blok (&str | ImmutableString | String)",
    );
    check(misspelt, "y", "{}", "allow");
    let inside = "fn path(request) {\n  request.arguments.path.len\n}\nfn before_tool_call(request) { path(request) }";
    let said = match guard(inside, "x", "{}") {
        Err(failure) => failed(&failure),
        other => panic!("{other:?}"),
    };
    assert!(
        said.starts_with("internal: `before_tool_call` at line 2, column ") && said.contains(", within `path`: "),
        "{said}"
    );
    check(
        "fn before_tool_call(request) { throw \"그런 도구는 없다\" }",
        "x",
        "{}",
        "invalid: `before_tool_call` at line 1, column 32: 그런 도구는 없다",
    );
    let other = "internal: `before_tool_call` answers 3; answer `allow()`, `allow_with(warning)`, `block(reason, instructions, steps)` or `rewrite(arguments)`";
    check("fn before_tool_call(request) { 3 }", "x", "{}", other);
    check(
        "fn before_tool_call(request) { send(\"on\") }",
        "x",
        "{}",
        &other.replace("answers 3", "answers a word of another world"),
    );
}

#[test]
fn a_script_that_cannot_run_is_refused_with_its_place() {
    refused(
        "fn before_tool_call(request) {\n  block(\"a\"\n}",
        "guard.rhai line 3, column 1: expecting ',' to separate the arguments to function call 'block'",
    );
    refused(
        "",
        "guard.rhai: there is no script; give its text as `script`, or put it into plugins/classifier.rhai, guard.rhai or continuation.rhai",
    );
    refused(
        "fn before_toolcall(request) {}",
        "guard.rhai: it defines none of `fn role(event)`, `fn categories(conversation)`, `fn before_tool_call(request)`, `fn instructions(agent)`, `fn next(stop)`",
    );
    refused(
        "fn before_tool_call(tool, request) {}",
        "guard.rhai line 1, column 36: `before_tool_call` takes one parameter, as `fn before_tool_call(request)`, and here it has 2",
    );
    refused(
        "const WORDS = [1];\nfn before_tool_call(request) {}",
        "guard.rhai line 1, column 1: only functions stand at the top level of a script; put this into one, and values into `fn limits() { … }`",
    );
    let said = configured(json!({ "script": "fn role(event) {}", "world": "guard" })).err().expect("refused");
    assert_eq!(said, "script: it does not define `fn before_tool_call(request)`");
    let said = configured(json!({ "scirpt": "" })).err().expect("refused");
    assert!(said.contains("unknown field `scirpt`"), "{said}");
    let said = configured(json!({ "script": "x".repeat(300_000) })).err().expect("refused");
    assert!(said.starts_with("script: the script has 300000 bytes, 262144 are allowed"), "{said}");
    assert!(
        configured(json!({ "script": "fn before_tool_call(request) { eval(\"allow()\") }" })).is_err(),
        "no code that comes later"
    );
    let deep = format!("fn next(stop) {{ {}1{} }}", "(".repeat(5_000), ")".repeat(5_000));
    let said = configured(json!({ "script": deep })).err().expect("refused");
    assert!(said.contains("line 1, column") && said.contains("complexity"), "{said}");
}

/// What a script that goes too far is told.
fn bounded(body: &str, expected: &str) {
    let text = format!("fn before_tool_call(request) {{\n  {body}\n}}\nfn again(n) {{ again(n + 1) }}");
    match guard(&text, "x", "{}") {
        Err(failure) => assert!(failed(&failure).contains(expected), "{}", failed(&failure)),
        Ok(verdict) => panic!("{verdict:?}"),
    }
}

#[test]
fn loops_recursion_and_growth_have_an_end_with_a_line() {
    bounded("let n = 0; loop { n += 1; }", "`before_tool_call` at line 2");
    bounded("let n = 0; while true { if n > 3 { n = 0; } }", "`before_tool_call` at line 2");
    bounded("loop { }", "it takes too many operations; does a loop end?");
    bounded("again(1)", "functions call each other too deeply; does the recursion end?");
    bounded("let s = \"다\"; loop { s += s; }", "length of string is too large");
    bounded("let a = [0]; loop { a += a; }", "size of array");
    bounded("let m = #{}; let n = 0; loop { m[`k${n}`] = n; n += 1; }", "`before_tool_call` at line 2");
    bounded("\"x\".pad(2000000, \"x\")", "too large");
}

#[test]
fn settings_are_read_by_the_script() {
    let text =
        "fn before_tool_call(request) { if settings().blocked.contains(request.tool) { block(settings().why) } }";
    let script = configured(json!({ "script": text, "settings": { "blocked": ["a"], "why": "설정" } }));
    let request = Request {
        context: context(),
        tool: "a".into(),
        arguments: "{}".into(),
        agent: agent(),
        task: None,
        attrs: Vec::new(),
    };
    let said = script.unwrap_or_else(|said| panic!("{said}")).before_tool_call(request);
    assert!(matches!(said, Ok(Verdict::Block(refusal)) if refusal.reason == "설정"));
}

fn classify(text: &str, texts: &[&str]) -> Result<Classification, Failure> {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    let conversation = Conversation { texts, participants: vec!["eden".into()], tags: vec!["OAuth".into()] };
    let categories = vec!["infra_ops".into(), "qa_validation".into()];
    let request =
        CategoriesRequest { context: context(), categories, conversations: vec![conversation], attrs: Vec::new() };
    script(text).categories(request).map(|mut answers| answers.remove(0))
}

const CLASSIFIER: &str = r#"
fn categories(conversation) {
    if mentions(conversation.texts, ["outage", "장애"]) { return category("infra_ops", 0.9, "an outage"); }
    if mentions(conversation.text, "회귀") {
        let found = category("qa_validation");
        found.sub_tags = ["회귀"];
        found.secondary = "infra_ops";
        found.source = "heuristic";
        return found;
    }
    if conversation.text.contains("plain") { return "qa_validation"; }
    none("nothing spoke for one")
}"#;

#[test]
fn a_classifier_answers_in_both_languages() {
    let check = |text: &str, primary: Option<&str>, confidence: f64, reason: &str| {
        let found = classify(CLASSIFIER, &["hello", text]).unwrap_or_else(|failure| panic!("{}", failed(&failure)));
        assert_eq!((found.primary.as_deref(), found.confidence, found.reason.as_str()), (primary, confidence, reason));
        found
    };
    check("The OUTAGE goes on", Some("infra_ops"), 0.9, "an outage");
    check("서버 장애가 났다", Some("infra_ops"), 0.9, "an outage");
    check("plain", Some("qa_validation"), 0.8, "the script says qa_validation");
    check("날씨가 좋다", None, 0.0, "nothing spoke for one");
    let found = check("회귀 시험", Some("qa_validation"), 0.8, "the script says qa_validation");
    assert_eq!((found.sub_tags, found.secondary), (vec!["회귀".to_owned()], vec!["infra_ops".to_owned()]));
    let silent = classify("fn role(event) {}", &["장애"]).unwrap_or_else(|failure| panic!("{}", failed(&failure)));
    assert_eq!(silent.primary, None);
    let said = classify("fn categories(c) { #{ primry: \"x\" } }", &[]).expect_err("refused");
    assert!(failed(&said).contains("\"x\" as `primry`"), "{}", failed(&said));
}

#[test]
fn roles_are_the_usual_ones_unless_the_script_says_otherwise() {
    let role = |text: &str, event_type: &str| {
        let event = EventFacts {
            event_type: event_type.into(),
            agent: "eden".into(),
            from_agent: "eden".into(),
            to_agent: "seum".into(),
            session_keys: vec!["agent:eden:main".into(), "agent:seum:main".into()],
            work_session: String::new(),
        };
        let request =
            RolesRequest { context: context(), main_agents: vec!["eden".into()], events: vec![event], attrs: vec![] };
        script(text).roles(request).map(|roles| roles[0])
    };
    assert_eq!(role("fn categories(c) {}", "a2a.send").ok(), Some(Role::ConversationMain));
    let own = "fn role(event) { if event.type == \"task.note\" { \"system.observability\" } }";
    assert_eq!(role(own, "task.note").ok(), Some(Role::SystemObservability));
    assert_eq!(role(own, "task.started").ok(), Some(Role::OrchestrationTask));
    assert_eq!(role("fn role(event) { event.usual }", "a2a.send").ok(), Some(Role::ConversationMain));
    let said = role("fn role(event) { \"main\" }", "a2a.send").expect_err("no role");
    assert!(failed(&said).starts_with("internal: `role` answers \"main\"; a role is one of conversation.main, "));
}

fn next(text: &str, layer: Layer, task: Option<Task>) -> String {
    let counters = Counters { in_a_row: 3, in_a_row_max: 20, without_progress: 2, requests: 1, requests_max: 3 };
    let request = NextRequest {
        context: context(),
        agent: agent(),
        layer,
        task,
        blocker: None,
        counters,
        idle_ms: 5_000,
        last_error: "timeout".into(),
        same_error: 2,
        earlier: String::new(),
        attrs: Vec::new(),
    };
    match script(text).next(request) {
        Ok(Action::Send(prompt)) => format!("send {prompt}"),
        Ok(Action::Skip(reason)) => format!("skip {reason}"),
        Ok(Action::Backoff(ms)) => format!("backoff {ms}"),
        Ok(Action::Other(_)) => "other".into(),
        Err(failure) => failed(&failure),
    }
}

const CONTINUATION: &str = r#"
fn instructions(agent) { if agent.role == "worker" { `${agent.id}: 한 번에 한 단계씩` } }
fn next(stop) {
    if stop.same_error >= 2 && stop.layer == "polling" { return backoff(stop.idle_ms * 2); }
    if open_steps(stop.task).is_empty() { return skip("nothing is open"); }
    send(`${stop.task.description}: ${open_steps(stop.task).len} 남음 (${stop.counters.in_a_row}/${stop.counters.in_a_row_max})`)
}"#;

#[test]
fn a_continuation_instructs_and_prompts() {
    let request = InstructionsRequest { context: context(), agent: agent(), attrs: Vec::new() };
    assert_eq!(script(CONTINUATION).instructions(request).ok().as_deref(), Some("eden: 한 번에 한 단계씩"));
    assert_eq!(next(CONTINUATION, Layer::SelfDriving, Some(task())), "send 로그인: 2 남음 (3/20)");
    assert_eq!(next(CONTINUATION, Layer::Polling, Some(task())), "backoff 10000");
    assert_eq!(next(CONTINUATION, Layer::Backlog, None), "skip nothing is open");
    assert_eq!(next("fn next(stop) { \"go on\" }", Layer::Zombie, None), "send go on");
    assert_eq!(next("fn next(stop) { }", Layer::Zombie, None), "skip the script says nothing");
    assert!(next("fn next(stop) { backoff(-1) }", Layer::Zombie, None).starts_with("internal: `next` answers"));
}

#[test]
fn a_script_without_a_prompt_says_what_the_gateway_would() {
    let only = "fn instructions(agent) { \"\" }";
    assert_eq!(next(only, Layer::SelfDriving, Some(task())), "send Continue the task \"로그인\": 2 steps are open.");
    assert_eq!(next(only, Layer::SelfDriving, None), "skip there is no task");
    assert_eq!(next(only, Layer::Other, Some(task())), "skip a layer of a later version");
}

#[test]
fn a_guard_without_its_function_fails_rather_than_allow() {
    check("fn role(event) {}", "x", "{}", "unsupported: the script defines no `before_tool_call`");
}
