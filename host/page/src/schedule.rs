//! Tasks along time: when each began, until when it is due, what it waits for, and the question on those that are blocked.

use maud::{Markup, html};

use crate::canvas::{mark, short};
use crate::layout::{Fragment, Page, Shell};
use crate::parts::{clip, empty, shown_title, task_path};
use crate::tasks::filters;
use crate::time::iso;
use crate::views::{Bar, Schedule};

const LEFT: u64 = 250;
const WIDE: u64 = 640;
const ROW: u64 = 34;
const TOP: u64 = 24;
/// Most lines of time.
const TICKS: u64 = 5;
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 1_440 * MINUTE_MS;
/// What may lie between two of them: people read a whole hour or day faster than a quarter of what is shown.
const STEPS_MS: [u64; 12] = [
    15 * MINUTE_MS,
    30 * MINUTE_MS,
    60 * MINUTE_MS,
    180 * MINUTE_MS,
    360 * MINUTE_MS,
    720 * MINUTE_MS,
    DAY_MS,
    2 * DAY_MS,
    7 * DAY_MS,
    28 * DAY_MS,
    91 * DAY_MS,
    364 * DAY_MS,
];
/// Half of what is written at one.
const LABEL: u64 = 52;
/// As wide as what stands on a bar.
const TOLD: u64 = 230;

pub fn schedule(shell: &Shell, view: &Schedule) -> Page {
    let words = shell.words();
    let head = html! { h1 { (words.tasks) } (filters(shell, &view.filter, &view.agents, "schedule")) };
    let fragments =
        vec![Fragment::new("head", &[], head), Fragment::new("schedule", &["tasks", "questions"], chart(shell, view))];
    Page { nav: "tasks", title: format!("{} · {}", words.tasks, words.schedule), fragments, dialog: None }
}

fn chart(shell: &Shell, view: &Schedule) -> Markup {
    let words = shell.words();
    if view.bars.is_empty() {
        return empty(words.no_tasks, None);
    }
    let first = view.bars.iter().map(|bar| bar.from).min().unwrap_or(view.now).min(view.now);
    let last = view.bars.iter().map(|bar| bar.to).max().unwrap_or(view.now).max(view.now).max(first + 3_600_000);
    let place =
        |at: u64| LEFT + at.clamp(first, last).abs_diff(first).saturating_mul(WIDE) / last.abs_diff(first).max(1);
    let middle = |at: usize| TOP + at as u64 * ROW + ROW / 2;
    let height = TOP + view.bars.len() as u64 * ROW + 8;
    html! {
        div.wide tabindex="0" role="region" aria-label=(words.schedule) {
            svg.canvas.schedule viewBox=(format!("0 0 {} {height}", LEFT + WIDE + LABEL)) width=(LEFT + WIDE + LABEL) height=(height) role="group" aria-label=(words.schedule_help) {
                @for at in ticks(first, last) {
                    @let x = place(at);
                    line.axis x1=(x) y1=(TOP - 6) x2=(x) y2=(height) {}
                    text.tick x=(x) y="12" text-anchor="middle" data-at=(iso(at)) { (&iso(at)[5..16].replace('T', " ")) }
                }
                line.now x1=(place(view.now)) y1=(TOP - 6) x2=(place(view.now)) y2=(height) { title { (words.now) } }
                @for (at, bar) in view.bars.iter().enumerate() {
                    @for id in bar.depends_on.iter().take(8) {
                        @if let Some(before) = view.bars.iter().position(|other| other.card.id == *id) {
                            path.edge d=(elbow((place(view.bars[before].to), middle(before)), (place(bar.from), middle(at)))) {}
                        }
                    }
                }
                @for (at, bar) in view.bars.iter().enumerate() { (row(shell, bar, (at, view.now), (place(bar.from), place(bar.to)))) }
            }
        }
        @if view.total > view.bars.len() {
            p.pages {
                @if view.filter.from > 0 { a.button href=(shell.with("from", "")) { (words.to_first) } }
                @if view.filter.from + view.bars.len() < view.total { a.button href=(shell.with("from", &(view.filter.from + view.bars.len()).to_string())) { (words.more) } }
            }
        }
    }
}

/// Whole hours or days between two moments, `TICKS` at most.
fn ticks(first: u64, last: u64) -> impl Iterator<Item = u64> {
    let wide = last.saturating_sub(first).div_ceil(TICKS);
    let step = STEPS_MS.into_iter().find(|step| *step >= wide).unwrap_or_else(|| wide.next_multiple_of(DAY_MS));
    (first.div_ceil(step)..=last / step).map(move |nth| nth * step).take(TICKS as usize)
}

fn elbow(from: (u64, u64), to: (u64, u64)) -> String {
    format!("M{} {}h6V{}H{}", from.0, from.1, to.1, to.0)
}

fn row(shell: &Shell, bar: &Bar, (at, now): (usize, u64), (from, to): (u64, u64)) -> Markup {
    let (words, card) = (shell.words(), &bar.card);
    let top = TOP + at as u64 * ROW;
    let title = shown_title(shell, card);
    let is_overdue = bar.is_due && bar.to < now;
    let kind = match (card.question.is_some(), card.status.as_str()) {
        (true, _) => "asks",
        _ if is_overdue => "bad",
        (_, "in_progress") => "going",
        (_, "blocked") => "stuck",
        _ => "calm",
    };
    let status = if card.question.is_some() { words.waits_for_person } else { words.task_status(&card.status) };
    let told = card.question.as_ref().or(card.blocked.as_ref());
    let due = match bar.is_due {
        true if is_overdue => format!(" · {} {}", words.overdue, &iso(bar.to)[..10]),
        true => format!(" · {} {}", words.due, &iso(bar.to)[..10]),
        false => format!(" · {}", words.until_now),
    };
    let wide = to.saturating_sub(from).max(6);
    // On its bar where there is room, else behind it.
    let told_at = if wide > TOLD { from + 6 } else { (from + wide + 6).min(LEFT + WIDE - TOLD) };
    html! {
        a.node href=(task_path(&card.id)) data-open=(format!("{}?tab=conversation", task_path(&card.id))) data-kind=(kind) data-key=(card.id)
            aria-label=(format!("{} · {status}{due}{}", clip(&title, 100), told.map(|told| format!(" · {}", clip(told, 120))).unwrap_or_default())) {
            title { (clip(&title, 160)) (due) @if let Some(told) = told { " — " (clip(told, 200)) } }
            text x="4" y=(top + 15) { (mark(card)) " " (short(&title, 28)) }
            text.tick x="4" y=(top + 29) { (clip(&card.agent.name, 24)) " · " (status) @if is_overdue { " · ! " (words.overdue) } }
            rect x=(from) y=(top + 7) width=(wide) height="16" rx="3" data-until-now[!bar.is_due] {}
            @if let Some(told) = told { text.tick x=(told_at) y=(top + 19) { (mark(card)) " " (short(told, 34)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(first: &str, hours: u64, expected: &[&str]) {
        let first =
            (0..).map(|hour| hour * 3_600_000 + 840_000).find(|at| iso(*at).starts_with(first)).expect("a moment");
        let found: Vec<String> = ticks(first, first + hours * 3_600_000).map(|at| iso(at)[5..16].to_owned()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_of_time_stand_at_whole_hours_and_days() {
        check("2026-11-18T22", 1, &["11-18T22:15", "11-18T22:30", "11-18T22:45", "11-18T23:00"]);
        check("2026-11-18T22", 24, &["11-19T00:00", "11-19T06:00", "11-19T12:00", "11-19T18:00"]);
        check("2026-11-18T22", 122, &["11-19T00:00", "11-21T00:00", "11-23T00:00"]);
        check("2026-11-18T00", 24 * 900, &["10-21T00:00", "10-19T00:00"]);
    }

    #[test]
    fn there_are_few_of_them_however_long_it_is() {
        for days in [1, 40, 400, 40_000, 2_000_000] {
            assert!((1..=TICKS as usize).contains(&ticks(DAY_MS / 2, days * DAY_MS).count()), "{days}");
        }
    }
}
