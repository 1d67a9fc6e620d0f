//! One line of the journal: how it is written, and what counts as whole.
//! Keeps true: a line is one JSON object that ends with the CRC32C of all bytes before it; any single changed bit is seen. Never: trusts a
//! field before the checksum.

use std::borrow::Cow;
use std::ops::Range;

use serde::Deserialize;

/// Bytes of a line at most, its end included; a longer one is damage.
pub(super) const LINE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// `,"crc":"9f3a11c2"}`
pub(super) const SEAL_BYTES: usize = 18;
/// `{"seq":…,"group":…,"do":[` and `]`, with the longest numbers.
pub(super) const ENTRY_BYTES: usize = 70;
const SEAL_HEAD: &[u8] = b",\"crc\":\"";

/// A transaction. `group` is the first of those that were written and flushed together: that this line was written at all proves that
/// everything before `group` was durable.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub seq: u64,
    pub group: u64,
    pub changes: Vec<Change<'a>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change<'a> {
    pub kind: &'a str,
    pub id: Cow<'a, str>,
    /// Where the body is in the line; none ends the record's life.
    pub body: Option<Range<usize>>,
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
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Saved<'a> {
    pub seq: u64,
    pub nth: u32,
    pub kind: &'a str,
    pub id: Cow<'a, str>,
    /// Where the body is in the line.
    pub body: Range<usize>,
}

impl<'a> Entry<'a> {
    /// What a whole line says; none if it is no transaction of this version. A line tells how long its bodies are, so they are passed over
    /// unread; one of an earlier version, which does not, is read by its grammar.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        let mut at = Glance { line, at: 0 };
        at.entry().or_else(|| grammar::entry(line))
    }
}

impl<'a> Saved<'a> {
    /// What a whole line of a snapshot says; its body ends with the line.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        let mut at = Glance { line, at: 0 };
        at.word(b"{\"seq\":")?;
        let seq = at.number()?;
        at.word(b",\"nth\":")?;
        let nth = u32::try_from(at.number()?).ok()?;
        at.word(b",\"put\":")?;
        let kind = at.plain()?;
        at.word(b",\"id\":")?;
        let id = at.text()?;
        at.word(b",\"body\":")?;
        let body = at.at..line.len().checked_sub(SEAL_BYTES)?;
        (!body.is_empty()).then_some(Self { seq, nth, kind, id, body })
    }
}

/// Reads what we wrote, exactly as we write it. Anything else is none.
struct Glance<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Glance<'a> {
    fn entry(&mut self) -> Option<Entry<'a>> {
        self.word(b"{\"seq\":")?;
        let seq = self.number()?;
        self.word(b",\"group\":")?;
        let group = self.number()?;
        self.word(b",\"do\":[")?;
        let mut changes = Vec::new();
        if self.word(b"]").is_none() {
            loop {
                changes.push(self.change()?);
                if self.word(b",").is_none() {
                    break;
                }
            }
            self.word(b"]")?;
        }
        (self.line.len() - self.at == SEAL_BYTES).then_some(Entry { seq, group, changes })
    }

    fn change(&mut self) -> Option<Change<'a>> {
        let puts = self.word(b"{\"put\":").is_some();
        if !puts {
            self.word(b"{\"drop\":")?;
        }
        let kind = self.plain()?;
        self.word(b",\"id\":")?;
        let id = self.text()?;
        let mut body = None;
        if puts {
            self.word(b",\"len\":")?;
            let len = usize::try_from(self.number()?).ok()?;
            self.word(b",\"body\":")?;
            let end = self.at.checked_add(len).filter(|end| *end <= self.line.len())?;
            body = Some(self.at..end);
            self.at = end;
        }
        self.word(b"}")?;
        Some(Change { kind, id, body })
    }

    fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.rest().starts_with(word).then(|| self.at += word.len())
    }

    fn number(&mut self) -> Option<u64> {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = std::str::from_utf8(&self.rest()[..digits]).ok()?.parse().ok()?;
        self.at += digits;
        Some(number)
    }

    /// A string without an escape.
    fn plain(&mut self) -> Option<&'a str> {
        match self.text()? {
            Cow::Borrowed(text) => Some(text),
            Cow::Owned(_) => None,
        }
    }

    /// A string with the two escapes that [`write_text`] makes.
    fn text(&mut self) -> Option<Cow<'a, str>> {
        self.word(b"\"")?;
        let (rest, mut escaped) = (self.rest(), false);
        let mut end = 0;
        loop {
            match rest.get(end)? {
                b'"' => break,
                b'\\' => {
                    escaped = true;
                    end += 2;
                }
                _ => end += 1,
            }
        }
        self.at += end + 1;
        if !escaped {
            return std::str::from_utf8(&rest[..end]).ok().map(Cow::Borrowed);
        }
        serde_json::from_slice(&self.line[self.at - end - 2..self.at]).ok().map(Cow::Owned)
    }
}

/// Lines as JSON, whoever wrote them: of versions that did not tell how long a body is.
mod grammar {
    use std::borrow::Cow;
    use std::ops::Range;

    use serde::{Deserialize, Deserializer};
    use serde_json::value::RawValue;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Entry<'a> {
        seq: u64,
        group: u64,
        #[serde(borrow, rename = "do")]
        changes: Vec<Change<'a>>,
        #[serde(rename = "crc")]
        _crc: &'a str,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Change<'a> {
        put: Option<&'a str>,
        drop: Option<&'a str>,
        #[serde(borrow)]
        id: Cow<'a, str>,
        #[serde(rename = "len")]
        _len: Option<u64>,
        #[serde(borrow, default, deserialize_with = "some_body")]
        body: Option<&'a RawValue>,
    }

    /// `null` is a body like any other; an `Option` alone would take it for none.
    fn some_body<'de, D: Deserializer<'de>>(source: D) -> Result<Option<&'de RawValue>, D::Error> {
        <&RawValue>::deserialize(source).map(Some)
    }

    pub(super) fn entry(line: &[u8]) -> Option<super::Entry<'_>> {
        let Entry { seq, group, changes, .. } = serde_json::from_slice(line).ok()?;
        let changes = changes.into_iter().map(|change| match (change.put, change.drop, change.body) {
            (Some(kind), None, Some(body)) => {
                Some(super::Change { kind, id: change.id, body: Some(place(line, body.get())?) })
            }
            (None, Some(kind), None) => Some(super::Change { kind, id: change.id, body: None }),
            _ => None,
        });
        Some(super::Entry { seq, group, changes: changes.collect::<Option<_>>()? })
    }

    /// A body is borrowed from the line, so its address tells its place.
    fn place(line: &[u8], body: &str) -> Option<Range<usize>> {
        let start = (body.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
        Some(start..start.checked_add(body.len())?).filter(|range| range.end <= line.len())
    }
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

/// Gives where in the line the changes begin.
pub(super) fn write_entry(text: &mut Vec<u8>, seq: u64, group: u64, changes: &[u8]) -> usize {
    let start = text.len();
    text.extend_from_slice(format!("{{\"seq\":{seq},\"group\":{group},\"do\":[").as_bytes());
    let begin = text.len() - start;
    text.extend_from_slice(changes);
    text.push(b']');
    seal(text, start);
    begin
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
        write_entry(&mut text, 41, 40, br#"{"put":"job","id":"a","len":7,"body":{"x":1}},{"drop":"job","id":"b\"c"}"#);
        text.pop();
        text
    }

    #[test]
    fn a_line_reads_as_it_was_written() {
        let line = sealed();
        assert!(is_whole(&line));
        let entry = Entry::read(&line).expect("a transaction");
        assert_eq!((entry.seq, entry.group, entry.changes.len()), (41, 40, 2));
        let body = entry.changes[0].body.clone().expect("a put");
        assert_eq!((entry.changes[0].kind, &line[body]), ("job", b"{\"x\":1}".as_slice()));
        assert_eq!((entry.changes[1].kind, &*entry.changes[1].id, &entry.changes[1].body), ("job", "b\"c", &None));
        assert_eq!(grammar::entry(&line), Some(entry), "at a glance and by its grammar it says the same");
        let mut text = Vec::new();
        write_entry(&mut text, 7, 7, b"");
        assert_eq!(Entry::read(&text[..text.len() - 1]).expect("an empty one").changes, []);
    }

    #[test]
    fn lines_of_a_version_that_told_no_lengths_are_read_and_others_are_not() {
        let read = |changes: &[u8]| {
            let mut text = Vec::new();
            write_entry(&mut text, 41, 40, changes);
            text.pop();
            Entry::read(&text).map(|entry| {
                let body = |change: &Change| change.body.clone().map(|body| text[body].to_vec());
                entry.changes.iter().map(body).collect::<Vec<_>>()
            })
        };
        let old = br#"{"put":"job","id":"a","body":{"x":[1,"}"]}},{"drop":"job","id":"b"}"#;
        assert_eq!(read(old), Some(vec![Some(b"{\"x\":[1,\"}\"]}".to_vec()), None]));
        for changes in [
            &br#"{"merge":"job","id":"a"}"#[..],
            br#"{"put":"job","id":"a"}"#,
            br#"{"put":"job","drop":"job","id":"a","len":1,"body":1}"#,
            br#"{"put":"job","id":"a","len":99999,"body":1,"more":2}"#,
            br#"{"drop":"job","id":"a","len":1,"body":1}"#,
        ] {
            assert_eq!(read(changes), None, "{}", String::from_utf8_lossy(changes));
        }
    }

    #[test]
    fn a_saved_record_reads_as_it_was_written() {
        let mut text = Vec::new();
        write_saved(&mut text, (9, 2), "job", "a\\\"b", b"[1]");
        text.pop();
        assert!(is_whole(&text));
        let saved = Saved::read(&text).expect("a record");
        assert_eq!((saved.seq, saved.nth, saved.kind, &*saved.id), (9, 2, "job", "a\\\"b"));
        assert_eq!(&text[saved.body], b"[1]");
        assert_eq!(Saved::read(&sealed()), None);
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
