//! `chela sessions`: conversations with agents, listed, shown, begun anew and deleted by the real binary.

use serde_json::{Value, json};
use support::{Binary, Finished, TestDir, chela};

const ECHO: &str = r#"{ otherwise: "You said: {{input}}" }"#;

fn done(finished: Finished) -> String {
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    finished.stdout
}

fn keys(document: &Value) -> Vec<&str> {
    document["sessions"].as_array().expect("a list").iter().map(|row| row["key"].as_str().expect("a key")).collect()
}

/// A gateway with three conversations, the latest with Kim.
fn serving() -> (TestDir, Binary) {
    let dir = TestDir::scripted(ECHO, |_| {});
    let serving = Binary::serve(&dir);
    for (whom, text) in [("ruda", "first"), ("eden", "둘째"), ("agent:eden:direct:kim", "third")] {
        done(chela(&dir.state, &["send", whom, text, "--wait"]));
    }
    (dir, serving)
}

#[test]
fn conversations_are_listed_with_the_latest_first() {
    let (dir, serving) = serving();
    let text = done(chela(&dir.state, &["sessions"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("KEY") && lines[0].contains("STATUS") && lines[0].ends_with("LABEL"), "{text}");
    assert!(lines[1].starts_with("agent:eden:direct:kim  done    0"), "{text}");
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(done(chela(&dir.state, &["sessions", "list"])), text);

    let all = chela(&dir.state, &["sessions", "--json"]).json();
    assert_eq!(keys(&all), ["agent:eden:direct:kim", "agent:eden:main", "agent:ruda:main"]);
    let row = &all["sessions"][0];
    assert_eq!((&row["status"], &row["queued"]), (&json!("done"), &json!(0)));
    assert!(row["updatedAt"].is_u64() && row["totalTokens"].is_u64(), "{row}");
    let of_eden = chela(&dir.state, &["sessions", "list", "--agent", "eden", "--json"]).json();
    assert_eq!(keys(&of_eden), ["agent:eden:direct:kim", "agent:eden:main"]);
    let one = chela(&dir.state, &["sessions", "list", "--limit", "1", "--json"]);
    assert_eq!(keys(&one.json()), ["agent:eden:direct:kim"]);
    assert!(one.stderr.contains("there are 3 in all"), "{}", one.stderr);
    let none = done(chela(&dir.state, &["sessions", "--agent", "seum"]));
    assert!(none.contains("no conversations yet"), "{none}");
    serving.terminate();
}

#[test]
fn the_last_messages_of_one_are_shown() {
    let (dir, serving) = serving();
    done(chela(&dir.state, &["send", "eden", "셋째", "--wait"]));
    let text = done(chela(&dir.state, &["sessions", "show", "eden"]));
    assert!(text.starts_with("agent:eden:main  done, "), "{text}");
    let said = ["  둘째", "  You said: 둘째", "  셋째", "  You said: 셋째"];
    let places: Vec<usize> =
        said.iter().map(|line| text.find(line).unwrap_or_else(|| panic!("{line}: {text}"))).collect();
    assert!(places.is_sorted(), "{text}");
    let last = done(chela(&dir.state, &["sessions", "show", "agent:eden:main", "--limit", "1"]));
    assert!(last.contains("the last 1 of 4 messages") && !last.contains("둘째"), "{last}");
    let document = chela(&dir.state, &["sessions", "show", "eden", "--json"]).json();
    assert_eq!(document["messages"].as_array().map(Vec::len), Some(4));
    assert_eq!(document["session"]["key"], "agent:eden:main");
    serving.terminate();
}

#[test]
fn one_begins_anew_or_is_deleted_and_the_answer_says_what_became_of_it() {
    let (dir, serving) = serving();
    let said = done(chela(&dir.state, &["sessions", "reset", "eden"]));
    assert!(said.starts_with("agent:eden:main begins anew; what was said stays in its transcript"), "{said}");
    let shown = done(chela(&dir.state, &["sessions", "show", "eden"]));
    assert!(shown.contains("You said: 둘째") && shown.trim_end().ends_with("system\n  Reset"), "{shown}");

    let said = done(chela(&dir.state, &["sessions", "delete", "agent:eden:direct:kim"]));
    assert!(said.starts_with("agent:eden:direct:kim is deleted; its transcript is kept in "), "{said}");
    let kept = said.trim().rsplit(' ').next().expect("a path");
    assert!(std::path::Path::new(kept).is_file(), "{kept}");
    assert_eq!(keys(&chela(&dir.state, &["sessions", "--agent", "eden", "--json"]).json()), ["agent:eden:main"]);

    done(chela(&dir.state, &["send", "agent:eden:direct:lee", "hi", "--wait"]));
    let said = done(chela(&dir.state, &["sessions", "delete", "agent:eden:direct:lee", "--erase"]));
    assert!(said.contains("its transcript is erased"), "{said}");
    let document = chela(&dir.state, &["sessions", "reset", "ruda", "--json"]).json();
    assert_eq!((&document["ok"], &document["key"]), (&json!(true), &json!("agent:ruda:main")));
    serving.terminate();
}

#[test]
fn what_cannot_be_done_is_said() {
    let (dir, serving) = serving();
    let refused = |arguments: &[&str], code: i32, expected: &str| {
        let said = chela(&dir.state, arguments);
        assert_eq!(said.code, Some(code), "{said:#?}");
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    };
    refused(&["sessions", "show", "agent:eden:direct:nobody"], 1, "there is no session agent:eden:direct:nobody");
    refused(&["sessions", "delete", "agent:eden:direct:nobody"], 1, "there is no session");
    refused(&["sessions", "delete", "eden"], 1, "main");
    refused(&["sessions", "show", "agent:eden:"], 1, "is not a session key");
    refused(&["sessions", "show", "nobody"], 1, "nobody");
    refused(&["sessions", "list", "--limit", "0"], 2, "1..=1000");
    refused(&["sessions", "--agent", "eden", "show", "eden"], 2, "filters stand behind `list`");
    serving.terminate();
    refused(&["sessions"], 69, "no gateway serves");
}
