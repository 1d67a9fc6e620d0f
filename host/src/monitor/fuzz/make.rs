//! Logs as nobody should write them: lines of a team's log and of the old system's, damaged in ways that happen and in ways that do not.

use std::path::Path;
use std::sync::OnceLock;

use chela_generate::{Options, generate};
use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Lines as gateways wrote them.
fn good_lines() -> &'static [String] {
    static LINES: OnceLock<Vec<String>> = OnceLock::new();
    LINES.get_or_init(|| {
        let mut lines = Vec::new();
        let options = Options { legacy_per_mille: 200, ..Options::new(600, 1) };
        let written = generate(&options, |line| {
            lines.push(line.text.to_owned());
            Ok::<(), std::convert::Infallible>(())
        });
        written.expect("keeping a line cannot fail");
        let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/old-system/logs");
        for name in ["coordination-events.ndjson", "coordination-events-2026-01.ndjson"] {
            let text = std::fs::read_to_string(old.join(name)).expect("a fixture");
            lines.extend(text.lines().map(str::to_owned));
        }
        lines
    })
}

/// Pieces that break a line, or look as if they would.
const PIECES: &[&[u8]] = &[
    b"\n",
    b"\r\n",
    b"\r",
    b"\0",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"\"",
    b"\\",
    b"\\\"",
    b"\\u0000",
    b"\\ud83d",
    b"\\ude00",
    b"\\ud83d\\ude00",
    b"\\ud83d\\ud83d",
    b"\\uDBFF\\u0041",
    b"\\\\ud83d",
    b"\\u+123",
    b"\\x41",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"null",
    b"true",
    b"1e999",
    b"-1e999",
    b"-0",
    b"0.1e-999",
    b"18446744073709551616",
    b"NaN",
    b"Infinity",
    b"01",
    b"1.",
    b"\"ts\":5,",
    b"\"type\":\"x\",",
    b"\"type\":null,",
    b"\"ts\":{},",
    b"\"data\":{},",
    b"\"data\":[[]],",
    b"\"fromAgent\":7,",
    b"\"message\":\"twice\",",
    b"\"extra\":1e999,",
    b"\"extra\":\"\xff\",",
    b"\"extra\":\"\\ud800\",",
    b"\"\\ud800\":1,",
    b"\"$serde_json::private::RawValue\":\"[\",",
    b"\"extra\":{\"$serde_json::private::RawValue\":\"{\"},",
    b"\"extra\":{\"$serde_json::private::Number\":\"x\"},",
    b"/* */",
    b" ",
    b"\t",
    b"\x0b",
    "\u{2028}".as_bytes(),
    "\u{85}".as_bytes(),
    "가".as_bytes(),
    "😀".as_bytes(),
];

/// Fields that mean something here, and some that do not.
const NAMES: &[&str] = &[
    "id",
    "type",
    "agentId",
    "ts",
    "data",
    "seq",
    "fromAgent",
    "toAgent",
    "conversationId",
    "workSessionId",
    "previousWorkSessionId",
    "taskId",
    "rootTaskId",
    "jobId",
    "runId",
    "eventRole",
    "sessionKey",
    "fromSessionKey",
    "requesterSessionKey",
    "targetSessionKey",
    "childSessionKey",
    "message",
    "replyPreview",
    "label",
    "title",
    "description",
    "outcome",
    "collabCategory",
    "categorySource",
    "collabSubTags",
    "categoryManualOverride",
    "late",
    "unknown",
    "",
    "\u{0}",
    "자료",
];

/// What a string may be.
fn text(random: &mut Rng) -> String {
    const TEXTS: &[&str] = &[
        "",
        " ",
        "a",
        "eden",
        "agent:eden:main",
        "agent::",
        "agent:",
        "agent:a:subagent:b",
        "conversation.main",
        "delegation.subagent",
        "system.observability",
        "conversation",
        "a2a.send",
        "a2a.response",
        "a2a.complete",
        "a2a.spawn",
        "a2a.spawn_result",
        "task.completed",
        "task.started",
        "job.created",
        "policy.decided",
        "a2a.delivery",
        "gateway.started",
        ".",
        "blocked",
        "manual",
        "infra_ops",
        "task_1",
        "ws_1",
        "[Goal]",
        "[Goal] task_1",
        "x\n [Goal]: 배포\n",
        "<@",
        "<@>",
        "<@1>",
        "<@!9> <@",
        "<@<@1>>",
        "[outcome] x",
        "REPLY_SKIP",
        "REPLY_REPLY_SKIPSKIP",
        "\u{0}",
        "\u{feff}",
        "\u{202e}abc",
        "é",
        "e\u{301}",
        "İSTANBUL ΟΔΟΣ",
        "ß",
        "👩‍👩‍👧‍👦",
        "배포를 부탁해요",
        "ﷺ",
        "𝟙²½",
        "019c6ab8-7740-7a3e-8d15-62b0c9e7f431",
        "urn:uuid:019c6ab8-7740-7a3e-8d15-62b0c9e7f431",
        "'; --",
        "\"*",
        "a_b",
        "1:2",
        "C:\\ud83d",
    ];
    let piece = *random.choice(TEXTS).expect("some");
    match random.u32(0..40) {
        0..20 => piece.to_owned(),
        20..30 => format!("{piece}{}", random.choice(TEXTS).expect("some")),
        // Around the places where texts are cut: in a title, a preview, a key, a passage.
        30..36 => {
            let at = *random.choice(&[40_usize, 120, 128, 200, 256, 512, 4096]).expect("some");
            let letter = *random.choice(&['a', 'é', '가', '😀']).expect("some");
            let count = (at / letter.len_utf8()).saturating_sub(2) + random.usize(0..5);
            format!("{}{piece}", letter.to_string().repeat(count))
        }
        36..39 => (0..random.usize(0..200)).map(|_| random.char(..)).collect(),
        _ => "word ".repeat(random.usize(0..2_000)),
    }
}

/// A value of any kind.
fn value(random: &mut Rng, depth: usize) -> Value {
    match random.u32(0..16) {
        0 => Value::Null,
        1 => json!(random.bool()),
        2 => json!(random.u64(..)),
        3 => json!(random.i64(..)),
        4 => json!(*random.choice(&[0.0, -0.0, 0.5, 1e15, 2.5e14, 1e300, 5e-324, -1.0]).expect("some")),
        5 => json!(*random.choice(&[0_u64, 1, 253_402_300_799_999, 253_402_300_800_000, u64::MAX]).expect("some")),
        6 if depth < 4 => (0..random.usize(0..12)).map(|_| value(random, depth + 1)).collect(),
        7 if depth < 4 => Value::Object(
            (0..random.usize(0..5)).map(|_| (name(random).to_owned(), value(random, depth + 1))).collect::<Map<_, _>>(),
        ),
        _ => json!(text(random)),
    }
}

fn name(random: &mut Rng) -> &'static str {
    random.choice(NAMES).expect("some")
}

/// A line with fields that have other values, are missing, or are new.
fn changed(line: &str, random: &mut Rng) -> Vec<u8> {
    let Ok(Value::Object(mut event)) = serde_json::from_str::<Value>(line) else { return line.into() };
    for _ in 0..random.usize(1..5) {
        let data = event.get_mut("data").and_then(Value::as_object_mut);
        let (fields, inside) = match data {
            Some(data) if random.u32(0..4) > 0 => (data, true),
            _ => (&mut event, false),
        };
        let name = match fields.keys().nth(random.usize(0..fields.len().max(1))) {
            Some(known) if random.bool() => known.clone(),
            _ => name(random).to_owned(),
        };
        // An event without a type or a time is soon told: more are worth looking at otherwise.
        let needed = !inside && ["type", "ts", "data"].contains(&name.as_str()) && random.u32(0..4) > 0;
        match random.u32(0..5) {
            0 if !needed => drop(fields.remove(&name)),
            _ if needed && name == "ts" => drop(fields.insert(name, json!(random.u64(0..300_000_000_000_000)))),
            _ if needed && name == "type" => drop(fields.insert(name, json!(text(random)))),
            _ if needed => {}
            _ => drop(fields.insert(name, value(random, 0))),
        }
    }
    Value::Object(event).to_string().into_bytes()
}

/// A line whose bytes were changed whatever they mean.
fn damaged(mut line: Vec<u8>, random: &mut Rng) -> Vec<u8> {
    for _ in 0..random.usize(1..4) {
        let at = random.usize(0..=line.len());
        let piece = *random.choice(PIECES).expect("some");
        // Between two fields a piece often leaves JSON behind.
        let commas: Vec<usize> = (0..line.len()).filter(|at| matches!(line[*at], b',' | b'{')).collect();
        let between = random.choice(&commas).map_or(at, |comma| comma + 1);
        match random.u32(0..10) {
            0..3 => drop(line.splice(between..between, piece.iter().copied())),
            3..5 => drop(line.splice(at..at, piece.iter().copied())),
            5 if at < line.len() => line[at] = random.u8(..),
            6 => line.truncate(at),
            7 => drop(line.drain(at..(at + random.usize(0..20)).min(line.len()))),
            8 => {
                let again = line[at..(at + random.usize(0..60)).min(line.len())].to_vec();
                drop(line.splice(at..at, again));
            }
            _ => line.extend_from_slice(piece),
        }
    }
    line
}

/// A line that is large in one of the ways there are.
fn large(random: &mut Rng) -> Vec<u8> {
    let inside = |value: String| {
        format!("{{\"type\":\"x\",\"ts\":5,\"data\":{{\"message\":\"m\",\"extra\":{value}}}}}").into_bytes()
    };
    let deep = |open: &str, close: &str, depth: usize| open.repeat(depth) + "1" + &close.repeat(depth);
    match random.u32(0..8) {
        0 => inside(deep("[", "]", random.usize(120..132))),
        1 => inside(deep("{\"a\":", "}", random.usize(120..132))),
        2 => deep("[", "]", 100_000).into_bytes(),
        3 => inside(deep("{\"a\":[", "]}", 50_000)),
        4 => inside("9".repeat(random.usize(300..400))),
        5 => inside(format!("[{}1]", "1,".repeat(random.usize(0..20_000)))),
        6 => vec![*random.choice(b"[{\" \\").expect("some"); random.usize(0..100_000)],
        _ => inside(format!("\"{}\"", "가".repeat(random.usize(0..20_000)))),
    }
}

fn line(random: &mut Rng) -> Vec<u8> {
    let good = random.choice(good_lines()).expect("some");
    match random.u32(0..200) {
        0..20 => good.as_bytes().to_vec(),
        20..110 => changed(good, random),
        110..150 => damaged(good.as_bytes().to_vec(), random),
        150..190 => {
            let line = changed(good, random);
            damaged(line, random)
        }
        190..195 => (0..random.usize(0..80)).map(|_| random.u8(..)).collect(),
        195..198 => Value::Array((0..5).map(|_| value(random, 1)).collect()).to_string().into_bytes(),
        198 => value(random, 0).to_string().into_bytes(),
        _ => large(random),
    }
}

/// A log of so many lines, the last one perhaps not ended.
pub(super) fn log(lines: usize, random: &mut Rng) -> Vec<u8> {
    let mut log = Vec::new();
    for _ in 0..lines {
        log.extend(line(random));
        log.extend_from_slice(match random.u32(0..12) {
            0 => b"\r\n",
            1 => b"\n\n",
            _ => b"\n",
        });
    }
    if random.u32(0..4) == 0 {
        log.truncate(log.len() - random.usize(0..log.len().min(10)));
    }
    log
}
