//! Where memory comes from. Work begins on one thread and ends on another (a request, the journal, the log), which the C library's allocator
//! settles with a lock for all. It also kept what was freed, for the next time.

use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;
