//! A classifier that answers well until it is told not to: by its configuration, or by a text or an event type such as `!loop`.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use chela_sdk::classifier::{CategoriesRequest, Classification, Classifier, Role, RolesRequest, Source};
use chela_sdk::{ConfigError, Failure, Plugin, log, parse_config};

#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Unruly {
    /// The function that goes wrong: `configure`, `categories` or `roles`.
    on: String,
    #[serde(rename = "do")]
    deed: String,
}

impl Plugin for Unruly {
    fn configure(json: &str) -> Result<Self, ConfigError> {
        let unruly: Self = parse_config(json)?;
        if unruly.on == "configure" {
            if unruly.deed == "refuse" {
                return Err(ConfigError::at("do", "anything else"));
            }
            go_wrong(&unruly.deed);
        }
        Ok(unruly)
    }
}

impl Unruly {
    /// What is to go wrong in `function`: as configured, or as `asked` in the call.
    fn deed<'a>(&'a self, function: &str, asked: Option<&'a str>) -> &'a str {
        if self.on == function { &self.deed } else { asked.and_then(|text| text.strip_prefix('!')).unwrap_or_default() }
    }
}

impl Classifier for Unruly {
    fn roles(&self, request: RolesRequest) -> Result<Vec<Role>, Failure> {
        let deed = self.deed("roles", request.events.first().map(|event| event.event_type.as_str()));
        go_wrong(deed);
        let mut roles: Vec<Role> = request.events.iter().map(|_| Role::ConversationMain).collect();
        match deed {
            "other" => roles[0] = Role::Other,
            "wrong-count" => roles.push(Role::ConversationMain),
            "huge-list" => roles = vec![Role::ConversationMain; 5_000_000],
            "decline" => return Err(Failure::Unsupported("no roles today".into())),
            _ => {}
        }
        Ok(roles)
    }

    fn categories(&self, request: CategoriesRequest) -> Result<Vec<Classification>, Failure> {
        let first = request.conversations.first().and_then(|conversation| conversation.texts.first());
        let deed = self.deed("categories", first.map(String::as_str));
        go_wrong(deed);
        let mut answers: Vec<Classification> = request.conversations.iter().map(|_| good()).collect();
        match deed {
            "wrong-count" => answers.push(good()),
            "none" => answers.clear(),
            "unknown-category" => answers[0].primary = Some("no_such_category".into()),
            "unknown-secondary" => answers[0].secondary = vec!["no_such_category".into()],
            "nan" => answers[0].confidence = f64::NAN,
            "too-sure" => answers[0].confidence = 2.0,
            "other" => answers[0].source = Source::Other,
            "many-tags" => answers[0].sub_tags = vec!["tag".into(); 9],
            "long-tag" => answers[0].sub_tags = vec!["t".repeat(41)],
            "long-string" => answers[0].reason = "r".repeat(1_000_000),
            "huge-string" => answers[0].reason = "r".repeat(10_000_000),
            "huge-list" => answers = (0..100_000).map(|_| Classification { reason: String::new(), ..good() }).collect(),
            "decline" => return Err(Failure::Internal("not today".into())),
            "decline-first" if !DECLINED.swap(true, Ordering::Relaxed) => {
                return Err(Failure::Internal("not yet".into()));
            }
            _ => {}
        }
        Ok(answers)
    }
}

/// Whether this instance has declined before.
static DECLINED: AtomicBool = AtomicBool::new(false);

fn good() -> Classification {
    Classification {
        primary: Some("infra_ops".into()),
        secondary: Vec::new(),
        sub_tags: Vec::new(),
        confidence: 0.9,
        source: Source::Rule,
        reason: "unruly".into(),
    }
}

/// What can go wrong anywhere.
fn go_wrong(deed: &str) {
    match deed {
        "loop" => loop {
            black_box(0);
        },
        "trap" => trap(),
        "panic" => panic!("unruly was told to panic"),
        "grow" => loop {
            black_box(vec![1_u8; 1 << 20].leak());
        },
        "recurse" => {
            black_box(deep(0));
        }
        "flood-and-panic" => {
            go_wrong("log-flood");
            go_wrong("panic");
        }
        "error-flood" => (0..1_000).for_each(|n| log::error(&format!("{n:04} {}", "x".repeat(1_000)))),
        "log-flood" => (0..1_000).for_each(|n| log::info(&format!("{n:04} {}", "x".repeat(1_000)))),
        "long-line" => log::warn(&"y".repeat(100_000)),
        "work" => {
            black_box((0..20_000_000_u64).fold(0, |sum, n| black_box(sum ^ n)));
        }
        _ => {}
    }
}

#[cfg(target_family = "wasm")]
fn trap() {
    core::arch::wasm32::unreachable();
}

#[cfg(not(target_family = "wasm"))]
fn trap() {}

/// Uses the stack of the machine alone, none in memory, so that it is the nesting that ends it.
#[inline(never)]
fn deep(n: u32) -> u32 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    if CALLS.fetch_add(1, Ordering::Relaxed) == u32::MAX {
        return n;
    }
    deep(n + 1) ^ CALLS.load(Ordering::Relaxed)
}

chela_sdk::classifier!(Unruly);
