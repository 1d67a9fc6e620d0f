//! Guests that `cargo xtask` built for the tests, and short ways to ask and change the policies of a host.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use chela::plugins::{About, Answered, From, Handle, Load, SlotName};
use chela::policy::{Classification, Conversation};
use serde_json::{Value, json};

use crate::TestHost;

/// Where cargo and `cargo xtask` leave what they build.
pub fn target() -> PathBuf {
    let suite = std::env::current_exe().expect("the suite is a file");
    suite.ancestors().nth(3).expect("in target/PROFILE/deps").to_owned()
}

/// A component of `tests/guests`.
pub fn guest(name: &str) -> PathBuf {
    let path = target().join("guests").join(format!("{name}.wasm"));
    assert!(path.is_file(), "{} is not built; run `cargo xtask test`", path.display());
    path
}

pub fn guest_bytes(name: &str) -> Vec<u8> {
    fs::read(guest(name)).expect("readable")
}

/// A component of `tests/corpus`, as it was built when its world was frozen.
pub fn corpus(version: &str, name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("corpus/{version}/{name}.wasm.zst"));
    let packed = fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut unpacked = ruzstd::decoding::StreamingDecoder::new(packed).expect("it is packed by zstd");
    let mut bytes = Vec::new();
    unpacked.read_to_end(&mut bytes).expect("it is whole");
    bytes
}

/// A path as text.
pub fn path_of(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

impl TestHost {
    /// A new gateway whose classifier is a guest with this configuration.
    pub fn with_classifier(name: &str, config: Value) -> Self {
        // A call waits twenty times this for an instance and for the processor: on a busy machine a second is not much.
        let binding = json!({ "source": path_of(&guest(name)), "config": config, "limits": { "cpuMs": 500 } });
        let host = Self::start_with(|file| file["plugins"]["classifier"] = binding);
        host.block_on(host.plugins().loaded());
        host
    }

    pub fn plugins(&self) -> &Handle {
        self.app().plugins()
    }

    /// The classification of a conversation of one text.
    pub fn classify(&self, text: &str) -> Answered<Classification> {
        let conversation = Conversation { texts: vec![text.to_owned()], ..Conversation::default() };
        let about = About::default();
        let mut answered = self.block_on(self.plugins().categories(vec![conversation], &about));
        assert_eq!(answered.answer.len(), 1, "one answer for one conversation");
        Answered { answer: answered.answer.remove(0), by: answered.by }
    }

    /// The category of a text, by whatever serves.
    pub fn category(&self, text: &str) -> Option<String> {
        self.classify(text).answer.primary
    }

    /// Loads a file or `builtin:NAME` as an operator does.
    pub fn load(&self, slot: &str, source: &str, config: Value) -> Result<Value, String> {
        self.load_with(slot, From::Source(source.to_owned()), Some(config), false)
    }

    /// Sends a component's bytes as an operator does.
    pub fn upload(&self, slot: &str, name: &str, bytes: Vec<u8>) -> Result<Value, String> {
        self.load_with(slot, From::Bytes { name: name.to_owned(), bytes: bytes.into(), signature: None }, None, false)
    }

    pub fn load_with(&self, slot: &str, from: From, config: Option<Value>, shadow_only: bool) -> Result<Value, String> {
        let config = config.map(|config| config.as_object().expect("an object").clone());
        let load = Load { slot: slot.parse().expect("a slot"), from, config, shadow_only, fresh: false };
        self.block_on(self.plugins().load(load)).map_err(|error| error.to_string())
    }

    /// An operator's `verb` on a slot.
    pub fn operate(&self, verb: &str, slot: &str) -> Result<Value, String> {
        let (plugins, slot): (_, SlotName) = (self.plugins(), slot.parse().expect("a slot"));
        let done = self.block_on(async {
            match verb {
                "unload" => plugins.unload(slot).await,
                "disable" => plugins.disable(slot).await,
                "enable" => plugins.enable(slot).await,
                "accept" => plugins.accept(slot).await,
                "rollback" => plugins.rollback(slot).await,
                "release" => plugins.release(slot).await,
                other => panic!("no verb {other}"),
            }
        });
        done.map_err(|error| error.to_string())
    }

    /// What people see of a slot.
    pub fn slot(&self, name: &str) -> Value {
        self.block_on(self.plugins().loaded());
        let view = self.plugins().slots().into_iter().find(|view| view.slot == name);
        view.map_or(Value::Null, |view| json!(view))
    }

    /// What events of a kind have told, oldest first.
    pub fn told(&self, kind: &str) -> Vec<Value> {
        let events = self.events().into_iter().filter(|event| event["type"] == kind);
        events.map(|event| event["data"].clone()).collect()
    }

    /// The texts that the plugins of a slot have logged.
    pub fn logged(&self, slot: &str) -> Vec<String> {
        let lines = self.block_on(self.plugins().logs(slot.parse().expect("a slot"), 10_000)).expect("read");
        lines.iter().map(|line| line["text"].as_str().expect("a text").to_owned()).collect()
    }
}
