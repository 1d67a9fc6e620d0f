//! What an adapter may reach and use: hosts, secrets, webhooks. What is not granted is refused, told, and never tried.

use std::path::Path;

use chela::port::Port;
use serde_json::{Value, json};
use support::chat::{Chat, SECRET, relay};
use support::{RawHttp, TestHost, eventually};

const SCRIPT: &str = r#"{ rules: [], otherwise: "heard" }"#;

#[test]
fn a_secret_reaches_the_network_and_nobody_else() {
    let chat = Chat::start();
    let post = format!("http://{}/messages", chat.requests);
    let host = TestHost::with_relay(&chat, SCRIPT, json!({ "token": "token", "post": post, "postToken": true }));
    assert_eq!(chat.opened(), [format!("Bearer {SECRET}")]);
    chat.send(json!({ "op": "say", "text": format!("your token is {SECRET}, is it not?") }));
    let said = host.eventually("it says what it saw", || chat.heard("said").pop());
    assert_eq!(said["text"], "your token is [token], is it not?");
    chat.message(1, "hello");
    let (_, body) = host.eventually("the answer is posted", || chat.asked().pop());
    assert_eq!(serde_json::from_str::<Value>(&body).expect("JSON")["token"], SECRET);
    chat.answers(200, &format!("x-echo: {SECRET}\n\nyou sent {SECRET}"));
    chat.send(json!({ "op": "get-with-token", "url": format!("http://{}/me", chat.requests) }));
    let heard = host.eventually("it hears the answer", || chat.heard("heard").pop());
    assert_eq!((&heard["status"], &heard["body"]), (&json!(200), &json!("you sent [token]")));
    host.events();
    let dir = host.stop();
    let mut files = vec![dir.state.path().to_owned()];
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).expect("readable").map(|entry| entry.expect("an entry").path()));
        } else if path != dir.state.config() {
            let text = String::from_utf8_lossy(&std::fs::read(&path).expect("readable")).into_owned();
            assert!(!text.contains("4711/hush"), "the secret is in {}", path.display());
        }
    }
}

#[test]
fn what_is_not_granted_is_refused_and_told() {
    let (chat, other) = (Chat::start(), Chat::start());
    let host = TestHost::with_relay(&chat, SCRIPT, json!({}));
    let check = |frame: Value, expected: &str| {
        let before = chat.heard("heard").len();
        chat.send(frame.clone());
        let heard = host.eventually("it hears of it", || chat.heard("heard").get(before).cloned());
        let error = heard["error"].as_str().expect("words");
        assert!(error.contains(expected) && heard["refused"] == true, "{frame}: {heard}");
    };
    check(json!({ "op": "get", "url": format!("http://{}/", other.requests) }), "is not granted");
    check(json!({ "op": "get", "url": "http://169.254.169.254/latest" }), "is not granted");
    check(json!({ "op": "get", "url": format!("http://localhost:{}/", chat.requests.port()) }), "is not granted");
    check(
        json!({ "op": "get", "url": format!("http://[::ffff:127.0.0.1]:{}/", chat.requests.port()) }),
        "is not granted",
    );
    check(json!({ "op": "get", "url": "file:///etc/passwd" }), "not granted");
    chat.answers(302, &format!("location: http://{}/\n\n", other.requests));
    check(json!({ "op": "get", "url": format!("http://{}/", chat.requests) }), "is not among the hosts");
    chat.answers(307, &format!("location: http://{}/\n\n", chat.sockets));
    check(json!({ "op": "get-with-token", "url": format!("http://{}/", chat.requests) }), "led to no other host");
    chat.send(json!({ "op": "connect", "url": other.url() }));
    host.eventually("a socket is refused too", || (host.channel("relay")["status"] == "stopped").then_some(()));
    assert!(other.asked().is_empty() && other.opened().is_empty(), "nobody was asked");
    assert!(host.told("plugin.denied").len() >= 3, "{:?}", host.told("plugin.denied"));
    assert!(
        host.told("channel.refused")
            .iter()
            .any(|told| told["reason"].as_str().is_some_and(|said| said.contains("169.254.169.254")))
    );
}

#[test]
fn an_inner_address_behind_a_granted_name_is_refused_and_told_once_a_minute() {
    let (chat, other) = (Chat::start(), Chat::start());
    let mut own = relay(&chat, json!({}));
    let named = |port: u16| json!(format!("http://localhost:{port}"));
    let hosts = own["grants"]["hosts"].as_array_mut().expect("a list");
    hosts.extend([named(other.requests.port()), named(other.sockets.port())]);
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own);
    host.channel_is("relay", "ready");
    // Without the gateway's clock: it is told again after a minute.
    for times in 1..=3 {
        chat.send(json!({ "op": "get", "url": format!("http://localhost:{}/", other.requests.port()) }));
        let heard = eventually("it hears of it", || chat.heard("heard").get(times - 1).cloned());
        assert!(heard["error"].as_str().is_some_and(|said| said.contains("which is loopback")), "{heard}");
        assert_eq!(heard["refused"], true);
    }
    chat.send(json!({ "op": "connect", "url": format!("ws://localhost:{}/", other.sockets.port()) }));
    eventually("a socket is refused too", || (host.channel("relay")["status"] == "stopped").then_some(()));
    for kind in ["plugin.denied", "channel.refused"] {
        let told = host.told(kind);
        let whats: Vec<&Value> = told.iter().map(|told| &told["what"]).collect();
        assert_eq!(whats, ["request", "socket"], "{kind}: {told:#?}");
        assert!(told.iter().all(|told| told["reason"].to_string().contains("which is loopback")), "{kind}: {told:#?}");
    }
    assert!(other.asked().is_empty() && other.opened().is_empty(), "nobody was asked");
}

#[test]
fn a_missing_secret_is_no_reason_to_try_again_and_again() {
    let chat = Chat::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("token");
    let mut own = relay(&chat, json!({ "token": "token" }));
    own["grants"]["secrets"]["token"]["value"] = json!({ "file": path });
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own);
    let view = host.channel_is("relay", "needs-auth");
    assert!(view["detail"].as_str().expect("words").contains("cannot read"), "{view}");
    host.clock.advance(std::time::Duration::from_secs(600));
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!((chat.opened().len(), &host.channel("relay")["restarts"]), (0, &json!(1)));
    std::fs::write(&path, "found-it").expect("written");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its owner's");
    host.call("channel.restart", json!({ "channel": "relay" })).expect("restarted");
    host.channel_is("relay", "ready");
    assert_eq!(chat.opened(), ["Bearer found-it"]);
}

/// The channel `relay` with its token in a file; and what writes that.
fn with_token_file(chat: &Chat, path: &Path) -> (Value, impl Fn(&str) + use<>) {
    let mut own = relay(chat, json!({ "token": "token" }));
    own["grants"]["secrets"]["token"]["value"] = json!({ "file": path });
    let path = path.to_owned();
    let write = move |token: &str| {
        std::fs::write(&path, token).expect("written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("its owner's");
    };
    (own, write)
}

#[test]
fn a_secret_that_has_changed_is_used_after_a_reload_and_one_that_has_not_disturbs_nobody() {
    let chat = Chat::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("token");
    let (own, write) = with_token_file(&chat, &path);
    write("the-first");
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own);
    host.channel_is("relay", "ready");
    let reload = || host.call("config.reload", json!({})).expect("read");
    let made = || host.channel("relay")["restarts"].as_u64().expect("a number");
    let talk = |times: usize| {
        chat.message(times as u64, "hello");
        host.eventually("it is acknowledged", || (chat.heard("ack").len() == times).then_some(()));
    };
    let before = made();
    reload();
    talk(1);
    write("the-first");
    reload();
    talk(2);
    std::fs::remove_file(&path).expect("removed");
    reload();
    let told = host.eventually("it is told", || host.told("channel.refused").pop());
    let said = told["reason"].as_str().expect("words");
    assert!(told["what"] == "secret" && said.contains("cannot read"), "{told}");
    talk(3);
    assert_eq!((chat.opened(), made()), (vec!["Bearer the-first".to_owned()], before), "it goes on undisturbed");
    write("the-second");
    reload();
    host.eventually("it begins anew", || (chat.heard("hello").len() == 2).then_some(()));
    host.channel_is("relay", "ready");
    talk(4);
    assert_eq!((chat.opened().len(), made()), (2, before + 1), "once");
    assert_eq!(chat.opened()[1], "Bearer the-second");
    host.dir.edit_config(|file| file["gatway"] = json!({}));
    write("the-third");
    host.call("config.reload", json!({})).expect_err("refused");
    host.eventually("it begins anew all the same", || (chat.heard("hello").len() == 3).then_some(()));
    assert_eq!(chat.opened()[2], "Bearer the-third");
}

#[test]
fn a_secret_that_is_there_at_last_is_taken_up_by_a_reload() {
    let chat = Chat::start();
    let folder = tempfile::tempdir().expect("a temporary directory");
    let (own, write) = with_token_file(&chat, &folder.path().join("token"));
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own);
    host.channel_is("relay", "needs-auth");
    host.call("config.reload", json!({})).expect("read");
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(host.channel("relay")["restarts"], 1, "nothing is there yet");
    write("found-it");
    host.call("config.reload", json!({})).expect("read");
    host.channel_is("relay", "ready");
    assert_eq!((chat.opened(), &host.channel("relay")["restarts"]), (vec!["Bearer found-it".to_owned()], &json!(2)));
}

#[test]
fn a_secret_that_is_not_for_a_host_is_not_told_to_it() {
    let chat = Chat::start();
    let mut own = relay(&chat, json!({}));
    own["grants"]["secrets"]["token"]["hosts"] = json!([chat.sockets.to_string()]);
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own);
    host.channel_is("relay", "ready");
    chat.send(json!({ "op": "get-with-token", "url": format!("http://{}/", chat.requests) }));
    let heard = host.eventually("it hears of it", || chat.heard("heard").pop());
    assert!(heard["error"].as_str().expect("words").contains("not granted for this host"), "{heard}");
    assert!(chat.asked().is_empty());
}

#[test]
fn other_rates_are_in_force_without_a_restart_of_the_gateway() {
    let chat = Chat::start();
    let mut own = relay(&chat, json!({}));
    own["grants"]["rates"]["requests"] = json!(1);
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own);
    host.channel_is("relay", "ready");
    let ask = || {
        let before = chat.heard("heard").len();
        chat.send(json!({ "op": "get", "url": format!("http://{}/", chat.requests) }));
        // Without the gateway's clock: the rate is one of a minute.
        eventually("it hears of it", || chat.heard("heard").get(before).cloned())
    };
    assert_eq!(ask()["status"], 200);
    assert!(ask()["error"].as_str().expect("words").contains("more than 1 requests"));
    host.dir.edit_config(|file| file["channels"]["relay"]["grants"]["rates"]["requests"] = json!(600));
    host.eventually("it begins anew", || (chat.opened().len() == 2).then_some(()));
    host.channel_is("relay", "ready");
    assert_eq!([ask(), ask(), ask()].map(|heard| heard["status"].clone()), [json!(200), json!(200), json!(200)]);
}

#[test]
fn a_webhook_is_heard_where_it_is_granted_and_believed_where_it_is_signed() {
    let chat = Chat::start();
    let mut own = relay(&chat, json!({}));
    own["grants"]["secrets"]["key"] = json!({ "value": "hook-key", "hosts": [chat.sockets.to_string()] });
    own["grants"]["webhooks"]["events"] =
        json!({ "verify": { "secret": "key", "header": "x-signature", "prefix": "sha256=" } });
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own);
    host.channel_is("relay", "ready");
    let body = br#"{"id":"w1","text":"by a hook"}"#;
    let call = |path: &str, signature: &str| {
        host.request("POST", path, &[("authorization", ""), ("x-signature", signature)], body)
    };
    // HMAC-SHA-256 of the body under `hook-key`.
    let good = hmac_hex(b"hook-key", body);
    let answer = call("/hooks/relay/events", &format!("sha256={good}"));
    assert_eq!((answer.status, &*answer.body), (200, &b"POST events 200"[..]));
    assert_eq!(answer.headers["content-security-policy"], "sandbox", "no page of the gateway's own");
    eventually("the message is answered", || {
        host.clock.advance(std::time::Duration::from_millis(50));
        (chat.delivered().len() == 1).then_some(())
    });
    for bad in
        [String::new(), "sha256=00".into(), format!("sha256={}", good.replace(['a', 'b', '1'], "0")), good.clone()]
    {
        assert_eq!(call("/hooks/relay/events", &bad).status, 401, "{bad}");
    }
    assert_eq!(call("/hooks/relay/other", &good).status, 404);
    assert_eq!(call("/hooks/none/events", &good).status, 404);
    assert_eq!(chat.delivered().len(), 1);
    let told = eventually("what was refused is told", || {
        let refused = host.told("channel.refused");
        let calls: Vec<String> =
            refused.iter().filter(|told| told["what"] == "webhook").map(|told| told["reason"].to_string()).collect();
        (calls.len() >= 2).then_some(calls)
    });
    assert!(told.iter().any(|said| said.contains("lacks the signature")), "{told:?}");
    assert!(told.iter().any(|said| said.contains("answered 401")), "{told:?}");
    assert!(told.len() <= 2, "each reason once a minute: {told:?}");
}

#[test]
fn calls_that_nobody_has_vouched_for_take_so_much_memory_and_no_more() {
    let chat = Chat::start();
    let mut own = relay(&chat, json!({}));
    own["grants"]["secrets"]["key"] = json!({ "value": "hook-key" });
    own["grants"]["webhooks"]["events"] = json!({ "verify": { "secret": "key", "header": "x-signature" } });
    let host = TestHost::scripted_with(SCRIPT, |file| {
        file["channels"]["relay"] = own;
        // It is looked again and again, on a clock that stands still.
        file["limits"]["requestsBurst"] = json!(100_000);
    });
    host.channel_is("relay", "ready");
    let say = |path: &str, length: usize, body: &[u8]| {
        let mut begun = RawHttp::connect(host.address(Port::Gateway));
        begun
            .send(format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
            ))
            .send(body);
        begun
    };
    let answered = || say("/hooks/relay/events", 1_024, &[b' '; 1_024]).read_status();
    let megabyte = vec![b' '; 1024 * 1024];
    assert_eq!(say("/hooks/relay/other", megabyte.len(), b"").read_status(), "HTTP/1.1 404 Not Found");
    let silent: Vec<RawHttp> = (0..65).map(|_| say("/hooks/relay/events", megabyte.len(), b"")).collect();
    assert_eq!(answered(), "HTTP/1.1 401 Unauthorized", "what is only announced takes nothing");
    drop(silent);
    // One more than there is room for: when one has been refused, the others fit.
    let mut waiting: Vec<RawHttp> =
        (0..65).map(|_| say("/hooks/relay/events", megabyte.len(), &megabyte[1..])).collect();
    let at = eventually("there is no room", || waiting.iter().position(RawHttp::is_answered));
    let refused = waiting.remove(at).read_to_end().to_lowercase();
    assert!(refused.starts_with("http/1.1 503 service unavailable") && refused.contains("retry-after: 5"), "{refused}");
    drop(waiting);
    eventually("there is room again", || (answered() == "HTTP/1.1 401 Unauthorized").then_some(()));
}

#[test]
fn a_signature_may_be_over_more_than_the_body() {
    let chat = Chat::start();
    let mut own = relay(&chat, json!({}));
    own["grants"]["secrets"]["key"] = json!({ "value": "hook-key" });
    let rule = json!({ "secret": "key", "header": "x-signature", "prefix": "v0=", "over": ["v0:", "header:x-time", ":", "body"] });
    own["grants"]["webhooks"]["events"] = json!({ "verify": rule });
    let host = TestHost::scripted_with(SCRIPT, |file| file["channels"]["relay"] = own);
    host.channel_is("relay", "ready");
    let body = br#"{"id":"w1","text":"by a hook"}"#;
    let signature = |time: &str| {
        let signed = [b"v0:", time.as_bytes(), b":", body].concat();
        format!("v0={}", hmac_hex(b"hook-key", &signed))
    };
    let call = |time: &str, signature: &str| {
        let headers = [("authorization", ""), ("x-signature", signature), ("x-time", time)];
        host.request("POST", "/hooks/relay/events", &headers, body).status
    };
    assert_eq!(call("1700", &signature("1700")), 200);
    assert_eq!(call("1701", &signature("1700")), 401, "another time is another signature");
    let bare = host.request(
        "POST",
        "/hooks/relay/events",
        &[("authorization", ""), ("x-signature", &signature("1700"))],
        body,
    );
    assert_eq!(bare.status, 401, "what is signed must be there");
}

fn hmac_hex(key: &[u8], body: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    let pad = |with: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha256::digest([pad(0x36), body.to_vec()].concat());
    let outer = Sha256::digest([pad(0x5c), inner.to_vec()].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}
