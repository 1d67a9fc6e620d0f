//! One line of JSON, written field by field into a buffer that is used again.
//! Keeps true: a line is what `serde_json` would write for the same fields in the same order, byte for byte.

use std::fmt::Write;

/// The open line: `{"id":…,"type":…,"agentId":…,"ts":…,"data":{`, then fields, then `}}`.
pub struct Record<'a> {
    line: &'a mut String,
    first: bool,
}

impl<'a> Record<'a> {
    /// Begins anew in a buffer that may hold the line before.
    pub fn open(line: &'a mut String, id: Option<Id<'_>>, kind: &str, agent: &str, ts: u64) -> Self {
        line.clear();
        line.push('{');
        if let Some(id) = id {
            line.push_str("\"id\":\"");
            id.push(line);
            line.push_str("\",");
        }
        line.push_str("\"type\":\"");
        line.push_str(kind);
        line.push_str("\",\"agentId\":\"");
        line.push_str(agent);
        let _ = write!(line, "\",\"ts\":{ts},\"data\":{{");
        Self { line, first: true }
    }

    pub fn close(self) {
        self.line.push_str("}}");
    }

    pub fn key(&mut self, key: &str) -> &mut String {
        if !self.first {
            self.line.push(',');
        }
        self.first = false;
        self.line.push('"');
        self.line.push_str(key);
        self.line.push_str("\":");
        self.line
    }

    /// A text that needs no escapes, such as a word of ours.
    pub fn word(&mut self, key: &str, word: &str) -> &mut Self {
        let line = self.key(key);
        line.push('"');
        line.push_str(word);
        line.push('"');
        self
    }

    pub fn text(&mut self, key: &str, text: &str) -> &mut Self {
        escape(self.key(key), text);
        self
    }

    pub fn texts(&mut self, key: &str, texts: &[&str]) -> &mut Self {
        let line = self.key(key);
        line.push('[');
        for (index, text) in texts.iter().enumerate() {
            if index > 0 {
                line.push(',');
            }
            escape(line, text);
        }
        line.push(']');
        self
    }

    pub fn number(&mut self, key: &str, number: u64) -> &mut Self {
        let _ = write!(self.key(key), "{number}");
        self
    }

    /// JSON as it is.
    pub fn json(&mut self, key: &str, json: &str) -> &mut Self {
        self.key(key).push_str(json);
        self
    }

    pub fn flag(&mut self, key: &str, flag: bool) -> &mut Self {
        self.json(key, if flag { "true" } else { "false" })
    }

    pub fn id(&mut self, key: &str, id: Id<'_>) -> &mut Self {
        let line = self.key(key);
        line.push('"');
        id.push(line);
        line.push('"');
        self
    }
}

/// A name made of a UUID's bits.
#[derive(Clone, Copy)]
pub enum Id<'a> {
    /// `<uuid>`, with the version already in the bits
    Plain(u128),
    /// `<prefix><uuid>`
    Prefixed(&'a str, u128),
    /// `<prefix><uuid>:<revision>`
    Revised(&'a str, u128, u32),
    /// `agent:<agent>:<session>`
    Session(&'a str, &'a str),
    /// `agent:<agent>:subagent:<uuid>`
    Subagent(&'a str, u128),
    /// `<prefix>` and eight letters and digits
    Short(&'a str, u64),
}

impl Id<'_> {
    pub fn push(self, line: &mut String) {
        match self {
            Self::Plain(bits) => uuid(line, bits),
            Self::Prefixed(prefix, bits) => {
                line.push_str(prefix);
                uuid(line, bits);
            }
            Self::Revised(prefix, bits, revision) => {
                line.push_str(prefix);
                uuid(line, bits);
                let _ = write!(line, ":{revision}");
            }
            Self::Session(agent, session) => {
                line.push_str("agent:");
                line.push_str(agent);
                line.push(':');
                line.push_str(session);
            }
            Self::Subagent(agent, bits) => {
                line.push_str("agent:");
                line.push_str(agent);
                line.push_str(":subagent:");
                uuid(line, bits);
            }
            Self::Short(prefix, mut word) => {
                const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
                line.push_str(prefix);
                for _ in 0..8 {
                    line.push(char::from(LETTERS[(word & 31) as usize]));
                    word >>= 5;
                }
            }
        }
    }
}

/// A UUIDv7 of a time and chance.
pub fn v7(ts: u64, chance: u128) -> u128 {
    with_version(7, (u128::from(ts) << 80) | (chance >> 48))
}

/// A UUIDv4 of chance alone.
pub fn v4(chance: u128) -> u128 {
    with_version(4, chance)
}

fn with_version(version: u128, bits: u128) -> u128 {
    let cleared = bits & !(0xf << 76) & !(0x3 << 62);
    cleared | (version << 76) | (0x2 << 62)
}

fn uuid(line: &mut String, bits: u128) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (index, byte) in bits.to_be_bytes().into_iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    line.push_str(str::from_utf8(&text).expect("digits and hyphens"));
}

fn escape(line: &mut String, text: &str) {
    line.push('"');
    let mut written = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        line.push_str(&text[written..at]);
        written = at + 1;
        match byte {
            b'"' => line.push_str("\\\""),
            b'\\' => line.push_str("\\\\"),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            0x08 => line.push_str("\\b"),
            0x0c => line.push_str("\\f"),
            other => {
                let _ = write!(line, "\\u{other:04x}");
            }
        }
    }
    line.push_str(&text[written..]);
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_serde_json_does() {
        for text in ["", "plain", "줄\n바꿈 \"따옴표\" \\ 역슬래시", "\u{0}\u{1f}\t\r\u{8}\u{c}끝", "\""] {
            let mut line = String::new();
            escape(&mut line, text);
            assert_eq!(line, serde_json::to_string(text).expect("a text is JSON"));
        }
    }

    #[test]
    fn ids_say_their_version_and_time() {
        let mut line = String::new();
        uuid(&mut line, v7(0x0192_0000_0001, u128::MAX));
        assert_eq!(line, "01920000-0001-7fff-bfff-ffffffffffff");
        line.clear();
        uuid(&mut line, v4(0));
        assert_eq!(line, "00000000-0000-4000-8000-000000000000");
    }
}
