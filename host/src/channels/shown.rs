//! Questions that chat networks have shown to people: once one is over, every message that shows it says so, and offers no way to answer. What
//! who asked says next is told there too, wherever the answer came from.

use chela_channel::{Done, Outbound, Outcome};
use serde::{Deserialize, Serialize};

use super::store::{self, Posted, Reply};
use super::{Kept, Shared, message};
use crate::clock::Timestamp;
use crate::config::Locale;
use crate::humans::run_of;
use crate::journal::Transaction;

/// Messages that are remembered; the oldest are forgotten first.
pub(super) const SHOWN_MAX: usize = 1_000;
/// A question that nobody knows may be about to be.
const UNKNOWN_FOR_MS: u64 = 60_000;
const SAID_CHARS: usize = 300;

/// A message that shows a question.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shown {
    /// The delivery, and the name of the record.
    pub(super) id: String,
    pub(super) channel: String,
    pub(super) target: String,
    pub(super) text: String,
    pub(super) question: String,
    /// As the network names them.
    pub(super) messages: Vec<String>,
    pub(super) at: Timestamp,
}

impl Shown {
    /// Whether it is seen at a place, or in a thread of it: a command of Slack names its channel alone, wherever in it the question stands.
    /// Places that are known by a session's key have lost their capitals.
    pub(super) fn is_at(&self, channel: &str, target: &str) -> bool {
        let same = self.target.get(..target.len()).is_some_and(|start| start.eq_ignore_ascii_case(target));
        let rest = self.target.get(target.len()..).unwrap_or_default();
        self.channel == channel && same && (rest.is_empty() || rest.starts_with(":thread:"))
    }
}

impl Kept {
    /// What deliveries that ended have shown.
    pub(super) fn shown_by(&self, channel: &str, done: &[Done], now: Timestamp) -> Vec<Shown> {
        let outbox = self.outbox.get(channel);
        let one = |done: &Done| {
            let Outcome::Delivered { message_ids } = &done.outcome else { return None };
            let posted = outbox?.get(&done.id).filter(|_| !message_ids.is_empty())?;
            let question = posted.outbound.question.as_ref()?.id.clone();
            let Outbound { id, target, text, .. } = posted.outbound.clone();
            Some(Shown {
                id,
                channel: channel.to_owned(),
                target,
                text,
                question,
                messages: message_ids.clone(),
                at: now,
            })
        };
        done.iter().filter_map(one).collect()
    }

    /// Remembers them; gives the oldest where they are too many.
    pub(super) fn note_shown(&mut self, shown: Vec<Shown>) -> Vec<String> {
        self.shown.extend(shown.into_iter().map(|shown| (shown.id.clone(), shown)));
        let mut by_age: Vec<(Timestamp, String)> = match self.shown.len() > SHOWN_MAX {
            true => self.shown.values().map(|shown| (shown.at, shown.id.clone())).collect(),
            false => return Vec::new(),
        };
        by_age.sort();
        by_age.truncate(self.shown.len() - SHOWN_MAX);
        by_age.into_iter().map(|(_, id)| self.shown.remove(&id).map_or(id, |shown| shown.id)).collect()
    }
}

/// Looks at every question that is shown; those that are over are told to be. True when somebody's next words are awaited now.
pub(super) async fn sweep(shared: &Shared) -> bool {
    let all: Vec<Shown> = shared.state().shown.values().cloned().collect();
    let mut awaited = false;
    for shown in all {
        if let Some(words) = ended_how(shared, &shown) {
            awaited |= close(shared, shown, &words).await;
        }
    }
    awaited
}

/// Runs that an answer from elsewhere led to in the session of this place: what they say is for those who read the question.
fn next_words(shared: &Shared, shown: &Shown) -> Vec<Reply> {
    let Ok(question) = shared.options.humans.get(&shown.question) else { return Vec::new() };
    let answered_in = question.answer.as_ref().and_then(|answer| answer.chat.as_ref()).map(|chat| &*chat.session_key);
    let is_here = |session: &str| store::is_session_of(session, &shown.channel, &shown.target);
    let askers = question.askers().into_iter().enumerate();
    let from_elsewhere = askers.filter(|(_, asker)| is_here(asker) && answered_in != Some(*asker));
    let reply = |(nth, asker): (usize, &str)| Reply {
        run: run_of(&question, nth),
        session: asker.to_owned(),
        channel: shown.channel.clone(),
        target: shown.target.clone(),
        reply_to: String::new(),
        only_questions: false,
    };
    from_elsewhere.map(reply).collect()
}

/// What became of a question, for those who read it; none while it is open.
fn ended_how(shared: &Shared, shown: &Shown) -> Option<String> {
    let locale = shared.locale();
    let over = match locale {
        Locale::En => "No longer open.",
        Locale::Ko => "더 이상 열려 있지 않은 질문입니다.",
    };
    let Ok(question) = shared.options.humans.get(&shown.question) else {
        let age = shared.now().0.saturating_sub(shown.at.0);
        return (age > UNKNOWN_FOR_MS).then(|| over.to_owned());
    };
    if question.is_open() {
        return None;
    }
    let Some(answer) = &question.answer else { return Some(over.to_owned()) };
    let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: String = line(&answer.text).chars().take(SAID_CHARS).collect();
    Some(match locale {
        Locale::En => format!("Answered by {}: {said}", line(&answer.by)),
        Locale::Ko => format!("{} 님이 답함: {said}", line(&answer.by)),
    })
}

async fn close(shared: &Shared, shown: Shown, words: &str) -> bool {
    let replies = next_words(shared, &shown);
    let Shown { id, channel, target, text, messages, .. } = shown;
    let outbound = Outbound {
        edits: messages,
        ..message(format!("{id}:closed"), target, format!("{text}\n\n{words}"), String::new())
    };
    let mut transaction = Transaction::default();
    let put = replies.iter().try_for_each(|reply| store::put_reply(&mut transaction, reply));
    let posted = match put.and_then(|()| store::drop_shown(&mut transaction, &id)) {
        Ok(()) => shared.post(Posted { channel: channel.clone(), outbound, at: shared.now() }, transaction).await,
        Err(error) => Err(error.into()),
    };
    match posted {
        Ok(()) => {
            let mut state = shared.state();
            state.shown.remove(&id);
            let awaited = !replies.is_empty();
            state.replies.extend(replies.into_iter().map(|reply| (reply.run.clone(), reply)));
            awaited
        }
        // It is looked at again with the next question, and at the next start.
        Err(error) => {
            shared.refuse(&channel, "delivery", &error.to_string(), serde_json::json!({ "deliveryId": id }));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_seen_at_its_place_and_from_the_place_of_its_thread() {
        let check = |shown: &str, channel: &str, target: &str, expected: bool| {
            let shown = Shown {
                id: "d1".into(),
                channel: "slack".into(),
                target: shown.into(),
                text: "Which port?".into(),
                question: "q-1".into(),
                messages: vec!["C10.1.2".into()],
                at: Timestamp(1),
            };
            assert_eq!(shown.is_at(channel, target), expected, "{shown:?} at {channel} {target}");
        };
        check("channel:C10", "slack", "channel:C10", true);
        check("channel:c10", "slack", "channel:C10", true);
        check("channel:C10", "discord", "channel:C10", false);
        check("channel:C10:thread:1.2", "slack", "channel:C10", true);
        check("channel:c10:thread:1.2", "slack", "channel:C10", true);
        check("channel:C10:thread:1.2", "slack", "channel:C10:thread:1.2", true);
        check("channel:C10:thread:1.2", "slack", "channel:C10:thread:1", false);
        check("channel:C10:thread:1.2", "slack", "channel:C1", false);
        check("channel:C10", "slack", "channel:C10:thread:1.2", false);
        check("channel:C100", "slack", "channel:C10", false);
        check("channel:한", "slack", "channel:a", false);
        check("direct:U7", "slack", "direct:U7", true);
    }
}
