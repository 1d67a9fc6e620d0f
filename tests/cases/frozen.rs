//! Frozen interfaces: a component that was built for one is loaded by this host, whatever language it was written in.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use chela::event::Role;
use chela::plugins::About;
use chela::policy::{Action, Actor, Blocker, Counters, EventFacts, Layer, NextInput, Step, StepStatus, Task};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use support::TestHost;
use support::chat::Chat;
use wit_component::semver_check;
use wit_parser::{Resolve, SourceMap};

const LANGUAGES: [&str; 3] = ["js", "python", "rust"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a directory of the repository").to_owned()
}

/// The names of what is in a folder of the repository, sorted.
fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

/// Every frozen version.
fn versions() -> Vec<String> {
    names("wit/frozen").into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).collect()
}

/// Every frozen version with its packages, such as `("0.1.0", "policy")`.
fn frozen() -> Vec<(String, String)> {
    let packages =
        |version: String| names(&format!("wit/frozen/{version}")).into_iter().map(move |p| (version.clone(), p));
    versions().into_iter().flat_map(packages).collect()
}

/// The sources of a package, each after `edit`.
fn sources(folder: &str, edit: impl Fn(&str) -> String) -> SourceMap {
    let mut sources = SourceMap::new();
    for name in names(folder).iter().filter(|name| name.ends_with(".wit")) {
        let text = fs::read_to_string(root().join(folder).join(name)).expect("readable");
        sources.push_str(name, edit(&text));
    }
    sources
}

/// Whether what was built for every world of a frozen package fits the interfaces of today after `edit`.
fn is_compatible(version: &str, package: &str, edit: impl Fn(&str) -> String) -> Result<(), String> {
    let mut resolve = Resolve::default();
    let mut push = |sources: SourceMap| {
        let group = sources.parse().map_err(|(_, error)| error).expect("it parses");
        resolve.push_group(group).expect("it resolves")
    };
    // Two packages of one name and version cannot stand side by side; the check itself looks past versions.
    let aged = |text: &str| text.replace(&format!("@{version}"), "@0.0.1");
    // Channels speak of types of the policies.
    if package != "policy" {
        push(sources(&format!("wit/frozen/{version}/policy"), aged));
        push(sources("wit/policy", str::to_owned));
    }
    let old = push(sources(&format!("wit/frozen/{version}/{package}"), aged));
    let new = push(sources(&format!("wit/{package}"), edit));
    let worlds = resolve.packages[old].worlds.clone();
    assert!(!worlds.is_empty(), "{version}/{package} has worlds");
    for (name, old_world) in worlds {
        let new_world = resolve.packages[new].worlds.get(&name).copied();
        let new_world = new_world.ok_or_else(|| format!("the world {name} is gone"))?;
        semver_check(resolve.clone(), old_world, new_world).map_err(|error| format!("{name}: {error:#}"))?;
    }
    Ok(())
}

#[test]
fn frozen_files_are_what_they_were_when_they_were_frozen() {
    let sums = fs::read_to_string(root().join("wit/frozen/SHA256SUMS")).expect("readable");
    let mut listed = BTreeSet::new();
    for line in sums.lines() {
        let (sum, file) = line.split_once("  ").expect("as sha256sum writes it");
        let found = Sha256::digest(fs::read(root().join("wit/frozen").join(file)).expect("a frozen file"));
        let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, sum, "{file} is frozen: a change of an interface is a new version beside it");
        listed.insert(file.to_owned());
    }
    for (version, package) in frozen() {
        for name in names(&format!("wit/frozen/{version}/{package}")) {
            let file = format!("{version}/{package}/{name}");
            assert!(listed.contains(&file), "{file} is not in SHA256SUMS");
        }
    }
}

#[test]
fn the_interfaces_of_today_take_what_was_built_for_a_frozen_version() {
    for (version, package) in frozen() {
        is_compatible(&version, &package, str::to_owned).unwrap_or_else(|said| panic!("{version}/{package} {said}"));
    }
}

#[test]
fn a_change_of_a_frozen_type_is_noticed() {
    let check_in = |package: &str, from: &str, to: &str| {
        let outcome = is_compatible("0.1.0", package, |text| text.replace(from, to));
        assert!(outcome.is_err(), "{from:?} became {to:?} and nobody noticed");
    };
    let check = |from: &str, to: &str| check_in("policy", from, to);
    check("confidence: f64,", "confidence: f64, weight: f64,");
    check("heuristic,", "heuristic, guess,");
    check("budget-ms: u32,", "budget-ms: u64,");
    check("config-schema: string,", "");
    check("configure: func(json: string)", "configure: func(json: string, strict: bool)");
    check("roles: func", "kinds: func");
    check("world classifier", "world sorter");
    check("remaining: list<string>,", "");
    check("rewrite(string),", "rewrite(string), postpone(u64),");
    check("session-key: string,", "session-key: string, team: string,");
    check("skipped,", "skipped, waiting,");
    check("before-tool-call: func(request: request)", "before-tool-call: func(request: request, dry: bool)");
    check("earlier: string,", "");
    check("backoff(u64),", "backoff(u64), ask(string),");
    check("zombie,", "zombie, weekend,");
    check("next: func(request: next-request)", "next: func(request: next-request, dry: bool)");
    let check = |from: &str, to: &str| check_in("channel", from, to);
    check("retry-ms: u64,", "");
    check("stopping,", "stopping, paused,");
    check("after-ms: u64,", "after-ms: u32,");
    check("cancel-timer(string),", "cancel-timer(string), cancel-all,");
    check("needs-auth,", "needs-auth, asleep,");
    check("restore: func(state: state)", "restore: func(state: state, dry: bool)");
    check("world channel", "world network");
}

#[test]
fn every_frozen_world_has_a_component_of_each_language() {
    for version in versions() {
        let mut resolve = Resolve::default();
        // What others speak of comes first.
        for package in ["policy", "channel"] {
            let sources = sources(&format!("wit/frozen/{version}/{package}"), str::to_owned);
            let group = sources.parse().map_err(|(_, error)| error).expect("it parses");
            resolve.push_group(group).expect("it resolves");
        }
        let worlds = resolve.packages.iter().flat_map(|(_, package)| package.worlds.keys());
        let wanted: BTreeSet<String> =
            worlds.flat_map(|world| LANGUAGES.map(|language| format!("{world}-{language}.wasm.zst"))).collect();
        let there: BTreeSet<String> = names(&format!("tests/corpus/{version}")).into_iter().collect();
        assert_eq!(there, wanted, "`cargo xtask corpus` builds what is missing");
    }
}

/// What all components of the corpus do, in whatever language.
fn check_classifier(host: &TestHost, language: &str, bytes: &[u8]) {
    let file = host.dir.scratch().join(format!("words-{language}.wasm"));
    fs::write(&file, bytes).expect("written");
    let load = |config: Value| host.load("classifier", file.to_str().expect("UTF-8"), config);
    let refused = load(json!({ "wrod": "밋업" })).expect_err("a word that it does not know");
    assert!(refused.contains("refuses its configuration"), "{refused}");
    let report = load(json!({ "word": "밋업", "category": "growth_marketing" })).expect("it is loaded");
    assert_eq!(report["outcome"], "serving", "{language}: {report}");
    let slot = host.slot("classifier");
    assert_eq!((&slot["limits"]["cpuMs"], &slot["limits"]["memoryMb"]), (&json!(40), &json!(128)), "{language}");

    let answered = host.classify("결제 장애가 났어요");
    assert!(answered.by.expect("by the component").name.starts_with("words"), "{language}");
    let given = (answered.answer.primary.as_deref(), answered.answer.confidence, answered.answer.sub_tags);
    assert_eq!(given, (Some("infra_ops"), 0.9, vec!["장애".to_owned()]), "{language}");
    assert_eq!(answered.answer.reason, format!("장애 at {}", host.clock.now().0), "{language}: the call's own time");
    assert_eq!(host.category("A Regression, again").as_deref(), Some("qa_validation"), "{language}");
    assert_eq!(
        host.category("다음 주 밋업 안내").as_deref(),
        Some("growth_marketing"),
        "{language}: its configuration"
    );
    assert_eq!(host.category("hello"), None, "{language}");
    assert!(host.logged("classifier").iter().any(|line| line == "no word that it knows"), "{language}");
    let failures = || host.slot("classifier")["stats"]["failures"]["declined"].as_u64().unwrap_or(0);
    let before = failures();
    // Past its probation, so that saying no brings no older version back.
    (0..20).for_each(|_| drop(host.classify("outage")));
    assert_eq!(host.classify("!refuse").by, None, "{language}: the gateway answers in its place");
    assert_eq!(failures(), before + 1, "{language}");

    let event = |key: &str| EventFacts {
        event_type: "a2a.send".into(),
        session_keys: vec![key.into()],
        ..EventFacts::default()
    };
    let events = vec![event("agent:eden:main"), event("agent:eden:subagent:1f")];
    let answered = host.block_on(host.plugins().roles(events));
    assert_eq!(answered.answer, [Role::Conversation, Role::Delegation], "{language}");
    assert!(answered.by.is_some(), "{language}");
}

/// What all guards of the corpus do, in whatever language.
fn check_guard(host: &TestHost, language: &str, bytes: &[u8]) {
    let file = host.dir.scratch().join(format!("careful-{language}.wasm"));
    fs::write(&file, bytes).expect("written");
    let load = |config: Value| host.load("guard:stop-guard", file.to_str().expect("UTF-8"), config);
    let refused = load(json!({ "toll": "task_complete" })).expect_err("a word that it does not know");
    assert!(refused.contains("refuses its configuration"), "{refused}");
    let report = load(json!({ "tool": "task_complete" })).expect("it is loaded");
    assert_eq!(report["outcome"], "serving", "{language}: {report}");
    assert_eq!(host.slot("guard:stop-guard")["limits"]["cpuMs"], 40, "{language}");

    let id = host.begin("eden", &["하나", "둘", "셋"]);
    host.done("eden", "task_update", json!({ "action": "complete_step" }));
    let blocked = host.tool("eden", "task_complete", json!({}));
    assert_eq!(
        (&blocked["error"], &blocked["instructions"]),
        (&json!("task_complete is guarded"), &json!(["finish the steps"]))
    );
    let remaining: Vec<&Value> =
        blocked["remaining_steps"].as_array().expect("steps").iter().map(|step| &step["id"]).collect();
    assert_eq!(remaining, ["s2", "s3"], "{language}: {blocked}");
    assert!(host.logged("guard:stop-guard").iter().any(|line| line == "2 open for eden"), "{language}");
    host.done("eden", "task_update", json!({ "progress": "!tidy   정리한 줄 " }));
    let long = host.done("eden", "task_update", json!({ "progress": "스무 글자보다 훨씬 더 긴 진행 기록입니다" }));
    assert_eq!(long["warning"], "a long text", "{language}");
    let text = host.dir.task_text("eden", &id);
    assert!(text.contains("\n- 정리한 줄\n"), "{language}: {text}");
    // Past its probation, so that saying no brings no older version back.
    (0..20).for_each(|n| drop(host.done("eden", "task_update", json!({ "progress": format!("{n}") }))));
    let failed = host.tool("eden", "task_update", json!({ "progress": "!refuse" }));
    assert_eq!(
        (&failed["success"], &failed["blocked_by"]),
        (&json!(false), &json!("stop_guard")),
        "{language}: a failed guard blocks"
    );
    host.done("eden", "task_cancel", json!({}));
}

/// What all continuations of the corpus do, in whatever language.
fn check_continuation(host: &TestHost, language: &str, bytes: &[u8]) {
    let file = host.dir.scratch().join(format!("firm-{language}.wasm"));
    fs::write(&file, bytes).expect("written");
    let load = |config: Value| host.load("continuation", file.to_str().expect("UTF-8"), config);
    let refused = load(json!({ "wrod": "계속" })).expect_err("a word that it does not know");
    assert!(refused.contains("refuses its configuration"), "{refused}");
    let report = load(json!({ "word": "계속", "spare": "seum" })).expect("it is loaded");
    assert_eq!(report["outcome"], "serving", "{language}: {report}");
    assert_eq!(host.slot("continuation")["limits"]["cpuMs"], 40, "{language}");

    let step = |content: &str, status| Step { id: "s".into(), content: content.into(), status };
    let steps =
        vec![step("하나", StepStatus::Done), step("둘", StepStatus::InProgress), step("셋", StepStatus::Pending)];
    let task = Task { id: "task_1".into(), description: "OAuth".into(), status: "in_progress".into(), steps };
    let actor = |id: &str| Actor { id: id.into(), role: "worker".into(), session_key: "agent:eden:main".into() };
    let counters = Counters { in_a_row: 3, in_a_row_max: 20, ..Counters::default() };
    let stopped = NextInput { agent: actor("eden"), task: Some(task), counters, ..NextInput::default() };
    let check = |input: NextInput, expected: Action| {
        let (answered, _) = host.block_on(host.plugins().next(input, &About::default()));
        assert!(answered.by.is_some(), "{language}");
        assert_eq!(answered.answer, expected, "{language}");
    };
    check(stopped.clone(), Action::Send { prompt: "[self-driving 3/20] 계속: 둘, 셋".into() });
    let blocker = Blocker { kind: "dependency".into(), reason: "no key".into(), ..Blocker::default() };
    check(
        NextInput { layer: Layer::Unblock, blocker: Some(blocker), ..stopped.clone() },
        Action::Send { prompt: "[unblock 3/20] 계속: 둘, 셋 (dependency: no key)".into() },
    );
    check(NextInput { agent: actor("seum"), ..stopped.clone() }, Action::Skip { reason: "seum is spared".into() });
    check(NextInput { same_error: 3, last_error: "overloaded".into(), ..stopped }, Action::Backoff { ms: 3_000 });
    assert!(host.logged("continuation").iter().any(|line| line == "3 times overloaded"), "{language}");

    let told = |id: &str| host.block_on(host.plugins().instructions(actor(id)));
    assert_eq!(told("eden").answer, "계속, worker eden", "{language}");
    let failures = || host.slot("continuation")["stats"]["failures"]["declined"].as_u64().unwrap_or(0);
    let before = failures();
    // Past its probation, so that saying no brings no older version back.
    (0..20).for_each(|_| drop(told("eden")));
    assert!(told("!refuse").by.is_none(), "{language}: the gateway answers in its place");
    assert_eq!(failures(), before + 1, "{language}");
}

#[test]
fn continuations_that_were_built_for_a_frozen_version_serve_in_every_language() {
    let binding = json!({ "source": "builtin:continuation", "limits": { "memoryMb": 128 } });
    let host = TestHost::start_with(|config| config["plugins"]["continuation"] = binding);
    for version in versions() {
        for language in LANGUAGES {
            check_continuation(&host, language, &support::corpus(&version, &format!("continuation-{language}")));
        }
    }
}

#[test]
fn guards_that_were_built_for_a_frozen_version_serve_in_every_language() {
    let guard = json!({ "name": "stop-guard", "source": "builtin:stop-guard", "onFailure": "block", "limits": { "memoryMb": 128 } });
    let host = TestHost::start_with(|config| config["plugins"]["guards"] = json!([guard]));
    for version in versions() {
        for language in LANGUAGES {
            check_guard(&host, language, &support::corpus(&version, &format!("guard-{language}")));
        }
    }
}

#[test]
fn components_that_were_built_for_a_frozen_version_serve_in_every_language() {
    let limits = json!({ "memoryMb": 128 });
    let binding = json!({ "source": "builtin:rules", "limits": limits });
    let host = TestHost::start_with(|config| config["plugins"]["classifier"] = binding);
    for version in versions() {
        for language in LANGUAGES {
            let bytes = support::corpus(&version, &format!("classifier-{language}"));
            check_classifier(&host, language, &bytes);
        }
    }
}

const SMALL: &str = r#"{ rules: [{ when: "안녕", steps: [{ say: "네, **안녕**" }] }, { when: "still", steps: [{ say: "still" }] }], otherwise: "heard" }"#;

/// What all adapters of the corpus do, in whatever language: the kit's own example of a network.
fn check_channel(host: &TestHost, chat: &Chat, language: &str, bytes: &[u8]) {
    let file = host.dir.scratch().join(format!("small-{language}.wasm"));
    fs::write(&file, bytes).expect("written");
    let load = |config: Value| host.load("channel:small", file.to_str().expect("UTF-8"), config);
    let refused = load(json!({ "urll": chat.url() })).expect_err("a word that it does not know");
    assert!(refused.contains("refuses its configuration"), "{refused}");
    let (connected, heard) = (chat.opened().len(), chat.frames().len());
    let report = load(json!({ "url": chat.url() })).expect("it is loaded");
    assert_eq!(report["outcome"], "serving", "{language}: {report}");
    host.channel_is("small", "ready");
    assert_eq!(chat.opened().len(), connected + 1, "{language}");

    let say = |id: &str, text: &str| {
        let frame = json!({ "id": format!("{language}-{id}"), "room": language, "sender": "민지", "text": text });
        chat.send(frame);
    };
    let answers = || chat.frames().split_off(heard);
    say("1", "안녕");
    say("1", "안녕");
    host.eventually("it is answered", || (!answers().is_empty()).then_some(()));
    chat.send(json!({ "id": 7, "room": null }));
    say("2", "hello");
    host.eventually("and the next", || (answers().len() == 2).then_some(()));
    let answer = |text: &str| json!({ "room": language, "text": text });
    assert_eq!(answers(), [answer("네, **안녕**"), answer("heard")], "{language}: once each, in order");
    // The network goes away and comes back: it connects again by itself.
    chat.cut();
    host.eventually("it is back", || {
        host.clock.advance(std::time::Duration::from_millis(200));
        (chat.opened().len() == connected + 2 && host.channel("small")["status"] == "ready").then_some(())
    });
    say("3", "still there?");
    host.eventually("as before", || (answers().last() == Some(&answer("still"))).then_some(()));
    host.operate("unload", "channel:small").expect("unloaded");
}

#[test]
fn adapters_that_were_built_for_a_frozen_version_serve_in_every_language() {
    let chat = Chat::start();
    let host = TestHost::scripted_with(SMALL, |file| {
        let hosts = json!([chat.sockets.to_string()]);
        file["channels"]["small"] = json!({ "grants": { "hosts": hosts }, "limits": { "memoryMb": 128 } });
    });
    for version in versions() {
        for language in LANGUAGES {
            check_channel(&host, &chat, language, &support::corpus(&version, &format!("channel-{language}")));
        }
    }
}
