//! What people see of a work session in one line: cleaned of marks that only machines read.

/// For a session in which nobody said anything.
pub(super) const NONE: &str = "협업 작업";
const TITLE_CHARS: usize = 120;
const PREVIEW_CHARS: usize = 200;
const GOAL: &str = "[Goal]";

/// A label as a title; none for a raw task id.
pub(super) fn of_label(label: &str) -> Option<String> {
    let label = one_line(label, TITLE_CHARS);
    (!label.is_empty() && !is_raw_id(&label)).then_some(label)
}

/// What stands behind `[Goal]` on a line of its own.
pub(super) fn goal_in(text: &str) -> Option<String> {
    let goal = text.lines().find_map(|line| line.trim_start().strip_prefix(GOAL))?;
    of_label(goal.trim_start_matches([':', ' ']))
}

/// A message as a title; none for what is no talk: outcomes, and marks that only machines read.
pub(super) fn of_message(text: &str) -> Option<String> {
    let is_outcome = text.trim_start().starts_with("[outcome]");
    (!is_outcome).then(|| of_label(text)).flatten()
}

/// The beginning of a message.
pub(super) fn preview(text: &str) -> String {
    one_line(text, PREVIEW_CHARS)
}

fn is_raw_id(text: &str) -> bool {
    let id = |rest: &str| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    text.strip_prefix("task_").or_else(|| text.strip_prefix("ws_")).is_some_and(id)
}

/// One line of at most so many characters, without mentions as networks write them, such as `<@123>` and `<@U0AB>`, and tags that skip a step.
fn one_line(text: &str, chars: usize) -> String {
    let text = without_marks(text);
    let mut line = String::new();
    let mut count = 0;
    for word in text.split_whitespace() {
        let gap = usize::from(count > 0);
        let length = word.chars().count();
        if count + gap + length > chars {
            let room = chars.saturating_sub(count + gap);
            if count == 0 {
                line.extend(word.chars().take(room));
            }
            line.push('…');
            break;
        }
        if gap > 0 {
            line.push(' ');
        }
        line.push_str(word);
        count += gap + length;
    }
    line
}

fn without_marks(text: &str) -> String {
    const TAGS: [&str; 4] = ["[NO_REPLY_NEEDED]", "[NOTIFICATION]", "REPLY_SKIP", "ANNOUNCE_SKIP"];
    let mut kept = String::new();
    // A preview needs no more than the beginning of what may be long.
    let mut rest: &str = &text[..text.floor_char_boundary(4096)];
    while let Some(at) = rest.find("<@") {
        let Some(end) = rest[at..].find('>') else { break };
        kept.push_str(&rest[..at]);
        let inside = rest[at + 2..at + end].trim_start_matches(['!', '&']);
        if !is_number_of_a_network(inside) {
            kept.push_str(&rest[at..=at + end]);
        }
        rest = &rest[at + end + 1..];
    }
    kept.push_str(rest);
    TAGS.iter().fold(kept, |text, tag| text.replace(tag, ""))
}

/// Digits, or digits and capital letters: what a network gives out, and nobody is called.
fn is_number_of_a_network(id: &str) -> bool {
    let written = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    id.bytes().any(|byte| byte.is_ascii_digit()) && id.bytes().all(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_a_title_unless_it_is_a_raw_id() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(of_label(text).as_deref(), expected, "{text}");
        check("결제 모듈 배포", Some("결제 모듈 배포"));
        check("task_9f3a", None);
        check("task_ force one", Some("task_ force one"));
        check("ws_0192-af", None);
        check("  \n ", None);
        check("<@123456> 안녕 <@!99> <@U02AB> <@eden> <@EDEN>", Some("안녕 <@eden> <@EDEN>"));
        check("two\nlines\t here", Some("two lines here"));
    }

    #[test]
    fn a_goal_stands_on_a_line_of_its_own() {
        let check = |text: &str, expected: Option<&str>| assert_eq!(goal_in(text).as_deref(), expected, "{text}");
        check("안녕\n[Goal] 로그인 고치기\n끝", Some("로그인 고치기"));
        check("[Goal]: ship it", Some("ship it"));
        check("the [Goal] is far", None);
        check("[Goal] task_12", None);
    }

    #[test]
    fn a_message_is_a_title_unless_it_is_an_outcome() {
        assert_eq!(of_message("[outcome] blocked: 응답을 받지 못했습니다"), None);
        assert_eq!(of_message("[NOTIFICATION] 배포 끝").as_deref(), Some("배포 끝"));
        let long = "word ".repeat(100);
        let title = of_message(&long).expect("a title");
        assert!(title.ends_with("word…") && title.chars().count() <= TITLE_CHARS + 1, "{title}");
        assert_eq!(preview(&"가".repeat(300)).chars().count(), PREVIEW_CHARS + 1);
    }
}
