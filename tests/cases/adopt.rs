//! `chela serve --adopt`: a directory of the old system is taken over whole or left as it is, and what was not understood is named.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use support::events::{copy_all, fixture};
use support::{Binary, Finished, TestDir, chela, chela_command, eventually};

const ANYWHERE: [&str; 7] = ["--adopt", "--gateway", "0", "--monitor", "0", "--hub", "0"];

/// A port where nobody listens: none of those that are given to whoever asks for any.
const NOBODYS_PORT: u16 = 1;

/// A directory of the old system with this configuration alone.
fn old(text: &str) -> TestDir {
    let dir = TestDir::empty();
    fs::create_dir(dir.state.path()).expect("made");
    fs::write(dir.state.old_config(), text).expect("written");
    dir
}

/// The team of the fixture, on a port where no old gateway is.
fn fixture_on(port: u16) -> TestDir {
    let dir = TestDir::empty();
    copy_all(&fixture("old-system"), dir.state.path());
    let text = fs::read_to_string(dir.state.old_config()).expect("readable");
    fs::write(dir.state.old_config(), text.replace("18789", &port.to_string())).expect("written");
    dir
}

fn adopt(dir: &TestDir) -> Finished {
    let mut arguments = vec!["serve"];
    arguments.extend(ANYWHERE);
    chela(&dir.state, &arguments)
}

/// It is refused with this code and these words, and the directory is as it was.
fn refused(dir: &TestDir, code: i32, expected: &[&str]) {
    let before = fs::read(dir.state.old_config()).expect("readable");
    let said = adopt(dir);
    assert_eq!(said.code, Some(code), "{}", said.stderr);
    for word in expected {
        assert!(said.stderr.contains(word), "{word} is not in {}", said.stderr);
    }
    assert_eq!(fs::read(dir.state.old_config()).expect("readable"), before);
    assert_eq!(dir.files(), ["openclaw.json"], "nothing was written");
}

#[test]
fn a_directory_is_taken_over_and_its_old_configuration_left_as_it_was() {
    let dir = fixture_on(NOBODYS_PORT);
    let before = fs::read(dir.state.old_config()).expect("readable");
    let mut serving = Binary::spawn(&dir, &ANYWHERE);
    serving.wait_until_ready();
    assert_eq!(fs::read(dir.state.old_config()).expect("readable"), before);
    assert_eq!(fs::metadata(dir.state.config()).expect("written").permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(dir.state.config()).expect("written");
    assert!(text.starts_with("// Made by `chela serve --adopt` from openclaw.json"), "{text}");
    assert_eq!(dir.token(), "dummy-gateway-token");
    assert_eq!(chela(&dir.state, &["config", "get", "gateway.listen"]).stdout, format!("127.0.0.1:{NOBODYS_PORT}\n"));
    assert_eq!(chela(&dir.state, &["config", "get", "agents.model"]).stdout, "anthropic/claude-sonnet-4\n");
    let agents = chela(&dir.state, &["agents", "--json"]).json();
    let agents: Vec<Value> = agents["agents"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|agent| json!([agent["id"], agent["name"], agent["default"]]))
        .collect();
    assert_eq!(
        json!(agents),
        json!([["eden", "이든", true], ["seum", "세움", false], ["ieum", "이음", false], ["nuri", "누리", false]])
    );
    assert_eq!(chela(&dir.state, &["status"]).code, Some(0));
    let ended = serving.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for path in [
        "channels",
        "agents.defaults.maxConcurrent",
        "agents.list[2].subagents",
        "agents.list[1].workspace",
        "models.providers.anthropic",
        "wizard",
    ] {
        assert!(ended.stdout.contains(&format!("  {path} ")), "{path} is not in {}", ended.stdout);
        assert!(ended.stderr.contains(path), "{path} is not in the log: {}", ended.stderr);
        assert!(text.contains(&format!("//   {path}: ")), "{path} is not in {text}");
    }
    assert!(!ended.stdout.contains("agents.list[0].workspace"), "workspace-eden is there: {}", ended.stdout);
    assert!(ended.stdout.contains("Chela ") && ended.stdout.contains("serves"), "{}", ended.stdout);
    assert!(!ended.stderr.contains("dummy-") && !ended.stdout.contains("dummy-"), "a secret was printed");
    assert!(!text.contains("dummy-discord-token"), "{text}");

    let mut again = Binary::spawn(&dir, &ANYWHERE);
    again.wait_until_ready();
    let ended = again.terminate();
    assert!(!ended.stdout.contains("not taken over"), "there is nothing to adopt any more: {}", ended.stdout);
    assert_eq!(fs::read_to_string(dir.state.config()).expect("readable"), text);
}

#[test]
fn programs_read_what_was_not_taken_over_in_one_document() {
    let dir = old(&format!("{{ gateway: {{ port: {NOBODYS_PORT}, auth: {{ token: 'short' }} }}, cron: {{}} }}"));
    let mut arguments = ANYWHERE.to_vec();
    arguments.push("--json");
    let mut serving = Binary::spawn(&dir, &arguments);
    serving.wait_until_ready();
    let run = serde_json::to_value(serving.run_file()).expect("JSON");
    let document = serving.terminate().json();
    assert_eq!(document["pid"], run["pid"]);
    let adopted = &document["adopted"];
    assert_eq!((&adopted["from"], &adopted["config"]), (&json!(dir.state.old_config()), &json!(dir.state.config())));
    assert_eq!(adopted["newToken"], json!(true));
    let ignored = adopted["ignored"].as_array().expect("a list");
    let reason = |path: &str| {
        let row = ignored.iter().find(|row| row["path"] == path);
        row.unwrap_or_else(|| panic!("{path} is not in {ignored:?}"))["reason"].as_str().expect("a reason").to_owned()
    };
    assert!(
        reason("gateway.auth").contains("at least 16 characters") && reason("gateway.auth").contains("chela token")
    );
    assert!(reason("cron").contains("clock"));
    assert_eq!(dir.token().len(), 64, "a new one");
    assert_eq!(chela(&dir.state, &["agents", "--json"]).json()["agents"][0]["id"], "main");
}

#[test]
fn nothing_is_taken_over_while_the_old_gateway_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let dir = old(&format!("{{ gateway: {{ port: {port}, auth: {{ token: '0123456789abcdef' }} }} }}"));
    refused(&dir, 75, &[&format!("somebody answers at 127.0.0.1:{port}"), "stop it first"]);
    drop(listener);
    // A process that is being started meanwhile may hold what we hold for a moment.
    eventually("nobody answers any more", || TcpStream::connect(("127.0.0.1", port)).is_err().then_some(()));
    let mut serving = Binary::spawn(&dir, &ANYWHERE);
    serving.wait_until_ready();
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn without_the_flag_a_directory_of_the_old_system_is_refused_with_its_name() {
    let dir = old("{}");
    let said = chela(&dir.state, &["serve"]);
    assert_eq!(said.code, Some(78));
    assert!(said.stderr.contains("chela serve --adopt"), "{}", said.stderr);
    let doctor = chela(&dir.state, &["doctor"]);
    assert!(doctor.stdout.contains("`chela serve --adopt` takes the directory over"), "{}", doctor.stdout);
    assert_eq!(dir.files(), ["openclaw.json"]);
}

#[test]
fn there_must_be_something_to_adopt() {
    let dir = TestDir::empty();
    let said = adopt(&dir);
    assert_eq!(said.code, Some(78), "{}", said.stderr);
    assert!(said.stderr.contains("openclaw.json to adopt; leave --adopt out"), "{}", said.stderr);
    assert!(dir.files().is_empty());
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_with_its_place_and_nothing_is_written() {
    let check = |text: &str, expected: &[&str]| refused(&old(text), 78, &[&["openclaw.json"], expected].concat());
    check("{ agents: {", &["not JSON5 at line 1"]);
    check("\u{0}\u{1}", &["not JSON5"]);
    check("[]", &["must be an object, not a list"]);
    check("{ agents: { list: 'all' } }", &["agents.list: must be a list, not a text"]);
    check("{ agents: { list: [{ id: '../../etc' }, { id: 'a'.b }] } }", &["not JSON5"]);
    check(
        "{ agents: { list: [{ id: '../../etc' }, { id: '\\u001b[31m' }] }, gateway: { port: -1 } }",
        &["agents.list[0].id: \"../../etc\" is not an agent id", "agents.list[1].id", "gateway.port"],
    );
    check("{ agents: { $include: 'team.json5' } }", &["agents.$include: files that are included are not read"]);
    check(&"[".repeat(100_000), &["nested deeper than 32 levels"]);
    let many: Vec<String> = (0..10_000).map(|n| format!("{{ id: 'agent-{n}' }}")).collect();
    check(&format!("{{ agents: {{ list: [{}] }} }}", many.join(",")), &["agents.list: 10000 agents; at most 1000"]);
    let long: Vec<String> = (0..1_000).map(|n| format!("{{ id: 'a{n}', name: '{}' }}", "x".repeat(2_000))).collect();
    check(
        &format!("{{ agents: {{ list: [{}] }} }}", long.join(",")),
        &["makes a chela.json larger than 1048576 bytes"],
    );
    check(&format!("{{ x: '{}' }}", "x".repeat(9 * 1024 * 1024)), &["is larger than 8388608 bytes"]);

    let dir = old("{}");
    fs::write(dir.state.old_config(), b"{ x: '\xff' }").expect("written");
    refused(&dir, 78, &["openclaw.json is not UTF-8 (byte 6)"]);
}

#[test]
fn a_token_of_the_environment_stays_there() {
    let auth = "{ token: { source: 'env', provider: 'default', id: 'CHELA_TEST_OLD_TOKEN' } }";
    let dir = old(&format!("{{ gateway: {{ port: {NOBODYS_PORT}, auth: {auth} }} }}"));
    refused(&dir, 78, &["the environment variable CHELA_TEST_OLD_TOKEN is not set"]);
    let mut command = chela_command(&dir.state);
    command.arg("serve").args(ANYWHERE).env("CHELA_TEST_OLD_TOKEN", "a-token-of-the-environment");
    let mut serving = Binary::spawn_command(&dir, command);
    serving.wait_until_ready();
    let text = fs::read_to_string(dir.state.config()).expect("written");
    assert!(text.contains(r#""env": "CHELA_TEST_OLD_TOKEN""#), "{text}");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn the_monitor_finds_the_token_where_the_old_configuration_says_and_never_takes_its_name_for_it() {
    let index = |dir: &TestDir| dir.scratch().join("index").display().to_string();
    let check = |auth: &str, expected: &[&str]| {
        let dir = old(&format!("{{ gateway: {{ auth: {auth} }}, agents: {{ entries: {{ eden: {{}} }} }} }}"));
        let said = chela(&dir.state, &["monitor", "--listen", "0", "--index-dir", &index(&dir)]);
        assert_eq!(said.code, Some(1), "{}", said.stderr);
        for word in expected {
            assert!(said.stderr.contains(word), "{auth}: {word} is not in {}", said.stderr);
        }
        assert_eq!(dir.files(), ["openclaw.json"]);
    };
    check("{ token: '${CHELA_TEST_NO_SUCH_TOKEN}' }", &["CHELA_TEST_NO_SUCH_TOKEN is not set", "--token-file"]);
    check("{ token: { source: 'exec', provider: 'vault', id: 'x' } }", &["--token-file"]);
    check("{}", &["--token-file"]);
    check("{ token: 'short' }", &["at least 16 characters", "--token-file"]);
}
