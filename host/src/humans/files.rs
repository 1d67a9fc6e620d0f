//! Open questions as files that people read: written behind what the journal has, never read back.

use std::path::Path;
use std::{fs, io};

use chela_question::Question;

/// Its file says how a question stands; there is none once it is over.
pub(super) fn show(dir: &Path, question: &Question) -> io::Result<()> {
    let path = dir.join(name(&question.id));
    if !question.is_open() {
        return match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    chela_storage::make_private_dir(dir)?;
    let text = serde_json::to_vec_pretty(question).map_err(io::Error::other)?;
    let beside = dir.join(format!(".{}.tmp", name(&question.id)));
    fs::write(&beside, text)?;
    fs::rename(beside, path)
}

/// Files of exactly these questions, as of a start.
pub(super) fn show_all(dir: &Path, open: &[std::sync::Arc<Question>]) -> io::Result<()> {
    let there = match fs::read_dir(dir) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => Vec::new(),
    };
    let is_open = |path: &Path| open.iter().any(|question| path.file_name() == Some(name(&question.id).as_ref()));
    for path in there.iter().filter(|path| path.is_file() && !is_open(path)) {
        fs::remove_file(path)?;
    }
    open.iter().try_for_each(|question| show(dir, question))
}

/// Ids of questions are our own, so they are good names.
fn name(id: &str) -> String {
    format!("question-{id}.json")
}
