//! Starting and stopping a gateway as a process, and what it says when it cannot.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use chela::client::Frame;
use serde_json::{Value, json};
use support::{Binary, RawHttp, TestDir, chela, chela_command, eventually, have};

#[test]
fn a_first_start_on_an_empty_directory_writes_a_whole_configuration_and_serves() {
    let dir = TestDir::empty();
    let serving = Binary::serve(&dir);
    let facts = fs::metadata(dir.state.config()).expect("written");
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    let config: Value = serde_json::from_slice(&fs::read(dir.state.config()).expect("readable")).expect("strict JSON");
    assert_eq!(config["gateway"]["listen"], "127.0.0.1:18789", "addresses of the command line are for one start");
    assert_eq!(config["agents"]["list"].as_array().map(Vec::len), Some(3));
    let token = config["gateway"]["auth"]["token"].as_str().expect("a token").to_owned();
    assert_eq!(token.len(), 64);

    let run: Value = serde_json::from_slice(&fs::read(dir.state.run_file()).expect("written")).expect("JSON");
    let keys: Vec<&String> = run.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["pid", "version", "gateway", "monitor", "hub"]);
    assert_eq!(run["pid"], serving.pid());
    for agent in ["ruda", "eden", "seum"] {
        assert!(dir.state.path().join(format!("workspace-{agent}")).is_dir());
    }

    let ended = serving.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!dir.state.run_file().exists(), "removed on a clean stop");
    assert_eq!(dir.event_types_of("gateway."), ["gateway.started", "gateway.stopped"]);
    assert!(!ended.stdout.contains(&token) && !ended.stderr.contains(&token), "a token was printed");
}

#[test]
fn a_listener_that_is_off_is_null() {
    let dir = TestDir::empty();
    let mut serving = Binary::spawn(&dir, &["--gateway", "127.0.0.1:0", "--monitor", "off", "--hub", "off"]);
    serving.wait_until_ready();
    let run: Value = serde_json::from_slice(&fs::read(dir.state.run_file()).expect("written")).expect("JSON");
    assert_eq!((&run["monitor"], &run["hub"]), (&Value::Null, &Value::Null));
    serving.terminate();
}

#[test]
fn a_second_start_keeps_the_configuration_and_the_token() {
    let dir = TestDir::empty();
    Binary::serve(&dir).terminate();
    let before = fs::read(dir.state.config()).expect("written");
    Binary::serve(&dir).terminate();
    assert_eq!(fs::read(dir.state.config()).expect("readable"), before);
}

#[test]
fn a_second_gateway_on_one_directory_is_refused_and_the_first_goes_on() {
    let dir = TestDir::empty();
    let first = Binary::serve(&dir);
    let second = chela(&dir.state, &["serve", "--gateway", "0", "--monitor", "0", "--hub", "0"]);
    assert_eq!(second.code, Some(75));
    let expected = format!("another gateway (pid {}) serves", first.pid());
    assert!(second.stderr.contains(&expected), "{}", second.stderr);
    assert!(second.stderr.contains("--state-dir"), "it says what to do: {}", second.stderr);
    assert_eq!(chela(&dir.state, &["status"]).code, Some(0));
    assert_eq!(first.terminate().code, Some(0));
}

#[test]
fn after_a_kill_the_next_start_takes_over_by_itself() {
    let dir = TestDir::empty();
    let first = Binary::serve(&dir);
    let dead = first.pid();
    first.kill();
    assert!(dir.state.run_file().exists(), "a killed gateway removes nothing");
    let said = chela(&dir.state, &["status"]);
    assert_eq!(said.code, Some(69));
    assert!(said.stdout.contains(&format!("the last one (pid {dead}) ended without a word")), "{}", said.stdout);
    let second = Binary::serve(&dir);
    assert_ne!(second.pid(), dead);
    assert_eq!(second.terminate().code, Some(0));
    assert_eq!(dir.event_types_of("gateway."), ["gateway.started", "gateway.started", "gateway.stopped"]);
}

#[test]
fn a_port_in_use_is_named_with_the_remedy() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    for listener in ["gateway", "monitor", "hub"] {
        let dir = TestDir::empty();
        let mut arguments = vec!["serve".to_owned()];
        for one in ["gateway", "monitor", "hub"] {
            arguments.extend([format!("--{one}"), if one == listener { address.clone() } else { "0".into() }]);
        }
        let refused = chela(&dir.state, &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(refused.code, Some(75));
        let expected =
            format!("{listener}: {address} is in use by another program; choose another with --{listener} ADDR");
        assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
        assert!(!dir.state.run_file().exists());
    }
}

/// Free addresses below those that the kernel gives out by itself: nobody is given one between a stop and a start.
fn fixed_addresses() -> [SocketAddr; 3] {
    let tried = (0..1_000).filter_map(|_| TcpListener::bind(("127.0.0.1", fastrand::u16(20_000..30_000))).ok());
    // All are held until there are enough, so that they differ.
    let held: Vec<TcpListener> = tried.take(3).collect();
    let held: [TcpListener; 3] = held.try_into().expect("three of a thousand are free");
    let addresses = held.map(|listener| listener.local_addr().expect("bound"));
    // A process that some other test is about to run holds for a moment what this one had open.
    eventually("nobody holds them", || addresses.iter().all(|at| TcpStream::connect(at).is_err()).then_some(()));
    addresses
}

/// The states of the connections that the kernel still has at an address, as `/proc/net/tcp` writes them.
fn left_at(address: SocketAddr) -> Vec<String> {
    let local = format!(":{:04X}", address.port());
    let table = fs::read_to_string("/proc/net/tcp").expect("readable");
    let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[1].ends_with(&local)).map(|row| row[3].to_owned()).collect()
}

#[test]
fn a_restart_listens_on_the_same_ports_whatever_clients_have_left_there() {
    const ASK: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const ASK_LAST: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    // Closed by the gateway and not by its client, and closed by both a short while ago.
    const FIN_WAIT_2: &str = "05";
    const TIME_WAIT: &str = "06";
    let dir = TestDir::with_config(|_| {});
    let (token, addresses) = (dir.token(), fixed_addresses());
    let [gateway, monitor, hub] = addresses.map(|address| address.to_string());
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let mut held = Vec::new();
    // A first start, and three at once after a stop.
    for _ in 0..4 {
        let mut serving = Binary::spawn(&dir, &["--gateway", &gateway, "--monitor", &monitor, "--hub", &hub]);
        serving.wait_until_ready();
        let bound = serving.run_file().addresses;
        assert_eq!([bound.gateway, bound.monitor, bound.hub], addresses.map(Some));
        let client = serving.client(&token);
        let status = runtime.block_on(client.call("status", json!({}))).expect("it answers");
        assert_eq!(status["pid"], serving.pid());
        let mut socket = runtime.block_on(client.open()).expect("connected");
        let idle = addresses.map(|address| {
            let answer = RawHttp::connect(address).send(ASK_LAST).read_to_end();
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
            let mut idle = RawHttp::connect(address);
            assert_eq!(idle.send(ASK).read_status(), "HTTP/1.1 200 OK");
            idle
        });

        serving.signal(rustix::process::Signal::TERM);
        let code = loop {
            if let Frame::End { code, .. } = runtime.block_on(socket.next()).expect("a frame") {
                break code;
            }
        };
        assert_eq!(code, Some(1012));
        // Answers the goodbye, and leaves its own side open.
        let _ = runtime.block_on(socket.next());
        let ended = serving.finished();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for address in addresses {
            eventually("there are leftovers of both kinds", || {
                let left = left_at(address);
                [FIN_WAIT_2, TIME_WAIT].iter().all(|state| left.iter().any(|one| one == state)).then_some(())
            });
        }
        // Nobody lets go until the last one has ended.
        held.push((socket, idle));
    }
}

#[test]
fn an_address_that_is_not_of_this_machine_yet_is_named_and_worth_another_start() {
    let dir = TestDir::empty();
    let refused = chela(&dir.state, &["serve", "--gateway", "192.0.2.1:0"]);
    // A unit gives up at 78, and a network may come up after it.
    assert_eq!(refused.code, Some(75));
    assert!(refused.stderr.contains("gateway: cannot listen on 192.0.2.1:0 ("), "{}", refused.stderr);
    assert!(refused.stderr.contains("choose another with --gateway ADDR"), "{}", refused.stderr);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let dir = TestDir::empty();
    fs::write(dir.state.path(), "in the way").expect("written");
    let refused = chela(&dir.state, &["serve"]);
    assert_eq!(refused.code, Some(73));
    assert!(refused.stderr.contains("cannot write in"), "{}", refused.stderr);

    // Rights mean nothing to root: somebody else must try.
    if !have("root") {
        return;
    }
    let dir = TestDir::empty();
    fs::create_dir(dir.state.path()).expect("made");
    fs::set_permissions(dir.scratch(), fs::Permissions::from_mode(0o755)).expect("ours");
    fs::set_permissions(dir.state.path(), fs::Permissions::from_mode(0o555)).expect("ours");
    // The binary itself may lie where only root can go.
    let copy = dir.scratch().join("chela");
    // By another process: a child of some other test could hold the copy open for writing, and then it cannot be run.
    let copied = std::process::Command::new("cp").arg(chela_command(&dir.state).get_program()).arg(&copy).status();
    assert!(copied.expect("cp runs").success());
    let output = std::process::Command::new(&copy)
        .args(["serve", "--state-dir"])
        .arg(dir.state.path())
        .uid(65534)
        .gid(65534)
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(73), "{said}");
    assert!(said.contains("cannot write in") && said.contains("check its owner and rights"), "{said}");
}

#[test]
fn a_directory_of_the_old_system_is_not_touched() {
    let dir = TestDir::empty();
    fs::create_dir(dir.state.path()).expect("made");
    fs::write(dir.state.old_config(), "{}").expect("written");
    for command in ["serve", "init"] {
        let refused = chela(&dir.state, &[command]);
        assert_eq!(refused.code, Some(78));
        assert!(refused.stderr.contains("belongs to another system"), "{}", refused.stderr);
    }
    assert_eq!(dir.files(), ["openclaw.json"]);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let dir = TestDir::with_config(|config| config["limits"]["drainTimeoutMs"] = json!(600_000));
    let mut serving = Binary::serve(&dir);
    let _stuck = RawHttp::begin(serving.address(), &dir.token(), 9);
    serving.signal(rustix::process::Signal::TERM);
    support::eventually("it drains", || serving.stderr().contains("stopping").then_some(()));
    serving.signal(rustix::process::Signal::INT);
    let ended = serving.finished();
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("second signal"), "{}", ended.stderr);
    assert!(!dir.state.run_file().exists(), "it serves no more");
}

#[test]
fn requests_that_never_end_do_not_hold_up_a_stop() {
    let dir = TestDir::with_config(|config| config["limits"]["drainTimeoutMs"] = json!(50));
    let serving = Binary::serve(&dir);
    let _stuck = RawHttp::begin(serving.address(), &dir.token(), 9);
    let ended = serving.terminate();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("requests were cut off by the stop"), "{}", ended.stderr);
}

#[test]
fn a_log_that_nobody_takes_does_not_end_the_gateway() {
    let dir = TestDir::empty();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the full device");
    let mut command = chela_command(&dir.state);
    command.args(["serve", "--gateway", "0", "--monitor", "0", "--hub", "0"]);
    let mut child = command.stdout(full()).stderr(full()).spawn().expect("runs");
    support::eventually("it is ready", || dir.state.run_file().exists().then_some(()));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a child of ours");
    assert_eq!(child.wait().expect("ends").code(), Some(0));
    assert_eq!(dir.event_types_of("gateway."), ["gateway.started", "gateway.stopped"]);
}

#[test]
fn more_connections_than_descriptors_are_turned_away_and_not_left_waiting() {
    let dir = TestDir::with_config(|_| {});
    let mut command = std::process::Command::new("prlimit");
    command.arg("--nofile=332:332").arg(chela_command(&dir.state).get_program()).arg("serve");
    command.arg("--state-dir").arg(dir.state.path());
    let mut serving = Binary::spawn_command(&dir, command);
    serving.wait_until_ready();
    let address = serving.address();
    // Twelve descriptors beyond what is reserved, shared by three listeners.
    let held: Vec<_> = (0..4).map(|_| RawHttp::connect(address)).collect();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let refused = RawHttp::connect(address).send(request).read_to_end();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    drop(held);
    assert_eq!(serving.terminate().code, Some(0));
}
