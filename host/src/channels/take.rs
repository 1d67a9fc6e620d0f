//! Messages that more is to be done about than to hand them to an agent: answers to questions, and commands. On record until it is done.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chela_channel::{Command, Wants};
use chela_question::{Chat, Question};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::actor::sleep;
use super::commit::{asked_of, reply_of};
use super::queue::Queue;
use super::routing::{Routed, named, route};
use super::store::{self, Posted, Taken};
use super::{Error, Shared, message, sayings};
use crate::humans::{self, Given, Which};
use crate::id::AgentId;
use crate::journal::{self, Transaction};
use crate::sessions;
use crate::tasks;

/// Messages of one channel that may wait here, and of all on their way here.
pub(super) const TAKEN_MAX: usize = 1_024;
const AGAIN: Duration = Duration::from_secs(1);
/// Between two looks at what found no room.
const READ_AGAIN: Duration = Duration::from_secs(5);
const SHOWN: usize = 20;
const SHOWN_CHARS: usize = 200;

/// Takes them up, one after the other, until `stop`. What found no room is read again from the journal; what is left is found at the next
/// start.
pub(super) async fn take_up(
    shared: Arc<Shared>,
    found: Vec<Taken>,
    mut inbox: mpsc::Receiver<Taken>,
    stop: CancellationToken,
) {
    let work = async {
        let (mut queue, clock) = (Queue::default(), shared.options.clock.clone());
        let (mut read_at, mut read) = (clock.elapsed(), HashSet::new());
        put_all(&shared, &mut queue, found);
        loop {
            while let Ok(taken) = inbox.try_recv() {
                hear(&shared, &mut queue, &mut read, taken);
            }
            let now = clock.elapsed();
            if shared.left_taken.load(Ordering::Relaxed) && now >= read_at + READ_AGAIN {
                read_at = now;
                read = read_again(&shared, &mut queue).await;
            }
            if let Some(taken) = queue.next(now) {
                if !is_done(&shared, &taken).await {
                    queue.put_back(taken, clock.elapsed() + AGAIN);
                }
                continue;
            }
            let left = shared.left_taken.load(Ordering::Relaxed).then(|| (read_at + READ_AGAIN).saturating_sub(now));
            let rest = queue.rest(now).into_iter().chain(left).min();
            tokio::select! {
                taken = inbox.recv() => match taken {
                    Some(taken) => hear(&shared, &mut queue, &mut read, taken),
                    None => return,
                },
                () = sleep(&clock, rest) => {}
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

fn put_all(shared: &Shared, queue: &mut Queue, all: impl IntoIterator<Item = Taken>) {
    for taken in all {
        if !queue.push(taken) {
            shared.left_taken.store(true, Ordering::Relaxed);
        }
    }
}

/// One comes from its channel. What was on record already when that was read has been taken up from there.
fn hear(shared: &Shared, queue: &mut Queue, read: &mut HashSet<String>, taken: Taken) {
    if !read.remove(&taken.key()) {
        put_all(shared, queue, [taken]);
    }
}

/// Reads what is on record; gives the names of it.
async fn read_again(shared: &Shared, queue: &mut Queue) -> HashSet<String> {
    let journal = shared.options.journal.clone();
    // Before it is read: whatever finds no room from now on may not be in it.
    shared.left_taken.store(false, Ordering::Relaxed);
    match tokio::task::spawn_blocking(move || store::inbox_now(&journal)).await {
        Ok(Ok(found)) => {
            let read = found.iter().map(Taken::key).collect();
            put_all(shared, queue, found);
            read
        }
        failed => {
            if let Ok(Err(error)) = failed {
                tracing::error!(error = &error as &dyn std::error::Error, "messages on record are not read yet");
            }
            shared.left_taken.store(true, Ordering::Relaxed);
            HashSet::new()
        }
    }
}

/// Whether that is all that can be done about one; else it is tried again.
async fn is_done(shared: &Shared, taken: &Taken) -> bool {
    let Err(error) = take(shared, taken).await else { return true };
    if error.is_callers() || matches!(error, Error::Journal(journal::Error::Refused { .. })) {
        let more = serde_json::json!({ "messageId": taken.message.id });
        shared.refuse(&taken.channel, "message", &error.to_string(), more);
        forget(shared, taken).await;
        return true;
    }
    tracing::error!(channel = taken.channel, error = &error as &dyn std::error::Error, "a message is not taken up yet");
    // It is tried again: until then nobody gives its reply up.
    shared.state().coming.insert(taken.key());
    false
}

async fn forget(shared: &Shared, taken: &Taken) {
    shared.state().coming.remove(&taken.key());
    let mut transaction = Transaction::default();
    let dropped = store::drop_taken(&mut transaction, taken);
    let done = match dropped {
        Ok(()) => shared.options.journal.commit_async(transaction).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = done {
        tracing::warn!(error = &error as &dyn std::error::Error, "a message is taken up once more after a restart");
    }
}

async fn take(shared: &Shared, taken: &Taken) -> Result<(), Error> {
    if shared.options.sessions.session_of_run(&taken.key()).is_some() {
        // Its run is there since an earlier life, and so is what becomes of it.
        forget(shared, taken).await;
        return Ok(());
    }
    let settings = shared.options.settings.current();
    let Ok(routed) = route(&settings.config, &taken.channel, &taken.message) else {
        forget(shared, taken).await;
        return Ok(());
    };
    match &taken.message.wants {
        Wants::Command(command) => answer_command(shared, taken, command, &routed).await,
        Wants::Answer(id) if id.is_empty() => {
            // The only one that is open there, whoever asked it.
            let open = open_at(shared, taken, &routed);
            let only = <[Arc<Question>; 1]>::try_from(open).ok().map(|[question]| question.id.clone());
            answer(shared, taken, routed, only.as_ref()).await
        }
        Wants::Answer(id) => answer(shared, taken, routed, Some(id)).await,
        Wants::Message => answer(shared, taken, routed, None).await,
    }
}

/// An answer to the named question, or to the one that is open where it was said; else a message like any other.
async fn answer(shared: &Shared, taken: &Taken, routed: Routed, named: Option<&String>) -> Result<(), Error> {
    let open = shared.options.humans.open_in(&routed.session);
    let id = match (named, open.as_slice()) {
        (Some(id), _) => Some(id.clone()),
        (None, [one]) => Some(one.id.clone()),
        (None, _) => None,
    };
    let reply = reply_of(&taken.channel, &taken.message, &routed);
    let (session, text) = (routed.session.to_string(), routed.text.clone());
    let mut asked = asked_of(&taken.channel, &taken.message, routed);
    if id.is_none() && open.len() > 1 {
        let lines: Vec<String> =
            open.iter().map(|question| format!("{}: {}", question.id, clip(&question.question))).collect();
        let several = format!("; not an answer: {} of your questions are open:\n{}", open.len(), lines.join("\n"));
        asked.origin.note = asked.origin.note.map(|note| note + &several);
    }
    // Before its run can end: the reply is to find its way.
    let mut transaction = Transaction::default();
    store::put_reply(&mut transaction, &reply)?;
    shared.options.journal.commit_async(transaction).await?;
    let _expected = shared.expect([reply.clone()]);
    if let Some(id) = id {
        let chat = Chat { key: asked.key.clone(), session_key: session.clone() };
        let given = Given { text, by: taken.message.sender_name.clone(), via: "channel", chat: Some(chat) };
        let answered = shared.options.humans.answer(&Which { id: Some(id.clone()), ..Which::default() }, given).await;
        // Taken before, in an earlier life or try: it is the answer that it was.
        let is_this = |question: &Question| {
            let chat = question.answer.as_ref().and_then(|answer| answer.chat.as_ref());
            chat.is_some_and(|chat| chat.key == asked.key)
        };
        let answered = match answered {
            Err(error) if error.is_callers() => {
                shared.options.humans.get(&id).ok().filter(|question| is_this(question)).ok_or(error)
            }
            answered => answered,
        };
        match answered {
            // Asked elsewhere: there it goes on, and here it is only said that it was heard.
            Ok(question) if !question.askers().contains(&&*session) => {
                super::replies::give_up(shared, &reply.run).await;
                let passed_on = sayings::passed_on(shared.locale()).to_owned();
                let heard = message(reply.run, reply.target, passed_on, reply.reply_to);
                return finish(shared, taken, heard).await;
            }
            // It says nothing or too much, or somebody was quicker: a message like any other.
            Ok(_) => {}
            Err(error) if error.is_callers() => {}
            Err(humans::Error::Stopping) => return Err(Error::Stopping),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "an answer was not taken");
                return Err(Error::Stopping);
            }
        }
    }
    let mut transaction = Transaction::default();
    store::drop_taken(&mut transaction, taken)?;
    match shared.options.sessions.accept_with(std::slice::from_ref(&asked), transaction).await {
        Ok(_) => Ok(()),
        Err(sessions::Error::Journal(error)) => Err(error.into()),
        Err(sessions::Error::Stopping) => Err(Error::Stopping),
        Err(error) => {
            super::replies::give_up(shared, &reply.run).await;
            let refusal = message(format!("{}:refused", reply.run), reply.target, error.to_string(), reply.reply_to);
            finish(shared, taken, refusal).await
        }
    }
}

async fn answer_command(shared: &Shared, taken: &Taken, command: &Command, routed: &Routed) -> Result<(), Error> {
    let locale = shared.locale();
    let text = match command.name.as_str() {
        "tasks" => tasks_of(shared, command, &routed.session.agent),
        "questions" => {
            let open = open_at(shared, taken, routed);
            let lines: Vec<String> =
                open.iter().take(SHOWN).map(|one| format!("- {}: {}", one.id, clip(&one.question))).collect();
            if lines.is_empty() { sayings::no_question(locale).to_owned() } else { lines.join("\n") }
        }
        _ => sayings::no_command(locale).to_owned(),
    };
    let reply = reply_of(&taken.channel, &taken.message, routed);
    finish(shared, taken, message(reply.run, reply.target, text, reply.reply_to)).await
}

/// Questions that are open where something was said: those of its session, and those that are shown there.
fn open_at(shared: &Shared, taken: &Taken, routed: &Routed) -> Vec<Arc<Question>> {
    let mut open = shared.options.humans.open_in(&routed.session);
    let shown: BTreeSet<String> = {
        let state = shared.state();
        let here = state.shown.values().filter(|shown| shown.is_at(&taken.channel, &taken.message.target));
        here.map(|shown| shown.question.clone()).collect()
    };
    let shown = shown.into_iter().filter(|id| open.iter().all(|known| known.id != *id)).collect::<Vec<_>>();
    let shown = shown.iter().filter_map(|id| shared.options.humans.get(id).ok());
    open.extend(shown.filter(|question| question.is_open()));
    open
}

/// The open tasks of the agent that the command names, else of the one who hears what is said there.
fn tasks_of(shared: &Shared, command: &Command, hearer: &AgentId) -> String {
    let settings = shared.options.settings.current();
    let (config, locale) = (&settings.config, settings.config.deployment.locale);
    let asked = command.arguments.iter().find(|(name, _)| name == "agent").map(|(_, agent)| agent.trim());
    let asked = asked.map(|asked| asked.trim_start_matches('@')).filter(|asked| !asked.is_empty());
    let agent = match asked {
        None => hearer,
        Some(asked) => match named(config, asked) {
            Some(agent) => &agent.id,
            None => {
                let agents: Vec<&str> = config.agents.list.iter().take(SHOWN).map(|agent| agent.id.as_ref()).collect();
                return sayings::no_agent(locale, &clip(asked), &agents);
            }
        },
    };
    let views = shared.options.tasks.of(agent).unwrap_or_default();
    let line = |view: &Arc<tasks::View>| format!("- {} ({})", clip(&view.task.description), view.task.status);
    let lines: Vec<String> = views.iter().take(SHOWN).map(line).collect();
    if lines.is_empty() { sayings::no_task(locale, agent.as_ref()) } else { lines.join("\n") }
}

/// Says what came of it; then it is done.
async fn finish(shared: &Shared, taken: &Taken, outbound: chela_channel::Outbound) -> Result<(), Error> {
    let mut transaction = Transaction::default();
    store::drop_taken(&mut transaction, taken)?;
    shared.post(Posted { channel: taken.channel.clone(), outbound, at: shared.now() }, transaction).await?;
    shared.state().coming.remove(&taken.key());
    Ok(())
}

fn clip(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}
