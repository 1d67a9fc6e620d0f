//! From the bytes of a streamed answer to the answer, piece by piece.
//! Keeps true: a decoder that failed stays failed with the same failure; what follows the end of an answer is passed over.
//! Never: reads more than its bound, or waits.

use serde_json::Value;

use crate::gathered::Gathered;
use crate::sse::Events;
use crate::{Answer, Failure, FailureKind, Wire, anthropic, openai};

const STREAM_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What is new, for those who watch; the whole comes with [`Decoder::end`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    Text(String),
    /// The model begins a call; its arguments are not known yet.
    CallBegun {
        id: String,
        name: String,
    },
}

pub struct Decoder {
    wire: Wire,
    events: Events,
    gathered: Gathered,
    bytes_left: usize,
    failure: Option<Failure>,
}

impl Decoder {
    pub fn new(wire: Wire) -> Self {
        Self {
            wire,
            events: Events::default(),
            gathered: Gathered::default(),
            bytes_left: STREAM_BYTES_MAX,
            failure: None,
        }
    }

    /// Takes the next bytes of the body, cut anywhere. After a failure the answer is lost, and so is what these bytes said before it.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Delta>, Failure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        match self.read(bytes) {
            Ok(()) => Ok(self.gathered.take_deltas()),
            Err(failure) => {
                self.failure = Some(failure.clone());
                Err(failure)
            }
        }
    }

    /// The body has ended.
    pub fn end(self) -> Result<Answer, Failure> {
        match self.failure {
            Some(failure) => Err(failure),
            None => self.gathered.finish(),
        }
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut unread = &bytes[..bytes.len().min(self.bytes_left)];
        self.bytes_left -= unread.len();
        let is_too_much = unread.len() < bytes.len();
        while !self.gathered.is_over {
            let Some(data) = self.events.next(&mut unread)? else { break };
            self.event(&data)?;
        }
        if is_too_much && !self.gathered.is_over {
            let message = format!("the provider sent an answer of more than {STREAM_BYTES_MAX} bytes");
            return Err(Failure::new(FailureKind::TooLarge, message));
        }
        Ok(())
    }

    fn event(&mut self, data: &str) -> Result<(), Failure> {
        match data.trim() {
            "" => return Ok(()),
            "[DONE]" if self.wire == Wire::OpenAi => {
                self.gathered.is_over = true;
                return Ok(());
            }
            _ => {}
        }
        let value: Value = serde_json::from_str(data).map_err(|error| {
            let message = format!("the provider sent an event that is no JSON ({error}): {data}");
            Failure::new(FailureKind::Malformed, message)
        })?;
        match self.wire {
            Wire::Anthropic => anthropic::read(&mut self.gathered, &value),
            Wire::OpenAi => openai::read(&mut self.gathered, &value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoder_that_failed_stays_failed() {
        let mut decoder = Decoder::new(Wire::OpenAi);
        let failure = decoder.feed(b"data: {oops\n\n").unwrap_err();
        assert_eq!(failure.kind, FailureKind::Malformed);
        assert!(failure.message.ends_with(": {oops"), "{failure}");
        assert_eq!(decoder.feed(b"data: [DONE]\n\n"), Err(failure.clone()));
        assert_eq!(decoder.end(), Err(failure));
    }

    #[test]
    fn an_answer_past_its_bound_is_refused() {
        let mut decoder = Decoder::new(Wire::Anthropic);
        let comments = ": still waiting for the model to begin its answer, and waiting, and waiting\n".repeat(20_000);
        let fed = (0..40).find_map(|_| decoder.feed(comments.as_bytes()).err());
        assert_eq!(fed.map(|failure| failure.kind), Some(FailureKind::TooLarge));
    }

    #[test]
    fn a_stream_without_an_answer_is_broken() {
        for wire in [Wire::Anthropic, Wire::OpenAi] {
            for stream in ["", ": ping\n\n", "data: {}\n\n", "data: 7\n\n", "data: [DONE]x\n\n"] {
                let mut decoder = Decoder::new(wire);
                let fed = decoder.feed(stream.as_bytes());
                let expected = if fed.is_ok() { FailureKind::Broken } else { FailureKind::Malformed };
                assert_eq!(decoder.end().unwrap_err().kind, expected, "{stream}");
            }
        }
    }
}
