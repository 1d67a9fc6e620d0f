//! Reads a request's body within its limits of size and time.

use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use super::{Context, Refusal};

pub(super) async fn read(context: &Context, body: Body) -> Result<Bytes, Refusal> {
    let size = context.settings.current().config.limits.body_bytes;
    read_up_to(context, body, size).await
}

pub(super) async fn read_up_to(context: &Context, body: Body, size: usize) -> Result<Bytes, Refusal> {
    read_with_room(context, body, size, |_| Ok(())).await
}

/// The same, where there must be `room` for every piece before it is kept.
pub(super) async fn read_with_room(
    context: &Context,
    body: Body,
    size: usize,
    mut room: impl FnMut(usize) -> Result<(), Refusal>,
) -> Result<Bytes, Refusal> {
    let settings = context.settings.current();
    let time = Duration::from_millis(settings.config.limits.body_timeout_ms);
    let read = async {
        let (mut body, mut whole) = (pin!(Limited::new(body, size)), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => Refusal::BodyTooLarge { limit: size },
                false => Refusal::BodyBroken,
            })?;
            // Copied: a piece of one byte would hold on to the whole buffer that it came in.
            if let Ok(piece) = frame.into_data() {
                room(piece.len())?;
                whole.extend_from_slice(&piece);
            }
        }
        Ok(Bytes::from(whole))
    };
    tokio::select! {
        read = read => read,
        () = context.clock.sleep(time) => Err(Refusal::BodyTooSlow { limit: time }),
    }
}
