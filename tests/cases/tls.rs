//! Encrypted listeners: who gets in, what commands take for the gateway's own, and certificates that are renewed while it serves.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use chela::client::{Client, Error};
use chela::port::Port;
use chela::tls::Pinned;
use rustix::process::Signal;
use serde_json::{Value, json};
use support::{Binary, RawHttp, TestDir, TestHost, chela, eventually, have};

/// Makes a certificate of its own with its key, in place of those that are there.
fn certify(folder: &Path, name: &str) -> String {
    let (key, certificate) = (folder.join(format!("{name}.key")), folder.join(format!("{name}.pem")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"])
        .args(["-subj", "/CN=localhost", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("ours");
    fs::read_to_string(certificate).expect("written")
}

fn secured(dir: &TestDir) -> String {
    let (certificate, key) = (dir.scratch().join("own.pem"), dir.scratch().join("own.key"));
    dir.edit_config(|config| config["tls"] = json!({ "certificate": certificate, "key": key }));
    certify(dir.scratch(), "own")
}

fn over(client: Client, certificate: &str) -> Client {
    client.over(Some(Pinned::to(certificate).expect("a certificate")))
}

#[test]
fn everything_is_spoken_over_tls_and_commands_know_their_gateway() {
    if !have("openssl") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let certificate = secured(&dir);
    let serving = Binary::serve(&dir);
    let run = serving.run_file();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    for port in Port::ALL {
        let address = &run.addresses.get(port).expect("every listener is on");
        let plain = RawHttp::connect(*address).send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").read_to_end();
        assert!(plain.starts_with("HTTP/1.1 400") && plain.contains("speaks TLS"), "{plain}");
        let client = Client::new(*address, Some(dir.token()));
        let answer = runtime.block_on(over(client, &certificate).get("/healthz")).expect("an answer");
        assert_eq!(answer.status, 200, "{port:?}");
    }
    let client = over(serving.client(&dir.token()), &certificate);
    let told = runtime.block_on(async {
        let mut socket = client.open().await.expect("the protocol, over TLS");
        let told = socket.request("status", json!({})).await.expect("an answer");
        socket.close().await;
        told
    });
    assert_eq!(told["encrypted"], json!(["gateway", "monitor", "hub"]));

    let status = chela(&dir.state, &["status"]);
    assert!(status.code == Some(0) && status.stdout.contains("https://127.0.0.1:"), "{status:?}");
    let sent = chela(&dir.state, &["send", "ruda", "hello", "--wait"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let events = chela(&dir.state, &["events", "--limit", "1", "--json"]);
    assert_eq!(events.code, Some(0), "{events:?}");

    let login = Client::new(run.addresses.hub.expect("the hub is on"), None);
    let body = format!("token={}", dir.token()).into_bytes();
    let login = runtime.block_on(over(login, &certificate).send("POST".parse().expect("a verb"), "/login", &[], body));
    let cookie = login.expect("an answer").headers["set-cookie"].to_str().expect("text").to_owned();
    assert!(cookie.ends_with("; Secure"), "{cookie}");
    let ended = serving.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("https://127.0.0.1:") && !ended.stdout.contains("http://"), "{}", ended.stdout);
    assert!(!dir.state.run_tls().exists(), "it is shown no more");
}

#[test]
fn who_shows_another_certificate_does_not_get_the_token() {
    if !have("openssl") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    secured(&dir);
    let other = certify(dir.scratch(), "other");
    let serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = over(serving.client(&dir.token()), &other);
    let refused = runtime.block_on(client.get("/healthz"));
    assert!(matches!(refused, Err(Error::Unreachable { .. })), "{refused:?}");
    // As a command sees it, whose gateway was replaced by somebody else's.
    let said = fs::read_to_string(dir.state.run_tls()).expect("written");
    let mut document: Value = serde_json::from_str(&said).expect("JSON");
    document["certificate"] = json!(other);
    fs::write(dir.state.run_tls(), document.to_string()).expect("written");
    assert_eq!(chela(&dir.state, &["status"]).code, Some(69));
    serving.terminate();
}

#[test]
fn a_renewed_certificate_is_shown_at_the_next_reload_and_a_bad_one_never() {
    if !have("openssl") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let first = secured(&dir);
    let serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let shows = |certificate: &str| {
        let client = over(serving.client(&dir.token()), certificate);
        runtime.block_on(client.get("/healthz")).is_ok()
    };
    let mut open = runtime.block_on(over(serving.client(&dir.token()), &first).open()).expect("connected");
    assert!(shows(&first));
    let second = certify(dir.scratch(), "own");
    serving.signal(Signal::HUP);
    eventually("the new one is shown", || shows(&second).then_some(()));
    assert!(!shows(&first));
    eventually("commands follow", || (chela(&dir.state, &["status"]).code == Some(0)).then_some(()));
    runtime.block_on(open.request("status", json!({}))).expect("what was open stays open");
    runtime.block_on(open.close());

    fs::write(dir.scratch().join("own.pem"), &first).expect("written");
    serving.signal(Signal::HUP);
    eventually("it is refused", || serving.stderr().contains("does not belong to the certificate").then_some(()));
    assert!(shows(&second) && !shows(&first), "the one before stays in force");
    let status = chela(&dir.state, &["status"]);
    assert!(status.stdout.contains("tls.key: ") && status.stdout.contains("own.key"), "{status:?}");
    assert!(!serving.stderr().contains("PRIVATE"), "a key was logged");
    serving.terminate();
}

#[test]
fn a_certificate_that_is_renewed_by_others_is_taken_up_by_itself() {
    if !have("openssl") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    secured(&dir);
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let second = certify(host.dir.scratch(), "own");
    shown_later(&host, &second, || {});
    let events = host.events();
    let applied = events.iter().find(|event| event["type"] == "config.applied").expect("it is told");
    assert_eq!(applied["data"]["changed"], json!(["tls"]));
}

/// Lets the time pass after which files of certificates are looked at, until this one is shown.
fn shown_later(host: &TestHost, certificate: &str, mut meanwhile: impl FnMut()) {
    let pinned = Pinned::to(certificate);
    eventually("the new one is shown", || {
        meanwhile();
        host.clock.advance(Duration::from_secs(31));
        let client = host.client(Port::Gateway).over(pinned.clone());
        host.block_on(client.get("/healthz")).ok()
    });
}

/// What is wrong with the configuration in the file, as paths and messages.
fn problems(host: &TestHost) -> Vec<(String, String)> {
    let problems = host.app().settings().standing().problems;
    problems.into_iter().map(|problem| (problem.path, problem.message)).collect()
}

#[test]
fn a_certificate_is_renewed_while_the_configuration_in_the_file_is_bad_and_a_bad_one_is_told_beside_it() {
    if !have("openssl") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    secured(&dir);
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    host.dir.edit_config(|config| config["lisen"] = json!(1));
    let paths = || -> Vec<String> { problems(&host).into_iter().map(|(path, _)| path).collect() };
    host.eventually("it is refused", || (paths() == ["lisen"]).then_some(()));
    let second = certify(host.dir.scratch(), "own");
    shown_later(&host, &second, || {});
    assert_eq!(paths(), ["lisen"], "the rest of the file is as bad as before");
    let events = host.events();
    let applied = events.iter().find(|event| event["type"] == "config.applied").expect("it is told");
    assert_eq!(applied["data"]["changed"], json!(["tls"]));

    fs::write(host.dir.scratch().join("own.pem"), "nothing").expect("written");
    eventually("that is told too", || {
        host.clock.advance(Duration::from_secs(31));
        (paths() == ["lisen", "tls.certificate"]).then_some(())
    });
    let client = over(host.client(Port::Gateway), &second);
    assert!(host.block_on(client.get("/healthz")).is_ok(), "the one before stays in force");
}

#[test]
fn a_key_that_is_closed_to_others_afterwards_is_taken_up_although_nothing_of_it_is_written() {
    if !have("openssl") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    secured(&dir);
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let key = host.dir.scratch().join("own.key");
    let set = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).expect("ours");
    let second = certify(host.dir.scratch(), "own");
    set(0o644);
    eventually("it is refused", || {
        host.clock.advance(Duration::from_secs(31));
        problems(&host).iter().any(|(_, said)| said.contains("chmod 600")).then_some(())
    });
    shown_later(&host, &second, || set(0o600));
    assert!(problems(&host).is_empty(), "{:?}", problems(&host));
}

#[test]
fn only_the_listeners_that_are_named_are_encrypted() {
    if !have("openssl") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let certificate = secured(&dir);
    dir.edit_config(|config| config["tls"]["listeners"] = json!(["hub"]));
    let serving = Binary::serve(&dir);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let plain = runtime.block_on(serving.client(&dir.token()).get("/healthz")).expect("an answer");
    assert_eq!(plain.status, 200);
    let hub = Client::new(serving.run_file().addresses.hub.expect("on"), None);
    assert_eq!(runtime.block_on(over(hub, &certificate).get("/healthz")).expect("an answer").status, 200);
    assert_eq!(chela(&dir.state, &["agents", "--json"]).code, Some(0));
    assert_eq!(chela(&dir.state, &["status"]).code, Some(0));
    // Also while it serves: what is asked for next is asked for plainly.
    dir.edit_config(|config| config["tls"] = json!({}));
    let hub = Client::new(serving.run_file().addresses.hub.expect("on"), None);
    eventually("nothing is encrypted any more", || runtime.block_on(hub.get("/healthz")).ok());
    serving.terminate();
}

#[test]
fn what_cannot_be_shown_is_named_and_nothing_is_served() {
    if !have("openssl") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    secured(&dir);
    certify(dir.scratch(), "other");
    let check = |change: &dyn Fn(), said: &str| {
        change();
        let refused = chela(&dir.state, &["serve"]);
        assert_eq!(refused.code, Some(78), "{refused:?}");
        assert!(refused.stderr.contains(said), "{said}: {}", refused.stderr);
        assert!(!refused.stderr.contains("-----BEGIN EC PRIVATE"), "{}", refused.stderr);
        let doctor = chela(&dir.state, &["doctor"]);
        assert!(doctor.stdout.contains(said), "{said}: {}", doctor.stdout);
    };
    let (key, certificate) = (dir.scratch().join("own.key"), dir.scratch().join("own.pem"));
    check(&|| drop(fs::copy(dir.scratch().join("other.key"), &key)), "tls.key: ");
    check(&|| fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("ours"), "chmod 600");
    let closed = || fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("ours");
    check(&|| fs::write(&certificate, "nothing").map(|()| closed()).expect("written"), "tls.certificate: ");
    check(&|| fs::remove_file(&certificate).expect("ours"), "tls.certificate: cannot read");
    check(
        &|| dir.edit_config(|config| config["tls"] = json!({ "certificate": "own.pem" })),
        "tls.key: a certificate needs",
    );
}
