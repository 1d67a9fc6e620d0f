//! Chat networks: whether each is connected, and what went through it.

use maud::{Markup, html};

use crate::layout::{Fragment, Page, Shell};
use crate::parts::{badge, clip, empty, encode};
use crate::time::when;
use crate::views::ChannelRow;

pub fn channels(shell: &Shell, rows: &[ChannelRow]) -> Page {
    let words = shell.words();
    let list = html! {
        h1 { (words.channels) }
        @if rows.is_empty() { (empty(words.no_channels, Some(words.no_channels_help))) }
        ul.cards { @for one in rows { (row(shell, one)) } }
    };
    let fragments = vec![Fragment::new("list", &["channels", "counters"], list)];
    Page { nav: "channels", title: words.channels.into(), fragments, dialog: None }
}

fn row(shell: &Shell, one: &ChannelRow) -> Markup {
    let words = shell.words();
    let (kind, mark, word) = match one.status.as_str() {
        "ready" => ("good", "✓", words.channel_ready),
        "starting" => ("calm", "…", words.channel_starting),
        "degraded" => ("stuck", "!", words.channel_degraded),
        "needs-auth" => ("asks", "?", words.channel_needs_auth),
        "stopped" => ("bad", "◼", words.channel_stopped),
        other => ("calm", "•", other),
    };
    html! {
        li.card data-key=(one.channel) {
            div.head { strong { (clip(&one.channel, 60)) } (badge(kind, mark, &clip(word, 40))) span.small { (when(one.since)) } }
            @if let Some((name, version)) = &one.plugin {
                p { a href=(format!("/plugins/{}", encode(&format!("channel:{}", one.channel)))) { bdi { (clip(name, 60)) } " " (clip(version, 40)) } }
            }
            @if !one.detail.is_empty() { p.small dir="auto" { (clip(&one.detail, 300)) } }
            dl.facts.small {
                dt { (words.received) } dd { (one.received) }
                dt { (words.delivered) } dd { (one.delivered) }
                dt { (words.undelivered) } dd { (one.undelivered) }
                dt { (words.refused_messages) } dd { (one.refused) }
                dt { (words.restarts) } dd { (one.restarts) }
                @if !one.connections.is_empty() { dt { (words.connections) } dd { @for name in one.connections.iter().take(8) { code { (clip(name, 60)) } " " } } }
            }
            @if shell.may_admin() {
                form.inline method="post" action=(format!("/channels/{}", encode(&one.channel))) {
                    (shell.back())
                    button type="submit" name="do" value="restart" { (words.restart_channel) }
                    p.said role="alert" {}
                }
            }
        }
    }
}
