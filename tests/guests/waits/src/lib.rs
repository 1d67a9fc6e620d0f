//! A classifier that asks WASI for what a policy must not have. A text such as `!sleep` says what for; the reason tells what it got.

use chela_sdk::classifier::{CategoriesRequest, Classification, Classifier, Role, RolesRequest, Source};
use chela_sdk::{ConfigError, Failure, Plugin, no_config};

mod asked {
    wit_bindgen::generate!({ path: "wit", world: "asks", generate_all });
}

use asked::wasi::cli::{exit, stdin};
use asked::wasi::clocks::monotonic_clock;
use asked::wasi::io::poll;
use asked::wasi::random::random;

const HOUR_NS: u64 = 3_600 * 1_000_000_000;

struct Waits;

impl Plugin for Waits {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        no_config(json).map(|()| Self)
    }
}

impl Classifier for Waits {
    fn roles(&self, request: RolesRequest) -> Result<Vec<Role>, Failure> {
        Ok(request.events.iter().map(|_| Role::SystemObservability).collect())
    }

    fn categories(&self, request: CategoriesRequest) -> Result<Vec<Classification>, Failure> {
        let text = request.conversations.first().and_then(|conversation| conversation.texts.first());
        let reason = got(text.map_or("", String::as_str));
        let answer = |_| Classification {
            primary: Some("research_analysis".into()),
            secondary: Vec::new(),
            sub_tags: Vec::new(),
            confidence: 1.0,
            source: Source::Rule,
            reason: reason.clone(),
        };
        Ok(request.conversations.iter().map(answer).collect())
    }
}

fn got(text: &str) -> String {
    match text {
        "!sleep" => {
            monotonic_clock::subscribe_duration(HOUR_NS).block();
            "an hour is over".into()
        }
        "!poll" => {
            let (hour, input) = (monotonic_clock::subscribe_duration(HOUR_NS), stdin::get_stdin().subscribe());
            format!("ready: {:?}, {}", poll::poll(&[&hour, &input]), hour.ready())
        }
        "!poll-for-ever" => loop {
            poll::poll(&[&monotonic_clock::subscribe_duration(HOUR_NS)]);
        },
        "!read" => {
            let input = stdin::get_stdin();
            let mut bytes = 0;
            while let Ok(read) = input.blocking_read(4_096) {
                bytes += read.len();
            }
            format!("{bytes} bytes, then the end")
        }
        "!random" => format!("{} bytes", random::get_random_bytes(1_000_000_000).len()),
        "!exit" => {
            exit::exit(Ok(()));
            "still here".into()
        }
        _ => {
            let chance = (random::get_random_u64(), random::get_random_bytes(4));
            format!("{} ns, {} {:?}", monotonic_clock::now(), chance.0, chance.1)
        }
    }
}

chela_sdk::classifier!(Waits);
