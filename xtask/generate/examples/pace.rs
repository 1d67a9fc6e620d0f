//! Tells how fast lines are made: `cargo run --release -p chela-generate --example pace -- 1000000`.

use std::convert::Infallible;
use std::time::Instant;

use chela_generate::{Options, generate};

fn main() {
    let events = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let options = Options::new(events, 1);
    let (mut bytes, mut first_ms, mut legacy) = (0, u64::MAX, 0_u64);
    let start = Instant::now();
    let Ok(()) = generate::<Infallible>(&options, |line| {
        bytes += line.text.len() + 1;
        first_ms = first_ms.min(line.ts_ms);
        legacy += u64::from(line.legacy);
        Ok(())
    });
    let seconds = start.elapsed().as_secs_f64();
    println!("{events} lines in {seconds:.2} s: {:.0} lines/s", events as f64 / seconds);
    println!("{:.0} bytes a line, {:.1} % legacy", bytes as f64 / events as f64, legacy as f64 * 100.0 / events as f64);
    println!("over {:.1} days", (options.until_ms - first_ms) as f64 / 86_400_000.0);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!("{}", peak.unwrap_or("peak memory is not told by this system"));
}
