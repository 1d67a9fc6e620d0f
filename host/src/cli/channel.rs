//! `chela channel`: how the chat networks of a serving gateway are.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::output::{plain, table, word};
use super::{Output, ask, block_on};
use crate::layout::StateDir;

#[derive(Subcommand)]
pub(super) enum Channel {
    /// List channels and how each is
    List,
    /// Show one channel
    Status(One),
    /// Begin a channel anew; messages that wait are kept
    Restart(One),
    /// Print what a channel's adapter has logged
    Logs(Logs),
}

#[derive(Args)]
pub(super) struct One {
    /// The channel's name
    name: String,
}

#[derive(Args)]
pub(super) struct Logs {
    /// The channel's name
    name: String,
    /// How many of the newest lines
    #[arg(long, short = 'n', default_value_t = 100)]
    lines: usize,
}

impl Channel {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let gateway = ask::gateway(dir)?;
        let call =
            |method: &str, params: Value| -> anyhow::Result<Value> { Ok(block_on(gateway.call(method, params))??) };
        match self {
            Self::List => {
                let answer = call("channel.list", json!({}))?;
                output.show(&answer, || list_in_words(&answer));
            }
            Self::Status(One { name }) => {
                let answer = call("channel.list", json!({}))?;
                let found = answer["channels"].as_array().into_iter().flatten().find(|view| view["channel"] == **name);
                let found = found.ok_or_else(|| {
                    anyhow::anyhow!("there is no channel {name:?}; `chela channel list` shows those there are")
                })?;
                output.show(found, || one_in_words(found));
            }
            Self::Restart(One { name }) => {
                let answer = call("channel.restart", json!({ "channel": name }))?;
                output.show(&answer, || format!("{name} begins anew; `chela channel status {name}` shows how it goes"));
            }
            Self::Logs(Logs { name, lines }) => {
                let answer = call("plugin.logs", json!({ "slot": format!("channel:{name}"), "lines": lines }))?;
                output.show(&answer, || logs_in_words(&answer));
            }
        }
        Ok(())
    }
}

fn list_in_words(answer: &Value) -> String {
    let views = answer["channels"].as_array().map_or(&[][..], Vec::as_slice);
    if views.is_empty() {
        return "there are no channels; `channels` in the configuration binds one, or `chela plugin load FILE --slot channel:NAME`".into();
    }
    let head =
        ["CHANNEL", "STATUS", "PLUGIN", "RECEIVED", "DELIVERED", "WAITING", "DETAIL"].map(str::to_owned).to_vec();
    let row = |view: &Value| {
        let number = |key: &str| view[key].to_string();
        vec![
            word(&view["channel"]),
            word(&view["status"]),
            view["plugin"]["name"].as_str().map_or_else(|| "-".into(), str::to_owned),
            number("received"),
            number("delivered"),
            number("undelivered"),
            plain(view["detail"].as_str().unwrap_or_default()),
        ]
    };
    table(&std::iter::once(head).chain(views.iter().map(row)).collect::<Vec<_>>())
}

fn one_in_words(view: &Value) -> String {
    let mut lines = vec![format!("{}: {}", word(&view["channel"]), word(&view["status"]))];
    if let Some(detail) = view["detail"].as_str().filter(|detail| !detail.is_empty()) {
        lines.push(plain(detail));
    }
    if let Some(name) = view["plugin"]["name"].as_str() {
        lines.push(format!("adapter: {name} {}", word(&view["plugin"]["version"])));
    }
    let open: Vec<String> = view["connections"].as_array().into_iter().flatten().map(word).collect();
    lines.push(format!("connections: {}", if open.is_empty() { "none".into() } else { open.join(", ") }));
    let counts = ["received", "delivered", "refused", "undelivered", "restarts"];
    lines.extend(counts.map(|name| format!("{name}: {}", view[name])));
    lines.join("\n")
}

fn logs_in_words(answer: &Value) -> String {
    let line = |line: &Value| format!("{} {}", word(&line["level"]), plain(line["text"].as_str().unwrap_or_default()));
    answer["lines"].as_array().into_iter().flatten().map(line).collect::<Vec<_>>().join("\n")
}
