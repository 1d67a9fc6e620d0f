//! `chela init`: by flags as a script calls it, and by questions at a terminal.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};
use support::{Finished, TestDir, chela, chela_command, eventually, have};

/// `chela` with a terminal of its own, which `script` makes.
struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    shown: PathBuf,
}

impl Terminal {
    fn start(dir: &TestDir, arguments: &str, locale: &str) -> Self {
        let binary = chela_command(&dir.state).get_program().to_str().expect("UTF-8").to_owned();
        let shown = dir.scratch().join("screen");
        // Whoever runs the tests may ignore Ctrl-C; who sits at this terminal does not.
        let mut command = Command::new("env");
        command.args([
            "--default-signal=INT",
            "script",
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &format!("'{binary}' {arguments}"),
            "/dev/null",
        ]);
        command.env("CHELA_STATE_DIR", dir.state.path()).env("LC_ALL", locale).env("SHELL", "/bin/sh");
        command.stdin(Stdio::piped()).stdout(File::create(&shown).expect("a file")).stderr(Stdio::null());
        let mut child = command.spawn().expect("`script` of util-linux runs");
        let keys = child.stdin.take();
        Self { child, keys, shown }
    }

    fn screen(&self) -> String {
        // The end of it may be half a letter.
        String::from_utf8_lossy(&fs::read(&self.shown).expect("readable")).replace('\r', "")
    }

    /// Waits for a question, then types.
    fn answer(&mut self, question: &str, text: &str) {
        let mut keys = self.keys.take().expect("it listens");
        eventually(question, || self.screen().contains(question).then_some(()));
        keys.write_all(text.as_bytes()).and_then(|()| keys.flush()).expect("typed");
        self.keys = Some(keys);
    }

    fn ended(mut self) -> (Option<i32>, String) {
        let code = eventually("it has ended", || self.child.try_wait().expect("a child of ours")).code();
        (code, self.screen())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn config(dir: &TestDir) -> Value {
    serde_json::from_slice(&fs::read(dir.state.config()).expect("written")).expect("strict JSON")
}

#[test]
fn flags_answer_every_question() {
    let dir = TestDir::empty();
    let key = dir.scratch().join("key");
    let done = chela(
        &dir.state,
        &[
            "init",
            "--name",
            "연구실",
            "--locale",
            "ko",
            "--agent",
            "mina,joon",
            "--provider",
            "openai",
            "--base-url",
            "http://127.0.0.1:11434/v1",
            "--model",
            "qwen3:8b",
            "--key-file",
            key.to_str().expect("UTF-8"),
            "--gateway",
            "4000",
            "--monitor",
            "off",
        ],
    );
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(done.stdout.contains("put the key on the first line of"), "{}", done.stdout);
    let config = config(&dir);
    assert_eq!(config["deployment"], json!({ "name": "연구실", "locale": "ko" }));
    assert_eq!((&config["agents"]["default"], &config["agents"]["model"]), (&json!("mina"), &json!("openai/qwen3:8b")));
    let ids: Vec<&Value> = config["agents"]["list"].as_array().expect("a list").iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, ["mina", "joon"]);
    let provider = &config["providers"]["openai"];
    assert_eq!((&provider["kind"], &provider["key"]), (&json!("openai"), &json!({ "file": key })));
    assert_eq!(provider["baseUrl"], "http://127.0.0.1:11434/v1");
    assert_eq!((&config["gateway"]["listen"], &config["monitor"]["listen"]), (&json!("127.0.0.1:4000"), &json!("off")));
    assert_eq!(chela(&dir.state, &["config", "check"]).code, Some(0));
}

#[test]
fn a_provider_without_more_is_as_usual() {
    let dir = TestDir::empty();
    let done = chela(&dir.state, &["init", "--yes", "--provider", "anthropic", "--json"]);
    let document = done.json();
    assert_eq!(document["model"], "anthropic/claude-sonnet-5");
    assert_eq!(document["key"], json!({ "env": "ANTHROPIC_API_KEY" }));
    assert_eq!(document["agents"], json!(["ruda", "eden", "seum"]));
}

#[test]
fn flags_that_do_not_fit_are_refused_and_nothing_is_left_behind() {
    let check = |arguments: &[&str], expected: &str| {
        let dir = TestDir::empty();
        let refused: Finished = chela(&dir.state, &[&["init"], arguments].concat());
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
        assert!(dir.files().is_empty() && !dir.state.path().exists(), "{:?}", dir.files());
    };
    check(&["--provider", "openai"], "--model: name the model");
    check(&["--provider", "scripted", "--model", "x"], "a script has no address");
    check(&["--model", "x"], "--provider");
    check(&["--provider", "anthropic", "--key-env", "sk-ant-api03-secret"], "never the key itself");
    check(&["--provider", "anthropic", "--key-env", "A", "--no-key"], "cannot be used with");
    check(&["--agent", "Not An Id"], "is not an agent id");
    check(&["--agent", "a,a"], "is taken by an agent before it");
    check(&["--agent", "a", "--empty-team"], "cannot be used with");
    check(&["--locale", "fr"], "write en or ko");
    check(&["--name", " "], "--name");
    let open = ["--provider", "openai", "--model", "m", "--base-url", "http://198.51.100.7/v1"];
    check(&open, "a key must not travel unencrypted");
    check(&["--gateway", "4000", "--hub", "4000"], "give each its own");
}

#[test]
fn a_person_is_asked_and_sees_what_was_written() {
    if !have("script") {
        return;
    }
    let dir = TestDir::empty();
    let mut terminal = Terminal::start(&dir, "init", "C.UTF-8");
    terminal.answer("called? [chela]: ", "lab\n");
    terminal.answer("en or ko? [en]: ", "\n");
    terminal.answer("[demo]: ", "Not An Id\n");
    terminal.answer("each once", "mina,joon\n");
    terminal.answer("[scripted]: ", "anthropic\n");
    terminal.answer("[claude-sonnet-5]: ", "\n");
    terminal.answer("[env]: ", "\n");
    terminal.answer("[ANTHROPIC_API_KEY]: ", "LAB_KEY\n");
    terminal.answer("[y]: ", "n\n");
    terminal.answer("gateway [127.0.0.1:18789]: ", "4001\n");
    terminal.answer("monitor [127.0.0.1:3847]: ", "off\n");
    terminal.answer("hub [127.0.0.1:3102]: ", "off\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("with a new token (`chela token` prints it)"), "{screen}");
    assert!(screen.contains("next: set LAB_KEY in the environment of the gateway"), "{screen}");
    assert!(screen.contains("next: chela serve"), "{screen}");
    let config = config(&dir);
    assert_eq!(config["deployment"]["name"], "lab");
    assert_eq!(config["providers"]["anthropic"]["key"], json!({ "env": "LAB_KEY" }));
    assert_eq!((&config["gateway"]["listen"], &config["hub"]["listen"]), (&json!("127.0.0.1:4001"), &json!("off")));
    let token = config["gateway"]["auth"]["token"].as_str().expect("a token");
    assert!(!screen.contains(token), "a token was shown");
}

#[test]
fn a_korean_is_asked_in_korean() {
    if !have("script") {
        return;
    }
    let dir = TestDir::empty();
    let mut terminal = Terminal::start(&dir, "init --gateway 0 --provider scripted", "ko_KR.UTF-8");
    terminal.answer("배포의 이름은 무엇인가요? [chela]: ", "연구실\n");
    terminal.answer("[ko]: ", "\n");
    terminal.answer("[demo]: ", "\n");
    let (code, screen) = terminal.ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("다음: chela serve"), "{screen}");
    assert!(!screen.contains("scripted("), "a flag has answered that: {screen}");
    assert_eq!(config(&dir)["deployment"], json!({ "name": "연구실", "locale": "ko" }));
}

#[test]
fn whoever_stops_answering_leaves_nothing_behind() {
    if !have("script") {
        return;
    }
    for (key, code) in [("\x03", None), ("\x04", Some(1))] {
        let dir = TestDir::empty();
        let mut terminal = Terminal::start(&dir, "init", "C.UTF-8");
        terminal.answer("called? [chela]: ", "lab\n");
        terminal.answer("en or ko? [en]: ", key);
        let (ended, screen) = terminal.ended();
        assert!(ended != Some(0) && (code.is_none() || ended == code), "{ended:?}: {screen}");
        assert!(code.is_none() || screen.contains("nothing was written"), "{screen}");
        assert!(!dir.state.path().exists(), "{:?}", dir.files());
    }
}

#[test]
fn nobody_is_asked_for_nothing() {
    if !have("script") {
        return;
    }
    let dir = TestDir::with_config(|_| {});
    let (code, screen) = Terminal::start(&dir, "init", "C.UTF-8").ended();
    assert_eq!(code, Some(73), "{screen}");
    assert!(screen.contains("is there already") && !screen.contains("called?"), "{screen}");

    let dir = TestDir::empty();
    let (code, screen) = Terminal::start(&dir, "init --yes", "C.UTF-8").ended();
    assert_eq!(code, Some(0), "{screen}");
    assert!(!screen.contains("called?"), "{screen}");
    assert_eq!(config(&dir)["agents"]["list"].as_array().map(Vec::len), Some(3));
}
