//! Work sessions by words of their messages: each word by its beginning, all of them in one message, the newest match first.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension};
use serde_json::{Value, json};

use super::sessions::{COLUMNS, Found, fits, found};
use super::{Page, QueryError, Readers, SessionsQuery};
use crate::monitor::line::Line;

const WORDS_MAX: usize = 8;
const WORD_CHARS_MAX: usize = 40;
/// Steps that one request may take: matches that it looks at, and what is as much work. Where they end the page does, and the next goes on.
const STEPS_MAX: usize = 20_000;
/// To ask whether one event matches is as much work as so many matches of a list, and to go through all of them as so many.
const STEPS_OF_ONE: usize = 8;
const STEPS_OF_ALL: usize = 5_000;
/// Later events of a session that are asked about one by one.
const LATER_MAX: i64 = 500;
const PASSAGES_MAX: usize = 3;
/// What is shown around a match, on either side.
const AROUND_CHARS: usize = 60;

impl Readers {
    pub(super) fn search(&self, query: &SessionsQuery, text: &str, now: u64) -> Result<Page, QueryError> {
        let words = words(text);
        if words.is_empty() {
            return Ok(Page { rows: Vec::new(), next: None });
        }
        let from = query.cursor.as_deref().and_then(decode);
        self.read(|db| {
            let terms: Vec<String> = words.iter().map(|word| format!("\"{word}\"*")).collect();
            let terms = terms.join(" ");
            let mut find = db.prepare_cached(
                "SELECT texts.rowid, e.session, e.len FROM texts JOIN events e ON e.seq = texts.rowid
                 WHERE texts MATCH ? AND texts.rowid <= ? ORDER BY texts.rowid DESC",
            )?;
            let mut rows = find.query(rusqlite::params![terms, from.map_or(i64::MAX, |from| from.at)])?;
            let sql = format!("SELECT {COLUMNS} FROM sessions s WHERE s.id = ?");
            let mut load = db.prepare_cached(&sql)?;
            let mut top = from.map(|from| from.top);
            let mut order: Vec<(Found, Vec<(i64, usize)>)> = Vec::new();
            // Where a session stands in `order`; none if it does not fit, or an earlier page has it.
            let mut seen: HashMap<i64, Option<usize>> = HashMap::new();
            let mut next = None;
            let mut steps = 0;
            while let Some(row) = rows.next()? {
                let (seq, len) = (row.get::<_, i64>(0)?, row.get::<_, i64>(2)?.unsigned_abs() as usize);
                top.get_or_insert(seq);
                steps += 1;
                if steps > STEPS_MAX {
                    next = Some(seq);
                    break;
                }
                let Some(session) = row.get::<_, Option<i64>>(1)? else { continue };
                if let Some(at) = seen.get(&session) {
                    if let Some(at) = *at {
                        order[at].1.push((seq, len));
                    }
                    continue;
                }
                let earlier = match from {
                    Some(from) => is_earlier(db, &terms, session, from, &mut steps)?,
                    None => false,
                };
                let found = if earlier { None } else { load.query_row([session], |row| found(row, now)).optional()? };
                let fitting = found.filter(|found| fits(found, query));
                if fitting.is_some() && order.len() == query.limit {
                    next = Some(seq);
                    break;
                }
                let at = fitting.map(|found| {
                    order.push((found, vec![(seq, len)]));
                    order.len() - 1
                });
                seen.insert(session, at);
            }
            let mut shown = Vec::new();
            for (found, matches) in order {
                let mut summary = found.summary();
                summary["matches"] = self.passages(&matches, &words)?;
                shown.push(summary);
            }
            Ok(Page { rows: shown, next: top.zip(next).map(|(top, at)| Place { top, at }.encode()) })
        })
    }

    /// The beginnings of matches, with what stands around them.
    fn passages(&self, matches: &[(i64, usize)], words: &[String]) -> Result<Value, QueryError> {
        let mut shown = Vec::new();
        for (seq, len) in matches.iter().take(PASSAGES_MAX) {
            let bytes = match self.lines.read(*seq, *len) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                read => read?,
            };
            let Some(line) = Line::parse(&bytes) else { continue };
            let text = line.text().unwrap_or_default();
            shown.push(json!({
                "seq": seq,
                "ts": line.ts,
                "type": line.kind,
                "fromAgent": line.data.from_agent.get(),
                "passage": passage(text, words),
            }));
        }
        Ok(Value::Array(shown))
    }
}

/// The words of a question, as the index splits them.
pub(in crate::monitor) fn words(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| word.chars().take(WORD_CHARS_MAX).collect()).take(WORDS_MAX).collect()
}

/// What stands around the first match.
pub(in crate::monitor) fn passage(text: &str, words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let mut start_of_word = true;
    let mut at = 0;
    for (place, (offset, c)) in text.char_indices().enumerate() {
        let rest = &text[offset..];
        if start_of_word && c.is_alphanumeric() {
            let longest = words.iter().map(|word| word.chars().count()).max().unwrap_or(0);
            let head: String = rest.chars().take(longest).flat_map(char::to_lowercase).collect();
            if words.iter().any(|word| head.starts_with(word.as_str())) {
                at = place;
                break;
            }
        }
        start_of_word = !c.is_alphanumeric();
    }
    let from = at.saturating_sub(AROUND_CHARS);
    let cut: String = text.chars().skip(from).take(2 * AROUND_CHARS).collect();
    let cut = cut.split_whitespace().collect::<Vec<_>>().join(" ");
    let before = if from > 0 { "…" } else { "" };
    let after = if text.chars().count() > from + 2 * AROUND_CHARS { "…" } else { "" };
    format!("{before}{cut}{after}")
}

/// Whether a session has a match on an earlier page, where it was shown: of its later events each is asked about. Where they are many, all
/// later matches are gone through instead.
fn is_earlier(db: &Connection, terms: &str, session: i64, from: Place, steps: &mut usize) -> Result<bool, QueryError> {
    let mut later =
        db.prepare_cached("SELECT seq FROM events WHERE session = ? AND seq > ? AND seq <= ? ORDER BY seq LIMIT ?")?;
    let later = later.query_map([session, from.at, from.top, LATER_MAX + 1], |row| row.get(0))?;
    let later: Vec<i64> = later.collect::<Result<_, _>>()?;
    if later.len() as i64 > LATER_MAX {
        *steps += STEPS_OF_ALL;
        let mut all = db.prepare_cached(
            "SELECT 1 FROM texts JOIN events e ON e.seq = texts.rowid
             WHERE texts MATCH ? AND texts.rowid > ? AND texts.rowid <= ? AND e.session = ?",
        )?;
        return Ok(all.exists(rusqlite::params![terms, from.at, from.top, session])?);
    }
    let mut one = db.prepare_cached("SELECT 1 FROM texts WHERE texts MATCH ? AND texts.rowid = ?")?;
    for seq in later {
        *steps += STEPS_OF_ONE;
        if one.exists(rusqlite::params![terms, seq])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where a page begins: `q` the newest match of the first page, `-` the newest match of this one. What came after the first page began is
/// not a part of it.
#[derive(Clone, Copy)]
struct Place {
    top: i64,
    at: i64,
}

impl Place {
    fn encode(self) -> String {
        format!("q{}-{}", self.top, self.at)
    }
}

fn decode(cursor: &str) -> Option<Place> {
    let (top, at) = cursor.strip_prefix('q')?.split_once('-')?;
    let place = Place { top: top.parse().ok()?, at: at.parse().ok()? };
    (0 <= place.at && place.at <= place.top).then_some(place)
}

pub(super) fn is_cursor(text: &str) -> bool {
    decode(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_split_like_a_message() {
        assert_eq!(words("배포, 로그인(OAuth2) * \"-"), ["배포", "로그인", "OAuth2"]);
        assert!(words(" \"*' ").is_empty());
        assert_eq!(words(&"a ".repeat(100)).len(), WORDS_MAX);
    }

    #[test]
    fn a_cursor_is_a_place_or_none() {
        let place = decode("q9-7").expect("a place");
        assert_eq!((place.top, place.at, place.encode().as_str()), (9, 7, "q9-7"));
        for cursor in ["", "q", "q7", "q7-9", "q9--7", "q9.7", "9-7", "q9-7-1", "q99999999999999999999-1"] {
            assert!(decode(cursor).is_none(), "{cursor}");
        }
    }

    #[test]
    fn a_passage_shows_what_stands_around_the_match() {
        let check = |text: &str, word: &str, expected: &str| assert_eq!(passage(text, &[word.to_owned()]), expected);
        check("오늘 배포를 합니다", "배포", "오늘 배포를 합니다");
        check("Deploy\nit", "deploy", "Deploy it");
        let long = format!("{}needle {}", "x ".repeat(100), "y ".repeat(100));
        let shown = passage(&long, &["needle".to_owned()]);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains(" needle "), "{shown}");
    }
}
