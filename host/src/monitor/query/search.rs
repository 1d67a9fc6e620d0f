//! Work sessions by words of their messages: each word by its beginning, all of them in one message, the newest match first.

use std::collections::HashMap;

use rusqlite::OptionalExtension;
use serde_json::{Value, json};

use super::sessions::{COLUMNS, Found, fits, found};
use super::{Page, QueryError, Readers, SessionsQuery};
use crate::monitor::line::Line;

const WORDS_MAX: usize = 8;
const WORD_CHARS_MAX: usize = 40;
/// Matches that one request may look at.
const MATCHES_MAX: usize = 20_000;
const PASSAGES_MAX: usize = 3;
/// What is shown around a match, on either side.
const AROUND_CHARS: usize = 60;

impl Readers {
    pub(super) fn search(&self, query: &SessionsQuery, text: &str, now: u64) -> Result<Page, QueryError> {
        let words = words(text);
        if words.is_empty() {
            return Ok(Page { rows: Vec::new(), next: None });
        }
        let (top, skip) = query.cursor.as_deref().and_then(decode).unwrap_or((i64::MAX, 0));
        self.read(|db| {
            let terms: Vec<String> = words.iter().map(|word| format!("\"{word}\"*")).collect();
            let mut find = db.prepare_cached(
                "SELECT texts.rowid, e.session, e.len FROM texts JOIN events e ON e.seq = texts.rowid
                 WHERE texts MATCH ? AND texts.rowid <= ? ORDER BY texts.rowid DESC",
            )?;
            let mut rows = find.query(rusqlite::params![terms.join(" "), top])?;
            let sql = format!("SELECT {COLUMNS} FROM sessions s WHERE s.id = ?");
            let mut load = db.prepare_cached(&sql)?;
            let mut first = None;
            let mut order: Vec<(Found, Vec<(i64, usize)>)> = Vec::new();
            // Where a session stands in `order`; none if it does not fit.
            let mut seen: HashMap<i64, Option<usize>> = HashMap::new();
            let mut cut = false;
            let mut scanned = 0;
            while let Some(row) = rows.next()? {
                let (seq, len) = (row.get::<_, i64>(0)?, row.get::<_, i64>(2)?.unsigned_abs() as usize);
                first.get_or_insert(seq);
                scanned += 1;
                if order.len() > skip + query.limit || scanned > MATCHES_MAX {
                    cut = true;
                    break;
                }
                let Some(session) = row.get::<_, Option<i64>>(1)? else { continue };
                match seen.get(&session) {
                    Some(Some(at)) => order[*at].1.push((seq, len)),
                    Some(None) => {}
                    None => {
                        let found = load.query_row([session], |row| found(row, now)).optional()?;
                        let at = found.filter(|found| fits(found, query)).map(|found| {
                            order.push((found, vec![(seq, len)]));
                            order.len() - 1
                        });
                        seen.insert(session, at);
                    }
                }
            }
            let more = order.len() > skip + query.limit;
            order.truncate(skip + query.limit);
            let mut shown = Vec::new();
            for (found, matches) in order.drain(..).skip(skip) {
                let mut summary = found.summary();
                summary["matches"] = self.passages(&matches, &words)?;
                shown.push(summary);
            }
            let next = (more && cut).then(|| format!("q{}.{}", first.unwrap_or(top), skip + shown.len()));
            Ok(Page { rows: shown, next })
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

/// `qSEQ.COUNT`: the first match of the first page, and how many sessions were shown.
fn decode(cursor: &str) -> Option<(i64, usize)> {
    let (top, skip) = cursor.strip_prefix('q')?.split_once('.')?;
    Some((top.parse().ok()?, skip.parse().ok().filter(|skip| *skip <= MATCHES_MAX)?))
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
    fn a_passage_shows_what_stands_around_the_match() {
        let check = |text: &str, word: &str, expected: &str| assert_eq!(passage(text, &[word.to_owned()]), expected);
        check("오늘 배포를 합니다", "배포", "오늘 배포를 합니다");
        check("Deploy\nit", "deploy", "Deploy it");
        let long = format!("{}needle {}", "x ".repeat(100), "y ".repeat(100));
        let shown = passage(&long, &["needle".to_owned()]);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains(" needle "), "{shown}");
    }
}
