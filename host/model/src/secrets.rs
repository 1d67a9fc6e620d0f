//! Takes what looks like a key out of a provider's words, since providers like to repeat the key that they refuse.
//! Keeps true: words of prose, names of models and ids of requests stay. Never: knows the real key.

const REMOVED: &str = "[key removed]";
const PREFIXES: &[&str] =
    &["sk-", "sk_", "pk-", "rk-", "gsk_", "xai-", "aiza", "hf_", "key-", "api-key-", "ya29", "eyj"];
/// Ids that support asks for.
const NOT_SECRET: &[&str] = &["req_", "request_", "msg_", "resp_", "chatcmpl-", "toolu_", "call_"];
const PREFIXED_CHARS_MIN: usize = 8;
const RANDOM_CHARS_MIN: usize = 16;

/// The text with every run that looks like a key replaced.
pub(crate) fn hide(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let run_bytes = rest.find(|c: char| !is_of_a_key(c)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(run_bytes);
        let follows_bearer = shown.as_bytes().last_chunk::<7>().is_some_and(|end| end.eq_ignore_ascii_case(b"bearer "));
        shown.push_str(if is_secret(run, follows_bearer) { REMOVED } else { run });
        let between_bytes = after.find(is_of_a_key).unwrap_or(after.len());
        let (between, next) = after.split_at(between_bytes);
        shown.push_str(between);
        rest = next;
    }
    shown
}

fn is_of_a_key(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '*')
}

fn is_secret(run: &str, follows_bearer: bool) -> bool {
    let lower = run.to_ascii_lowercase();
    if NOT_SECRET.iter().any(|prefix| lower.starts_with(prefix)) {
        return false;
    }
    let is_long = run.len() >= PREFIXED_CHARS_MIN;
    let has_prefix = PREFIXES.iter().any(|prefix| lower.starts_with(prefix));
    let is_masked = run.contains("***");
    let has_digit = run.bytes().any(|byte| byte.is_ascii_digit());
    is_masked || is_long && (has_prefix || follows_bearer && has_digit) || run.split(['-', '_']).any(is_random)
}

/// Letters and digits without a break, longer than words are.
fn is_random(part: &str) -> bool {
    part.len() >= RANDOM_CHARS_MIN
        && part.bytes().any(|byte| byte.is_ascii_digit())
        && part.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, shown: &str) {
        assert_eq!(hide(text), shown);
    }

    #[test]
    fn keys_are_taken_out_in_every_form_that_providers_repeat_them() {
        check("Incorrect API key provided: sk-proj-Ab12.", "Incorrect API key provided: [key removed].");
        check("provided: sk-ab***************wxyz. See", "provided: [key removed]. See");
        check("provided: abcd****wxyz", "provided: [key removed]");
        check("key=AIzaSyA1234567890", "key=[key removed]");
        check("Authorization: Bearer tok-12345", "Authorization: Bearer [key removed]");
        check("x-api-key 0123456789abcdef0123456789abcdef!", "x-api-key [key removed]!");
        check("(eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.x)", "([key removed].[key removed].x)");
        check("키 sk-ant-api03-가나", "키 [key removed]가나");
    }

    #[test]
    fn prose_names_of_models_and_ids_of_requests_stay() {
        for text in [
            "prompt is too long: 210000 tokens > 200000 maximum",
            "model: claude-sonnet-4-5-20250929 not found",
            "Qwen2-72B-Instruct-GPTQ-Int4 and meta-llama/Llama-3.3-70B",
            "see https://platform.openai.com/account/api-keys (req_011CSHoEeqs5C35K2UUqR7Fy)",
            "Bearer token is missing; invalid x-api-key; context_length_exceeded; max_completion_tokens",
            "한국어 메시지",
            "",
        ] {
            check(text, text);
        }
    }
}
