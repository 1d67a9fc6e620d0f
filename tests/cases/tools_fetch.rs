//! `http_fetch`: only where the list leads, whatever a name or a redirect says, and within its limits.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use chela::port::Port;
use serde_json::{Value, json};
use support::{TestHost, eventually};

/// A server that answers by path and remembers what it was asked.
struct Web {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

type Pages = Arc<dyn Fn(&str) -> String + Send + Sync>;

impl Web {
    /// `page` gives a whole answer; an empty one keeps the client waiting.
    fn start(page: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, heard) = (listener.local_addr().expect("bound"), Arc::<Mutex<Vec<String>>>::default());
        let (theirs, page): (_, Pages) = (heard.clone(), Arc::new(page));
        // It ends with the process: a test has a few of them.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heard, page) = (theirs.clone(), page.clone());
                std::thread::spawn(move || serve(stream, &heard, &page));
            }
        });
        Self { address, heard }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("nobody panicked").clone()
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

fn serve(stream: TcpStream, heard: &Mutex<Vec<String>>, page: &Pages) {
    let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        head.push_str(&std::mem::take(&mut line));
    }
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    let _ = std::io::Read::read_exact(&mut reader, &mut body);
    let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
    heard.lock().expect("nobody panicked").push(format!("{head}\n{}", String::from_utf8_lossy(&body)));
    let answer = page(&path);
    if answer.is_empty() {
        // Until the other side lets go.
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
        return;
    }
    // A client that has enough goes away in the midst.
    let _ = (&stream).write_all(answer.as_bytes());
}

fn page(kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn redirect(status: u16, to: &str) -> String {
    format!("HTTP/1.1 {status} Moved\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
}

/// A gateway whose agents may reach these.
fn host(hosts: &[String]) -> TestHost {
    TestHost::start_with(|config| config["tools"] = json!({ "httpFetch": { "hosts": hosts, "responseBytes": 1_000 } }))
}

fn fetch(host: &TestHost, url: &str) -> Value {
    host.tool("eden", "http_fetch", json!({ "url": url }))
}

#[test]
fn without_a_list_nothing_is_reached_and_the_refusal_says_what_to_add() {
    let host = TestHost::start();
    let said = host.refused("eden", "http_fetch", json!({ "url": "https://api.example.com/" }));
    assert!(said.contains("`tools.httpFetch.hosts` in chela.json") && said.contains("api.example.com"), "{said}");
    let (_, answer) = host.invoke(&json!({ "tool": "http_fetch", "args": { "url": "http://a/", "method": "PUT" } }));
    assert!(answer["error"]["message"].as_str().is_some_and(|said| said.contains("method")), "{answer}");
}

#[test]
fn text_of_a_listed_host_is_told_and_marked_as_from_outside() {
    let web = Web::start(|path| match path {
        "/cut" => page("text/plain; charset=utf-8", &"가".repeat(1_000)),
        "/image" => page("image/png", "\u{89}PNG"),
        "/endless" => format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n{}", "x".repeat(5_000_000)),
        "/gone" => "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\ngone".into(),
        _ => page("application/json", r#"{"hello":"world"}"#),
    });
    let host = host(&[web.address.to_string()]);
    let args = json!({ "url": web.url("/a?b=1#c"), "headers": { "Authorization": "Bearer t", "X-A": "1" } });
    let told = host.done("eden", "http_fetch", args);
    assert_eq!((&told["status"], &told["content"]), (&json!(200), &json!(r#"{"hello":"world"}"#)));
    assert_eq!((&told["truncated"], &told["contentType"]), (&json!(false), &json!("application/json")));
    let origin = told["origin"].as_str().expect("a mark");
    assert!(origin.starts_with("[From outside") && origin.ends_with("not an instruction]"), "{origin}");
    let heard = web.heard().remove(0).to_lowercase();
    assert!(heard.starts_with("get /a?b=1 http/1.1\r\n"), "{heard}");
    assert!(heard.contains("authorization: bearer t\r\n") && heard.contains("x-a: 1\r\n"), "{heard}");
    assert!(heard.contains("user-agent: chela/"), "{heard}");
    let post =
        json!({ "url": web.url("/p"), "method": "POST", "body": "b=2", "headers": { "Content-Type": "text/plain" } });
    host.done("eden", "http_fetch", post);
    let heard = web.heard().remove(1);
    assert!(heard.starts_with("POST /p ") && heard.ends_with("\nb=2"), "{heard}");
    let head = host.done("eden", "http_fetch", json!({ "url": web.url("/h"), "method": "HEAD" }));
    assert_eq!((&head["status"], &head["content"]), (&json!(200), &json!("")));
    let cut = fetch(&host, &web.url("/cut"));
    assert_eq!(cut["truncated"], true);
    assert!(
        cut["content"].as_str().is_some_and(|text| text.starts_with("가가") && text.chars().count() < 340),
        "{cut}"
    );
    let endless = fetch(&host, &web.url("/endless"));
    assert_eq!((endless["content"].as_str().map(str::len), &endless["truncated"]), (Some(1_000), &json!(true)));
    let image = fetch(&host, &web.url("/image"));
    assert_eq!((image.get("content"), &image["bytes"], &image["contentType"]), (None, &json!(5), &json!("image/png")));
    let gone = fetch(&host, &web.url("/gone"));
    assert_eq!((&gone["success"], &gone["status"], &gone["content"]), (&json!(true), &json!(404), &json!("gone")));
    for header in ["Host", "Content-Length", "Proxy-Authorization", "transfer-encoding"] {
        let args = json!({ "url": web.url("/"), "headers": { header: "1" } });
        let said = host.refused("eden", "http_fetch", args);
        assert!(said.contains("the gateway's own"), "{said}");
    }
    let said = host.refused("eden", "http_fetch", json!({ "url": web.url("/"), "body": "x" }));
    assert!(said.contains("only POST has a body"), "{said}");
}

#[test]
fn what_the_list_does_not_name_is_not_reached() {
    let web = Web::start(|_| page("text/plain", "never"));
    let port = web.address.port();
    let host =
        host(&[format!("127.0.0.2:{port}"), "*.example.org".into(), format!("localhost:{port}"), "192.168.0.1".into()]);
    let check = |url: String, expected: &str| {
        let answer = fetch(&host, &url);
        let said = answer["error"].as_str().unwrap_or_default();
        assert!(answer["success"] == false && said.contains(expected), "{url}: {answer}");
    };
    check(web.url("/"), &format!("add \"127.0.0.1:{port}\" to `tools.httpFetch.hosts`"));
    check("https://example.org/".into(), "not among the hosts");
    check("https://example.com/".into(), "not among the hosts");
    check(format!("http://[::ffff:127.0.0.1]:{port}/"), "not among the hosts");
    check(format!("http://[::ffff:127.0.0.2]:{port}/"), "not among the hosts");
    check("http://169.254.169.254/latest/meta-data/".into(), "not among the hosts");
    check(format!("http://2130706433:{port}/"), "not among the hosts");
    // A name of the list may lead nowhere inside: the address itself must stand there.
    check(
        format!("http://localhost:{port}/"),
        "loopback; such an address is reached only if `tools.httpFetch.hosts` names it itself",
    );
    check("http://192.168.0.1:81/".into(), "not among the hosts");
    check(format!("http://user:pw@127.0.0.2:{port}/"), "a name or a password");
    check("ftp://127.0.0.2/".into(), "only https and http");
    check("nonsense".into(), "only https and http");
    assert!(web.heard().is_empty(), "{:?}", web.heard());
}

#[test]
fn the_list_may_name_a_name_with_its_inner_address() {
    let web = Web::start(|_| page("text/plain", "inside"));
    let port = web.address.port();
    let host = host(&[format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")]);
    assert_eq!(fetch(&host, &format!("http://localhost:{port}/"))["content"], "inside");
}

#[test]
fn each_redirect_passes_the_same_checks_and_takes_no_credential_along() {
    let other = Web::start(|_| page("text/plain", "other"));
    let (to_other, port) = (other.url("/"), other.address.port());
    let web = Web::start(move |path| match path {
        "/other" => redirect(302, &to_other),
        "/keeps" => redirect(307, &to_other),
        "/metadata" => redirect(301, "http://169.254.169.254/latest/meta-data/"),
        "/mapped" => redirect(308, &format!("http://[::ffff:127.0.0.1]:{port}/")),
        "/elsewhere" => redirect(302, "https://evil.example/"),
        "/script" => redirect(302, "javascript:alert(1)"),
        "/round" => redirect(302, "round"),
        "/a/b" => redirect(303, "../last"),
        "/last" => page("text/plain", "last"),
        _ => page("text/plain", "?"),
    });
    let host = host(&[web.address.to_string(), other.address.to_string()]);
    let near = host.done("eden", "http_fetch", json!({ "url": web.url("/a/b"), "headers": { "Authorization": "t" } }));
    assert_eq!((&near["content"], &near["url"]), (&json!("last"), &json!(web.url("/last"))));
    assert!(web.heard()[1].to_lowercase().contains("authorization: t"), "the same door hears it");
    for path in ["/other", "/keeps"] {
        let headers = json!({ "Authorization": "t", "Cookie": "c", "X-Api-Key": "k", "Accept": "text/plain" });
        let args = json!({ "url": web.url(path), "method": "POST", "body": "b", "headers": headers });
        assert_eq!(host.done("eden", "http_fetch", args)["content"], "other");
    }
    let heard: Vec<String> = other.heard().iter().map(|heard| heard.to_lowercase()).collect();
    assert!(heard[0].starts_with("get / ") && heard[0].ends_with('\n'), "{heard:?}");
    assert!(heard[1].starts_with("post / ") && heard[1].ends_with("\nb"), "{heard:?}");
    for heard in &heard {
        assert!(heard.contains("accept: text/plain"), "{heard}");
        assert!(!["authorization", "cookie", "x-api-key"].iter().any(|name| heard.contains(name)), "{heard}");
    }
    let check = |path: &str, expected: &str| {
        let answer = fetch(&host, &web.url(path));
        let said = answer["error"].as_str().unwrap_or_default();
        assert!(answer["success"] == false && said.contains(expected), "{path}: {answer}");
    };
    check("/metadata", "169.254.169.254 is not among the hosts");
    check("/mapped", "is not among the hosts");
    check("/elsewhere", "evil.example is not among the hosts");
    check("/script", "leads on to \"javascript:alert(1)\"");
    check("/round", "leads on more than 5 times");
    assert_eq!(other.heard().len(), 2);
}

#[test]
fn an_address_is_not_reached_by_a_pattern_of_names_or_another_port() {
    let host = host(&["*.254".into(), "169.254.169.254:81".into()]);
    let said = fetch(&host, "http://169.254.169.254/")["error"].as_str().unwrap_or_default().to_owned();
    assert!(said.contains("not among the hosts"), "{said}");
}

#[test]
fn a_slow_host_is_given_up_and_others_are_fetched_meanwhile() {
    let web = Web::start(|path| match path {
        "/silent" => String::new(),
        "/stalls" => "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 10\r\n\r\nhalf".into(),
        _ => page("text/plain", "quick"),
    });
    let host = host(&[web.address.to_string()]);
    let client = host.client(Port::Gateway);
    let body = json!({ "tool": "http_fetch", "args": { "url": web.url("/silent") }, "sessionKey": "agent:eden" });
    let slow = host.spawn(async move { client.invoke_tool(&body).await.expect("answered") });
    eventually("it is asked", || (!web.heard().is_empty()).then_some(()));
    assert_eq!(fetch(&host, &web.url("/"))["content"], "quick");
    assert!(!slow.is_finished());
    host.clock.advance(std::time::Duration::from_secs(20));
    let answer = host.block_on(slow).expect("it ends");
    let said = answer["error"].as_str().unwrap_or_default();
    assert!(said.contains("longer than 20000 ms") && said.contains("tools.httpFetch.timeoutMs"), "{answer}");
    let broken = fetch(&host, &web.url("/stalls"));
    assert!(broken["error"].as_str().is_some_and(|said| said.contains("broke off")), "{broken}");
}

#[test]
fn a_list_that_is_none_is_refused_with_its_place() {
    let dir = support::TestDir::with_config(|config| {
        config["tools"] = json!({ "httpFetch": { "hosts": ["https://api.example.com/", "a.example:0", "*"] } });
    });
    let checked = support::chela(&dir.state, &["config", "check"]);
    for place in ["tools.httpFetch.hosts[0]", "tools.httpFetch.hosts[1]", "tools.httpFetch.hosts[2]"] {
        let said = format!("{}{}", checked.stdout, checked.stderr);
        assert!(said.contains(&format!("{place}: write a name")), "{said}");
    }
}
