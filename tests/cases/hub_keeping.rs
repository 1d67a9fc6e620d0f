//! What people keep by hand and change on the hub's pages, asked for as a browser without a script does: nothing is lost that a page did not
//! show, and what was saved is what is in force.

use std::fs;

use chela::client::{Answer, Client};
use chela::port::Port;
use serde_json::{Value, json};
use support::TestHost;

/// Somebody who is signed in.
struct Person<'a> {
    host: &'a TestHost,
    cookie: String,
    origin: String,
}

impl<'a> Person<'a> {
    fn new(host: &'a TestHost) -> Self {
        let client = Client::new(host.address(Port::Hub), None);
        let body = format!("token={}", host.token).into_bytes();
        let answer = host.block_on(client.send("POST".parse().expect("a method"), "/login", &[], body));
        let answer = answer.expect("an answer");
        let cookie = answer.headers.get("set-cookie").and_then(|value| value.to_str().ok()).expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        Self { host, cookie, origin: format!("http://{}", host.address(Port::Hub)) }
    }

    fn asked(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let client = Client::new(self.host.address(Port::Hub), None);
        let mut all = vec![("cookie", self.cookie.as_str()), ("origin", &self.origin), ("accept-language", "en")];
        all.extend(headers);
        let answer = client.send(method.parse().expect("a method"), path, &all, body.to_vec());
        self.host.block_on(answer).expect("an answer")
    }

    /// A page as it is in English.
    fn page(&self, path: &str) -> String {
        let answer = self.asked("GET", path, &[], b"");
        assert_eq!(answer.status, 200, "{path}");
        String::from_utf8(answer.body.to_vec()).expect("UTF-8")
    }

    /// Sends a form as the script does; where it leads, or what is said.
    fn sent(&self, path: &str, fields: &[(&str, &str)]) -> Result<String, String> {
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        told(&self.asked("POST", path, &[("chela-script", "1")], body.join("&").as_bytes()))
    }
}

fn told(answer: &Answer) -> Result<String, String> {
    let told = answer.json();
    match answer.status {
        200 => Ok(told["next"].as_str().expect("a place").to_owned()),
        _ => Err(told["error"]["message"].as_str().unwrap_or_else(|| panic!("{told}")).to_owned()),
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The value of the first field of this name after a place in a page.
fn field(page: &str, after: &str, name: &str) -> String {
    let rest = &page[page.find(after).unwrap_or_else(|| panic!("{after} is on the page"))..];
    let rest = rest.split_once(&format!("name=\"{name}\" value=\"")).expect("a field").1;
    rest.split('"').next().expect("a value").replace("&quot;", "\"").replace("&amp;", "&")
}

#[test]
fn rules_that_a_page_cannot_show_whole_are_not_replaced_by_it() {
    let host = TestHost::start();
    let person = Person::new(&host);
    let path = host.dir.state.rules();
    fs::create_dir_all(host.dir.state.plugins()).expect("made");
    let long = format!("{{ rules: [] }} // {}", "x".repeat(200_000));
    let nothing = field(&person.page("/plugins/classifier"), "/rules\"", "seen");
    for (bytes, why) in [(long.as_bytes(), "too long"), (b"{ rules: [] } // caf\xe9".as_slice(), "not UTF-8")] {
        fs::write(&path, bytes).expect("written");
        let page = person.page("/plugins/classifier");
        assert!(page.contains(why) && !page.contains("id=\"rules-text\""), "{why}");
        let fields = [("rules", "{ rules: [] }"), ("seen", nothing.as_str())];
        let said = person.sent("/plugins/classifier/rules", &fields).expect_err("refused");
        assert!(said.contains("use an editor"), "{said}");
        assert_eq!(fs::read(&path).expect("there"), bytes, "nothing is lost");
    }
}

#[test]
fn a_part_of_the_configuration_becomes_what_was_saved() {
    let host = TestHost::start_with(|config| {
        config["gateway"]["auth"]["tokens"] =
            json!({ "reader": { "token": "a-token-that-may-read", "scope": "operator.read" } });
    });
    let person = Person::new(&host);
    let saved = |section: &str, edit: &dyn Fn(&mut Value)| {
        let seen = field(&person.page(&format!("/settings?section={section}")), "name=\"section\"", "seen");
        let mut value = host.call("config.get", json!({})).expect("settings")["config"][section].clone();
        edit(&mut value);
        person.sent("/settings", &[("section", section), ("seen", &seen), ("text", &value.to_string())])
    };
    let in_force = |section: &str| host.call("config.get", json!({})).expect("settings")["config"][section].clone();
    let file = || -> Value {
        serde_json::from_str(&fs::read_to_string(host.dir.state.config()).expect("there")).expect("JSON")
    };
    let (agents, before) = (in_force("agents"), file());
    let last = agents["list"].as_array().and_then(|list| list.last()).expect("an agent").clone();
    let done = saved("agents", &|agents| drop(agents["list"].as_array_mut().and_then(Vec::pop)));
    assert_eq!(done.as_deref(), Ok("/settings?section=agents"));
    let left = in_force("agents")["list"].clone();
    assert!(left.as_array().is_some_and(|list| !list.is_empty() && !list.contains(&last)), "{left}");
    let kept: Vec<Value> = file()["agents"]["list"].as_array().expect("a list").clone();
    let known = before["agents"]["list"].as_array().expect("a list");
    assert_eq!(kept[..], known[..kept.len()], "who stays is in the file as before");

    // An entry that is left out goes; a secret that nobody is shown stays.
    let done = saved("limits", &|limits| limits["bodyBytes"] = json!(2_000_000));
    assert!(done.is_ok() && in_force("limits")["bodyBytes"] == 2_000_000, "{done:?}");
    let done = saved("limits", &|limits| drop(limits.as_object_mut().and_then(|all| all.remove("bodyBytes"))));
    assert!(done.is_ok() && in_force("limits")["bodyBytes"] != 2_000_000, "{done:?}");
    let done = saved("gateway", &|gateway| gateway["auth"]["tokens"]["reader"]["scope"] = json!("operator.write"));
    assert!(done.is_ok(), "{done:?}");
    assert_eq!(file()["gateway"]["auth"]["tokens"]["reader"]["token"], "a-token-that-may-read");
    let moved = saved("gateway", &|gateway| {
        let tokens = gateway["auth"]["tokens"].as_object_mut().expect("tokens");
        let reader = tokens.remove("reader").expect("a token");
        tokens.insert("other".into(), reader);
    });
    assert!(moved.expect_err("refused").contains("a secret that is not shown"));
    let done = saved("gateway", &|gateway| gateway["auth"]["tokens"] = json!({}));
    assert!(done.is_ok() && file()["gateway"]["auth"]["tokens"].get("reader").is_none(), "{done:?}");
}
