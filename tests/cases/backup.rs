//! Backups: taken while agents work, whole or refused, and a directory that goes on where the archive was taken.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use chela::layout::StateDir;
use serde_json::{Value, json};
use support::{Binary, TestDir, chela, chela_command, eventually, have};

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// Sends a message and waits for its end.
fn say(dir: &TestDir, key: &str) -> Value {
    let sent = chela(&dir.state, &["send", "ruda", "good morning", "--key", key, "--wait", "--json"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    sent.json()
}

#[test]
fn a_backup_of_a_busy_gateway_is_a_directory_that_serves_and_has_what_was_acknowledged_before() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    for nth in 0..5 {
        say(&dir, &format!("before-{nth}"));
    }
    let archive = dir.scratch().join("backup.tar");
    let stop = AtomicBool::new(false);
    let during = std::thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut count = 0;
            loop {
                let sent = chela(&dir.state, &["send", "seum", "work", "--key", &format!("during-{count}")]);
                assert_eq!(sent.code, Some(0), "nothing is refused meanwhile: {sent:?}");
                count += 1;
                if stop.load(Ordering::Relaxed) {
                    return count;
                }
            }
        });
        let taken = chela(&dir.state, &["backup", &text(&archive), "--json"]);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(taken.code, Some(0), "{taken:?}");
        assert!(taken.json()["files"].as_u64().is_some_and(|files| files > 5), "{taken:?}");
        busy.join().expect("the client")
    });
    assert!(during > 0);
    assert_eq!(fs::metadata(&archive).expect("written").permissions().mode() & 0o777, 0o600);
    say(&dir, "after");
    assert_eq!(serving.terminate().code, Some(0));

    let restored = TestDir::empty();
    let made = chela(&restored.state, &["restore", &text(&archive), "--json"]);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert!(!restored.state.index().exists() && !restored.state.run().exists(), "what is made again is not in it");
    let checked = chela(&restored.state, &["doctor", "--json"]);
    assert_eq!(checked.json()["healthy"], true, "{checked:?}");
    let serving = Binary::serve(&restored);
    let rows = transcript(&restored.state, "ruda");
    assert!(rows.len() >= 10, "five questions and five answers: {rows:#?}");
    for nth in 0..5 {
        say(&restored, &format!("before-{nth}"));
    }
    assert_eq!(transcript(&restored.state, "ruda"), rows, "the same key again runs nothing twice");
    assert!(!format!("{rows:?}").contains("\"after"), "what came after is not there");
    eventually("all that was accepted has ended", || {
        (chela(&restored.state, &["status", "--json"]).json()["runs"] == json!(0)).then_some(())
    });
    assert_eq!(serving.terminate().code, Some(0));
}

/// Every row of an agent's transcripts.
fn transcript(state: &StateDir, agent: &str) -> Vec<Value> {
    let folder = state.sessions().join(agent);
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let texts = files.filter(|path| path.is_file()).map(|path| fs::read_to_string(path).expect("readable"));
    texts
        .flat_map(|text| text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>())
        .collect()
}

#[test]
fn a_directory_that_nobody_serves_is_backed_up_to_a_pipe_and_takes_the_place_of_another() {
    let dir = TestDir::with_config(|config| config["deployment"]["name"] = json!("first"));
    Binary::serve(&dir).terminate();
    std::os::unix::fs::symlink(dir.scratch(), dir.state.path().join("workspace-ruda/elsewhere")).expect("linked");
    let output = chela_command(&dir.state).args(["backup", "-"]).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("left out: workspace-ruda/elsewhere"), "{said}");
    let archive = dir.scratch().join("piped.tar");
    fs::write(&archive, output.stdout).expect("written");
    assert_eq!(chela(&dir.state, &["restore", &text(&archive), "--check"]).code, Some(0));

    let other = TestDir::with_config(|config| config["deployment"]["name"] = json!("second"));
    let refused = chela(&other.state, &["restore", &text(&archive)]);
    assert!(refused.code == Some(1) && refused.stderr.contains("--replace"), "{refused:?}");
    let serving = Binary::serve(&other);
    let refused = chela(&other.state, &["restore", &text(&archive), "--replace"]);
    assert_eq!(refused.code, Some(75), "not under a gateway that serves: {refused:?}");
    serving.terminate();
    let replaced = chela(&other.state, &["restore", &text(&archive), "--replace", "--json"]);
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    let aside = replaced.json()["aside"].as_str().expect("a place").to_owned();
    assert!(Path::new(&aside).join("chela.json").is_file(), "what was there is kept");
    assert_eq!(chela(&other.state, &["config", "get", "deployment.name"]).stdout.trim(), "first");
    assert_eq!(fs::metadata(other.state.path()).expect("there").permissions().mode() & 0o777, 0o700);
    Binary::serve(&other).terminate();
}

#[test]
fn a_directory_behind_a_link_is_replaced_where_it_is_and_the_link_stays() {
    let dir = TestDir::with_config(|config| config["deployment"]["name"] = json!("first"));
    let archive = dir.scratch().join("backup.tar");
    assert_eq!(chela(&dir.state, &["backup", &text(&archive)]).code, Some(0));
    dir.edit_config(|config| config["deployment"]["name"] = json!("second"));
    // As systemd has it: /var/lib/chela leads to private/chela.
    let (private, link) = (dir.scratch().join("private"), StateDir::new(dir.scratch().join("linked")));
    fs::create_dir(&private).expect("made");
    fs::rename(dir.state.path(), private.join("chela")).expect("moved");
    std::os::unix::fs::symlink("private/chela", link.path()).expect("linked");
    let replaced = chela(&link, &["restore", &text(&archive), "--replace", "--json"]);
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    assert_eq!(fs::read_link(link.path()).expect("still a link"), Path::new("private/chela"));
    assert_eq!(chela(&link, &["config", "get", "deployment.name"]).stdout.trim(), "first");
    let aside = StateDir::new(replaced.json()["aside"].as_str().expect("a place"));
    assert_eq!(aside.path().parent().map(|folder| folder.canonicalize().ok()), Some(private.canonicalize().ok()));
    assert_eq!(chela(&aside, &["config", "get", "deployment.name"]).stdout.trim(), "second");
}

#[test]
fn a_mount_point_is_filled_and_replaced_from_within() {
    if !have("mounts") {
        return;
    }
    let dir = TestDir::with_config(|config| config["deployment"]["name"] = json!("first"));
    Binary::serve(&dir).terminate();
    let archive = dir.scratch().join("backup.tar");
    assert_eq!(chela(&dir.state, &["backup", &text(&archive)]).code, Some(0));
    let mount = dir.scratch().join("mount");
    fs::create_dir(&mount).expect("made");
    let program = chela_command(&dir.state).get_program().to_owned();
    let script = r#"set -e
        mount -t tmpfs tmpfs "$2"; mkdir "$2/lost+found"
        export CHELA_STATE_DIR="$2"
        "$0" restore "$1"
        "$0" config set deployment.name second
        "$0" restore "$1" && exit 9
        "$0" restore "$1" --replace
        "$0" config get deployment.name
        CHELA_STATE_DIR=$(echo "$2"/.chela-before-*) "$0" config get deployment.name
        "$0" backup - 2>&1 >/dev/null
        ls -A "$2""#;
    let mut command = std::process::Command::new("unshare");
    command.args(["-rm", "sh", "-c", script]).arg(program).arg(&archive).arg(&mount);
    let output = command.output().expect("runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("\nfirst\nsecond\n"), "{said}");
    assert!(said.contains("left out: .chela-before-") && said.contains("lost+found"), "{said}");
    assert!(!said.contains(".chela-restore-"), "nothing is left: {said}");
}

#[test]
fn more_files_than_may_be_open_are_backed_up_while_a_gateway_serves() {
    let dir = TestDir::with_config(|_| {});
    let serving = Binary::serve(&dir);
    say(&dir, "before");
    let notes = dir.state.path().join("workspace-ruda/notes");
    fs::create_dir_all(&notes).expect("made");
    for nth in 0..500 {
        fs::write(notes.join(format!("{nth}.md")), format!("note {nth}")).expect("written");
    }
    let archive = dir.scratch().join("backup.tar");
    let plain = chela_command(&dir.state);
    let mut few = std::process::Command::new("sh");
    few.args(["-c", "ulimit -n 96 && exec \"$0\" backup \"$1\""]).arg(plain.get_program()).arg(&archive);
    few.env("CHELA_STATE_DIR", dir.state.path());
    let output = few.output().expect("runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(serving.terminate().code, Some(0));
    let restored = TestDir::empty();
    let made = chela(&restored.state, &["restore", &text(&archive)]);
    assert_eq!(made.code, Some(0), "{made:?}");
    for nth in 0..500 {
        let note = restored.state.path().join(format!("workspace-ruda/notes/{nth}.md"));
        assert_eq!(fs::read_to_string(note).expect("it is there"), format!("note {nth}"));
    }
    assert_eq!(transcript(&restored.state, "ruda").len(), transcript(&dir.state, "ruda").len());
}

#[test]
fn nobody_begins_to_serve_a_directory_while_it_is_copied() {
    let dir = TestDir::with_config(|_| {});
    // Its run file stays, and does not make a gateway of whoever holds the directory now.
    Binary::serve(&dir).kill();
    let large = dir.state.path().join("workspace-ruda/large");
    fs::write(&large, vec![7_u8; 8 << 20]).expect("written");
    let mut command = chela_command(&dir.state);
    let mut backup = command.args(["backup", "-"]).stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut copied = backup.stdout.take().expect("piped");
    // More than a pipe holds is still to come, so it waits for us.
    let mut archive = vec![0_u8];
    copied.read_exact(&mut archive).expect("it has begun to copy");
    let early = Binary::spawn(&dir, &[]).finished();
    assert_eq!(early.code, Some(75), "{early:?}");
    let status = chela(&dir.state, &["status"]);
    assert!(status.code == Some(69) && status.stdout.contains("ended without a word"), "{status:?}");
    let another = chela(&dir.state, &["backup", &text(&dir.scratch().join("another.tar"))]);
    assert_eq!(another.code, Some(75), "{another:?}");
    copied.read_to_end(&mut archive).expect("the rest");
    assert!(backup.wait().expect("it ends").success());
    let file = dir.scratch().join("piped.tar");
    fs::write(&file, archive).expect("written");
    assert_eq!(chela(&dir.state, &["restore", &text(&file), "--check"]).code, Some(0));
    Binary::serve(&dir).terminate();
}

#[test]
fn an_archive_is_checked_without_a_file_being_written() {
    let dir = TestDir::with_config(|_| {});
    let archive = dir.scratch().join("backup.tar");
    assert_eq!(chela(&dir.state, &["backup", &text(&archive)]).code, Some(0));
    let (elsewhere, temporary) = (TestDir::empty(), dir.scratch().join("temporary"));
    let check = || {
        let mut command = chela_command(&elsewhere.state);
        let output = command.args(["restore", "--check"]).arg(&archive).env("TMPDIR", &temporary).output();
        let output = output.expect("the binary runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(check(), (Some(0), String::new()));
    let mut bytes = fs::read(&archive).expect("readable");
    let needle = b"\"gateway\"";
    let at = bytes.windows(needle.len()).position(|window| window == needle).expect("the configuration is in it");
    bytes[at + 1] = b'G';
    fs::write(&archive, bytes).expect("written");
    let (code, said) = check();
    assert!(code == Some(1) && said.contains("is not what was backed up"), "{said}");
    assert!(!temporary.exists() && !elsewhere.state.path().exists(), "nothing is made for it");
}

#[test]
fn what_cannot_be_written_or_is_there_is_refused() {
    let dir = TestDir::with_config(|_| {});
    let there = dir.scratch().join("there.tar");
    fs::write(&there, "mine").expect("written");
    let check = |arguments: &[&str], said: &str| {
        let refused = chela(&dir.state, arguments);
        assert!(refused.code == Some(1) && refused.stderr.contains(said), "{arguments:?}: {refused:?}");
    };
    check(&["backup", &text(&there)], "--force");
    assert_eq!(fs::read_to_string(&there).expect("readable"), "mine");
    check(&["backup", &text(&dir.state.path().join("in.tar"))], "lies in the state directory");
    check(&["backup", "/nowhere/at/all.tar"], "cannot write");
    let none = TestDir::empty();
    let refused = chela(&none.state, &["backup", &text(&none.scratch().join("x.tar"))]);
    assert!(refused.code == Some(1) && refused.stderr.contains("nothing to back up"), "{refused:?}");
}

#[test]
fn an_archive_that_was_tampered_with_is_refused_and_nothing_is_changed() {
    let dir = TestDir::with_config(|_| {});
    Binary::serve(&dir).terminate();
    let archive = dir.scratch().join("backup.tar");
    assert_eq!(chela(&dir.state, &["backup", &text(&archive)]).code, Some(0));
    let whole = fs::read(&archive).expect("readable");
    let restored = TestDir::empty();
    let check = |bytes: &[u8], said: &str| {
        let bad = restored.scratch().join("bad.tar");
        fs::write(&bad, bytes).expect("written");
        let refused = chela(&restored.state, &["restore", &text(&bad)]);
        assert!(refused.code != Some(0) && refused.stderr.contains(said), "{said}: {refused:?}");
        assert!(!restored.state.path().exists(), "nothing was put in place");
        let left: Vec<_> = fs::read_dir(restored.scratch()).expect("readable").flatten().collect();
        assert_eq!(left.len(), 1, "nothing is left: {left:?}");
    };
    check(b"", "no backup of chela");
    check(b"not a tar file at all", "no backup of chela");
    check(&whole[..whole.len() / 2], "damaged");
    let needle = b"\"deployment\"";
    let at = whole.windows(needle.len()).position(|window| window == needle).expect("the configuration is in it");
    let mut changed = whole.clone();
    changed[at + 1] = b'D';
    check(&changed, "is not what was backed up");
    let mut newer = whole.clone();
    let needle = b"\"layout\": 1";
    let at = newer.windows(needle.len()).position(|window| window == needle).expect("it says its layout");
    newer[at + needle.len() - 1] = b'7';
    check(&newer, "was written by chela");
    for name in ["state/../../out", "/etc/out", "state/x"] {
        let bytes = with_entry(&whole, name);
        let refused = if name == "state/x" { "comes after the end" } else { "backup" };
        check(&bytes, refused);
    }
}

/// An archive with one more file at its end.
fn with_entry(whole: &[u8], name: &str) -> Vec<u8> {
    let end = whole.len() - 1024;
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000600");
    header[124..135].copy_from_slice(b"00000000000");
    header[136..147].copy_from_slice(b"00000000000");
    header[148..156].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..263].copy_from_slice(b"ustar\0");
    header[263..265].copy_from_slice(b"00");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    [&whole[..end], &header, &[0; 1024]].concat()
}
