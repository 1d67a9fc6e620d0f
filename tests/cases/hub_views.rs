//! What the hub's views tell, as pages without a browser: refusals in the reader's language, who approved, the newest turns, whole texts,
//! threads of foreign logs, what has no category and who says which, what keeps an agent from going on, and several questions at once.

use std::time::Duration;

use chela::port::Port;
use serde_json::{Value, json};
use support::events::{event, with_log};
use support::{TestHost, WebSocket, eventually};

use super::hub_door::{asked, header, signed_in, text};

/// A person at a browser that is signed in.
struct Person<'a> {
    host: &'a TestHost,
    cookie: String,
    own: String,
    lang: &'static str,
}

impl<'a> Person<'a> {
    fn of(host: &'a TestHost, lang: &'static str) -> Self {
        host.get("/api/stats");
        Self { host, cookie: signed_in(host), own: format!("http://{}", host.address(Port::Hub)), lang }
    }

    fn sees(&self, path: &str) -> String {
        let headers = [("cookie", self.cookie.as_str()), ("accept-language", self.lang)];
        let answer = asked(self.host, "GET", path, &headers, "");
        assert_eq!(answer.status, 200, "{path}: {}", text(&answer));
        text(&answer)
    }

    /// What the page's script is answered.
    fn sends(&self, path: &str, form: &str) -> (u16, Value) {
        let headers = [
            ("cookie", self.cookie.as_str()),
            ("origin", &self.own),
            ("accept-language", self.lang),
            ("chela-script", "1"),
        ];
        let answer = asked(self.host, "POST", path, &headers, form);
        (answer.status, serde_json::from_slice(&answer.body).expect("JSON"))
    }
}

#[test]
fn what_is_refused_is_said_in_the_readers_language() {
    const READ: &str = "a-token-that-may-read";
    let host = TestHost::start_with(|config| {
        config["gateway"]["auth"]["tokens"] = json!({ "reader": { "token": READ, "scope": "operator.read" } });
    });
    let person = Person::of(&host, "ko");
    let task = host.begin("eden", &["one"]);
    let check = |(status, told): (u16, Value), expected: u16, begin: &str, end: &str| {
        let text = |name: &str| told["error"][name].as_str().unwrap_or_default().to_owned();
        let (said, detail) = (text("message"), text("detail"));
        assert!(status == expected && said.starts_with(begin) && detail.contains(end), "{status} {told}");
        assert!(!said.chars().any(|c| c.is_ascii_alphabetic()), "in Korean alone: {said}");
    };
    let path = format!("/tasks/{task}/move");
    check(person.sends(&path, "move=block&seen=pending&text=a"), 409, "그사이", "");
    check(person.sends(&path, "move=fly"), 400, "입력을", "there is no such move");
    check(person.sends("/tasks/task_none/note", "text=a"), 409, "끝난 작업", "");
    check(person.sends(&path, "move=complete&seen=in_progress&text=a"), 409, "규칙이 막았습니다", "");
    check(person.sends("/questions/none/answer", "answer=a"), 404, "찾을 수", "none");
    let signed = asked(&host, "POST", "/login", &[], &format!("token={READ}"));
    let cookie = header(&signed, "set-cookie").split(';').next().expect("a pair").to_owned();
    let reader = Person { cookie, own: person.own.clone(), ..person };
    check(reader.sends(&path, "move=block"), 403, "이 토큰으로는", "operator.write");
    let unknown = asked(&host, "GET", "/tasks/task_none", &[("cookie", &reader.cookie), ("accept-language", "ko")], "");
    assert!(unknown.status == 404 && text(&unknown).contains("작업: task_none"), "{}", text(&unknown));
}

#[test]
fn what_was_done_is_said_also_to_those_without_a_script() {
    let host = TestHost::start();
    let person = Person::of(&host, "en");
    let task = host.begin("eden", &["one"]);
    let headers = [("cookie", person.cookie.as_str()), ("origin", &person.own)];
    let form = format!("text=a+note&back=%2Ftasks%2F{task}");
    let done = asked(&host, "POST", &format!("/tasks/{task}/note"), &headers, &form);
    let told = header(&done, "set-cookie");
    assert!(done.status == 303 && told.contains("Max-Age=5"), "{told}");
    let cookies = format!("{}; {}", person.cookie, told.split(';').next().expect("a pair"));
    let page =
        text(&asked(&host, "GET", &header(&done, "location"), &[("cookie", &cookies), ("accept-language", "en")], ""));
    assert!(page.contains("data-kind=\"good\" role=\"status\">Done<"), "{page}");
    assert!(!person.sees(&format!("/tasks/{task}")).contains("role=\"status\">Done<"));
}

#[test]
fn an_approval_names_the_person() {
    let host = TestHost::start();
    let person = Person::of(&host, "en");
    let started = host.done("eden", "task_start", json!({ "description": "Ship it", "requires_approval": true }));
    let task = started["taskId"].as_str().expect("an id").to_owned();
    let (status, told) = person.sends(&format!("/tasks/{task}/move"), "move=approve&seen=pending_approval");
    assert_eq!(status, 200, "{told}");
    let lines = host.dir.task_text("eden", &task);
    assert!(
        lines.contains("Approved by ") && lines.contains(" (a person)") && !lines.contains("Approved by eden"),
        "{lines}"
    );
}

#[test]
fn a_blocked_agent_is_shown_with_what_stands_in_its_way() {
    let host = TestHost::start();
    let person = Person::of(&host, "en");
    let task = host.begin("eden", &["one"]);
    host.done("eden", "task_block", json!({ "task_id": task, "reason": "the disk is full", "kind": "external" }));
    let page = person.sees("/");
    let card = page.split("data-key=\"eden\"").nth(1).and_then(|rest| rest.split("</li>").next()).expect("a card");
    assert!(card.contains("the disk is full") && card.contains(&format!("/tasks/{task}")), "{card}");
    assert!(!card.contains("No task"), "{card}");
}

#[test]
fn a_long_dialogue_opens_at_its_end_and_is_live() {
    let script = r#"{ rules: [{ when: "begin", steps: [{ call: { tool: "task_start", args: { description: "Talk" } } }, { say: "begun" }] }], otherwise: "You said: {{input}}" }"#;
    let host = TestHost::scripted_with(script, |config| config["continuation"]["enabled"] = json!(false));
    let person = Person::of(&host, "en");
    host.ask("seum", "begin");
    let tasks = host.get("/api/tasks").1;
    let task = tasks["tasks"][0]["id"].as_str().expect("a task").to_owned();
    for nth in 0..24 {
        host.ask("seum", &format!("message number {nth} of many"));
    }
    let path = format!("/tasks/{task}?tab=conversation");
    let newest = person.sees(&path);
    assert!(newest.contains("message number 23 of many") && !newest.contains("message number 0 of many"), "{newest}");
    let older = newest.split("cursor=").nth(1).and_then(|rest| rest.split('"').next()).expect("a way to older ones");
    let before = person.sees(&format!("{path}&cursor={older}"));
    assert!(before.contains("message number 0 of many") && !before.contains("message number 23 of many"), "{before}");

    let headers = [("cookie", person.cookie.as_str()), ("origin", person.own.as_str())];
    let mut socket = host.block_on(WebSocket::connect(host.address(Port::Hub), "/live", &headers)).expect("connected");
    host.ask("seum", "one more");
    eventually("the dialogue is told of", || {
        let told = host.block_on(socket.next()).expect("a message");
        let topics = told["stale"].as_array().cloned().unwrap_or_default();
        (topics.contains(&json!(format!("task:{task}"))) && person.sees(&path).contains("one more")).then_some(())
    });
}

#[test]
fn a_long_message_says_that_it_is_cut_and_is_shown_whole() {
    let script = r#"{ rules: [{ when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] }], otherwise: "taken" }"#;
    let host = TestHost::scripted(script);
    let person = Person::of(&host, "en");
    let message = format!("Build this: {} and this is the end", "word ".repeat(1_200));
    host.done("ruda", "sessions_send", json!({ "agentId": "eden", "message": message, "timeoutSeconds": 0 }));
    let sent = host.eventually("it is sent and taken", || {
        let events = host.get("/api/events?type=a2a.send").1;
        let taken = host.said("agent:eden:main").iter().any(|line| line.contains("taken"));
        events["events"].as_array().and_then(|events| events.first().cloned()).filter(|_| taken)
    });
    assert!(sent["data"]["messageRef"].is_object(), "{sent}");
    let session = sent["data"]["workSessionId"].as_str().expect("a work session");
    let page = person.sees(&format!("/conversations/{session}"));
    assert!(page.contains("Show all of it") && !page.contains("this is the end"), "{page}");
    let full = page.split("?full=").nth(1).and_then(|rest| rest.split(['"', '#']).next()).expect("a link");
    let whole = person.sees(&format!("/conversations/{session}?full={full}"));
    assert!(whole.contains("and this is the end"), "{whole}");
}

#[test]
fn threads_of_foreign_logs_are_told_apart_and_what_has_no_category_is_shown() {
    let now = 1_700_000_000_000;
    let sent = |nth: u64, to: &str, text: &str| {
        event(
            "a2a.send",
            now - 60_000 + nth,
            json!({ "workSessionId": "ws_1", "fromAgent": "ruda", "toAgent": to, "message": text, "eventRole": "conversation.main" }),
        )
    };
    let lines = [
        sent(0, "eden", "qqq zzz of the one <@123>"),
        sent(1, "seum", "qqq zzz of the other"),
        sent(2, "eden", "[outcome] blocked: xyzzy came to nothing"),
    ];
    let host = TestHost::start_in(with_log(&lines)).unwrap_or_else(|(error, _)| panic!("{error}"));
    let person = Person::of(&host, "ko");
    host.eventually("the log is read", || (host.get("/api/work-sessions/ws_1").0 == 200).then_some(()));
    let talk = |thread: &str| {
        let page = person.sees(&format!("/conversations/ws_1?thread={thread}"));
        page.split("<section id=\"talk\"").nth(1).expect("what was said").to_owned()
    };
    let one = talk("pair%3Aeden_ruda");
    assert!(one.contains("of the one") && !one.contains("of the other"), "{one}");
    assert!(talk("pair%3Aruda_seum").contains("of the other"));
    let found = person.sees("/conversations?category=all&q=xyzzy");
    let passage =
        found.split("<blockquote").nth(1).and_then(|rest| rest.split("</blockquote>").next()).expect("a passage");
    assert!(passage.contains("xyzzy came to nothing") && !passage.contains("[outcome]"), "{passage}");
    let lines = person.sees("/events");
    assert!(lines.contains("@구성원") && !lines.contains("&lt;@123&gt;"), "{lines}");
    let session = || host.get("/api/work-sessions/ws_1").1;
    host.eventually("the classifier has spoken", || session()["classification"].is_object().then_some(()));
    if session()["collabCategory"].is_null() {
        let groups = person.sees("/conversations?category=all&group=category");
        assert!(groups.contains("data-key=\"unknown\"><h2>미분류</h2>"), "{groups}");
        assert!(person.sees("/conversations?category=unknown").contains("/conversations/ws_1"));
    }
}

#[test]
fn a_message_while_several_questions_are_open_is_answered_with_their_list() {
    let script = r#"{ rules: [
        { when: "agent-to-agent turn", steps: [{ say: "REPLY_SKIP" }] },
        { agent: "ruda", when: "stuck on the port", steps: [{ say: "[NEED_HUMAN: Which port?]" }] },
        { agent: "ruda", when: "stuck on the name", steps: [{ say: "[NEED_HUMAN: Which name?]" }] },
        { when: "work on the port", steps: [
            { call: { tool: "task_start", args: { description: "port" } } },
            { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the port", timeoutSeconds: 0 } } }, { say: "I wait." } ] },
        { when: "work on the name", steps: [
            { call: { tool: "task_start", args: { description: "name" } } },
            { call: { tool: "sessions_send", args: { agentId: "ruda", message: "I am stuck on the name", timeoutSeconds: 0 } } }, { say: "I wait." } ] },
      ], otherwise: "You said: {{input}}" }"#;
    let host = TestHost::scripted_with(script, |config| config["continuation"]["enabled"] = json!(false));
    let person = Person::of(&host, "ko");
    host.ask("eden", "work on the port");
    host.ask("seum", "work on the name");
    host.asked(2);
    let (status, told) = person.sends("/chat/send", "session=agent%3Aruda%3Amain&message=blue&key=one");
    let note = told["note"].as_str().unwrap_or_default();
    assert!(status == 200 && told["said"] == "보냈습니다", "{told}");
    assert!(
        note.contains("열린 질문이 여럿") && note.contains("Which port?") && note.contains("Which name?"),
        "{told}"
    );
    let page = person.sees("/chat?agent=ruda");
    assert!(page.contains("열린 질문이 여럿") && page.contains("/questions?first=") && page.contains("#q-"), "{page}");
}

#[test]
fn a_category_is_changed_as_it_was_seen_and_everybody_hears_of_it() {
    let now = 1_700_000_000_000;
    let said = json!({ "workSessionId": "ws_1", "fromAgent": "ruda", "toAgent": "eden", "message": "qqq zzz", "eventRole": "conversation.main" });
    let dir = with_log(&[event("a2a.send", now - 60_000, said)]);
    let host = TestHost::start_in(dir).unwrap_or_else(|(error, _)| panic!("{error}"));
    let person = Person::of(&host, "en");
    host.eventually("the log is read", || (host.get("/api/work-sessions/ws_1").0 == 200).then_some(()));
    let seen = || {
        let page = person.sees("/conversations/ws_1");
        let field = page.split("name=\"seen\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        field.expect("how it stands").to_owned()
    };
    let change = |category: &str, seen: &str| {
        person.sends("/conversations/ws_1/category", &format!("category={category}&seen={seen}"))
    };
    let headers = [("cookie", person.cookie.as_str()), ("origin", person.own.as_str())];
    let mut socket = host.block_on(WebSocket::connect(host.address(Port::Hub), "/live", &headers)).expect("connected");
    let mut heard = || {
        eventually("it is told of", || {
            let next = async { tokio::time::timeout(Duration::from_secs(20), socket.next()).await };
            let told = host.block_on(next).expect("there is news").expect("a message");
            let topics = told["stale"].as_array().cloned().unwrap_or_default();
            ["sessions", "session:ws_1"].iter().all(|topic| topics.contains(&json!(topic))).then_some(())
        });
    };

    // A classifier may tell once of what it found; people are heard each time.
    let before = seen();
    for category in ["legal_compliance", "infra_ops", "qa_validation"] {
        let (status, told) = change(category, &seen());
        assert_eq!(status, 200, "{told}");
        heard();
    }
    let shown = || host.get("/api/work-sessions/ws_1").1["collabCategory"].clone();
    let (status, told) = change("biz_strategy", &before);
    assert!(status == 409 && told["error"]["message"].to_string().contains("changed since you looked"), "{told}");
    assert_eq!(shown(), "qa_validation", "nothing is overwritten");
    let (status, told) = change("", "qa_validation");
    assert!(status == 200 && seen() == before, "taken back: {told}");
}

#[test]
fn what_the_door_refuses_is_said_on_a_page_to_those_who_read_pages() {
    let host = TestHost::start_with(|config| {
        config["deployment"]["name"] = json!("The Harbour");
        config["limits"]["requestsPerSecond"] = json!(1);
        config["limits"]["requestsBurst"] = json!(5);
    });
    let korean = [("accept", "text/html"), ("accept-language", "ko")];
    let check = |more: (&str, &str), status: u16, said: &str| {
        let answer = asked(&host, "GET", "/login", &[korean[0], korean[1], more], "");
        let page = text(&answer);
        assert!(answer.status == status && page.contains("<html lang=\"ko\"") && page.contains(said), "{page}");
        assert!(header(&answer, "content-security-policy").contains("default-src 'none'"), "{more:?}");
        page
    };
    let strange = check(("host", "evil.example"), 421, "이 이름으로는 열 수 없습니다");
    assert!(!strange.contains("The Harbour"), "a stranger's page learns nothing of the deployment: {strange}");
    check(("origin", "http://evil.example"), 403, "이 주소의 페이지에서는");
    // Programs read it as ever, the page's script in the reader's language.
    let program = asked(&host, "GET", "/login", &[("host", "evil.example")], "");
    assert_eq!(program.json()["error"]["code"], "host");
    let script = [("host", "evil.example"), ("chela-script", "1"), korean[1]];
    let script = asked(&host, "GET", "/login", &script, "");
    assert_eq!((script.status, &script.json()["error"]["message"]), (421, &json!("이 이름으로는 열 수 없습니다.")));

    let until_refused = || (0..10).map(|_| asked(&host, "GET", "/login", &korean, "")).find(|one| one.status != 200);
    let late = until_refused().expect("there is a rate");
    assert_eq!((late.status, header(&late, "retry-after").as_str()), (429, "1"));
    assert!(text(&late).contains("요청이 너무 많습니다"), "{}", text(&late));
}
