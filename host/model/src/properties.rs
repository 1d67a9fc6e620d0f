//! Promises about every stream, tried at every cut and on many mutations by seed.

use crate::script::Script;
use crate::streams::{ANTHROPIC, ANTHROPIC_OVERLOADED, OPENAI, OPENAI_BROKEN_OFF};
use crate::{Answer, Decoder, Delta, Failure, Request, ToolResult, Turn, Wire};

const MUTATIONS: u64 = 50_000;

const STREAMS: [(Wire, &str); 4] = [
    (Wire::Anthropic, ANTHROPIC),
    (Wire::Anthropic, ANTHROPIC_OVERLOADED),
    (Wire::OpenAi, OPENAI),
    (Wire::OpenAi, OPENAI_BROKEN_OFF),
];

/// The answer, and what those who watched it saw: the text, and the calls as they began.
type Seen = (Result<Answer, Failure>, String, Vec<(String, String)>);

fn decode<'a>(wire: Wire, parts: impl IntoIterator<Item = &'a [u8]>) -> Seen {
    let mut decoder = Decoder::new(wire);
    let (mut text, mut calls) = (String::new(), Vec::new());
    for part in parts {
        for delta in decoder.feed(part).unwrap_or_default() {
            match delta {
                Delta::Text(words) => text.push_str(&words),
                Delta::CallBegun { id, name } => calls.push((id, name)),
            }
        }
    }
    (decoder.end(), text, calls)
}

/// After a failure it does not matter what was seen before it.
fn same(a: &Seen, b: &Seen) -> bool {
    a.0 == b.0 && (a.0.is_err() || a == b)
}

#[test]
fn every_cut_of_a_stream_gives_the_same_answer() {
    for (wire, stream) in STREAMS {
        let stream = stream.as_bytes();
        let whole = decode(wire, [stream]);
        assert!(same(&decode(wire, stream.chunks(1)), &whole));
        for at in 0..=stream.len() {
            let (head, tail) = stream.split_at(at);
            assert!(same(&decode(wire, [head, tail]), &whole), "cut at {at}");
        }
    }
}

#[test]
fn a_korean_character_that_is_cut_in_two_comes_whole() {
    let stream = ANTHROPIC.as_bytes();
    let inside = ANTHROPIC.find('씨').expect("there") + 1;
    let (head, tail) = stream.split_at(inside);
    assert!(std::str::from_utf8(head).is_err());
    let (answer, text, _) = decode(Wire::Anthropic, [head, tail]);
    assert_eq!(answer.expect("a whole answer").text, "날씨를 확인할게요 🌤.");
    assert_eq!(text, "날씨를 확인할게요 🌤.");
}

#[test]
fn a_stream_that_ends_too_early_is_never_an_answer() {
    for (wire, stream, reason) in [
        (Wire::Anthropic, ANTHROPIC, "\"stop_reason\":\"tool_use\""),
        (Wire::OpenAi, OPENAI, "\"finish_reason\":\"tool_calls\""),
    ] {
        let whole = decode(wire, [stream.as_bytes()]).0.expect("a whole answer");
        let event = stream.find(reason).expect("there");
        let told = event + stream[event..].find("\n\n").expect("there") + 2;
        for at in 0..stream.len() {
            let answer = decode(wire, [&stream.as_bytes()[..at]]).0;
            match answer {
                Ok(answer) => assert!(at >= told && answer.calls == whole.calls && answer.text == whole.text),
                Err(failure) => assert!(at < told && failure.kind == crate::FailureKind::Broken, "{failure}"),
            }
        }
    }
}

/// Changes a few bytes: flips, cuts, doubles and swaps, also of whole lines.
fn mutate(chance: &mut fastrand::Rng, stream: &[u8]) -> Vec<u8> {
    const WORDS: &[&str] =
        &["\n\n", "\r", "data: ", "null", "{}", "[]", "\"", "\\u", "1e999", "-1", "\"index\":7", "[DONE]", "가", "}"];
    let mut bytes = stream.to_vec();
    for _ in 0..chance.usize(1..6) {
        let at = chance.usize(0..=bytes.len());
        let end = (at + chance.usize(0..40)).min(bytes.len());
        match chance.u8(0..6) {
            0 if at < bytes.len() => bytes[at] = chance.u8(..),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let again = bytes[at..end].to_vec();
                bytes.splice(end..end, again);
            }
            3 => drop(bytes.splice(at..at, WORDS[chance.usize(0..WORDS.len())].bytes())),
            4 => drop(bytes.splice(at..end, WORDS[chance.usize(0..WORDS.len())].bytes())),
            _ => {
                let mut lines: Vec<Vec<u8>> =
                    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
                let (a, b) = (chance.usize(0..lines.len().max(1)), chance.usize(0..lines.len().max(1)));
                if !lines.is_empty() {
                    lines.swap(a, b);
                }
                bytes = lines.concat();
            }
        }
    }
    bytes
}

fn is_bounded(seen: &Seen, bytes: usize) -> bool {
    match &seen.0 {
        Ok(answer) => {
            // A byte that is no text becomes a character of three.
            let arguments: usize =
                answer.calls.iter().map(|call| serde_json::to_string(call).expect("plain JSON").len()).sum();
            answer.text == seen.1 && answer.text.len() <= 3 * bytes && arguments <= 6 * bytes + 128 * 100
        }
        Err(failure) => !failure.message.is_empty() && failure.message.chars().count() <= 500,
    }
}

#[test]
fn no_mutation_of_a_stream_panics_or_passes_a_bound() {
    for seed in 0..MUTATIONS {
        let mut chance = fastrand::Rng::with_seed(seed);
        let (wire, stream) = STREAMS[chance.usize(0..STREAMS.len())];
        let bytes = mutate(&mut chance, stream.as_bytes());
        let whole = decode(wire, [bytes.as_slice()]);
        assert!(is_bounded(&whole, bytes.len()), "seed {seed}: {whole:?}");
        if seed % 8 == 0 {
            let (head, tail) = bytes.split_at(chance.usize(0..=bytes.len()));
            assert!(same(&decode(wire, [head, tail]), &whole), "seed {seed}");
            crate::refused(wire, chance.u16(..), Some("x"), &bytes);
        }
    }
}

#[test]
fn no_mutation_of_a_script_panics() {
    const SCRIPT: &str = "{ rules: [{ agent: 'eden', when: ['a', '안녕'], steps: [{ say: '{{input}} {{result.k}}', call: { tool: 't', \
        args: { a: [{ b: '{{turn}}' }], n: 1.5 } }, delayMs: 2 }, { fail: { kind: 'server', message: 'm', times: 2 } }] }], \
        otherwise: 'x {{agent}}' }";
    let results = vec![ToolResult { call_id: "c".into(), text: "{\"k\": [1]}".into(), is_error: false }];
    let turns = vec![Turn::User { text: "안녕 a".into() }, Turn::Results(results)];
    let request = Request { turns, ..Request::default() };
    for seed in 0..MUTATIONS / 5 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let bytes = mutate(&mut chance, SCRIPT.as_bytes());
        if let Ok(script) = Script::parse(&String::from_utf8_lossy(&bytes)) {
            let scripted = script.answer_after("eden", &request, chance.u32(0..4));
            assert_eq!(scripted.pieces.concat(), scripted.answer.text);
        }
    }
}

#[test]
fn what_the_model_answered_can_be_sent_back_in_either_wire() {
    for (wire, stream) in [(Wire::Anthropic, ANTHROPIC), (Wire::OpenAi, OPENAI)] {
        let answer = decode(wire, [stream.as_bytes()]).0.expect("a whole answer");
        let turns = vec![Turn::User { text: "?".into() }, Turn::Assistant { text: answer.text, calls: answer.calls }];
        let request = Request { turns, ..Request::default() };
        for wire in [Wire::Anthropic, Wire::OpenAi] {
            let body: serde_json::Value = serde_json::from_slice(&wire.body(&request)).expect("plain JSON");
            let text = body.to_string();
            assert!(text.contains("get_weather") && text.contains("no result: the run was broken off"), "{text}");
        }
    }
}
