//! A refusal as clients see it: a status, a code for programs, a sentence for people.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::scope::Scope;

/// Why a request was not answered, in the shape `{error: {code, message}}`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("missing token; send `Authorization: Bearer TOKEN` (`chela token` prints it)")]
    TokenMissing,
    #[error("wrong token; `chela token` prints the right one")]
    TokenWrong,
    #[error("too many wrong tokens from this address; wait {} s", seconds(*wait))]
    TokenLocked { wait: Duration },
    #[error("missing scope: {needed}")]
    ScopeMissing { needed: Scope },
    #[error("this gateway does not answer to the name in `Host`; add it to `gateway.allowedHosts`")]
    Host,
    #[error("pages of this origin may not call the gateway; add it to `gateway.allowedOrigins`")]
    Origin,
    #[error("too many requests from this address; wait {} s", seconds(*wait))]
    Rate { wait: Duration },
    #[error("{path} leads nowhere on the {listener} listener; there is {known}")]
    NoSuchPath { path: String, listener: &'static str, known: String },
    #[error("{path} does not take {method}")]
    NoSuchVerb { path: String, method: String },
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("the body did not arrive within {} ms", limit.as_millis())]
    BodyTooSlow { limit: Duration },
    #[error("the body broke off")]
    BodyBroken,
    #[error("{field}: {said}")]
    Parameter { field: String, said: String },
    #[error("there is no {what}")]
    NoSuch { what: String },
    #[error("{said}")]
    Indexing { said: String },
    #[error("{said}")]
    Unavailable { said: String },
    #[error("{said}")]
    NotHere { said: String },
    #[error("{said}")]
    Conflict { said: String },
    /// It is no longer as the one who asks saw it.
    #[error("{said}")]
    Changed { said: String },
    /// What is asked for has ended.
    #[error("{said}")]
    Over { said: String },
    /// Somebody has deleted it.
    #[error("{said}")]
    Gone { said: String },
    /// Somebody else has answered the question.
    #[error("{said}")]
    Answered { said: String },
    /// The question takes no answer any more.
    #[error("{said}")]
    Expired { said: String },
    /// Other tasks come first.
    #[error("{said}")]
    Waits { said: String },
    /// A guard does not let it happen.
    #[error("{said}")]
    Guarded { said: String },
}

/// Marks an answer as a refusal, for the metrics.
#[derive(Clone, Copy)]
pub(super) struct Refused(pub(super) &'static str);

fn seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

impl Refusal {
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TokenMissing | Self::TokenWrong => StatusCode::UNAUTHORIZED,
            Self::TokenLocked { .. } | Self::Rate { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::ScopeMissing { .. } | Self::Origin => StatusCode::FORBIDDEN,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::NoSuchPath { .. } => StatusCode::NOT_FOUND,
            Self::NoSuchVerb { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::BodyBroken | Self::Parameter { .. } => StatusCode::BAD_REQUEST,
            Self::NoSuch { .. } => StatusCode::NOT_FOUND,
            Self::Indexing { .. } | Self::Unavailable { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::NotHere { .. } => StatusCode::FORBIDDEN,
            Self::Conflict { .. }
            | Self::Changed { .. }
            | Self::Over { .. }
            | Self::Gone { .. }
            | Self::Answered { .. }
            | Self::Expired { .. }
            | Self::Waits { .. }
            | Self::Guarded { .. } => StatusCode::CONFLICT,
        }
    }

    /// The word that programs match and metrics count.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TokenMissing => "token_missing",
            Self::TokenWrong => "token_wrong",
            Self::TokenLocked { .. } => "token_locked",
            Self::ScopeMissing { .. } => "scope_missing",
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Rate { .. } => "rate",
            Self::NoSuchPath { .. } => "not_found",
            Self::NoSuchVerb { .. } => "method_not_allowed",
            Self::BodyTooLarge { .. } => "body_too_large",
            Self::BodyTooSlow { .. } => "body_too_slow",
            Self::BodyBroken => "body_broken",
            Self::Parameter { .. } => "invalid_parameter",
            Self::NoSuch { .. } => "unknown_id",
            Self::Indexing { .. } => "indexing",
            Self::Unavailable { .. } => "unavailable",
            Self::Conflict { .. }
            | Self::Changed { .. }
            | Self::Over { .. }
            | Self::Gone { .. }
            | Self::Answered { .. }
            | Self::Expired { .. }
            | Self::Waits { .. }
            | Self::Guarded { .. } => "conflict",
            Self::NotHere { .. } => "read_only",
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.saying(&self.to_string(), None)
    }
}

impl Refusal {
    /// The same refusal in other words, with its own as a detail.
    pub(super) fn saying(&self, message: &str, detail: Option<&str>) -> Response {
        let mut error = json!({ "code": self.code(), "message": message });
        if let Some(detail) = detail {
            error["detail"] = json!(detail);
        }
        match self {
            Self::Parameter { field, .. } => error["field"] = json!(field),
            // As clients of `/tools/invoke` know it.
            Self::TokenMissing | Self::TokenWrong => error["type"] = json!("unauthorized"),
            _ => {}
        }
        let mut response = (self.status(), Json(json!({ "error": error }))).into_response();
        response.extensions_mut().insert(Refused(self.code()));
        let headers = response.headers_mut();
        match self {
            Self::TokenMissing | Self::TokenWrong => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Self::TokenLocked { wait } | Self::Rate { wait } => {
                headers.insert(header::RETRY_AFTER, seconds(*wait).into());
            }
            Self::Indexing { .. } => {
                headers.insert(header::RETRY_AFTER, 1.into());
            }
            // What is left of the body is not read: the connection cannot carry another request.
            Self::BodyTooLarge { .. } | Self::BodyTooSlow { .. } | Self::BodyBroken => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
