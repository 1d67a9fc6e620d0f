//! What a simulated disk does wrong, and which mistakes of a program it can play.

/// What goes wrong, and how often. Chances are of one in ten thousand calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// What the device writes whole.
    pub block: usize,
    /// A call fails with EIO.
    pub io_errors: u32,
    /// The kernel writes some pages and names back by itself.
    pub write_backs: u32,
    /// A block that a file was given and that was never written may show what the disk held before, not zeros.
    pub stale_blocks: bool,
    /// Bytes of all files together; a write past it is cut short and then fails.
    pub capacity: Option<usize>,
    /// The machine stops at this call.
    pub crash_at: Option<u64>,
}

/// A mistake that the simulation must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Flushing a file does nothing.
    NoFileSync,
    /// Flushing a directory does nothing.
    NoDirectorySync,
    /// A line that reads as JSON is believed, whatever its checksum.
    NoChecksum,
    /// A flush is done with the call after it, so its success is told too early.
    AckBeforeSync,
    /// A failed flush says that it went well.
    SwallowedSyncError,
    /// What makes a rename durable is done only after the next file was removed, and the removal is durable at once.
    OldDroppedFirst,
}
