//! The command line, as a newcomer and as a script see it.

use std::fs;

use serde_json::{Value, json};
use support::{Binary, TestDir, chela};

#[test]
fn help_names_every_command_and_every_exit_code() {
    let dir = TestDir::empty();
    let help = chela(&dir.state, &["--help"]);
    assert_eq!(help.code, Some(0));
    for word in ["init", "serve", "token", "agents", "status", "config", "doctor", "--json", "--state-dir"] {
        assert!(help.stdout.contains(word), "{word} is not in\n{}", help.stdout);
    }
    for code in [0, 1, 2, 69, 73, 75, 77, 78] {
        assert!(help.stdout.contains(&format!("  {code}  ")), "{code} is not in\n{}", help.stdout);
    }
    assert!(dir.files().is_empty(), "help writes nothing");
}

#[test]
fn wrong_arguments_are_named_with_a_suggestion() {
    let dir = TestDir::empty();
    let check = |arguments: &[&str], expected: &str| {
        let refused = chela(&dir.state, arguments);
        assert_eq!(refused.code, Some(2));
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    };
    check(&["sevre"], "'serve'");
    check(&["serve", "--gatewya", "0"], "'--gateway'");
    check(&["serve", "--gateway", "nowhere"], "is no address to listen on; write HOST:PORT");
    check(&[], "Usage: chela");
}

#[test]
fn init_writes_a_configuration_once() {
    let dir = TestDir::empty();
    let done = chela(&dir.state, &["init", "--gateway", "127.0.0.1:4000", "--hub", "off"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("next: chela serve"), "{}", done.stdout);
    let get = |path: &str| chela(&dir.state, &["config", "get", path]).stdout.trim_end().to_owned();
    assert_eq!((get("gateway.listen"), get("hub.listen")), ("127.0.0.1:4000".into(), "off".into()));
    let before = fs::read(dir.state.config()).expect("written");
    let again = chela(&dir.state, &["init"]);
    assert_eq!(again.code, Some(73));
    assert!(again.stderr.contains("is there already; edit it"), "{}", again.stderr);
    assert_eq!(fs::read(dir.state.config()).expect("readable"), before);
}

#[test]
fn init_can_leave_the_team_empty() {
    let dir = TestDir::empty();
    let done = chela(&dir.state, &["init", "--empty-team", "--json"]);
    assert_eq!(done.json()["config"], json!(dir.state.config()));
    assert_eq!(chela(&dir.state, &["agents", "--json"]).json(), json!({ "agents": [] }));
    assert!(chela(&dir.state, &["agents"]).stdout.contains("no agents yet"));
}

#[test]
fn token_prints_the_token_alone() {
    let dir = TestDir::with_config(|_| {});
    let printed = chela(&dir.state, &["token"]).stdout;
    assert_eq!(printed, format!("{}\n", dir.token()));
    assert_eq!(chela(&dir.state, &["token", "--json"]).json(), json!({ "token": dir.token() }));
}

#[test]
fn agents_lists_the_team_without_a_gateway() {
    let dir = TestDir::with_config(|_| {});
    let document = chela(&dir.state, &["agents", "--json"]).json();
    let ids: Vec<&Value> = document["agents"].as_array().expect("a list").iter().map(|agent| &agent["id"]).collect();
    assert_eq!(ids, ["ruda", "eden", "seum"]);
    let text = chela(&dir.state, &["agents"]).stdout;
    assert!(text.contains("ruda  Ruda  orchestrator (default)  demo"), "{text}");
}

#[test]
fn status_tells_a_gateway_that_serves_from_one_that_does_not() {
    let dir = TestDir::with_config(|_| {});
    let none = chela(&dir.state, &["status", "--json"]);
    assert_eq!((none.code, none.json()["serving"].clone()), (Some(69), json!(false)));
    assert!(chela(&dir.state, &["status"]).stdout.contains("start one with `chela serve`"));

    let serving = Binary::serve(&dir);
    let status = chela(&dir.state, &["status", "--json"]);
    assert_eq!(status.code, Some(0));
    let status = status.json();
    assert_eq!((&status["serving"], &status["pid"]), (&json!(true), &json!(serving.pid())));
    assert_eq!(status["addresses"]["gateway"], json!(serving.address()));
    let text = chela(&dir.state, &["status"]).stdout;
    assert!(text.contains(&format!("gateway  http://{}", serving.address())), "{text}");

    dir.edit_config(|config| config["hub"]["listen"] = json!("off"));
    support::eventually("the change is told", || {
        chela(&dir.state, &["status"]).stdout.contains("needed for the change of hub.listen").then_some(())
    });
    dir.edit_config(|config| config["hbu"] = json!({}));
    let refused = chela(&dir.state, &["status"]);
    assert_eq!(refused.code, Some(0), "it serves on: {}", refused.stderr);
    assert!(refused.stdout.contains("refused  hbu: unknown key `hbu`; did you mean `hub`?"), "{}", refused.stdout);
    serving.terminate();
}

#[test]
fn config_get_shows_the_whole_with_defaults_or_a_part() {
    let dir = TestDir::with_config(|config| {
        config.as_object_mut().expect("an object").remove("limits");
    });
    let whole = chela(&dir.state, &["config", "get", "--json"]).json();
    assert_eq!(whole["limits"]["connections"], 5_000);
    assert_eq!(whole["gateway"]["auth"]["token"], "[redacted]");
    assert_eq!(chela(&dir.state, &["config", "get", "agents.list[1].id"]).stdout, "eden\n");
    let wrong = chela(&dir.state, &["config", "get", "agents.lits"]);
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.contains("there is no `lits`; the keys here are default, model, list"), "{}", wrong.stderr);
}

#[test]
fn config_check_takes_a_file_that_is_not_in_place() {
    let dir = TestDir::with_config(|_| {});
    let draft = dir.scratch().join("draft.json5");
    fs::write(&draft, "{ /* a draft */ gateway: { auth: { token: '0123456789abcdef' } } }").expect("written");
    let path = draft.to_str().expect("UTF-8");
    assert_eq!(chela(&dir.state, &["config", "check", path]).code, Some(0));
    fs::write(&draft, "{ gateway: ").expect("written");
    let refused = chela(&dir.state, &["config", "check", path]);
    assert_eq!(refused.code, Some(78));
    assert!(refused.stderr.contains("not JSON5 at line 1"), "{}", refused.stderr);
}

#[test]
fn config_schema_is_a_json_schema_with_a_sentence_for_each_section() {
    let dir = TestDir::empty();
    let schema = chela(&dir.state, &["config", "schema"]).json();
    assert_eq!(schema["title"], "chela.json");
    let sections = schema["properties"].as_object().expect("sections");
    for (name, section) in sections {
        assert!(section["description"].is_string(), "{name} has no description");
    }
    assert_eq!(schema["properties"]["limits"]["properties"]["connections"]["minimum"], 1);
}

#[test]
fn doctor_is_content_with_a_good_directory_serving_or_not() {
    let dir = TestDir::with_config(|config| config["limits"]["connections"] = json!(100));
    let findings = |document: &Value| {
        let rows = document["findings"].as_array().expect("a list").clone();
        rows.iter().map(|row| format!("{} {}", row["check"], row["state"]).replace('"', "")).collect::<Vec<_>>()
    };
    let idle = chela(&dir.state, &["doctor", "--json"]);
    assert_eq!(idle.code, Some(0), "{}", idle.stdout);
    assert_eq!(
        findings(&idle.json()),
        [
            "state directory good",
            "version good",
            "disk space good",
            "growth good",
            "clock good",
            "index good",
            "configuration good",
            "gateway good",
            "plugins good",
            "gateway port good",
            "monitor port good",
            "hub port good",
            "secrets good",
            "questions to people good",
            "open files good",
            "event log good",
            "state journal good",
            "task files good",
            "components good",
        ]
    );
    let serving = Binary::serve(&dir);
    let busy = chela(&dir.state, &["doctor"]);
    assert_eq!(busy.code, Some(0), "{}", busy.stdout);
    assert!(busy.stdout.contains(&format!("serving, pid {}", serving.pid())), "{}", busy.stdout);
    assert!(busy.stdout.contains("probe 0.1.0 compiled and answered in"), "{}", busy.stdout);
    serving.terminate();
}

#[test]
fn doctor_names_what_is_wrong_with_its_remedy() {
    let dir = TestDir::empty();
    let none = chela(&dir.state, &["doctor"]);
    assert_eq!(none.code, Some(1));
    assert!(none.stdout.contains("`chela init` or `chela serve` makes it"), "{}", none.stdout);

    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let dir = TestDir::with_config(|config| config["hub"]["listen"] = json!(address));
    fs::write(dir.state.event_log(), "{\"type\":\"torn").expect("written");
    let found = chela(&dir.state, &["doctor"]);
    assert_eq!(found.code, Some(1));
    assert!(found.stdout.contains("change `hub.listen`"), "{}", found.stdout);
    assert!(found.stdout.contains("the last line is torn"), "{}", found.stdout);

    let dir = TestDir::with_config(|config| config["agents"]["default"] = json!("nobody"));
    let found = chela(&dir.state, &["doctor"]);
    assert!(found.stdout.contains("agents.default: no agent has the id `nobody`; edit "), "{}", found.stdout);
}

#[test]
fn a_damaged_journal_is_named_by_doctor_and_mended_on_demand() {
    let dir = TestDir::scripted("{ otherwise: 'heard' }", |_| {});
    let serving = Binary::serve(&dir);
    for agent in ["ruda", "eden", "seum"] {
        assert_eq!(chela(&dir.state, &["send", agent, "hello", "--wait"]).code, Some(0));
    }
    serving.terminate();
    let path = dir.state.journal().join("state.00000001.ndjson");
    let mut bytes = fs::read(&path).expect("a segment");
    bytes[100] ^= 1;
    fs::write(&path, &bytes).expect("damaged");
    let refused = Binary::spawn(&dir, &[]).finished();
    assert_eq!(refused.code, Some(78), "{}", refused.stderr);
    assert!(refused.stderr.contains("`chela doctor --fix`"), "{}", refused.stderr);
    let told = chela(&dir.state, &["doctor"]);
    assert_eq!(told.code, Some(1), "{}", told.stdout);
    assert!(told.stdout.contains("is damaged at byte 0") && told.stdout.contains("--fix"), "{}", told.stdout);
    assert_eq!(fs::read(&path).expect("a segment"), bytes, "to look changes nothing");
    let mended = chela(&dir.state, &["doctor", "--fix"]);
    assert_eq!(mended.code, Some(0), "{}", mended.stdout);
    assert!(mended.stdout.contains("1 lines could not be read any more"), "{}", mended.stdout);
    let aside = fs::read_dir(dir.state.path()).expect("readable").flatten();
    let aside = aside.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains("journal.damaged-"));
    let aside = aside.expect("the damaged one is kept");
    assert_eq!(fs::read(aside.join("state.00000001.ndjson")).expect("a segment"), bytes);
    let serving = Binary::serve(&dir);
    assert_eq!(chela(&dir.state, &["send", "seum", "again", "--wait"]).stdout.trim(), "heard");
    fs::remove_dir_all(aside).expect("it is the operator's to remove");
    serving.terminate();
}

#[test]
fn the_shell_goes_on_while_the_configuration_in_the_file_is_bad() {
    let dir = TestDir::with_config(|_| {});
    let (serving, owner) = (Binary::serve(&dir), dir.token());
    dir.edit_config(|config| config["runs"]["queue"] = json!(-1));
    let token = chela(&dir.state, &["token"]);
    assert_eq!((token.code, token.stdout.trim()), (Some(0), &*owner), "{}", token.stderr);
    for arguments in [&["tasks"][..], &["jobs"], &["sessions"], &["plugin", "list"], &["events"]] {
        let done = chela(&dir.state, arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}", done.stderr);
    }
    serving.terminate();
}

#[test]
fn a_mistyped_agent_is_not_talked_to_as_somebody_else() {
    let dir = TestDir::scripted("{ rules: [{ when: 'slow', steps: [{ say: 'late', delayMs: 60000 }] }] }", |_| {});
    let serving = Binary::serve(&dir);
    for arguments in [&["chat", "nope"][..], &["send", "nope", "hi"], &["sessions", "reset", "nope"]] {
        let refused = chela(&dir.state, arguments);
        assert_eq!(refused.code, Some(1), "{arguments:?}: {}", refused.stdout);
        assert!(refused.stderr.contains("nope"), "{arguments:?}: {}", refused.stderr);
    }
    assert!(chela(&dir.state, &["sessions", "--json"]).json()["sessions"].as_array().expect("a list").is_empty());
    let waited = chela(&dir.state, &["send", "eden", "slow", "--wait", "--timeout", "1"]);
    assert_eq!(waited.code, Some(1), "{}", waited.stdout);
    assert!(waited.stderr.contains("no answer within 1 s; the agent goes on"), "{}", waited.stderr);
    assert_eq!(chela(&dir.state, &["jobs", "--status", "nope"]).code, Some(2));
    serving.kill();
}

#[test]
fn serve_json_prints_the_run_file_and_a_link_to_the_hub_when_ready() {
    let dir = TestDir::empty();
    let mut serving = Binary::spawn(&dir, &["--gateway", "0", "--monitor", "0", "--hub", "0", "--json"]);
    serving.wait_until_ready();
    let run = serving.run_file();
    let hub = run.addresses.hub.expect("the hub listens");
    let mut said = serving.terminate().json();
    let link = said.as_object_mut().expect("an object").remove("hubLink").expect("a link");
    assert!(link.as_str().expect("a text").starts_with(&format!("http://{hub}/login?code=")), "{link}");
    assert_eq!(said, serde_json::to_value(run).expect("JSON"), "the link is in no file");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = TestDir::empty();
    let mut command = support::chela_command(&dir.state);
    let mut child = command.args(["config", "schema"]).stdout(std::process::Stdio::piped()).spawn().expect("runs");
    drop(child.stdout.take());
    assert!(child.wait().expect("ends").success());
}

#[test]
fn a_stranger_at_the_address_of_a_dead_gateway_does_not_get_the_token() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    let address = serving.address();
    serving.kill();
    let bind = || std::net::TcpListener::bind(address).ok();
    let stranger = support::eventually("the port is free again", bind);
    stranger.set_nonblocking(true).expect("a socket");
    for command in ["status", "doctor"] {
        chela(&dir.state, &[command]);
    }
    assert!(stranger.accept().is_err(), "nobody called");
}

#[test]
fn a_token_that_only_the_gateway_has_is_no_fault_of_the_configuration() {
    let dir = TestDir::with_config(|config| config["gateway"]["auth"]["token"] = json!({ "env": "CHELA_TEST_TOKEN" }));
    let alone = chela(&dir.state, &["serve"]);
    assert_eq!(alone.code, Some(78));
    assert!(alone.stderr.contains("the environment variable CHELA_TEST_TOKEN is not set"), "{}", alone.stderr);

    let mut command = support::chela_command(&dir.state);
    command.arg("serve").env("CHELA_TEST_TOKEN", "a-token-of-the-environment");
    let mut serving = Binary::spawn_command(&dir, command);
    serving.wait_until_ready();
    let status = chela(&dir.state, &["status"]);
    assert_eq!(status.code, Some(0), "{}", status.stderr);
    assert!(!status.stdout.contains("refused"), "{}", status.stdout);
    let doctor = chela(&dir.state, &["doctor"]);
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("good if the gateway has what this command has not"), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("the gateway could not be asked about its slots: "), "{}", doctor.stdout);
    serving.terminate();
}

#[test]
fn a_pipe_in_place_of_a_file_is_refused_and_not_waited_for() {
    let dir = TestDir::with_config(|config| config["gateway"]["auth"]["token"] = json!({ "file": "../pipe" }));
    let made = std::process::Command::new("mkfifo").arg(dir.scratch().join("pipe")).status();
    assert!(made.expect("mkfifo runs").success());
    let refused = chela(&dir.state, &["config", "check"]);
    assert_eq!(refused.code, Some(78));
    assert!(refused.stderr.contains("pipe: not a regular file"), "{}", refused.stderr);
}
