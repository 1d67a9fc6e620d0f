//! Keeping house: files of open questions, deadlines that have come, tasks that ended meanwhile, questions that are old.

use std::sync::Arc;

use chela_question::{Deadline, Input, Phase, Question};

use super::service::{Service, task_of};
use super::{files, store};
use crate::config::OnDeadline;
use crate::journal::Transaction;

const DAY_MS: u64 = 86_400_000;

impl Service {
    pub(super) async fn show(&mut self, question: Arc<Question>) {
        let dir = self.handle.0.options.dir.human();
        let shown = tokio::task::spawn_blocking(move || files::show(&dir, &question)).await;
        self.said(shown.unwrap_or(Ok(())));
    }

    pub(super) async fn show_all(&mut self) {
        let open: Vec<Arc<Question>> = self.handle.0.state().open().cloned().collect();
        let dir = self.handle.0.options.dir.human();
        let shown = tokio::task::spawn_blocking(move || files::show_all(&dir, &open)).await;
        self.said(shown.unwrap_or(Ok(())));
    }

    fn said(&mut self, shown: std::io::Result<()>) {
        if let (Err(error), false) = (&shown, self.failing) {
            tracing::warn!(%error, "files of questions cannot be written; check the directory's rights. The questions go on");
        }
        self.failing = shown.is_err();
    }

    /// Deadlines that have come, and tasks that ended while somebody was asked.
    pub(super) async fn look_at_open(&mut self) {
        let now = self.now().0;
        let on_deadline = match self.handle.0.options.settings.current().config.human.on_deadline {
            OnDeadline::Escalate => Deadline::Escalate,
            OnDeadline::Expire => Deadline::Expire,
        };
        let open: Vec<Arc<Question>> = self.handle.0.state().open().cloned().collect();
        for question in open {
            let input = match self.is_task_over(&question) {
                true => Input::TaskEnded { status: "over".into() },
                false if question.deadline.is_some_and(|at| at <= now) => Input::Due(on_deadline),
                false => continue,
            };
            match self.advance(&question, input, Vec::new()).await {
                Ok(()) => self.finish(&question.id).await,
                Err(error) => {
                    tracing::warn!(
                        question = question.id,
                        error = &error as &dyn std::error::Error,
                        "a question could not be moved on"
                    );
                }
            }
        }
    }

    fn is_task_over(&self, question: &Question) -> bool {
        let Some((agent, task)) = task_of(question).filter(|_| question.phase == Phase::Open) else { return false };
        self.handle.0.options.tasks.of(&agent).is_ok_and(|views| !views.iter().any(|view| view.id == task))
    }

    /// Questions that were over for as long as they are kept, and the oldest of those that are too many.
    pub(super) async fn sweep(&mut self) {
        let shared = self.handle.0.clone();
        let settings = shared.options.settings.current();
        let before = self.now().0.saturating_sub(u64::from(settings.config.human.keep_days) * DAY_MS);
        let old = shared.state().old(before, settings.config.human.keep_questions);
        for part in old.chunks(1_000) {
            let mut transaction = Transaction::default();
            let put = part.iter().try_for_each(|question| store::drop_question(&mut transaction, &question.id));
            let dropped = match put {
                Ok(()) => shared.options.journal.commit_async(transaction).await,
                Err(error) => Err(error),
            };
            if let Err(error) = dropped {
                return tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "old questions could not be taken out"
                );
            }
            let mut state = shared.state();
            part.iter().for_each(|question| state.forget(question));
        }
    }
}
