//! Probes: what a supervisor sees through a gateway's life.

use chela::edge::Port;
use serde_json::json;
use support::{RawHttp, TestHost};

#[test]
fn probes_answer_on_every_listener_without_a_token() {
    let host = TestHost::start();
    for port in Port::ALL {
        let client = chela::client::Client::new(host.address(port), None);
        let get = |path: &str| host.block_on(client.get(path)).expect("an answer");
        for path in ["/health", "/healthz"] {
            assert_eq!(get(path).json(), json!({ "ok": true, "status": "live" }));
        }
        for path in ["/startup", "/startupz"] {
            let answer = get(path).json();
            assert_eq!(answer["status"], "started");
            assert_eq!(answer["version"], env!("CARGO_PKG_VERSION"));
            assert!(answer["uptimeMs"].is_u64());
        }
        for path in ["/ready", "/readyz"] {
            let answer = get(path);
            assert_eq!((answer.status, answer.json()["failing"].clone()), (200, json!([])));
        }
    }
}

#[test]
fn a_probe_may_ask_for_the_head_alone() {
    let host = TestHost::start();
    let answer = host.request("HEAD", "/healthz", &[], b"");
    assert_eq!((answer.status, answer.body.len()), (200, 0));
}

#[test]
fn a_log_that_takes_no_line_makes_the_gateway_unready_and_is_counted() {
    let host = TestHost::start();
    // A link to the device that is always full stands for a full disk from the next start on.
    let dir = host.stop();
    std::fs::remove_file(dir.state.event_log()).expect("removable");
    std::os::unix::fs::symlink("/dev/full", dir.state.event_log()).expect("a link");
    let Err((error, _dir)) = TestHost::start_in(dir) else { panic!("a start must not hide that nothing is written") };
    assert!(error.to_string().contains("took no line"), "{error}");
}

#[test]
fn a_draining_gateway_finishes_what_it_began() {
    let host = TestHost::start();
    let mut begun = RawHttp::connect(host.address(Port::Gateway));
    let token = host.token.clone();
    let body = r#"{"method":"health"}"#;
    begun.send(format!(
        "POST /rpc HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n",
        host.address(Port::Gateway),
        body.len()
    ));
    // The body comes only after the stop has begun.
    let address = host.address(Port::Gateway);
    let sender = std::thread::spawn(move || {
        support::eventually("the listener is closed", || std::net::TcpStream::connect(address).is_err().then_some(()));
        begun.send(body);
        begun.read_to_end()
    });
    support::eventually("the request is under way", || {
        let metrics = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
        metrics.contains("chela_connections{listener=\"gateway\"} 2").then_some(())
    });
    host.stop();
    let answer = sender.join().expect("the client");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"ok\":true"), "{answer}");
}
