//! What `chela init` says to people, in the languages it knows.

use std::path::Path;

use crate::config::{Locale, Secret};

pub(super) struct Words {
    pub(super) locale: Locale,
    pub(super) hello: &'static str,
    pub(super) ask_name: &'static str,
    pub(super) ask_language: &'static str,
    pub(super) ask_team: &'static str,
    pub(super) ask_provider: &'static str,
    pub(super) ask_url: &'static str,
    pub(super) ask_model: &'static str,
    pub(super) ask_key: &'static str,
    pub(super) ask_variable: &'static str,
    pub(super) ask_file: &'static str,
    pub(super) ask_addresses: &'static str,
    pub(super) one_of: &'static str,
    pub(super) bad_name: &'static str,
    pub(super) bad_team: &'static str,
    pub(super) bad_url: &'static str,
    pub(super) bad_model: &'static str,
    pub(super) bad_variable: &'static str,
    pub(super) bad_file: &'static str,
    pub(super) stopped: &'static str,
    pub(super) name: &'static str,
    pub(super) language: &'static str,
    pub(super) team: &'static str,
    pub(super) nobody: &'static str,
    pub(super) model: &'static str,
    pub(super) next: &'static str,
}

static ENGLISH: Words = Words {
    locale: Locale::En,
    hello: "A few questions; Enter takes what stands in brackets, Ctrl-C ends it and nothing is written.",
    ask_name: "What is the deployment called?",
    ask_language: "In which language are agents instructed, en or ko?",
    ask_team: "Which team: demo (three agents), none, or ids of your own such as mina,joon?",
    ask_provider: "Who answers for models: scripted (needs no key), anthropic, or openai (and servers that speak its chat API)?",
    ask_url: "Where is it?",
    ask_model: "Which model?",
    ask_key: "Where is its key: env (a variable of the environment), file, or none?",
    ask_variable: "The name of the variable?",
    ask_file: "The path of the file?",
    ask_addresses: "Listen as usual, y or n?",
    one_of: "write one of",
    bad_name: "write 1 to 100 characters",
    bad_team: "write demo, none, or ids of a-z, 0-9, `_` and `-` with commas between, each once",
    bad_url: "write http:// or https://, a host, and a path if there is one",
    bad_model: "write the name of a model, without spaces",
    bad_variable: "write the name of a variable such as ANTHROPIC_API_KEY, never the key itself",
    bad_file: "write the path of a file whose first line is the key",
    stopped: "there was no further answer; nothing was written",
    name: "name",
    language: "language",
    team: "team",
    nobody: "nobody yet",
    model: "model",
    next: "next",
};

static KOREAN: Words = Words {
    locale: Locale::Ko,
    hello: "몇 가지만 묻겠습니다. Enter는 대괄호 안의 값을 쓰고, Ctrl-C는 아무것도 쓰지 않고 끝냅니다.",
    ask_name: "배포의 이름은 무엇인가요?",
    ask_language: "에이전트에게 어떤 언어로 지시할까요? en 또는 ko",
    ask_team: "어떤 팀으로 시작할까요? demo(에이전트 세 명), none, 또는 mina,joon처럼 직접 정한 id",
    ask_provider: "모델은 누가 답하나요? scripted(키 없이 스크립트로), anthropic, openai(같은 채팅 API를 쓰는 서버 포함)",
    ask_url: "주소는 무엇인가요?",
    ask_model: "어떤 모델을 쓸까요?",
    ask_key: "키는 어디에 있나요? env(환경 변수), file(파일), none(없음)",
    ask_variable: "환경 변수의 이름은 무엇인가요?",
    ask_file: "파일의 경로는 무엇인가요?",
    ask_addresses: "기본 주소를 쓸까요? y 또는 n",
    one_of: "다음 중 하나를 적어 주세요",
    bad_name: "1자에서 100자까지 적어 주세요",
    bad_team: "demo, none, 또는 a-z, 0-9, `_`, `-`로 된 id를 쉼표로 나누어 한 번씩만 적어 주세요",
    bad_url: "http:// 또는 https://로 시작하는 주소를 적어 주세요",
    bad_model: "모델 이름을 빈칸 없이 적어 주세요",
    bad_variable: "ANTHROPIC_API_KEY 같은 환경 변수의 이름을 적어 주세요. 키 자체는 적지 마세요",
    bad_file: "첫 줄에 키가 있는 파일의 경로를 적어 주세요",
    stopped: "답이 더 없어서 아무것도 쓰지 않았습니다",
    name: "이름",
    language: "언어",
    team: "팀",
    nobody: "아직 없음",
    model: "모델",
    next: "다음",
};

impl Words {
    pub(super) fn english() -> &'static Self {
        &ENGLISH
    }

    pub(super) fn of(locale: Locale) -> &'static Self {
        match locale {
            Locale::En => &ENGLISH,
            Locale::Ko => &KOREAN,
        }
    }

    pub(super) fn wrote(&self, path: &Path) -> String {
        match self.locale {
            Locale::En => format!("wrote {} with a new token (`chela token` prints it)", path.display()),
            Locale::Ko => {
                format!("{} 파일을 새 토큰과 함께 썼습니다(`chela token`이 토큰을 출력합니다)", path.display())
            }
        }
    }

    /// What to do about a key that is not where it will be looked for; nothing when it is there.
    pub(super) fn key_is_missing(&self, key: &Secret) -> Option<String> {
        match (key, self.locale) {
            (Secret::Env(source), _) if std::env::var_os(&source.env).is_some() => None,
            (Secret::File(source), _) if source.file.exists() => None,
            (Secret::Env(source), Locale::En) => Some(format!("set {} in the environment of the gateway", source.env)),
            (Secret::Env(source), Locale::Ko) => Some(format!("게이트웨이의 환경에 {} 변수를 정하세요", source.env)),
            (Secret::File(source), Locale::En) => {
                Some(format!("put the key on the first line of {}, mode 0600", source.file.display()))
            }
            (Secret::File(source), Locale::Ko) => {
                Some(format!("{} 파일의 첫 줄에 키를 적으세요(권한 0600)", source.file.display()))
            }
            (Secret::Text(_) | Secret::Credential(_), _) => None,
        }
    }
}
