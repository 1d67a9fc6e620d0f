//! Bytes on a connection, for clients that break the rules.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub struct RawHttp(TcpStream);

impl RawHttp {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the listener accepts");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        Self(stream)
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // The other side may have closed already: what it answered is what counts.
        let _ = self.0.write_all(bytes.as_ref());
        self
    }

    /// Everything until the other side closes; fails if it does not within ten seconds.
    pub fn read_to_end(&mut self) -> String {
        let mut bytes = Vec::new();
        match self.0.read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection was not closed ({error}) after {:?}", String::from_utf8_lossy(&bytes)),
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The status line, such as `HTTP/1.1 200 OK`.
    pub fn read_status(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0u8];
        while !line.ends_with(b"\r\n") && self.0.read(&mut byte).expect("an answer") == 1 {
            line.push(byte[0]);
        }
        String::from_utf8_lossy(&line).trim_end().to_owned()
    }
}
