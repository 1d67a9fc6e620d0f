//! A real browser on a page of another site: it can neither read the gateway nor change it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;

use chela::edge::Port;
use support::{TestHost, have};

/// Tries what a hostile page would, with the right token in hand, and writes what came of it.
const PAGE: &str = r#"<!doctype html><title>evil</title><pre id=out></pre><script>
const out = [];
const attempt = async (name, work) => { try { out.push(name + ": " + await work()); } catch (e) { out.push(name + ": " + e.name); } };
const gateway = "http://GATEWAY";
(async () => {
  await attempt("read", async () => (await fetch(gateway + "/healthz")).status);
  await attempt("post", async () => (await fetch(gateway + "/rpc", { method: "POST", mode: "no-cors", body: '{"method":"config.reload"}', headers: { Authorization: "Bearer TOKEN" } })).type);
  await attempt("socket", () => new Promise((yes, no) => { const s = new WebSocket("ws://GATEWAY/"); s.onopen = () => yes("open"); s.onerror = () => no({ name: "refused" }); }));
  document.getElementById("out").textContent = out.join("; ") + "; done";
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
    let site = serve_page(page);
    let profile = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--virtual-time-budget=10000", "--dump-dom", &format!("http://{site}/")])
        .output()
        .expect("chromium runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(dom.contains("read: TypeError; post: opaque; socket: refused; done"), "{dom}");
    let metrics = String::from_utf8(host.request("GET", "/metrics", &[], b"").body.to_vec()).expect("text");
    assert!(metrics.contains("chela_refusals_total{reason=\"origin\"} 3"), "{metrics}");
    let audit = std::fs::read_to_string(host.dir.state.audit_log()).expect("an audit log");
    assert_eq!(audit, "", "nothing was changed");
}

/// A site with one page, on a port of its own.
fn serve_page(page: String) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().take(10) {
            let Ok(mut stream) = stream else { return };
            let mut head = [0u8; 4096];
            let _ = stream.read(&mut head);
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
                page.len()
            );
        }
    });
    address
}
