//! Messages that more is to be done about than to hand them to an agent: answers to questions, and commands. On record until it is done.

use std::sync::Arc;
use std::time::Duration;

use chela_channel::{Command, Wants};
use chela_question::Chat;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::commit::{asked_of, reply_of};
use super::routing::{Routed, named, route};
use super::store::{self, Posted, Taken};
use super::{Error, Shared, message, sayings};
use crate::humans::{self, Given, Which};
use crate::id::AgentId;
use crate::journal::Transaction;
use crate::sessions;
use crate::tasks;

/// Messages that may wait here.
pub(super) const TAKEN_MAX: usize = 1_024;
const AGAIN: Duration = Duration::from_secs(1);
const SHOWN: usize = 20;
const SHOWN_CHARS: usize = 200;

/// Takes them up, one after the other, until `stop`. What is left is found at the next start.
pub(super) async fn take_up(
    shared: Arc<Shared>,
    found: Vec<Taken>,
    mut inbox: mpsc::Receiver<Taken>,
    stop: CancellationToken,
) {
    let work = async {
        for taken in found {
            until_done(&shared, &taken).await;
        }
        while let Some(taken) = inbox.recv().await {
            until_done(&shared, &taken).await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

async fn until_done(shared: &Shared, taken: &Taken) {
    while let Err(error) = take(shared, taken).await {
        if error.is_callers() {
            shared.refuse(
                &taken.channel,
                "message",
                &error.to_string(),
                serde_json::json!({ "messageId": taken.message.id }),
            );
            forget(shared, taken).await;
            return;
        }
        tracing::error!(
            channel = taken.channel,
            error = &error as &dyn std::error::Error,
            "a message is not taken up yet"
        );
        shared.options.clock.sleep(AGAIN).await;
    }
}

async fn forget(shared: &Shared, taken: &Taken) {
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
    let settings = shared.options.settings.current();
    let Ok(routed) = route(&settings.config, &taken.channel, &taken.message) else {
        forget(shared, taken).await;
        return Ok(());
    };
    match &taken.message.wants {
        Wants::Command(command) => answer_command(shared, taken, command, &routed).await,
        Wants::Answer(id) => answer(shared, taken, routed, Some(id).filter(|id| !id.is_empty())).await,
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
    shared.state().replies.insert(reply.run.clone(), reply.clone());
    if let Some(id) = id {
        let chat = Chat { key: asked.key.clone(), session_key: session.clone() };
        let given = Given { text, by: taken.message.sender_name.clone(), via: "channel", chat: Some(chat) };
        match shared.options.humans.answer(&Which { id: Some(id), ..Which::default() }, given).await {
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
            let open = shared.options.humans.open_in(&routed.session);
            let lines: Vec<String> =
                open.iter().take(SHOWN).map(|one| format!("- {}: {}", one.id, clip(&one.question))).collect();
            if lines.is_empty() { sayings::no_question(locale).to_owned() } else { lines.join("\n") }
        }
        _ => sayings::no_command(locale).to_owned(),
    };
    let reply = reply_of(&taken.channel, &taken.message, routed);
    finish(shared, taken, message(reply.run, reply.target, text, reply.reply_to)).await
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
    shared.post(Posted { channel: taken.channel.clone(), outbound, at: shared.now() }, transaction).await
}

fn clip(text: &str) -> String {
    text.chars().take(SHOWN_CHARS).collect()
}
