//! The rules of the tree that a compiler does not hold.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests is a directory of the repository").to_owned()
}

/// Every Rust file below `folder`, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut left = vec![root().join(folder)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(fs::read_dir(&path).expect("readable").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).expect("readable");
            found.push((path, text));
        }
    }
    assert!(!found.is_empty(), "{folder} has Rust files");
    found
}

/// Where the rooms of the host are, from the lowest up. Cargo holds the directions between them, this file those within each.
const CRATES: [&str; 4] = ["host/words/src", "host/machinery/src", "host/plugins/src", "host/src"];

/// The rooms of the host in reading order, as the `lib.rs` of each crate lists them.
fn rooms() -> Vec<String> {
    let name = |line: &str| line.strip_prefix("pub mod ")?.strip_suffix(';').map(str::to_owned);
    let listed = |folder: &str| -> Vec<String> {
        // One room alone: its own parts are nobody else's.
        if folder == "host/plugins/src" {
            return vec!["plugins".to_owned()];
        }
        let map = fs::read_to_string(root().join(folder).join("lib.rs")).expect("readable");
        map.lines().filter_map(name).collect()
    };
    CRATES.into_iter().flat_map(listed).collect()
}

/// Every file of the rooms, with its text.
fn files_of_rooms() -> Vec<(PathBuf, String)> {
    CRATES.into_iter().flat_map(sources).collect()
}

/// The room a file of the host belongs to; none for `main.rs` and `lib.rs`.
fn room_of(path: &Path) -> Option<String> {
    let inside =
        CRATES.into_iter().find_map(|folder| path.strip_prefix(root().join(folder)).ok().map(|rest| (folder, rest)));
    let (folder, inside) = inside?;
    if folder == "host/plugins/src" {
        return Some("plugins".to_owned());
    }
    let first = Path::new(inside.components().next()?.as_os_str());
    Some(first.file_stem()?.to_str()?.to_owned()).filter(|name| name != "main" && name != "lib")
}

/// The rooms that a text names by `crate::room`, also within `use crate::{a, b::{c, d}}`.
fn rooms_named_in(text: &str, rooms: &[String]) -> Vec<String> {
    let mut named = Vec::new();
    for (at, _) in text.match_indices("crate::") {
        named.extend(first_names(&text[at + "crate::".len()..]).into_iter().filter(|name| rooms.contains(name)));
    }
    named
}

/// The first name of a path, or of every path of a group in braces.
fn first_names(rest: &str) -> Vec<String> {
    let word = |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let Some(group) = rest.strip_prefix('{') else { return vec![word(rest)] };
    let mut names = vec![word(group)];
    let mut depth = 0;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => names.push(word(&group[at + 1..])),
            _ => {}
        }
    }
    names
}

#[test]
fn rooms_use_only_rooms_before_them() {
    let rooms = rooms();
    let place = |name: &str| rooms.iter().position(|room| room == name).expect("a room of lib.rs");
    let mut wrong = Vec::new();
    for (path, text) in files_of_rooms() {
        let Some(room) = room_of(&path) else { continue };
        for used in rooms_named_in(&text, &rooms) {
            if place(&used) > place(&room) {
                wrong.push(format!("{} uses `{used}`, which lib.rs lists after `{room}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_check_of_directions_sees_every_way_to_name_a_room() {
    let rooms = ["bus".to_owned(), "edge".to_owned(), "app".to_owned()];
    let check = |text: &str, expected: &[&str]| assert_eq!(rooms_named_in(text, &rooms), expected, "{text}");
    check("use crate::edge::Port;", &["edge"]);
    check("use crate::{bus, edge};", &["bus", "edge"]);
    check("use crate::{bus::{self, Bus}, edge::{Port, x::{Y}}, app};", &["bus", "edge", "app"]);
    check("crate::app::init(dir)", &["app"]);
    check("use crate::edges::Port; use super::bus;", &[]);
}

#[test]
fn each_foreign_world_is_known_to_one_room() {
    let owners = [
        ("axum", "edge"),
        ("wasmtime", "plugins"),
        ("clap", "cli"),
        ("notify", "watch"),
        ("rusqlite", "monitor"),
        ("jiff", "clock"),
        ("rustls", "tls"),
        ("hyper_rustls", "tls"),
        ("tokio_rustls", "tls"),
    ];
    for (path, text) in files_of_rooms() {
        let room = room_of(&path).unwrap_or_default();
        for (krate, owner) in owners {
            let mut code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let named = code.any(|line| line.contains(&format!("{krate}::")));
            assert!(room == owner || !named, "{} names {krate}, which is for `{owner}` alone", path.display());
        }
    }
}

#[test]
fn what_must_be_absent_is_absent() {
    for (path, text) in files_of_rooms() {
        let room = room_of(&path).unwrap_or_default();
        assert!(room == "clock" || !text.contains("SystemTime::now"), "{}: time comes from `clock`", path.display());
        let made = room != "event" && text.lines().any(|line| line.contains(" Event {"));
        assert!(!made, "{}: `Event::of` and `Event::system` make events, and give each its role", path.display());
        assert!(!text.contains("unbounded"), "{}: every queue has an end", path.display());
        assert!(!text.contains("dbg!") && !text.contains("println!"), "{}: speaks past the log", path.display());
    }
}

/// Where `unsafe` may stand, and how often. A further line needs a reason here and in SECURITY.md.
const UNSAFE: [(&str, usize); 1] = [("host/plugins/src/cache.rs", 1)];

#[test]
fn unsafe_stands_where_it_is_documented_and_nowhere_else() {
    // So that this file does not name itself.
    let word = ["un", "safe"].concat();
    let opens = |line: &str| {
        let code = line.trim_start();
        let kinds = [" {", " fn", " impl", " trait", " extern", "("];
        !code.starts_with("//") && kinds.iter().any(|kind| code.contains(&format!("{word}{kind}")))
    };
    let mut found = Vec::new();
    for (path, text) in ["host", "tests", "xtask", "plugins"].into_iter().flat_map(sources) {
        let name = path.strip_prefix(root()).expect("inside").display().to_string();
        let count = text.lines().filter(|line| opens(line)).count();
        let lifted = text.contains(&format!("{word}_code,")) || text.contains(&format!("({word}_code"));
        assert!(count > 0 || !lifted, "{name} lifts a ban that it does not need");
        if count > 0 {
            assert!(lifted && text.contains("reason = "), "{name} does not say why");
            found.push((name, count));
        }
    }
    found.sort();
    assert_eq!(found, UNSAFE.map(|(name, count)| (name.to_owned(), count)));
    let (lines, security) = (UNSAFE.iter().map(|(_, count)| count).sum::<usize>(), root().join("SECURITY.md"));
    let security = fs::read_to_string(security).expect("readable");
    assert_eq!((lines, security.contains("but for one line that says why")), (1, true));
    let workspace = fs::read_to_string(root().join("Cargo.toml")).expect("readable");
    assert!(workspace.contains(&format!("{word}_code = \"deny\"")), "the workspace denies it");
}

#[test]
fn crates_come_from_where_deny_toml_says_and_none_is_banned() {
    let (lock, rules) = (root().join("Cargo.lock"), root().join("deny.toml"));
    let lock = fs::read_to_string(lock).expect("readable");
    let rules = fs::read_to_string(rules).expect("readable");
    // What stands above is taken in spite of its licence.
    let (_, bans) = rules.split_once("[bans]").expect("a list of bans");
    let banned: Vec<&str> = bans.split("crate = \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(banned.len() >= 2, "{banned:?}");
    for name in banned {
        assert!(!lock.contains(&format!("name = \"{name}\"")), "deny.toml bans {name}");
    }
    let sources: std::collections::BTreeSet<&str> =
        lock.lines().filter_map(|line| line.strip_prefix("source = ")).collect();
    assert_eq!(sources.len(), 1, "one registry, and nothing from a repository: {sources:?}");
    assert!(sources.iter().all(|source| source.starts_with("\"registry+")), "{sources:?}");
}

#[test]
fn storage_stands_alone() {
    let manifest = fs::read_to_string(root().join("host/storage/Cargo.toml")).expect("readable");
    for krate in ["tokio", "wasmtime", "axum", "chela."] {
        assert!(!manifest.contains(krate), "host/storage depends on {krate}");
    }
}

#[test]
fn every_file_opens_with_its_promise_and_stays_readable() {
    for folder in ["host", "tests", "xtask", "plugins"] {
        for (path, text) in sources(folder) {
            let name = path.strip_prefix(root()).expect("inside").display().to_string();
            assert!(text.starts_with("//! "), "{name} does not open with what it is");
            assert!(text.lines().count() <= 600, "{name} is past 600 lines: split it");
            assert!(!name.ends_with("mod.rs"), "{name}: a room is `room.rs` beside `room/`");
        }
    }
}

#[test]
fn every_member_takes_versions_and_lints_from_the_workspace() {
    for folder in ["host", "host/words", "host/machinery", "host/plugins", "host/storage", "tests", "xtask"] {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).expect("readable");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{folder} has lints of its own");
        assert!(!manifest.contains("version = \""), "{folder} names a version; put it into the workspace");
    }
}

/// Nothing that a case asks for may be missing where nothing may be skipped.
#[test]
fn ci_requires_what_cases_ask_for() {
    let text = fs::read_to_string(root().join(".ci/run")).expect("readable");
    let required = text.lines().find_map(|line| line.strip_prefix("export CHELA_REQUIRE=")).expect("a line");
    let mut asked = HashSet::from(["componentize-js".to_owned(), "componentize-py".to_owned()]);
    for (_, text) in sources("tests/") {
        let names = text.split("have(\"").skip(1).filter_map(|rest| rest.split_once("\")"));
        asked.extend(names.map(|(name, _)| name.to_owned()));
    }
    // Where it is not, guests are built from the sources of the standard library.
    asked.remove("wasm-target");
    assert!(asked.contains("openssl"), "{asked:?}");
    for tool in asked {
        assert!(required.split(',').any(|one| one == tool), "{tool} is not in `{required}`");
    }
}
