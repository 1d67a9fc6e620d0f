//! Counts as pictures, drawn by the server: over days, beside each other, along time. Whoever does not see them has the same as text.
//! Keeps true: widths are shares of the picture's, so that letters have their own size on every screen.

use maud::{Markup, html};

use crate::events::{ROLES, role_word};
use crate::time::iso;
use crate::views::{Day, EventLine};
use crate::words::Words;

/// How wide a picture is: places on it are thousandths.
const WIDTH: u64 = 1_000;
/// A dot at either end is whole.
const EDGE: u64 = 12;
const HEIGHT: u64 = 96;
/// A row of words with its bar or lane below them.
const ROW: u64 = 32;
/// Below the last row, for words about the scale.
const FOOT: u64 = 16;

/// A place or a width as a share.
fn share(thousandths: u64) -> String {
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

fn rows_high(rows: usize) -> u64 {
    ROW * (rows as u64).max(1)
}

/// A bar a day, with a table of the same numbers for those who do not see it.
pub(crate) fn bars(days: &[Day], words: &Words) -> Markup {
    let most = days.iter().map(|day| day.events).max().unwrap_or(0).max(1);
    let step = WIDTH / (days.len().max(1) as u64);
    html! {
        svg.chart height=(HEIGHT + FOOT) role="img" aria-label=(words.events_per_day) {
            @for (at, day) in days.iter().enumerate() {
                @let height = (day.events * HEIGHT).div_ceil(most);
                rect.bar x=(share(at as u64 * step + 4)) y=(HEIGHT - height) width=(share(step.saturating_sub(8).max(1))) height=(height) rx="2" {
                    title { (day.day) ": " (day.events) }
                }
                @if at == 0 || at + 1 == days.len() {
                    text.tick x=(if at == 0 { "0%" } else { "100%" }) y=(HEIGHT + 13)
                        text-anchor=(if at == 0 { "start" } else { "end" }) { (day.day.get(5..).unwrap_or(&day.day)) }
                }
            }
            line.axis x1="0" y1=(HEIGHT) x2="100%" y2=(HEIGHT) {}
            text.tick x="50%" y=(HEIGHT + 13) text-anchor="middle" { (words.maximum) " " (most) }
        }
        table.unseen {
            caption { (words.events_per_day) }
            tr { th scope="col" { (words.day) } th scope="col" { (words.events) } }
            @for day in days { tr { td { (day.day) } td { (day.events) } } }
        }
    }
}

/// What a row is about, and its value.
fn words_of(top: u64, name: &str, text: &str) -> Markup {
    html! {
        text.name x="0" y=(top + 13) { (crate::clip(name, 80)) }
        text.tick x="100%" y=(top + 13) text-anchor="end" { (text) }
    }
}

/// A lying bar for each row, below what it stands for and its value.
pub(crate) fn across(label: &str, rows: &[(String, u64, String)]) -> Markup {
    let most = rows.iter().map(|(_, value, _)| *value).max().unwrap_or(0).max(1);
    html! {
        svg.chart height=(rows_high(rows.len())) role="img" aria-label=(said(label, rows)) {
            @for (at, (name, value, text)) in rows.iter().enumerate() {
                @let top = at as u64 * ROW;
                (words_of(top, name, text))
                rect.back x="0" y=(top + 18) width="100%" height="8" rx="2" {}
                rect.bar x="0" y=(top + 18) width=(share((value * WIDTH).div_ceil(most))) height="8" rx="2" {}
            }
        }
    }
}

/// From p50 to p99 of each row, on a scale of powers of ten from a microsecond to ten seconds.
pub(crate) fn spans(label: &str, rows: &[(String, u64, u64)]) -> Markup {
    let place = |value: u64| {
        // Ten places to a power of ten; 7 of them make ten seconds, in microseconds.
        let power = value.max(1).ilog10();
        let within = value.max(1) / 10_u64.pow(power);
        EDGE + ((u64::from(power) * 10 + within - 1) * (WIDTH - 2 * EDGE) / 70).min(WIDTH - 2 * EDGE)
    };
    let texts: Vec<(String, u64, String)> = rows
        .iter()
        .map(|(name, p50, p99)| (name.clone(), *p99, format!("{} / {}", time_of(*p50), time_of(*p99))))
        .collect();
    let high = rows_high(rows.len());
    html! {
        svg.chart height=(high + FOOT) role="img" aria-label=(said(label, &texts)) {
            @for power in 0..8_u32 {
                @let x = share(place(10_u64.pow(power)));
                @for at in 0..rows.len() as u64 { line.axis x1=(x) y1=(at * ROW + 17) x2=(x) y2=(at * ROW + 27) {} }
                @if power % 3 == 0 { text.tick x=(x) y=(high + 12) text-anchor=(if power == 0 { "start" } else { "middle" }) { (time_of(10_u64.pow(power))) } }
            }
            @for (at, ((name, p50, p99), (_, _, text))) in rows.iter().zip(&texts).enumerate() {
                @let top = at as u64 * ROW;
                (words_of(top, name, text))
                rect.bar x=(share(place(*p50))) y=(top + 19) width=(share(place(*p99).saturating_sub(place(*p50)).max(4))) height="6" rx="2" {}
                circle.spot cx=(share(place(*p50))) cy=(top + 22) r="4" {}
            }
        }
    }
}

pub(crate) fn time_of(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        _ => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

fn said(label: &str, rows: &[(String, u64, String)]) -> String {
    let rows: Vec<String> = rows.iter().map(|(name, _, text)| format!("{} {text}", crate::clip(name, 48))).collect();
    format!("{label}: {}", rows.join(", "))
}

/// A dot an event, on the lane of its role, the newest at the right.
pub(crate) fn lanes(lines: &[EventLine], words: &Words) -> Markup {
    let times = lines.iter().map(|line| line.at);
    let (first, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
    let place = |at: u64| EDGE + (at - first) * (WIDTH - 2 * EDGE) / (last - first).max(1);
    let counted: Vec<(String, u64, String)> = ROLES
        .into_iter()
        .map(|role| {
            let count = lines.iter().filter(|line| line.role == role).count() as u64;
            (role_word(words, role).to_owned(), count, count.to_string())
        })
        .collect();
    let high = rows_high(ROLES.len());
    html! {
        svg.chart height=(high + FOOT) role="img" aria-label=(said(words.timeline_by_role, &counted)) {
            @for (at, (role, (name, _, count))) in ROLES.into_iter().zip(&counted).enumerate() {
                @let top = at as u64 * ROW;
                (words_of(top, name, count))
                line.axis x1="0" y1=(top + 22) x2="100%" y2=(top + 22) {}
                @for line in lines.iter().filter(|line| line.role == role) { circle.spot cx=(share(place(line.at))) cy=(top + 22) r="4" {} }
            }
            text.tick x="0" y=(high + 12) { (clock(first)) }
            text.tick x="100%" y=(high + 12) text-anchor="end" { (clock(last)) }
        }
    }
}

/// Hours and minutes, in UTC.
fn clock(ms: u64) -> String {
    format!("{}Z", &iso(ms)[11..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_stays_within_the_picture() {
        let check = |html: &str| {
            for mark in ["cx=\"", " x=\"", " width=\"", "x1=\""] {
                for part in html.split(mark).skip(1) {
                    let text = part.split(['%', '"']).next().unwrap_or_default();
                    let place: f64 = text.parse().expect("a number");
                    assert!((0.0..=100.0).contains(&place), "{mark}{place}");
                }
            }
        };
        let rows = [("a".to_owned(), 1, 3), ("b".to_owned(), 0, u64::MAX)];
        let html = spans("times", &rows).into_string();
        check(&html);
        assert!(html.contains("aria-label=\"times: a 1 µs / 3 µs"), "{html}");
        let html = across("counts", &[("none".into(), 0, "0".into()), ("all".into(), 7, "7".into())]).into_string();
        check(&html);
        assert!(html.contains("width=\"0.0%\"") && html.contains("width=\"100.0%\""), "{html}");
        let days: Vec<Day> = (0..14).map(|day| Day { day: format!("2026-11-{day:02}"), events: day }).collect();
        check(&bars(&days, crate::Lang::En.words()).into_string());
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        assert_eq!((time_of(7), time_of(1_540), time_of(2_000_000)), ("7 µs".into(), "1.5 ms".into(), "2.0 s".into()));
    }
}
