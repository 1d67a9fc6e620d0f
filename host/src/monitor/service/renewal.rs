//! Roles after another classifier: what an older one said is asked again, the newest first. Where the answer is another, an index is made beside
//! the one that answers and takes its place once it is whole.
//! Keeps true: queries are answered from one index or the other, never from half of one. Never: touches the log.

use std::path::{Path, PathBuf};

use super::{Failure, Service, State, Step};
use crate::monitor::index::{Entry, Guessed, How, Index};
use crate::monitor::intake::Came;
use crate::monitor::line::Line;
use crate::monitor::overrides;

#[derive(Default)]
pub(super) enum Renewal {
    #[default]
    Settled,
    /// Looks at roles from before this place; `by` is who is asked.
    Checking {
        by: String,
        before: i64,
    },
    Making {
        by: String,
        next: Box<State>,
    },
}

impl Service {
    /// One step towards an index whose roles are those of the classifier that serves.
    pub(super) fn renew(&self, state: &mut State, overrides: &overrides::File) -> Result<Step, Failure> {
        let Some(by) = self.classifier.roles_identity() else { return Ok(Step::Idle) };
        let renewal = std::mem::take(&mut state.renewal);
        // Where no role was ever asked for, none can have changed.
        if state.roles_by.as_ref().is_none_or(|known| *known == by) {
            if !matches!(renewal, Renewal::Settled) {
                self.shared.set_renewal(None);
            }
            return Ok(Step::Idle);
        }
        match renewal {
            Renewal::Checking { by: asked, before } if asked == by => self.check_roles(state, by, before),
            Renewal::Making { by: asked, next } if asked == by => self.make_beside(state, by, next, overrides),
            _ => {
                state.renewal = Renewal::Checking { by, before: i64::MAX };
                Ok(Step::Busy)
            }
        }
    }

    fn check_roles(&self, state: &mut State, by: String, before: i64) -> Result<Step, Failure> {
        let guessed = state.index.guessed_before(before, state.roles.at_once())?;
        let Some(before) = guessed.last().map(|guessed| guessed.seq) else {
            state.index.set_roles_by(&by)?;
            state.roles_by = Some(by);
            return Ok(Step::Idle);
        };
        if !self.would_change(&guessed, state) {
            state.renewal = Renewal::Checking { by, before };
            return Ok(Step::Busy);
        }
        tracing::info!(classifier = by, "roles of events are others now; an index is made with them");
        let index = Index::make(&beside(&self.shared.path))?;
        let next =
            Box::new(State { beside: true, ..State::new(index, self.whole_log()?, false, self.clock.elapsed()) });
        self.shared.set_renewal(Some(0));
        state.renewal = Renewal::Making { by, next };
        Ok(Step::Busy)
    }

    /// Whether the classifier that serves says anything else of these events.
    fn would_change(&self, guessed: &[Guessed], state: &mut State) -> bool {
        // A segment that was removed takes its events along.
        let read = |guessed: &Guessed| {
            Some((*guessed, self.shared.readers.lines.read(guessed.seq, guessed.len as usize).ok()?))
        };
        let lines: Vec<(Guessed, Vec<u8>)> = guessed.iter().filter_map(read).collect();
        let parsed = lines.iter().filter_map(|(guessed, bytes)| Some((guessed, bytes, Line::parse(bytes)?)));
        let (before, mut entries): (Vec<&Guessed>, Vec<Entry<'_>>) = parsed
            .map(|(guessed, bytes, line)| {
                (guessed, Entry { seq: guessed.seq, bytes, line, role: guessed.role, how: How::Classified })
            })
            .unzip();
        self.find_roles(&mut entries, &mut state.roles);
        entries.iter().zip(before).any(|(now, before)| (now.role, now.how) != (before.role, before.how))
    }

    fn make_beside(
        &self,
        state: &mut State,
        by: String,
        mut next: Box<State>,
        overrides: &overrides::File,
    ) -> Result<Step, Failure> {
        match next.intake.next()? {
            // Whoever answers notices as well, and begins again.
            Came::Changed => return Ok(Step::Busy),
            Came::Lines(parsed, progress) => {
                self.take(&mut next, parsed, progress, overrides)?;
                let (read, total) = progress;
                self.shared.set_renewal(u8::try_from(read * 100 / total.max(1)).ok().map(|percent| percent.min(99)));
            }
            Came::End if !next.filled => {
                next.index.finish(&overrides.entries)?;
                next.filled = true;
            }
            Came::End => match self.classify(&mut next, overrides)? {
                Step::Busy | Step::Took => {}
                Step::Idle => return self.put_in_place(state, *next, overrides),
            },
        }
        state.renewal = Renewal::Making { by, next };
        Ok(Step::Busy)
    }

    fn put_in_place(&self, state: &mut State, mut next: State, overrides: &overrides::File) -> Result<Step, Failure> {
        // What people said while it was made.
        let keys: Vec<String> = overrides.entries.keys().cloned().collect();
        next.index.override_categories(&keys, &overrides.entries)?;
        // Closed, it is one whole file.
        drop(next);
        self.shared.readers.replace(&beside(&self.shared.path))?;
        *state = State { caught_up: true, ..self.open()? };
        self.shared.set_renewal(None);
        tracing::info!("the new index of the event log is in its place");
        Ok(Step::Busy)
    }
}

fn beside(index: &Path) -> PathBuf {
    index.with_extension("next.sqlite")
}
