//! The hub's pages in a browser: opened, waited for, and looked at in both themes and on a phone, by what a machine can see of
//! accessibility and by pictures that are left for people.

use serde_json::{Value, json};

use crate::browser::{Browser, Tab, pictures};
use crate::{Binary, TestDir, have, target};

/// What must hold of every page: names, one heading, no page wider than its window, text that can be told from what is behind it.
const CHECKS: &str = include_str!("checks.js");

/// Where `cargo xtask languages` installs what looks for faults of accessibility.
const AXE: &str = "axe/node_modules/axe-core/axe.min.js";

/// Runs axe on what is shown, and tells what it found, one line a fault.
const RUN_AXE: &str = "axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations.flatMap((one) => one.nodes.slice(0, 3).map((node) => one.id + ': ' + node.html.slice(0, 200))))";

/// A gateway as a process, the demo team with a script, and a browser that is signed in.
pub struct Site<'a> {
    pub serving: &'a Binary,
    pub browser: &'a Browser,
    pub token: String,
}

impl<'a> Site<'a> {
    pub fn new(dir: &TestDir, serving: &'a Binary, browser: &'a Browser) -> Self {
        Self { serving, browser, token: dir.token() }
    }

    pub fn address(&self, path: &str) -> String {
        format!("http://{}{path}", self.serving.run_file().addresses.hub.expect("the hub listens"))
    }

    /// A tab of its own that is signed in with a token.
    pub fn signed_in(&self, language: &str, token: &str) -> Tab<'a> {
        let tab = self.browser.tab();
        tab.reads(language);
        tab.open(&self.address("/login"));
        tab.fill("#token", token);
        tab.key("Enter");
        tab.until("somebody is signed in", "location.pathname === '/' && document.querySelector('#live')");
        tab
    }

    pub fn open(&self, tab: &Tab<'_>, path: &str) {
        let opened = || {
            tab.open(&self.address(path));
            tab.until("the page is live", "document.getElementById('live')?.hidden === false");
        };
        opened();
        // A form that was sent just before may have led elsewhere meanwhile.
        if tab.eval("location.pathname") != json!(path.split('?').next().unwrap_or_default()) {
            opened();
        }
        tab.eval("window.mark = 1");
    }

    /// Calls a method as the owner.
    pub fn call(&self, method: &str, params: Value) -> Value {
        let answer = self.block_on(self.serving.client(&self.token).call(method, params));
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// What a path below `/api` answers.
    pub fn api(&self, path: &str) -> Value {
        let answer = self.block_on(self.serving.client(&self.token).api("GET".parse().expect("a method"), path, None));
        answer.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
    }

    /// Sends to an agent without waiting for its answer.
    pub fn tell(&self, agent: &str, text: &str, key: &str) {
        self.call("agent", json!({ "agentId": agent, "message": text, "idempotencyKey": key }));
    }

    /// Calls a tool as an agent would; it must succeed.
    pub fn tool(&self, agent: &str, tool: &str, args: Value) -> Value {
        let asked = json!({ "tool": tool, "args": args, "sessionKey": format!("agent:{agent}:main") });
        let answer = self.block_on(self.serving.client(&self.token).invoke_tool(&asked)).expect("an answer");
        assert_eq!(answer["success"], true, "{tool}: {answer}");
        answer
    }
}

pub fn shows(tab: &Tab<'_>, text: &str) {
    tab.until(&format!("{text:?} is shown"), &format!("document.body.innerText.includes({})", json!(text)));
}

pub fn lacks(tab: &Tab<'_>, text: &str) {
    tab.until(&format!("{text:?} is gone"), &format!("!document.body.innerText.includes({})", json!(text)));
}

/// Nothing has been loaded anew since the page was opened.
pub fn assert_marked(tab: &Tab<'_>) {
    assert_eq!(tab.eval("window.mark"), json!(1), "the page was loaded anew");
}

/// Puts a file into the field as a person does who chooses one, and sends it.
pub fn upload(name: &str, bytes: &[u8]) -> String {
    let list = bytes.iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    format!(
        "(() => {{ const data = new DataTransfer(); data.items.add(new File([new Uint8Array([{list}])], '{name}')); const field = document.querySelector('#upload'); field.files = data.files; field.form.requestSubmit(); }})()"
    )
}

/// Looks at a view in both themes and on a phone, and leaves pictures of it.
pub fn look_at(tab: &Tab<'_>, name: &str) {
    for (width, dark) in [(1280, false), (1280, true), (390, false), (390, true)] {
        // Twice is enough for axe: what differs by width and by theme is seen in both.
        seen(tab, name, (width, dark), (width < 600) == dark);
    }
    tab.size(1280, 900);
    tab.dark(false);
}

/// Looks at a view once, of this width and in this theme.
pub fn glance_at(tab: &Tab<'_>, name: &str, how: (u32, bool)) {
    seen(tab, name, how, true);
    tab.size(1280, 900);
    tab.dark(false);
}

fn seen(tab: &Tab<'_>, name: &str, (width, dark): (u32, bool), by_axe: bool) {
    tab.size(width, if width < 600 { 844 } else { 900 });
    tab.dark(dark);
    let theme = if dark { "dark" } else { "light" };
    let found = tab.eval(CHECKS);
    assert_eq!(found, json!([]), "{name} in {theme} at {width} px: {found:#}");
    if by_axe && have("axe") {
        let axe = std::fs::read_to_string(target().join(AXE)).expect("readable");
        tab.eval(&format!("{axe}; 0"));
        let found = tab.eval(RUN_AXE);
        assert_eq!(found, json!([]), "{name} in {theme} at {width} px: {found:#}");
    }
    tab.photograph(&pictures().join(format!("{name}-{theme}-{width}.png")));
}
