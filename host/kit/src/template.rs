//! A new project: every file of it, ready to be written. It builds and passes its tests as it is.

use crate::name::Name;
use crate::project::{Language, World};
use crate::sources::{CHANNEL_WIT, SDK, WIT};

/// A file of a project, by its path within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub text: String,
}

/// The files of a new project. `version` is that of the program that makes it. A channel is no script: that has none.
pub fn files(name: &Name, world: World, language: Language, version: &str) -> Vec<File> {
    let words = Words::new(name, world, language, version);
    let mut files = vec![
        words.file("README.md", include_str!("../templates/README.md")),
        words.file("plugin.json", include_str!("../templates/plugin.json")),
        words.file(".gitignore", ignored(language)),
        words.file("tests/first.json", cases(world)),
    ];
    let Some((path, text)) = source(world, language) else { return Vec::new() };
    files.push(words.file(&words.fill(path), text));
    match language {
        Language::Rust => {
            files.push(words.file("Cargo.toml", include_str!("../templates/rust/Cargo.toml.txt")));
            files.push(words.file(".cargo/config.toml", SIMD));
            files.push(words.file("vendor/chela-sdk/Cargo.toml", include_str!("../templates/rust/sdk.toml.txt")));
            let sdk = SDK.iter().map(|(name, text)| as_is(format!("vendor/chela-sdk/src/{name}"), text));
            files.extend(sdk);
        }
        Language::Js => {
            files.push(words.file("package.json", include_str!("../templates/js/package.json")));
            files.push(words.file("build.mjs", include_str!("../templates/js/build.mjs")));
        }
        Language::Python => {
            files.push(words.file("requirements.txt", include_str!("../templates/python/requirements.txt")));
        }
        Language::Script => {}
    }
    files.extend(wit(world, language));
    files
}

/// The WIT where the tools of a language look for it: those of JavaScript and Python want what a package uses below it.
fn wit(world: World, language: Language) -> Vec<File> {
    let policy = match (world, language) {
        (_, Language::Script) => return Vec::new(),
        (World::Channel, Language::Js | Language::Python) => "wit/channel/deps/policy",
        _ => "wit/policy",
    };
    let mut files: Vec<File> = WIT.iter().map(|(name, text)| as_is(format!("{policy}/{name}"), text)).collect();
    if world == World::Channel {
        files.extend(CHANNEL_WIT.iter().map(|(name, text)| as_is(format!("wit/channel/{name}"), text)));
    }
    files
}

/// Text work takes half the time with it.
const SIMD: &str = "[target.wasm32-unknown-unknown]\nrustflags = [\"-Ctarget-feature=+simd128\"]\n";

fn as_is(path: String, text: &str) -> File {
    File { path, text: text.to_owned() }
}

fn ignored(language: Language) -> &'static str {
    match language {
        Language::Rust => "/build\n/target\n",
        Language::Js => "/build\n/node_modules\n",
        Language::Python => "/build\n/.venv\n__pycache__\n",
        Language::Script => "/build\n",
    }
}

fn cases(world: World) -> &'static str {
    match world {
        World::Classifier => include_str!("../templates/tests/classifier.json"),
        World::Guard => include_str!("../templates/tests/guard.json"),
        World::Continuation => include_str!("../templates/tests/continuation.json"),
        World::Channel => include_str!("../templates/tests/channel.json"),
    }
}

fn source(world: World, language: Language) -> Option<(&'static str, &'static str)> {
    Some(match (language, world) {
        (Language::Rust, World::Classifier) => ("src/lib.rs", include_str!("../templates/rust/classifier.rs")),
        (Language::Rust, World::Guard) => ("src/lib.rs", include_str!("../templates/rust/guard.rs")),
        (Language::Rust, World::Continuation) => ("src/lib.rs", include_str!("../templates/rust/continuation.rs")),
        (Language::Rust, World::Channel) => ("src/lib.rs", include_str!("../templates/rust/channel.rs")),
        (Language::Js, World::Classifier) => ("plugin.js", include_str!("../templates/js/classifier.js")),
        (Language::Js, World::Guard) => ("plugin.js", include_str!("../templates/js/guard.js")),
        (Language::Js, World::Continuation) => ("plugin.js", include_str!("../templates/js/continuation.js")),
        (Language::Js, World::Channel) => ("plugin.js", include_str!("../templates/js/channel.js")),
        (Language::Python, World::Classifier) => ("plugin.py", include_str!("../templates/python/classifier.py")),
        (Language::Python, World::Guard) => ("plugin.py", include_str!("../templates/python/guard.py")),
        (Language::Python, World::Continuation) => ("plugin.py", include_str!("../templates/python/continuation.py")),
        (Language::Python, World::Channel) => ("plugin.py", include_str!("../templates/python/channel.py")),
        (Language::Script, World::Classifier) => ("{{name}}.rhai", include_str!("../templates/script/classifier.rhai")),
        (Language::Script, World::Guard) => ("{{name}}.rhai", include_str!("../templates/script/guard.rhai")),
        (Language::Script, World::Continuation) => {
            ("{{name}}.rhai", include_str!("../templates/script/continuation.rhai"))
        }
        (Language::Script, World::Channel) => return None,
    })
}

/// What stands in the place of each `{{word}}` of a template.
struct Words(Vec<(&'static str, String)>);

impl Words {
    fn new(name: &Name, world: World, language: Language, version: &str) -> Self {
        let summary = match world {
            World::Classifier => "Finds the category of conversations by words",
            World::Guard => "Keeps agents from deleting files outside their scratch folder",
            World::Continuation => "Tells agents to work step by step, and stopped ones to go on",
            World::Channel => "Speaks to a small chat network: one socket, JSON frames",
        };
        let (features, manual) = match world {
            World::Channel => (
                ", features = [\"channel\"]",
                "\n\nBefore it is loaded, `channels.{{name}}` in `chela.json` says what it may reach: `{ \"config\": { \"url\": \"wss://…\" }, \"grants\": { \"hosts\": [\"…\"] } }`.\nThe world `channel` is a draft: a later Chela may want it built again.",
            ),
            World::Classifier | World::Guard | World::Continuation => ("", ""),
        };
        let manual = manual.replace("{{name}}", name.as_str());
        let (language_name, place) = match language {
            Language::Rust => {
                ("Rust", "The code is in `src/lib.rs`; `vendor/chela-sdk` is the SDK, `wit/` documents every field.")
            }
            Language::Js => (
                "JavaScript",
                "The code is in `plugin.js`; `wit/` documents every field that it is given. The engine needs memory: bind it in `chela.json` with `limits: { memoryMb: 96 }`.",
            ),
            Language::Python => (
                "Python",
                "The code is in `plugin.py`; `wit/` documents every field that it is given. The engine needs memory: bind it in `chela.json` with `limits: { memoryMb: 96 }`.",
            ),
            Language::Script => ("Rhai", "The code is the `.rhai` file; nothing has to be installed for it."),
        };
        let component = match language {
            Language::Script => format!("{name}.rhai"),
            _ => format!("build/{name}.wasm"),
        };
        let built = match language {
            Language::Script => "reads the script; there is nothing to build".to_owned(),
            _ => format!("makes {component}"),
        };
        let memory = language.memory_mb().map(|memory| format!(",\n  \"memoryMb\": {memory}"));
        Self(vec![
            ("name", name.to_string()),
            ("type", name.as_type()),
            ("world", world.as_str().into()),
            ("language", language.as_str().into()),
            ("language-name", language_name.into()),
            ("where", place.into()),
            ("summary", summary.into()),
            ("slot", world.slot(name.as_str())),
            ("component", component),
            ("built", built),
            ("memory", memory.unwrap_or_default()),
            ("version", version.into()),
            ("features", features.into()),
            ("manual", manual),
        ])
    }

    fn file(&self, path: &str, template: &str) -> File {
        File { path: path.to_owned(), text: self.fill(template) }
    }

    fn fill(&self, template: &str) -> String {
        self.0.iter().fold(template.to_owned(), |text, (word, value)| text.replace(&format!("{{{{{word}}}}}"), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Project, cases as read_cases};

    #[test]
    fn every_project_is_whole_and_says_what_it_is() {
        let name = Name::parse("no-deletes", []).expect("a name");
        let all = World::ALL.into_iter().flat_map(|world| Language::ALL.map(|language| (world, language)));
        for (world, language) in all.filter(|pair| *pair != (World::Channel, Language::Script)) {
            let files = files(&name, world, language, "0.1.0");
            let text = |path: &str| {
                let found = files.iter().find(|file| file.path == path);
                found.map(|file| file.text.as_str()).unwrap_or_else(|| panic!("{path} is not there"))
            };
            let project = Project::read(text("plugin.json")).expect("a project");
            assert_eq!((project.name.as_str(), project.world, project.language), ("no-deletes", world, language));
            assert_eq!(project.memory_mb, language.memory_mb());
            let cases = read_cases(text("tests/first.json")).expect("good cases");
            assert!(!cases.is_empty());
            assert!(text("README.md").contains(&format!("--slot {}", world.slot("no-deletes"))));
            for file in &files {
                assert!(!file.text.contains("{{name") && !file.text.contains("{{summary"), "{}", file.path);
                assert!(!file.path.starts_with('/') && !file.path.contains(".."), "{}", file.path);
            }
        }
    }
}
