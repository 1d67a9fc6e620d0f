//! Talk with an agent that may talk to people: what was said, what is being said, questions where they were asked, and a place to write.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::parts::{bubbles, clip, empty, encode, face};
use crate::views::Chat;

pub fn chat(shell: &Shell, view: &Chat) -> Page {
    let words = shell.words();
    let topic = format!("chat:{}", view.session);
    let mut fragments = vec![Fragment::new("head", &[], head(shell, view))];
    if view.agent.is_some() {
        fragments.push(Fragment::new("stream", &[&topic, "questions"], stream(shell, view)));
        if shell.may_write() {
            fragments.push(Fragment::new("running", &[&topic], running(shell, view)));
            fragments.push(Fragment::new("compose", &[], compose(shell, view)));
        }
    }
    Page { nav: "chat", title: words.chat.into(), fragments, dialog: None }
}

fn head(shell: &Shell, view: &Chat) -> Markup {
    let words = shell.words();
    html! {
        h1 { (words.chat) @if let Some(agent) = &view.agent { " · " (face(agent)) } }
        @if view.agents.is_empty() { (empty(words.nobody_to_chat, None)) }
        @if view.agents.len() > 1 {
            nav.tabs aria-label=(words.chat_with) {
                @for one in &view.agents {
                    a href=(format!("/chat?agent={}", encode(&one.id)))
                        aria-current=[(view.agent.as_ref().is_some_and(|agent| agent.id == one.id)).then_some("page")] { (face(one)) }
                }
            }
        }
    }
}

fn stream(shell: &Shell, view: &Chat) -> Markup {
    let words = shell.words();
    html! {
        @if view.older.is_some() || !view.is_latest {
            p.pages {
                @if let Some(older) = view.older { a.button href=(shell.with("before", &older.to_string())) { (words.older) } }
                @if !view.is_latest { " " a.button href=(shell.with("before", "")) { (words.latest) } }
            }
        }
        @if !view.open.is_empty() {
            div.notice data-kind="stuck" {
                p { (words.several_open) }
                ul { @for (id, question) in &view.open { li dir="auto" { a href=(format!("/questions?first={0}#q-{0}", encode(id))) { (clip(&shell.named(question), 200)) } } } }
            }
        }
        @if view.bubbles.is_empty() && view.waiting.is_empty() && !view.running { (empty(words.chat_empty, None)) }
        (bubbles(shell, &view.bubbles, Some("bubbles"), &html! {
            @if let Some(agent) = &view.agent {
                li.bubble id="saying" data-side="left" data-key="saying" data-session=(view.session) hidden[!view.running] {
                    p.who { (face(agent)) " " span.small { (words.thinking) } }
                    div.text.raw dir="auto" data-keep {}
                }
            }
            @for text in &view.waiting {
                li.bubble data-side="right" data-waiting { p.who { span.small { (words.waiting_messages) } } div.text dir="auto" { (clip(text, 600)) } }
            }
        }))
    }
}

fn running(shell: &Shell, view: &Chat) -> Markup {
    let words = shell.words();
    html! {
        @if view.running || !view.waiting.is_empty() {
            form.inline method="post" action="/chat/abort" {
                (shell.back())
                input type="hidden" name="session" value=(view.session);
                span.small role="status" { (words.thinking) }
                button type="submit" { (words.abort) }
                p.said role="alert" {}
            }
        }
    }
}

fn compose(shell: &Shell, view: &Chat) -> Markup {
    let words = shell.words();
    html! {
        form method="post" action="/chat/send" data-enter {
            // On to the newest messages: on a page of older ones nobody would see what was sent.
            input type="hidden" name="back" value=(shell.with_all(&[("before", ""), ("full", ""), ("at", "")]));
            input type="hidden" name="session" value=(view.session);
            input type="hidden" name="key" value=(view.key) data-fresh;
            label for="message" { (words.message) }
            textarea id="message" name="message" rows="3" required dir="auto" {}
            button.main type="submit" { (words.send) }
            p.said role="alert" {}
        }
    }
}
