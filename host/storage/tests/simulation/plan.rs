//! Everything that a seed decides before it runs.

use chela_storage::simulation::Faults;
use fastrand::Rng;

/// One seed's world.
#[derive(Clone, Debug)]
pub struct Plan {
    pub faults: Faults,
    /// Restarts before the last look.
    pub lives: u32,
    /// Things that a life tries to do.
    pub steps: u32,
    /// A life ends within so many calls of the file system.
    pub calls: u64,
    pub segment_bytes: u64,
    pub dead_bytes_min: u64,
    pub room_bytes: u64,
    /// Transactions in a group, at most.
    pub group: usize,
    /// One body in so many is longer than a block.
    pub long_bodies: u32,
    /// One step in so many has to do with a checkpoint.
    pub checkpoints: u32,
}

impl Plan {
    pub fn of(seed: u64) -> Self {
        // Another stream than the run's own, so that a new choice here does not shift what happens there.
        let mut random = Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15);
        let faults = Faults {
            block: [512, 4096][random.usize(0..2)],
            io_errors: [0, 50][random.usize(0..2)],
            write_backs: [0, 500, 3000][random.usize(0..3)],
            stale_blocks: true,
            capacity: (random.u8(0..4) == 0).then(|| random.usize(4_000..30_000)),
            crash_at: None,
        };
        Self {
            faults,
            lives: random.u32(1..=4),
            steps: random.u32(5..=25),
            calls: random.u64(5..=120),
            segment_bytes: random.u64(200..=6_000),
            dead_bytes_min: random.u64(0..=2_000),
            group: random.usize(1..=6),
            long_bodies: random.u32(2..=20),
            checkpoints: random.u32(2..=8),
            room_bytes: [0, 100, 700, 5_000][random.usize(0..4)],
        }
    }
}
