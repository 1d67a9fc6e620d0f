//! What programs see of plugins and of agents' workspaces: on every listener, bounded, never outside, never changed.

use std::fs;
use std::os::unix::fs::symlink;

use chela::client::Client;
use chela::port::Port;
use serde_json::{Value, json};
use support::{TestHost, guest, path_of};

fn names(folder: &Value) -> Vec<String> {
    let entries = folder["entries"].as_array().unwrap_or_else(|| panic!("no entries in {folder}"));
    entries.iter().map(|entry| entry["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn a_workspace_is_read_folder_by_folder_and_part_by_part() {
    let host = TestHost::start();
    let home = host.dir.state.path().join("workspace-eden");
    fs::create_dir_all(home.join("notes")).expect("made");
    let long = "안녕하세요 ".repeat(4_000);
    fs::write(home.join("notes/long.md"), &long).expect("written");
    let (status, root) = host.get("/api/workspace/eden/files");
    assert_eq!((status, &root["kind"], &root["more"]), (200, &json!("directory"), &json!(false)), "{root}");
    assert!(names(&root).contains(&"notes".to_owned()), "{root}");
    let (_, notes) = host.get("/api/workspace/eden/files/notes");
    assert_eq!(notes["entries"], json!([{ "name": "long.md", "kind": "file" }]));
    let (mut read, mut offset) = (String::new(), Some(0));
    while let Some(from) = offset {
        let (status, part) = host.get(&format!("/api/workspace/eden/files/notes/long.md?offset={from}"));
        assert_eq!((status, &part["size"], &part["offset"]), (200, &json!(long.len()), &json!(from)), "{part}");
        let text = part["content"].as_str().expect("a text");
        assert!(!text.is_empty() && text.len() <= 32 * 1024, "{} bytes", text.len());
        read.push_str(text);
        offset = part["nextOffset"].as_u64();
    }
    assert_eq!(read, long);
    let (_, part) = host.get("/api/workspace/eden/files/notes/long.md?limit=4");
    assert_eq!((&part["content"], &part["nextOffset"]), (&json!("안"), &json!(3)));
    let changed = host.request("POST", "/api/workspace/eden/files/notes/long.md", &[], b"mine");
    assert_eq!(changed.status, 405, "it is read only");
    assert_eq!(fs::read_to_string(home.join("notes/long.md")).expect("readable"), long);
}

#[test]
fn nothing_outside_a_workspace_is_served() {
    let host = TestHost::start();
    let home = host.dir.state.path().join("workspace-eden");
    fs::create_dir_all(&home).expect("made");
    symlink("/etc/passwd", home.join("passwd")).expect("linked");
    symlink("..", home.join("up")).expect("linked");
    fs::write(home.join("odd"), [0xff, 0xfe, 0x00]).expect("written");
    fs::write(home.join("plain"), "x").expect("written");
    let check = |path: &str, expected: (u16, &str)| {
        let (status, body) = host.get(&format!("/api/workspace/{path}"));
        assert_eq!((status, body["error"]["code"].as_str().unwrap_or_default()), expected, "{path}: {body}");
    };
    const BAD: (u16, &str) = (400, "invalid_parameter");
    const NONE: (u16, &str) = (404, "unknown_id");
    for path in ["passwd", "up", "up/chela.json", "%2Fetc%2Fpasswd", "..%2Fchela.json", "%2e%2e", "odd", "a%00b"] {
        check(&format!("eden/files/{path}"), BAD);
    }
    check(&format!("eden/files/{}", "x".repeat(3_000)), BAD);
    for path in ["eden/files/none", "eden/files/plain/below", "nobody/files", "..%2Feden/files"] {
        check(path, NONE);
    }
    for query in ["offset=-1", "offset=x", "limit=0", "limit=3", "limit=32769", "path=plain", "limit=4&limit=5"] {
        check(&format!("eden/files/plain?{query}"), BAD);
    }
    check("eden/files?offset=1", BAD);
}

#[test]
fn plugins_are_listed_on_every_listener_as_the_method_lists_them() {
    let host = TestHost::with_classifier("steady", json!({}));
    fs::write(host.dir.state.plugins().join("spare.wasm"), fs::read(guest("steady")).expect("readable"))
        .expect("dropped");
    let mut known = host.call("plugin.slots", json!({})).expect("answered");
    for port in Port::ALL {
        let client = Client::new(host.address(port), Some(host.token.clone()));
        let answer = host.block_on(client.get("/api/plugins")).expect("an answer");
        let mut listed = answer.json();
        assert_eq!(answer.status, 200, "{port:?}: {listed}");
        assert_eq!(listed["slots"][0]["plugin"]["source"], path_of(&guest("steady")), "{port:?}");
        assert_eq!(listed["installed"], json!(["spare.wasm"]), "{port:?}");
        // Calls go on meanwhile.
        for slots in [&mut listed, &mut known] {
            slots["slots"].as_array_mut().expect("slots").iter_mut().for_each(|slot| slot["stats"] = Value::Null);
        }
        assert_eq!(listed, known, "{port:?}");
    }
    assert_eq!(host.get("/api/plugins?slot=classifier").0, 400);
}
