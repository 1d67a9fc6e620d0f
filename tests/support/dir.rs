//! A state directory of one test, removed when the test ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use chela::config::Starter;
use chela::layout::StateDir;
use chela::{app, settings};
use serde_json::Value;

pub struct TestDir {
    temp: tempfile::TempDir,
    pub state: StateDir,
}

impl TestDir {
    /// With nothing in it: a first start writes all.
    pub fn empty() -> Self {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let state = StateDir::new(temp.path().join("state"));
        Self { temp, state }
    }

    /// With the configuration of a first start, changed by `edit`, on free ports.
    pub fn with_config(edit: impl FnOnce(&mut Value)) -> Self {
        let dir = Self::empty();
        app::init(&dir.state, &Starter::default()).expect("a first configuration");
        dir.edit_config(|config| {
            for listener in ["gateway", "monitor", "hub"] {
                config[listener]["listen"] = "127.0.0.1:0".into();
            }
            edit(config);
        });
        dir
    }

    /// Changes the configuration as an editor does: a new file renamed over the old one.
    pub fn edit_config(&self, edit: impl FnOnce(&mut Value)) {
        let mut config: Value =
            serde_json::from_str(&fs::read_to_string(self.state.config()).expect("a configuration")).expect("JSON");
        edit(&mut config);
        self.write_config(&serde_json::to_vec_pretty(&config).expect("JSON"));
    }

    pub fn write_config(&self, bytes: &[u8]) {
        let beside = self.scratch().join("new-chela.json");
        fs::write(&beside, bytes).expect("written");
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).expect("its owner's");
        fs::rename(&beside, self.state.config()).expect("put in place");
    }

    /// A place of the test's own, outside the state directory.
    pub fn scratch(&self) -> &Path {
        self.temp.path()
    }

    /// Every event of the log. While a gateway writes, the last line may be half there: then it does not count yet.
    pub fn events(&self) -> Vec<Value> {
        let bytes = fs::read(self.state.event_log()).unwrap_or_default();
        let ended = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let (whole, last) = bytes.split_at(ended);
        let lines = whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let events = lines.map(|line| serde_json::from_slice(line).expect("a line of the log is JSON"));
        events.chain(serde_json::from_slice(last)).collect()
    }

    pub fn event_types(&self) -> Vec<String> {
        self.events().iter().map(|event| event["type"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Those whose type starts with `prefix`.
    pub fn event_types_of(&self, prefix: &str) -> Vec<String> {
        self.event_types().into_iter().filter(|kind| kind.starts_with(prefix)).collect()
    }

    pub fn token(&self) -> String {
        settings::load(&self.state).expect("settings").tokens.owner().to_owned()
    }

    /// Every path below the state directory, relative to it.
    pub fn files(&self) -> Vec<String> {
        files(&self.state)
    }
}

/// A gateway that has ended leaves what it keeps, and nothing it used while it ran.
pub(crate) fn assert_no_stray_files(state: &StateDir) {
    let known = |path: &str| {
        let kept =
            ["chela.json", "logs", "run", "run/lock", "index", "work-session-category-overrides.json", "state.json"];
        let state = ["journal", "milestones.json", "todos.json", "logs/corrupt-journal.ndjson", "openclaw.json"];
        let logs = ["logs/coordination-events.ndjson", "logs/audit.ndjson", "logs/corrupt.ndjson"];
        let plugins =
            ["plugins", "plugins/cache", "plugins/kept", "plugins/bindings.json", "logs/plugins", "decisions"];
        let ring = |path: &str| path.ends_with(".ndjson") || path.ends_with(".ndjson.1");
        kept.contains(&path)
            || logs.contains(&path)
            || state.contains(&path)
            || (path.starts_with("journal/") && path.ends_with(".ndjson"))
            || plugins.contains(&path)
            || path.starts_with("workspace-")
            || path.starts_with("index/events.sqlite")
            || path.starts_with("a2a-jobs")
            || path == "human"
            || (path.starts_with("human/question-") && path.ends_with(".json"))
            || ["transcripts", "transcripts/.whole"].contains(&path)
            || (path.starts_with("transcripts/") && path.ends_with(".jsonl"))
            || path == "sessions"
            || (path.starts_with("sessions/") && (path.ends_with(".jsonl") || !path.contains('.')))
            || (path.starts_with("logs/coordination-events") && path.ends_with(".ndjson"))
            || (path.starts_with("logs/audit.") && path.ends_with(".ndjson"))
            || (path.starts_with("plugins/cache/") && (path.ends_with(".cwasm") || path.ends_with(".json")))
            || (path.starts_with("plugins/")
                && [".wasm", ".wasm.sig", ".json5", ".rhai"].iter().any(|ending| path.ends_with(ending)))
            || ((path.starts_with("decisions/") || path.starts_with("logs/plugins/")) && ring(path))
    };
    let strays: Vec<String> = files(state).into_iter().filter(|path| !known(path)).collect();
    assert!(strays.is_empty(), "left behind in the state directory: {strays:?}");
}

fn files(state: &StateDir) -> Vec<String> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = vec![state.path().to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            found.push(path.strip_prefix(state.path()).expect("below it").display().to_string());
            if path.is_dir() {
                left.push(path);
            }
        }
    }
    found.sort();
    found
}
