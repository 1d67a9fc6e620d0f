//! Small cases, one line each: a text, what is asked of it, and the text after.

use crate::{DEPTH_MAX, Error, Options, TEXT_BYTES_MAX, get, line_of, patch, set};
use serde_json::{Value, json};

fn check(before: &str, change: &str, after: &str) {
    check_with(&[], before, change, after);
}

fn check_with(replace: &[&str], before: &str, change: &str, after: &str) {
    let options = Options { replace_paths: replace.iter().map(|path| (*path).to_owned()).collect() };
    let change = json5::from_str(change).expect("read");
    let patched = patch(before, &change, &options).expect("changed");
    assert_eq!(patched.text, after, "{before:?} with {change}");
    assert_eq!(before == after, patched.changed.is_empty(), "{:?}", patched.changed);
}

fn check_set(before: &str, path: &str, value: Value, after: &str) {
    assert_eq!(set(before, path, Some(&value)).expect("changed").text, after);
}

fn check_remove(before: &str, path: &str, after: &str) {
    assert_eq!(set(before, path, None).expect("changed").text, after);
}

fn check_changed(before: &str, change: Value, changed: &[&str]) {
    assert_eq!(patch(before, &change, &Options { replace_paths: vec!["r".into()] }).expect("changed").changed, changed);
}

fn refused(before: &str, change: Value) -> Error {
    patch(before, &change, &Options::default()).unwrap_err()
}

fn said(text: &str) -> String {
    get(text, "").unwrap_err().to_string()
}

#[test]
fn a_value_is_replaced_and_nothing_else() {
    check("{ a : 1 , /* x */ b:2 } // end", "{a: 5}", "{ a : 5 , /* x */ b:2 } // end");
    check("{a: 'x', b: \"y\"}", "{a: \"it's\", b: 'z'}", "{a: 'it\\'s', b: \"z\"}");
    check("{a: {b: {c: 1}}}", "{a: {b: {c: [1, 2]}}}", "{a: {b: {c: [1, 2]}}}");
    check("{\n  a: 1,\n}", "{a: {b: 1}}", "{\n  a: {\n    b: 1,\n  },\n}");
    check("{\n  a: 1\n}", "{a: {b: {}, c: []}}", "{\n  a: {\n    b: {},\n    c: []\n  }\n}");
}

#[test]
fn equal_values_leave_every_byte() {
    let odd = "{a: 0x10, b: +.5, c: 'x\\\ny', d: Infinity, e: [1,]}";
    check(odd, "{}", odd);
    check(
        "{a: 0x10, c: 'x\\\ny', 'd': [1 , 2]}",
        "{a: 16, c: 'xy', d: [1, 2]}",
        "{a: 0x10, c: 'x\\\ny', 'd': [1 , 2]}",
    );
    check("{a: 1}", "{b: null}", "{a: 1}");
}

#[test]
fn a_new_key_goes_to_the_end_in_the_manner_of_its_siblings() {
    check("{a: 1}", "{b: 2}", "{a: 1, b: 2}");
    check("{ a: 1 }", "{b: {c: [2]}}", "{ a: 1, b: {c: [2]} }");
    check("{a: 1,}", "{b: 2, c: 3}", "{a: 1, b: 2, c: 3,}");
    check("{\n  a: 1\n}\n", "{b: 2}", "{\n  a: 1,\n  b: 2\n}\n");
    check("{\n    a: 1,\n}\n", "{b: {c: 1}}", "{\n    a: 1,\n    b: {\n        c: 1,\n    },\n}\n");
    check("{\r\n\ta: 1\r\n}", "{b: {c: 1}}", "{\r\n\ta: 1,\r\n\tb: {\r\n\t\tc: 1\r\n\t}\r\n}");
    check("{\n  a: {\n  },\n}", "{a: {b: 1}}", "{\n  a: {\n    b: 1,\n  },\n}");
    check("{ a: 1,\n  b: 2 }", "{c: 3}", "{ a: 1,\n  b: 2,\n  c: 3 }");
}

#[test]
fn a_comma_goes_before_the_comments_of_the_last_entry() {
    check("{\n  a: 1 // one\n}", "{b: 2}", "{\n  a: 1, // one\n  b: 2\n}");
    check("{\n  a: 1, // one\n  // c: 3\n}", "{b: 2}", "{\n  a: 1, // one\n  b: 2,\n  // c: 3\n}");
    check("{a: 1 /* one */}", "{b: 2}", "{a: 1, /* one */ b: 2}");
    check("{ a: 1 // one\n}", "{b: 2}", "{ a: 1, // one\n  b: 2\n}");
    check("{\n  a: 1 /* one\n  more */\n}", "{b: 2}", "{\n  a: 1,\n  b: 2 /* one\n  more */\n}");
}

#[test]
fn an_empty_object_opens_unless_its_parent_is_one_line() {
    check("{}", "{a: {b: 1}}", "{\n  \"a\": {\n    \"b\": 1\n  }\n}");
    check("{a: {}}", "{a: {b: 1}}", "{a: {b: 1}}");
    check("{\n  a: {},\n}", "{a: {b: 1}}", "{\n  a: {\n    b: 1,\n  },\n}");
    check("{ /* none */ }", "{a: 1}", "{ /* none */ \"a\": 1 }");
    check("{ // none\n}", "{a: 1}", "{ // none\n  \"a\": 1\n}");
}

#[test]
fn a_new_key_has_quotes_where_it_or_a_sibling_needs_them() {
    check("{a: 1}", "{'b-c': 2}", "{a: 1, \"b-c\": 2}");
    check("{'a': 1}", "{b: 2}", "{'a': 1, \"b\": 2}");
    check("{\"a\": 1, b: 2}", "{c: 3}", "{\"a\": 1, b: 2, \"c\": 3}");
    check("{a: 1}", "{'': 2, '1a': 3, '소라': 4}", "{a: 1, \"\": 2, \"1a\": 3, \"소라\": 4}");
    check("{l: [{id: 1}]}", "{l: [{id: 2, k: 3}]}", "{l: [{id: 1}, {id: 2, k: 3}]}");
}

#[test]
fn a_deleted_entry_takes_its_line_and_the_comment_at_its_end() {
    check("{\n  a: 1, // one\n  b: 2\n}", "{a: null}", "{\n  b: 2\n}");
    check("{\n  a: 1,\n  b: {\n    c: 1,\n  }, // two\n\n  d: 3,\n}", "{b: null}", "{\n  a: 1,\n\n  d: 3,\n}");
    check("{\n  // above\n  a: 1,\n  b: 2\n}", "{a: null}", "{\n  // above\n  b: 2\n}");
    check("{\r\n  a: 1,\r\n  b: 2\r\n}", "{a: null}", "{\r\n  b: 2\r\n}");
    check("{\n  a: 1, b: 2,\n  c: 3\n}", "{a: null, b: null}", "{\n  c: 3\n}");
}

#[test]
fn a_deleted_entry_leaves_the_others_on_its_line() {
    check("{a: 1, b: 2, c: 3}", "{b: null}", "{a: 1, c: 3}");
    check("{ a: 1, b: 2 }", "{a: null}", "{ b: 2 }");
    check("{\n  a: 1, b: 2, // both\n}", "{b: null}", "{\n  a: 1, // both\n}");
    check("{ /* x */ a: 1, b: 2 }", "{a: null}", "{ /* x */ b: 2 }");
}

#[test]
fn deleting_the_last_entry_keeps_the_manner_of_trailing_commas() {
    check("{a: 1, b: 2}", "{b: null}", "{a: 1}");
    check("{a: 1, b: 2,}", "{b: null}", "{a: 1,}");
    check("{\n  a: 1, // one\n  b: 2 // two\n}", "{b: null}", "{\n  a: 1 // one\n}");
    check("{\n  a: 1,\n  b: 2,\n}", "{b: null, c: 3}", "{\n  a: 1,\n  c: 3,\n}");
    check("{\n  a: 1,\n  b: 2\n}", "{b: null, c: 3}", "{\n  a: 1,\n  c: 3\n}");
    check("{a: 1\n, b: 2\n, c: 3}", "{b: null}", "{a: 1\n,\n c: 3}");
}

#[test]
fn an_object_that_loses_everything_closes_unless_a_comment_is_left() {
    check("{ a: 1 }", "{a: null}", "{}");
    check("{x: {\n  a: 1, // one\n  b: 2,\n}}", "{x: {a: null, b: null}}", "{x: {}}");
    check("{\n  // why\n  a: 1,\n}", "{a: null}", "{\n  // why\n}");
    check("{\n  a: 1,\n}", "{a: null, b: 2}", "{\n  b: 2,\n}");
    check("{ a: 1 /* x */ }", "{a: null, b: 2}", "{ b: 2 /* x */ }");
}

#[test]
fn of_a_key_that_stands_twice_the_last_is_changed_and_both_are_deleted() {
    check("{a: 1, b: 2, 'a': 3}", "{a: 4}", "{a: 1, b: 2, 'a': 4}");
    check("{a: 1, b: 2, 'a': 3}", "{a: null}", "{b: 2}");
}

#[test]
fn arrays_of_objects_with_an_id_merge_by_it() {
    let before = "{\n  l: [\n    // the first\n    { id: 'a', n: 1 }, // a\n    { id: 'b', n: 2 }\n  ]\n}";
    check(before, "{l: [{id: 'b', n: 3}]}", &before.replace("n: 2", "n: 3"));
    check(before, "{l: [{id: 'a', n: null}]}", &before.replace("'a', n: 1", "'a'"));
    let appended = before.replace("n: 2 }", "n: 2 },\n    {id: \"c\"}");
    check(before, "{l: [{id: 'c', x: null}]}", &appended);
    check_with(&["l"], before, "{l: [{id: 'b', n: 2}]}", "{\n  l: [\n    // the first\n    { id: 'b', n: 2 }\n  ]\n}");
    check("{}", "{l: [{id: 1, x: null}]}", "{\n  \"l\": [\n    {\n      \"id\": 1\n    }\n  ]\n}");
}

#[test]
fn other_arrays_are_replaced_but_entries_that_stay_keep_their_text() {
    check("{a: ['x', /* y */ 'y']}", "{a: ['x', 'y', 'z']}", "{a: ['x', /* y */ 'y', \"z\"]}");
    check("{a: []}", "{a: [1]}", "{a: [1]}");
    check_with(&["a"], "{a: [1, 2, 3]}", "{a: [1, 5, 3]}", "{a: [1, 5, 3]}");
    check_with(&["a"], "{a: [1, 2, 0x3]}", "{a: [2, 3, 4]}", "{a: [2, 0x3, 4]}");
    check_with(&["a"], "{a: [1, 2]}", "{a: []}", "{a: []}");
    check_with(&["a"], "{a: [1, 2]}", "{a: 'none'}", "{a: \"none\"}");
    check_with(&["l[].t"], "{l: [{id: 1, t: [1, 2]}]}", "{l: [{id: 1, t: [2]}]}", "{l: [{id: 1, t: [2]}]}");
    check("{a: [2, 1]}", "{a: [1, 2, 3]}", "{a: [1, 2, 3]}");
}

#[test]
fn an_array_loses_entries_only_if_it_is_named() {
    let lost = |path: &str| Error::WouldRemove { path: path.to_owned() };
    assert_eq!(refused("{a: {b: [1, 2]}}", json!({"a": {"b": [1]}})), lost("a.b"));
    assert_eq!(refused("{a: [1, 1]}", json!({"a": [1, 2, 3]})), lost("a"));
    assert_eq!(refused("{a: [1]}", json!({"a": 1})), lost("a"));
    assert_eq!(refused("{a: [1]}", json!({"a": {"b": 1}})), lost("a"));
    assert_eq!(refused("{l: [{id: 1}]}", json!({"l": []})), lost("l"));
    assert_eq!(refused("{l: [{id: 1}, {id: 2, t: ['x']}]}", json!({"l": [{"id": 2, "t": []}]})), lost("l[1].t"));
    check("{a: [1], b: 2}", "{a: null}", "{b: 2}");
}

#[test]
fn changed_paths_are_named_in_the_order_of_the_text() {
    check_changed(
        "{b: {c: 1}, 'x.y': 1, a: 2}",
        json!({"new": 1, "b": {"c": 2}, "x.y": 2, "a": null}),
        &["b.c", "[\"x.y\"]", "a", "new"],
    );
    check_changed("{l: [{id: 1, a: 1}]}", json!({"l": [{"id": 2}, {"id": 1, "a": 2}]}), &["l[0].a", "l[1]"]);
    check_changed("{r: [1, 2, 3]}", json!({"r": [1, 3, 4]}), &["r"]);
    check_changed("{a: 1}", json!({"a": 1}), &[]);
}

#[test]
fn set_changes_one_value_and_makes_objects_on_the_way() {
    check_set("{a: {b: 1}}", "a.b", json!(2), "{a: {b: 2}}");
    check_set("{a: 1}", "g.auth.mode", json!("token"), "{a: 1, g: {auth: {mode: \"token\"}}}");
    check_set("{l: [{id: 'a'}, {id: 'b' /* b */}]}", "l[1].id", json!("c"), "{l: [{id: 'a'}, {id: 'c' /* b */}]}");
    check_set("{l: [1]}", "l[1]", json!(2), "{l: [1, 2]}");
    check_set("{a: null}", "a.b", json!(null), "{a: {b: null}}");
    check_set("{'x.y': {z: 1}}", "[\"x.y\"].z", json!(2), "{'x.y': {z: 2}}");
    check_set("// all\n5", "", json!([1]), "// all\n[1]");
}

#[test]
fn set_removes_what_is_there_and_leaves_what_is_not() {
    check_remove("{l: [1, 2, 3]}", "l[1]", "{l: [1, 3]}");
    check_remove("{a: {b: 1}}", "a.b", "{a: {}}");
    check_remove("{a: 1}", "b.c[2]", "{a: 1}");
    assert_eq!(set("{}", "", None), Err(Error::RootRemoved));
}

#[test]
fn get_finds_a_value_or_nothing() {
    let text = "{a: [{b: 0x1F}, -Infinity], 'c d': +1.5e1}";
    assert_eq!(get(text, "a[0].b").expect("read"), Some(json!(31)));
    assert_eq!(get(text, "a[1]").expect("read"), Some(Value::Null));
    assert_eq!(get(text, "c d").expect("read"), Some(json!(15.0)));
    assert_eq!(get(text, "a.b").expect("read"), None);
}

#[test]
fn set_says_where_the_way_ends() {
    let why = |text: &str, path: &str| set(text, path, Some(&json!(1))).unwrap_err().to_string();
    assert_eq!(why("{\n  a: 5}", "a.b"), "line 2, column 6: \"a\" is not an object; set it to one before a key in it");
    assert_eq!(why("{a: {}}", "a[0]"), "line 1, column 5: \"a\" is not an array; set it to one before an entry of it");
    assert_eq!(why("{a: [1]}", "a[3]"), "line 1, column 5: \"a\" has 1 entries; use an index up to 1");
    assert_eq!(why("{}", "a..b"), "path \"a..b\", column 2: a key is missing here; write [\"\"] for an empty one");
    assert_eq!(why("{}", "a[]"), "path \"a[]\", column 2: give an index between the brackets");
    assert!(matches!(set("{}", "a[x]", None), Err(Error::BadPath { column: 2, .. })));
    assert!(matches!(set("{}", &"a.".repeat(80), None), Err(Error::BadPath { .. })));
}

#[test]
fn a_text_that_is_no_json5_is_refused_with_line_and_column() {
    assert_eq!(said(""), "line 1, column 1: the text ends where a value is expected; add one");
    assert_eq!(said("{\r\n  a 1}"), "line 2, column 5: a `:` is expected after the key");
    assert_eq!(said("{a: 1\n b: 2}"), "line 2, column 2: a `,` or `}` is expected here");
    assert_eq!(
        said("{소라: 'x\n'}"),
        "line 1, column 8: a string ends on its line; close it, or end the line with `\\`"
    );
    assert_eq!(said("[01]"), "line 1, column 2: a number begins with no extra zero; remove it");
    assert_eq!(said("{} /* x"), "line 1, column 4: a comment is `// ...` or `/* ... */`; complete it");
    assert_eq!(
        said("['\\ud800']"),
        "line 1, column 3: this escape is half a character; write both halves, the first one first"
    );
}

#[test]
fn everything_has_a_limit() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(get(&nested(DEPTH_MAX), "").is_ok());
    assert_eq!(get(&nested(DEPTH_MAX + 1), ""), Err(Error::TooDeep { line: 1, column: DEPTH_MAX + 1 }));
    let deep = (0..DEPTH_MAX).fold(json!(1), |inner, _| json!({ "a": inner }));
    assert!(patch("{}", &deep, &Options::default()).is_ok());
    assert_eq!(refused("{}", json!({ "a": deep })), Error::ValueTooDeep);
    assert_eq!(set("{}", "a", Some(&deep)), Err(Error::ValueTooDeep));
    let long = " ".repeat(TEXT_BYTES_MAX - 1) + "{}";
    assert_eq!(get(&long, ""), Err(Error::TooLong { bytes: TEXT_BYTES_MAX + 1 }));
    assert!(matches!(set(&long[1..], "a", Some(&json!(1))), Err(Error::TooLong { .. })));
    assert_eq!(refused("{}", json!([])), Error::PatchNotObject);
}

#[test]
fn an_indentation_that_nobody_wrote_is_not_repeated() {
    let wide = " ".repeat(TEXT_BYTES_MAX / 2);
    let change: Value = (0..20_000).map(|key| (format!("k{key}"), json!(key))).collect();
    let patched = patch(&format!("{{\n{wide}a: 1\n}}"), &json!({ "b": {"c": 1}, "d": change }), &Options::default());
    assert!(matches!(patched, Err(Error::TooLong { bytes }) if bytes < TEXT_BYTES_MAX * 4), "{patched:?}");
}

#[test]
fn a_long_text_on_one_line_is_changed_in_good_time() {
    let entries: Vec<String> = (0..30_000).map(|id| format!("{{id:{id},n:[1]}}")).collect();
    let change: Vec<Value> = (0..30_000).map(|id| json!({"id": id, "n": null, "m": {"x": id}})).collect();
    let patched = patch(&format!("{{l:[{}]}}", entries.join(",")), &json!({ "l": change }), &Options::default())
        .expect("changed");
    assert_eq!(patched.changed.len(), 60_000);
}

#[test]
fn a_value_stands_on_a_line() {
    let text = "{\n  // note\n  a: [1,\n    { b: 2 }],\r\n  \"c.d\": 3 }";
    let check = |path: &str, line: Option<usize>| assert_eq!(line_of(text, path), line, "{path}");
    check("a", Some(3));
    check("a[1].b", Some(4));
    check("[\"c.d\"]", Some(5));
    for none in ["", "b", "a[2]", "a.b", "a[", "c.d"] {
        check(none, None);
    }
    assert_eq!(line_of("{ a: ", "a"), None);
}
