//! Where memory comes from. Work begins on one thread and ends on another (a request, the journal, the log), and a gateway runs for months:
//! few arenas for many threads, and what stays free goes back to the system. How, is said in `.cargo/config.toml`.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;
