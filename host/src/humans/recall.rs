//! Open questions from the event log, for a gateway that has lost its journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use chela_question::{Question, Recalled, What, recall};
use chela_storage::Catalogue;

use crate::bus;
use crate::event::Event;
use crate::layout::{EVENT_LOG_STEM, StateDir};

/// A line past this is not ours.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// What the ids of events about questions begin with.
const OURS: &str = "human_query:";

/// The questions that are open by what the log was told.
pub(super) fn open(dir: &StateDir) -> io::Result<Vec<Question>> {
    let mut open: BTreeMap<String, Question> = BTreeMap::new();
    let segments = match Catalogue::new(&dir.logs(), EVENT_LOG_STEM, bus::time_of).segments() {
        Ok(segments) => segments,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    for segment in segments {
        read(&segment.path, |line| match told(line) {
            Some(Recalled::Open(question)) => drop(open.insert(question.id.clone(), *question)),
            Some(Recalled::Over { id }) => drop(open.remove(&id)),
            None => {}
        })?;
    }
    Ok(open.into_values().collect())
}

fn read(path: &Path, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let (mut reader, mut line) = (BufReader::new(File::open(path)?), Vec::new());
    loop {
        line.clear();
        if Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        take(&line);
    }
}

fn told(line: &[u8]) -> Option<Recalled> {
    // Most lines are about something else.
    memchr::memmem::find(line, OURS.as_bytes())?;
    let event: Event = serde_json::from_slice(line).ok()?;
    let what = match event.kind.as_str() {
        "human_query.requested" => What::Requested,
        "human_query.answered" => What::Answered,
        "human_query.expired" => What::Expired,
        _ => return None,
    };
    let (id, rev) = event.id.strip_prefix(OURS)?.rsplit_once(':')?;
    let rev = rev.split_once('.').map_or(rev, |(rev, _)| rev).parse().ok()?;
    (event.data.get("questionId")? == id).then(|| recall(what, &event.data, rev, event.ts.0)).flatten()
}
