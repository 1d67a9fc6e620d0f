//! A real browser, driven over its own protocol: pages are opened, looked at, typed into and photographed.
//! Keeps true: every tab has cookies of its own; what a page's script throws, or the browser refuses to load, is kept for the test to see.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// A machine with much to do starts a browser slowly.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Browser {
    child: Child,
    runtime: Runtime,
    socket: RefCell<WebSocketStream<MaybeTlsStream<TcpStream>>>,
    next: Cell<u64>,
    problems: RefCell<Vec<String>>,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Self {
        let profile = tempfile::tempdir().expect("a temporary directory");
        let child = Command::new("chromium")
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-extensions",
            ])
            .args(["--disable-dev-shm-usage", "--force-color-profile=srgb"])
            .args([
                "--remote-debugging-port=0",
                &format!("--user-data-dir={}", profile.path().display()),
                "about:blank",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromium runs");
        let address = within("the browser listens", || {
            let text = std::fs::read_to_string(profile.path().join("DevToolsActivePort")).ok()?;
            let (port, path) = text.trim().split_once('\n')?;
            Some(format!("ws://127.0.0.1:{port}{path}"))
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let limits = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let connected = tokio_tungstenite::connect_async_with_config(address, Some(limits), false);
        let (socket, _) = runtime.block_on(connected).expect("the browser takes the connection");
        let (next, problems) = (Cell::new(0), RefCell::default());
        Self { child, runtime, socket: RefCell::new(socket), next, problems, _profile: profile }
    }

    /// A tab that shares nothing with others.
    pub fn tab(&self) -> Tab<'_> {
        self.tab_of(self.command(None, "Target.createBrowserContext", json!({}))["browserContextId"].clone())
    }

    fn tab_of(&self, context: Value) -> Tab<'_> {
        // In a window of its own: a size is given to no other.
        let made = json!({ "url": "about:blank", "browserContextId": context, "newWindow": true, "width": 1280, "height": 900 });
        let target = self.command(None, "Target.createTarget", made)["targetId"].clone();
        let attached = self.command(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        let session = attached["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.command(Some(&session), domain, json!({}));
        }
        // Each is the one that somebody looks at, however many there are.
        self.command(Some(&session), "Emulation.setFocusEmulationEnabled", json!({ "enabled": true }));
        Tab { browser: self, context, session }
    }

    /// What scripts threw and what was not loaded, since it was last asked for.
    pub fn problems(&self) -> Vec<String> {
        std::mem::take(&mut *self.problems.borrow_mut())
    }

    fn command(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.ask(session, method, params).unwrap_or_else(|error| panic!("{method}: {error:#}"))
    }

    /// Like `command`, for whoever can do something about a refusal.
    fn ask(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.next.get() + 1;
        self.next.set(id);
        let mut frame = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            frame["sessionId"] = json!(session);
        }
        let mut socket = self.socket.borrow_mut();
        self.runtime.block_on(async {
            socket.send(Message::text(frame.to_string())).await.expect("the browser reads");
            let answer = async {
                while let Some(message) = socket.next().await {
                    let Message::Text(text) = message.expect("a whole frame") else { continue };
                    let heard: Value = serde_json::from_str(&text).expect("JSON");
                    if heard["id"] == json!(id) {
                        return match heard.get("error") {
                            None => Ok(heard["result"].clone()),
                            Some(error) => Err(error.clone()),
                        };
                    }
                    self.note(&heard);
                }
                panic!("the browser is gone");
            };
            tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("no answer to {method}"))
        })
    }

    fn note(&self, heard: &Value) {
        let params = &heard["params"];
        let said = match heard["method"].as_str() {
            Some("Runtime.exceptionThrown") => params["exceptionDetails"]["exception"]["description"].to_string(),
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                format!("{} {}", params["entry"]["text"], params["entry"]["url"])
            }
            _ => return,
        };
        self.problems.borrow_mut().push(said);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn within<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub struct Tab<'a> {
    browser: &'a Browser,
    /// Whose cookies it has.
    context: Value,
    session: String,
}

impl<'a> Tab<'a> {
    /// Another tab of the same person: who signs in or out in one of them does so in both.
    pub fn neighbour(&self) -> Tab<'a> {
        self.browser.tab_of(self.context.clone())
    }
}

impl Tab<'_> {
    fn command(&self, method: &str, params: Value) -> Value {
        self.browser.command(Some(&self.session), method, params)
    }

    /// Goes to an address and waits until it is loaded.
    pub fn open(&self, address: &str) {
        // Where the page is on its way elsewhere by itself, that may end this way.
        let mut gone = self.command("Page.navigate", json!({ "url": address }));
        for _ in 0..2 {
            if gone["errorText"] == json!("net::ERR_ABORTED") {
                gone = self.command("Page.navigate", json!({ "url": address }));
            }
        }
        assert!(gone.get("errorText").is_none(), "{address}: {gone}");
        self.until("the page is loaded", "document.readyState === 'complete'");
    }

    /// What an expression of JavaScript comes to.
    pub fn eval(&self, expression: &str) -> Value {
        let asked = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.command("Runtime.evaluate", asked);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {:#}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true; while a page is being left there may be nobody to ask.
    pub fn until(&self, what: &str, expression: &str) {
        self.until_while(what, expression, || {});
    }

    /// Like [`Tab::until`], and lets something go on meanwhile, such as a clock.
    pub fn until_while(&self, what: &str, expression: &str, mut go_on: impl FnMut()) {
        // Of half a page nothing can be said.
        let whole = format!("document.readyState === 'complete' && Boolean({expression})");
        let asked = json!({ "expression": whole, "returnByValue": true });
        let started = Instant::now();
        let holds = || {
            let answer = self.browser.ask(Some(&self.session), "Runtime.evaluate", asked.clone());
            answer.is_ok_and(|answer| answer["result"]["value"] == json!(true))
        };
        while !holds() {
            go_on();
            assert!(started.elapsed() < PATIENCE, "waited in vain until {what}: {expression}\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Everything that can be read on the page.
    pub fn text(&self) -> String {
        self.eval("document.body.innerText").as_str().unwrap_or_default().to_owned()
    }

    /// Types into a field, as a keyboard does.
    pub fn fill(&self, selector: &str, text: &str) {
        let found = self.eval(&format!(
            "(() => {{ const f = document.querySelector({}); f?.focus(); f?.select?.(); return !!f; }})()",
            json!(selector)
        ));
        assert_eq!(found, json!(true), "there is a field {selector}\n{}", self.text());
        self.command("Input.insertText", json!({ "text": text }));
    }

    /// Clicks what the selector finds, where it is.
    pub fn click(&self, selector: &str) {
        let place = self.place_of(selector);
        self.clicked(&place, 1);
    }

    fn place_of(&self, selector: &str) -> Value {
        let expression = format!(
            "(() => {{ const e = document.querySelector({}); if (!e) return null; e.scrollIntoView({{ block: 'center' }}); const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        );
        self.until("there is something to click at", &format!("document.querySelector({})", json!(selector)));
        let place = self.eval(&expression);
        assert!(place.is_array(), "there is something to click at {selector}\n{}", self.text());
        place
    }

    /// Clicks twice in quick succession.
    pub fn double_click(&self, selector: &str) {
        let place = self.place_of(selector);
        self.clicked(&place, 1);
        self.clicked(&place, 2);
    }

    fn clicked(&self, place: &Value, count: u32) {
        for kind in ["mousePressed", "mouseReleased"] {
            let click = json!({ "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": count });
            self.command("Input.dispatchMouseEvent", click);
        }
    }

    /// Types one letter where the focus is.
    pub fn type_key(&self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.command("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "text": key }));
        }
    }

    pub fn key(&self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        for kind in ["rawKeyDown", "char", "keyUp"] {
            let text = if key == "Enter" { "\r" } else { "" };
            if kind == "char" && text.is_empty() {
                continue;
            }
            let pressed = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.command("Input.dispatchKeyEvent", pressed);
        }
    }

    /// Enter with the control key, which sends what is written where the focus is.
    pub fn control_enter(&self) {
        for kind in ["rawKeyDown", "keyUp"] {
            let pressed =
                json!({ "type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": 2 });
            self.command("Input.dispatchKeyEvent", pressed);
        }
    }

    /// How large the window is.
    pub fn size(&self, width: u32, height: u32) {
        let mobile = width < 600;
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile });
        self.command("Emulation.setDeviceMetricsOverride", metrics);
    }

    pub fn dark(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.command("Emulation.setEmulatedMedia", media);
    }

    /// What the page's script holds, in megabytes, once what nobody needs is gone.
    pub fn heap_mb(&self) -> f64 {
        self.command("HeapProfiler.collectGarbage", json!({}));
        self.command("Runtime.getHeapUsage", json!({}))["usedSize"].as_f64().unwrap_or_default() / 1e6
    }

    /// Which languages the browser says that it reads.
    pub fn reads(&self, languages: &str) {
        let agent = self.eval("navigator.userAgent");
        self.command("Emulation.setUserAgentOverride", json!({ "userAgent": agent, "acceptLanguage": languages }));
    }

    /// Takes the network away, or gives it back.
    pub fn offline(&self, offline: bool) {
        self.command("Network.enable", json!({}));
        let conditions = json!({ "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1 });
        self.command("Network.emulateNetworkConditions", conditions);
    }

    /// A picture of what is to be seen.
    pub fn photograph(&self, file: &Path) {
        let asked = match file.extension().is_some_and(|ending| ending == "webp") {
            true => json!({ "format": "webp", "quality": 80, "captureBeyondViewport": false }),
            false => json!({ "format": "png", "captureBeyondViewport": false }),
        };
        let taken = self.command("Page.captureScreenshot", asked);
        let bytes = decoded(taken["data"].as_str().expect("a picture"));
        std::fs::write(file, bytes).expect("written");
    }
}

/// Where pictures of this run are kept.
pub fn pictures() -> PathBuf {
    let suite = std::env::current_exe().expect("the suite is a file");
    let target = suite.ancestors().nth(3).expect("in target/PROFILE/deps");
    let folder = target.join("pictures");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Base64, as the browser's protocol has it.
fn decoded(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() * 3 / 4), 0_u32, 0);
    for six in text.bytes().filter_map(value) {
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
        }
    }
    bytes
}
