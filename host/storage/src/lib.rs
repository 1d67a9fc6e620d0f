//! What Chela keeps on disk, and how it gets there whole; and maps for the many names of it that are known in memory.
//! Owns every durable write. Keeps true: a reader sees the old content or the new, never a part. Never: knows what the bytes mean,
//! runs async code, or retries a failed flush.

mod fs;
mod append;
mod atomic;
mod digest;
pub mod journal;
mod lock;
mod ordered;
mod owner;
mod segments;
mod table;

pub use append::{AppendLog, Repair};
pub use atomic::{Draft, Mode, Replaced, create_new, is_unfinished, make_own_dir, make_private_dir, replace, sweep};
pub use digest::Digest;
pub use lock::{DirLock, LockError};
pub use ordered::Ordered;
pub use segments::{Catalogue, LogError, Month, Segment, SegmentLog, TimeOf};
pub use table::Table;

/// The disk of `tests/simulation.rs`.
#[cfg(feature = "simulation")]
pub mod simulation {
    pub use crate::fs::disk::Disk;
    pub use crate::fs::faults::{Faults, Mutant};
    pub use crate::fs::simulated::{install, with};
}
