//! The pieces that several pages are made of: faces, badges, bars, questions, bubbles.

use maud::{Markup, html};

use crate::caps::{LIST_BYTES, SAID_BYTES};
use crate::layout::Shell;
use crate::long::{Long, fitting, long};
use crate::markdown::{markdown, plain_line};
use crate::time::{when, written};
use crate::views::{
    AgentState, Bubble, Face, Indexed, JobRow, QuestionCard, QuestionState, Rest, Side, Steps, TaskCard,
};

const TITLE_BYTES: usize = 160;

/// The beginning of a text, at most so many bytes of it.
pub fn clip(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    format!("{}…", text[..text.floor_char_boundary(bytes_max)].trim_end())
}

/// A text as one line for a list; none of the marks that only machines read.
pub fn title_of(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = line.trim_start_matches("[Goal]").trim_start_matches(['#', ' ', ':']);
    clip(&plain_line(&clip(line, TITLE_BYTES * 4)), TITLE_BYTES)
}

/// A text as a part of an address.
pub fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    // A name of dots alone would mean a way up.
    if encoded.chars().all(|c| c == '.') { encoded.replace('.', "%2E") } else { encoded }
}

/// A part of an address as it was meant.
pub(crate) fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut meant, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let code = bytes.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        match (bytes[at], code.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                meant.push(byte);
                at += 2;
            }
            (b'+', _) => meant.push(b' '),
            (byte, _) => meant.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&meant).into_owned()
}

pub(crate) fn task_path(id: &str) -> String {
    format!("/tasks/{}", encode(id))
}

/// A mark and a word: never a colour alone.
pub(crate) fn badge(kind: &str, mark: &str, word: &str) -> Markup {
    html! { span.badge data-kind=(kind) { span.mark aria-hidden="true" { (mark) } (word) } }
}

pub(crate) fn status_badge(shell: &Shell, status: &str) -> Markup {
    let (kind, mark) = match status {
        "backlog" => ("calm", "◌"),
        "in_progress" => ("going", "▶"),
        "blocked" => ("stuck", "■"),
        "completed" => ("good", "✓"),
        "failed" | "abandoned" => ("bad", "✕"),
        "cancelled" => ("calm", "–"),
        "pending_approval" => ("asks", "?"),
        _ => ("calm", "○"),
    };
    badge(kind, mark, &clip(shell.words().task_status(status), 40))
}

pub(crate) fn state_badge(shell: &Shell, state: AgentState) -> Markup {
    let words = shell.words();
    match state {
        AgentState::Working => badge("going", "▶", words.working),
        AgentState::Queued => badge("calm", "…", words.queued),
        AgentState::WaitsForPerson => badge("asks", "?", words.waits_for_person),
        AgentState::Blocked => badge("stuck", "■", words.stuck),
        AgentState::Stopped => badge("bad", "◼", words.paused),
        AgentState::Idle => badge("calm", "○", words.idle),
    }
}

pub(crate) fn priority_badge(shell: &Shell, priority: &str) -> Markup {
    let (kind, mark) = match priority {
        "urgent" => ("bad", "⇈"),
        "high" => ("stuck", "↑"),
        "low" => ("calm", "↓"),
        "medium" | "" => return html! {},
        _ => ("calm", "•"),
    };
    badge(kind, mark, &clip(shell.words().priority(priority), 40))
}

/// The colour of a team as a spot, and who it is.
pub(crate) fn face(face: &Face) -> Markup {
    html! {
        span.face {
            @if let Some(emoji) = &face.emoji {
                span.emoji aria-hidden="true" { (clip(emoji, 16)) }
            } @else {
                svg.dot viewBox="0 0 10 10" aria-hidden="true" { circle cx="5" cy="5" r="5" fill=[face.colour.as_deref().filter(|c| is_colour(c))] {} }
            }
            bdi { (clip(&face.name, 60)) }
        }
    }
}

/// Nothing but `#rrggbb` gets into an attribute that paints.
pub(crate) fn is_colour(text: &str) -> bool {
    text.len() == 7 && text.starts_with('#') && text.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit())
}

pub(crate) fn agent_link(one: &Face) -> Markup {
    html! { a.plain href=(format!("/agents/{}", encode(&one.id))) { (face(one)) } }
}

pub(crate) fn steps_bar(shell: &Shell, steps: Steps) -> Markup {
    let label = format!("{} {}/{}", shell.words().steps, steps.done, steps.total);
    html! {
        span.steps {
            progress max=(steps.total.max(1)) value=(steps.done) aria-label=(label) {}
            span.number { (steps.done) "/" (steps.total) }
        }
    }
}

/// A task in a list of a few: title, step, bar.
pub(crate) fn task_line(shell: &Shell, card: &TaskCard) -> Markup {
    html! {
        a.title href=(task_path(&card.id)) dir="auto" { (shown_title(shell, card)) }
        @if let Some(steps) = card.steps { (steps_bar(shell, steps)) }
        @if let Some(step) = &card.step {
            p.step dir="auto" { span.mark aria-hidden="true" { "▸" } (clip(step, 120)) }
        }
    }
}

/// A task's title; never its raw id.
pub(crate) fn shown_title(shell: &Shell, card: &TaskCard) -> String {
    if card.title.trim().is_empty() { format!("({})", shell.words().for_task) } else { shell.named(&card.title) }
}

/// What there is to see when there is nothing.
pub(crate) fn empty(said: &str, help: Option<&str>) -> Markup {
    html! { div.empty { p { (code_marks(said)) } @if let Some(help) = help { p.small { (code_marks(help)) } } } }
}

/// Our own words with code between backticks.
pub(crate) fn code_marks(text: &str) -> Markup {
    html! { @for (at, part) in text.split('`').enumerate() { @if at % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// What needs the index, or how far that is.
pub(crate) fn indexed<'a, T>(shell: &Shell, value: &'a Indexed<T>, shown: impl FnOnce(&'a T) -> Markup) -> Markup {
    match value {
        Indexed::Ready(value) => shown(value),
        Indexed::Indexing(percent) => indexing(shell, *percent),
    }
}

pub(crate) fn indexing(shell: &Shell, percent: u8) -> Markup {
    let words = shell.words();
    html! {
        div.empty data-again {
            p { (words.indexing) " (" (percent) " %)" }
            progress max="100" value=(percent) aria-label=(words.indexing) {}
            p.small { (words.indexing_help) }
        }
    }
}

pub(crate) fn job_row(shell: &Shell, job: &JobRow) -> Markup {
    html! {
        li.row data-key=(job.id) {
            div {
                (agent_link(&job.from)) span.small aria-label=(shell.words().from_to) { " → " } (agent_link(&job.to))
                " " (badge(job_kind(&job.status), job_mark(&job.status), shell.words().job_status(&job.status)))
                span.small { " " (shell.words().turn) " " (job.turn) " · " (when(job.at)) " · " a href=(format!("/jobs/{}", encode(&job.id))) { (shell.words().details) } }
            }
            @if let Some(error) = &job.error { p.small dir="auto" { (clip(error, 240)) } }
        }
    }
}

pub(crate) fn job_kind(status: &str) -> &'static str {
    match status {
        "RUNNING" => "going",
        "COMPLETED" => "good",
        "FAILED" | "ABANDONED" => "bad",
        _ => "calm",
    }
}

pub(crate) fn job_mark(status: &str) -> &'static str {
    match status {
        "RUNNING" => "▶",
        "COMPLETED" => "✓",
        "FAILED" | "ABANDONED" => "✕",
        _ => "○",
    }
}

/// Markdown of others: its beginning, with a way to all of it.
pub(crate) fn said(shell: &Shell, id: &str, text: &str, bytes: usize) -> Markup {
    long(shell, &Long { id, text, bytes, unread: 0 }, &|text| markdown(text, &|id| shell.name_of(id)))
}

/// The same of what is no markdown.
pub(crate) fn noted(shell: &Shell, id: &str, text: &str, bytes: usize) -> Markup {
    long(shell, &Long { id, text, bytes, unread: 0 }, &|text| html! { (text) })
}

/// Several questions, with as much of each as a page can bear.
pub(crate) fn questions_of<'a>(shell: &Shell, cards: impl Iterator<Item = &'a QuestionCard> + Clone) -> Markup {
    fitting(LIST_BYTES, |each| html! { @for card in cards.clone() { (question(shell, card, each)) } })
}

/// A question with what there is to know, and the place for its answer; `each` is what one of its texts may take.
pub(crate) fn question(shell: &Shell, card: &QuestionCard, each: usize) -> Markup {
    let words = shell.words();
    html! {
        article.question id=(format!("q-{}", card.id)) data-key=(format!("q-{}", card.id)) {
            header {
                (badge("asks", "?", match card.state {
                    QuestionState::Open => words.waits_for_person,
                    QuestionState::Answered => words.answered_questions,
                    QuestionState::Expired => words.expired_questions,
                }))
                " " (agent_link(&card.asker)) " " span.small { (when(card.asked_at)) }
                @if let Some((id, title)) = &card.task {
                    " " a.small href=(task_path(id)) { (words.for_task) @if !title.is_empty() { ": " bdi { (clip(title, 100)) } } }
                }
            }
            div.text dir="auto" { (said(shell, &format!("q-{}", card.id), &card.question, each)) }
            @if let Some(context) = &card.context { blockquote.small dir="auto" { (clip(context, each.min(400))) } }
            @if let Some(deadline) = card.deadline { p.small { (words.deadline) ": " (when(deadline)) } }
            @if let Some(answer) = &card.default_answer { div.small dir="auto" { (words.default_answer) ": " (noted(shell, &format!("d-{}", card.id), answer, each.min(400))) } }
            @match (&card.answer, card.state) {
                (Some((text, by, at)), _) => {
                    div.answer dir="auto" {
                        p.small { (words.answered_by) " " bdi { (clip(by, 60)) } " · " (when(*at)) }
                        (said(shell, &format!("a-{}", card.id), text, each))
                    }
                },
                (None, QuestionState::Open) if shell.may_write() => (answer_form(shell, card)),
                _ => {},
            }
        }
    }
}

fn answer_form(shell: &Shell, card: &QuestionCard) -> Markup {
    let words = shell.words();
    let name = format!("answer-{}", card.id);
    html! {
        form method="post" action=(format!("/questions/{}/answer", encode(&card.id))) {
            (shell.back())
            label for=(name) { (words.answer) }
            textarea id=(name) name="answer" rows="2" required dir="auto" {}
            button.main type="submit" { (words.send_answer) }
            p.said role="alert" {}
        }
    }
}

/// What was said, with as much of each as a page can bear; `more` stands behind it.
pub(crate) fn bubbles(shell: &Shell, all: &[Bubble], id: Option<&str>, more: &Markup) -> Markup {
    fitting(SAID_BYTES, |each| {
        html! { ol.bubbles id=[id] { @for one in all { (bubble(shell, one, each)) } (more) } }
    })
}

/// Something that was said, with who said it and when, on whichever side.
fn bubble(shell: &Shell, one: &Bubble, each: usize) -> Markup {
    let words = shell.words();
    let side = match one.side {
        Side::Left => "left",
        Side::Right => "right",
        Side::Middle => "middle",
    };
    html! {
        li.bubble data-side=(side) data-failed[one.failed] data-key=(format!("m-{}", one.id)) id=(format!("m-{}", one.id)) {
            p.who {
                @if one.from.id.is_empty() { (face(&named(shell, &one.from))) } @else { (agent_link(&one.from)) }
                @if let Some(to) = &one.to { span.small { " → " bdi { (clip(to, 60)) } } }
                " " span.small { (when(one.at)) }
            }
            @if let Some(tool) = &one.failed_tool { p.notice data-kind="bad" { (badge("bad", "✕", words.tool_failed)) " " code { (clip(tool, 60)) } } }
            @else if one.failed { p.notice data-kind="bad" { (badge("bad", "✕", words.it_was_blocked)) } }
            @if !one.text.is_empty() {
                @let text = Long { id: &one.id, text: &one.text, bytes: each, unread: one.cut };
                div.text dir="auto" { (long(shell, &text, &|text| markdown(text, &|id| shell.name_of(id)))) }
            }
            @match one.rest {
                Rest::Here => {},
                // Its beginning is all that is here; where that is cut as well, it has said so.
                Rest::InTranscript if one.cut > 0 || one.text.len() > each => {},
                Rest::InTranscript => p.small { (words.cut) " " a href=(shell.with_all(&[("full", &one.id), ("at", "")])) { (words.show_whole) } },
                Rest::Gone => p.small { (words.rest_gone) },
            }
            @if !one.tools.is_empty() {
                p.tools.small { (words.tool_calls) ": " @for tool in one.tools.iter().take(each / 50 + 1) { code { (clip(tool, 60)) } " " } }
            }
            @if let Some(card) = &one.question { (question(shell, card, each)) }
        }
    }
}

/// Who is no agent: a person or the gateway itself, in the reader's words.
fn named(shell: &Shell, from: &Face) -> Face {
    let words = shell.words();
    let name = match from.name.as_str() {
        "human" => words.you,
        "system" => words.system,
        other => other,
    };
    Face { name: name.to_owned(), ..from.clone() }
}

pub(crate) fn moment(text: &str) -> Markup {
    written(text)
}
