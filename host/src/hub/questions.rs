//! Questions as people see them: who asks, which task waits, and what came before.

use std::sync::Arc;

use chela_page::caps::QUESTIONS;
use chela_page::{QuestionCard, QuestionState, Questions, title_of};
use chela_question::{Question, State};

use super::{Error, Handle, face};
use crate::config::Config;
use crate::humans::Asked;

/// Open questions that are counted; more are "99+".
const COUNTED: usize = 100;

impl Handle {
    /// How many questions wait, as far as a badge can tell.
    pub async fn open_questions(&self) -> usize {
        let asked = Asked { states: vec![State::Requested], limit: COUNTED, ..Asked::default() };
        self.0.humans.list(asked).await.map_or(0, |listed| listed.questions.len())
    }

    /// `first` is a question that the page is to begin with, wherever it stands by now.
    pub async fn questions(
        &self,
        state: QuestionState,
        cursor: Option<String>,
        first: Option<&str>,
    ) -> Result<Questions, Error> {
        let first = first.and_then(|id| self.0.humans.get(id).ok());
        let state = first.as_ref().map_or(state, |first| state_of(first.state));
        // A cursor is passed over; the place just behind a question is not.
        let cursor = first.map(|first| format!("{}:{}\0", first.created_at, first.id)).or(cursor);
        let wanted = match state {
            QuestionState::Open => State::Requested,
            QuestionState::Answered => State::Answered,
            QuestionState::Expired => State::Expired,
        };
        let asked = Asked { states: vec![wanted], limit: QUESTIONS, cursor, ..Asked::default() };
        let listed = match self.0.humans.list(asked.clone()).await {
            // An address that somebody has changed: the first page is as good.
            Err(crate::humans::Error::BadCursor) => self.0.humans.list(Asked { cursor: None, ..asked }).await?,
            listed => listed?,
        };
        let settings = self.0.settings.current();
        let mut questions = Vec::with_capacity(listed.questions.len());
        for one in &listed.questions {
            let mut card = self.question_card(&settings.config, one);
            // A task that is over is known by its last event.
            if let Some((id, title)) = card.task.as_mut().filter(|(_, title)| title.is_empty()) {
                *title = match self.title_of_task(id).await {
                    Err(Error::Indexing { .. }) => String::new(),
                    found => found?.unwrap_or_default(),
                };
            }
            questions.push(card);
        }
        Ok(Questions { state, questions, next: listed.next })
    }

    pub(super) async fn questions_of(&self, config: &Config, asked: Asked) -> Result<(Vec<QuestionCard>, bool), Error> {
        let listed = self.0.humans.list(asked).await?;
        let cards = listed.questions.iter().map(|one: &Arc<Question>| self.question_card(config, one)).collect();
        Ok((cards, listed.next.is_some()))
    }

    pub(super) fn question_card(&self, config: &Config, question: &Question) -> QuestionCard {
        let view = question.task_id.as_deref().and_then(|id| self.0.tasks.open(id));
        let title = view.as_ref().map(|view| title_of(&view.task.description)).unwrap_or_default();
        let before = view.as_ref().and_then(|view| {
            let said = |line: &&String| !line.starts_with("Task ") && !line.starts_with("Step ");
            view.task.progress.iter().rev().find(said).cloned()
        });
        let state = state_of(question.state);
        QuestionCard {
            id: question.id.clone(),
            question: question.question.clone(),
            asker: face(config, &question.agent_id),
            task: question.task_id.clone().map(|id| (id, title)),
            context: before.filter(|_| state == QuestionState::Open),
            asked_at: question.created_at,
            deadline: question.deadline,
            default_answer: question.default_answer.clone(),
            state,
            answer: question.answer.as_ref().map(|answer| (answer.text.clone(), answer.by.clone(), answer.at)),
        }
    }
}

fn state_of(state: State) -> QuestionState {
    match state {
        State::Requested => QuestionState::Open,
        State::Answered => QuestionState::Answered,
        State::Expired => QuestionState::Expired,
    }
}
