//! Probes: what a supervisor sees through a gateway's life.

use chela::port::Port;
use serde_json::json;
use std::io::Write;
use std::process::Command;
use support::{Binary, RawHttp, TestDir, TestHost, chela_command, eventually};

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
fn a_start_does_not_hide_that_nothing_can_be_written() {
    let dir = TestHost::start().stop();
    std::fs::remove_file(dir.state.event_log()).expect("removable");
    std::os::unix::fs::symlink("/dev/full", dir.state.event_log()).expect("a link");
    let Err((error, dir)) = TestHost::start_in(dir) else { panic!("nothing can be written") };
    assert!(error.to_string().contains("cannot open the event log"), "{error}");
    assert!(!dir.state.run_file().exists());
}

#[test]
fn a_full_disk_makes_the_gateway_unready_until_there_is_room_and_tears_no_line() {
    const LIMIT: usize = 64 * 1024;
    // Without plugins, whose loading would be told in the log too.
    let dir = TestDir::with_config(|config| {
        config["plugins"] = json!({ "classifier": null, "guards": [], "continuation": null });
    });
    // A log that has room for the start and little more.
    let line = format!("{{\"type\":\"old\",\"data\":\"{}\"}}\n", "x".repeat(1_000));
    std::fs::write(dir.state.event_log(), line.repeat((LIMIT - 700) / line.len())).expect("written");
    let mut filled = std::fs::OpenOptions::new().append(true).open(dir.state.event_log()).expect("opens");
    let rest = LIMIT - 700 - filled.metadata().expect("there").len() as usize;
    writeln!(filled, "{{\"type\":\"{}\"}}", "y".repeat(rest.saturating_sub(12))).expect("written");

    // The limit of a file's size stands for the end of the disk: a write that passes it is cut, then refused.
    let mut command = Command::new("prlimit");
    command.arg(format!("--fsize={LIMIT}:unlimited")).args(["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(chela_command(&dir.state).get_program()).args(["serve", "--state-dir"]).arg(dir.state.path());
    let mut serving = Binary::spawn_command(&dir, command);
    serving.wait_until_ready();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let client = serving.client(&dir.token());
    let ready = || runtime.block_on(client.get("/readyz")).expect("answered");
    let size = || std::fs::metadata(dir.state.event_log()).expect("there").len();
    assert_eq!(ready().status, 200);

    let mut rounds = 0;
    while ready().status == 200 {
        rounds += 1;
        assert!(rounds < 20, "the log must be full by now");
        let before = size();
        dir.edit_config(|config| config["limits"]["requestsBurst"] = json!(2_000 + rounds));
        runtime.block_on(client.call("config.reload", json!({}))).expect("applied, whether or not it can be told");
        // A slow disk takes it later.
        eventually("it is told, or cannot be", || (size() > before || ready().status != 200).then_some(()));
    }
    let refused = ready();
    assert_eq!((refused.status, refused.json()["failing"].clone()), (503, json!(["event-log"])));
    let metrics = runtime.block_on(client.get("/metrics")).expect("answered").body;
    assert!(String::from_utf8_lossy(&metrics).contains("chela_events_failed_total 0"), "held, not lost");
    let before = dir.event_types_of("config.applied").len();

    let made_room = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &serving.pid().to_string()]).status();
    assert!(made_room.expect("prlimit runs").success());
    eventually("it is ready again", || (ready().status == 200).then_some(()));
    let told = eventually("it says so", || dir.events().into_iter().find(|event| event["type"] == "log.repaired"));
    assert_eq!(told["data"]["unwritten"], json!(0));
    assert!(dir.event_types_of("config.applied").len() > before, "what waited for room was written");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn a_draining_gateway_finishes_what_it_began() {
    let host = TestHost::start();
    let body = r#"{"method":"health"}"#;
    let mut begun = RawHttp::begin(host.address(Port::Gateway), &host.token, body.len());
    // The body comes only after the stop has begun.
    let address = host.address(Port::Gateway);
    let sender = std::thread::spawn(move || {
        eventually("the listener is closed", || std::net::TcpStream::connect(address).is_err().then_some(()));
        begun.send(body);
        begun.read_to_end()
    });
    host.stop();
    let answer = sender.join().expect("the client");
    assert!(answer.contains("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("\"ok\":true"), "{answer}");
}

#[test]
fn metrics_count_what_happened() {
    let host = TestHost::start();
    host.request("GET", "/api/health", &[("Origin", "https://evil.example")], b"");
    host.request("GET", "/api/health", &[], b"");
    host.request("GET", "/nowhere", &[], b"");
    host.block_on(host.app().plugins().loaded());
    // That a plugin is loaded is told a moment after it serves.
    let text = eventually("as many events are counted as the log has", || {
        let events = host.events().len();
        let text = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
        (events > 0 && text.contains(&format!("\nchela_events_total {events}\n"))).then_some(text)
    });
    for line in [
        "chela_http_requests_total{listener=\"gateway\",route=\"/api/health\",status=\"200\"} 1",
        "chela_http_requests_total{listener=\"gateway\",route=\"other\",status=\"403\"} 1",
        "chela_refusals_total{reason=\"origin\"} 1",
        "chela_refusals_total{reason=\"not_found\"} 1",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
    }
}

#[test]
fn metrics_have_names_and_units_as_prometheus_wants_them() {
    let host = TestHost::start();
    host.request("GET", "/api/health", &[], b"");
    let text = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
    let of = |kind: &str| -> std::collections::BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("# {kind} "))?.split_once(' '));
        lines.map(|(name, said)| (name.to_owned(), said.to_owned())).collect()
    };
    let (helps, types, units) = (of("HELP"), of("TYPE"), of("UNIT"));
    assert!(types.len() > 10, "{text}");
    for (name, kind) in &types {
        assert!(helps.get(name).is_some_and(|said| said.len() > 5), "{name} says nothing of itself");
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.chars().all(good) && (name.starts_with("chela_") || name.starts_with("process_")), "{name}");
        // Base units alone, and at the end.
        for other in ["_ms", "_milliseconds", "_minutes", "_kb", "_mb", "_percent", "_ns", "_micros"] {
            assert!(!name.ends_with(other), "{name}: seconds and bytes are what is told");
        }
        assert!(units.get(name).is_none_or(|unit| name.ends_with(&format!("_{unit}"))), "{name}: {units:?}");
        assert!(["counter", "gauge", "histogram", "info"].contains(&kind.as_str()), "{name}: {kind}");
    }
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        // The longest name that fits is its own.
        let fits = types.iter().filter(|(family, _)| name == *family || name.starts_with(&format!("{family}_")));
        let (own, kind) = fits.max_by_key(|(family, _)| family.len()).expect("a sample is of a family");
        let ends: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => &[""],
        };
        assert!(ends.iter().any(|end| name == format!("{own}{end}")), "{line} of a {kind}");
        let value = line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
        assert!(value.is_some_and(|value| value >= 0.0), "{line}");
    }
}
