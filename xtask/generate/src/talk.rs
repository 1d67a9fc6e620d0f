//! What agents say: conversations that the classifier is trained from, varied a little.
//! Keeps true: a text is never longer than it was asked to be. Never: reads the held-out items, which are for measuring only.

use std::fmt::Write;

use serde::Deserialize;

use crate::cast::Agent;
use crate::chance::Chance;

const TRAINING: &str = include_str!("../../../plugins/rules/corpus/training.ndjson");

const TAG_CHARS_MAX: usize = 40;

/// One conversation to speak from.
#[derive(Deserialize)]
pub struct Topic {
    texts: Vec<String>,
    tags: Vec<String>,
    pub category: Option<String>,
    lang: String,
    /// Topics of the same category and language follow each other from here, so that a long talk stays on its subject.
    #[serde(skip)]
    kin: (u32, u32),
}

pub struct Talk {
    topics: Vec<Topic>,
}

impl Talk {
    pub fn new() -> Self {
        let mut topics: Vec<Topic> = TRAINING
            .lines()
            .map(|line| serde_json::from_str(line).expect("the training items are our own"))
            .map(|mut topic: Topic| {
                topic.texts.retain(|text| !text.trim().is_empty());
                topic
            })
            .filter(|topic| !topic.texts.is_empty())
            .collect();
        topics.sort_by(|a, b| (&a.category, &a.lang).cmp(&(&b.category, &b.lang)));
        let mut first = 0;
        while first < topics.len() {
            let same = |topic: &&Topic| topic.category == topics[first].category && topic.lang == topics[first].lang;
            let end = first + topics[first..].iter().take_while(same).count();
            for topic in &mut topics[first..end] {
                topic.kin = (first as u32, end as u32);
            }
            first = end;
        }
        Self { topics }
    }

    pub fn topics(&self) -> u32 {
        self.topics.len() as u32
    }

    pub fn topic(&self, index: u32) -> &Topic {
        &self.topics[index as usize]
    }

    /// A short title of the topic's work.
    pub fn title(&self, index: u32) -> &str {
        let topic = self.topic(index);
        topic.tags.first().unwrap_or(&topic.texts[0])
    }

    /// A word or two about the topic, short enough for a sub-tag.
    pub fn tag(&self, index: u32) -> &str {
        let title = self.title(index);
        title.char_indices().nth(TAG_CHARS_MAX).map_or(title, |(end, _)| &title[..end])
    }

    /// Writes what is said next about a topic; `out` was empty.
    pub fn say(&self, out: &mut String, speech: &Speech, chance: &mut Chance) {
        let own = self.topic(speech.topic);
        let korean = own.lang == "ko";
        if speech.goal {
            let _ = writeln!(out, "[Goal] {}", self.title(speech.topic));
        }
        if chance.per_mille(120) {
            opening(out, korean, speech.to, chance);
        }
        match own.texts.get(speech.turn as usize) {
            Some(text) => out.push_str(text),
            None => out.push_str(self.kindred(own, chance)),
        }
        for _ in 1..pieces(speech.chars_max, chance) {
            out.push(if chance.per_mille(400) { '\n' } else { ' ' });
            out.push_str(self.kindred(own, chance));
        }
        if chance.per_mille(300) {
            reference(out, korean, chance);
        }
        if let Some((end, _)) = out.char_indices().nth(speech.chars_max) {
            out.truncate(end);
        }
    }

    fn kindred(&self, topic: &Topic, chance: &mut Chance) -> &str {
        let (first, end) = topic.kin;
        let other = &self.topics[(first + chance.below(end - first)) as usize];
        &other.texts[chance.index(other.texts.len())]
    }
}

/// What is to be said.
pub struct Speech {
    pub topic: u32,
    pub turn: u32,
    pub to: Agent,
    pub goal: bool,
    pub chars_max: usize,
}

/// Most messages are one to three sentences, previews one; one message in two hundred is a pasted page.
fn pieces(chars_max: usize, chance: &mut Chance) -> u32 {
    let preview = chars_max < 1_000;
    match chance.below(1_000) {
        0..600 => 1,
        600..950 if preview => 1,
        600..850 => 2,
        _ if preview => chance.between(2, 4),
        850..995 => chance.between(3, 5),
        _ => chance.between(12, 70),
    }
}

fn opening(out: &mut String, korean: bool, to: Agent, chance: &mut Chance) {
    let _ = match (korean, chance.below(5)) {
        (_, 0) => write!(out, "<@{}> ", 100_000_000_000_000_000 + u64::from(chance.below(u32::MAX))),
        (true, 1) => write!(out, "{}님, ", to.name),
        (true, 2) => write!(out, "**{}차 공유** ", chance.between(2, 9)),
        (true, 3) => write!(out, "추가로요. "),
        (true, _) => write!(out, "[NOTIFICATION] "),
        (false, 1) => write!(out, "@{} ", to.id),
        (false, 2) => write!(out, "**Round {}** ", chance.between(2, 9)),
        (false, 3) => write!(out, "One more thing. "),
        (false, _) => write!(out, "[NO_REPLY_NEEDED] "),
    };
}

fn reference(out: &mut String, korean: bool, chance: &mut Chance) {
    let number = chance.between(100, 9_999);
    let _ = match (korean, chance.below(4)) {
        (true, 0) => write!(out, " (티켓 {number})"),
        (true, 1) => write!(out, " 참고: 문서 {number}쪽"),
        (true, 2) => write!(out, " 오늘 {}시까지요", number % 24),
        (true, _) => write!(out, " `r{number}` 기준입니다"),
        (false, 0) => write!(out, " (ticket {number})"),
        (false, 1) => write!(out, " See page {number}."),
        (false, 2) => write!(out, " By {}:00 today.", number % 24),
        (false, _) => write!(out, " As of `r{number}`."),
    };
}
