//! Events as they come: the newest few, then everything, over one connection after another.
//! Keeps true: no event is shown twice and none is left out while the log is the same one; it ends only by Ctrl-C or with its reader.

use std::time::Duration;

use serde_json::Value;

use super::line::Layout;
use super::{BEFORE_FOLLOWING, Events};
use crate::cli::Output;
use crate::cli::ask::{self, Query};
use crate::client::{Client, Heard};
use crate::layout::StateDir;

/// Rows of one request for all that was.
const PAGE: u32 = 500;
/// Between two tries to connect, at first and at last.
const RETRY: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);

pub(super) async fn run(asked: &Events, dir: &StateDir, output: Output) -> anyhow::Result<()> {
    let mut follower = Follower { asked, dir, output, layout: Layout::of_terminal(), place: 0, shown: 0 };
    tokio::select! {
        ended = follower.run() => ended,
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

struct Follower<'a> {
    asked: &'a Events,
    dir: &'a StateDir,
    output: Output,
    layout: Layout,
    /// Everything up to here was told.
    place: i64,
    /// Everything up to here that was asked for was shown.
    shown: i64,
}

/// Why a connection is over.
enum End {
    Broken(String),
    /// Nobody reads what is shown.
    Unread,
}

impl Follower<'_> {
    async fn run(&mut self) -> anyhow::Result<()> {
        let mut client = ask::monitor(self.dir)?;
        self.place = head(&client).await?;
        if !self.show_what_was(&client).await? {
            return Ok(());
        }
        loop {
            let said = match self.follow(&client).await {
                End::Unread => return Ok(()),
                End::Broken(said) => said,
            };
            Output::note(&format!("chela: {said}; connecting again"));
            client = self.connect_again().await;
        }
    }

    /// What there is already: the newest few, or all since a time.
    async fn show_what_was(&mut self, client: &Client) -> anyhow::Result<bool> {
        let limit = match self.asked.since {
            Some(_) => PAGE,
            None => self.asked.limit.unwrap_or(BEFORE_FOLLOWING),
        };
        let ask = |query: Query| async move { query.with("limit", "--limit", Some(limit)).get(client).await };
        let mut page = ask(self.asked.query()).await?;
        if !self.output.json && !self.output.lines(&[], |_| self.layout.head()) {
            return Ok(false);
        }
        loop {
            if !self.show(&self.asked.in_order(&page)) {
                return Ok(false);
            }
            let next = page["nextCursor"].as_str().filter(|_| self.asked.since.is_some());
            let Some(cursor) = next else { return Ok(true) };
            page = ask(self.asked.query_since(Some(cursor))).await?;
        }
    }

    async fn follow(&mut self, client: &Client) -> End {
        let mut following = match client.follow(Some(self.place)).await {
            Ok(following) => following,
            Err(error) => return End::Broken(error.to_string()),
        };
        loop {
            let envelope = match following.next().await {
                Ok(Heard::Envelope(envelope)) => envelope,
                Ok(Heard::End(said)) => return End::Broken(said),
                Err(error) => return End::Broken(error.to_string()),
            };
            // What an event means to others comes beside it, under other names.
            if envelope["type"] != "event" {
                continue;
            }
            let event = &envelope["data"];
            self.place = envelope["seq"].as_i64().unwrap_or(self.place);
            if self.place > self.shown && self.asked.takes(event) && !self.show(std::slice::from_ref(event)) {
                return End::Unread;
            }
        }
    }

    /// Waits for a gateway, however long it takes; it may be at another address by now.
    async fn connect_again(&mut self) -> Client {
        let mut wait = RETRY;
        let mut told = String::new();
        loop {
            tokio::time::sleep(wait).await;
            let found = match ask::monitor(self.dir) {
                Ok(client) => head(&client).await.map(|head| (client, head)),
                Err(error) => Err(error),
            };
            match found {
                Ok((client, head)) => {
                    if head < self.place {
                        Output::note("chela: the event log is another one now; its newest events come next");
                        (self.place, self.shown) = (head, 0);
                    } else {
                        Output::note("chela: connected again");
                    }
                    return client;
                }
                Err(error) => {
                    let said = error.to_string();
                    if said != told {
                        Output::note(&format!("chela: {said}; waiting for it"));
                        told = said;
                    }
                }
            }
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    fn show(&mut self, events: &[Value]) -> bool {
        let newest = events.iter().filter_map(|event| event["seq"].as_i64()).max();
        self.shown = self.shown.max(newest.unwrap_or(0));
        self.output.lines(events, |events| self.layout.lines(events))
    }
}

/// The place of the newest event of all; 0 before the first.
async fn head(client: &Client) -> anyhow::Result<i64> {
    let page = Query::new("/api/events").with("limit", "--limit", Some(1)).get(client).await?;
    Ok(page["events"][0]["seq"].as_i64().unwrap_or(0))
}
