//! Work sessions: the categories first, then those of one category, or all of them.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::parts::{badge, clip, empty, encode, face, indexed};
use crate::time::when;
use crate::views::{CategoryBadge, Conversations, Listed, SessionCard, SessionsFilter};
use crate::words::Lang;

/// The key of what nobody has put into a category, in addresses and as a group.
pub const UNCATEGORISED: &str = "unknown";

pub fn conversations(shell: &Shell, view: &Conversations) -> Page {
    let words = shell.words();
    let fragments = vec![
        Fragment::new("badges", &["activity", "sessions"], badges(shell, view)),
        Fragment::new("filters", &[], filters(shell, view)),
        Fragment::new("list", &["sessions"], list(shell, view)),
    ];
    Page { nav: "conversations", title: words.conversations.into(), fragments, dialog: None }
}

fn badges(shell: &Shell, view: &Conversations) -> Markup {
    let words = shell.words();
    let here = |key: &str| (view.filter.category.as_deref() == Some(key)).then_some("page");
    html! {
        h1 { (words.conversations) }
        nav.categories aria-label=(words.categories) data-large[view.filter.category.is_none() && view.filter.text.is_none()] {
            @for one in &view.categories {
                a.category href=(format!("/conversations?category={}", encode(&one.key))) aria-current=[here(&one.key)] {
                    (shell.lang.pick(&one.ko, &one.en)) " " span.small { (one.sessions) }
                }
            }
            @if view.uncategorised > 0 {
                a.category href=(format!("/conversations?category={UNCATEGORISED}")) aria-current=[here(UNCATEGORISED)] {
                    (words.uncategorised) " " span.small { (view.uncategorised) }
                }
            }
            a.category href="/conversations?category=all" aria-current=[here("all")] { (words.all) " " span.small { (view.all) } }
        }
        p.small { (words.counted_days) }
    }
}

fn filters(shell: &Shell, view: &Conversations) -> Markup {
    let words = shell.words();
    let filter = &view.filter;
    let (category, grouped) = (filter.category.clone(), filter.grouped);
    let narrowed = *filter != SessionsFilter { category, grouped, ..SessionsFilter::default() };
    html! {
        form.filters method="get" action="/conversations" role="search" aria-label=(words.filters) {
            input type="hidden" name="category" value=(filter.category.as_deref().unwrap_or("all"));
            @if filter.grouped { input type="hidden" name="group" value="category"; }
            label for="q" { (words.search) }
            input id="q" name="q" type="search" placeholder=(words.search_help) dir="auto"
                value=(filter.text.as_deref().unwrap_or_default());
            label for="status" { (words.status) }
            select id="status" name="status" data-auto {
                option value="" { (words.all) }
                @for key in ["ACTIVE", "QUIET", "ARCHIVED"] {
                    option value=(key) selected[filter.status.as_deref() == Some(key)] { (words.session_status(key)) }
                }
            }
            label for="thread" { (words.threads) }
            select id="thread" name="thread" data-auto {
                option value="" { (words.all) }
                @for key in ["active", "blocked", "resolved"] {
                    option value=(key) selected[filter.thread.as_deref() == Some(key)] { (words.thread_state(key)) }
                }
            }
            label for="agent" { (words.agent) }
            select id="agent" name="agent" data-auto {
                option value="" { (words.all_agents) }
                @for one in &view.agents {
                    option value=(one.id) selected[filter.agent.as_deref() == Some(&one.id)] { (clip(&one.name, 60)) }
                }
            }
            label for="tag" { (words.tag) }
            input id="tag" name="tag" type="text" maxlength="40" dir="auto" value=(filter.tag.as_deref().unwrap_or_default());
            button type="submit" { (words.filter) }
            @if narrowed {
                a href=(shell.with_all(&["q", "status", "thread", "agent", "tag", "cursor"].map(|name| (name, "")))) { (words.clear) }
            }
        }
    }
}

fn list(shell: &Shell, view: &Conversations) -> Markup {
    let words = shell.words();
    let row = |one: &SessionCard| html! { li.row data-key=(one.id) { (session(shell, &view.categories, one, true)) } };
    html! {
        (order(shell, &view.filter))
        (indexed(shell, &view.sessions, |listed| match listed {
            Listed::Nothing => empty(words.choose_category, None),
            Listed::Latest(sessions) => html! {
                @if sessions.is_empty() { (empty(words.no_match, None)) }
                ul.rows { @for one in sessions { (row(one)) } }
                @if let Some(next) = &view.next { p { a.button href=(shell.with("cursor", next)) { (words.more) } } }
            },
            Listed::Groups(groups) => html! {
                @if groups.is_empty() { (empty(words.no_match, None)) }
                @for (key, sessions, more) in groups {
                    div.group data-key=(key) {
                        h2 { (name_of(shell, &view.categories, key)) }
                        ul.rows { @for one in sessions { (row(one)) } }
                        @if *more { p { a href=(shell.with_all(&[("group", ""), ("category", key)])) { (words.more) } } }
                    }
                }
            },
        }))
    }
}

/// All of them are listed by time, or under their categories; what is looked for comes by its latest match.
fn order(shell: &Shell, filter: &SessionsFilter) -> Markup {
    let words = shell.words();
    let here = |grouped: bool| (filter.grouped == grouped).then_some("true");
    html! {
        @if filter.category.as_deref() == Some("all") && filter.text.is_none() {
            p.links {
                a href=(shell.with_all(&[("group", ""), ("cursor", "")])) aria-current=[here(false)] { (words.by_time) }
                a href=(shell.with_all(&[("group", "category"), ("cursor", "")])) aria-current=[here(true)] { (words.by_category) }
            }
        }
    }
}

pub(crate) fn name_of<'a>(shell: &Shell, categories: &'a [CategoryBadge], key: &'a str) -> &'a str {
    if key == UNCATEGORISED {
        return shell.words().uncategorised;
    }
    let known = categories.iter().find(|known| known.key == key);
    known.map_or(key, |known| shell.lang.pick(&known.ko, &known.en))
}

/// What a work session is called; one in which nobody said anything has the same title in every language until here.
pub(crate) fn session_title(shell: &Shell, title: &str) -> String {
    if title == Lang::Ko.words().untitled_session {
        return shell.words().untitled_session.to_owned();
    }
    clip(&shell.named(title), 160)
}

/// A work session in a list, or at the head of its own page.
pub(crate) fn session(shell: &Shell, categories: &[CategoryBadge], one: &SessionCard, linked: bool) -> Markup {
    let words = shell.words();
    html! {
        @if linked { a.title href=(format!("/conversations/{}", encode(&one.id))) dir="auto" { (session_title(shell, &one.title)) } }
        div.head {
            (session_badge(shell, &one.status))
            (category_badge(shell, categories, one))
            @for tag in one.tags.iter().take(2) { span.tag { bdi { (clip(tag, 40)) } } }
            @for (state, count) in ["active", "blocked", "resolved"].into_iter().zip(one.threads) {
                @if count > 0 && state != "active" { (thread_badge(shell, state)) @if count > 1 { span.small { "×" (count) } } }
            }
        }
        p.small {
            @for (at, who) in one.participants.iter().take(6).enumerate() { @if at > 0 { " " } (face(who)) }
            @if one.participants.len() > 6 { " +" (one.participants.len() - 6) }
            " · " (words.messages) " " (one.messages) " · " (when(one.activity))
        }
        @for passage in &one.passages { blockquote.small dir="auto" { (clip(&shell.named(passage), 200)) } }
    }
}

fn category_badge(shell: &Shell, categories: &[CategoryBadge], one: &SessionCard) -> Markup {
    let words = shell.words();
    let word = one.category.as_deref().map_or(words.uncategorised, |key| name_of(shell, categories, key));
    html! { span.tag data-kind="category" { (clip(word, 60)) @if one.overridden { " " span title=(words.category_manual) { "✎" } span.unseen { (words.category_manual) } } } }
}

pub(crate) fn session_badge(shell: &Shell, status: &str) -> Markup {
    let (kind, mark) = match status {
        "ACTIVE" => ("going", "▶"),
        "QUIET" => ("calm", "◔"),
        _ => ("calm", "▪"),
    };
    badge(kind, mark, &clip(shell.words().session_status(status), 40))
}

pub(crate) fn thread_badge(shell: &Shell, state: &str) -> Markup {
    let (kind, mark) = match state {
        "blocked" => ("stuck", "■"),
        "resolved" => ("good", "✓"),
        _ => ("going", "▶"),
    };
    badge(kind, mark, &clip(shell.words().thread_state(state), 40))
}
