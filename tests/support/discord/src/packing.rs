//! How frames of the gateway are packed: not at all, or all of a connection as one zlib stream that is flushed after each message.

use miniz_oxide::MZFlush;
use miniz_oxide::deflate::core::CompressorOxide;
use miniz_oxide::deflate::stream::deflate;
use tokio_tungstenite::tungstenite::Message;

pub(super) enum Packing {
    None,
    ZlibStream(Box<CompressorOxide>),
}

impl Packing {
    /// As the address of a connection asks for it.
    pub(super) fn of(path: &str) -> Self {
        match path.contains("compress=zlib-stream") {
            // By default it is the zlib format.
            true => Self::ZlibStream(Box::default()),
            false => Self::None,
        }
    }

    /// One message as frames: one, or two where a packed one is to be split.
    pub(super) fn messages(&mut self, text: &str, splits: bool) -> Vec<Message> {
        let Self::ZlibStream(stream) = self else { return vec![Message::text(text.to_owned())] };
        let mut packed = Vec::new();
        let mut left = text.as_bytes();
        let mut room = vec![0; 16 * 1024];
        loop {
            let done = deflate(stream, left, &mut room, MZFlush::Sync);
            done.status.expect("a stream that goes on");
            left = &left[done.bytes_consumed..];
            packed.extend_from_slice(&room[..done.bytes_written]);
            if left.is_empty() && done.bytes_written < room.len() {
                break;
            }
        }
        let (first, second) = packed.split_at(if splits { packed.len() / 2 } else { 0 });
        let parts = [first, second].into_iter().filter(|part| !part.is_empty());
        parts.map(|part| Message::binary(part.to_vec())).collect()
    }
}
