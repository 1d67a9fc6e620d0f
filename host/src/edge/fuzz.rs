//! What holds for any query: it is answered with what was asked for, page by page, or refused with the name of a parameter.

use std::collections::HashSet;

use chela_generate::{Options, UNTIL_MS, generate};
use fastrand::Rng;

use super::Refusal;
use super::follow;
use super::monitor::{EVENTS, JOBS, SESSIONS, STATS, events_query, sessions_query};
use super::params::{Given, LIMIT_MAX, Param};
use crate::config::{Category, Config};
use crate::fuzz::Area;
use crate::monitor::fuzz::archive::Archive;
use crate::monitor::{EventsQuery, Page, SessionsQuery, Since, is_sessions_cursor, seq_of_cursor};

/// One case in so many is also asked of an index.
const ASKED_EVERY: u64 = 10;
const EVENTS_MADE: u64 = 400;

#[test]
fn no_query_breaks_a_promise() {
    let mut log = Vec::new();
    let written = generate(&Options { legacy_per_mille: 200, ..Options::new(EVENTS_MADE, 1) }, |line| {
        log.extend_from_slice(line.text.as_bytes());
        log.push(b'\n');
        Ok::<(), std::convert::Infallible>(())
    });
    written.expect("keeping a line cannot fail");
    let archive = Archive::of(&log, UNTIL_MS);
    let table = Config::default().categories;
    let holds = |seed: u64, case: &[u8]| holds(case, &table, seed.is_multiple_of(ASKED_EVERY).then_some(&archive));
    Area { name: "queries", make: &|_, random| make(random), holds: &holds }.run();
}

/// `PATH?QUERY`, as a client may send it.
fn make(random: &mut Rng) -> Vec<u8> {
    let path =
        *random.choice(&["events", "events", "sessions", "sessions", "stats", "jobs", "ws", "health"]).expect("some");
    let mut query = String::new();
    for _ in 0..random.usize(0..5) {
        let joint = *random.choice(&["&", "&", "&", "&", "&&", ";", ""]).expect("some");
        let (name, equals) = (name(path, random), if random.u32(0..20) == 0 { "" } else { "=" });
        query += &format!("{joint}{name}{equals}{}", value(&name, random));
    }
    let mut case = format!("{path}?{}", query.trim_start_matches('&')).into_bytes();
    if random.u32(0..5) == 0 {
        for _ in 0..random.usize(1..4) {
            let at = random.usize(path.len() + 1..=case.len());
            let piece: &[u8] = random
                .choice(&[&b"%"[..], b"%f", b"%00", b"%ff", b"%C3%28", b"+", b"&", b"=", b",", b"%26", b"%3D"])
                .expect("some");
            drop(case.splice(at..at, piece.iter().copied()));
        }
    }
    case
}

/// Mostly a name that the path takes.
fn name(path: &str, random: &mut Rng) -> String {
    let all = [EVENTS, SESSIONS, STATS, JOBS].concat();
    let known = match path {
        "events" if random.u32(0..10) > 0 => EVENTS,
        "sessions" if random.u32(0..10) > 0 => SESSIONS,
        _ => &all,
    };
    let known = random.choice(known).map_or("", |param| param.name());
    match random.u32(0..30) {
        0 => String::new(),
        1 => (0..random.usize(0..100)).map(|_| encoded(random.char(..))).collect(),
        2 => known.to_uppercase(),
        _ => known.to_owned(),
    }
}

fn encoded(c: char) -> String {
    if c.is_ascii_alphanumeric() {
        return c.to_string();
    }
    c.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect()
}

fn value(name: &str, random: &mut Rng) -> String {
    let fitting: &[&str] = match name {
        "role" => {
            &["conversation.main", "delegation.subagent", "orchestration.task", "system.observability", "conversation"]
        }
        "type" => {
            &["a2a.send", "a2a.response", "task.started", "job.created", "a2a.complete", "never.seen", "A2A.SEND"]
        }
        "status" => &["ACTIVE", "QUIET", "ARCHIVED", "active", "COMPLETED"],
        "threadState" => &["active", "blocked", "resolved", "ACTIVE"],
        "viewCategory" => &["infra_ops", "engineering_build", "qa_validation", "cooking"],
        "q" => &[
            "%EB%B0%B0%ED%8F%AC",
            "the",
            "a",
            "%22",
            "*",
            "NEAR(a+b)",
            "a+OR+b",
            "text:a",
            "%C2%B2",
            "%CC%81",
            "%E0%B8%B3",
            "%F0%9D%9F%99",
            "-",
            "^a",
            "%00",
            "a%00b",
        ],
        "since" | "cursor" => &[
            "0",
            "1772000000000",
            "18446744073709551615",
            "18446744073709551616",
            "-1",
            "2026-02-20",
            "2026-02-28T23:30:00Z",
            "1772321000000",
            "1772322900000",
            "2026-02-20T10:00:00Z",
            "9999-12-31T23:59:59Z",
            "0000-01-01",
            "2026-02-30",
            "1:0",
            "1:99999",
            "2147483647:4294967295",
            "2147483648:0",
            "4294967295:0",
            "1:4294967296",
            "-1:5",
            "+1:+5",
            ":",
            "1:",
            "1772000000000.5",
            "9223372036854775807.9223372036854775807",
            "-9223372036854775808.-9223372036854775808",
            "q4294967296.0",
            "q9223372036854775807.20000",
            "q1.20001",
            "q-1.-1",
            "q.",
            ".",
            "+5",
            "1e3",
        ],
        "limit" | "days" => &[
            "1",
            "2",
            "7",
            "50",
            "500",
            "501",
            "0",
            "-1",
            "3660",
            "3661",
            "18446744073709551616",
            "1.0",
            "+3",
            "%D9%A3",
            "0x10",
        ],
        "subTag" => &["deploy", "oauth", "%EB%B0%B0%ED%8F%AC"],
        _ => &["ws_1", "task_1", "legacy:pair:a_b:2026-02-20", "%00", "a/b", "%F0%9F%98%80"],
    };
    let one = |random: &mut Rng| -> String {
        match random.u32(0..20) {
            0 => String::new(),
            1 => (0..random.usize(0..260)).map(|_| encoded(random.char(..))).collect(),
            2 => "x".repeat(*random.choice(&[127_usize, 128, 129, 200, 201, 256, 257, 5_000]).expect("some")),
            _ => (*random.choice(fitting).expect("some")).to_owned(),
        }
    };
    let is_list = ["role", "type", "status", "threadState", "viewCategory", "subTag"].contains(&name);
    let count = match random.u32(0..100) {
        0 => 33,
        1..40 if is_list => random.usize(1..4),
        1..5 => 2,
        _ => 1,
    };
    (0..count).map(|_| one(random)).collect::<Vec<_>>().join(*random.choice(&[",", ",", ",+", "%2C"]).expect("some"))
}

macro_rules! ensure {
    ($holds:expr, $($said:tt)+) => {
        if !$holds {
            return Err(format!($($said)+));
        }
    };
}

fn holds(case: &[u8], table: &[Category], archive: Option<&Archive>) -> Result<(), String> {
    let case = String::from_utf8_lossy(case);
    let (path, query) = case.split_once('?').unwrap_or((&case, ""));
    let known = match path {
        "events" => EVENTS,
        "sessions" => SESSIONS,
        "stats" => STATS,
        "jobs" => JOBS,
        "ws" => {
            let refusal = follow::since(Some(query)).err();
            return refusal.map_or(Ok(()), |refusal| named(&refusal, &["since"], query));
        }
        _ => &[],
    };
    let names: Vec<&str> = known.iter().map(|param| param.name()).collect();
    let outcome = Given::parse(known, Some(query)).and_then(|given| asked(path, &given, table));
    let again = Given::parse(known, Some(query)).and_then(|given| asked(path, &given, table));
    ensure!(outcome.as_ref().ok() == again.as_ref().ok(), "asked twice, it is another question");
    match outcome {
        Err(refusal) => named(&refusal, &names, query),
        Ok(Asked::Events(query)) => events(&query, table, archive),
        Ok(Asked::Sessions(query)) => sessions(&query, table, archive),
        Ok(Asked::Other) => Ok(()),
    }
}

/// What a query turns out to ask for.
#[derive(Debug, PartialEq)]
enum Asked {
    Events(EventsQuery),
    Sessions(SessionsQuery),
    Other,
}

fn asked(path: &str, given: &Given, table: &[Category]) -> Result<Asked, Refusal> {
    Ok(match path {
        "events" => Asked::Events(events_query(given, table)?),
        "sessions" => Asked::Sessions(sessions_query(given, table)?),
        "stats" => {
            let days = given.days()?;
            assert!((1..=3_660).contains(&days), "{days} days");
            Asked::Other
        }
        "jobs" => {
            given.list(Param::JobStatus)?;
            given.limit()?;
            Asked::Other
        }
        _ => Asked::Other,
    })
}

/// A refusal names a parameter that was given, says something about it, and is the client's fault.
fn named(refusal: &Refusal, names: &[&str], query: &str) -> Result<(), String> {
    let Refusal::Parameter { field, said } = refusal else { return Err(format!("refused with {refusal:?}")) };
    ensure!(refusal.status() == 400, "refused with {}", refusal.status());
    ensure!(said.len() > 10 && said.len() < 2_000, "{field} is refused with {said:?}");
    let mut given = form_urlencoded::parse(query.as_bytes());
    let mut there = given.any(|(name, _)| name.chars().take(64).eq(field.chars()));
    there |= names.contains(&field.as_str());
    ensure!(there, "{field:?} is refused, which nobody gave");
    Ok(())
}

fn lists(values: &[&[String]], limit: usize) -> Result<(), String> {
    ensure!((1..=LIMIT_MAX).contains(&limit), "a limit of {limit}");
    for value in values.iter().copied().flatten() {
        ensure!((1..=128).contains(&value.chars().count()), "the value {value:?}");
    }
    ensure!(values.iter().all(|values| values.len() <= 32), "too many values");
    Ok(())
}

fn in_table(categories: &[String], table: &[Category]) -> Result<(), String> {
    let known = |key: &String| table.iter().any(|category| category.key == *key);
    ensure!(categories.iter().all(known), "categories {categories:?}");
    Ok(())
}

fn events(query: &EventsQuery, table: &[Category], archive: Option<&Archive>) -> Result<(), String> {
    lists(&[&query.types, &query.categories], query.limit)?;
    in_table(&query.categories, table)?;
    ensure!(query.since.is_none() || query.before.is_none(), "from a place on and before another");
    let Some(archive) = archive else { return Ok(()) };
    let fits = |event: &serde_json::Value| {
        let seq = event["seq"].as_i64().unwrap_or(-1);
        let one_of = |wanted: &[String], found: &serde_json::Value| {
            wanted.is_empty() || wanted.iter().any(|wanted| found == wanted.as_str())
        };
        let begins = match query.since {
            Some(Since::Seq(after)) => seq > after,
            Some(Since::Time(ms)) => event["ts"].as_f64().is_some_and(|ts| ts >= ms as f64),
            None => query.before.is_none_or(|before| seq < before),
        };
        let role = query.roles.is_empty() || query.roles.iter().any(|role| event["data"]["eventRole"] == role.as_str());
        begins
            && role
            && one_of(&query.types, &event["type"])
            && one_of(&query.categories, &event["data"]["collabCategory"])
    };
    let ascending = query.since.is_some();
    let mut query = query.clone();
    let mut seen: Vec<i64> = Vec::new();
    for _ in 0..=EVENTS_MADE {
        let page: Page = archive.events(&query).map_err(|error| error.to_string())?;
        ensure!(page.rows.len() <= query.limit, "{} rows of {}", page.rows.len(), query.limit);
        for event in &page.rows {
            ensure!(fits(event), "nobody asked for {event}");
            seen.push(event["seq"].as_i64().ok_or("an event without a place")?);
        }
        let Some(next) = page.next else {
            let ordered = seen.windows(2).all(|two| if ascending { two[0] < two[1] } else { two[0] > two[1] });
            ensure!(ordered, "out of order, or twice: {seen:?}");
            return Ok(());
        };
        let place = seq_of_cursor(&next).ok_or_else(|| format!("{next} is no cursor"))?;
        if ascending {
            query.since = Some(Since::Seq(place));
        } else {
            query.before = Some(place);
        }
    }
    Err("there is no end of pages".to_owned())
}

fn sessions(query: &SessionsQuery, table: &[Category], archive: Option<&Archive>) -> Result<(), String> {
    lists(&[&query.types, &query.categories, &query.sub_tags], query.limit)?;
    in_table(&query.categories, table)?;
    let searching = query.text.is_some();
    ensure!(query.text.as_ref().is_none_or(|text| (1..=200).contains(&text.chars().count())), "q is {:?}", query.text);
    let usable = query.cursor.as_ref().is_none_or(|cursor| cursor.starts_with('q') == searching);
    ensure!(usable, "{:?} is taken, although it says nothing of this list", query.cursor);
    let Some(archive) = archive else { return Ok(()) };
    let (mut query, mut seen) = (query.clone(), HashSet::new());
    for _ in 0..=EVENTS_MADE {
        let page: Page = archive.sessions(&query).map_err(|error| error.to_string())?;
        ensure!(page.rows.len() <= query.limit, "{} rows of {}", page.rows.len(), query.limit);
        for session in page.rows {
            let status = session["status"].as_str().unwrap_or_default();
            let fits = query.status.is_empty() || query.status.iter().any(|wanted| wanted.as_str() == status);
            ensure!(fits, "nobody asked for {session}");
            ensure!(
                searching == session["matches"].is_array(),
                "matches where nothing was looked for, or none: {session}"
            );
            let id = session["workSessionId"].as_str().unwrap_or_default().to_owned();
            ensure!(seen.insert(id), "twice: {session}");
        }
        let Some(next) = page.next else { return Ok(()) };
        ensure!(is_sessions_cursor(&next, searching), "{next} is no cursor");
        query.cursor = Some(next);
    }
    Err("there is no end of pages".to_owned())
}
