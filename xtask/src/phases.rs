//! How long each part of a run took. A script that calls us adds its own parts through a file named by `CHELA_PHASES`.

use std::time::Instant;

use anyhow::Result;

#[derive(Default)]
pub struct Phases(Vec<(String, u64)>);

impl Phases {
    /// With what the caller did before us: one `seconds name` a line.
    pub fn continued() -> Self {
        let before = std::env::var_os("CHELA_PHASES").and_then(|path| std::fs::read_to_string(path).ok());
        let row = |line: &str| line.split_once(' ').and_then(|(s, name)| Some((name.to_owned(), s.parse().ok()?)));
        Self(before.unwrap_or_default().lines().filter_map(row).collect())
    }

    pub fn run<T>(&mut self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        println!("xtask: {name}");
        let started = Instant::now();
        let outcome = work();
        self.0.push((name.to_owned(), started.elapsed().as_secs()));
        outcome
    }

    pub fn print(&self) {
        let total: u64 = self.0.iter().map(|(_, seconds)| seconds).sum();
        println!("\n  phase                      min:s");
        for (name, seconds) in self.0.iter().map(|(name, s)| (name.as_str(), *s)).chain([("total", total)]) {
            println!("  {name:<24} {:>4}:{:02}", seconds / 60, seconds % 60);
        }
    }
}
