//! Changes that belong together: on disk they are one line, so all of them happen or none.
//! Keeps true: what could not be read back is refused here, by name, before anything is written.

use std::ops::Range;

use serde::Serialize;
use serde::de::IgnoredAny;

use super::Error;
use super::line::{ENTRY_BYTES, LINE_BYTES_MAX, SEAL_BYTES, write_text};

const KIND_BYTES_MAX: usize = 32;
const ID_BYTES_MAX: usize = 256;

/// Bytes of the changes of one transaction, at most.
pub const TRANSACTION_BYTES_MAX: usize = LINE_BYTES_MAX - ENTRY_BYTES - SEAL_BYTES - 1;

/// A list of changes; later ones of the same record win.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    /// The changes as they will be written.
    pub(super) text: Vec<u8>,
    pub(super) changes: Vec<Planned>,
}

#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub kind: Box<str>,
    pub id: Box<str>,
    /// Where the body is in the text; none for a drop.
    pub body: Option<Range<usize>>,
}

impl Transaction {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the record's body, which is JSON without a line end in it.
    pub fn put(&mut self, kind: &str, id: &str, body: &[u8]) -> Result<(), Error> {
        check_names(kind, id)?;
        // JSON has a line end only between its parts; within text it is escaped.
        if body.contains(&b'\n') || body.contains(&b'\r') {
            return Err(Error::Body { id: id.to_owned(), what: "it has a line end".into() });
        }
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(body) {
            return Err(Error::Body { id: id.to_owned(), what: error.to_string() });
        }
        self.add("put", kind, id, Some(body))
    }

    /// Sets the record's body to a value as JSON, which needs no second look.
    pub fn put_value(&mut self, kind: &str, id: &str, value: &impl Serialize) -> Result<(), Error> {
        check_names(kind, id)?;
        let wrong = |what: String| Error::Body { id: id.to_owned(), what };
        let body = serde_json::to_vec(value).map_err(|error| wrong(error.to_string()))?;
        if body.contains(&b'\n') || body.contains(&b'\r') {
            return Err(wrong("it has a line end".into()));
        }
        self.add("put", kind, id, Some(&body))
    }

    /// Ends the record's life; nothing happens to one that is not there.
    pub fn drop(&mut self, kind: &str, id: &str) -> Result<(), Error> {
        check_names(kind, id)?;
        self.add("drop", kind, id, None)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes it will take, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.text.len() + ENTRY_BYTES + SEAL_BYTES
    }

    fn add(&mut self, word: &str, kind: &str, id: &str, body: Option<&[u8]>) -> Result<(), Error> {
        let before = self.text.len();
        if before > 0 {
            self.text.push(b',');
        }
        self.text.extend_from_slice(format!("{{\"{word}\":\"{kind}\",\"id\":").as_bytes());
        write_text(&mut self.text, id);
        let body = body.map(|body| {
            let body = body.trim_ascii();
            self.text.extend_from_slice(format!(",\"len\":{},\"body\":", body.len()).as_bytes());
            let start = self.text.len();
            self.text.extend_from_slice(body);
            start..self.text.len()
        });
        self.text.push(b'}');
        if self.text.len() > TRANSACTION_BYTES_MAX {
            let bytes = self.text.len();
            self.text.truncate(before);
            return Err(Error::TooLarge { bytes });
        }
        self.changes.push(Planned { kind: kind.into(), id: id.into(), body });
        Ok(())
    }
}

fn check_names(kind: &str, id: &str) -> Result<(), Error> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'-';
    if kind.is_empty() || kind.len() > KIND_BYTES_MAX || !kind.bytes().all(plain) {
        return Err(Error::Kind { kind: kind.to_owned() });
    }
    if id.is_empty() || id.len() > ID_BYTES_MAX || id.bytes().any(|byte| byte.is_ascii_control()) {
        return Err(Error::Id { kind: kind.to_owned(), bytes: id.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_read_back_is_refused_by_name() {
        let mut transaction = Transaction::new();
        let long = "x".repeat(ID_BYTES_MAX + 1);
        for kind in ["", "Job", "job.x", "a\"b", &"k".repeat(KIND_BYTES_MAX + 1)] {
            assert!(matches!(transaction.put(kind, "a", b"1"), Err(Error::Kind { .. })), "{kind}");
        }
        for id in ["", "a\nb", "\u{7f}", &long] {
            assert!(matches!(transaction.drop("job", id), Err(Error::Id { .. })), "{id}");
        }
        for body in [&b""[..], b"{", b"1 2", b"{\"a\":\n1}", b"\xff", b"nul"] {
            assert!(matches!(transaction.put("job", "a", body), Err(Error::Body { .. })), "{body:?}");
        }
        assert!(transaction.is_empty());
    }

    #[test]
    fn a_transaction_past_its_size_is_refused_and_stays_as_it_was() {
        let mut transaction = Transaction::new();
        let big = format!("\"{}\"", "x".repeat(TRANSACTION_BYTES_MAX / 2));
        transaction.put("job", "a", big.as_bytes()).expect("half fits");
        let before = transaction.text.clone();
        assert!(matches!(transaction.put("job", "b", big.as_bytes()), Err(Error::TooLarge { .. })));
        assert_eq!((transaction.text, transaction.changes.len()), (before, 1));
    }
}
