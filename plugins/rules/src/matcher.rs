//! Rules made ready to match: one automaton of all keywords, one set of all patterns.
//! Keeps true: one pass over the text however many rules there are, and the same hits in the same order for the same input.

use std::collections::BTreeMap;

use aho_corasick::{AhoCorasick, AhoCorasickKind, Match};
use chela_sdk::ConfigError;
use regex::RegexSet;

use crate::config::Rule;
use crate::patterns;
use crate::text::{Text, normalise};

/// A further keyword of a rule counts half of the one before it: ten words of one list are not ten times the evidence.
const FURTHER: f64 = 0.5;

pub struct Matcher {
    rules: Vec<Weighed>,
    /// The keys of the rules' categories; a rule names one by its place.
    categories: Vec<String>,
    automaton: Option<AhoCorasick>,
    keywords: Vec<Keyword>,
    patterns: Option<RegexSet>,
    /// The rule of each pattern, and the pattern as it was written.
    patterns_of: Vec<(u32, String)>,
    participants: Vec<(u32, String)>,
}

struct Weighed {
    category: u32,
    weight: f64,
    sub_tag: Option<String>,
}

/// One needle of the automaton and the rules that want it.
struct Keyword {
    text: String,
    uses: Vec<Use>,
}

#[derive(Clone, Copy)]
struct Use {
    rule: u32,
    any_ending: bool,
    tags_only: bool,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Kind {
    Keyword,
    Tag,
    Pattern,
    Participant,
}

/// That something of a rule matched; `name` is its place among those of its kind.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Hit {
    rule: u32,
    kind: Kind,
    name: u32,
}

impl Matcher {
    /// The rules of a deployment behind those it inherits, whose patterns a test holds to be good.
    pub fn new(inherited: Vec<Rule>, own: Vec<Rule>) -> Result<Self, ConfigError> {
        let inherited_count = inherited.len();
        let mut categories: Vec<String> = Vec::new();
        let mut needles: BTreeMap<String, Vec<Use>> = BTreeMap::new();
        let (mut rules, mut patterns_of, mut paths, mut participants) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (at, rule) in inherited.into_iter().chain(own).enumerate() {
            let number = u32::try_from(at).expect("the rules are bounded");
            let category = categories.iter().position(|key| *key == rule.category).unwrap_or_else(|| {
                categories.push(rule.category.clone());
                categories.len() - 1
            });
            for (words, tags_only) in [(&rule.keywords, false), (&rule.tags, true)] {
                for word in words {
                    let normal = normalise(word);
                    let needle = normal.trim_end_matches('*').trim_end();
                    let any_ending = needle.len() < normal.len();
                    needles.entry(needle.to_owned()).or_default().push(Use { rule: number, any_ending, tags_only });
                }
            }
            for (within, pattern) in rule.patterns.into_iter().enumerate() {
                paths.push(format!("rules[{}].patterns[{within}]", at.saturating_sub(inherited_count)));
                patterns_of.push((number, pattern));
            }
            participants.extend(rule.participants.iter().map(|glob| (number, normalise(glob))));
            let category = u32::try_from(category).expect("the rules are bounded");
            rules.push(Weighed { category, weight: rule.weight, sub_tag: rule.sub_tag });
        }
        let texts: Vec<String> = patterns_of.iter().map(|(_, pattern)| pattern.clone()).collect();
        let patterns = if texts.is_empty() {
            None
        } else {
            Some(patterns::compile(&texts).map_err(|(at, message)| ConfigError::at(paths[at].clone(), message))?)
        };
        let keywords: Vec<Keyword> = needles.into_iter().map(|(text, uses)| Keyword { text, uses }).collect();
        let automaton = automaton(&keywords)?;
        Ok(Self { rules, categories, automaton, keywords, patterns, patterns_of, participants })
    }

    /// The keys of the categories that rules speak of.
    pub fn categories(&self) -> &[String] {
        &self.categories
    }

    /// Everything that matches, each thing once, in the order of the rules.
    pub fn hits(&self, text: &Text, participants: &[String]) -> Vec<Hit> {
        let mut hits = Vec::new();
        if let Some(automaton) = &self.automaton {
            let bytes = text.all.as_bytes();
            for found in automaton.find_overlapping_iter(bytes) {
                if !starts_well(bytes, found) {
                    continue;
                }
                let (name, ends) = (found.pattern().as_u32(), ends_well(bytes, found));
                for wanted in &self.keywords[found.pattern()].uses {
                    if (ends || wanted.any_ending) && (!wanted.tags_only || found.start() >= text.tags_at) {
                        let kind = if wanted.tags_only { Kind::Tag } else { Kind::Keyword };
                        hits.push(Hit { rule: wanted.rule, kind, name });
                    }
                }
            }
        }
        if let Some(patterns) = &self.patterns {
            for name in &patterns.matches(&text.all) {
                hits.push(hit(self.patterns_of[name].0, Kind::Pattern, name));
            }
        }
        if !self.participants.is_empty() {
            let names: Vec<String> = participants.iter().take(64).map(|name| normalise(name)).collect();
            for (at, (rule, glob)) in self.participants.iter().enumerate() {
                if names.iter().any(|name| glob_matches(glob, name)) {
                    hits.push(hit(*rule, Kind::Participant, at));
                }
            }
        }
        hits.sort_unstable();
        hits.dedup();
        hits
    }

    /// What the hits add up to for each of `categories()`.
    pub fn scores(&self, hits: &[Hit]) -> Vec<f64> {
        let mut scores = vec![0.0; self.categories.len()];
        for same in hits.chunk_by(|one, next| (one.rule, one.kind) == (next.rule, next.kind)) {
            let rule = &self.rules[same[0].rule as usize];
            let share = match same[0].kind {
                Kind::Keyword | Kind::Tag => (0..same.len().min(16)).fold(0.0, |sum, _| 1.0 + FURTHER * sum),
                Kind::Pattern | Kind::Participant => 1.0,
            };
            scores[rule.category as usize] += rule.weight * share;
        }
        scores
    }

    /// The category, by its place in `categories()`, that a hit speaks for; none when it speaks against one.
    pub fn speaks_for(&self, hit: Hit) -> Option<usize> {
        let rule = &self.rules[hit.rule as usize];
        (rule.weight > 0.0).then_some(rule.category as usize)
    }

    pub fn weight(&self, hit: Hit) -> f64 {
        self.rules[hit.rule as usize].weight
    }

    pub fn sub_tag(&self, hit: Hit) -> Option<&str> {
        self.rules[hit.rule as usize].sub_tag.as_deref()
    }

    /// What matched, in words.
    pub fn name(&self, hit: Hit) -> &str {
        let at = hit.name as usize;
        match hit.kind {
            Kind::Keyword | Kind::Tag => &self.keywords[at].text,
            Kind::Pattern => &self.patterns_of[at].1,
            Kind::Participant => &self.participants[at].1,
        }
    }
}

/// The contiguous form: a DFA is searched half as fast again, but takes seven times as long to build and 9 MB of memory.
fn automaton(keywords: &[Keyword]) -> Result<Option<AhoCorasick>, ConfigError> {
    if keywords.is_empty() {
        return Ok(None);
    }
    let mut builder = AhoCorasick::builder();
    builder.kind(Some(AhoCorasickKind::ContiguousNFA)).prefilter(false);
    let built = builder.build(keywords.iter().map(|keyword| &keyword.text));
    built.map(Some).map_err(|error| ConfigError::at("rules", format!("too many keywords: {error}")))
}

fn hit(rule: u32, kind: Kind, name: usize) -> Hit {
    Hit { rule, kind, name: u32::try_from(name).expect("what rules name is bounded") }
}

/// A word that begins with a letter of English begins where no such letter stands before it.
fn starts_well(text: &[u8], found: Match) -> bool {
    let before = found.start().checked_sub(1).map(|at| text[at]);
    !(text[found.start()].is_ascii_alphanumeric() && before.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

/// The same for its end; a Korean particle may follow: `rollback을`.
fn ends_well(text: &[u8], found: Match) -> bool {
    let after = text.get(found.end());
    !(text[found.end() - 1].is_ascii_alphanumeric() && after.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

/// `*` stands for any part; linear in practice, as names are short.
fn glob_matches(glob: &str, name: &str) -> bool {
    let Some((start, rest)) = glob.split_once('*') else { return glob == name };
    let Some(mut left) = name.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return left.ends_with(part);
        }
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(rules: &str) -> Matcher {
        let rules: Vec<Rule> = serde_json::from_str(rules).expect("rules");
        Matcher::new(Vec::new(), rules).expect("good rules")
    }

    fn check(keyword: &str, text: &str, expected: bool) {
        let matcher = matcher(&format!(r#"[{{"category": "a", "keywords": [{keyword:?}]}}]"#));
        let found = !matcher.hits(&Text::of(&[text.into()], &[]), &[]).is_empty();
        assert_eq!(found, expected, "{keyword} in {text}");
    }

    #[test]
    fn korean_matches_anywhere() {
        check("장애", "대규모장애가 났어요", true);
        check("배포 후", "배포  후 오류", true);
        check("배포 후", "배포\n\n후", true);
        check("장애", "장 애", false);
    }

    #[test]
    fn english_matches_whole_words() {
        check("test", "the latest build", false);
        check("test", "testing", false);
        check("test", "Test: passed", true);
        check("test", "unit_test", true);
        check("rollback", "rollback을 했습니다", true);
        check("roll back", "ROLL   back!", true);
        check("a/b", "an A/B test", true);
        check("c++", "in C++ only", true);
    }

    #[test]
    fn a_star_allows_any_ending() {
        check("deploy*", "we deployed it", true);
        check("deploy*", "deploy", true);
        check("deploy*", "redeploy", false);
        check("배포*", "재배포했다", true);
    }

    #[test]
    fn no_keyword_matches_across_two_messages() {
        let matcher = matcher(r#"[{"category": "a", "keywords": ["배포 후"]}]"#);
        let apart = Text::of(&["배포".into(), "후".into()], &["배포".into()]);
        assert!(matcher.hits(&apart, &[]).is_empty());
    }

    fn check_score(rule: &str, text: &str, tag: &str, participant: &str, expected: f64) {
        let matcher = matcher(&format!("[{rule}]"));
        let hits = matcher.hits(&Text::of(&[text.into()], &[tag.into()]), &[participant.into()]);
        assert_eq!(matcher.scores(&hits), [expected], "{rule}");
    }

    #[test]
    fn each_kind_adds_the_weight_and_further_keywords_add_less() {
        let words = r#"{"category": "a", "weight": 2, "keywords": ["one", "two", "three"]}"#;
        check_score(words, "one one", "", "", 2.0);
        check_score(words, "one", "two", "", 3.0);
        check_score(words, "one two three", "", "", 3.5);
        let kinds =
            r#"{"category": "a", "keywords": ["one"], "patterns": ["o.e"], "participants": ["qa-*"], "tags": ["one"]}"#;
        check_score(kinds, "one", "", "", 2.0);
        check_score(kinds, "one", "one", "QA-1", 4.0);
        check_score(r#"{"category": "a", "weight": -2, "keywords": ["one"]}"#, "one", "", "", -2.0);
    }

    #[test]
    fn tags_are_words_of_titles_only() {
        let rule = r#"{"category": "a", "tags": ["release*"]}"#;
        check_score(rule, "release", "", "", 0.0);
        check_score(rule, "", "the releases", "", 1.0);
    }

    #[test]
    fn a_bad_pattern_is_refused_with_its_place() {
        let own = r#"[{"category": "a", "tags": ["b"]}, {"category": "a", "patterns": ["ok", "("]}]"#;
        let inherited = r#"[{"category": "b", "patterns": ["x"]}]"#;
        let rules = |json: &str| serde_json::from_str::<Vec<Rule>>(json).expect("rules");
        let error = Matcher::new(rules(inherited), rules(own)).err().expect("refused");
        assert_eq!((error.path.as_str(), error.message.as_str()), ("rules[1].patterns[1]", "unclosed group"));
    }

    #[test]
    fn globs_match_whole_names() {
        for (glob, name, expected) in [
            ("qa-*", "qa-lead", true),
            ("qa-*", "iqa-lead", false),
            ("*-qa", "web-qa", true),
            ("*ops*", "devops-1", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxc", false),
            ("ab*ba", "aba", false),
            ("eden", "eden2", false),
        ] {
            assert_eq!(glob_matches(glob, name), expected, "{glob} {name}");
        }
    }
}
