//! The promises of the bus, on a real log in a temporary directory.

use super::subscribers::QUEUE_MAX;
use super::*;

const KEEPING: Keeping =
    Keeping { group: Duration::from_millis(1), segment_bytes: SEGMENT_BYTES, keep: Duration::MAX, bytes_max: u64::MAX };

fn open(dir: &StateDir) -> Bus {
    Bus::open(dir, Clock::manual(Timestamp(7)), Metrics::default(), KEEPING).expect("the log opens")
}

fn bus() -> (tempfile::TempDir, StateDir, Bus) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = StateDir::new(temp.path());
    std::fs::create_dir_all(dir.logs()).expect("a place for logs");
    let bus = open(&dir);
    (temp, dir, bus)
}

fn emit(bus: &Bus, kind: Kind, n: usize) {
    bus.emit(kind, data(json!({ "n": n }))).expect("the log takes it");
}

async fn flushed(bus: &Bus) {
    let event = Event::system(Kind::GatewayStopped, Timestamp(9), Map::new());
    bus.emit_durable(event).await.expect("the disk takes it");
}

async fn numbers(subscription: &mut Subscription, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(match subscription.next().await.expect("the bus lives") {
            Delivery::Event(event) => event.data["n"].to_string(),
            Delivery::Missed(count) => format!("missed {count}"),
        });
    }
    seen
}

#[tokio::test]
async fn subscribers_by_prefix_and_the_log_see_one_order() {
    let (_temp, dir, bus) = bus();
    let (mut all, mut config) = (bus.subscribe("*"), bus.subscribe("config."));
    emit(&bus, Kind::ConfigApplied, 1);
    emit(&bus, Kind::GatewayStarted, 2);
    emit(&bus, Kind::ConfigRefused, 3);
    assert_eq!(numbers(&mut all, 3).await, ["1", "2", "3"]);
    assert_eq!(numbers(&mut config, 2).await, ["1", "3"]);
    let log = std::fs::read_to_string(dir.event_log()).expect("readable");
    let types: Vec<Event> = log.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
    let types: Vec<&str> = types.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(types, ["config.applied", "gateway.started", "config.refused"], "written before anybody heard");
}

#[tokio::test]
async fn a_slow_subscriber_is_told_in_its_place_how_many_it_missed() {
    let (_temp, _dir, bus) = bus();
    let mut slow = bus.subscribe("config.");
    (0..QUEUE_MAX + 3).for_each(|n| emit(&bus, Kind::ConfigApplied, n));
    flushed(&bus).await;
    assert_eq!(numbers(&mut slow, 2).await, ["0", "1"]);
    emit(&bus, Kind::ConfigApplied, 9_999);
    flushed(&bus).await;
    let rest = numbers(&mut slow, QUEUE_MAX).await;
    assert_eq!(rest[QUEUE_MAX - 2..], ["missed 3", "9999"]);
}

#[tokio::test]
async fn what_was_missed_is_told_even_if_nothing_follows() {
    let (_temp, _dir, bus) = bus();
    let mut slow = bus.subscribe("config.");
    (0..QUEUE_MAX + 2).for_each(|n| emit(&bus, Kind::ConfigApplied, n));
    flushed(&bus).await;
    assert_eq!(numbers(&mut slow, QUEUE_MAX + 1).await[QUEUE_MAX], "missed 2");
}

#[tokio::test]
async fn a_torn_line_is_set_aside_and_said() {
    let (_temp, dir, first) = bus();
    emit(&first, Kind::ConfigApplied, 1);
    first.close().await.expect("closed");
    let mut log = std::fs::read(dir.event_log()).expect("readable");
    log.extend_from_slice(b"{\"type\":\"conf");
    std::fs::write(dir.event_log(), log).expect("torn");
    open(&dir).close().await.expect("closed");
    let log = std::fs::read_to_string(dir.event_log()).expect("readable");
    assert!(log.lines().last().expect("a line").contains("log.repaired"), "{log}");
    assert_eq!(std::fs::read_to_string(dir.corrupt_log()).expect("readable"), "{\"type\":\"conf\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_wait_for_the_disk_all_get_there_and_their_events_are_there_once() {
    let (_temp, dir, bus) = bus();
    let waiting: Vec<_> = (0..64)
        .map(|caller| {
            let bus = bus.clone();
            tokio::spawn(async move {
                for n in 0..20 {
                    let facts = data(json!({ "n": caller * 100 + n }));
                    let event = Event::of("eden", Kind::TaskUpdated, Timestamp(7), facts);
                    bus.emit_durable(event).await.expect("the disk takes it");
                }
            })
        })
        .collect();
    for waiting in waiting {
        waiting.await.expect("it ends");
    }
    let log = std::fs::read_to_string(dir.event_log()).expect("readable");
    let numbers: Vec<u64> = log
        .lines()
        .map(|line| serde_json::from_str::<Event>(line).expect("an event").data["n"].as_u64().expect("a number"))
        .collect();
    for caller in 0..64 {
        let own: Vec<u64> = numbers.iter().filter(|n| **n / 100 == caller).copied().collect();
        assert_eq!(own, (caller * 100..caller * 100 + 20).collect::<Vec<_>>(), "in order, once");
    }
}

#[tokio::test]
async fn a_closed_bus_has_written_everything_and_takes_nothing_more() {
    let (_temp, dir, bus) = bus();
    (0..100).for_each(|n| emit(&bus, Kind::ConfigApplied, n));
    bus.close().await.expect("closed");
    assert_eq!(std::fs::read_to_string(dir.event_log()).expect("readable").lines().count(), 100);
    let refused = bus.emit(Kind::ConfigApplied, Map::new());
    assert!(matches!(refused, Err(Error::Closed)));
}

#[tokio::test]
async fn a_log_that_refused_those_who_waited_recovers_although_nobody_emits() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = StateDir::new(temp.path());
    // A directory under the name that the first month's segment is to get: it cannot be closed.
    let in_the_way = dir.logs().join("coordination-events.1970-01.1.ndjson");
    std::fs::create_dir_all(dir.logs()).expect("a place for logs");
    let clock = Clock::manual(Timestamp(7));
    let bus = Bus::open(&dir, clock.clone(), Metrics::default(), KEEPING).expect("the log opens");
    flushed(&bus).await;
    std::fs::create_dir_all(in_the_way.join("full")).expect("in the way");
    clock.advance(Duration::from_secs(40 * 86_400));
    let event = || Event::system(Kind::GatewayStopped, Timestamp(9), Map::new());
    let refused = bus.emit_durable(event()).await;
    assert!(matches!(refused, Err(Error::Append { cause: Cause::Append(_), .. })), "{refused:?}");
    assert!(bus.is_failing());
    std::fs::remove_dir_all(&in_the_way).expect("out of the way");
    let recovers = async {
        while bus.is_failing() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), recovers).await.expect("it takes lines again");
    bus.emit_durable(event()).await.expect("the log takes lines again");
    let log = std::fs::read_to_string(dir.event_log()).expect("readable");
    let repaired: Vec<&str> = log.lines().filter(|line| line.contains("log.repaired")).collect();
    assert_eq!(repaired.len(), 1, "{log}");
    assert!(repaired[0].contains("\"unwritten\":1"), "{repaired:?}");
}

#[tokio::test]
async fn who_can_wait_shares_a_flush_and_whoever_cannot_hurries_it() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = StateDir::new(temp.path());
    std::fs::create_dir_all(dir.logs()).expect("a place for logs");
    let keeping = Keeping { group: Duration::from_secs(3_600), ..KEEPING };
    let bus = Bus::open(&dir, Clock::manual(Timestamp(7)), Metrics::default(), keeping).expect("the log opens");
    emit(&bus, Kind::ConfigApplied, 1);
    let mut written = Box::pin(bus.written());
    let early = tokio::time::timeout(Duration::from_millis(50), written.as_mut()).await;
    assert!(early.is_err(), "others may come for an hour");
    bus.hurry();
    written.await.expect("on the disk");
    emit(&bus, Kind::ConfigApplied, 2);
    bus.flushed().await.expect("at once");
}

#[tokio::test]
async fn events_are_kept_for_their_days_in_whole_segments() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let dir = StateDir::new(temp.path());
    std::fs::create_dir_all(dir.logs()).expect("a place for logs");
    let clock = Clock::manual(Timestamp(7));
    let day = Duration::from_secs(86_400);
    let keeping = Keeping { segment_bytes: 1, keep: day * 10, ..KEEPING };
    let bus = Bus::open(&dir, clock.clone(), Metrics::default(), keeping).expect("the log opens");
    for _ in 0..15 {
        bus.emit(Kind::ConfigApplied, Map::new()).expect("taken");
        bus.flushed().await.expect("on the disk");
        clock.advance(day);
    }
    bus.emit(Kind::ConfigApplied, Map::new()).expect("taken");
    bus.close().await.expect("closed");
    let files = std::fs::read_dir(dir.logs()).expect("listed").flatten().map(|file| file.path());
    let lines = files.map(|path| std::fs::read_to_string(path).expect("readable"));
    let mut times: Vec<u64> = lines.filter_map(|lines| time_of(lines.trim().as_bytes())).collect();
    times.sort_unstable();
    let days: Vec<u64> = times.iter().map(|time| time / 86_400_000).collect();
    assert_eq!(days, (4..16).collect::<Vec<u64>>(), "the day before the first that is kept stays with its segment");
}
