//! `TestHost`: the library in this process, on free ports and a manual clock, over real HTTP.

use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use chela::app::{App, Error, Options};
use chela::client::{Answer, Client};
use chela::clock::{Clock, Timestamp};
use chela::event::{Event, Kind};
use chela::port::{PerPort, Port};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::dir::assert_no_stray_files;
use crate::{PATIENCE, TestDir, binary, eventually};

pub struct TestHost {
    pub dir: TestDir,
    pub clock: Clock,
    /// The owner's token at the start.
    pub token: String,
    app: Option<App>,
    runtime: Option<Runtime>,
}

impl TestHost {
    /// A new gateway with the demo team.
    pub fn start() -> Self {
        Self::start_with(|_| {})
    }

    /// A new gateway whose configuration `edit` has changed.
    pub fn start_with(edit: impl FnOnce(&mut Value)) -> Self {
        Self::start_in(TestDir::with_config(edit)).unwrap_or_else(|(error, _)| panic!("the gateway starts: {error}"))
    }

    pub fn start_in(dir: TestDir) -> Result<Self, (Error, TestDir)> {
        Self::start_at(dir, 1_700_000_000_000)
    }

    /// A gateway whose clock begins at `ms`.
    pub fn start_at(dir: TestDir, ms: u64) -> Result<Self, (Error, TestDir)> {
        let clock = Clock::manual(Timestamp(ms));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let options = Options {
            dir: dir.state.clone(),
            clock: clock.clone(),
            listen: PerPort::default(),
            compiler: binary::path(),
            watched: None,
            segment_bytes: chela::bus::SEGMENT_BYTES,
        };
        let until = Instant::now() + PATIENCE;
        loop {
            match runtime.block_on(App::start(options.clone())) {
                Ok(app) => {
                    let token = dir.token();
                    return Ok(Self { dir, clock, token, app: Some(app), runtime: Some(runtime) });
                }
                // A process that some other test is about to run holds for a moment what this one has open: the lock of a gateway before.
                Err(Error::Served { .. }) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                Err(error) => return Err((error, dir)),
            }
        }
    }

    pub fn app(&self) -> &App {
        self.app.as_ref().expect("it serves until it is stopped")
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.as_ref().expect("it runs until it is stopped").block_on(future)
    }

    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.as_ref().expect("it runs until it is stopped").spawn(future)
    }

    pub fn address(&self, port: Port) -> SocketAddr {
        self.app().addresses().get(port).expect("every listener of a test host is on")
    }

    /// A client with the owner's token.
    pub fn client(&self, port: Port) -> Client {
        Client::new(self.address(port), Some(self.token.clone())).with_patience(PATIENCE)
    }

    /// A request to the gateway with exactly these headers, and the owner's token unless they give one.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let method = method.parse().expect("a method");
        let sent = self.client(Port::Gateway);
        self.block_on(sent.send(method, path, headers, body.to_vec())).expect("an answer")
    }

    /// What the monitor answers as JSON, with its status; asked again while the index is being made.
    pub fn get(&self, path: &str) -> (u16, Value) {
        eventually("the index is there", || {
            let answer = self.request("GET", path, &[], b"");
            let body = answer.json();
            (body["error"]["code"] != "indexing").then_some((answer.status, body))
        })
    }

    /// Every event so far, as the log has it.
    pub fn events(&self) -> Vec<Value> {
        self.block_on(self.app().bus().flushed()).expect("the log takes it");
        self.dir.events()
    }

    /// Emits an event of an agent and waits until it is on the disk.
    pub fn emit(&self, agent: &str, kind: Kind, data: Value) {
        let event = Event::of(agent, kind, self.clock.now(), chela::bus::data(data));
        self.block_on(self.app().bus().emit_durable(event)).expect("the log takes it");
    }

    /// Calls a method as the owner.
    pub fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        let frame = json!({ "method": method, "params": params }).to_string();
        let answer = self.request("POST", "/rpc", &[], frame.as_bytes()).json();
        if answer["ok"] == json!(true) { Ok(answer["payload"].clone()) } else { Err(answer["error"].clone()) }
    }

    /// Moves the clock until `look` finds what it waits for: settling and retries wait on the clock.
    pub fn eventually<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        eventually(what, || {
            self.advance_in_step(Duration::from_millis(50));
            look()
        })
    }

    /// Moves the clock no faster than the gateway gets the processor: else requests under way would run out of time on a busy machine.
    pub(crate) fn advance_in_step(&self, by: Duration) {
        self.block_on(self.spawn(std::future::ready(()))).expect("the gateway's threads go on");
        self.clock.advance(by);
    }

    /// Stops the gateway and asserts that nothing of it is left; dropping it does the same.
    pub fn stop(mut self) -> TestDir {
        self.end();
        std::mem::replace(&mut self.dir, TestDir::empty())
    }

    fn end(&mut self) {
        let (Some(app), Some(runtime)) = (self.app.take(), self.runtime.take()) else { return };
        let stopped = runtime.block_on(async { tokio::time::timeout(PATIENCE, app.stop()).await });
        stopped.expect("a stop that comes to an end").expect("a clean stop");
        eventually("every task has ended", || (runtime.metrics().num_alive_tasks() == 0).then_some(()));
        drop(runtime);
        assert_no_stray_files(&self.dir.state);
        let held = open_files_below(self.dir.state.path());
        assert!(held.is_empty(), "still open after the stop: {held:?}");
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The first failure is the one to see; the threads end with the process.
            if let Some(runtime) = self.runtime.take() {
                runtime.shutdown_background();
            }
        } else {
            self.end();
        }
    }
}

fn open_files_below(dir: &std::path::Path) -> Vec<String> {
    let links = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let targets = links.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.starts_with(dir)).map(|target| target.display().to_string()).collect()
}
