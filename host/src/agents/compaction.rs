//! What was said before, summed up: when it fills most of the window, or when somebody asks for it. The summary is a row of the
//! transcript, for all to see, and nothing is taken out of that.

use chela_model::{Answer, Failure, Request, Stop, Turn as Said, estimate_tokens};

use super::drive::{Failed, Finished, Run};
use super::prompt;
use crate::config::Agent;
use crate::models::{Asker, Chosen, Heard};
use crate::sessions::{self, Step, Told, Turn};

/// From this share of the window on, what was said before is summed up.
const COMPACT_PERCENT: u64 = 75;
const SUMMARY_TOKENS: u32 = 1_024;
const SUMMARY_ASKED: &str = "Summarise this conversation for yourself, so that you can go on without it: what was asked, decided and done, \
     names, paths and numbers that matter, and what is still open. At most 500 words, no greeting.";
const NOTHING: &str = "There is nothing to sum up.";

impl Run<'_> {
    /// Sums up what was said before, once it fills most of the window.
    pub(super) async fn compact_if_full(
        &mut self,
        agent: &Agent,
        turn: &mut Turn,
        model: &Chosen,
        room: u64,
    ) -> Result<(), Failed> {
        let handle = &self.shared.options.sessions;
        // The last prompt was weighed: only near the brim is it worth a look.
        let before = handle.get(turn.session()).map_or(0, |session| session.weight);
        let own = estimate_tokens(&turn.message().text) as u64;
        if (before + own) * 100 < room * COMPACT_PERCENT / 2 {
            return Ok(());
        }
        let rows = handle.context(turn.session(), room.saturating_mul(2)).await?;
        if (sessions::weight(&rows) + own) * 100 < room * COMPACT_PERCENT {
            return Ok(());
        }
        let count = rows.len() as u64;
        match self.summary(agent, turn, model, room, &rows).await {
            None => {}
            // The oldest exchanges are left out instead.
            Some(Err(failure)) => tracing::warn!(agent = %agent.id, %failure, "a conversation could not be summed up"),
            Some(Ok(answer)) => {
                self.sum.count(&answer);
                self.sum.answers -= 1;
                let at = self.shared.options.clock.now();
                turn.record_unshown(vec![Step::Compacted { summary: answer.text, rows: count, at }]).await?;
            }
        }
        Ok(())
    }

    /// A run that does nothing else: the summary is on record with its end, and what asked for it is in no prompt.
    pub(super) async fn compact(
        &mut self,
        agent: &Agent,
        turn: &Turn,
        model: &Chosen,
        room: u64,
    ) -> Result<Finished, Failed> {
        let rows = self.shared.options.sessions.context(turn.session(), room.saturating_mul(2)).await?;
        let said = rows.iter().filter(|row| row.is_of_somebody()).count();
        let nothing = || Finished { steps: Vec::new(), reply: NOTHING.into(), stop: Stop::End };
        if said == 0 {
            return Ok(nothing());
        }
        self.sum.provider.clone_from(&model.provider_name);
        self.sum.model.clone_from(&model.model.id);
        let count = rows.len() as u64;
        let Some(answer) = self.summary(agent, turn, model, room, &rows).await else { return Ok(nothing()) };
        let answer = answer?;
        self.sum.count(&answer);
        // The next prompt begins with this and nothing else.
        self.sum.weight = (estimate_tokens(&answer.text) as u64).max(1);
        self.sum.context_tokens = self.sum.weight;
        let at = self.shared.options.clock.now();
        let reply = format!("{said} messages are summed up.");
        let summed = Step::Compacted { summary: answer.text, rows: count, at };
        Ok(Finished { steps: vec![summed], reply, stop: Stop::End })
    }

    /// The summary of these rows; none where not even the last exchange fits.
    async fn summary(
        &self,
        agent: &Agent,
        turn: &Turn,
        model: &Chosen,
        room: u64,
        rows: &[Told],
    ) -> Option<Result<Answer, Failure>> {
        let talk = sessions::fit(rows, room.saturating_sub(u64::from(SUMMARY_TOKENS)))?;
        // As text: a provider refuses calls of tools where there are none.
        let text = format!("{}\n\n{SUMMARY_ASKED}", prompt::as_text(&talk));
        let request = Request {
            model: model.model.id.clone(),
            system: String::new(),
            turns: vec![Said::User { text }],
            tools: Vec::new(),
            max_tokens: SUMMARY_TOKENS,
        };
        let question = format!("{}:summary", turn.id());
        let asker = Asker { agent: agent.id.as_ref(), key: &question };
        Some(self.shared.options.models.ask(model, asker, &request, &mut |_: Heard| {}).await)
    }
}
