//! The gateway under a service manager: units that systemd takes, and what is said to who started it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;
use support::{Binary, Finished, TestDir, chela_command, eventually, have};

/// The other end of `NOTIFY_SOCKET`.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

/// A gateway takes its time to start on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(120);

impl Manager {
    fn new(dir: &TestDir) -> Self {
        let path = dir.scratch().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        Self { socket, path }
    }

    fn serve(&self, dir: &TestDir, more: &[(&str, &str)]) -> Binary {
        let mut command = chela_command(&dir.state);
        command.arg("serve").env("NOTIFY_SOCKET", &self.path).envs(more.iter().copied());
        Binary::spawn_command(dir, command)
    }

    fn next(&self) -> String {
        let mut bytes = [0; 8192];
        let read = self.socket.recv(&mut bytes).expect("a word within two minutes");
        String::from_utf8(bytes[..read].to_vec()).expect("UTF-8")
    }

    /// The next word that begins so; others are passed over.
    fn next_of(&self, begin: &str) -> String {
        (0..200).map(|_| self.next()).find(|said| said.starts_with(begin)).unwrap_or_else(|| panic!("no {begin}"))
    }
}

#[test]
fn a_manager_hears_of_readiness_reloads_refusals_and_the_stop() {
    let dir = TestDir::with_config(|_| {});
    let manager = Manager::new(&dir);
    let mut serving = manager.serve(&dir, &[]);
    assert_eq!(manager.next(), "READY=1\nSTATUS=serving 3 agents", "nothing is said before it is ready");
    serving.wait_until_ready();

    serving.signal(Signal::HUP);
    let reloading = manager.next();
    let (first, second) = reloading.split_once('\n').expect("two lines");
    let at = second.strip_prefix("MONOTONIC_USEC=").and_then(|usec| usec.parse::<u64>().ok());
    assert!(first == "RELOADING=1" && at.is_some_and(|usec| usec > 0), "{reloading}");
    assert_eq!(manager.next(), "READY=1\nSTATUS=serving 3 agents");

    dir.edit_config(|config| config["lisen"] = json!(1));
    eventually("it is refused", || serving.stderr().contains("configuration refused").then_some(()));
    serving.signal(Signal::HUP);
    manager.next_of("RELOADING=1");
    let after = manager.next_of("READY=1");
    assert!(after.contains("chela.json is refused: lisen: unknown key"), "{after}");

    serving.signal(Signal::TERM);
    let stopping = manager.next_of("STOPPING=1");
    // Thrice the drain of ten seconds, and a little.
    assert!(stopping.contains("\nEXTEND_TIMEOUT_USEC=45000000"), "{stopping}");
    let ended = serving.finished();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stdout.contains("/login?code="), "no way in is left in a journal: {}", ended.stdout);
}

#[test]
fn a_watched_gateway_says_that_it_lives_until_it_is_gone() {
    let dir = TestDir::with_config(|_| {});
    let manager = Manager::new(&dir);
    let mut serving = manager.serve(&dir, &[("WATCHDOG_USEC", "100000")]);
    serving.wait_until_ready();
    for _ in 0..5 {
        assert_eq!(manager.next_of("WATCHDOG=1"), "WATCHDOG=1");
    }
    // One that hangs says nothing more, whatever it said before.
    serving.signal(Signal::STOP);
    manager.socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a limit");
    let mut left = 0;
    while manager.socket.recv(&mut [0; 64]).is_ok() {
        left += 1;
        assert!(left < 100, "it says that it lives, and does not");
    }
    serving.signal(Signal::CONT);
    manager.socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
    manager.next_of("WATCHDOG=1");
    assert_eq!(serving.terminate().code, Some(0));
}

#[test]
fn the_watchdog_of_another_process_is_not_answered() {
    let dir = TestDir::with_config(|_| {});
    let manager = Manager::new(&dir);
    let mut serving = manager.serve(&dir, &[("WATCHDOG_USEC", "100000"), ("WATCHDOG_PID", "1")]);
    serving.wait_until_ready();
    serving.signal(Signal::TERM);
    assert_eq!(serving.finished().code, Some(0));
    manager.socket.set_nonblocking(true).expect("a socket");
    let mut bytes = [0; 8192];
    while let Ok(read) = manager.socket.recv(&mut bytes) {
        assert!(!bytes[..read].starts_with(b"WATCHDOG"), "{}", String::from_utf8_lossy(&bytes[..read]));
    }
}

#[test]
fn why_it_did_not_start_is_told_too() {
    let dir = TestDir::with_config(|config| config["lisen"] = json!(1));
    let manager = Manager::new(&dir);
    let mut serving = manager.serve(&dir, &[]);
    assert_eq!(serving.finished().code, Some(78));
    let said = manager.next();
    assert!(said.starts_with("STATUS=") && said.contains("unknown key `lisen`"), "{said}");
    assert!(!said.trim_end().contains('\n'), "one line");
}

#[test]
fn secrets_come_from_credentials_that_systemd_hands_over() {
    const TOKEN: &str = "a-token-that-systemd-has-read";
    let dir = TestDir::with_config(|config| config["gateway"]["auth"]["token"] = json!({ "credential": "owner" }));
    let credentials = dir.scratch().join("credentials");
    fs::create_dir(&credentials).expect("made");
    fs::write(credentials.join("owner"), format!("{TOKEN}\n")).expect("written");
    fs::set_permissions(credentials.join("owner"), fs::Permissions::from_mode(0o400)).expect("ours");
    let mut command = chela_command(&dir.state);
    command.arg("serve").env("CREDENTIALS_DIRECTORY", &credentials);
    let mut serving = Binary::spawn_command(&dir, command);
    serving.wait_until_ready();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let status = runtime.block_on(serving.client(TOKEN).call("status", json!({}))).expect("the token opens it");
    assert_eq!(status["pid"], serving.pid());
    let without = support::chela(&dir.state, &["status", "--json"]);
    assert_eq!((without.code, &without.json()["serving"]), (Some(0), &json!(true)), "{without:?}");
    let archive = dir.scratch().join("backup.tar");
    let backup = |command: &mut Command| command.arg("backup").arg(&archive).output().expect("the binary runs");
    let without = backup(&mut chela_command(&dir.state));
    let said = String::from_utf8_lossy(&without.stderr);
    let way = "as root with CREDENTIALS_DIRECTORY=/run/credentials/";
    assert!(without.status.code() == Some(78) && said.contains(way), "{without:?}");
    let with = backup(chela_command(&dir.state).env("CREDENTIALS_DIRECTORY", &credentials));
    assert!(with.status.success() && archive.is_file(), "that is the way: {with:?}");
    let ended = serving.terminate();
    assert!(!ended.stderr.contains(TOKEN) && !ended.stdout.contains(TOKEN));
    let refused = support::chela(&dir.state, &["serve"]);
    assert!(refused.code == Some(78) && refused.stderr.contains("LoadCredential="), "{refused:?}");
}

/// A `systemctl` that writes down what it is asked, and a place for units of a user.
struct Units {
    dir: TestDir,
    bin: PathBuf,
}

impl Units {
    fn new() -> Self {
        let dir = TestDir::with_config(|_| {});
        let bin = dir.scratch().join("bin");
        fs::create_dir(&bin).expect("made");
        let program = bin.join("systemctl");
        let script = "#!/bin/sh\necho \"$@\" >> \"$0.asked\"\ncase \"$*\" in *show*) printf 'ActiveState=active\\nSubState=running\\nUnitFileState=enabled\\nNRestarts=0\\nResult=success\\nStatusText=serving\\nFragmentPath=%s\\n' \"$(cat \"$0.unit\" 2>/dev/null)\";; esac\ntest ! -e \"$0.fails\"\n";
        // By another process: a child of some other test could hold it open for writing, and then it cannot be run.
        let mut writing = Command::new("sh");
        writing.args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", script]).arg(&program);
        assert!(writing.status().expect("a shell").success());
        Self { dir, bin }
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = chela_command(&self.dir.state);
        let output = command
            .arg("service")
            .args(arguments)
            .env("PATH", format!("{}:/usr/bin:/bin", self.bin.display()))
            .env("XDG_CONFIG_HOME", self.dir.scratch().join("config"))
            .output()
            .expect("the binary runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Finished { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    fn unit(&self) -> PathBuf {
        self.dir.scratch().join("config/systemd/user/chela.service")
    }

    fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.bin.join("systemctl.asked")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_service_is_installed_looked_at_and_removed_and_the_state_stays() {
    let units = Units::new();
    let state = units.dir.state.path().display().to_string();
    let before = units.run(&["status", "--user"]);
    assert_eq!(before.code, Some(69), "{before:?}");
    assert!(before.stdout.contains("`chela service install` writes one"), "{before:?}");

    let installed = units.run(&["install", "--user", "--json"]);
    assert_eq!(installed.code, Some(0), "{installed:?}");
    assert_eq!(installed.json()["started"], true);
    let text = fs::read_to_string(units.unit()).expect("a unit");
    for line in
        ["Type=notify", "WatchdogSec=60", "NoNewPrivileges=yes", "MemoryMax=2G", "RestartPreventExitStatus=2 77 78"]
    {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
    assert!(text.contains(&format!("serve --state-dir \"{state}\"")), "{text}");
    assert!(!text.contains(&units.dir.token()), "a unit is for everybody to read");
    let asked = units.asked();
    let wanted = ["--user daemon-reload", "--user enable chela.service", "--user restart chela.service"];
    assert_eq!(asked[asked.len() - 3..], wanted);

    let serving = Binary::serve(&units.dir);
    let status = units.run(&["status", "--user", "--json"]);
    assert_eq!(status.code, Some(0), "{status:?}");
    let document = status.json();
    assert_eq!(
        (&document["serving"], &document["ours"], &document["stateDir"]),
        (&json!(true), &json!(true), &json!(state))
    );
    assert_eq!(document["systemd"]["ActiveState"], "active");
    serving.terminate();

    let again = units.run(&["install", "--user", "--json"]);
    assert_eq!(again.json()["changed"], false, "the same again changes nothing");
    let removed = units.run(&["uninstall", "--user"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(!units.unit().exists() && units.dir.state.config().exists());
    let asked = units.asked();
    assert_eq!(asked[asked.len() - 2..], ["--user disable --now chela.service", "--user daemon-reload"]);
    assert_eq!(units.run(&["uninstall", "--user"]).code, Some(1), "there is none any more");
}

#[test]
fn the_unit_of_a_package_is_shown_as_such() {
    let units = Units::new();
    let unit = units.dir.scratch().join("packaged.service");
    let state = units.dir.state.path().display().to_string();
    fs::write(
        &unit,
        format!("# of a package\n[Service]\nExecStart=\"/usr/bin/chela\" serve --state-dir \"{state}\"\n"),
    )
    .expect("written");
    fs::write(units.bin.join("systemctl.unit"), unit.display().to_string()).expect("written");
    let status = units.run(&["status", "--user", "--json"]);
    let document = status.json();
    assert_eq!((&document["installed"], &document["ours"]), (&json!(true), &json!(false)), "{status:?}");
    assert_eq!((&document["unit"], &document["stateDir"]), (&json!(unit), &json!(state)));
    let text = units.run(&["status", "--user"]);
    assert!(text.stdout.contains("packaged.service, which is not of `chela service install`"), "{text:?}");
}

#[test]
fn what_is_not_ours_or_cannot_work_is_refused_before_anything_is_written() {
    let units = Units::new();
    fs::create_dir_all(units.unit().parent().expect("a folder")).expect("made");
    fs::write(units.unit(), "[Service]\nExecStart=/bin/true\n").expect("written");
    let foreign = units.run(&["install", "--user"]);
    assert!(foreign.code == Some(1) && foreign.stderr.contains("not ours"), "{foreign:?}");
    let foreign = units.run(&["uninstall", "--user"]);
    assert!(foreign.code == Some(1) && foreign.stderr.contains("not ours"), "{foreign:?}");
    assert!(units.asked().is_empty(), "systemd was asked for nothing");
    let forced = units.run(&["install", "--user", "--force", "--no-start"]);
    assert_eq!(forced.code, Some(0), "{forced:?}");
    assert!(units.asked().is_empty(), "--no-start leaves systemd alone");

    for (arguments, said) in [
        (&["install", "--user", "--name", "../x"][..], "--name"),
        (&["install", "--user", "--memory-max", "much"], "--memory-max"),
        (&["install", "--user", "--run-as", "eden"], "--run-as"),
        (&["install", "--user", "--credential", "key"], "--credential"),
        (&["install", "--system", "--print"], "--run-as"),
    ] {
        let refused = units.run(arguments);
        assert!(refused.code == Some(2) && refused.stderr.contains(said), "{arguments:?}: {refused:?}");
    }
    if have("root") {
        let dir = units.dir.state.path().to_str().expect("UTF-8").to_owned();
        let refused = units.run(&["install", "--system", "--run-as", "no-such-user", "--state-dir", &dir]);
        assert!(refused.code == Some(2) && refused.stderr.contains("useradd"), "{refused:?}");
        let refused = units.run(&["install", "--system", "--run-as", "nobody", "--state-dir", &dir]);
        assert!(refused.code == Some(2) && refused.stderr.contains("chown -R nobody:"), "{refused:?}");
    }
    fs::write(units.bin.join("systemctl.fails"), "").expect("written");
    let failed = units.run(&["install", "--user"]);
    assert!(failed.code == Some(1) && failed.stderr.contains("--no-start leaves systemd alone"), "{failed:?}");
    units.dir.edit_config(|config| config["lisen"] = json!(1));
    let bad = units.run(&["install", "--user"]);
    assert_eq!(bad.code, Some(78), "what could never start is not installed: {bad:?}");
}

/// What systemd itself says of a unit.
fn analyze(arguments: &[&str], unit: &Path) -> (bool, String) {
    let output = Command::new("systemd-analyze").args(arguments).arg(unit).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn systemd_takes_the_units_and_finds_the_one_of_the_machine_safe() {
    if !have("systemd-analyze") {
        return;
    }
    let units = Units::new();
    let made = |arguments: &[&str], name: &str| {
        let printed = units.run(&[&["install", "--print"], arguments].concat());
        assert_eq!(printed.code, Some(0), "{printed:?}");
        let path = units.dir.scratch().join(name);
        fs::write(&path, printed.stdout).expect("written");
        path
    };
    let user = made(&["--user"], "of-a-user.service");
    let named = made(&["--system", "--run-as", "nobody"], "of-the-machine.service");
    for unit in [&user, &named] {
        let (good, said) = analyze(&["verify", "--man=no"], unit);
        assert!(good && !said.contains("Unknown"), "{said}");
    }
    // From 0, safe, to 10; what systemd gives its own daemons is about 2.
    let (good, said) = analyze(&["security", "--offline=true", "--threshold=20", "--no-pager"], &named);
    assert!(good, "{said}");
    let (good, said) = analyze(&["security", "--offline=true", "--threshold=80", "--no-pager"], &user);
    assert!(good, "{said}");
}
