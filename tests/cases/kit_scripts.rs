//! Scripts as policies: dropped into `plugins/`, changed, broken, removed; and the bounds that hold inside their component.

use std::fs;
use std::path::Path;

use chela::config::PluginLimits;
use chela::plugins::{About, Decision, Workbench};
use chela::policy::{Actor, ToolCall};
use chela_kit::Expected;
use serde_json::{Map, Value, json};
use support::{Binary, TestDir, TestHost, built, chela, guest, path_of};

const CLASSIFIER: &str = r#"fn categories(conversation) {
    if mentions(conversation.text, ["zebra", "얼룩말"]) { return category("legal_compliance", 0.9, "a zebra"); }
    none("no zebra")
}"#;

const GUARD: &str = r#"fn before_tool_call(request) {
    if request.tool == "files_delete" { return block(`${request.arguments.path} stays`, "묻고 지우세요"); }
    if request.tool == "noisy" { print("시끄럽다"); return allow_with("noisy"); }
    allow()
}"#;

fn start(dir: TestDir) -> TestHost {
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("the gateway starts: {error}"));
    host.block_on(host.plugins().loaded());
    host
}

fn host() -> TestHost {
    start(TestDir::with_config(|_| {}))
}

fn write(host: &TestHost, name: &str, text: &str) {
    fs::write(host.dir.state.plugins().join(name), text).expect("written");
}

fn remove(host: &TestHost, name: &str) {
    fs::remove_file(host.dir.state.plugins().join(name)).expect("removed");
}

/// What the guards say about a call, in a few words.
fn decided(host: &TestHost, tool: &str, arguments: Value) -> String {
    let arguments = arguments.as_object().expect("an object").clone();
    let agent = Actor { id: "eden".into(), ..Actor::default() };
    let call = ToolCall { tool: tool.into(), arguments, agent, task: None };
    let fits = |_: &Map<String, Value>| Ok(());
    match host.block_on(host.plugins().before_tool_call(call, &About::default(), fits)) {
        Decision::Run { warnings, .. } => format!("run {warnings:?}"),
        Decision::Blocked { guard, block } => format!("{guard}: {} {:?}", block.reason, block.instructions),
    }
}

/// Waits for the next refusal; gives its reason.
fn refusal(host: &TestHost, count: usize) -> String {
    host.eventually("it is refused", || (host.told("plugin.rejected").len() == count).then_some(()));
    host.told("plugin.rejected").pop().expect("told")["reason"].as_str().expect("a reason").to_owned()
}

fn name(host: &TestHost, slot: &str) -> Value {
    host.slot(slot)["plugin"]["name"].clone()
}

#[test]
fn a_classifier_script_serves_in_the_place_of_the_default_as_long_as_it_is_there() {
    let host = host();
    let category = || host.category("the zebra in the zebra house");
    assert_ne!(category().as_deref(), Some("legal_compliance"));
    write(&host, "classifier.rhai", CLASSIFIER);
    host.eventually("the script is used", || (category().as_deref() == Some("legal_compliance")).then_some(()));
    assert_eq!(host.category("얼룩말이 왔다").as_deref(), Some("legal_compliance"));
    assert_eq!(name(&host, "classifier"), "script");
    write(&host, "classifier.rhai", &CLASSIFIER.replace("legal_compliance", "biz_strategy"));
    host.eventually("the change is used", || (category().as_deref() == Some("biz_strategy")).then_some(()));
    let host = start(host.stop());
    assert_eq!(host.category("a zebra").as_deref(), Some("biz_strategy"), "also after a restart");
    remove(&host, "classifier.rhai");
    host.eventually("the default is back", || (name(&host, "classifier") == "rules").then_some(()));
    assert_eq!(host.told("plugin.rejected"), Vec::<Value>::new());
}

#[test]
fn a_script_with_a_mistake_is_refused_with_line_and_column_and_the_old_one_serves() {
    let host = host();
    write(&host, "classifier.rhai", CLASSIFIER);
    let category = || host.category("a zebra");
    host.eventually("the script is used", || (category().as_deref() == Some("legal_compliance")).then_some(()));
    write(&host, "classifier.rhai", &CLASSIFIER.replace("none(\"no zebra\")", "none(\"no zebra\""));
    let said = refusal(&host, 1);
    let expected = "script refuses its configuration at plugins/classifier.rhai line 4, column 1: ";
    assert!(said.starts_with(expected), "{said}");
    assert_eq!(category().as_deref(), Some("legal_compliance"));
    // Of another world than its file.
    write(&host, "classifier.rhai", GUARD);
    let said = refusal(&host, 2);
    assert!(said.contains("it defines none of `fn role(event)`, `fn categories(conversation)`"), "{said}");
    assert_eq!(category().as_deref(), Some("legal_compliance"));
    write(&host, "classifier.rhai", CLASSIFIER);
    host.eventually("all is well", || host.slot("classifier")["problem"].is_null().then_some(()));
}

/// A bracket is left open.
const BROKEN: &str = "fn categories(conversation) {\n    category(\"infra_ops\"\n}";

#[test]
fn a_mistake_in_a_dropped_script_names_its_line_and_the_defaults_serve() {
    let defaults = [("classifier", "rules"), ("continuation", "continuation"), ("guard:stop-guard", "stop-guard")];
    let host = host();
    for (count, world) in ["classifier", "continuation", "guard"].into_iter().enumerate() {
        write(&host, &format!("{world}.rhai"), BROKEN);
        let said = refusal(&host, count + 1);
        let expected = format!("script refuses its configuration at plugins/{world}.rhai line 3, column 1: ");
        assert!(said.starts_with(&expected), "{said}");
    }
    let serve = |host: &TestHost| {
        defaults.iter().for_each(|(slot, expected)| assert_eq!(name(host, slot), *expected));
        assert_eq!(host.slot("guard:script"), Value::Null);
    };
    serve(&host);
    assert!(host.slot("classifier")["problem"].as_str().is_some_and(|said| said.contains("line 3, column 1")));
    serve(&start(host.stop()));
}

#[test]
fn a_first_start_with_bad_files_serves_the_defaults() {
    let dir = TestDir::with_config(|_| {});
    fs::create_dir_all(dir.state.plugins()).expect("made");
    for world in ["classifier", "continuation", "guard"] {
        fs::write(dir.state.script(world), BROKEN).expect("written");
    }
    let host = start(dir);
    assert_eq!((name(&host, "classifier"), name(&host, "continuation")), (json!("rules"), json!("continuation")));
    host.eventually("all three are told", || (host.told("plugin.rejected").len() == 3).then_some(()));
    for world in ["classifier", "continuation"] {
        let said = host.slot(world)["problem"].as_str().unwrap_or_default().to_owned();
        assert!(said.contains(&format!("plugins/{world}.rhai line 3, column 1")), "{said}");
    }
    write(&host, "classifier.rhai", CLASSIFIER);
    host.eventually("the mended one serves", || (name(&host, "classifier") == "script").then_some(()));
}

#[test]
fn a_slot_that_somebody_has_filled_is_not_taken_over() {
    let binding = json!({ "source": path_of(&guest("steady")) });
    let dir = TestDir::with_config(|config| config["plugins"]["classifier"] = binding);
    fs::create_dir_all(dir.state.plugins()).expect("made");
    fs::write(dir.state.script("classifier"), CLASSIFIER).expect("written");
    let host = start(dir);
    assert_eq!(name(&host, "classifier"), "steady");
}

#[test]
fn a_guard_script_is_a_guard_beside_the_others() {
    let host = host();
    write(&host, "guard.rhai", GUARD);
    host.eventually("it guards", || (name(&host, "guard:script") == "script").then_some(()));
    assert_eq!(decided(&host, "files_delete", json!({ "path": "a" })), r#"script: a stays ["묻고 지우세요"]"#);
    assert_eq!(decided(&host, "files_read", json!({})), "run []");
    assert_eq!(decided(&host, "noisy", json!({})), r#"run ["noisy"]"#);
    host.eventually("it is in its log", || host.logged("guard:script").contains(&"시끄럽다".to_owned()).then_some(()));
    assert_eq!(name(&host, "guard:stop-guard"), "stop-guard", "what was there is there");
    write(&host, "guard.rhai", &GUARD.replace("stays", "remains"));
    host.eventually("the change guards", || {
        decided(&host, "files_delete", json!({ "path": "a" })).contains("a remains").then_some(())
    });
    let host = start(host.stop());
    assert!(decided(&host, "files_delete", json!({ "path": "a" })).contains("a remains"), "also after a restart");
    remove(&host, "guard.rhai");
    host.eventually("it guards no more", || host.slot("guard:script").is_null().then_some(()));
    assert_eq!(decided(&host, "files_delete", json!({ "path": "a" })), "run []");
}

#[test]
fn a_first_guard_script_that_is_bad_changes_nothing() {
    let host = host();
    write(&host, "guard.rhai", "fn before_tool_call(request) { block( }");
    let said = refusal(&host, 1);
    assert!(said.contains("plugins/guard.rhai line 1, column 39"), "{said}");
    assert_eq!(decided(&host, "files_delete", json!({})), "run []");
    assert_eq!(host.slot("guard:script"), Value::Null);
    write(&host, "guard.rhai", GUARD);
    host.eventually("it guards", || (name(&host, "guard:script") == "script").then_some(()));
}

#[test]
fn a_continuation_script_instructs_agents() {
    let host = host();
    let text = "fn instructions(agent) { `${agent.id}, 한 번에 한 단계씩` }";
    write(&host, "continuation.rhai", text);
    host.eventually("it instructs", || (name(&host, "continuation") == "script").then_some(()));
    let agent = Actor { id: "eden".into(), ..Actor::default() };
    let asked = host.plugins().instructions(agent);
    assert_eq!(host.block_on(asked).answer, "eden, 한 번에 한 단계씩");
}

#[test]
fn a_rolled_back_script_is_not_taken_up_again() {
    let host = host();
    write(&host, "classifier.rhai", CLASSIFIER);
    host.eventually("the script is used", || (name(&host, "classifier") == "script").then_some(()));
    host.operate("rollback", "classifier").expect("rolled back");
    assert_eq!(name(&host, "classifier"), "rules");
    let host = start(host.stop());
    assert_eq!(name(&host, "classifier"), "rules", "nor by a restart");
    write(&host, "classifier.rhai", &format!("{CLASSIFIER}\n"));
    host.eventually("another text is another script", || (name(&host, "classifier") == "script").then_some(()));
}

/// A classifier that does what a text says.
const UNRULY: &str = r#"
fn categories(conversation) {
    let text = conversation.text;
    if text == "loop" { loop { text += ""; } }
    if text == "recurse" { return again(1); }
    if text == "grow" { let all = "x"; loop { all += all; } }
    if text == "heap" { let all = []; let one = "x"; one.pad(100000, "y"); loop { all.push(one + all.len); } }
    if text == "hoard" { return hoard(1); }
    category("infra_ops")
}
fn again(n) { (((((((((((((((((((again(n + 1)))))))))))))))))))) }
fn hoard(n) {
    let all = "0123456789";
    while all.len() < 400000 { all += all; }
    let more = all + "x";
    if n < 20 { hoard(n + 1) } else { all.len() + more.len() }
}
"#;

#[test]
fn loops_recursion_and_growth_end_with_function_and_line() {
    let dir = TestDir::empty();
    let script = dir.scratch().join("unruly.rhai");
    let input = dir.scratch().join("input.json");
    fs::write(&script, UNRULY).expect("written");
    let attempt = |text: &str| {
        fs::write(&input, json!({ "texts": [text] }).to_string()).expect("written");
        chela(&dir.state, &["plugin", "try", &path_of(&script), "categories", "--input", &path_of(&input)])
    };
    let refused = |text: &str, expected: &str| {
        let finished = attempt(text);
        assert_eq!(finished.code, Some(1), "{finished:#?}");
        assert!(finished.stderr.contains(expected), "{text}: {}", finished.stderr);
    };
    refused("loop", "`categories` at line 4, column ");
    refused("loop", "it takes too many operations; does a loop end?");
    refused("recurse", "`categories` at line 5, column ");
    refused("recurse", "functions call each other too deeply; does the recursion end?");
    refused("grow", "`categories` at line 6");
    refused("heap", "`categories` at line 7");
    refused("hoard", "it passed its limit of memory: ");
    assert_eq!(attempt("hello").code, Some(0));
}

#[test]
fn a_script_that_fails_is_asked_again_and_the_gateway_answers_meanwhile() {
    let host = TestHost::start_with(|config| {
        config["plugins"]["classifier"] = json!({ "source": "builtin:script", "config": { "script": UNRULY } });
    });
    assert_eq!(host.classify("loop").by, None, "the gateway answers for it");
    assert_eq!(host.classify("hoard").by, None, "and for one that was cut off");
    assert_eq!(host.classify("hello").by.expect("answered").name, "script");
    let told = host.told("plugin.fallback").pop().expect("told");
    assert!(told["reason"].as_str().is_some_and(|said| said.contains("`categories` at line 4")), "{told}");
}

/// The cases of `plugins/script/tests`, inside the component.
#[test]
fn the_cases_of_scripts_hold_in_their_component() {
    let cache = tempfile::tempdir().expect("a directory");
    let shipped = built("chela").with_file_name("components");
    let bench = Workbench::new(cache.path().to_owned(), Some(shipped), built("chela")).expect("a bench");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/script/tests");
    let files = fs::read_dir(folder).expect("cases").map(|entry| entry.expect("a file").path());
    let cases = files.flat_map(|path| chela_kit::cases(&fs::read_to_string(path).expect("text")).expect("good cases"));
    let mut count = 0;
    for case in cases {
        count += 1;
        let opened = bench.open("builtin:script", case.config, PluginLimits::default());
        let call = |export: &str, input: &Value| {
            let opened = opened.as_ref().unwrap_or_else(|error| panic!("{}: {error}", case.name));
            opened.start().expect("an instance").call(export, input).map_err(|error| error.to_string())
        };
        match &case.expected {
            Expected::Answer { export, input, answer } => {
                let found = call(export, input).unwrap_or_else(|error| panic!("{}: {error}", case.name));
                assert_eq!(chela_kit::difference(answer, &found), None, "{}", case.name);
            }
            Expected::Failure { export, input, said } => {
                let found = call(export, input).expect_err(&case.name);
                assert!(found.contains(said), "{}: {found}", case.name);
            }
            Expected::Refusal { said } => {
                let found = opened.err().expect("refused").to_string();
                assert!(found.contains(said), "{}: {found}", case.name);
            }
        }
    }
    assert!(count >= 25, "{count} cases");
}

#[test]
fn a_script_is_tried_and_loaded_by_its_file() {
    let dir = TestDir::empty();
    let script = dir.scratch().join("mine.rhai");
    let settings = dir.scratch().join("settings.json5");
    let input = dir.scratch().join("input.json");
    fs::write(&script, "fn before_tool_call(request) {\n  if request.tool == settings().tool { block(\"no\") }\n}")
        .expect("written");
    fs::write(&settings, "{ tool: 'a' }").expect("written");
    fs::write(&input, json!({ "tool": "a" }).to_string()).expect("written");
    let (script, settings, input) = (path_of(&script), path_of(&settings), path_of(&input));
    let tried = ["plugin", "try", &script, "before-tool-call", "--input", &input, "--config", &settings, "--json"];
    assert_eq!(chela(&dir.state, &tried).json()["verdict"], "block");
    let nothing = dir.scratch().join("nothing.json");
    fs::write(&nothing, "{}").expect("written");
    let refused = chela(&dir.state, &["plugin", "try", &script, "next", "--input", &path_of(&nothing)]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("mine.rhai: it defines none of `fn instructions(agent)`, `fn next(stop)`"),
        "{refused:#?}"
    );

    let serving = Binary::serve(&dir);
    let load = ["plugin", "load", &script, "--slot", "guard:mine", "--config", &settings, "--json"];
    let loaded = chela(&dir.state, &load).json();
    assert_eq!((&loaded["outcome"], &loaded["plugin"]["name"]), (&json!("serving"), &json!("script")));

    // One with a mistake is refused by line and column wherever it is given, and what serves goes on.
    let broken = dir.scratch().join("broken.rhai");
    fs::write(&broken, BROKEN.replace("categories", "before_tool_call")).expect("written");
    let broken = path_of(&broken);
    for arguments in [
        &["plugin", "load", &broken, "--slot", "guard:mine"][..],
        &["plugin", "try", &broken, "before-tool-call", "--input", &input],
    ] {
        let refused = chela(&dir.state, arguments);
        assert_eq!(refused.code, Some(1), "{refused:#?}");
        let expected = "script refuses its configuration at broken.rhai line 3, column 1: ";
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let listed = chela(&dir.state, &["plugin", "list", "--json"]).json();
    let slots = listed["slots"].as_array().expect("a list");
    let mine = slots.iter().find(|slot| slot["slot"] == "guard:mine").expect("it serves");
    assert_eq!((&mine["plugin"]["name"], &mine["state"]), (&json!("script"), &json!("serving")));
    assert_eq!(serving.terminate().code, Some(0));
}
