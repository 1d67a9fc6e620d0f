//! Questions as people see them: who asks, which task waits, and what came before.

use std::sync::Arc;

use chela_page::{QuestionCard, QuestionState, Questions, title_of};
use chela_question::{Question, State};

use super::{Error, Handle, face};
use crate::config::Config;
use crate::humans::Asked;

const PAGE: usize = 20;
/// Open questions that are counted; more are "99+".
const COUNTED: usize = 100;

impl Handle {
    /// How many questions wait, as far as a badge can tell.
    pub async fn open_questions(&self) -> usize {
        let asked = Asked { states: vec![State::Requested], limit: COUNTED, ..Asked::default() };
        self.0.humans.list(asked).await.map_or(0, |listed| listed.questions.len())
    }

    pub async fn questions(&self, state: QuestionState, cursor: Option<String>) -> Result<Questions, Error> {
        let wanted = match state {
            QuestionState::Open => State::Requested,
            QuestionState::Answered => State::Answered,
            QuestionState::Expired => State::Expired,
        };
        let asked = Asked { states: vec![wanted], limit: PAGE, cursor, ..Asked::default() };
        let listed = self.0.humans.list(asked).await?;
        let settings = self.0.settings.current();
        let questions = listed.questions.iter().map(|one| self.question_card(&settings.config, one)).collect();
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
        let state = match question.state {
            State::Requested => QuestionState::Open,
            State::Answered => QuestionState::Answered,
            State::Expired => QuestionState::Expired,
        };
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
