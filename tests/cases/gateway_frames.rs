//! Frames that nobody should send, by the hundred, at a real socket, while another client works.

use std::time::Duration;

use chela::port::Port;
use fastrand::Rng;
use serde_json::{Value, json};
use support::{TestHost, WebSocket};

const FIRST_FRAMES: u64 = 60;
const LATER_FRAMES: u64 = 300;
const PATIENCE: Duration = Duration::from_secs(60);

fn connect(token: &str) -> Value {
    json!({ "type": "req", "id": "hello", "method": "connect", "params": {
        "minProtocol": 4, "maxProtocol": 4, "auth": { "token": token },
        "client": { "id": "test", "version": "1", "platform": "linux", "mode": "test" },
    } })
}

/// A frame that is wrong in one way or another; never one that brings somebody in.
fn hostile(random: &mut Rng) -> Vec<u8> {
    let good = json!({ "type": "req", "id": "x", "method": "health", "params": {} }).to_string();
    match random.u32(0..12) {
        0 => b"no json".to_vec(),
        1 => (0..random.usize(0..200)).map(|_| random.u8(..)).collect(),
        2 => "[".repeat(*random.choice(&[10_usize, 127, 129, 20_000]).expect("some")).into_bytes(),
        3 => format!("{{\"a\":{}1{}}}", "[".repeat(100), "]".repeat(100)).into_bytes(),
        4 => good.as_bytes()[..random.usize(0..good.len())].to_vec(),
        5 => json!({ "type": "req", "id": 7, "method": ["health"], "params": "x" }).to_string().into_bytes(),
        6 => json!({ "type": "req", "id": "x".repeat(60_000), "method": "health" }).to_string().into_bytes(),
        7 => json!({ "type": "req", "id": "x", "method": "no.such.method" }).to_string().into_bytes(),
        8 => json!({ "type": "req", "id": "x", "method": "chat.send", "params": { "message": [[[]]] } })
            .to_string()
            .into_bytes(),
        9 => json!({ "type": "res", "id": "x", "ok": true }).to_string().into_bytes(),
        10 => connect("a wrong token!!!").to_string().into_bytes(),
        _ => {
            json!({ "type": "req", "id": "x", "method": "health", "params": { (random.char(..).to_string()): 1e300 } })
                .to_string()
                .into_bytes()
        }
    }
}

#[test]
fn hostile_frames_are_refused_one_by_one_and_harm_nobody() {
    let host = TestHost::start();
    let address = host.address(Port::Gateway);
    let mut neighbour = host.connect();
    let mut works = |host: &TestHost| {
        assert_eq!(neighbour.request("health", json!({})).expect("answered")["ok"], true);
        host.clock.advance(Duration::from_millis(20));
    };
    for seed in 0..FIRST_FRAMES {
        let frame = hostile(&mut Rng::with_seed(seed));
        host.block_on(async {
            let mut socket = WebSocket::connect(address, "/", &[]).await.expect("a WebSocket");
            assert_eq!(socket.next().await.expect("a challenge")["event"], "connect.challenge");
            socket.send_bytes(frame).await;
            let ended = async {
                while let Some(said) = socket.next().await {
                    assert_eq!(said["ok"], false, "seed {seed} is answered with {said}");
                }
            };
            tokio::time::timeout(PATIENCE, ended).await.unwrap_or_else(|_| panic!("seed {seed} is not let go"));
        });
        works(&host);
    }
    let mut socket = host.block_on(async {
        let mut socket = WebSocket::connect(address, "/", &[]).await.expect("a WebSocket");
        socket.next().await.expect("a challenge");
        socket.send(&connect(&host.token)).await;
        assert_eq!(socket.next().await.expect("a hello")["ok"], true);
        socket
    });
    for seed in 1_000..1_000 + LATER_FRAMES {
        let frame = hostile(&mut Rng::with_seed(seed));
        host.block_on(async {
            assert!(socket.send_bytes(frame).await, "seed {seed} finds no socket");
            let answered = async {
                loop {
                    let said = socket.next().await.unwrap_or_else(|| panic!("seed {seed} has ended the connection"));
                    if said["type"] == "res" {
                        return said;
                    }
                }
            };
            let said = tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("seed {seed} waits"));
            assert_eq!(said["ok"], false, "seed {seed}: {said}");
            assert!(said["error"]["message"].as_str().is_some_and(|text| text.len() < 2_000), "seed {seed}: {said}");
        });
        if seed.is_multiple_of(10) {
            works(&host);
        }
    }
    host.block_on(async {
        socket.send(&json!({ "type": "req", "id": "after", "method": "health" })).await;
        loop {
            let said = socket.next().await.expect("it still serves who sent them");
            if said["id"] == "after" {
                assert_eq!(said["ok"], true, "{said}");
                return;
            }
        }
    });
    works(&host);
}

#[test]
fn frames_that_are_no_requests_count_like_requests() {
    let host = TestHost::start_with(|config| {
        config["limits"]["requestsPerSecond"] = json!(1);
        config["limits"]["requestsBurst"] = json!(20);
    });
    let (address, hello) = (host.address(Port::Gateway), connect(&host.token));
    let flooding = host.spawn(async move {
        let mut socket = WebSocket::connect(address, "/", &[]).await.expect("a WebSocket");
        socket.next().await.expect("a challenge");
        socket.send(&hello).await;
        socket.next().await.expect("a hello");
        for _ in 0..30 {
            socket.send_bytes(b"no json".to_vec()).await;
        }
        loop {
            let said = socket.next().await.expect("an answer");
            if said["error"]["message"].as_str().is_some_and(|text| text.starts_with("rate limit exceeded")) {
                return;
            }
        }
    });
    // Whoever sends too much waits on the clock.
    host.eventually("it is told so", || flooding.is_finished().then_some(()));
    host.block_on(flooding).expect("it was told so");
}
