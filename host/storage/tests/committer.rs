//! The committer: many threads, one journal.
#![cfg(not(feature = "simulation"))]

use std::path::Path;
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use chela_storage::journal::{Committer, Error, Journal, Options, Report, Transaction};

fn open(root: &Path) -> Journal {
    let options =
        Options { segment_bytes: 20_000, dead_bytes_min: 20_000, room_bytes: 3_000, aside: root.join("torn") };
    Journal::open(&root.join("journal"), options).expect("the journal opens").0
}

fn put(kind: &str, id: &str, body: &str) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.put(kind, id, body.as_bytes()).expect("within the limits");
    transaction
}

#[test]
fn sixty_four_threads_commit_in_order_and_whole_while_checkpoints_run() {
    const THREADS: usize = 64;
    const ROUNDS: usize = 30;
    let root = tempfile::tempdir().expect("a temporary directory");
    let (reports, told) = channel();
    let report = move |report| drop(reports.send(report));
    let committer = Committer::start(open(root.path()), 1_000, report).expect("a thread");
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (committer, all) = (&committer, &all);
            scope.spawn(move || {
                let mut last = 0;
                for round in 0..ROUNDS {
                    let mut transaction = put("job", &format!("t{thread}"), &format!("{{\"round\":{round}}}"));
                    transaction
                        .put("twin", &format!("t{thread}"), format!("{round}").as_bytes())
                        .expect("within limits");
                    let seq = committer.commit(transaction).expect("committed");
                    assert!(seq > last, "a later commit has a higher number");
                    last = seq;
                    all.lock().expect("no panic").push(seq);
                }
            });
        }
    });
    assert_eq!(committer.records("twin").expect("readable").len(), THREADS);
    let job = committer.get("job", "t7").expect("readable").expect("there");
    assert_eq!(job.body, format!("{{\"round\":{}}}", ROUNDS - 1).into_bytes());
    let digests = ["t7", "nobody", "t0"].map(chela_storage::Digest::of);
    let mut ids = committer.ids("job", &digests).expect("readable");
    ids.sort_unstable();
    assert_eq!(ids, ["t0", "t7"]);
    assert!(committer.ids("question", &digests).expect("readable").is_empty());
    let journal = committer.stop().expect("it ended by itself");
    let mut all = all.into_inner().expect("no panic");
    all.sort_unstable();
    assert_eq!(all, (1..=(THREADS * ROUNDS) as u64).collect::<Vec<_>>(), "every number once");
    let reports: Vec<Report> = told.try_iter().collect();
    assert!(
        !reports.is_empty() && reports.iter().all(|report| matches!(report, Report::Checkpointed { .. })),
        "{reports:?}"
    );
    drop(journal);
    let journal = open(root.path());
    for kind in ["job", "twin"] {
        assert_eq!(journal.records(kind).len(), THREADS);
    }
    for record in journal.records("twin") {
        let twin = record.expect("readable");
        let job = journal.get("job", &twin.id).expect("readable").expect("there");
        assert_eq!((job.seq, twin.body), (twin.seq, (ROUNDS - 1).to_string().into_bytes()));
    }
}

#[test]
fn a_full_queue_refuses_by_name_and_who_was_let_in_is_answered_also_when_it_ends() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let committer = Committer::start(open(root.path()), 2, |_| {}).expect("a thread");
    let ((busy, is_busy), (go, wait)) = (channel(), sync_channel::<()>(0));
    let hold = move |_| {
        busy.send(()).expect("the test waits");
        let _ = wait.recv();
    };
    committer.submit(put("job", "first", "1"), hold).expect("an empty queue");
    is_busy.recv().expect("the committer is held by its first answer");
    let (answers, answered) = channel();
    let mut let_in = 0;
    let refused = loop {
        let answers = answers.clone();
        let reply =
            move |outcome: Result<u64, Arc<Error>>| answers.send(outcome.expect("committed")).expect("the test waits");
        match committer.submit(put("job", &let_in.to_string(), "1"), reply) {
            Ok(()) => let_in += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::QueueFull { max: 2 }), "{refused}");
    assert_eq!(let_in, 2);
    let stopping = thread::spawn(move || committer.stop());
    drop(go);
    let journal = stopping.join().expect("no panic").expect("it ended by itself");
    drop(answers);
    assert_eq!(answered.iter().collect::<Vec<_>>(), [2, 3]);
    assert_eq!(journal.len(), 3);
}

#[test]
fn what_is_copied_of_a_hold_has_nothing_that_was_committed_after_it() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let committer = Committer::start(open(root.path()), 10, |_| {}).expect("a thread");
    let commit = |id: usize| committer.commit(put("job", &id.to_string(), "1")).expect("committed");
    let before: Vec<u64> = (0..3).map(commit).collect();
    let (noted, notes) = channel();
    let path = root.path().join("journal/state.00000001.ndjson");
    let looks = path.clone();
    // As a backup does: the file is opened and its length noted while nothing is committed, and read when all goes on.
    let note = move || {
        let file = std::fs::File::open(&looks).expect("readable");
        let bytes = file.metadata().expect("its facts").len();
        noted.send((file, bytes)).expect("the test waits");
    };
    committer.hold(note).expect("an empty queue");
    let (file, bytes) = notes.recv().expect("it was held");
    committer.commit(put("job", "after", "1")).expect("committed");
    let mut copy = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, bytes), &mut copy).expect("readable");
    let restored = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(restored.path().join("journal")).expect("made");
    std::fs::write(restored.path().join("journal/state.00000001.ndjson"), copy).expect("written");
    let journal = open(restored.path());
    assert_eq!((before.last(), journal.len()), (Some(&journal.seq()), 3), "all of before, and nothing of after");
    drop(committer);
    assert_eq!(open(root.path()).len(), 4);
}

#[test]
fn a_clean_end_leaves_nothing_that_damage_could_pass_off_as_a_tear() {
    let root = tempfile::tempdir().expect("a temporary directory");
    let committer = Committer::start(open(root.path()), 10, |_| {}).expect("a thread");
    committer.commit(put("job", "a", "1")).expect("committed");
    drop(committer);
    let path = root.path().join("journal/state.00000001.ndjson");
    let mut bytes = std::fs::read(&path).expect("readable");
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let options = Options::new(root.path().join("torn"));
    let opened = Journal::open(&root.path().join("journal"), options);
    assert!(matches!(opened, Err(Error::Corrupt { offset: 0, .. })));
}
