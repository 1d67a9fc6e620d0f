//! Whether the event log tells of each job what its record says.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::Result;
use chela::layout::{EVENT_LOG_STEM, StateDir};
use serde_json::Value;

#[derive(Default)]
struct Told {
    /// Events by type, each id once.
    kinds: HashMap<String, BTreeSet<String>>,
}

/// One sentence for each job that does not agree.
pub fn disagreements(dir: &StateDir, jobs: &BTreeMap<String, Value>) -> Result<Vec<String>> {
    let mut told: HashMap<String, Told> = HashMap::new();
    for entry in std::fs::read_dir(dir.logs())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.starts_with(EVENT_LOG_STEM) {
            continue;
        }
        for line in std::fs::read_to_string(&path)?.lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
            let (Some(job), Some(kind)) = (event["data"]["jobId"].as_str(), event["type"].as_str()) else { continue };
            let kinds = &mut told.entry(job.to_owned()).or_default().kinds;
            kinds.entry(kind.to_owned()).or_default().insert(event["id"].to_string());
        }
    }
    let mut wrong = Vec::new();
    for (id, job) in jobs {
        let kinds = told.remove(id).unwrap_or_default().kinds;
        let count = |kind: &str| kinds.get(kind).map_or(0, BTreeSet::len);
        let responses = job["turns"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|turn| turn["state"] == "answered" && (turn["turn"] == 0 || turn["reply"] != "REPLY_SKIP"));
        let (ended, completed) = (!job["finishedAt"].is_null(), job["status"] == "COMPLETED");
        // One that came to nothing says so once.
        let blocked = usize::from(job["status"] == "FAILED");
        let expected = [
            ("job.created", 1),
            ("a2a.send", 1),
            ("a2a.response", responses.count() + blocked),
            ("a2a.complete", usize::from(ended)),
            ("job.completed", usize::from(ended && completed)),
            ("job.resumed", job["resumeCount"].as_u64().unwrap_or(0) as usize),
        ];
        for (kind, expected) in expected {
            if count(kind) != expected {
                wrong.push(format!("of job {id} the log has {} {kind}, not {expected}", count(kind)));
            }
        }
    }
    wrong.extend(told.into_keys().map(|id| format!("the log tells of job {id}, which has no record")));
    Ok(wrong)
}
