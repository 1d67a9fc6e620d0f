//! The one engine, and the ticker that lets it end calls.
//! Keeps true: the ticker sleeps while no call runs, and never catches up on ticks it missed, which would cut off innocent calls.

use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use wasmtime::{Config, Engine};

/// A running call is looked at so many times within its limit: often enough to cut it soon after, and no oftener, since every look takes a
/// processor from a short call.
const LOOKS: u32 = 5;
const TICK_MIN: Duration = Duration::from_millis(1);
const TICK_MAX: Duration = Duration::from_millis(10);

/// Ticks without a call after which the ticker sleeps.
const LINGER_TICKS: u32 = 10;

/// The settings that compiled code depends on: the same for every process of this binary.
pub(super) fn engine() -> wasmtime::Result<Engine> {
    let mut config = Config::new();
    config.wasm_component_model(true).concurrency_support(false);
    config.epoch_interruption(true);
    // The same input gives the same answer on every machine.
    config.cranelift_nan_canonicalization(true).wasm_relaxed_simd(false);
    config.wasm_memory64(false);
    // A name in a backtrace is enough; addresses would take more memory than the code.
    config.generate_address_map(false);
    Engine::new(&config)
}

/// Tells compiled code of this engine from that of any other.
pub(super) fn fingerprint(engine: &Engine) -> String {
    let mut hasher = Blake(blake3::Hasher::new());
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.0.finalize().to_hex()[..16].to_owned()
}

struct Blake(blake3::Hasher);

impl Hasher for Blake {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let bytes = self.0.finalize();
        u64::from_le_bytes(bytes.as_bytes()[..8].try_into().expect("eight of thirty-two bytes"))
    }
}

/// Ticks while at least one [`Running`] lives.
pub(super) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    running: AtomicUsize,
    /// Between two ticks: as the shortest limit asks for that was ever held here.
    tick_us: AtomicU64,
    asleep: AtomicBool,
    stopped: Mutex<bool>,
    wake: Condvar,
}

/// A call under way.
pub(super) struct Running(Arc<Shared>);

impl Ticker {
    pub(super) fn start(engine: &Engine) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            running: AtomicUsize::new(0),
            tick_us: AtomicU64::new(micros(TICK_MAX)),
            asleep: AtomicBool::new(false),
            stopped: Mutex::new(false),
            wake: Condvar::new(),
        });
        let (seen, engine) = (Arc::downgrade(&shared), engine.weak());
        let thread = std::thread::Builder::new().name("chela-plugin-tick".into()).spawn(move || {
            let mut idle = 0;
            while let (Some(shared), Some(engine)) = (Weak::upgrade(&seen), engine.upgrade()) {
                if !shared.wait(&mut idle) {
                    return;
                }
                engine.increment_epoch();
            }
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A call begins that may take so much CPU time.
    pub(super) fn running(&self, cpu_max: Duration) -> Running {
        let tick = (cpu_max / LOOKS).clamp(TICK_MIN, TICK_MAX);
        if micros(tick) < self.shared.tick_us.load(Ordering::Relaxed) {
            self.shared.tick_us.fetch_min(micros(tick), Ordering::Relaxed);
        }
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            // Under the lock, or the ticker could look just before and sleep just after.
            let _guard = self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner);
            self.shared.wake.notify_one();
        }
        Running(self.shared.clone())
    }
}

impl Shared {
    /// Waits for the next tick; false once it is over.
    fn wait(&self, idle: &mut u32) -> bool {
        *idle = if self.running.load(Ordering::SeqCst) == 0 { *idle + 1 } else { 0 };
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        // Not at once: waking it for every one of many short calls would cost more than the calls.
        if *idle > LINGER_TICKS {
            self.asleep.store(true, Ordering::SeqCst);
            while !*stopped && self.running.load(Ordering::SeqCst) == 0 {
                stopped = self.wake.wait(stopped).unwrap_or_else(PoisonError::into_inner);
            }
            self.asleep.store(false, Ordering::SeqCst);
            *idle = 0;
        }
        if *stopped {
            return false;
        }
        drop(stopped);
        std::thread::sleep(Duration::from_micros(self.tick_us.load(Ordering::Relaxed)));
        true
    }
}

fn micros(tick: Duration) -> u64 {
    u64::try_from(tick.as_micros()).unwrap_or(u64::MAX)
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        *self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // It only sleeps and counts: there is nothing it could have failed at.
            let _ = thread.join();
        }
    }
}
