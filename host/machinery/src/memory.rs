//! The C library's memory, given back to the system. Left to itself it keeps what was freed for the next time: after a component of twelve
//! megabytes came and went ten times, that was ninety megabytes of nothing.

#[cfg(target_env = "gnu")]
mod gnu {
    /// From here on a buffer is the system's own, and goes back to it when it is freed.
    const LARGE_BYTES: libc::c_int = 1024 * 1024;

    #[expect(unsafe_code, reason = "sets one number of the C library's allocator, which may be done at any time")]
    pub fn return_large_buffers() {
        unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES) };
    }

    #[expect(unsafe_code, reason = "gives back pages that hold nothing; the allocator takes its own locks")]
    pub fn return_unused() {
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod gnu {
    pub fn return_large_buffers() {}
    pub fn return_unused() {}
}

/// Large buffers go back when they are freed, from now on.
pub use gnu::return_large_buffers;
/// What was freed in small pieces goes back now: milliseconds, for after something large has gone.
pub use gnu::return_unused;
