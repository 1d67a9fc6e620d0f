//! What a provider's refusal means: by its HTTP status, and by the error it sends instead of an answer or in the midst of one.
//! Keeps true: the provider's own words are in the message, cut and without keys. Never: guesses when to come back; a date in
//! `Retry-After` is not read, since it means nothing without a clock.

use std::time::Duration;

use serde_json::Value;

use crate::{Failure, FailureKind, Wire};

const BODY_BYTES_MAX: usize = 1024 * 1024;
/// A wait beyond a day is a mistake of the provider; bounded, so that adding it to any clock is safe.
const RETRY_AFTER_SECONDS_MAX: u64 = 24 * 60 * 60;

/// How Anthropic, OpenAI, vLLM, llama.cpp and Gemini say that a conversation is too long.
const CONTEXT_WORDS: &[&str] = &[
    "context_length_exceeded",
    "exceed_context_size",
    "context length",
    "context limit",
    "context window",
    "context size",
    "maximum context",
    "prompt is too long",
    "input is too long",
    "input token count",
    "max_model_len",
];

/// What an answer with another status than 200 means. `retry_after` is the header of that name.
pub fn refused(wire: Wire, status: u16, retry_after: Option<&str>, body: &[u8]) -> Failure {
    let said = Said::of_body(body);
    let kind = kind_of_status(status, &said);
    let code = match (wire, kind) {
        (Wire::Anthropic | Wire::OpenAi, FailureKind::Auth) => format!("the provider refused the key ({status})"),
        (Wire::Anthropic | Wire::OpenAi, _) => format!("the provider answered {status}"),
    };
    let message = match said.message.trim() {
        "" if said.word.trim().is_empty() => format!("{code} without a reason"),
        "" => format!("{code}: {}", said.word),
        words => format!("{code}: {words}"),
    };
    let seconds = retry_after.and_then(|text| text.trim().parse::<u64>().ok());
    let retry_after = seconds.map(|seconds| Duration::from_secs(seconds.min(RETRY_AFTER_SECONDS_MAX)));
    Failure { retry_after, ..Failure::new(kind, message) }
}

/// What the value under `error` in the midst of a stream means.
pub(crate) fn broke_off(error: &Value) -> Failure {
    let said = Said::of_error(error);
    let message = match said.message.trim() {
        "" => format!("the provider failed while it answered: {}", said.word),
        words => format!("the provider failed while it answered: {words}"),
    };
    Failure::new(kind_of_word(&said), message)
}

/// A provider's error as far as it matters.
#[derive(Default)]
struct Said {
    message: String,
    /// Its type and its code.
    word: String,
    /// Its code, where that is a status.
    status: Option<u16>,
}

impl Said {
    fn of_body(body: &[u8]) -> Self {
        let value = if body.len() <= BODY_BYTES_MAX { serde_json::from_slice::<Value>(body).ok() } else { None };
        let Some(value) = value else {
            let text = String::from_utf8_lossy(&body[..body.len().min(BODY_BYTES_MAX)]).into_owned();
            // A page of a proxy is for browsers; the status says as much.
            let is_page = text.trim_start().starts_with('<');
            return Self { message: if is_page { String::new() } else { text }, ..Self::default() };
        };
        let value = value.get(0).unwrap_or(&value);
        match value.get("error").filter(|error| !error.is_null()) {
            Some(error) => Self::of_error(error),
            None => Self::of_error(value),
        }
    }

    fn of_error(error: &Value) -> Self {
        if let Some(text) = error.as_str() {
            return Self { message: text.to_owned(), ..Self::default() };
        }
        let text = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = [text("message"), text("detail")].into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let word = format!("{} {}", text("type"), text("code")).trim().to_lowercase();
        Self { message: message.to_owned(), word, status: status.filter(|status| (400..600).contains(status)) }
    }

    fn is_about_context(&self) -> bool {
        let message = self.message.to_lowercase();
        CONTEXT_WORDS.iter().any(|words| message.contains(words) || self.word.contains(words))
    }

    fn is_about_content(&self) -> bool {
        ["content_filter", "content_policy"].iter().any(|word| self.word.contains(word))
    }
}

fn kind_of_status(status: u16, said: &Said) -> FailureKind {
    match status {
        401 | 403 => FailureKind::Auth,
        429 => FailureKind::RateLimit,
        503 | 529 => FailureKind::Overloaded,
        408 | 504 => FailureKind::Timeout,
        400 | 413 | 422 if said.is_about_context() => FailureKind::ContextLength,
        400 | 422 if said.is_about_content() => FailureKind::Refusal,
        413 => FailureKind::TooLarge,
        500.. => FailureKind::Server,
        _ => FailureKind::Invalid,
    }
}

fn kind_of_word(said: &Said) -> FailureKind {
    let has = |words: &[&str]| words.iter().any(|word| said.word.contains(word));
    if has(&["overloaded", "unavailable"]) {
        FailureKind::Overloaded
    } else if has(&["rate_limit", "insufficient_quota", "too_many_requests"]) {
        FailureKind::RateLimit
    } else if has(&["authentication", "permission", "invalid_api_key"]) {
        FailureKind::Auth
    } else if has(&["timeout"]) {
        FailureKind::Timeout
    } else if said.is_about_context() {
        FailureKind::ContextLength
    } else if said.is_about_content() {
        FailureKind::Refusal
    } else if has(&["request_too_large"]) {
        FailureKind::TooLarge
    } else if let Some(status) = said.status {
        kind_of_status(status, said)
    } else if has(&["invalid_request", "not_found", "billing"]) {
        FailureKind::Invalid
    } else {
        FailureKind::Server
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(status: u16, body: &str, kind: FailureKind, message: &str) {
        let failure = refused(Wire::OpenAi, status, None, body.as_bytes());
        assert_eq!((failure.kind, failure.message.as_str()), (kind, message));
        assert_eq!(refused(Wire::Anthropic, status, None, body.as_bytes()), failure);
    }

    #[test]
    fn a_status_says_what_kind_of_failure_it_is() {
        use FailureKind::*;
        let of = |status| refused(Wire::Anthropic, status, None, b"").kind;
        for (statuses, kind) in [
            (&[401, 403][..], Auth),
            (&[429], RateLimit),
            (&[503, 529], Overloaded),
            (&[408, 504], Timeout),
            (&[413], TooLarge),
            (&[400, 402, 404, 422, 301, 0], Invalid),
            (&[500, 502, 599, u16::MAX], Server),
        ] {
            assert!(statuses.iter().all(|status| of(*status) == kind), "{kind:?}");
        }
    }

    #[test]
    fn the_words_of_both_vendors_are_kept() {
        use FailureKind::*;
        check(
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#,
            Overloaded,
            "the provider answered 529: Overloaded",
        );
        check(
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-abcd1234efgh.","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            Auth,
            "the provider refused the key (401): Incorrect API key provided: [key removed].",
        );
        check(404, r#"{"error":"model 'x' not found"}"#, Invalid, "the provider answered 404: model 'x' not found");
        check(422, r#"{"detail":"no"}"#, Invalid, "the provider answered 422: no");
        check(400, r#"[{"error":{"code":400,"message":"bad"}}]"#, Invalid, "the provider answered 400: bad");
        check(500, r#"{"error":{"type":"api_error"}}"#, Server, "the provider answered 500: api_error");
        check(502, "<html>Bad Gateway</html>", Server, "the provider answered 502 without a reason");
        check(502, "upstream\n died", Server, "the provider answered 502: upstream died");
        check(503, "", Overloaded, "the provider answered 503 without a reason");
    }

    #[test]
    fn a_conversation_that_is_too_long_is_told_from_other_bad_requests() {
        for words in [
            "prompt is too long: 210000 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
            "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens",
            "You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024 tokens",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ] {
            let body = json!({"error": {"type": "invalid_request_error", "message": words}}).to_string();
            assert_eq!(refused(Wire::OpenAi, 400, None, body.as_bytes()).kind, FailureKind::ContextLength, "{words}");
        }
        let by_code = r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#;
        check(400, by_code, FailureKind::ContextLength, "the provider answered 400: too long");
        let output =
            r#"{"error":{"message":"max_tokens: 300000 > 64000, the maximum allowed number of output tokens"}}"#;
        assert_eq!(refused(Wire::Anthropic, 400, None, output.as_bytes()).kind, FailureKind::Invalid);
    }

    #[test]
    fn retry_after_is_read_in_seconds_and_bounded() {
        let of = |text| refused(Wire::Anthropic, 429, Some(text), b"").retry_after;
        assert_eq!(of(" 17 "), Some(Duration::from_secs(17)));
        assert_eq!(of("18446744073709551615"), Some(Duration::from_secs(86_400)));
        assert_eq!(of("Wed, 21 Oct 2026 07:28:00 GMT"), None);
        assert_eq!(of("-1"), None);
    }

    #[test]
    fn an_error_in_the_midst_of_a_stream_is_told_by_its_word() {
        use FailureKind::*;
        for (error, kind) in [
            (json!({"type": "overloaded_error", "message": "Overloaded"}), Overloaded),
            (json!({"type": "rate_limit_error"}), RateLimit),
            (json!({"code": 429, "message": "slow down"}), RateLimit),
            (json!({"code": 502, "message": "upstream"}), Server),
            (json!({"type": "server_error", "message": "x"}), Server),
            (json!({"type": "timeout_error", "message": "x"}), Timeout),
            (json!({"type": "invalid_request_error", "message": "x"}), Invalid),
            (json!({"type": "invalid_request_error", "message": "prompt is too long"}), ContextLength),
            (json!({"code": "content_filter", "message": "x"}), Refusal),
            (json!("boom"), Server),
            (json!({}), Server),
            (json!(true), Server),
        ] {
            assert_eq!(broke_off(&error).kind, kind, "{error}");
        }
    }

    #[test]
    fn a_body_of_any_size_gives_a_short_message() {
        let failure = refused(Wire::OpenAi, 500, None, "가".repeat(2_000_000).as_bytes());
        assert_eq!(failure.message.chars().count(), 500);
    }
}
