//! WebSocket upgrades pass the same door as every request.

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use support::WebSocket;

#[test]
fn the_client_of_the_tests_speaks_frames_both_ways() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let echo = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("a client");
            let mut socket = tokio_tungstenite::accept_async(stream).await.expect("a handshake");
            let frame = socket.next().await.expect("a frame").expect("whole");
            socket.send(frame).await.expect("sent");
            socket.close(None).await.expect("closed");
        });
        let mut client = WebSocket::connect(address, "/", &[]).await.expect("a WebSocket");
        client.send(&json!({ "type": "req", "method": "health" })).await;
        assert_eq!(client.next().await, Some(json!({ "type": "req", "method": "health" })));
        assert_eq!(client.next().await, None);
        echo.await.expect("the echo ends");
    });
}
