//! One configured instance of a component, and the limits that hold inside it.
//! Keeps true: a call ends by its CPU time, its time on the wall, or an answer; an instance that failed is never called again.
//! Never: runs on a thread that is not the room's own.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};
use wasmtime::{Engine, ResourceLimiter, Store, UpdateDeadline};

use super::bindings::{adapter, classification, lifecycle, log, prompts, tool_guard};
use super::cache::Mapped;
use super::engine::Ticker;
use super::failure::{Failure, Limit, Passed, chain};
use super::wasi;
use super::worlds::Call;
use crate::config::PluginLimits;

/// What a component says when it gives no answer.
type Refusal = super::bindings::types::Failure;

/// On the wall a call may take so many times its CPU time: the machine may be busy.
const WALL_FACTOR: u32 = 20;
/// A call that has taken so much time of the processor is not a short one.
const LONG: Duration = Duration::from_millis(1);
/// What one call may hand over, in bytes.
const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;
const TABLE_ELEMENTS_MAX: usize = 100_000;
/// Core instances, memories and tables of one component: toolchains make a handful.
const INSTANCES_MAX: usize = 100;
const LOG_LINES_MAX: usize = 200;
const LOG_BYTES_MAX: usize = 64 * 1024;
const LOG_LINE_BYTES_MAX: usize = 8 * 1024;
/// Errors that are kept over the limit: the words of a panic must not drown in what came before.
const LOG_ERRORS_OVER_MAX: usize = 4;

/// What a call is told of its surroundings.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    pub(super) now_ms: u64,
    pub(super) seed: u64,
    pub(super) deployment: String,
    pub(super) locale: &'static str,
}

/// A line that a component logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) level: &'static str,
    pub(super) text: String,
}

/// A compiled component, ready to be instantiated.
#[derive(Clone)]
pub(super) struct Template {
    pre: InstancePre<Guest>,
    lifecycle: lifecycle::GuestIndices,
    classification: Option<classification::GuestIndices>,
    tool_guard: Option<tool_guard::GuestIndices>,
    prompts: Option<prompts::GuestIndices>,
    adapter: Option<adapter::GuestIndices>,
    ticker: Arc<Ticker>,
    /// So that others find it while this is there.
    _mapped: Option<Arc<Mapped>>,
}

/// The interfaces that an instance exports.
pub(super) struct Exports {
    lifecycle: lifecycle::Guest,
    pub(super) classification: Option<classification::Guest>,
    pub(super) tool_guard: Option<tool_guard::Guest>,
    pub(super) prompts: Option<prompts::Guest>,
    pub(super) adapter: Option<adapter::Guest>,
}

pub(super) struct Instance {
    pub(super) store: Store<Guest>,
    exports: Exports,
    limits: PluginLimits,
    ticker: Arc<Ticker>,
    /// A call was cut off: nothing of it may run again.
    dead: bool,
}

/// The host's side of one instance.
pub(super) struct Guest {
    memory_max: usize,
    /// Of all its memories together.
    memory: usize,
    meter: Meter,
    lines: Vec<Line>,
    line_bytes: usize,
    errors_over: usize,
    lines_dropped: usize,
    pub(super) now_ms: u64,
    pub(super) random: u64,
}

/// What a call has used and may use.
struct Meter {
    cpu_from: Duration,
    wall_from: Instant,
    cpu_max: Duration,
}

/// Why an instance could not be made.
#[derive(Debug)]
pub(super) enum Unmade {
    /// The component refused the configuration.
    Config {
        path: String,
        message: String,
    },
    Failed(Failure),
}

impl Template {
    pub(super) fn new(engine: &Engine, component: &Component, ticker: Arc<Ticker>) -> wasmtime::Result<Self> {
        let mut linker: Linker<Guest> = Linker::new(engine);
        log::add_to_linker::<_, HasSelf<Guest>>(&mut linker, |guest| guest)?;
        wasi::add_to_linker(&mut linker, engine, component)?;
        let pre = linker.instantiate_pre(component)?;
        Ok(Self {
            lifecycle: lifecycle::GuestIndices::new(&pre)?,
            classification: classification::GuestIndices::new(&pre).ok(),
            tool_guard: tool_guard::GuestIndices::new(&pre).ok(),
            prompts: prompts::GuestIndices::new(&pre).ok(),
            adapter: adapter::GuestIndices::new(&pre).ok(),
            pre,
            ticker,
            _mapped: None,
        })
    }

    /// The same, of a component that slots share.
    pub(super) fn shared(engine: &Engine, mapped: Arc<Mapped>, ticker: Arc<Ticker>) -> wasmtime::Result<Self> {
        let own = Self::new(engine, &mapped.component, ticker)?;
        Ok(Self { _mapped: Some(mapped), ..own })
    }

    /// An instance that was only started. Its start function runs under the limits of `configure`.
    fn start(&self, limits: PluginLimits, lines: &mut Vec<Line>) -> Result<Instance, Failure> {
        let mut store = store(self.pre.engine(), limits);
        let made = run(&mut store, &self.ticker, limits.configure_ms, |store| {
            let instance = self.pre.instantiate(&mut *store)?;
            let lifecycle = self.lifecycle.load(&mut *store, &instance)?;
            let classification = self.classification.as_ref().map(|found| found.load(&mut *store, &instance));
            let tool_guard = self.tool_guard.as_ref().map(|found| found.load(&mut *store, &instance));
            let prompts = self.prompts.as_ref().map(|found| found.load(&mut *store, &instance));
            let adapter = self.adapter.as_ref().map(|found| found.load(&mut *store, &instance));
            Ok(Exports {
                lifecycle,
                classification: classification.transpose()?,
                tool_guard: tool_guard.transpose()?,
                prompts: prompts.transpose()?,
                adapter: adapter.transpose()?,
            })
        });
        lines.extend(store.data_mut().take_lines());
        made.map(|exports| Instance { store, exports, limits, ticker: self.ticker.clone(), dead: false })
    }

    /// What the component says of itself, asked of an instance that is thrown away.
    pub(super) fn describe(
        &self,
        limits: PluginLimits,
        lines: &mut Vec<Line>,
    ) -> Result<lifecycle::Description, Failure> {
        let mut instance = self.start(limits, lines)?;
        let exports = &instance.exports;
        let said =
            run(&mut instance.store, &self.ticker, limits.configure_ms, |store| exports.lifecycle.call_describe(store));
        lines.extend(instance.take_lines());
        said
    }

    /// An instance that has taken up `config`, a JSON object.
    pub(super) fn make(&self, limits: PluginLimits, config: &str, lines: &mut Vec<Line>) -> Result<Instance, Unmade> {
        let mut instance = self.start(limits, lines).map_err(Unmade::Failed)?;
        let exports = &instance.exports;
        let taken = run(&mut instance.store, &self.ticker, limits.configure_ms, |store| {
            exports.lifecycle.call_configure(store, config)
        });
        lines.extend(instance.take_lines());
        match taken {
            Ok(Ok(())) => Ok(instance),
            Ok(Err(refused)) => Err(Unmade::Config { path: cut(&refused.path), message: cut(&refused.message) }),
            Err(failure) => Err(Unmade::Failed(failure)),
        }
    }
}

impl Instance {
    /// One call, unless an earlier one was cut off.
    pub(super) fn call<C: Call>(&mut self, input: &C::Input, around: &Surroundings) -> Result<C::Output, Failure> {
        let guest = self.store.data_mut();
        guest.now_ms = around.now_ms;
        guest.random = around.seed;
        let (exports, cpu_ms) = (&self.exports, self.limits.cpu_ms);
        let answer = run(&mut self.store, &self.ticker, cpu_ms, |store| C::call(exports, store, input, around, cpu_ms));
        self.dead = answer.is_err();
        match answer? {
            Ok(answer) => C::check(answer, input).map_err(|said| Failure::Invalid { said }),
            Err(failure) => Err(Failure::Declined { said: words(&failure) }),
        }
    }

    /// One call of an adapter: what it answers, or its own refusal.
    pub(super) fn call_adapter<R>(
        &mut self,
        around: &Surroundings,
        call: impl FnOnce(&adapter::Guest, &mut Store<Guest>, u32) -> wasmtime::Result<Result<R, Refusal>>,
    ) -> Result<R, Failure> {
        let guest = self.store.data_mut();
        guest.now_ms = around.now_ms;
        guest.random = around.seed;
        let (exports, cpu_ms) = (&self.exports, self.limits.cpu_ms);
        let answer = run(&mut self.store, &self.ticker, cpu_ms, |store| {
            let adapter = exports.adapter.as_ref();
            let adapter = adapter.ok_or_else(|| wasmtime::Error::msg("the component is no adapter"))?;
            call(adapter, store, cpu_ms)
        });
        self.dead = answer.is_err();
        answer?.map_err(|failure| Failure::Declined { said: words(&failure) })
    }

    /// A component that says no, or answers nonsense, is whole; one that was cut off is not.
    pub(super) fn is_whole(&self) -> bool {
        !self.dead
    }

    pub(super) fn memory(&self) -> usize {
        self.store.data().memory
    }

    pub(super) fn take_lines(&mut self) -> Vec<Line> {
        self.store.data_mut().take_lines()
    }
}

/// A guest's own words, at a length that people read and without what moves a terminal's cursor.
fn cut(text: &str) -> String {
    text.chars().take(500).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn words(failure: &super::bindings::types::Failure) -> String {
    use super::bindings::types::Failure as Said;
    match failure {
        Said::Unsupported(text) => format!("unsupported: {}", cut(text)),
        Said::InvalidInput(text) => format!("invalid input: {}", cut(text)),
        Said::Internal(text) => format!("internal: {}", cut(text)),
        Said::Other((code, text)) => format!("{}: {}", cut(code), cut(text)),
    }
}

/// Where one instance lives, with every limit that holds in there.
fn store(engine: &Engine, limits: PluginLimits) -> Store<Guest> {
    let memory_max = usize::try_from(limits.memory_mb).unwrap_or(usize::MAX).saturating_mul(1024 * 1024);
    let mut store = Store::new(
        engine,
        Guest {
            memory_max,
            memory: 0,
            meter: Meter::new(),
            lines: Vec::new(),
            line_bytes: 0,
            errors_over: 0,
            lines_dropped: 0,
            now_ms: 0,
            random: 0,
        },
    );
    store.limiter(|guest| guest);
    store.set_hostcall_fuel(RESULT_BYTES_MAX);
    store.epoch_deadline_callback(|context| context.data().meter.look().map(|()| UpdateDeadline::Continue(1)));
    store
}

/// Runs guest code of a store under `cpu_ms` of CPU time.
fn run<R>(
    store: &mut Store<Guest>,
    ticker: &Ticker,
    cpu_ms: u32,
    code: impl FnOnce(&mut Store<Guest>) -> wasmtime::Result<R>,
) -> Result<R, Failure> {
    let cpu_max = Duration::from_millis(cpu_ms.into());
    store.data_mut().meter = Meter::of(cpu_max);
    store.set_epoch_deadline(1);
    let _running = ticker.running(cpu_max);
    code(store).map_err(|error| {
        let panicked = store.data().lines.iter().rfind(|line| line.level == "error").map(|line| line.text.clone());
        tracing::debug!(error = chain(&error), "guest code ended in an error");
        Failure::of(&error, panicked.as_deref())
    })
}

impl Meter {
    fn new() -> Self {
        Self::of(Duration::ZERO)
    }

    fn of(cpu_max: Duration) -> Self {
        Self { cpu_from: thread_cpu_time(), wall_from: Instant::now(), cpu_max }
    }

    fn look(&self) -> wasmtime::Result<()> {
        let used = thread_cpu_time().saturating_sub(self.cpu_from);
        if let Some((limit, said)) = passed(used, self.wall_from.elapsed(), self.cpu_max) {
            return Err(Passed::new(limit, said).into());
        }
        // A call that takes milliseconds lets the short ones go first; a short one that meets a tick does not.
        if used > LONG {
            std::thread::yield_now();
        }
        Ok(())
    }
}

/// The limit that a call has passed after so much CPU time and so much time on the wall.
fn passed(cpu: Duration, wall: Duration, cpu_max: Duration) -> Option<(Limit, String)> {
    let wall_max = cpu_max * WALL_FACTOR;
    if cpu > cpu_max {
        let said = format!("{} ms of CPU time, {} are allowed", cpu.as_millis(), cpu_max.as_millis());
        return Some((Limit::CpuTime, said));
    }
    (wall > wall_max).then(|| (Limit::WallTime, format!("no answer within {} ms", wall_max.as_millis())))
}

fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

impl Guest {
    pub(super) fn log(&mut self, level: &'static str, text: &str) {
        let mut end = text.len().min(LOG_LINE_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        if self.lines.len() >= LOG_LINES_MAX || self.line_bytes + end > LOG_BYTES_MAX {
            if level != "error" || self.errors_over >= LOG_ERRORS_OVER_MAX {
                self.lines_dropped += 1;
                return;
            }
            self.errors_over += 1;
        }
        self.line_bytes += end;
        let cut = if end < text.len() { " … (cut)" } else { "" };
        self.lines.push(Line { level, text: format!("{}{cut}", &text[..end]) });
    }

    fn take_lines(&mut self) -> Vec<Line> {
        self.line_bytes = 0;
        self.errors_over = 0;
        let dropped = std::mem::take(&mut self.lines_dropped);
        let mut lines = std::mem::take(&mut self.lines);
        if dropped > 0 {
            lines.push(Line { level: "warn", text: format!("{dropped} more lines of this call were dropped") });
        }
        lines
    }
}

impl Guest {
    /// Counts what the guest's memories and tables take together.
    fn take_memory(&mut self, more: usize) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_add(more);
        if total > self.memory_max {
            let said = format!("{} MB wanted, {} are allowed", total.div_ceil(1 << 20), self.memory_max >> 20);
            return Err(Passed::new(Limit::Memory, said).into());
        }
        self.memory = total;
        Ok(true)
    }
}

impl log::Host for Guest {
    fn write(&mut self, level: log::Level, text: String) {
        let level = match level {
            log::Level::Trace => "trace",
            log::Level::Debug => "debug",
            log::Level::Info | log::Level::Other => "info",
            log::Level::Warn => "warn",
            log::Level::Error => "error",
        };
        self.log(level, &text);
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(&mut self, current: usize, desired: usize, _max: Option<usize>) -> wasmtime::Result<bool> {
        self.take_memory(desired.saturating_sub(current))
    }

    fn table_growing(&mut self, current: usize, desired: usize, _max: Option<usize>) -> wasmtime::Result<bool> {
        if desired > TABLE_ELEMENTS_MAX {
            let said = format!("{desired} elements wanted, {TABLE_ELEMENTS_MAX} are allowed");
            return Err(Passed::new(Limit::Tables, said).into());
        }
        self.take_memory(desired.saturating_sub(current) * size_of::<usize>())
    }

    fn instances(&self) -> usize {
        INSTANCES_MAX
    }

    fn memories(&self) -> usize {
        INSTANCES_MAX
    }

    fn tables(&self) -> usize {
        INSTANCES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_does_not_end_a_call_and_standing_still_does() {
        let check = |cpu: u64, wall: u64, expected: Option<Limit>| {
            let ms = Duration::from_millis;
            assert_eq!(passed(ms(cpu), ms(wall), ms(50)).map(|(limit, _)| limit), expected, "{cpu} {wall}");
        };
        check(10, 900, None);
        check(50, 1_000, None);
        check(51, 60, Some(Limit::CpuTime));
        check(10, 1_001, Some(Limit::WallTime));
        check(51, 1_001, Some(Limit::CpuTime));
    }

    /// Real code on the real engine: `work` counts down, `wait` calls out for ever.
    struct Bench {
        engine: Engine,
        ticker: Ticker,
        module: wasmtime::Module,
    }

    impl Bench {
        fn new() -> Self {
            let engine = super::super::engine::engine().expect("an engine");
            let text = r#"(module (import "host" "sleep" (func $sleep))
                (func (export "wait") (param i64) loop $ever call $sleep br $ever end)
                (func (export "work") (param i64)
                    loop $more local.get 0 i64.const 1 i64.sub local.tee 0 i64.const 0 i64.ne br_if $more end))"#;
            let module = wasmtime::Module::new(&engine, wat::parse_str(text).expect("a module")).expect("compiled");
            Self { ticker: Ticker::start(&engine).expect("a thread"), engine, module }
        }

        fn run(&self, function: &str, count: i64, cpu_ms: u32) -> Result<(), Failure> {
            let mut store = store(&self.engine, PluginLimits::default());
            let mut linker: wasmtime::Linker<Guest> = wasmtime::Linker::new(&self.engine);
            // So long that all of them together take next to nothing of the processor.
            let sleep = || std::thread::sleep(Duration::from_millis(20));
            linker.func_wrap("host", "sleep", sleep).expect("linked");
            run(&mut store, &self.ticker, cpu_ms, |store| {
                let instance = linker.instantiate(&mut *store, &self.module)?;
                instance.get_typed_func::<i64, ()>(&mut *store, function)?.call(&mut *store, count)
            })
        }
    }

    #[test]
    fn a_call_that_takes_no_time_of_the_processor_ends_all_the_same() {
        let ended = Bench::new().run("wait", 0, 20).expect_err("cut off");
        assert!(matches!(&ended, Failure::Limit { limit: Limit::WallTime, .. }), "{ended}");
        assert!(ended.to_string().contains("no answer within 400 ms"), "{ended}");
    }

    #[test]
    fn a_machine_that_is_busy_ends_no_call_before_its_time() {
        let bench = Bench::new();
        const COUNT: i64 = 60_000_000;
        let from = thread_cpu_time();
        bench.run("work", COUNT, 60_000).expect("done");
        let took = (thread_cpu_time() - from).as_millis();
        // Beside others the same work takes more of the processor.
        let cpu_ms = u32::try_from(took * 5 + 50).expect("some milliseconds");
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let busy = || {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop()
                }
            };
            // So many that the call takes longer on the clock than its limit of processor time.
            (0..8 * super::super::threads::cores()).for_each(|_| drop(scope.spawn(busy)));
            let ended = bench.run("work", COUNT, cpu_ms);
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(ended.is_ok(), "{ended:?}");
        });
    }
}
