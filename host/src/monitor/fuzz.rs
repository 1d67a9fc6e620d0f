//! What holds for any line of the log: it is split off, read, folded, titled, indexed and served alike, or it is no event and harms no other.

pub(crate) mod archive;
mod make;

use fastrand::Rng;
use serde_json::{Map, Value};

use super::EventsQuery;
use super::fold::{self, Fact, Session, Thread};
use super::follow::{Chunk, Limits, Reading};
use super::line::Line;
use super::mend::mend;
use super::query::{enriched, passage, words};
use super::title;
use crate::event::Role;
use crate::fuzz::Area;
use archive::Archive;

/// One case in so many goes through an index.
const INDEXED_EVERY: u64 = 1_000;
const NOW: u64 = 1_772_323_200_000;
/// What serde_json calls an object of its own.
const PRIVATE: &[u8] = b"serde_json::private";

#[test]
fn no_line_breaks_a_promise() {
    let make = |seed: u64, random: &mut Rng| match seed % INDEXED_EVERY {
        0 => make::log(100, random),
        _ => {
            let lines = random.usize(1..4);
            make::log(lines, random)
        }
    };
    Area { name: "lines", make: &make, holds: &holds }.run();
}

macro_rules! ensure {
    ($holds:expr, $($said:tt)+) => {
        if !$holds {
            return Err(format!($($said)+));
        }
    };
}

fn holds(seed: u64, log: &[u8]) -> Result<(), String> {
    let mut random = Rng::with_seed(seed);
    split(log, &mut random)?;
    let whole = log.iter().rposition(|byte| *byte == b'\n').map_or(&[][..], |end| &log[..end]);
    let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(mended);
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    for line in &lines {
        read(line)?;
    }
    ensure!(folded(&lines)? == folded(&lines)?, "the same lines add up to another session");
    if seed.is_multiple_of(INDEXED_EVERY) { indexed(log, &lines) } else { Ok(()) }
}

/// However a log grows and whenever its reader begins again, each line is given once, whole, at its place.
fn split(log: &[u8], random: &mut Rng) -> Result<(), String> {
    let line_max = random.usize(1..600);
    let limits = Limits { chunk: line_max + 1 + random.usize(0..line_max), line: line_max };
    let (mut expected, mut too_long, mut at) = (Vec::new(), 0, 0);
    for line in log.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        match line.len() - 1 {
            0 => {}
            length if length > line_max => too_long += 1,
            length => expected.push(((5 << 32) | at as i64, mended(&line[..length])?)),
        }
        at += line.len();
    }
    let (mut given, mut unreadable, mut there) = (Vec::new(), 0, 0);
    let (mut reading, mut restarts) = (Reading::new(5, 0, limits), random.u32(0..4));
    while there < log.len() {
        there = (there + random.usize(0..2 * limits.chunk)).min(log.len());
        loop {
            let from = usize::try_from(reading.offset()).map_err(|error| error.to_string())?;
            let mut chunk = Chunk { buffer: log[from..there.min(from + limits.chunk)].to_vec(), ..Chunk::default() };
            let any = !chunk.buffer.is_empty() && reading.take_lines(&mut chunk);
            given.extend(chunk.lines.iter().map(|(seq, range)| (*seq, chunk.buffer[range.clone()].to_vec())));
            unreadable += chunk.unreadable;
            if any && restarts > 0 && random.bool() {
                restarts -= 1;
                reading = Reading::new(5, reading.read_to(), limits);
            }
            if !any {
                break;
            }
        }
    }
    ensure!(given == expected, "lines of at most {line_max} bytes: {given:?} instead of {expected:?}");
    ensure!(unreadable == too_long, "{unreadable} instead of {too_long} lines were too long");
    Ok(())
}

/// A line as it is read: of the same length, and the same wherever it is JSON.
fn mended(line: &[u8]) -> Result<Vec<u8>, String> {
    let mut mended = line.to_vec();
    mend(&mut mended);
    ensure!(mended.len() == line.len(), "mended, it is {} bytes long", mended.len());
    let json = serde_json::from_slice::<Value>(line);
    ensure!(json.is_err() || mended == line, "mended, although it was whole");
    let lone = serde_json::from_slice::<Value>(&mended).is_err_and(|error| error.to_string().contains("surrogate"));
    ensure!(!lone, "mended, half a character is left");
    Ok(mended)
}

/// A line is what serde_json says it is.
fn read(bytes: &[u8]) -> Result<(), String> {
    let line = Line::parse(bytes);
    ensure!(line == Line::parse(bytes), "read twice, it is another line");
    let served = enriched(bytes, 7, Role::System, None);
    let event: Option<Map<String, Value>> = serde_json::from_slice(bytes).ok();
    let time = event.as_ref().and_then(|event| time(event.get("ts")?));
    let kind = event.as_ref().and_then(|event| event.get("type")?.as_str());
    let kind = kind.filter(|kind| !kind.is_empty() && kind.len() <= 128);
    let (Some(event), Some(ts), Some(kind)) = (&event, time, kind) else {
        ensure!(line.is_none(), "taken for an event, although it cannot be served");
        return Ok(());
    };
    let Some(line) = line else {
        ensure!(bytes.windows(PRIVATE.len()).any(|part| part == PRIVATE), "an event that is not taken");
        return Ok(());
    };
    ensure!((line.ts, &*line.kind) == (ts, kind), "{} at {} instead of {kind} at {ts}", line.kind, line.ts);
    same_fields(&line, event)?;
    let served = served.ok_or("taken for an event, and not served")?;
    whole(event, &served)?;
    texts(&line)
}

fn time(value: &Value) -> Option<u64> {
    const MAX: u64 = 253_402_300_799_999;
    let ms = value.as_u64().or_else(|| value.as_f64().filter(|ms| (0.0..=MAX as f64).contains(ms)).map(|ms| ms as u64));
    ms.filter(|ms| *ms <= MAX)
}

fn same_fields(line: &Line<'_>, event: &Map<String, Value>) -> Result<(), String> {
    let data = event.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let text = |fields: &Map<String, Value>, name: &str| {
        fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
    };
    ensure!(line.id.as_deref() == text(event, "id").as_deref(), "the id {:?}", line.id);
    ensure!(*line.agent == *text(event, "agentId").unwrap_or_default(), "the agent {:?}", line.agent);
    let found = &line.data;
    for (name, found) in [
        ("fromAgent", &found.from_agent),
        ("toAgent", &found.to_agent),
        ("conversationId", &found.conversation_id),
        ("workSessionId", &found.work_session_id),
        ("previousWorkSessionId", &found.previous_work_session_id),
        ("taskId", &found.task_id),
        ("rootTaskId", &found.root_task_id),
        ("jobId", &found.job_id),
        ("slot", &found.slot),
        ("runId", &found.run_id),
        ("eventRole", &found.event_role),
        ("sessionKey", &found.session_key),
        ("fromSessionKey", &found.from_session_key),
        ("requesterSessionKey", &found.requester_session_key),
        ("targetSessionKey", &found.target_session_key),
        ("childSessionKey", &found.child_session_key),
        ("message", &found.message),
        ("replyPreview", &found.reply_preview),
        ("label", &found.label),
        ("title", &found.title),
        ("description", &found.description),
        ("outcome", &found.outcome),
        ("collabCategory", &found.collab_category),
        ("categorySource", &found.category_source),
    ] {
        ensure!(found.get() == text(&data, name).as_deref(), "{name} is {:?}", found.get());
    }
    let flag = |name: &str| data.get(name) == Some(&Value::Bool(true));
    ensure!(found.late.0 == flag("late"), "late is {}", found.late.0);
    ensure!(found.category_manual_override.0 == flag("categoryManualOverride"), "the override is another");
    let tags = data.get("collabSubTags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let tags: Vec<String> = tags.take(8).map(|tag| tag.chars().take(40).collect()).collect();
    ensure!(found.collab_sub_tags.0 == tags, "sub-tags are {:?}", found.collab_sub_tags.0);
    ensure!(line.given_role() == text(&data, "eventRole").as_deref().and_then(Role::parse), "the role is another");
    Ok(())
}

/// What is served has every field that was written, known or not.
fn whole(event: &Map<String, Value>, served: &Value) -> Result<(), String> {
    for (name, value) in event.iter().filter(|(name, _)| !["seq", "data"].contains(&name.as_str())) {
        ensure!(served.get(name) == Some(value), "{name:?} is served as {:?}", served.get(name));
    }
    let written = event.get("data").and_then(Value::as_object).into_iter().flatten();
    for (name, value) in written.filter(|(name, _)| *name != "eventRole") {
        ensure!(
            served["data"].get(name) == Some(value),
            "{name:?} of the data is served as {:?}",
            served["data"].get(name)
        );
    }
    ensure!(served["seq"] == 7 && served["data"]["eventRole"] == Role::System.as_str(), "its place or role is missing");
    Ok(())
}

/// What people see of it fits where it is shown.
fn texts(line: &Line<'_>) -> Result<(), String> {
    let data = &line.data;
    for text in [&data.message, &data.label, &data.title, &data.reply_preview].into_iter().filter_map(|text| text.get())
    {
        for title in [title::of_label(text), title::goal_in(text), title::of_message(text)].into_iter().flatten() {
            ensure!(!title.is_empty() && title.chars().count() <= 121, "the title {title:?}");
            ensure!(!title.contains(['\n', '\r', '\t']), "the title {title:?} is more than a line");
        }
        ensure!(title::preview(text).chars().count() <= 201, "the preview of {text:?}");
        let asked = words(text);
        ensure!(asked.len() <= 8 && asked.iter().all(|word| (1..=40).contains(&word.chars().count())), "{asked:?}");
        let shown = passage(text, &asked);
        ensure!(shown.chars().count() <= 122, "the passage {shown:?}");
        let end = fold::cut(text, 256);
        ensure!(end.len() <= 256 && text.starts_with(&end), "cut to {end:?}");
    }
    line.facts();
    Ok(())
}

/// What lines add up to, as it comes back from where it is kept.
fn folded(lines: &[Vec<u8>]) -> Result<(Session, Thread), String> {
    let (mut session, mut thread) = (Session::default(), Thread::default());
    for (seq, bytes) in (0..).zip(lines) {
        let Some(line) = Line::parse(bytes) else { continue };
        let role = line.given_role().unwrap_or(Role::Conversation);
        let fact = Fact { seq, len: 1, role, line: &line };
        let key = fold::thread_key(&line);
        ensure!(key.len() <= 700 && fold::legacy_key(&key, &line).len() <= 720, "a key of {} bytes", key.len());
        session.add(&fact, &key);
        thread.add(&fact);
    }
    let kept = |error: serde_json::Error| format!("cannot be kept: {error}");
    let back: Session = serde_json::from_str(&serde_json::to_string(&session).map_err(kept)?).map_err(kept)?;
    ensure!(back == session, "kept as another session");
    let back: Thread = serde_json::from_str(&serde_json::to_string(&thread).map_err(kept)?).map_err(kept)?;
    ensure!(Thread { last_seq: thread.last_seq, ..back } == thread, "kept as another thread");
    ensure!(session.title().chars().count() <= 121, "the title {:?}", session.title());
    Ok((session, thread))
}

/// Every event of a log is found again, with its session; everything else is counted.
fn indexed(log: &[u8], lines: &[Vec<u8>]) -> Result<(), String> {
    let archive = Archive::of(log, NOW);
    let (mut ids, mut events, mut malformed) = (std::collections::HashSet::new(), 0, 0);
    for line in lines {
        match Line::parse(line) {
            Some(line) => events += usize::from(line.id.is_none_or(|id| ids.insert(same_id(&id)))),
            None => malformed += 1,
        }
    }
    let query = EventsQuery { limit: 500, ..EventsQuery::default() };
    let page = archive.events(&query).map_err(|error| error.to_string())?;
    ensure!(page.rows.len() == events, "{} of {events} events are served", page.rows.len());
    ensure!(archive.malformed == malformed, "{} of {malformed} lines are counted", archive.malformed);
    for event in &page.rows {
        // A decision may be about a session that nothing else in the log is of.
        let named = event["data"]["workSessionId"].as_str();
        let named = named.filter(|key| !key.is_empty() && event["type"] != "policy.decided");
        let Some(key) = named else { continue };
        let found = archive.session(key).map_err(|error| error.to_string())?;
        let title = found.as_ref().and_then(|session| session["title"].as_str());
        ensure!(title.is_some_and(|title| !title.is_empty()), "no session {key:?} for an event that names it");
    }
    Ok(())
}

/// Two ways to write a UUID are one id.
fn same_id(id: &str) -> String {
    uuid::Uuid::try_parse(id).map_or_else(|_| fold::cut(id, 512), |id| id.to_string())
}
