//! Everything that a seed of the event log decides before it runs.

use chela_storage::simulation::Faults;
use fastrand::Rng;

/// One seed's world.
#[derive(Clone, Debug)]
pub struct Plan {
    pub faults: Faults,
    /// Restarts before the last look.
    pub lives: u32,
    /// Groups that a life tries to write.
    pub steps: u32,
    /// A life ends within so many calls of the file system.
    pub calls: u64,
    pub segment_bytes: u64,
    /// Lines in a group, at most.
    pub group: usize,
    /// One line in so many is longer than a block.
    pub long_lines: u32,
    /// One step in so many begins another month.
    pub months: u32,
    /// Files that others closed before.
    pub foreign: usize,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        // Another stream than the run's own, so that a new choice here does not shift what happens there.
        let mut random = Rng::with_seed(seed ^ 0x6a09_e667_f3bc_c909);
        let faults = Faults {
            block: [64, 512, 4096][random.usize(0..3)],
            io_errors: [0, 50, 300][random.usize(0..3)],
            write_backs: [0, 500, 3000][random.usize(0..3)],
            // Lines carry no checksum: where a file shows what is not its own, nothing tells its lines from those of another.
            stale_blocks: false,
            capacity: (random.u8(0..3) == 0).then(|| random.usize(200..6_000)),
            crash_at: None,
        };
        Self {
            faults,
            lives: random.u32(1..=4),
            steps: random.u32(3..=20),
            calls: random.u64(5..=150),
            segment_bytes: random.u64(100..=3_000),
            group: random.usize(1..=8),
            long_lines: random.u32(3..=30),
            months: random.u32(3..=30),
            foreign: [0, 0, 2][random.usize(0..3)],
        }
    }
}
