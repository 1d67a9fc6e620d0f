//! Reads one thing out of a certificate: until when it is good. Keeps true: no bytes make it panic or loop.

use crate::clock::Timestamp;

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// None where it is written in a way that we do not know.
pub(super) fn valid_until(certificate: &[u8]) -> Option<Timestamp> {
    let (tag, body, _) = element(certificate)?;
    let (inner_tag, mut rest, _) = element(body)?;
    if tag != SEQUENCE || inner_tag != SEQUENCE {
        return None;
    }
    if rest.first() == Some(&VERSION) {
        rest = element(rest)?.2;
    }
    // Serial number, algorithm, issuer.
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (tag, validity, _) = element(rest)?;
    let (_, _, after) = element(validity)?;
    let (kind, text, _) = element(after)?;
    let text = std::str::from_utf8(text).ok().filter(|text| tag == SEQUENCE && text.is_ascii())?;
    let digits = text.strip_suffix('Z')?;
    let year = match kind {
        // Two digits stand for 1950 to 2049.
        UTC_TIME => format!("{}{}", if digits.get(..2)? < "50" { "20" } else { "19" }, digits.get(..2)?),
        GENERALIZED_TIME => digits.get(..4)?.to_owned(),
        _ => return None,
    };
    let rest = digits.get(if kind == UTC_TIME { 2 } else { 4 }..)?;
    let part = |at: usize| rest.get(at..at + 2);
    let (month, day) = (part(0)?, part(2)?);
    Timestamp::parse(&format!("{year}-{month}-{day}T{}:{}:{}Z", part(4)?, part(6)?, part(8)?))
}

/// The first element: its tag, its content, and what comes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        ..=0x7f => (usize::from(first), rest),
        // A certificate is shorter than what four bytes can say.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much of a certificate as is read here.
    fn certificate(kind: u8, until: &str) -> Vec<u8> {
        let wrap = |tag: u8, body: &[u8]| {
            let mut bytes = vec![tag, 0x82];
            bytes.extend(u16::try_from(body.len()).expect("short").to_be_bytes());
            bytes.extend(body);
            bytes
        };
        let validity = [wrap(UTC_TIME, b"250101000000Z"), wrap(kind, until.as_bytes())].concat();
        let empty = wrap(SEQUENCE, b"");
        let inner =
            [wrap(VERSION, &[2, 1, 2]), vec![2, 1, 7], empty.clone(), empty, wrap(SEQUENCE, &validity)].concat();
        wrap(SEQUENCE, &wrap(SEQUENCE, &inner))
    }

    #[test]
    fn the_end_is_read_in_both_ways_of_writing() {
        let check = |kind: u8, until: &str, expected: Option<&str>| {
            let read = valid_until(&certificate(kind, until)).map(|time| time.to_string());
            assert_eq!(read.as_deref().map(|time| &time[..19]), expected, "{until}");
        };
        check(UTC_TIME, "261117200000Z", Some("2026-11-17T20:00:00"));
        check(UTC_TIME, "991231235959Z", Some("1999-12-31T23:59:59"));
        check(GENERALIZED_TIME, "21260101000000Z", Some("2126-01-01T00:00:00"));
        check(UTC_TIME, "269917200000Z", None);
        check(UTC_TIME, "2611172000", None);
        check(0x02, "261117200000Z", None);
    }

    #[test]
    fn bytes_that_are_cut_or_changed_are_no_certificate_and_no_panic() {
        let whole = certificate(UTC_TIME, "261117200000Z");
        for cut in 0..whole.len() {
            assert_eq!(valid_until(&whole[..cut]), None);
        }
        for at in 0..whole.len() {
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = valid_until(&changed);
            }
        }
    }
}
