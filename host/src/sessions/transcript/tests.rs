//! Transcripts that are cut off, cannot be written, or are written again.

use super::*;
use crate::clock::Timestamp;

#[test]
fn a_page_from_behind_is_the_same_wherever_chunks_end() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("t.jsonl");
    let rows: Vec<Value> = (0..200).map(|n| json!({ "n": n, "text": "x".repeat(n * 37 % 3_000) })).collect();
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(&path, format!("{lines}{{\"torn")).expect("written");
    for max in [1, 2, 7, 199, 200, 500] {
        let page = tail(&path, None, max, |_| true).expect("read");
        assert_eq!(page.rows, rows[200 - max.min(200)..], "{max}");
        let before = tail(&path, Some(page.begin), 3, |_| true).expect("read");
        let end = 200 - max.min(200);
        assert_eq!(before.rows, rows[end.saturating_sub(3)..end], "{max}");
    }
    let page = tail(&path, None, 500, |row| row["n"] != 150).expect("read");
    assert_eq!(page.rows, rows[150..]);
    assert!(tail(&temp.path().join("none"), None, 5, |_| true).expect("nothing").rows.is_empty());
}

#[test]
fn a_torn_end_is_cut_off_and_rows_go_on_with_their_numbers() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("a/t.jsonl");
    let mut files = Files::default();
    files.append(&path, &mut [json!({ "a": 1 }), json!({ "a": 2 })]).expect("appended");
    drop(files.open.remove(&path));
    let mut torn = OpenOptions::new().append(true).open(&path).expect("there");
    torn.write_all(b"{\"a\":").expect("torn");
    let mut rows = [json!({ "a": 3 })];
    files.append(&path, &mut rows).expect("appended");
    assert_eq!(rows[0]["__openclaw"]["seq"], 3);
    let page = tail(&path, None, 9, |_| true).expect("read");
    assert_eq!(page.rows.iter().map(|row| row["a"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(2), Some(3)]);
}

#[test]
fn last_rows_that_a_file_does_not_take_are_written_first_when_it_does() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("t.jsonl");
    let disk = Disk::start(|_| {}).expect("a thread");
    let mut thread = Thread::new(disk, Box::new(|_, _| Ok(())));
    // A directory of its name takes no rows.
    std::fs::create_dir(&path).expect("made");
    let row = |n: u64| vec![json!({ "n": n })];
    assert!(thread.take(path.clone(), row(1), true).is_err());
    assert!(thread.take(path.clone(), row(2), false).is_err(), "whoever asked for this asks again");
    assert!(thread.take(path.clone(), row(3), true).is_err());
    thread.pay();
    assert_eq!(thread.owed.get(&path).map(Vec::len), Some(2));
    std::fs::remove_dir(&path).expect("ours");
    let numbered = thread.take(path.clone(), row(4), false).expect("it takes them now");
    assert_eq!((numbered.len(), &numbered[0]["__openclaw"]["seq"]), (1, &json!(3)));
    assert!(thread.owed.is_empty() && thread.refused.is_empty());
    let page = tail(&path, None, 9, |_| true).expect("read");
    assert_eq!(page.rows.iter().map(|row| row["n"].as_u64()).collect::<Vec<_>>(), [Some(1), Some(3), Some(4)]);
}

fn ended(run: &str, path: &Path) -> Ended {
    let accepted = json!({
        "id": run, "order": 1, "session": "agent:eden:main", "sessionId": "s", "method": "agent", "text": "", "at": 1,
        "chain": { "id": "c", "hop": 0 },
    });
    let accepted = serde_json::from_value(accepted).expect("a message");
    let run = super::super::record::Run { accepted, resumed: 0, ended: None, settled: false };
    (run, 0, path.to_owned())
}

/// A thread that mends a file with one row for each run that it lacks, and the runs that it has settled.
fn mending() -> (Thread, std::sync::mpsc::Receiver<Vec<String>>) {
    let (told, settled) = std::sync::mpsc::channel();
    let settle = move |runs: Vec<(super::super::record::Run, u32)>| {
        let _ = told.send(runs.into_iter().map(|(run, _)| run.accepted.id).collect());
    };
    let mend = |path: &Path, runs: &[Ended]| {
        let there = there(path, Timestamp(0))?;
        let names = runs.iter().map(|(run, ..)| &run.accepted.id).filter(|id| !there.contains(*id));
        append_now(path, names.map(|id| json!({ "__openclaw": { "id": id } })).collect())
    };
    (Thread::new(Disk::start(settle).expect("a thread"), Box::new(mend)), settled)
}

fn names(path: &Path) -> Vec<String> {
    let page = tail(path, None, 99, |_| true).expect("read");
    page.rows.iter().map(|row| row["__openclaw"]["id"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_file_whose_flush_failed_is_mended_without_a_restart_and_its_runs_are_settled() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("t.jsonl");
    let (mut thread, settled) = mending();
    let row = |id: &str| vec![json!({ "__openclaw": { "id": id } })];
    thread.take(path.clone(), row("a"), true).expect("taken");
    // As the disk's thread reports it; of the second run nothing arrived.
    thread.files.dirty.clear();
    let failed = HashSet::from([path.clone()]);
    thread.hear(Some(Report { failed, unsettled: vec![ended("a", &path), ended("b", &path)] }));
    assert!(thread.take(path.clone(), row("c"), true).is_err(), "not before what it lacks");
    thread.flush_now();
    assert_eq!(settled.recv().expect("settled"), ["a", "b"]);
    thread.end(ended("c", &path));
    thread.take(path.clone(), row("d"), true).expect("it takes rows again");
    thread.flush_now();
    assert_eq!(settled.recv().expect("settled"), ["c"]);
    assert_eq!(names(&path), ["a", "b", "d", "c"]);
    assert!(thread.refused.is_empty() && thread.ended.is_empty());
    thread.end(ended("d", &path));
    thread.flush_now();
    assert_eq!(settled.recv().expect("settled"), ["d"], "as ever");
}

#[test]
fn rows_that_were_too_many_to_be_held_come_from_the_journal() {
    let temp = tempfile::tempdir().expect("a directory");
    let path = temp.path().join("t.jsonl");
    let (mut thread, settled) = mending();
    std::fs::create_dir(&path).expect("made");
    let many = (0..=OWED_MAX).map(|n| json!({ "n": n })).collect();
    assert!(thread.take(path.clone(), many, true).is_err());
    thread.end(ended("a", &path));
    thread.flush_now();
    assert!(thread.owed.is_empty() && settled.try_recv().is_err(), "neither held nor settled");
    std::fs::remove_dir(&path).expect("ours");
    if let Some(refused) = thread.refused.get_mut(&path) {
        refused.again = None;
    }
    thread.flush_now();
    assert_eq!(settled.recv().expect("settled"), ["a"]);
    assert_eq!(names(&path), ["a"]);
}
