//! One work session: its threads, and what the agents said to each other, as bubbles with sender and time on both sides.

use maud::{Markup, html};

use crate::caps::THREADS;
use crate::conversations::{session, session_title, thread_badge};
use crate::layout::{Fragment, Page, Shell};
use crate::parts::{bubbles, clip, empty, encode, face, task_path};
use crate::time::when;
use crate::views::Conversation;
use crate::why::why;

pub fn conversation(shell: &Shell, view: &Conversation) -> Page {
    let topic = format!("session:{}", view.session.id);
    let mut fragments = vec![
        Fragment::new("head", &[&topic], head(shell, view)),
        Fragment::new("threads", &[&topic], threads(shell, view)),
        Fragment::new("talk", &[&topic], talk(shell, view)),
    ];
    if let Some(reasons) = &view.why {
        fragments.insert(1, Fragment::new("why", &[&topic], why(shell, reasons)));
    }
    Page { nav: "conversations", title: session_title(shell, &view.session.title), fragments, dialog: None }
}

fn head(shell: &Shell, view: &Conversation) -> Markup {
    let (words, one) = (shell.words(), &view.session);
    html! {
        p.small { a href="/conversations?category=all" { "← " (words.back_to_list) } }
        h1 dir="auto" { (session_title(shell, &one.title)) }
        (session(shell, &view.categories, one, false))
        @if !view.tasks.is_empty() {
            p.small { (words.tasks_of_session) ": " @for (id, title) in &view.tasks { a href=(task_path(id)) { bdi { (clip(&shell.named(title), 80)) } } " " }
                @if view.tasks_left > 0 { a href=(format!("/events?session={}&role=orchestration.task", encode(&one.id))) { "+" (view.tasks_left) } } }
        }
        p.small.links {
            a href=(format!("/events?session={}", encode(&one.id))) { (words.events_of_session) } " "
            a href=(format!("/events?tree=1&session={}", encode(&one.id))) { (words.as_tree) } " "
            a href=(format!("/jobs?session={}", encode(&one.id))) { (words.jobs) } " "
            @if view.why.is_some() { a href=(shell.with("why", "")) { (words.close_why) } } @else { a href=(shell.with("why", "1")) { (words.why) } }
        }
        @if shell.may_write() {
            form.inline method="post" action=(format!("/conversations/{}/category", encode(&one.id))) {
                (shell.back())
                input type="hidden" name="seen" value=(one.mark());
                label for="category" { (words.change_category) }
                select id="category" name="category" required {
                    @if one.category.is_none() { option value="" selected disabled { (words.no_category_yet) } }
                    @for known in &view.categories {
                        option value=(known.key) selected[one.category.as_deref() == Some(&known.key)] { (shell.lang.pick(&known.ko, &known.en)) }
                    }
                    @if one.overridden { option value="" { (words.category_taken_back) } }
                }
                button type="submit" { (words.change_category) }
                p.said role="alert" {}
            }
        }
    }
}

fn threads(shell: &Shell, view: &Conversation) -> Markup {
    let words = shell.words();
    html! {
        @if view.threads.len() > 1 {
            h2 { (words.threads) }
            ul.rows {
                li.row { a href=(shell.with_all(&[("thread", ""), ("before", "")])) aria-current=[view.thread.is_none().then_some("true")] { (words.all_threads) } }
                @for one in view.threads.iter().take(THREADS) {
                    li.row data-key=(one.key) {
                        a.plain href=(shell.with_all(&[("thread", &one.key), ("before", "")])) aria-current=[(view.thread.as_ref() == Some(&one.key)).then_some("true")] {
                            (thread_badge(shell, &one.state)) " "
                            @for who in one.participants.iter().take(6) { (face(who)) " " }
                            span.small { (words.messages) " " (one.messages) " · " (when(one.at)) }
                        }
                        @if let Some(last) = &one.last { p.small dir="auto" { (clip(&shell.named(last), 160)) } }
                    }
                }
            }
        } @else if let Some(one) = view.threads.first() {
            p { (thread_badge(shell, &one.state)) }
        }
    }
}

fn talk(shell: &Shell, view: &Conversation) -> Markup {
    let words = shell.words();
    html! {
        h2.unseen { (words.messages) }
        @if view.older.is_some() || !view.is_latest {
            p.pages {
                @if let Some(older) = &view.older { a.button href=(shell.with("before", older)) { (words.older) } }
                @if !view.is_latest { " " a.button href=(shell.with("before", "")) { (words.latest) } }
            }
        }
        @if view.bubbles.is_empty() { (empty(words.no_messages, None)) }
        (bubbles(shell, &view.bubbles, None, &html! {}))
    }
}
