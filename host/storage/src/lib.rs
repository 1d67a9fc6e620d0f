//! What Chela keeps on disk, and how it gets there whole.
//! Owns every durable write. Keeps true: a reader sees the old content or the new, never a part. Never: knows what the bytes mean,
//! runs async code, or retries a failed flush.

mod append;
mod atomic;
mod lock;
mod segments;

pub use append::{AppendLog, Repair};
pub use atomic::{Mode, create_new, make_private_dir, replace, sweep};
pub use lock::{DirLock, LockError};
pub use segments::{Catalogue, LogError, Month, Segment, SegmentLog, TimeOf};
