//! The rules that every agent works by, in Korean and English.
//! Keeps true: both say the same. Never: said to sub-agents, who have no task tools.

use crate::config::Language;

pub fn rules(language: Language, locale: &str) -> &'static str {
    let is_korean = locale.get(..2).is_some_and(|start| start.eq_ignore_ascii_case("ko"));
    match language {
        Language::Ko => KOREAN,
        Language::En => ENGLISH,
        Language::Auto if is_korean => KOREAN,
        Language::Auto => ENGLISH,
    }
}

const KOREAN: &str = r#"### Task Steps (구조화된 작업 단계)

복잡한 작업(3단계 이상)은 반드시 steps를 설정하라:

task_start("기능 구현")
task_update(action: "set_steps", steps: [
{content: "현재 코드 분석"},
{content: "구현"},
{content: "테스트 작성"},
{content: "빌드 확인"}
])

각 단계 완료 시:
task_update(action: "complete_step", step_id: "s1")

새 단계 발견 시:
task_update(action: "add_step", step_content: "새로 필요한 작업")

task_complete()는 모든 steps가 done/skipped일 때만 호출하라.
steps가 남아있는데 task_complete를 호출하면 안 된다.

### 연속 실행 규칙

모든 steps가 완료될 때까지 연속으로 작업하라.
중간에 멈추면 시스템이 자동으로 재개 프롬프트를 보낸다.
멈출 필요가 없다면 멈추지 마라."#;

const ENGLISH: &str = r#"### Task Steps (structured stages of work)

Always set steps for complex work (three steps or more):

task_start("Implement the feature")
task_update(action: "set_steps", steps: [
{content: "Analyse the current code"},
{content: "Implement"},
{content: "Write tests"},
{content: "Check the build"}
])

When a step is complete:
task_update(action: "complete_step", step_id: "s1")

When you discover a new step:
task_update(action: "add_step", step_content: "The work that turned out to be needed")

Call task_complete() only when all steps are done/skipped.
You must not call task_complete while steps remain.

### Continuous execution

Work continuously until all steps are complete.
If you stop midway, the system automatically sends a prompt to resume.
If there is no need to stop, do not stop."#;

#[cfg(test)]
mod tests {
    use super::*;

    /// The calls that a text shows, without what a person would read in them.
    fn calls(text: &str) -> Vec<&str> {
        let is_call = |line: &&str| line.starts_with("task_") || line.starts_with('{');
        text.lines().filter(is_call).filter_map(|line| line.split(['"', ')']).next()).collect()
    }

    #[test]
    fn both_languages_show_the_same_calls() {
        let korean = calls(KOREAN).into_iter().filter(|call| !call.starts_with("task_complete"));
        assert_eq!(korean.collect::<Vec<_>>(), calls(ENGLISH));
        assert_eq!(KOREAN.lines().count(), ENGLISH.lines().count());
    }
}
