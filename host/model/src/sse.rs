//! Server-sent events, as the WHATWG describes them, from bytes that are cut anywhere.
//! Keeps true: the events are the same however the bytes are cut; one event is never more than a mebibyte.
//! Never: keeps names, ids and retry times of events; the formats here say all they mean in the data.

use crate::{Failure, FailureKind};

pub(crate) const EVENT_BYTES_MAX: usize = 1024 * 1024;

#[derive(Default)]
pub(crate) struct Events {
    /// The line that has not ended yet, as bytes, since it may end within a character.
    line: Vec<u8>,
    data: Option<String>,
    is_after_cr: bool,
    is_after_first_line: bool,
}

impl Events {
    /// The data of the next event; takes from `bytes` what it has read. None: all is read, and more is needed.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<String>, Failure> {
        while let Some((first, rest)) = bytes.split_first() {
            if std::mem::take(&mut self.is_after_cr) && *first == b'\n' {
                *bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.line.len() + part.len() + self.data.as_ref().map_or(0, String::len) > EVENT_BYTES_MAX {
                let message = format!("the provider sent an event of more than {EVENT_BYTES_MAX} bytes");
                return Err(Failure::new(FailureKind::TooLarge, message));
            }
            self.line.extend_from_slice(part);
            let Some((ending, rest)) = rest.split_first() else {
                *bytes = rest;
                return Ok(None);
            };
            *bytes = rest;
            self.is_after_cr = *ending == b'\r';
            if let Some(data) = self.end_line() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }

    /// A blank line ends the event, and gives its data if it had any.
    fn end_line(&mut self) -> Option<String> {
        let bytes = std::mem::take(&mut self.line);
        let is_first = !std::mem::replace(&mut self.is_after_first_line, true);
        let bytes = if is_first { bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&bytes) } else { &bytes };
        if bytes.is_empty() {
            return self.data.take();
        }
        let line = String::from_utf8_lossy(bytes);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(events: &mut Events, mut bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(data) = events.next(&mut bytes).expect("good") {
            found.push(data);
        }
        assert!(bytes.is_empty());
        found
    }

    fn check(stream: &[u8], expected: &[&str]) {
        assert_eq!(all(&mut Events::default(), stream), expected);
        let mut events = Events::default();
        let one_by_one: Vec<String> = stream.chunks(1).flat_map(|byte| all(&mut events, byte)).collect();
        assert_eq!(one_by_one, expected);
    }

    #[test]
    fn lines_end_in_three_ways() {
        check(b"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\r\n", &["a", "b", "c", "d"]);
        check(b"data: a\r\n\ndata: b\n\r", &["a", "b"]);
    }

    #[test]
    fn data_lines_are_joined_and_one_blank_is_cut_off() {
        check(b"data: a\ndata:b\ndata:  c\ndata\n\n", &["a\nb\n c\n"]);
        check(b"data:\n\n", &[""]);
    }

    #[test]
    fn comments_other_fields_and_empty_events_are_passed_over() {
        check(b": ping\n\nevent: x\nid: 1\nretry: 5\n\n\n\ndata: a\nnonsense\n\n", &["a"]);
        check(b"dataset: no\n\n", &[]);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_at_the_beginning_only() {
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n".as_bytes(), &["a"]);
    }

    #[test]
    fn an_event_without_its_blank_line_is_not_told() {
        check(b"data: a\n\ndata: b\n", &["a"]);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        check(b"data: \xFF\xEA\xB0\n\n", &["\u{fffd}\u{fffd}"]);
    }

    #[test]
    fn an_event_past_its_bound_is_refused_and_one_at_it_is_not() {
        let fits = EVENT_BYTES_MAX - "data: ".len();
        let stream = |bytes: usize| format!("data: {}\n\n", "x".repeat(bytes)).into_bytes();
        assert_eq!(all(&mut Events::default(), &stream(fits)).len(), 1);
        let failure = Events::default().next(&mut stream(fits + 1).as_slice()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::TooLarge);
        let many = "data: 0123456789\n".repeat(EVENT_BYTES_MAX / 10);
        assert_eq!(Events::default().next(&mut many.as_bytes()).unwrap_err().kind, FailureKind::TooLarge);
        let comments = format!(": {}\n", "x".repeat(1000)).repeat(2000);
        assert_eq!(Events::default().next(&mut comments.as_bytes()), Ok(None));
    }
}
