//! A real browser on a page of another site: it can neither read the gateway nor change it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use chela::port::Port;
use support::{TestHost, have};

/// Tries what a hostile page would, with the right token in hand, and writes what came of it.
const PAGE: &str = r#"<!doctype html><title>evil</title><script>
const out = [];
const attempt = async (name, work) => { try { out.push(name + ": " + await work()); } catch (e) { out.push(name + ": " + e.name); } };
const gateway = "http://GATEWAY";
(async () => {
  await attempt("read", async () => (await fetch(gateway + "/healthz")).status);
  await attempt("post", async () => (await fetch(gateway + "/rpc", { method: "POST", mode: "no-cors", body: '{"method":"config.reload"}' })).type);
  await attempt("token", async () => (await fetch(gateway + "/rpc", { method: "POST", body: '{"method":"config.reload"}', headers: { Authorization: "Bearer TOKEN" } })).status);
  await attempt("socket", () => new Promise((yes, no) => { const s = new WebSocket("ws://GATEWAY/"); s.onopen = () => yes("open"); s.onerror = () => no({ name: "refused" }); }));
  fetch("/report?" + out.join("; "));
})();
</script>"#;

#[test]
fn a_page_of_another_site_gets_nothing_from_the_gateway() {
    if !have("chromium") {
        return;
    }
    let host = TestHost::start();
    let address = host.address(Port::Gateway).to_string();
    let page = PAGE.replace("GATEWAY", &address).replace("TOKEN", &host.token);
    let (site, reports) = serve_page(page);
    let profile = tempfile::tempdir().expect("a temporary directory");
    let mut browser = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .args(["--remote-debugging-port=0", &format!("--user-data-dir={}", profile.path().display())])
        .arg(format!("http://{site}/"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromium runs");
    let report = reports.recv_timeout(Duration::from_secs(120));
    browser.kill().expect("a child of ours");
    browser.wait().expect("it ends");
    assert_eq!(report.expect("a report"), "read: TypeError; post: opaque; token: TypeError; socket: refused");
    let metrics = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
    assert!(metrics.contains("chela_refusals_total{reason=\"origin\"} 4"), "{metrics}");
    let audit = std::fs::read_to_string(host.dir.state.audit_log()).expect("an audit log");
    assert_eq!(audit, "", "nothing was changed");
}

/// A site with one page, on a port of its own, and what that page reports.
fn serve_page(page: String) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (report, reports) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(20) {
            let Ok(stream) = stream else { return };
            let (page, report) = (page.clone(), report.clone());
            // A browser opens some ahead, and says nothing on them for a while.
            std::thread::spawn(move || answer(stream, &page, &report));
        }
    });
    (address, reports)
}

fn answer(mut stream: TcpStream, page: &str, report: &mpsc::Sender<String>) {
    let mut head = [0u8; 8192];
    let read = stream.read(&mut head).unwrap_or_default();
    let head = String::from_utf8_lossy(&head[..read]).into_owned();
    if let Some((_, rest)) = head.split_once("GET /report?") {
        let said = rest.split(' ').next().unwrap_or_default().replace("%20", " ");
        // The test may have given up already.
        let _ = report.send(said);
    }
    let _ = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
}
