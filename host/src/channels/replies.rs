//! What agents say, on its way back to people: replies of runs, announcements of jobs, failures. Each finds its place by its record.

use std::sync::Arc;
use std::time::Duration;

use chela_channel::{Outbound, Question};
use chela_flow::Place;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::routing::mentioned;
use super::store::{self, Posted, Reply};
use super::{Ask, Error, Shared, message};
use crate::config::{Agent, AgentRole};
use crate::jobs::{self, Outgoing};
use crate::journal::Transaction;
use crate::session_key::SessionKey;
use crate::sessions::{Ended, Follow, News, Progress, Status};

/// What an agent answers when people are to hear nothing.
const SILENT: [&str; 2] = ["NO_REPLY", "REPLY_SKIP"];
const SAID_CHARS: usize = 500;

/// Follows runs and jobs until `stop`; first what ended before this life of the gateway.
pub(super) async fn follow(shared: Arc<Shared>, of_jobs: Vec<Outgoing>, stop: CancellationToken) {
    let mut news = shared.options.sessions.follow();
    let mut posts = shared.options.jobs.posts();
    let work = async {
        for outgoing in of_jobs {
            announce(&shared, outgoing).await;
        }
        look_at_all(&shared).await;
        loop {
            tokio::select! {
                told = news.next() => match told {
                    Follow::News(News::Started { run, .. }) => typing(&shared, &run, true).await,
                    Follow::News(News::Ended { run, ended, .. }) => {
                        typing(&shared, &run, false).await;
                        ended_with(&shared, &run, &ended).await;
                    }
                    Follow::News(News::Accepted { .. }) => {}
                    Follow::Missed => look_at_all(&shared).await,
                    Follow::Closed => return,
                },
                post = posts.recv() => match post {
                    Ok(outgoing) => announce(&shared, outgoing).await,
                    Err(RecvError::Lagged(missed)) => {
                        tracing::warn!(missed, "announcements wait in the outbox until the next start");
                    }
                    Err(RecvError::Closed) => return,
                },
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

/// Runs that ended while nobody looked.
async fn look_at_all(shared: &Shared) {
    let runs: Vec<String> = shared.state().replies.keys().cloned().collect();
    for run in runs {
        match shared.options.sessions.progress(&run).await {
            Ok(Some(Progress::Ended(ended))) => ended_with(shared, &run, &ended).await,
            Ok(Some(_)) => {}
            // Its result is not kept any more.
            Ok(None) => give_up(shared, &run).await,
            Err(error) => tracing::warn!(run, error = &error as &dyn std::error::Error, "a reply waits"),
        }
    }
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

async fn typing(shared: &Shared, run: &str, typing: bool) {
    let state = shared.state();
    let Some(Reply { channel, target, .. }) = state.replies.get(run).cloned() else { return };
    let running = state.running.get(&channel).cloned();
    drop(state);
    if let Some(running) = running {
        // A sign that comes late is of no use.
        let _ = running.asks.try_send(Ask::Typing { target, typing });
    }
}

/// What a run said goes to where it was asked.
async fn ended_with(shared: &Shared, run: &str, ended: &Ended) {
    let Some(reply) = shared.state().replies.get(run).cloned() else { return };
    let text = match ended.status {
        Status::Ok if SILENT.contains(&ended.reply.trim()) => String::new(),
        Status::Ok => ended.reply.clone(),
        Status::Aborted => String::new(),
        Status::Timeout => "This took too long and was ended.".to_owned(),
        Status::Error => {
            let said: String = ended.error.as_deref().unwrap_or("it failed").chars().take(SAID_CHARS).collect();
            format!("This did not work: {said}")
        }
    };
    if text.trim().is_empty() {
        give_up(shared, run).await;
        return;
    }
    if ended.status == Status::Ok {
        route_on(shared, run, &reply, &text).await;
    }
    let Reply { channel, target, reply_to, session, .. } = reply;
    let mut transaction = Transaction::default();
    let question = question_of(shared, run, &session).await;
    let outbound = Outbound { question, ..message(run.to_owned(), target, text, reply_to) };
    let posted = match store::drop_reply(&mut transaction, run) {
        Ok(()) => shared.post(Posted { channel: channel.clone(), outbound, at: shared.now() }, transaction).await,
        Err(error) => Err(error.into()),
    };
    match posted {
        Ok(()) => drop(shared.state().replies.remove(run)),
        Err(error) => unposted(shared, &channel, &error),
    }
}

/// What a run asks of people, so that networks that can offer a way to answer it do.
async fn question_of(shared: &Shared, run: &str, session: &str) -> Option<Question> {
    let key = SessionKey::parse(session).ok()?;
    let settings = shared.options.settings.current();
    let asks = |agent: &&Agent| agent.id == key.agent && agent.role == AgentRole::Orchestrator;
    settings.config.agents.list.iter().find(asks)?;
    let id = shared.options.sessions.get(&key)?.id.clone();
    let rows = shared.options.sessions.rows_of_run(&key, &id, run).await.ok()?;
    let parts = rows.iter().rev().filter_map(|row| row["content"].as_array()).flatten();
    let mut asked = parts.filter_map(|part| part["humanQuery"]["id"].as_str());
    asked.next().map(|id| Question { id: id.to_owned(), choices: Vec::new() })
}

/// Other agents that a reply speaks to hear of it: each by a job, which the same reply begins once.
async fn route_on(shared: &Shared, run: &str, reply: &Reply, text: &str) {
    let settings = shared.options.settings.current();
    let Ok(from) = SessionKey::parse(&reply.session) else { return };
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
        if let Err(error) = shared.options.jobs.route(send).await {
            let more = serde_json::json!({ "fromAgent": from.agent, "toAgent": agent });
            shared.refuse(&reply.channel, "mention", &error.to_string(), more);
        }
    }
}

/// What a job tells people.
async fn announce(shared: &Shared, outgoing: Outgoing) {
    let Place { channel, place, thread } = outgoing.to.clone();
    let target = match thread {
        Some(thread) => format!("{place}:thread:{thread}"),
        None => place,
    };
    let known = shared.options.plugins.channels().iter().any(|(name, _)| *name == channel);
    if !known {
        // It waits in the outbox until there is such a channel.
        tracing::debug!(channel, "an announcement waits for its channel");
        return;
    }
    let mut transaction = Transaction::default();
    let outbound = message(format!("job:{}", outgoing.id()), target, outgoing.text.clone(), String::new());
    let posted = match outgoing.take_out(&mut transaction) {
        Ok(()) => shared.post(Posted { channel: channel.clone(), outbound, at: shared.now() }, transaction).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = posted {
        unposted(shared, &channel, &error);
    }
}

fn unposted(shared: &Shared, channel: &str, error: &Error) {
    shared.refuse(channel, "delivery", &error.to_string(), serde_json::json!({}));
}
