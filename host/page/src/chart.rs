//! Counts as pictures, drawn by the server: over days, beside each other, along time. Whoever does not see them has the same as text.

use maud::{Markup, html};

use crate::events::{ROLES, role_word};
use crate::time::iso;
use crate::views::{Day, EventLine};
use crate::words::Words;

const WIDTH: u64 = 560;
const HEIGHT: u64 = 96;
/// The height of one row of bars that lie.
const ROW: u64 = 22;
/// Where the bars that lie begin, and where they end.
const LEFT: u64 = 150;
const RIGHT: u64 = 440;
/// The height of one lane of dots.
const LANE: u64 = 20;

/// A bar a day, with a table of the same numbers for those who do not see it.
pub(crate) fn bars(days: &[Day], words: &Words) -> Markup {
    let most = days.iter().map(|day| day.events).max().unwrap_or(0).max(1);
    let step = WIDTH / (days.len().max(1) as u64);
    html! {
        svg.chart viewBox=(format!("0 0 {WIDTH} {}", HEIGHT + 18)) role="img" aria-label=(words.events_per_day) {
            @for (at, day) in days.iter().enumerate() {
                @let height = (day.events * HEIGHT).div_ceil(most);
                @let left = at as u64 * step;
                rect.bar x=(left + 2) y=(HEIGHT - height) width=(step.saturating_sub(4).max(1)) height=(height) rx="2" {
                    title { (day.day) ": " (day.events) }
                }
                @if at == 0 || at + 1 == days.len() {
                    text.tick x=(if at == 0 { left + 2 } else { left + step - 2 }) y=(HEIGHT + 14)
                        text-anchor=(if at == 0 { "start" } else { "end" }) { (day.day.get(5..).unwrap_or(&day.day)) }
                }
            }
            line.axis x1="0" y1=(HEIGHT) x2=(WIDTH) y2=(HEIGHT) {}
            text.tick x=(WIDTH / 2) y=(HEIGHT + 14) text-anchor="middle" { "max " (most) }
        }
        table.unseen {
            caption { (words.events_per_day) }
            tr { th scope="col" { (words.day) } th scope="col" { (words.events) } }
            @for day in days { tr { td { (day.day) } td { (day.events) } } }
        }
    }
}

/// A lying bar for each row, with what it stands for before it and its value as text behind it.
pub(crate) fn across(label: &str, rows: &[(String, u64, String)]) -> Markup {
    let most = rows.iter().map(|(_, value, _)| *value).max().unwrap_or(0).max(1);
    html! {
        svg.chart viewBox=(format!("0 0 {WIDTH} {}", ROW * (rows.len() as u64).max(1))) role="img" aria-label=(said(label, rows)) {
            @for (at, (name, value, text)) in rows.iter().enumerate() {
                @let top = at as u64 * ROW;
                text.name x=(LEFT - 8) y=(top + 15) text-anchor="end" { (crate::clip(name, 48)) }
                rect.back x=(LEFT) y=(top + 5) width=(RIGHT - LEFT) height="12" rx="2" {}
                rect.bar x=(LEFT) y=(top + 5) width=((value * (RIGHT - LEFT)).div_ceil(most)) height="12" rx="2" {}
                text.tick x=(RIGHT + 6) y=(top + 15) { (text) }
            }
        }
    }
}

/// Two values a row on a scale on which ten times as much is one step further: what takes microseconds stands beside what takes seconds.
pub(crate) fn spans(label: &str, rows: &[(String, u64, u64)]) -> Markup {
    let place = |value: u64| {
        // Up to ten seconds, in microseconds.
        let digits = u64::from(value.max(1).ilog10());
        let within = value.max(1) / 10_u64.pow(value.max(1).ilog10());
        LEFT + ((digits * 10 + within) * (RIGHT - LEFT) / 80).min(RIGHT - LEFT)
    };
    let texts: Vec<(String, u64, String)> = rows
        .iter()
        .map(|(name, p50, p99)| (name.clone(), *p99, format!("{} / {}", time_of(*p50), time_of(*p99))))
        .collect();
    html! {
        svg.chart viewBox=(format!("0 0 {WIDTH} {}", ROW * (rows.len() as u64).max(1) + 16)) role="img" aria-label=(said(label, &texts)) {
            @for power in 0..8_u32 {
                @let x = place(10_u64.pow(power));
                line.axis x1=(x) y1="0" x2=(x) y2=(ROW * rows.len() as u64) {}
                @if power % 3 == 0 { text.tick x=(x) y=(ROW * rows.len() as u64 + 13) text-anchor="middle" { (time_of(10_u64.pow(power))) } }
            }
            @for (at, ((name, p50, p99), (_, _, text))) in rows.iter().zip(&texts).enumerate() {
                @let top = at as u64 * ROW;
                text.name x=(LEFT - 8) y=(top + 15) text-anchor="end" { (crate::clip(name, 48)) }
                rect.bar x=(place(*p50)) y=(top + 7) width=(place(*p99).saturating_sub(place(*p50)).max(2)) height="8" rx="2" {}
                circle.spot cx=(place(*p50)) cy=(top + 11) r="4" {}
                text.tick x=(RIGHT + 6) y=(top + 15) { (text) }
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
    let place = |at: u64| LEFT + (at - first) * (WIDTH - 10 - LEFT) / (last - first).max(1);
    let counted: Vec<(String, u64, String)> = ROLES
        .into_iter()
        .map(|role| {
            let count = lines.iter().filter(|line| line.role == role).count() as u64;
            (role_word(words, role).to_owned(), count, count.to_string())
        })
        .collect();
    html! {
        svg.chart viewBox=(format!("0 0 {WIDTH} {}", LANE * 4 + 16)) role="img" aria-label=(said(words.timeline_by_role, &counted)) {
            @for (at, (role, (name, ..))) in ROLES.into_iter().zip(&counted).enumerate() {
                @let middle = at as u64 * LANE + LANE / 2;
                text.name x=(LEFT - 8) y=(middle + 4) text-anchor="end" { (name) }
                line.axis x1=(LEFT) y1=(middle) x2=(WIDTH) y2=(middle) {}
                @for line in lines.iter().filter(|line| line.role == role) { circle.spot cx=(place(line.at)) cy=(middle) r="3" {} }
            }
            text.tick x=(LEFT) y=(LANE * 4 + 12) { (clock(first)) }
            text.tick x=(WIDTH) y=(LANE * 4 + 12) text-anchor="end" { (clock(last)) }
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
        let rows = [("a".to_owned(), 1, 3), ("b".to_owned(), 0, u64::MAX)];
        let html = spans("times", &rows).into_string();
        for part in html.split("cx=\"").skip(1) {
            let x: u64 = part.split('"').next().and_then(|x| x.parse().ok()).expect("a number");
            assert!((LEFT..=RIGHT).contains(&x), "{x}");
        }
        assert!(html.contains("aria-label=\"times: a 1 µs / 3 µs"), "{html}");
        let html = across("counts", &[("none".into(), 0, "0".into())]).into_string();
        assert!(html.contains("width=\"0\""), "{html}");
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        assert_eq!((time_of(7), time_of(1_540), time_of(2_000_000)), ("7 µs".into(), "1.5 ms".into(), "2.0 s".into()));
    }
}
