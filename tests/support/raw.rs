//! Bytes on a connection, for clients that break the rules.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longer than any limit of a gateway that a test waits for.
const PATIENCE: Duration = Duration::from_secs(120);

pub struct RawHttp(TcpStream);

impl RawHttp {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the listener accepts");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Self(stream)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // The other side may have closed already: what it answered is what counts.
        let _ = self.0.write_all(bytes.as_ref());
        self
    }

    /// Whether the other side has said something, or closed.
    pub fn is_answered(&self) -> bool {
        self.0.set_nonblocking(true).expect("a socket");
        let peeked = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false).expect("a socket");
        peeked.is_ok() || peeked.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    }

    /// Everything until the other side closes; fails if it does not.
    pub fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection was not closed ({error}) after {:?}", String::from_utf8_lossy(&bytes)),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The status line, such as `HTTP/1.1 200 OK`; empty when the other side closed without one.
    pub fn read_status(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0u8];
        while !line.ends_with(b"\r\n") {
            match self.0.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                Ok(_) => break,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("no answer: {error}"),
            }
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }

    /// Sends a request whose body of so many bytes is still to come, and returns once its handler waits for that body.
    pub fn begin(address: SocketAddr, token: &str, length: usize) -> Self {
        let mut begun = Self::connect(address);
        begun.send(format!(
            "POST /rpc HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nExpect: 100-continue\r\n\
             Content-Length: {length}\r\n\r\n"
        ));
        assert_eq!(begun.read_status(), "HTTP/1.1 100 Continue");
        begun
    }
}
