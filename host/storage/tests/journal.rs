//! The journal on real files: what it keeps, what it mends, what it refuses.
#![cfg(not(feature = "simulation"))]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use chela_storage::journal::{self, Cut, Error, Journal, Options, Recovery, Transaction};
use tempfile::TempDir;

struct Place {
    root: TempDir,
    options: Options,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        let options =
            Options { segment_bytes: 400, dead_bytes_min: 1_000, room_bytes: 0, aside: root.path().join("torn") };
        Self { root, options }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("journal")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    fn try_open(&self) -> Result<(Journal, Recovery), Error> {
        Journal::open(&self.dir(), self.options.clone())
    }

    fn open(&self) -> Journal {
        self.try_open().expect("the journal opens").0
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir()).expect("readable");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Flips a bit of the file's line, counted from 0, and gives where the line begins.
    fn damage(&self, name: &str, line: usize) -> u64 {
        let path = self.file(name);
        let mut bytes = fs::read(&path).expect("readable");
        let start: usize = bytes.split_inclusive(|byte| *byte == b'\n').take(line).map(<[u8]>::len).sum();
        bytes[start + 20] ^= 1;
        fs::write(&path, bytes).expect("written");
        start as u64
    }

    fn assert_corrupt(&self, name: &str, offset: u64) {
        let before: Vec<_> = self.names().iter().map(|name| fs::read(self.file(name)).expect("readable")).collect();
        match self.try_open() {
            Err(Error::Corrupt { path, offset: told, .. }) => assert_eq!((path, told), (self.file(name), offset)),
            other => panic!("damage must be told, not {other:?}"),
        }
        let after: Vec<_> = self.names().iter().map(|name| fs::read(self.file(name)).expect("readable")).collect();
        assert_eq!(after, before, "nothing is changed");
    }
}

fn put(kind: &str, id: &str, body: &str) -> Transaction {
    let mut transaction = Transaction::new();
    transaction.put(kind, id, body.as_bytes()).expect("within the limits");
    transaction
}

fn commit(journal: &mut Journal, group: &[Transaction]) {
    journal.commit(group).expect("committed");
}

fn records(journal: &Journal, kind: &str) -> Vec<(String, u64, String)> {
    let record = |record: Result<chela_storage::journal::Record, Error>| {
        let record = record.expect("readable");
        (record.id, record.seq, String::from_utf8(record.body).expect("JSON is text"))
    };
    journal.records(kind).map(record).collect()
}

fn checkpoint(journal: &mut Journal) {
    let written = journal.begin_checkpoint().and_then(|begun| begun.write()).expect("written");
    journal.finish_checkpoint(written).expect("finished");
}

#[test]
fn what_was_committed_is_there_after_opening_again() {
    let place = Place::new();
    let mut journal = place.open();
    let mut both = put("job", "a", "{\"state\":\"open\"}");
    both.put("question", "q \"1\" \u{e9}\\", b" [1, null] ").expect("within the limits");
    both.put("job", "b", b"null").expect("within the limits");
    assert_eq!(journal.commit(&[both, put("job", "a", "2")]).expect("committed"), 1..3);
    let mut end = put("job", "c", "3");
    end.drop("job", "b").expect("within the limits");
    end.drop("job", "never there").expect("within the limits");
    assert_eq!(journal.commit(&[end]).expect("committed"), 3..4);
    for journal in [journal, place.open()] {
        assert_eq!(records(&journal, "job"), [("a".into(), 2, "2".into()), ("c".into(), 3, "3".into())]);
        assert_eq!(records(&journal, "question"), [("q \"1\" \u{e9}\\".into(), 1, "[1, null]".into())]);
        assert_eq!(journal.kinds().collect::<Vec<_>>(), ["job", "question"]);
        assert_eq!((journal.seq(), journal.len()), (3, 3));
        assert_eq!(journal.get("job", "a").expect("readable").expect("there").body, b"2");
        assert_eq!(journal.get("job", "b").expect("readable"), None);
        assert!(records(&journal, "other").is_empty());
    }
}

#[test]
fn a_body_of_null_is_a_record_like_any_other() {
    let place = Place::new();
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "null")]);
    assert_eq!(records(&place.open(), "job"), [("a".into(), 1, "null".into())]);
    checkpoint(&mut journal);
    assert_eq!(records(&place.open(), "job"), [("a".into(), 1, "null".into())]);
}

#[test]
fn only_the_owner_can_read_the_files() {
    let place = Place::new();
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1")]);
    checkpoint(&mut journal);
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&place.dir()), 0o700);
    assert_eq!(place.names(), ["snapshot.00000002.ndjson", "state.00000002.ndjson"]);
    assert!(place.names().iter().all(|name| mode(&place.file(name)) == 0o600));
}

#[test]
fn a_checkpoint_keeps_what_lives_and_what_is_committed_meanwhile() {
    let place = Place::new();
    let mut journal = place.open();
    for n in 0..40 {
        commit(&mut journal, &[put("job", &format!("j{}", n % 4), &n.to_string())]);
    }
    assert!(place.names().len() > 3, "segments are closed when they are long");
    assert!(journal.wants_checkpoint());
    let begun = journal.begin_checkpoint().expect("begun");
    assert!(matches!(journal.begin_checkpoint(), Err(Error::CheckpointRunning)));
    commit(&mut journal, &[put("job", "j0", "\"new\"")]);
    let mut end = Transaction::new();
    end.drop("job", "j1").expect("within the limits");
    commit(&mut journal, &[end]);
    let written = begun.write().expect("written");
    assert_eq!(written.records(), 4);
    commit(&mut journal, &[put("job", "j9", "9")]);
    journal.finish_checkpoint(written).expect("finished");
    assert_eq!(place.names().len(), 2, "{:?}", place.names());
    assert!(!journal.wants_checkpoint());
    let expected = [("j2", 39, "38"), ("j3", 40, "39"), ("j0", 41, "\"new\""), ("j9", 43, "9")]
        .map(|(id, seq, body)| (id.to_owned(), seq, body.to_owned()));
    assert_eq!(records(&journal, "job"), expected);
    assert_eq!(records(&place.open(), "job"), expected);
    checkpoint(&mut journal);
    checkpoint(&mut journal);
    assert_eq!(records(&place.open(), "job"), expected);
}

#[test]
fn a_checkpoint_that_is_given_up_leaves_nothing_and_can_be_begun_again() {
    let place = Place::new();
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1")]);
    drop(journal.begin_checkpoint().expect("begun"));
    checkpoint(&mut journal);
    assert_eq!(records(&place.open(), "job").len(), 1);
    fs::write(place.file(".chela-snapshot.00000009.tmp"), "half").expect("written");
    drop(place.open());
    assert!(place.names().iter().all(|name| !name.starts_with('.')));
}

#[test]
fn a_fresh_snapshot_of_many_small_records_is_not_wanted_again() {
    let mut place = Place::new();
    place.options.dead_bytes_min = 0;
    let mut journal = place.open();
    let group: Vec<Transaction> = (0..500).map(|n| put("k", &n.to_string(), "1")).collect();
    commit(&mut journal, &group);
    checkpoint(&mut journal);
    assert!(!journal.wants_checkpoint());
    assert!(!place.open().wants_checkpoint());
}

#[test]
fn a_torn_end_is_cut_and_kept_aside() {
    let place = Place::new();
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1")]);
    let path = place.file("state.00000001.ndjson");
    let whole = fs::read(&path).expect("readable");
    fs::write(&path, [&whole, b"{\"seq\":2,\"gro".as_slice()].concat()).expect("written");
    let (mut journal, recovery) = place.try_open().expect("opens");
    let cut = Cut { path: path.clone(), offset: whole.len() as u64, bytes: 13 };
    assert_eq!(recovery, Recovery { seq: 1, records: 1, cut: Some(cut) });
    assert_eq!(fs::read(&path).expect("readable"), whole);
    assert_eq!(fs::read(&place.options.aside).expect("readable"), b"{\"seq\":2,\"gro\n");
    commit(&mut journal, &[put("job", "b", "2")]);
    assert_eq!(records(&place.open(), "job").len(), 2);
}

#[test]
fn a_segment_has_room_that_is_used_up_given_back_and_never_taken_for_a_tear() {
    let mut place = Place::new();
    (place.options.room_bytes, place.options.segment_bytes) = (300, 1_000);
    let path = place.file("state.00000001.ndjson");
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1")]);
    let first = fs::read(&path).expect("readable");
    let lines = first.iter().rposition(|byte| *byte == b'\n').expect("a line") + 1;
    assert_eq!(first[lines..], [b' '; 300]);
    commit(&mut journal, &[put("job", "b", "2")]);
    assert_eq!(fs::read(&path).expect("readable").len(), first.len(), "within the room the file does not grow");
    for n in 0..20 {
        drop(journal);
        let (opened, recovery) = place.try_open().expect("opens");
        journal = opened;
        assert_eq!((recovery.cut, recovery.records), (None, 2 + n));
        commit(&mut journal, &[put("job", &n.to_string(), "3")]);
    }
    let (last, names) = (place.names().pop().expect("a segment"), place.names());
    assert!(names.len() > 1, "{names:?}");
    for name in names.iter().filter(|name| **name != last) {
        let bytes = fs::read(place.file(name)).expect("readable");
        assert!(bytes.ends_with(b"}\n") && bytes.len() < 1_300, "{name} gave its room back when it was closed");
        // A power cut may bring it back.
        fs::write(place.file(name), [&bytes[..], &[b' '; 200]].concat()).expect("written");
    }
    assert_eq!(place.try_open().expect("opens").1, Recovery { seq: 22, records: 22, cut: None });
    assert_eq!(journal::salvage(&place.dir(), &place.root.path().join("old")).expect("salvaged").lost, 0);
    assert_eq!(place.open().len(), 22);
}

#[test]
fn what_is_torn_within_the_room_is_cut_and_the_room_is_not_kept() {
    let mut place = Place::new();
    place.options.room_bytes = 300;
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1")]);
    let path = place.file("state.00000001.ndjson");
    let mut bytes = fs::read(&path).expect("readable");
    let lines = bytes.iter().rposition(|byte| *byte == b'\n').expect("a line") + 1;
    bytes[lines + 40..lines + 53].copy_from_slice(b"{\"seq\":2,\"gro");
    fs::write(&path, &bytes).expect("written");
    let (mut journal, recovery) = place.try_open().expect("opens");
    assert_eq!(recovery.cut, Some(Cut { path: path.clone(), offset: lines as u64, bytes: 53 }));
    assert_eq!(fs::read(&path).expect("readable").len(), lines);
    let aside = fs::read(&place.options.aside).expect("readable");
    assert_eq!(aside.trim_ascii(), b"{\"seq\":2,\"gro");
    commit(&mut journal, &[put("job", "b", "2")]);
    assert_eq!(records(&place.open(), "job").len(), 2);
}

#[test]
fn a_value_is_put_as_its_json() {
    let place = Place::new();
    let mut journal = place.open();
    let mut transaction = Transaction::new();
    transaction.put_value("job", "a", &("two\nlines", 3)).expect("plain JSON");
    let raw = serde_json::value::RawValue::from_string("[1,\n2]".into()).expect("JSON");
    assert!(matches!(transaction.put_value("job", "b", &raw), Err(Error::Body { .. })));
    commit(&mut journal, &[transaction]);
    assert_eq!(records(&place.open(), "job"), [("a".into(), 1, "[\"two\\nlines\",3]".into())]);
}

#[test]
fn a_hole_in_the_last_group_is_a_tear_and_a_hole_before_it_is_damage() {
    let place = Place::new();
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1")]);
    commit(&mut journal, &[put("job", "b", "2"), put("job", "c", "3"), put("job", "d", "4")]);
    let name = "state.00000001.ndjson";
    let whole = fs::read(place.file(name)).expect("readable");
    // c is torn, d is whole: both were of a group of which nobody had been told.
    let offset = place.damage(name, 2);
    let (journal, recovery) = place.try_open().expect("opens");
    assert_eq!(recovery.cut.map(|cut| cut.offset), Some(offset));
    assert_eq!(records(&journal, "job").len(), 2);
    // a is of an earlier group than what follows it.
    fs::write(place.file(name), whole).expect("written");
    let offset = place.damage(name, 0);
    place.assert_corrupt(name, offset);
}

#[test]
fn damage_in_the_middle_is_told_with_its_place_and_nothing_is_changed() {
    let place = Place::new();
    let mut journal = place.open();
    for n in 0..20 {
        commit(&mut journal, &[put("job", &n.to_string(), "{\"text\":\"some text\"}")]);
    }
    let offset = place.damage("state.00000002.ndjson", 1);
    place.assert_corrupt("state.00000002.ndjson", offset);
}

#[test]
fn damage_in_a_snapshot_and_missing_files_are_told() {
    let place = Place::new();
    let mut journal = place.open();
    for n in 0..20 {
        commit(&mut journal, &[put("job", &n.to_string(), "{\"text\":\"some text\"}")]);
    }
    checkpoint(&mut journal);
    for n in 0..20 {
        commit(&mut journal, &[put("job", &n.to_string(), "{\"text\":\"some text\"}")]);
    }
    let names = place.names();
    let (snapshot, second) = (&names[0], &names[2]);
    let whole = fs::read(place.file(second)).expect("readable");
    fs::remove_file(place.file(second)).expect("removed");
    place.assert_corrupt(second, 0);
    fs::write(place.file(second), whole).expect("written");
    let whole = fs::read(place.file(snapshot)).expect("readable");
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
    fs::write(place.file(snapshot), &whole[..last]).expect("written");
    place.assert_corrupt(snapshot, last as u64);
    fs::write(place.file(snapshot), whole).expect("written");
    let offset = place.damage(snapshot, 3);
    place.assert_corrupt(snapshot, offset);
}

#[test]
fn a_whole_line_of_a_later_version_is_refused_and_not_cut() {
    let place = Place::new();
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1")]);
    let path = place.file("state.00000001.ndjson");
    let mut text = fs::read(&path).expect("readable");
    let offset = text.len() as u64;
    let line = b"{\"seq\":2,\"group\":2,\"do\":[{\"merge\":\"job\",\"id\":\"a\"}]";
    text.extend_from_slice(line);
    text.extend_from_slice(format!(",\"crc\":\"{:08x}\"}}\n", crc32c::crc32c(line)).as_bytes());
    fs::write(&path, text).expect("written");
    place.assert_corrupt("state.00000001.ndjson", offset);
}

#[test]
fn a_record_that_the_disk_forgot_is_an_error_and_never_another_record() {
    let place = Place::new();
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1"), put("job", "b", "2")]);
    place.damage("state.00000001.ndjson", 0);
    assert!(matches!(journal.get("job", "a"), Err(Error::Corrupt { offset: 0, .. })));
    assert_eq!(journal.get("job", "b").expect("readable").expect("there").body, b"2");
    assert!(matches!(journal.begin_checkpoint().expect("begun").write(), Err(Error::Corrupt { .. })));
}

#[test]
fn what_is_whole_in_a_damaged_journal_is_kept_and_the_damaged_one_beside_it() {
    let place = Place::new();
    let mut journal = place.open();
    commit(&mut journal, &[put("job", "a", "1")]);
    commit(&mut journal, &[put("job", "b", "2"), put("told", "x", "{}")]);
    checkpoint(&mut journal);
    for id in ["c", "d", "e"] {
        commit(&mut journal, &[put("job", id, "\"new\"")]);
    }
    let mut end = put("job", "a", "\"changed\"");
    end.drop("told", "x").expect("within the limits");
    commit(&mut journal, &[end]);
    assert_eq!(journal::check(&place.dir()).expect("it is whole"), 5);
    drop(journal);
    let segment = place.names().into_iter().rfind(|name| name.starts_with("state.")).expect("a segment");
    let snapshot = place.names().into_iter().find(|name| name.starts_with("snapshot.")).expect("a snapshot");
    place.damage(&segment, 1);
    place.damage(&snapshot, 2);
    assert!(matches!(journal::check(&place.dir()), Err(Error::Corrupt { .. })));
    let before: Vec<(String, Vec<u8>)> =
        place.names().into_iter().map(|name| (name.clone(), fs::read(place.file(&name)).expect("readable"))).collect();

    let aside = place.root.path().join("journal.damaged");
    let salvaged = journal::salvage(&place.dir(), &aside).expect("salvaged");
    assert_eq!((salvaged.records, salvaged.lost), (3, 2));
    for (name, bytes) in before {
        assert_eq!(fs::read(aside.join(&name)).expect("kept"), bytes, "{name}");
    }
    let mut journal = place.open();
    let seen = |journal: &Journal| -> Vec<String> { records(journal, "job").into_iter().map(|(id, ..)| id).collect() };
    assert_eq!(seen(&journal), ["c", "e", "a"], "b and d were in the damaged lines");
    assert!(records(&journal, "told").is_empty());
    assert_eq!(journal.seq(), 7, "numbers go on");
    commit(&mut journal, &[put("job", "f", "1")]);
    drop(journal);
    assert_eq!(seen(&place.open()), ["c", "e", "a", "f"]);
}
