//! A line of the event log as anybody may have written it: what we use of it, whatever else it holds.
//! Keeps true: a field of the wrong kind counts as absent, of two with one name the last counts; what is no event is no JSON object with a type
//! and a time, and every event can be served. Never: panics on bytes.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
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

#[derive(Debug, Default, PartialEq)]
pub(super) struct Data<'a> {
    pub(super) from_agent: Text<'a>,
    pub(super) to_agent: Text<'a>,
    pub(super) conversation_id: Text<'a>,
    pub(super) work_session_id: Text<'a>,
    pub(super) previous_work_session_id: Text<'a>,
    pub(super) task_id: Text<'a>,
    pub(super) root_task_id: Text<'a>,
    pub(super) job_id: Text<'a>,
    pub(super) slot: Text<'a>,
    pub(super) run_id: Text<'a>,
    pub(super) event_role: Text<'a>,
    pub(super) session_key: Text<'a>,
    pub(super) from_session_key: Text<'a>,
    pub(super) requester_session_key: Text<'a>,
    pub(super) target_session_key: Text<'a>,
    pub(super) child_session_key: Text<'a>,
    pub(super) message: Text<'a>,
    pub(super) reply_preview: Text<'a>,
    pub(super) label: Text<'a>,
    pub(super) title: Text<'a>,
    pub(super) description: Text<'a>,
    pub(super) outcome: Text<'a>,
    pub(super) collab_category: Text<'a>,
    pub(super) category_source: Text<'a>,
    pub(super) collab_sub_tags: Texts,
    pub(super) category_manual_override: Flag,
    pub(super) late: Flag,
}

#[derive(Default)]
struct Raw<'a> {
    id: Text<'a>,
    kind: Text<'a>,
    agent: Text<'a>,
    ts: Time,
    data: MaybeData<'a>,
}

impl<'a> Line<'a> {
    /// None for what is no event.
    pub(super) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let raw: Raw<'a> = serde_json::from_slice(bytes).ok()?;
        let kind = raw.kind.0.filter(|kind| !kind.is_empty() && kind.len() <= 128)?;
        let ts = raw.ts.0?;
        let id = raw.id.0.filter(|id| !id.is_empty());
        Some(Self { id, kind, agent: raw.agent.0.unwrap_or_default(), ts, data: raw.data.0 })
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

/// What nobody here knows: read all the same, since what cannot be read cannot be served.
#[derive(Default)]
struct Unknown;

/// serde_json takes an object with this name for text of its own, and would serve another.
const PRIVATE_NAME: &str = "$serde_json::private::RawValue";

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
    while list.next_element::<Unknown>()?.is_some() {}
    Ok(())
}

/// Reads past the rest of an object.
fn pass_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while next_name(&mut map)?.is_some() {
        map.next_value::<Unknown>()?;
    }
    Ok(())
}

fn next_name<'de, A: MapAccess<'de>>(map: &mut A) -> Result<Option<Cow<'de, str>>, A::Error> {
    let Some(Text(name)) = map.next_key()? else { return Ok(None) };
    match name.unwrap_or_default() {
        name if name == PRIVATE_NAME => Err(A::Error::custom("a name that cannot be served")),
        name => Ok(Some(name)),
    }
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

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut data = Data::default();
        while let Some(name) = next_name(&mut map)? {
            match &*name {
                "fromAgent" => data.from_agent = map.next_value()?,
                "toAgent" => data.to_agent = map.next_value()?,
                "conversationId" => data.conversation_id = map.next_value()?,
                "workSessionId" => data.work_session_id = map.next_value()?,
                "previousWorkSessionId" => data.previous_work_session_id = map.next_value()?,
                "taskId" => data.task_id = map.next_value()?,
                "rootTaskId" => data.root_task_id = map.next_value()?,
                "jobId" => data.job_id = map.next_value()?,
                "slot" => data.slot = map.next_value()?,
                "runId" => data.run_id = map.next_value()?,
                "eventRole" => data.event_role = map.next_value()?,
                "sessionKey" => data.session_key = map.next_value()?,
                "fromSessionKey" => data.from_session_key = map.next_value()?,
                "requesterSessionKey" => data.requester_session_key = map.next_value()?,
                "targetSessionKey" => data.target_session_key = map.next_value()?,
                "childSessionKey" => data.child_session_key = map.next_value()?,
                "message" => data.message = map.next_value()?,
                "replyPreview" => data.reply_preview = map.next_value()?,
                "label" => data.label = map.next_value()?,
                "title" => data.title = map.next_value()?,
                "description" => data.description = map.next_value()?,
                "outcome" => data.outcome = map.next_value()?,
                "collabCategory" => data.collab_category = map.next_value()?,
                "categorySource" => data.category_source = map.next_value()?,
                "collabSubTags" => data.collab_sub_tags = map.next_value()?,
                "categoryManualOverride" => data.category_manual_override = map.next_value()?,
                "late" => data.late = map.next_value()?,
                _ => {
                    map.next_value::<Unknown>()?;
                }
            }
        }
        Ok(MaybeData(data))
    }
}, { visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str) });

lenient!(Raw<'a>, 'a, 'de, {
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        pass_list(list).map(|()| Raw::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut raw = Raw::default();
        while let Some(name) = next_name(&mut map)? {
            match &*name {
                "id" => raw.id = map.next_value()?,
                "type" => raw.kind = map.next_value()?,
                "agentId" => raw.agent = map.next_value()?,
                "ts" => raw.ts = map.next_value()?,
                "data" => raw.data = map.next_value()?,
                _ => {
                    map.next_value::<Unknown>()?;
                }
            }
        }
        Ok(raw)
    }
}, { visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str) });

lenient!(Unknown, 'a, 'de, {
    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        pass_list(list).map(|()| Unknown)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        pass_map(map).map(|()| Unknown)
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
        check(r#"["id","x","agent",1,{}]"#, false);
        check("", false);
        check("nonsense", false);
        assert!(Line::parse(b"{\"type\":\"\xff\",\"ts\":1}").is_none());
    }

    #[test]
    fn what_could_not_be_served_is_no_event_wherever_it_stands() {
        let check = |extra: &[u8], good: bool| {
            for (head, tail) in [
                (&b"{\"type\":\"x\",\"ts\":1,\"extra\":"[..], &b"}"[..]),
                (b"{\"type\":\"x\",\"ts\":1,\"data\":{\"a\":", b"}}"),
            ] {
                let line = [head, extra, tail].concat();
                assert_eq!(Line::parse(&line).is_some(), good, "{}", line.escape_ascii());
            }
        };
        check(b"[[[1.5,-1,null,true,{\"a\":{}}]]]", true);
        check(b"\"\xff\"", false);
        check(b"{\"\xff\":1}", false);
        check(b"\"\\ud800\"", false);
        check(b"1e999", false);
        check(b"{\"$serde_json::private::RawValue\":\"1\"}", false);
        check(format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)).as_bytes(), false);
    }

    #[test]
    fn of_two_fields_with_one_name_the_last_counts_and_an_empty_id_is_none() {
        let line = br#"{"id":"","type":"x","ts":1,"ts":2,"data":{"late":true},"data":{"message":"a","message":"b"}}"#;
        let line = Line::parse(line).expect("an event");
        assert_eq!((line.id.as_deref(), line.ts, line.text(), line.data.late.0), (None, 2, Some("b"), false));
        assert_eq!(Line::parse(br#"{"type":"x","ts":1,"type":7}"#), None);
    }
}
