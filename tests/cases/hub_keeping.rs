//! What people keep by hand and change on the hub's pages, asked for as a browser without a script does: nothing is lost that a page did not
//! show, and what was saved is what is in force.

use std::fs;

use chela::client::{Answer, Client};
use chela::port::Port;
use serde_json::{Value, json};
use support::{TestHost, WebSocket, eventually};

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
        _ => {
            let said = told["error"]["message"].as_str().unwrap_or_else(|| panic!("{told}"));
            Err(format!("{said} {}", told["error"]["detail"].as_str().unwrap_or_default()))
        }
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

#[test]
fn milestones_and_todos_are_changed_and_deleted_as_they_were_seen() {
    let host = TestHost::start();
    let person = Person::new(&host);
    // As another system wrote them: with ids of its own, the same for a milestone and an item.
    let old = json!({ "milestones": [
        { "id": "1", "title": "First", "description": "in words", "dueDate": "2026-12-01T09:00:00Z", "items": [{ "id": "1", "title": "one" }, { "id": "2", "title": "two" }] },
        { "id": "2", "title": "Second", "items": [] },
    ] });
    fs::write(host.dir.state.milestones(), old.to_string()).expect("written");
    let all = || host.get("/api/milestones").1["milestones"].clone();
    assert!(person.page("/milestones").contains("formaction=\"/milestones/1\""));
    let back = ("back", "/milestones");
    assert_eq!(person.sent("/milestones/1", &[("do", "done:1"), back]), Ok("/milestones".into()));
    assert_eq!((&all()[0]["status"], &all()[0]["items"][0]["status"]), (&json!("done"), &json!("todo")));
    person.sent("/milestones/1", &[("do", "down:1"), back]).expect("moved");
    assert_eq!(all()[1]["title"], "First");

    let change = |title: &str, due: &str, description: &str| {
        let seen = field(&person.page("/milestones?edit=1"), "id=\"edit\"", "seen");
        let fields =
            [("title", title), ("due", due), ("description", description), ("seen", seen.as_str()), ("do", "change:1")];
        person.sent("/milestones/1", &fields).expect("changed");
        all()[1].clone()
    };
    let first = change("First of all", "2026-12-01", "in words");
    assert_eq!((&first["title"], &first["dueDate"]), (&json!("First of all"), &json!("2026-12-01T09:00:00Z")));
    let first = change("First of all", "2026-12-24", "in other words");
    assert_eq!((&first["description"], &first["dueDate"]), (&json!("in other words"), &json!("2026-12-24")));
    let first = change("First of all", "", "");
    assert!(first.get("dueDate").is_none() && first.get("description").is_none(), "{first}");

    // An item is found by its own id, and by what it was when somebody looked.
    let seen = field(&person.page("/milestones?edit=2"), "id=\"edit\"", "seen");
    host.done("eden", "milestone_update", json!({ "milestone_id": "2", "title": "Another" }));
    let late = [("title", "Mine"), ("seen", seen.as_str()), ("do", "change:2")];
    let said = person.sent("/milestones/2", &late).expect_err("refused");
    assert!(said.contains("This has changed since you looked"), "{said}");
    let item =
        host.done("eden", "milestone_item_add", json!({ "milestone_id": "2", "title": "deploy" }))["item"].clone();
    let id = item["id"].as_str().expect("an id");
    let seen = field(&person.page(&format!("/milestones?edit={id}")), "id=\"edit\"", "seen");
    let word = format!("change:{id}");
    let fields = [("title", "deploy it"), ("task", "task_9"), ("seen", seen.as_str()), ("do", word.as_str())];
    person.sent("/milestones", &fields).expect("changed");
    assert_eq!(
        (&all()[0]["items"][0]["title"], &all()[0]["items"][0]["taskId"]),
        (&json!("deploy it"), &json!("task_9"))
    );
    assert!(person.sent("/milestones", &fields).expect_err("refused").contains("changed since you looked"));

    // Deleted after a second question, and only what the question was about.
    let asked = |path: &str| field(&person.page(path), "<dialog", "seen");
    let seen = asked("/milestones?delete=2");
    host.done("eden", "milestone_item_set", json!({ "item_id": id, "status": "done" }));
    let delete =
        |path: &str, id: &str, seen: &str| person.sent(path, &[("do", &format!("delete:{id}")), ("seen", seen)]);
    assert!(delete("/milestones/2", "2", &seen).expect_err("refused").contains("changed since you looked"));
    delete("/milestones", id, &asked(&format!("/milestones?delete={id}"))).expect("deleted");
    assert_eq!(all()[0]["items"], json!([]));
    delete("/milestones/2", "2", &asked("/milestones?delete=2")).expect("deleted");
    assert_eq!(all().as_array().map(Vec::len), Some(1));
    assert!(delete("/milestones/2", "2", "x").expect_err("refused").contains("gone"));

    let todo = host.done("eden", "todo_add", json!({ "title": "cal them" }))["todo"]["id"].clone();
    let todo = todo.as_str().expect("an id");
    let seen = field(&person.page(&format!("/todos?edit={todo}")), "id=\"edit\"", "seen");
    let word = format!("change:{todo}");
    let fields = [("title", "call them"), ("seen", seen.as_str()), ("do", word.as_str())];
    person.sent("/todos", &fields).expect("changed");
    assert_eq!(host.get("/api/todos").1["todos"][0]["title"], "call them");
    delete("/todos", todo, &asked(&format!("/todos?delete={todo}"))).expect("deleted");
    assert_eq!(host.get("/api/todos").1["todos"], json!([]));
}

/// As many rows as the files take, with titles as long as they may be.
#[test]
fn lists_and_editors_stay_light_however_much_there_is_and_all_of_it_is_reached() {
    let host = TestHost::start();
    let person = Person::new(&host);
    let title = "가&\"".repeat(166);
    let row = |id: String, status: &str| json!({ "id": id, "title": title, "status": status });
    let milestones: Vec<Value> = (0..25)
        .map(|n| {
            let mut one = row(format!("ms_{n:04}"), "todo");
            one["description"] = json!("나".repeat(20_000));
            one["items"] = (0..190)
                .map(|item| row(format!("mi_{n:04}_{item:04}"), if item < 70 { "done" } else { "todo" }))
                .collect();
            one
        })
        .collect();
    fs::write(host.dir.state.milestones(), json!({ "milestones": milestones }).to_string()).expect("written");
    let todos: Vec<Value> = (0..5_000).map(|n| row(format!("todo_{n:04}"), "todo")).collect();
    fs::write(host.dir.state.todos(), json!({ "todos": todos }).to_string()).expect("written");
    let light = |path: &str| {
        let page = person.page(path);
        assert!(page.len() < 150_000, "{path} has {} bytes", page.len());
        page
    };
    let first = light("/milestones");
    assert!(first.contains("value=\"70\"") && first.contains("70/190"), "the bar counts all");
    assert!(first.contains("mi_0000_0000") && !first.contains("mi_0000_0189"));
    assert!(light("/milestones?from=20").contains("ms_0024"));
    assert!(light("/milestones?open=ms_0003&item=180").contains("mi_0003_0189"));
    light("/milestones?edit=ms_0001");
    light("/milestones?full=about-ms_0001");
    light("/milestones?delete=mi_0001_0003");
    assert!(light("/todos?from=4990").contains("todo_4999"));
    light("/todos");
    fs::create_dir_all(host.dir.state.plugins()).expect("made");
    fs::write(host.dir.state.rules(), format!("{{ rules: [] }} // {}", "\"가".repeat(24_900))).expect("written");
    assert!(!light("/plugins/classifier").contains("id=\"rules-text\""), "there is no room for it here");
    assert!(light("/plugins/classifier?edit=rules").contains("id=\"rules-text\""));
}

#[test]
fn a_task_whose_milestone_item_was_deleted_is_completed_and_not_tried_again() {
    let host = TestHost::start();
    let milestone = host.done("eden", "milestone_create", json!({ "title": "1차" }))["milestone"]["id"].clone();
    let added = host.done("eden", "milestone_item_add", json!({ "milestone_id": milestone, "title": "로그인" }));
    let item = added["item"]["id"].clone();
    host.done("eden", "task_start", json!({ "description": "로그인", "milestone_item_id": item }));
    host.done("eden", "milestone_item_delete", json!({ "item_id": item }));
    host.done("eden", "task_complete", json!({}));
    assert_eq!(host.told("milestone.sync_failed").len(), 1);
    let dir = host.stop();
    let files = fs::read_dir(dir.state.path().join("journal")).expect("a journal");
    let journal: String =
        files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("readable")).collect();
    let told = journal.lines().filter(|line| line.contains("milestone-sync")).count();
    assert_eq!(told, 2, "that it is to be marked, and that it is not any more");
}

#[test]
fn rules_configurations_and_files_are_tried_before_they_serve() {
    let host = TestHost::start();
    host.get("/api/stats");
    let person = Person::new(&host);
    let serving = || {
        let slots = host.call("plugin.slots", json!({})).expect("slots")["slots"].clone();
        let found = slots.as_array().and_then(|all| all.iter().find(|one| one["slot"] == "classifier"));
        found.map(|one| one["plugin"].clone()).filter(|plugin| plugin.is_object())
    };
    let before = host.eventually("the classifier serves", serving);
    let rules = r#"{ rules: [{ category: "infra_ops", weight: 10, keywords: ["submarine"] }] } // not saved"#;
    let text = "we need a submarine";
    let tried = |what: &str, typed: (&str, &str), more: &[(&str, &str)]| {
        let fields = [&[("try", what), typed, ("text", text)][..], more].concat();
        person.sent("/plugins/classifier/try", &fields)
    };
    let next = tried("rules:text", ("rules", rules), &[]).expect("tried");
    let page = person.page(&next);
    assert!(page.contains("id=\"tried\"") && page.contains("Infrastructure and operations"), "{page}");
    assert!(page.contains("// not saved") && page.contains(text), "what was typed stands there again");
    assert!(!host.dir.state.rules().exists(), "and is not saved");
    let next = tried("rules:sessions", ("rules", rules), &[]).expect("tried");
    assert!(person.page(&next).contains("id=\"tried\""));

    // What is wrong is said where it was typed, with its line.
    let said = tried("rules:text", ("rules", "{\n  rules: [\n"), &[]).expect_err("refused");
    assert!(said.contains("line"), "{said}");
    let bad = "{\n  rules: [\n    { category: \"no_such\", keywords: [\"x\"], weight: \"heavy\" },\n  ],\n}";
    let said = tried("rules:text", ("rules", bad), &[]).expect_err("refused");
    assert!(said.contains("line 3"), "{said}");
    let source = [("source", "builtin:rules")];
    let next = tried("config:text", ("config", rules), &source).expect("tried");
    assert!(person.page(&next).contains("Infrastructure and operations"));
    assert!(tried("config:text", ("config", "[]"), &source).expect_err("refused").contains("object"));

    // A file that was sent; and a trial that is forgotten leaves the page as it is.
    let upload = |bytes: &[u8]| {
        let path = "/plugins/classifier/try/upload?name=mine.wasm";
        told(&person.asked("POST", path, &[("chela-script", "1")], bytes))
    };
    let next = upload(&support::guest_bytes("steady")).expect("tried");
    assert!(person.page(&next).contains("id=\"tried\"") && !host.dir.state.plugins().join("mine.wasm").exists());
    assert!(!upload(b"\0asm nothing").expect_err("refused").is_empty());
    assert!(!person.page("/plugins/classifier?tried=none").contains("id=\"tried\""));
    let said = person.sent("/plugins/continuation/try", &[("try", "config:text"), ("config", "{}"), ("text", "x")]);
    assert!(said.expect_err("refused").contains("only a classifier"));
    assert_eq!(serving(), Some(before), "what served serves");
}

#[test]
fn counters_are_told_to_be_stale_while_somebody_looks() {
    let host = TestHost::start();
    let person = Person::new(&host);
    let headers = [("cookie", person.cookie.as_str()), ("origin", person.origin.as_str())];
    let connected = WebSocket::connect(host.address(Port::Hub), "/live", &headers);
    let mut socket = host.block_on(connected).expect("connected");
    for path in ["/plugins", "/plugins/classifier", "/channels"] {
        assert!(person.page(path).contains(" counters\""), "{path}");
    }
    eventually("counters are stale", || {
        let told = host.block_on(socket.next()).expect("a message");
        told["stale"].as_array()?.contains(&json!("counters")).then_some(())
    });
}
