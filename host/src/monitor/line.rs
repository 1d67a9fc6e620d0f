//! A line of the event log as anybody may have written it: what we use of it, whatever else it holds.
//! Keeps true: a field of the wrong kind counts as absent; only a line without a type and a time is no event. Never: panics on bytes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::event::Role;
use crate::policy::EventFacts;

/// A longer line is skipped and counted, not held in memory.
pub(super) const LINE_BYTES_MAX: usize = 1024 * 1024;
/// The last millisecond of the year 9999.
const TIME_MAX: u64 = 253_402_300_799_999;

/// What a line says, borrowed from its bytes.
#[derive(Debug, PartialEq)]
pub(super) struct Line<'a> {
    pub(super) id: Option<Cow<'a, str>>,
    pub(super) kind: Cow<'a, str>,
    pub(super) agent: Cow<'a, str>,
    pub(super) ts: u64,
    pub(super) data: Data<'a>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Data<'a> {
    #[serde(borrow)]
    pub(super) from_agent: Text<'a>,
    #[serde(borrow)]
    pub(super) to_agent: Text<'a>,
    #[serde(borrow)]
    pub(super) conversation_id: Text<'a>,
    #[serde(borrow)]
    pub(super) work_session_id: Text<'a>,
    #[serde(borrow)]
    pub(super) previous_work_session_id: Text<'a>,
    #[serde(borrow)]
    pub(super) task_id: Text<'a>,
    #[serde(borrow)]
    pub(super) root_task_id: Text<'a>,
    #[serde(borrow)]
    pub(super) job_id: Text<'a>,
    #[serde(borrow)]
    pub(super) run_id: Text<'a>,
    #[serde(borrow)]
    pub(super) event_role: Text<'a>,
    #[serde(borrow)]
    pub(super) session_key: Text<'a>,
    #[serde(borrow)]
    pub(super) from_session_key: Text<'a>,
    #[serde(borrow)]
    pub(super) requester_session_key: Text<'a>,
    #[serde(borrow)]
    pub(super) target_session_key: Text<'a>,
    #[serde(borrow)]
    pub(super) child_session_key: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    #[serde(borrow)]
    pub(super) reply_preview: Text<'a>,
    #[serde(borrow)]
    pub(super) label: Text<'a>,
    #[serde(borrow)]
    pub(super) title: Text<'a>,
    #[serde(borrow)]
    pub(super) description: Text<'a>,
    #[serde(borrow)]
    pub(super) outcome: Text<'a>,
    #[serde(borrow)]
    pub(super) collab_category: Text<'a>,
    #[serde(borrow)]
    pub(super) category_source: Text<'a>,
    pub(super) collab_sub_tags: Texts,
    pub(super) category_manual_override: Flag,
    pub(super) late: Flag,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, default)]
    id: Text<'a>,
    #[serde(rename = "type", borrow)]
    kind: Text<'a>,
    #[serde(rename = "agentId", borrow, default)]
    agent: Text<'a>,
    ts: Time,
    #[serde(borrow, default)]
    data: MaybeData<'a>,
}

impl<'a> Line<'a> {
    /// None for what is no event.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let raw: Raw<'a> = serde_json::from_slice(bytes).ok()?;
        let kind = raw.kind.0.filter(|kind| !kind.is_empty() && kind.len() <= 128)?;
        let ts = raw.ts.0?;
        Some(Self { id: raw.id.0, kind, agent: raw.agent.0.unwrap_or_default(), ts, data: raw.data.0 })
    }

    /// The role that its writer gave it.
    pub(super) fn given_role(&self) -> Option<Role> {
        self.data.event_role.get().and_then(Role::parse)
    }

    /// The text that people read.
    pub(super) fn text(&self) -> Option<&str> {
        self.data.message.get().or(self.data.reply_preview.get()).filter(|text| !text.trim().is_empty())
    }

    pub(super) fn sender_key(&self) -> Option<&str> {
        let data = &self.data;
        data.from_session_key.get().or(data.requester_session_key.get()).or(data.session_key.get())
    }

    pub(super) fn receiver_key(&self) -> Option<&str> {
        self.data.target_session_key.get().or(self.data.child_session_key.get())
    }

    /// Who sent it, by name or by session.
    pub(super) fn from(&self) -> Option<&str> {
        self.data.from_agent.get().or_else(|| self.sender_key().and_then(agent_of))
    }

    /// Who it was sent to, by name or by session.
    pub(super) fn to(&self) -> Option<&str> {
        self.data.to_agent.get().or_else(|| self.receiver_key().and_then(agent_of))
    }

    /// What a classifier is told when it has to find the role.
    pub(super) fn facts(&self) -> EventFacts {
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        EventFacts {
            event_type: self.kind.to_string(),
            agent: self.agent.to_string(),
            from_agent: text(self.data.from_agent.get()),
            to_agent: text(self.data.to_agent.get()),
            session_keys: self.sender_key().into_iter().chain(self.receiver_key()).map(str::to_owned).collect(),
            work_session: text(self.data.work_session_id.get()),
        }
    }
}

/// `eden` of `agent:eden:main`.
fn agent_of(session_key: &str) -> Option<&str> {
    session_key.strip_prefix("agent:")?.split(':').next().filter(|id| !id.is_empty())
}

/// A string, or nothing when it is something else.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Text<'a>(Option<Cow<'a, str>>);

impl Text<'_> {
    /// None for an empty one.
    pub(super) fn get(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }
}

/// The strings of a list, few and short; nothing when it is something else.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Texts(pub(super) Vec<String>);

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Flag(pub(super) bool);

#[derive(Default)]
struct Time(Option<u64>);

#[derive(Default)]
struct MaybeData<'a>(Data<'a>);

/// Implements `Deserialize` by a visitor that takes some kinds of values and reads past all others.
macro_rules! lenient {
    ($type:ty, $own:lifetime, $from:lifetime, { $($taken:item)* }, { $($passed:ident($value:ty)),* $(,)? }) => {
        impl<$own, $from: $own> Deserialize<$from> for $type {
            fn deserialize<D: Deserializer<$from>>(deserializer: D) -> Result<Self, D::Error> {
                struct Taker<$own>(PhantomData<&$own ()>);
                impl<$own, $from: $own> Visitor<$from> for Taker<$own> {
                    type Value = $type;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("anything")
                    }

                    $($taken)*

                    $(fn $passed<E>(self, _: $value) -> Result<Self::Value, E> {
                        Ok(Default::default())
                    })*

                    fn visit_unit<E>(self) -> Result<Self::Value, E> {
                        Ok(Default::default())
                    }
                }
                deserializer.deserialize_any(Taker(PhantomData))
            }
        }
    };
}

/// Reads past the rest of a list.
fn pass_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Reads past the rest of an object.
fn pass_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

lenient!(Text<'a>, 'a, 'de, {
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(text))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        pass_list(list).map(|()| Text::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        pass_map(map).map(|()| Text::default())
    }
}, { visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64) });

lenient!(Flag, 'a, 'de, {
    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Flag(flag))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        pass_list(list).map(|()| Flag(false))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        pass_map(map).map(|()| Flag(false))
    }
}, { visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str) });

lenient!(Time, 'a, 'de, {
    fn visit_u64<E>(self, ms: u64) -> Result<Self::Value, E> {
        Ok(Time((ms <= TIME_MAX).then_some(ms)))
    }

    fn visit_f64<E>(self, ms: f64) -> Result<Self::Value, E> {
        // Within the range, so that the conversion cuts off a fraction and nothing else.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        Ok(Time((ms >= 0.0 && ms <= TIME_MAX as f64).then_some(ms as u64)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        pass_list(list).map(|()| Time(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        pass_map(map).map(|()| Time(None))
    }
}, { visit_bool(bool), visit_i64(i64), visit_str(&str) });

lenient!(Texts, 'a, 'de, {
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element::<Text<'de>>()? {
            texts.extend(text.0.filter(|_| texts.len() < 8).map(|text| text.chars().take(40).collect()));
        }
        Ok(Texts(texts))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        pass_map(map).map(|()| Texts::default())
    }
}, { visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str) });

lenient!(MaybeData<'a>, 'a, 'de, {
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        pass_list(list).map(|()| MaybeData::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Data::deserialize(serde::de::value::MapAccessDeserializer::new(map)).map(MaybeData)
    }
}, { visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str) });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_wrong_kind_count_as_absent() {
        let text = r#"{"type":"a2a.send","ts":5.5,"agentId":7,"id":null,"extra":[1,{"a":2}],
            "data":{"fromAgent":["x",{"y":1}],"toAgent":"seum","late":"yes","collabSubTags":["a",1,"b"],"eventRole":{"a":1},"message":"안녕 \"하세요\"","unknown":{"deep":[[]]}}}"#;
        let line = Line::parse(text.as_bytes()).expect("an event");
        assert_eq!((line.ts, &*line.agent, line.id.clone()), (5, "", None));
        assert_eq!((line.data.from_agent.get(), line.data.to_agent.get()), (None, Some("seum")));
        assert_eq!(line.data.collab_sub_tags.0, ["a", "b"]);
        assert_eq!((line.given_role(), line.data.late.0), (None, false));
        assert_eq!(line.text(), Some("안녕 \"하세요\""));
    }

    #[test]
    fn a_line_without_a_type_or_a_time_is_no_event() {
        let check = |text: &str, good: bool| assert_eq!(Line::parse(text.as_bytes()).is_some(), good, "{text}");
        check(r#"{"type":"x","ts":1}"#, true);
        check(r#"{"type":"x","ts":1,"data":null}"#, true);
        check(r#"{"type":"x","ts":1,"data":[1]}"#, true);
        check(r#"{"type":"x","ts":-1}"#, false);
        check(r#"{"type":"x","ts":"1"}"#, false);
        check(r#"{"type":"x","ts":1e99}"#, false);
        check(r#"{"type":"","ts":1}"#, false);
        check(r#"{"ts":1}"#, false);
        check(r#"["type","ts"]"#, false);
        check("", false);
        check("nonsense", false);
        assert!(Line::parse(b"{\"type\":\"\xff\",\"ts\":1}").is_none());
    }
}
