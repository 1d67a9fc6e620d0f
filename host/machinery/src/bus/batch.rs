//! Lines on their way to the log, with those who wait for them and those who want to hear of them. Pure: the log is elsewhere.

use std::sync::Arc;

use super::Error;
use crate::event::Event;

#[derive(Default)]
pub(super) struct Batch {
    /// Whole lines, in emit order.
    pub(super) lines: Vec<u8>,
    pub(super) count: u64,
    /// Events that somebody subscribed to, with where their line ends.
    heard: Vec<(usize, Arc<Event>)>,
    waiting: Vec<Waiting>,
    /// Somebody waits who does not want to wait for others.
    urgent: bool,
}

/// Somebody who goes on once the line is on the disk.
struct Waiting {
    start: usize,
    end: usize,
    answer: Answer,
}

/// Told on the writer's thread, which waits for nobody.
pub(super) type Answer = Box<dyn FnOnce(Result<(), Error>) + Send>;

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.waiting.is_empty()
    }

    /// Whether somebody waits for the disk, and not for others to come.
    pub(super) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Whoever waits so far waits no longer for others.
    pub(super) fn hurry(&mut self) {
        self.urgent = !self.waiting.is_empty();
    }

    pub(super) fn push(&mut self, line: &[u8], heard: Option<Arc<Event>>, waiting: Option<Answer>) {
        let start = self.lines.len();
        self.lines.extend_from_slice(line);
        self.lines.push(b'\n');
        let end = self.lines.len();
        self.count += 1;
        self.urgent |= waiting.is_some();
        self.heard.extend(heard.map(|event| (end, event)));
        self.waiting.extend(waiting.map(|answer| Waiting { start, end, answer }));
    }

    /// Somebody wants to know when everything so far is on the disk.
    pub(super) fn await_all(&mut self, answer: Answer) {
        let end = self.lines.len();
        self.waiting.push(Waiting { start: end, end, answer });
    }

    /// What is to be heard now that it is on the disk.
    pub(super) fn take_heard(&mut self) -> Vec<Arc<Event>> {
        self.heard.drain(..).map(|(_, event)| event).collect()
    }

    /// Everything is on the disk: tells those who waited. What is left is the memory.
    pub(super) fn settle(&mut self) {
        for waiting in self.waiting.drain(..) {
            (waiting.answer)(Ok(()));
        }
        self.lines.clear();
        self.heard.clear();
        self.count = 0;
        self.urgent = false;
    }

    /// The log took only the first `written` bytes. They become a batch of their own; whoever waited for more is told `error` and their lines
    /// are given up; what nobody waited for stays, to be tried again.
    pub(super) fn split(&mut self, written: usize, error: impl Fn() -> Error) -> Self {
        let whole = std::mem::take(self);
        let mut done = Self::default();
        let mut given_up = Vec::new();
        for waiting in whole.waiting {
            if waiting.end <= written {
                done.waiting.push(waiting);
            } else {
                (waiting.answer)(Err(error()));
                if waiting.start < waiting.end {
                    given_up.push(waiting.start..waiting.end);
                }
            }
        }
        let mut heard = whole.heard.into_iter().peekable();
        let mut start = 0;
        for line in whole.lines.split_inclusive(|byte| *byte == b'\n') {
            let end = start + line.len();
            let event = heard.next_if(|(at, _)| *at == end).map(|(_, event)| event);
            let into = if end <= written { &mut done } else { &mut *self };
            if !given_up.iter().any(|range| range.start == start) {
                into.push(&line[..line.len() - 1], event, None);
            }
            start = end;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::clock::Timestamp;
    use crate::event::Kind;

    fn event(n: u64) -> Arc<Event> {
        Arc::new(Event::system(Kind::ConfigApplied, Timestamp(n), serde_json::Map::new()))
    }

    #[test]
    fn of_a_half_written_batch_the_rest_is_kept_but_for_what_somebody_waited_for() {
        let mut batch = Batch::default();
        fn answer() -> (Answer, oneshot::Receiver<Result<(), Error>>) {
            let (send, told) = oneshot::channel();
            (Box::new(move |outcome| drop(send.send(outcome))), told)
        }
        let ((first, mut first_told), (second, mut second_told)) = (answer(), answer());
        batch.push(b"one", Some(event(1)), Some(first));
        batch.push(b"two", Some(event(2)), None);
        batch.push(b"three", Some(event(3)), Some(second));
        batch.push(b"four", Some(event(4)), None);
        let mut done = batch.split(4, || Error::Closed);
        assert_eq!((done.lines.as_slice(), done.count), (b"one\n".as_slice(), 1));
        assert_eq!((batch.lines.as_slice(), batch.count), (b"two\nfour\n".as_slice(), 2));
        assert!(matches!(second_told.try_recv(), Ok(Err(Error::Closed))));
        assert!(first_told.try_recv().is_err(), "not before it is on the disk");
        let times = |batch: &mut Batch| batch.take_heard().iter().map(|event| event.ts.0).collect::<Vec<_>>();
        assert_eq!(times(&mut done), [1]);
        done.settle();
        assert!(matches!(first_told.try_recv(), Ok(Ok(()))));
        assert_eq!(times(&mut batch), [2, 4]);
    }
}
