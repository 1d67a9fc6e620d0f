//! The C library's memory, given back to the system. Left to itself it keeps what was freed for the next time: after a component of twelve
//! megabytes came and went ten times, that was ninety megabytes of nothing. And it has eight pools for each processor, each of which grows to
//! what its threads needed at the worst of times: half of a busy gateway was such room.

#[cfg(target_env = "gnu")]
mod gnu {
    /// From here on a buffer is the system's own, and goes back to it when it is freed.
    const LARGE_BYTES: libc::c_int = 1024 * 1024;

    #[expect(unsafe_code, reason = "sets numbers of the C library's allocator, which may be done at any time")]
    pub fn be_thrifty() {
        let pools = std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 64) as libc::c_int);
        for (name, value) in [(libc::M_MMAP_THRESHOLD, LARGE_BYTES), (libc::M_ARENA_MAX, pools)] {
            unsafe { libc::mallopt(name, value) };
        }
    }

    #[expect(unsafe_code, reason = "gives back pages that hold nothing; the allocator takes its own locks")]
    pub fn return_unused() {
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(not(target_env = "gnu"))]
mod gnu {
    pub fn be_thrifty() {}
    pub fn return_unused() {}
}

/// From now on large buffers go back when they are freed, and threads share as many pools as there are processors. For before there are many
/// threads: what a thread has chosen it keeps.
pub use gnu::be_thrifty;
/// What was freed in small pieces goes back now: milliseconds, for after something large has gone.
pub use gnu::return_unused;
