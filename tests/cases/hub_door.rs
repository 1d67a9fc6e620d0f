//! The hub's door: signing in, what a browser keeps of it, from where it counts, and what people without a script get.

use chela::client::{Answer, Client};
use chela::edge::{Access, Route, routes};
use chela::port::Port;
use chela::scope::Scope;
use serde_json::json;
use support::{TestHost, WebSocket, eventually};

/// A request to the hub without a token.
pub(super) fn asked(host: &TestHost, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let client = Client::new(host.address(Port::Hub), None);
    let method = method.parse().expect("a method");
    host.block_on(client.send(method, path, headers, body.as_bytes().to_vec())).expect("an answer")
}

pub(super) fn header(answer: &Answer, name: &str) -> String {
    answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

pub(super) fn text(answer: &Answer) -> String {
    String::from_utf8(answer.body.to_vec()).expect("UTF-8")
}

/// The cookie of a browser that signed in with the owner's token.
pub(super) fn signed_in(host: &TestHost) -> String {
    let answer = asked(host, "POST", "/login", &[], &format!("token={}", host.token));
    assert_eq!(answer.status, 303, "{}", text(&answer));
    header(&answer, "set-cookie").split(';').next().expect("a pair").to_owned()
}

#[test]
fn a_browser_signs_in_by_token_and_stays_so_until_the_token_changes() {
    let host = TestHost::start();
    let stranger = asked(&host, "GET", "/tasks?q=a", &[], "");
    assert_eq!((stranger.status, header(&stranger, "location").as_str()), (303, "/login?next=%2Ftasks%3Fq%3Da"));
    let form = asked(&host, "GET", "/login?next=%2Ftasks%3Fq%3Da", &[("accept-language", "en")], "");
    assert!(form.status == 200 && text(&form).contains("name=\"token\""), "{}", text(&form));
    let policy = header(&form, "content-security-policy");
    assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let wrong = asked(&host, "POST", "/login", &[("accept-language", "en")], "token=a-wrong-token-of-somebody");
    assert!(wrong.status == 401 && text(&wrong).contains("Wrong token"), "{}", text(&wrong));
    assert!(!text(&wrong).contains("a-wrong-token"), "no token is repeated");

    let right = asked(&host, "POST", "/login", &[], &format!("token={}&next=%2Ftasks%3Fq%3Da", host.token));
    let cookie = header(&right, "set-cookie");
    assert_eq!((right.status, header(&right, "location").as_str()), (303, "/tasks?q=a"));
    let port = host.address(Port::Hub).port();
    assert!(cookie.starts_with(&format!("chela_hub_{port}=")) && !cookie.contains(&host.token), "{cookie}");
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let away = asked(&host, "POST", "/login", &[], &format!("token={}&next=%2F%2Fevil.example", host.token));
    assert_eq!(header(&away, "location"), "/");

    let pair = signed_in(&host);
    let page = asked(&host, "GET", "/", &[("cookie", &pair)], "");
    assert!(page.status == 200 && text(&page).contains("Ruda"), "{}", text(&page));
    let forged = pair.replace('.', ".1");
    assert_eq!(asked(&host, "GET", "/", &[("cookie", &forged)], "").status, 303);
    host.dir.edit_config(|config| config["gateway"]["auth"]["token"] = json!("another-token-of-the-owner"));
    host.eventually("another token is in force", || {
        (asked(&host, "GET", "/", &[("cookie", &pair)], "").status == 303).then_some(())
    });
}

#[test]
fn a_form_to_sign_in_is_read_so_far_and_no_further() {
    const BYTES_MAX: usize = 16 * 1024;
    let host = TestHost::start();
    let form = format!("token={}&more=", host.token);
    let sent = |length: usize| {
        let padding = "x".repeat(length - form.len());
        asked(&host, "POST", "/login", &[("accept-language", "en")], &format!("{form}{padding}"))
    };
    assert_eq!(sent(BYTES_MAX).status, 303);
    let refused = sent(BYTES_MAX + 1);
    assert!(refused.status == 401 && text(&refused).contains("Wrong token"), "{}", text(&refused));
    assert!(header(&refused, "set-cookie").is_empty(), "the right token in it counts for nothing");
}

#[test]
fn a_link_signs_in_once() {
    let host = TestHost::start();
    let link = host.app().hub_link().expect("the hub is on");
    let path = link.strip_prefix(&format!("http://{}", host.address(Port::Hub))).expect("a link to the hub").to_owned();
    let first = asked(&host, "GET", &path, &[], "");
    let cookie = header(&first, "set-cookie");
    assert_eq!((first.status, header(&first, "location").as_str()), (303, "/"));
    assert!(!path.contains(&host.token) && cookie.contains("HttpOnly"), "{path} {cookie}");
    let second = asked(&host, "GET", &path, &[], "");
    assert!(second.status == 401 && header(&second, "set-cookie").is_empty(), "{}", text(&second));
}

#[test]
fn the_cookie_counts_on_the_hub_alone_and_for_changes_only_from_its_own_page() {
    let host = TestHost::start();
    host.get("/api/stats");
    let cookie = signed_in(&host);
    let own = format!("http://{}", host.address(Port::Hub));
    for port in [Port::Gateway, Port::Monitor] {
        let client = Client::new(host.address(port), None);
        let answer = host.block_on(client.send(
            "GET".parse().expect("a method"),
            "/api/agents",
            &[("cookie", &cookie)],
            Vec::new(),
        ));
        assert_eq!(answer.expect("an answer").status, 401, "{port:?}");
    }
    let direct = asked(&host, "GET", "/api/agents", &[("cookie", &cookie)], "");
    let alias = asked(&host, "GET", "/api/proxy/agents", &[("cookie", &cookie)], "");
    assert_eq!((direct.status, alias.status), (200, 200));
    assert_eq!(direct.body, alias.body, "the way of the old hub leads to the same");

    let body = json!({ "taskId": "task_none", "agentId": "eden", "progress": "x" }).to_string();
    let update = |origin: Option<&str>| {
        let mut headers = vec![("cookie", cookie.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        asked(&host, "POST", "/api/tasks/update", &headers, &body).status
    };
    assert_eq!((update(None), update(Some("http://127.0.0.1:1")), update(Some(&own))), (403, 403, 400));
    let form = |origin: Option<&str>| {
        let mut headers = vec![("cookie", cookie.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        asked(&host, "POST", "/chat/send", &headers, "session=agent%3Aruda%3Amain&message=hi&key=k1").status
    };
    assert_eq!((form(None), form(Some(&own))), (403, 303));
    for path in ["/ws", "/live"] {
        let at = host.address(Port::Hub);
        let without = host.block_on(WebSocket::connect(at, path, &[("cookie", &cookie)]));
        assert_eq!(without.err().map(|refused| refused.status), Some(403), "{path}");
        let with = host.block_on(WebSocket::connect(at, path, &[("cookie", &cookie), ("origin", &own)]));
        assert!(with.is_ok(), "{path} from the hub's own page");
    }
}

#[test]
fn a_socket_ends_with_the_token_that_it_was_opened_by() {
    let host = TestHost::start();
    let (cookie, own) = (signed_in(&host), format!("http://{}", host.address(Port::Hub)));
    let bearer = format!("Bearer {}", host.token);
    let opened = |header| {
        let headers = [header, ("origin", own.as_str())];
        host.block_on(WebSocket::connect(host.address(Port::Hub), "/live", &headers)).expect("connected")
    };
    let mut sockets = [opened(("cookie", cookie.as_str())), opened(("authorization", bearer.as_str()))];
    host.dir.edit_config(|config| config["gateway"]["auth"]["token"] = json!("another-token-of-the-owner"));
    host.eventually("another token is in force", || {
        (asked(&host, "GET", "/", &[("cookie", &cookie)], "").status == 303).then_some(())
    });
    for socket in &mut sockets {
        eventually("it is closed", || host.block_on(socket.next()).is_none().then_some(()));
        assert_eq!(socket.closed().as_deref(), Some("signed out"));
    }
}

#[test]
fn a_socket_says_which_topics_have_news() {
    let host = TestHost::start();
    host.get("/api/stats");
    let (cookie, own) = (signed_in(&host), format!("http://{}", host.address(Port::Hub)));
    let headers = [("cookie", cookie.as_str()), ("origin", own.as_str())];
    let connected = WebSocket::connect(host.address(Port::Hub), "/live", &headers);
    let mut socket = host.block_on(connected).expect("connected");
    let task = host.begin("eden", &["one", "two"]);
    let mut topics: Vec<String> = Vec::new();
    eventually("the task is told of", || {
        let told = host.block_on(socket.next()).expect("a message");
        topics.extend(
            told["stale"].as_array().into_iter().flatten().filter_map(|topic| topic.as_str().map(str::to_owned)),
        );
        topics.contains(&format!("task:{task}")).then_some(())
    });
    assert!(
        topics.iter().any(|topic| topic == "tasks") && topics.iter().any(|topic| topic == "agent:eden"),
        "{topics:?}"
    );
    let fragments = |tag: &str| {
        let headers = [("cookie", cookie.as_str()), ("chela-fragments", "board"), ("if-none-match", tag)];
        asked(&host, "GET", "/tasks", &headers, "")
    };
    let first = fragments("");
    assert!(first.status == 200 && text(&first).starts_with("<section id=\"board\""), "{}", text(&first));
    let second = fragments(&header(&first, "etag"));
    assert!(second.status == 304 && second.body.is_empty());
}

#[test]
fn without_a_script_a_form_works_and_what_is_refused_keeps_what_was_typed() {
    let host = TestHost::start();
    host.get("/api/stats");
    let (cookie, own) = (signed_in(&host), format!("http://{}", host.address(Port::Hub)));
    let headers = [("cookie", cookie.as_str()), ("origin", own.as_str()), ("accept-language", "en")];
    let task = host.begin("eden", &["one"]);
    let post = |path: String, body: &str| asked(&host, "POST", &path, &headers, body);
    let added = post(format!("/tasks/{task}/steps"), &format!("do=add&content=two&back=%2Ftasks%2F{task}"));
    assert_eq!((added.status, header(&added, "location")), (303, format!("/tasks/{task}")));
    assert_eq!(host.task(&task)["steps"][1]["content"], "two");
    let stale = post(format!("/tasks/{task}/move"), "move=block&seen=pending&text=a+reason");
    assert!(stale.status == 409 && text(&stale).contains("has changed since you looked"), "{}", text(&stale));
    let refused = post("/questions/none/answer".into(), "answer=%3Cscript%3Ealert%281%29%3C%2Fscript%3E");
    let page = text(&refused);
    assert!(refused.status == 404 && page.contains("&lt;script>alert(1)"), "{page}");
    assert!(!page.contains("<script>alert"), "{page}");
    let guarded = post(format!("/tasks/{task}/move"), "move=complete&seen=in_progress&text=done");
    assert_eq!((guarded.status, host.task(&task)["status"].as_str()), (409, Some("in_progress")), "steps are open");
    let forced = post(format!("/tasks/{task}/move"), "move=complete&seen=in_progress&text=done&force=true");
    assert_eq!((forced.status, host.task(&task)["status"].as_str()), (303, Some("completed")));
    let unknown = asked(&host, "GET", "/tasks/..%2F..%2Fetc", &headers, "");
    assert_eq!(unknown.status, 404);
}

#[test]
fn a_reader_sees_everything_and_changes_nothing() {
    const READ: &str = "a-token-that-may-read";
    let host = TestHost::start_with(|config| {
        config["gateway"]["auth"]["tokens"] = json!({ "reader": { "token": READ, "scope": "operator.read" } });
    });
    host.get("/api/stats");
    let answer = asked(&host, "POST", "/login", &[], &format!("token={READ}"));
    let cookie = header(&answer, "set-cookie").split(';').next().expect("a pair").to_owned();
    let own = format!("http://{}", host.address(Port::Hub));
    let page = asked(&host, "GET", "/chat", &[("cookie", &cookie)], "");
    assert!(page.status == 200 && !text(&page).contains("<textarea"), "{}", text(&page));
    let sent = asked(&host, "POST", "/chat/send", &[("cookie", &cookie), ("origin", &own)], "message=hi");
    assert_eq!(sent.status, 403);
}

#[test]
fn a_board_of_many_tasks_is_a_small_page_and_every_task_is_reached() {
    let host = TestHost::start();
    host.get("/api/stats");
    for nth in 0..90 {
        host.done("eden", "task_backlog_add", json!({ "description": format!("task number {nth}") }));
    }
    let cookie = signed_in(&host);
    let page = text(&asked(&host, "GET", "/tasks", &[("cookie", &cookie)], ""));
    assert!(page.len() < 150_000, "{} bytes", page.len());
    assert!(
        page.contains(">90<") && page.matches("task number").count() < 40,
        "{}",
        page.matches("task number").count()
    );
    let mut seen = std::collections::BTreeSet::new();
    for from in ["0", "50"] {
        let column =
            text(&asked(&host, "GET", &format!("/tasks?column=backlog&from={from}"), &[("cookie", &cookie)], ""));
        let titles = column
            .match_indices("task number ")
            .map(|(at, word)| column[at + word.len()..].chars().take_while(char::is_ascii_digit).collect::<String>());
        seen.extend(titles);
    }
    assert_eq!(seen.len(), 90);
}

fn only_of_the_hub() -> Vec<Route> {
    routes().list().iter().filter(|route| route.ports == [Port::Hub]).cloned().collect()
}

#[test]
fn the_table_of_pages_and_forms_is_as_it_was_agreed() {
    let row = |route: &Route| {
        let access = match route.access {
            Access::Page(Scope::Read) => "page",
            Access::Page(Scope::Write) => "form",
            Access::Page(Scope::Admin) => "admin",
            Access::Open => "open",
            _ => "token",
        };
        format!("{} {} {access}", route.method, route.path)
    };
    assert_eq!(
        only_of_the_hub().iter().map(row).collect::<Vec<_>>(),
        [
            "GET / page",
            "GET /conversations page",
            "GET /conversations/{id} page",
            "GET /tasks page",
            "GET /tasks/{id} page",
            "GET /questions page",
            "GET /chat page",
            "GET /agents/{id} page",
            "GET /events page",
            "GET /jobs page",
            "GET /jobs/{id} page",
            "GET /plugins page",
            "GET /plugins/{slot} page",
            "GET /milestones page",
            "GET /todos page",
            "GET /workspace page",
            "GET /workspace/{agent} page",
            "GET /channels page",
            "GET /settings page",
            "GET /live token",
            "GET /login open",
            "POST /login open",
            "POST /logout open",
            "GET /look open",
            "GET /assets/{name} open",
            "POST /questions/{id}/answer form",
            "POST /tasks/{id}/move form",
            "POST /tasks/{id}/steps form",
            "POST /tasks/{id}/note form",
            "POST /conversations/{id}/category form",
            "POST /chat/send form",
            "POST /chat/abort form",
            "POST /jobs/{id} form",
            "POST /milestones form",
            "POST /milestones/{id} form",
            "POST /todos form",
            "POST /plugins/{slot} admin",
            "POST /plugins/{slot}/upload admin",
            "POST /plugins/{slot}/rules admin",
            "POST /plugins/{slot}/try admin",
            "POST /plugins/{slot}/try/upload admin",
            "POST /channels/{channel} admin",
            "POST /settings admin",
        ]
    );
}

#[test]
fn every_page_and_form_asks_who_is_there_and_whether_they_may() {
    const READ: &str = "a-token-that-may-read";
    const WRITE: &str = "a-token-that-may-write";
    let host = TestHost::start_with(|config| {
        config["gateway"]["auth"]["tokens"] = json!({
            "reader": { "token": READ, "scope": "operator.read" },
            "writer": { "token": WRITE, "scope": "operator.write" },
        });
    });
    host.get("/api/stats");
    let tokens = [None, Some("a-token-of-somebody-else"), Some(READ), Some(WRITE), Some(host.token.as_str())];
    let knocks = tokens.map(|token| token.map(str::to_owned));
    for route in only_of_the_hub() {
        let statuses = knocks.clone().map(|token| {
            let client = Client::new(host.address(Port::Hub), token);
            host.block_on(client.send(route.method.clone(), route.path, &[], Vec::new())).expect("an answer").status
        });
        // There is nothing of these names, nothing is said in an empty form, and no socket is asked for.
        let allowed = |status: u16| [200, 303, 400, 404, 409].contains(&status);
        let good = match route.access {
            Access::Page(Scope::Read) => statuses[..2] == [303, 401] && statuses[2..].iter().all(|one| allowed(*one)),
            Access::Page(Scope::Write) => {
                statuses[..3] == [303, 401, 403] && statuses[3..].iter().all(|one| allowed(*one))
            }
            Access::Page(Scope::Admin) => statuses[..4] == [303, 401, 403, 403] && allowed(statuses[4]),
            Access::Open => statuses.iter().all(|one| *one == 401 || allowed(*one)),
            _ => statuses == [401, 401, 400, 400, 400],
        };
        assert!(good, "{} {}: {statuses:?}", route.method, route.path);
        for port in [Port::Gateway, Port::Monitor] {
            let client = Client::new(host.address(port), Some(host.token.clone()));
            let status = host
                .block_on(client.send(route.method.clone(), route.path, &[], Vec::new()))
                .expect("an answer")
                .status;
            let socket = port == Port::Gateway && route.path == "/" && route.method == "GET";
            assert_eq!(status, if socket { 400 } else { 404 }, "{} {} on {port:?}", route.method, route.path);
        }
    }
}
