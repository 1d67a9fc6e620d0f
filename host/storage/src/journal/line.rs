//! One line of the journal: how it is written, and what counts as whole.
//! Keeps true: a line is one JSON object that ends with the CRC32C of all bytes before it; any single changed bit is seen. Never: trusts a
//! field before the checksum.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Bytes of a line at most, its end included; a longer one is damage.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// `,"crc":"9f3a11c2"}`
pub(super) const SEAL_BYTES: usize = 18;
/// `{"seq":…,"group":…,"do":[` and `]`, with the longest numbers.
pub(super) const ENTRY_BYTES: usize = 70;
const SEAL_HEAD: &[u8] = b",\"crc\":\"";

/// A transaction. `group` is the first of those that were written and flushed together: that this line was written at all proves that
/// everything before `group` was durable.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry<'a> {
    pub seq: u64,
    pub group: u64,
    #[serde(borrow, rename = "do")]
    pub changes: Vec<Change<'a>>,
    #[serde(rename = "crc")]
    _crc: &'a str,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Change<'a> {
    pub put: Option<&'a str>,
    pub drop: Option<&'a str>,
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow, default, deserialize_with = "some_body")]
    body: Option<&'a RawValue>,
}

/// The first line of a snapshot: an incomplete one cannot be taken for a whole one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head<'a> {
    pub snapshot: u64,
    pub records: u64,
    /// The last transaction before it.
    pub seq: u64,
    #[serde(rename = "crc")]
    _crc: &'a str,
}

/// A live record in a snapshot: the `nth` change of the transaction `seq`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Saved<'a> {
    pub seq: u64,
    pub nth: u32,
    pub put: &'a str,
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    body: &'a RawValue,
    #[serde(rename = "crc")]
    _crc: &'a str,
}

impl<'a> Change<'a> {
    /// A put has one, a drop has none.
    pub fn body(&self) -> Option<&'a str> {
        self.body.map(RawValue::get)
    }
}

impl<'a> Saved<'a> {
    pub fn body(&self) -> &'a str {
        self.body.get()
    }
}

/// `null` is a body like any other; an `Option` alone would take it for none.
fn some_body<'de, D: Deserializer<'de>>(source: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(source).map(Some)
}

/// Ends the line that began at `start` with its checksum.
pub(super) fn seal(text: &mut Vec<u8>, start: usize) {
    let crc = crc32c::crc32c(&text[start..]);
    text.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
}

/// Whether `line`, without its line end, is as it was written.
pub(super) fn is_whole(line: &[u8]) -> bool {
    let Some((content, seal)) = line.split_at_checked(line.len().saturating_sub(SEAL_BYTES)) else { return false };
    let Some(crc) = seal.strip_prefix(SEAL_HEAD).and_then(|rest| rest.strip_suffix(b"\"}")) else { return false };
    // Compared as text: an upper-case digit is a flipped bit too.
    matches(crc, content)
}

#[cfg(not(feature = "simulation"))]
fn matches(crc: &[u8], content: &[u8]) -> bool {
    crc == format!("{:08x}", crc32c::crc32c(content)).as_bytes()
}

/// The seam for the mutant that trusts whatever reads as JSON.
#[cfg(feature = "simulation")]
fn matches(crc: &[u8], content: &[u8]) -> bool {
    let reads = || serde_json::from_slice::<serde::de::IgnoredAny>(&[content, b"}"].concat()).is_ok();
    let trusts = crate::fs::simulated::ignores_checksums() && reads();
    trusts || crc == format!("{:08x}", crc32c::crc32c(content)).as_bytes()
}

pub(super) fn write_entry(text: &mut Vec<u8>, seq: u64, group: u64, changes: &[u8]) {
    let start = text.len();
    text.extend_from_slice(format!("{{\"seq\":{seq},\"group\":{group},\"do\":[").as_bytes());
    text.extend_from_slice(changes);
    text.push(b']');
    seal(text, start);
}

pub(super) fn write_head(text: &mut Vec<u8>, number: u64, records: u64, seq: u64) {
    let start = text.len();
    text.extend_from_slice(format!("{{\"snapshot\":{number},\"records\":{records},\"seq\":{seq}").as_bytes());
    seal(text, start);
}

pub(super) fn write_saved(text: &mut Vec<u8>, (seq, nth): (u64, u32), kind: &str, id: &str, body: &[u8]) {
    let start = text.len();
    text.extend_from_slice(format!("{{\"seq\":{seq},\"nth\":{nth},\"put\":\"{kind}\",\"id\":").as_bytes());
    write_text(text, id);
    text.extend_from_slice(b",\"body\":");
    text.extend_from_slice(body);
    seal(text, start);
}

/// A JSON string; ids have no control characters, so two escapes are enough.
pub(super) fn write_text(text: &mut Vec<u8>, value: &str) {
    text.push(b'"');
    for byte in value.bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed() -> Vec<u8> {
        let mut text = Vec::new();
        write_entry(&mut text, 41, 40, br#"{"put":"job","id":"a","body":{"x":1}},{"drop":"job","id":"b\"c"}"#);
        text.pop();
        text
    }

    #[test]
    fn a_line_reads_as_it_was_written() {
        let line = sealed();
        assert!(is_whole(&line));
        let entry: Entry = serde_json::from_slice(&line).expect("one JSON object");
        assert_eq!((entry.seq, entry.group, entry.changes.len()), (41, 40, 2));
        assert_eq!((entry.changes[0].put, entry.changes[0].body()), (Some("job"), Some("{\"x\":1}")));
        assert_eq!((entry.changes[1].drop, &*entry.changes[1].id), (Some("job"), "b\"c"));
    }

    #[test]
    fn every_flipped_bit_of_a_line_is_seen() {
        let line = sealed();
        for bit in 0..line.len() * 8 {
            let mut flipped = line.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_whole(&flipped), "bit {bit}");
        }
        for len in 0..line.len() {
            assert!(!is_whole(&line[..len]), "cut to {len}");
        }
    }
}
