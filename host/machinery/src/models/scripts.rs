//! Scripts of the provider `scripted`, read again when their file has changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

use chela_model::Script;

/// What the demo team says.
pub const DEMO: &str = include_str!("demo.json5");

const FILES_MAX: usize = 64;
const BYTES_MAX: u64 = 1024 * 1024;

#[derive(Default)]
pub(super) struct Scripts(Mutex<HashMap<PathBuf, (Stamp, Arc<Script>)>>);

type Stamp = (u64, Option<SystemTime>);

impl Scripts {
    /// The script of a file, or of the demo team; else what is wrong with it.
    pub(super) fn get(&self, path: Option<&Path>) -> Result<Arc<Script>, String> {
        static OF_DEMO: LazyLock<Arc<Script>> =
            LazyLock::new(|| Arc::new(Script::parse(DEMO).expect("the demo team's script is good")));
        let Some(path) = path else { return Ok(OF_DEMO.clone()) };
        let failed = |said: String| format!("the script {} cannot be used: {said}", path.display());
        let found = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if !found.is_file() || found.len() > BYTES_MAX {
            return Err(failed(format!("it must be a file of at most {BYTES_MAX} bytes")));
        }
        let stamp = (found.len(), found.modified().ok());
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, script)) = known.get(path).filter(|(seen, _)| *seen == stamp) {
            return Ok(script.clone());
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let script = Arc::new(Script::parse(&text).map_err(|error| failed(error.to_string()))?);
        if known.len() >= FILES_MAX {
            known.clear();
        }
        known.insert(path.to_owned(), (stamp, script.clone()));
        Ok(script)
    }
}
