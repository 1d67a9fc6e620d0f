//! What agents say, on its way back to people: replies of runs, announcements of jobs, failures. Each finds its place by its record.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use chela_channel::{Outbound, Question};
use chela_flow::Place;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::routing::mentioned;
use super::store::{self, Posted, Reply};
use super::{Ask, Error, Shared, expiry, message, sayings, shown, unasked};
use crate::clock::Timestamp;
use crate::config::{Agent, AgentRole, Locale};
use crate::jobs::{self, Outgoing};
use crate::journal::Transaction;
use crate::session_key::SessionKey;
use crate::sessions::{Ended, Follow, News, Progress, Status};

/// What an agent answers when people are to hear nothing.
const SILENT: [&str; 2] = ["NO_REPLY", "REPLY_SKIP"];
const SAID_CHARS: usize = 500;

/// Ends of runs that are taken up at once, in one transaction.
const AT_ONCE: usize = 64;
/// What found no room is tried again so often.
const AGAIN: Duration = Duration::from_secs(5);
/// Announcements that may wait for their channel; further ones do so on record, and are read again from there.
const WAITING_MAX: usize = 10_000;

/// Follows runs, jobs and questions until `stop`; first what ended before this life of the gateway.
pub(super) async fn follow(shared: Arc<Shared>, of_jobs: Vec<Outgoing>, stop: CancellationToken) {
    let mut news = shared.options.sessions.follow();
    let mut posts = shared.options.jobs.posts();
    let mut questions = shared.options.bus.subscribe("human_query.");
    let clock = shared.options.clock.clone();
    let work = async {
        let mut waiting = Waiting::default();
        for outgoing in of_jobs {
            waiting.announce(&shared, outgoing).await;
        }
        expect_unfinished(&shared).await;
        waiting.replies |= look_at_all(&shared).await;
        waiting.replies |= close_shown(&shared).await;
        loop {
            tokio::select! {
                told = news.next() => {
                    let ready = std::iter::once(told).chain(std::iter::from_fn(|| news.ready())).take(AT_ONCE);
                    let told: Vec<Follow> = ready.collect();
                    if told.iter().any(|told| matches!(told, Follow::Closed)) {
                        return;
                    }
                    waiting.replies |= take_up(&shared, told).await;
                }
                post = posts.recv() => match post {
                    Ok(outgoing) => waiting.hear(&shared, outgoing).await,
                    Err(RecvError::Lagged(missed)) => {
                        tracing::debug!(missed, "announcements are read from the outbox");
                        waiting.left = true;
                    }
                    Err(RecvError::Closed) => return,
                },
                told = questions.next() => match told {
                    Some(_) => waiting.replies |= close_shown(&shared).await,
                    None => return,
                },
                () = shared.look_at_shown.notified() => waiting.replies |= close_shown(&shared).await,
                () = clock.sleep(waiting.rest(clock.elapsed())), if !waiting.is_over() => waiting.again(&shared).await,
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Questions that are over are closed where they are shown; true when replies have to wait. What an answer from elsewhere led to may have
/// been said by now.
async fn close_shown(shared: &Shared) -> bool {
    shown::sweep(shared).await && look_at_all(shared).await
}

/// What found no room in its channel, or no channel.
#[derive(Default)]
struct Waiting {
    replies: bool,
    announcements: Vec<Outgoing>,
    /// Some are on record alone.
    left: bool,
    /// What was read from there lately, and may still be told.
    read: HashSet<String>,
    /// Since when, or since the last try.
    since: Option<Duration>,
}

impl Waiting {
    fn is_over(&self) -> bool {
        !self.replies && !self.left && self.announcements.is_empty()
    }

    /// Until the next try.
    fn rest(&mut self, now: Duration) -> Duration {
        (*self.since.get_or_insert(now) + AGAIN).saturating_sub(now)
    }

    /// A job tells of one. What was on record already when that was read is announced.
    async fn hear(&mut self, shared: &Shared, outgoing: Outgoing) {
        if !self.read.remove(&outgoing.id()) {
            self.announce(shared, outgoing).await;
        }
    }

    async fn announce(&mut self, shared: &Shared, outgoing: Outgoing) {
        if announce(shared, &outgoing).await || expiry::is_over(shared, &outgoing).await {
            return;
        }
        match self.announcements.len() < WAITING_MAX {
            true => self.announcements.push(outgoing),
            false => self.left = true,
        }
    }

    /// Takes up those that are on record alone.
    async fn read_again(&mut self, shared: &Shared) {
        let journal = shared.options.journal.clone();
        let found = match tokio::task::spawn_blocking(move || jobs::outbox_now(&journal)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                return tracing::error!(error = &error as &dyn std::error::Error, "the outbox is not read yet");
            }
            Err(_) => return,
        };
        self.left = false;
        // What was read before may still be told, too; not for ever.
        if self.read.len() > 2 * WAITING_MAX {
            self.read.clear();
        }
        self.read.extend(found.iter().map(Outgoing::id));
        let waiting: HashSet<String> = self.announcements.iter().map(Outgoing::id).collect();
        for outgoing in found.into_iter().filter(|found| !waiting.contains(&found.id())) {
            self.announce(shared, outgoing).await;
        }
    }

    async fn again(&mut self, shared: &Shared) {
        self.since = None;
        self.replies = look_at_all(shared).await;
        for outgoing in std::mem::take(&mut self.announcements) {
            self.announce(shared, outgoing).await;
        }
        // As many as fill it up would only be left again.
        if self.left && self.announcements.len() < WAITING_MAX / 2 {
            self.read_again(shared).await;
        }
    }
}

/// Takes up what happened, ends of runs in one transaction; true when some have to wait.
async fn take_up(shared: &Shared, told: Vec<Follow>) -> bool {
    let (mut ended, mut missed) = (Vec::new(), false);
    for told in told {
        match told {
            Follow::News(News::Started { session, run, by, .. }) => {
                unasked::expect(shared, &session, &run, by).await;
                typing(shared, &run, true);
            }
            Follow::News(News::Ended { run, ended: with, .. }) => {
                typing(shared, &run, false);
                ended.push((run.to_string(), with));
            }
            Follow::News(News::Accepted { .. }) | Follow::Closed => {}
            Follow::Missed => missed = true,
        }
    }
    let waits = ended_with(shared, ended).await;
    if !missed {
        return waits;
    }
    expect_unfinished(shared).await;
    look_at_all(shared).await
}

/// Runs that began while nobody looked.
async fn expect_unfinished(shared: &Shared) {
    for (session, run, by) in shared.options.sessions.unfinished() {
        unasked::expect(shared, &session, &run, by).await;
    }
}

/// Runs that ended while nobody looked; true when some have to wait.
async fn look_at_all(shared: &Shared) -> bool {
    let runs: Vec<String> = shared.state().replies.keys().cloned().collect();
    let (mut over, mut waits) = (Vec::new(), false);
    for run in runs {
        // Asked first: what is to come may have come by the time that its run is looked for.
        let is_to_come = unasked::is_to_come(shared, &run) || shared.is_coming(&run);
        match shared.options.sessions.progress(&run).await {
            Ok(Some(Progress::Ended(ended))) => over.push((run, ended)),
            Ok(Some(_)) => {}
            // A message or an answer that is on its way to its session has no run yet.
            Ok(None) if is_to_come => waits = true,
            // Its result is not kept any more.
            Ok(None) => give_up(shared, &run).await,
            Err(error) => {
                tracing::warn!(run, error = &error as &dyn std::error::Error, "a reply waits");
                waits = true;
            }
        }
    }
    let mut over = over.into_iter().peekable();
    while over.peek().is_some() {
        waits |= ended_with(shared, over.by_ref().take(AT_ONCE).collect()).await;
    }
    waits
}

pub(super) async fn give_up(shared: &Shared, run: &str) {
    shared.state().replies.remove(run);
    let mut transaction = Transaction::default();
    if store::drop_reply(&mut transaction, run).is_ok()
        && let Err(error) = shared.options.journal.commit_async(transaction).await
    {
        tracing::warn!(run, error = &error as &dyn std::error::Error, "a reply is looked for again at the next start");
    }
}

fn typing(shared: &Shared, run: &str, typing: bool) {
    let state = shared.state();
    let Some(Reply { channel, target, only_questions: false, .. }) = state.replies.get(run) else { return };
    if let Some(running) = state.running.get(channel) {
        // A sign that comes late is of no use.
        let _ = running.asks.try_send(Ask::Typing { target: target.clone(), typing });
    }
}

/// What runs said goes to where it was asked, all in one transaction; true when some have to wait.
async fn ended_with(shared: &Shared, ended: Vec<(String, Arc<Ended>)>) -> bool {
    let (mut posts, mut transaction, mut waits) = (Vec::new(), Transaction::default(), false);
    let mut over = Vec::new();
    for (run, ended) in ended {
        let Some(reply) = shared.state().replies.get(&run).cloned() else { continue };
        let asked = match ended.status {
            Status::Ok => question_of(shared, &run, &reply.session).await,
            _ => None,
        };
        let (question, text) = match asked {
            // What else it says is said to another agent.
            Some((question, asked)) if reply.is_foreign() => (Some(question), asked),
            asked => (asked.map(|(question, _)| question), words_of(shared.locale(), &ended)),
        };
        if text.trim().is_empty() || reply.only_questions && question.is_none() {
            give_up(shared, &run).await;
            continue;
        }
        if let Err(error) = shared.room(&reply.channel) {
            unposted(shared, &reply.channel, &error);
            waits = true;
            continue;
        }
        if ended.status == Status::Ok
            && !reply.is_foreign()
            && let Err(error) = route_on(shared, &run, &reply, &text).await
        {
            tracing::warn!(
                channel = reply.channel,
                run,
                error = &error as &dyn std::error::Error,
                "a reply waits, since whom it speaks to cannot hear of it yet"
            );
            waits = true;
            continue;
        }
        if let Err(error) = store::drop_reply(&mut transaction, &run) {
            unposted(shared, &reply.channel, &error.into());
            continue;
        }
        let Reply { channel, target, reply_to, .. } = reply;
        let outbound = Outbound { question, ..message(run.clone(), target, text, reply_to) };
        posts.push(Posted { channel, outbound, at: shared.now() });
        over.push(run);
    }
    if posts.is_empty() {
        return waits;
    }
    let channel = posts[0].channel.clone();
    match shared.post_all(posts, transaction).await {
        Ok(()) => {
            let mut state = shared.state();
            over.iter().for_each(|run| drop(state.replies.remove(run)));
            waits
        }
        Err(error) => {
            unposted(shared, &channel, &error);
            true
        }
    }
}

/// What people hear of a run that has ended; nothing where they are to hear nothing.
fn words_of(locale: Locale, ended: &Ended) -> String {
    match ended.status {
        Status::Ok if SILENT.contains(&ended.reply.trim()) => String::new(),
        Status::Ok => ended.reply.clone(),
        Status::Aborted => String::new(),
        Status::Timeout => sayings::took_too_long(locale).to_owned(),
        Status::Error => {
            let said: String = ended.error.as_deref().unwrap_or("it failed").chars().take(SAID_CHARS).collect();
            sayings::did_not_work(locale, &said)
        }
    }
}

/// What a run asks of people, so that networks that can offer a way to answer it do; and in which words.
async fn question_of(shared: &Shared, run: &str, session: &str) -> Option<(Question, String)> {
    let key = SessionKey::parse(session).ok()?;
    let settings = shared.options.settings.current();
    let asks = |agent: &&Agent| agent.id == key.agent && agent.role == AgentRole::Orchestrator;
    settings.config.agents.list.iter().find(asks)?;
    let id = shared.options.sessions.get(&key)?.id.clone();
    let rows = shared.options.sessions.rows_of_run(&key, &id, run).await.ok()?;
    let parts = rows.iter().rev().filter_map(|row| row["content"].as_array()).flatten();
    let mut asked = parts.filter_map(|part| Some((part["humanQuery"]["id"].as_str()?, part["text"].as_str()?)));
    asked.next().map(|(id, text)| (Question { id: id.to_owned(), choices: Vec::new() }, text.to_owned()))
}

/// Other agents that a reply speaks to hear of it: each by a job, which the same reply begins once. An error is one that passes.
async fn route_on(shared: &Shared, run: &str, reply: &Reply, text: &str) -> Result<(), jobs::Error> {
    let settings = shared.options.settings.current();
    let Ok(from) = SessionKey::parse(&reply.session) else { return Ok(()) };
    for agent in mentioned(&settings.config, text).into_iter().filter(|agent| **agent != from.agent) {
        let cause = shared.options.sessions.cause_of(run).await.ok().flatten();
        let send = jobs::Send {
            from: from.clone(),
            key: Some(format!("{run}:route:{agent}")),
            cause: cause.map(|(chain, part)| jobs::Cause { chain, part }),
            target: SessionKey::main(agent.clone()),
            to_agent: true,
            message: text.to_owned(),
            wait: Duration::ZERO,
            conversation_id: None,
            parent_conversation_id: None,
            work_session_id: None,
        };
        match shared.options.jobs.route(send).await {
            Err(error) if error.is_callers() => {
                let more = serde_json::json!({ "fromAgent": from.agent, "toAgent": agent });
                shared.refuse(&reply.channel, "mention", &error.to_string(), more);
            }
            begun => drop(begun?),
        }
    }
    Ok(())
}

/// What a job tells people; false when it has to wait for its channel, or for room there.
async fn announce(shared: &Shared, outgoing: &Outgoing) -> bool {
    let (channel, target) = (outgoing.to.channel.clone(), target_of(&outgoing.to));
    if !is_known(shared, &channel) {
        tracing::debug!(channel, "an announcement waits for its channel");
        return false;
    }
    let mut transaction = Transaction::default();
    let outbound = message(format!("job:{}", outgoing.id()), target, outgoing.text.clone(), String::new());
    let posted = match outgoing.take_out(&mut transaction) {
        // Of the job's own time: what is too old is not told any more when a channel comes back.
        Ok(()) => {
            let posted = Posted { channel: channel.clone(), outbound, at: Timestamp(outgoing.at) };
            shared.post(posted, transaction).await
        }
        Err(error) => Err(error.into()),
    };
    posted.inspect_err(|error| unposted(shared, &channel, error)).is_ok()
}

/// A place as adapters know it.
pub(super) fn target_of(place: &Place) -> String {
    match &place.thread {
        Some(thread) => format!("{}:thread:{thread}", place.place),
        None => place.place.clone(),
    }
}

pub(super) fn is_known(shared: &Shared, channel: &str) -> bool {
    shared.options.plugins.channels().iter().any(|(name, _)| name == channel)
}

fn unposted(shared: &Shared, channel: &str, error: &Error) {
    shared.refuse(channel, "delivery", &error.to_string(), serde_json::json!({}));
}
