//! The configuration while a gateway runs: good changes are taken up, bad ones change nothing and say why.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use chela::bus::Delivery;
use serde_json::{Value, json};
use support::{Binary, TestDir, TestHost, chela, eventually};

fn agent_ids(host: &TestHost) -> Vec<String> {
    let agents = host.call("agents.list", json!({})).expect("answered")["agents"].clone();
    agents.as_array().expect("a list").iter().map(|agent| agent["id"].as_str().expect("an id").to_owned()).collect()
}

fn issues(host: &TestHost) -> Vec<String> {
    let issues = host.call("config.get", json!({})).expect("answered")["issues"].clone();
    let said = |issue: &Value| issue["message"].as_str().expect("a message").to_owned();
    issues.as_array().expect("a list").iter().map(said).collect()
}

#[test]
fn a_change_of_the_file_is_taken_up_by_itself() {
    let host = TestHost::start();
    let mut events = host.app().bus().subscribe("config.");
    assert_eq!(agent_ids(&host), ["ruda", "eden", "seum"]);
    host.dir.edit_config(|config| {
        config["agents"]["list"].as_array_mut().expect("a list").push(json!({ "id": "dajim", "role": "worker" }));
    });
    host.eventually("the new agent is there", || (agent_ids(&host).len() == 4).then_some(()));
    assert!(host.dir.state.path().join("workspace-dajim").is_dir(), "with its workspace");
    let Some(Delivery::Event(event)) = host.block_on(events.next()) else { panic!("an event") };
    assert_eq!((event.kind.as_str(), &event.data["changed"]), ("config.applied", &json!(["agents.list"])));
    assert_eq!(event.data["restartNeeded"], json!([]));
}

#[test]
fn a_bad_change_keeps_the_one_before_and_says_why() {
    let host = TestHost::start();
    host.dir.edit_config(|config| config["agnets"] = json!({}));
    host.eventually("it is refused", || (!issues(&host).is_empty()).then_some(()));
    assert_eq!(issues(&host), ["unknown key `agnets`; did you mean `agents`?"]);
    assert_eq!(agent_ids(&host).len(), 3);
    let refused = host.events().into_iter().find(|event| event["type"] == "config.refused").expect("an event");
    assert_eq!(refused["data"]["problems"][0]["path"], "agnets");

    host.dir.edit_config(|config| drop(config.as_object_mut().expect("an object").remove("agnets")));
    host.eventually("it is good again", || issues(&host).is_empty().then_some(()));
}

#[test]
fn a_file_half_written_while_watched_is_never_half_applied() {
    let host = TestHost::start();
    let whole = fs::read_to_string(host.dir.state.config()).expect("readable");
    let changed = whole.replace("\"Ruda\"", "\"루다\"");
    assert_ne!(whole, changed);
    let half = changed.len() / 2;
    let half = (0..=half).rev().find(|at| changed.is_char_boundary(*at)).expect("a boundary");
    // As a slow editor writes: in place, in two parts.
    fs::write(host.dir.state.config(), &changed[..half]).expect("written");
    host.eventually("the half is refused", || (!issues(&host).is_empty()).then_some(()));
    assert!(issues(&host)[0].starts_with("not JSON5 at line"), "{:?}", issues(&host));
    assert_eq!(agent_ids(&host).len(), 3);
    fs::write(host.dir.state.config(), &changed).expect("written");
    host.eventually("the whole is applied", || {
        let agents = host.call("agents.list", json!({})).expect("answered");
        (agents["agents"][0]["name"] == "루다").then_some(())
    });
    assert_eq!(issues(&host), Vec::<String>::new());
}

#[test]
fn a_file_that_is_finished_before_it_settles_is_never_refused() {
    let host = TestHost::start();
    let whole = fs::read_to_string(host.dir.state.config()).expect("readable");
    let changed = whole.replace("\"Ruda\"", "\"Luda\"");
    // The clock stands still between the two halves, so the first is never looked at.
    fs::write(host.dir.state.config(), &changed[..changed.len() / 2]).expect("written");
    fs::write(host.dir.state.config(), &changed).expect("written");
    host.eventually("it is applied", || host.dir.event_types().contains(&"config.applied".to_owned()).then_some(()));
    host.events();
    assert!(!host.dir.event_types().contains(&"config.refused".to_owned()));
}

#[test]
fn a_change_of_comments_alone_is_no_news_but_another_revision() {
    let host = TestHost::start();
    let hash = || host.call("config.get", json!({})).expect("answered")["hash"].clone();
    let before = hash();
    let whole = fs::read_to_string(host.dir.state.config()).expect("readable");
    host.dir.write_config(format!("// a comment\n{whole}").as_bytes());
    let applied = host.call("config.reload", json!({})).expect("read");
    assert_eq!(applied["changed"], json!([]));
    assert_ne!(hash(), before);
    host.events();
    let told = host.dir.event_types().into_iter().filter(|kind| kind.starts_with("config.")).count();
    assert_eq!(told, 0);
}

#[test]
fn every_kind_of_bad_file_is_refused_by_name_and_the_rest_goes_on() {
    let host = TestHost::start();
    let good = fs::read(host.dir.state.config()).expect("readable");
    let reload = || host.call("config.reload", json!({}));
    let check = |expected: &str| {
        let error = reload().expect_err("refused");
        let message = error["message"].as_str().expect("a message");
        assert!(message.starts_with("the configuration before stays in force: "), "{message}");
        assert!(message.contains(expected), "{message}");
        assert_eq!(agent_ids(&host).len(), 3);
    };
    host.dir.write_config(b"{ gateway: { listen: 7 } }");
    check("gateway.listen: must be of type string, not number");
    host.dir.write_config(b"{ \"gateway\": \xff }");
    check("is not UTF-8 (byte 13)");
    host.dir.write_config(&vec![b' '; 1024 * 1024 + 1]);
    check("is larger than 1048576 bytes");
    host.dir.write_config(b"{}");
    check("gateway.auth.token: a token has at least 16 characters");
    host.dir.write_config(&good);
    fs::set_permissions(host.dir.state.config(), fs::Permissions::from_mode(0o640)).expect("ours");
    check("(mode 640) and it holds a token; run `chmod 600");
    fs::remove_file(host.dir.state.config()).expect("ours");
    check("there is no ");
    host.dir.write_config(&good);
    assert_eq!(reload().expect("good again"), json!({ "changed": [], "restartNeeded": [] }));
}

#[test]
fn rights_that_are_mended_are_noticed() {
    let host = TestHost::start();
    let set = |mode| fs::set_permissions(host.dir.state.config(), fs::Permissions::from_mode(mode)).expect("ours");
    set(0o644);
    host.eventually("it is refused", || (!issues(&host).is_empty()).then_some(()));
    set(0o600);
    host.eventually("it is good again", || issues(&host).is_empty().then_some(()));
}

#[test]
fn what_needs_a_restart_is_said_and_not_done() {
    let host = TestHost::start();
    let before = host.app().addresses();
    host.dir.edit_config(|config| config["monitor"]["listen"] = json!("off"));
    let applied = host.call("config.reload", json!({})).expect("applied");
    assert_eq!(applied, json!({ "changed": ["monitor.listen"], "restartNeeded": ["monitor.listen"] }));
    assert_eq!(host.app().addresses(), before);
    let status = host.call("status", json!({})).expect("answered");
    assert_eq!(status["config"]["restartNeeded"], json!(["monitor.listen"]));
}

#[test]
fn a_new_token_opens_and_the_old_one_no_longer_does() {
    let host = TestHost::start();
    let old = host.dir.token();
    host.dir.edit_config(|config| config["gateway"]["auth"]["token"] = json!("another-token-of-the-owner"));
    let bearer = format!("Bearer {old}");
    let frame = br#"{"method":"config.reload"}"#;
    let applied = host.request("POST", "/rpc", &[("authorization", &bearer)], frame).json();
    assert_eq!(applied["payload"]["changed"], json!(["gateway.auth"]), "changed, but not shown");
    let ask = |token: &str| {
        let bearer = format!("Bearer {token}");
        host.request("GET", "/api/health", &[("authorization", &bearer)], b"").status
    };
    assert_eq!((ask(&old), ask("another-token-of-the-owner")), (401, 200));
}

#[test]
fn secrets_are_in_no_answer_event_or_log() {
    let secret = "a-secret-that-must-not-be-seen";
    let dir = TestDir::with_config(|config| {
        config["gateway"]["auth"]["tokens"] = json!({ "x": { "token": secret, "scope": "operator.read" } });
        config["log"]["level"] = json!("trace");
    });
    let token = dir.token();
    let serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = serving.client(&token);
    let mut seen = String::new();
    for method in ["config.get", "status", "health", "agents.list", "config.reload"] {
        seen.push_str(&runtime.block_on(client.call(method, json!({}))).expect("answered").to_string());
    }
    for arguments in
        [&["config", "get"][..], &["config", "get", "--json"], &["doctor"], &["status"], &["config", "check"]]
    {
        let finished = chela(&dir.state, arguments);
        seen.push_str(&finished.stdout);
        seen.push_str(&finished.stderr);
    }
    dir.edit_config(|config| config["gateway"]["auth"]["token"] = json!({ "txt": token.clone() }));
    runtime.block_on(client.call("config.reload", json!({}))).expect_err("refused");
    let ended = serving.terminate();
    for path in [dir.state.event_log(), dir.state.audit_log()] {
        seen.push_str(&fs::read_to_string(path).expect("readable"));
    }
    seen.push_str(&ended.stdout);
    seen.push_str(&ended.stderr);
    assert!(seen.contains("[redacted]"), "the secrets' places were shown");
    assert!(!seen.contains(secret) && !seen.contains(&token), "a secret was shown");
}

#[test]
fn sighup_reads_again_what_is_not_watched() {
    let dir = TestDir::with_config(|config| config["gateway"]["auth"]["token"] = json!({ "file": "../token" }));
    let write = |token: &str| {
        let path = dir.scratch().join("token");
        fs::write(&path, token).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
    };
    write("the-first-token-in-a-file");
    let serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let opens = |token: &str| {
        let answer = runtime.block_on(serving.client(token).get("/api/health"));
        answer.expect("answered").status == 200
    };
    assert!(opens("the-first-token-in-a-file"));
    write("the-second-token-in-a-file");
    assert!(!opens("the-second-token-in-a-file"), "a secret's file is not watched");
    serving.signal(rustix::process::Signal::HUP);
    eventually("the second token opens", || opens("the-second-token-in-a-file").then_some(()));
    assert!(!opens("the-first-token-in-a-file"));
    serving.terminate();
}

#[test]
fn the_log_level_follows_the_file() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let ask = || runtime.block_on(serving.client(&dir.token()).get("/healthz")).expect("answered").status;
    ask();
    assert!(!serving.stderr().contains("answered"));
    dir.edit_config(|config| config["log"]["level"] = json!("debug"));
    eventually("requests are logged", || {
        ask();
        serving.stderr().contains("answered").then_some(())
    });
    serving.terminate();
}

#[test]
fn logs_are_json_when_asked_for() {
    let dir = TestDir::with_config(|config| config["log"]["format"] = json!("json"));
    let ended = Binary::serve(&dir).terminate();
    let lines: Vec<Value> = ended.stderr.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().any(|line| line["fields"]["message"] == "ready"), "{lines:?}");
}

#[test]
fn a_start_on_a_bad_file_names_everything_to_change() {
    let dir = TestDir::with_config(|config| {
        config["gatway"] = json!({});
        config["limits"]["bodyBytes"] = json!("2 MB");
    });
    for arguments in [&["serve"][..], &["config", "check"], &["agents"]] {
        let refused = chela(&dir.state, arguments);
        assert_eq!(refused.code, Some(78), "{arguments:?}");
        for expected in [
            "cannot be used:",
            "gatway: unknown key `gatway`; did you mean `gateway`?",
            "limits.bodyBytes: must be of type integer, not string",
        ] {
            assert!(refused.stderr.contains(expected), "{}", refused.stderr);
        }
    }
    let document = chela(&dir.state, &["config", "check", "--json"]).json();
    assert_eq!(document["error"]["exitCode"], 78);
    assert_eq!(document["error"]["problems"].as_array().map(Vec::len), Some(2));
}
