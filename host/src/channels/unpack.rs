//! Frames of a socket that the other side packs: one zlib stream over all of them, flushed after each message. Pure.
//! Keeps true: no message becomes larger than it may be, however small it came.

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZError, MZFlush, MZStatus};

/// With this a message ends.
const FLUSHED: [u8; 4] = [0, 0, 0xff, 0xff];
const ROOM: usize = 16 * 1024;

/// Why nothing more can be read from a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unpacked {
    TooLarge,
    /// It is no zlib stream, it is at its end, or it is no text.
    Broken,
}

pub(super) struct Unpacker {
    stream: Box<InflateState>,
    /// What came of a message that is not whole yet.
    packed: Vec<u8>,
    bytes_max: usize,
}

impl Unpacker {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { stream: InflateState::new_boxed(DataFormat::Zlib), packed: Vec::new(), bytes_max }
    }

    /// Takes one frame; gives the message that is whole with it.
    pub(super) fn take(&mut self, frame: &[u8]) -> Result<Option<String>, Unpacked> {
        if self.packed.len() + frame.len() > self.bytes_max {
            return Err(Unpacked::TooLarge);
        }
        self.packed.extend_from_slice(frame);
        if !self.packed.ends_with(&FLUSHED) {
            return Ok(None);
        }
        let packed = std::mem::take(&mut self.packed);
        let (mut left, mut text, mut room) = (packed.as_slice(), Vec::new(), [0; ROOM]);
        loop {
            let done = inflate(&mut self.stream, left, &mut room, MZFlush::None);
            left = &left[done.bytes_consumed..];
            text.extend_from_slice(&room[..done.bytes_written]);
            if text.len() > self.bytes_max {
                return Err(Unpacked::TooLarge);
            }
            match done.status {
                Ok(MZStatus::Ok) if done.bytes_consumed + done.bytes_written > 0 => {}
                // Nothing is left to be read, and nothing to be written.
                Ok(MZStatus::Ok) | Err(MZError::Buf) if left.is_empty() => break,
                Ok(_) | Err(_) => return Err(Unpacked::Broken),
            }
        }
        String::from_utf8(text).map(Some).map_err(|_| Unpacked::Broken)
    }
}

#[cfg(test)]
mod tests {
    use miniz_oxide::deflate::core::CompressorOxide;
    use miniz_oxide::deflate::stream::deflate;

    use super::*;

    fn packed(stream: &mut CompressorOxide, text: &str) -> Vec<u8> {
        let mut room = vec![0; text.len() + 1_024];
        let done = deflate(stream, text.as_bytes(), &mut room, MZFlush::Sync);
        assert_eq!((done.bytes_consumed, done.status), (text.len(), Ok(MZStatus::Ok)));
        room.truncate(done.bytes_written);
        room
    }

    #[test]
    fn messages_of_one_stream_are_read_one_after_the_other() {
        let (mut stream, mut unpacker) = (CompressorOxide::default(), Unpacker::new(1 << 20));
        for text in ["{\"op\":10}", "{\"op\":10}", "한글 ", &"{\"op\":11}".repeat(20_000)] {
            let frame = packed(&mut stream, text);
            assert_eq!(unpacker.take(&frame).as_ref().map(Option::as_deref), Ok(Some(text)));
        }
    }

    #[test]
    fn a_message_may_come_in_several_frames() {
        let (mut stream, mut unpacker) = (CompressorOxide::default(), Unpacker::new(1 << 20));
        for text in ["first and long enough to be cut", "second, which leans on the first and long enough"] {
            let frame = packed(&mut stream, text);
            for at in 0..frame.len() - 1 {
                assert_eq!(unpacker.take(&frame[at..=at]), Ok(None), "{at}");
            }
            assert_eq!(unpacker.take(&frame[frame.len() - 1..]), Ok(Some(text.to_owned())));
        }
    }

    #[test]
    fn what_is_too_large_or_no_such_stream_is_refused() {
        let bomb = packed(&mut CompressorOxide::default(), &"x".repeat(10 << 20));
        assert!(bomb.len() < 100_000, "it is small as it comes");
        assert_eq!(Unpacker::new(1 << 20).take(&bomb), Err(Unpacked::TooLarge));
        assert_eq!(Unpacker::new(1 << 20).take(&vec![7; 2 << 20]), Err(Unpacked::TooLarge));
        assert_eq!(Unpacker::new(1 << 20).take(b"no stream \0\0\xff\xff"), Err(Unpacked::Broken));
        let mut unpacker = Unpacker::new(100);
        assert_eq!(unpacker.take(&[1; 60]), Ok(None));
        assert_eq!(unpacker.take(&[1; 60]), Err(Unpacked::TooLarge), "however long it is not whole");
    }

    #[test]
    fn bytes_that_nobody_thought_of_do_no_harm() {
        let text = "{\"op\":0,\"t\":\"MESSAGE_CREATE\",\"s\":3,\"d\":{\"content\":\"hi\"}}";
        let good = packed(&mut CompressorOxide::default(), text);
        for seed in 0..20_000_u64 {
            let mut chance = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut next = || {
                chance ^= chance << 13;
                chance ^= chance >> 7;
                chance ^= chance << 17;
                chance
            };
            let mut frame = good.clone();
            for _ in 0..1 + next() % 4 {
                let at = usize::try_from(next()).unwrap_or(0) % frame.len();
                frame[at] = next() as u8;
            }
            frame.extend(FLUSHED);
            let mut unpacker = Unpacker::new(4_096);
            if let Ok(Some(text)) = unpacker.take(&frame) {
                assert!(text.len() <= 4_096);
            }
        }
    }
}
