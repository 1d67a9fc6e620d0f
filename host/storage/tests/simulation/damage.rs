//! Damage that no crash makes: flipped bits and mangled files. It is found where it is, or cut where nothing tells it from a tear; a
//! journal that opens shows a state that once was, and one that does not is left as it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use chela_storage::journal::{Error, Journal, Options, Recovery};
use chela_storage::simulation::{Disk, Faults, install, with};
use fastrand::Rng;

use crate::model::{Plain, State, state_of};
use crate::world::DIR;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn options() -> Options {
    Options { segment_bytes: 700, dead_bytes_min: 0, room_bytes: 0, aside: "/state/journal.torn".into() }
}

/// A disk that holds these files and does nothing by itself.
fn disk_with(files: &Files) {
    let mut disk = Disk::new(0, Faults { block: 512, ..Faults::default() });
    disk.place_dir(Path::new("/state")).expect("the root is there");
    disk.place_dir(Path::new(DIR)).expect("its parent is there");
    for (path, bytes) in files {
        disk.place(path, bytes).expect("the directory is there");
    }
    install(disk);
}

fn open() -> Result<(Journal, Recovery), Error> {
    Journal::open(Path::new(DIR), options())
}

/// A small journal, and the state after each of its transactions.
fn history(seed: u64) -> (Files, Vec<State>) {
    let mut random = Rng::with_seed(seed);
    disk_with(&Files::new());
    let (mut journal, _) = open().expect("an empty journal opens");
    let (mut states, mut token) = (vec![State::new()], 0);
    for _ in 0..random.u32(1..12) {
        let group: Vec<Plain> = (0..random.u32(1..5)).map(|_| Plain::random(&mut random, &mut token, 40)).collect();
        let transactions: Vec<_> = group.iter().map(Plain::transaction).collect();
        journal.commit(&transactions).expect("a good disk");
        for plain in &group {
            let mut state = states.last().cloned().unwrap_or_default();
            plain.apply(&mut state, states.len() as u64);
            states.push(state);
        }
        if random.u8(0..6) == 0 {
            let written = journal.begin_checkpoint().and_then(|begun| begun.write()).expect("a good disk");
            journal.finish_checkpoint(written).expect("a good disk");
        }
    }
    (with(|disk| disk.files(Path::new(DIR))), states)
}

/// Each line's place and group; a snapshot's lines have none.
fn lines(bytes: &[u8]) -> Vec<(usize, Option<u64>)> {
    let mut offset = 0;
    let line = |line: &[u8]| {
        let value: serde_json::Value = serde_json::from_slice(line).expect("a line of JSON");
        let start = offset;
        offset += line.len();
        (start, value["group"].as_u64())
    };
    bytes.split_inclusive(|byte| *byte == b'\n').map(line).collect()
}

/// What one flipped bit must lead to.
fn check_flip(files: &Files, states: &[State], path: &Path, bit: usize) {
    let mut damaged = files.clone();
    damaged.get_mut(path).expect("one of them")[bit / 8] ^= 1 << (bit % 8);
    disk_with(&damaged);
    let lines = lines(&files[path]);
    let (hit, _) = *lines.iter().rfind(|(start, _)| *start <= bit / 8).expect("a line");
    // `state.` is after `snapshot.`, so the last file is the active segment. Only its last group has nothing after it that proves it.
    let is_active = files.keys().next_back().is_some_and(|last| last == path);
    let last_group = lines.last().and_then(|(_, group)| *group);
    let tail = lines.iter().find(|(_, group)| *group == last_group).map_or(0, |(start, _)| *start);
    match open() {
        Ok((journal, recovery)) => {
            assert!(is_active && hit >= tail, "bit {bit} of {} went unseen", path.display());
            let cut = recovery.cut.expect("the line with the bit is cut");
            assert_eq!((cut.path.as_path(), cut.offset), (path, hit as u64), "bit {bit}");
            let there = usize::try_from(journal.seq()).expect("small");
            assert_eq!(state_of(&journal).as_ref(), Ok(&states[there]));
        }
        Err(Error::Corrupt { path: told, offset, .. }) => {
            assert_eq!((told.as_path(), offset), (path, hit as u64), "bit {bit} of {}", path.display());
            assert!(!is_active || hit < tail, "bit {bit} is in the end of {}, which a crash can tear", path.display());
            assert_eq!(with(|disk| disk.files(Path::new(DIR))), damaged, "what is damaged is left as it is");
        }
        Err(error) => panic!("bit {bit} of {}: {error}", path.display()),
    }
}

#[test]
fn a_flipped_bit_is_found_where_it_is_or_cut_with_the_end_that_nothing_proves() {
    for seed in 0..300 {
        let (files, states) = history(seed);
        let mut random = Rng::with_seed(seed);
        let full: Vec<&PathBuf> = files.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(path, _)| path).collect();
        for _ in 0..30 {
            let path = full[random.usize(0..full.len())];
            check_flip(&files, &states, path, random.usize(0..files[path].len() * 8));
        }
    }
}

/// Some harm to some file.
fn mangle(files: &mut Files, random: &mut Rng) {
    let paths: Vec<PathBuf> = files.keys().cloned().collect();
    let path = &paths[random.usize(0..paths.len())];
    let mut bytes = files.remove(path).unwrap_or_default();
    let (a, b) = (random.usize(0..=bytes.len()), random.usize(0..=bytes.len()));
    let range = a.min(b)..a.max(b);
    match random.u8(0..9) {
        0 => bytes.truncate(a),
        1 => drop(bytes.drain(range)),
        2 => bytes.extend_from_within(range),
        3 => bytes[range].fill(random.u8(..)),
        4 => drop(bytes.splice(a..a, (0..random.usize(0..50)).map(|_| random.u8(..)).collect::<Vec<u8>>())),
        5 => bytes.rotate_left(a),
        6 => bytes[range].reverse(),
        7 => {
            // Somebody else's name.
            let other = paths[random.usize(0..paths.len())].clone();
            files.insert(other, bytes);
            return;
        }
        _ => return,
    }
    files.insert(path.clone(), bytes);
}

#[test]
fn mangled_files_never_panic_and_never_show_a_state_that_never_was() {
    let mut opened = 0;
    for seed in 0..500 {
        let (files, states) = history(seed);
        let mut random = Rng::with_seed(seed);
        for case in 0..100 {
            let mut mangled = files.clone();
            for _ in 0..random.u8(1..4) {
                if !mangled.is_empty() {
                    mangle(&mut mangled, &mut random);
                }
            }
            disk_with(&mangled);
            if let Ok((journal, _)) = open() {
                let there = usize::try_from(journal.seq()).expect("small");
                assert_eq!(state_of(&journal).as_ref(), Ok(&states[there]), "seed {seed}, case {case}");
                opened += 1;
            }
        }
    }
    assert!(opened > 1_000, "only {opened} were opened");
}
