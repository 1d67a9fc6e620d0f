//! Reads a request's body within its limits of size and time.

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
    let settings = context.settings.current();
    let time = Duration::from_millis(settings.config.limits.body_timeout_ms);
    tokio::select! {
        read = Limited::new(body, size).collect() => match read {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Refusal::BodyTooLarge { limit: size }),
            Err(_) => Err(Refusal::BodyBroken),
        },
        () = context.clock.sleep(time) => Err(Refusal::BodyTooSlow { limit: time }),
    }
}
