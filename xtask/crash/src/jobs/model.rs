//! A model server that speaks the chat API of OpenAI just far enough, and remembers who asked when.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;

/// The longest that an answer takes to begin.
const DELAY_MS_MAX: u64 = 30;
/// How long a request may lie unread.
const UNREAD: Duration = Duration::from_millis(25);

#[derive(Default)]
struct Heard {
    /// When each key was asked, counted over all requests and kills.
    times: HashMap<String, Vec<u64>>,
    kills: Vec<u64>,
    count: u64,
}

pub struct Model {
    address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
}

impl Model {
    pub fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, heard) = (listener.local_addr()?, Arc::new(Mutex::new(Heard::default())));
        let shared = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let heard = shared.clone();
                std::thread::spawn(move || {
                    // A gateway that was killed hangs up wherever it is.
                    let _ = serve(stream, &heard);
                });
            }
        });
        Ok(Self { address, heard })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn count(&self) -> u64 {
        self.heard().count
    }

    /// From now on what was in flight may be asked again. What the killed one sent last may still lie in a socket.
    pub fn note_kill(&self) {
        std::thread::sleep(UNREAD);
        let mut heard = self.heard();
        heard.count += 1;
        let now = heard.count;
        heard.kills.push(now);
    }

    /// When a turn was asked. Its run has one step, whose key ends with the number of answers before.
    pub fn times(&self, turn: &str) -> Vec<u64> {
        self.heard().times.get(&format!("{turn}:0")).cloned().unwrap_or_default()
    }

    /// How often a turn was asked again that was not in flight at a kill, and how often one that was. `done`: when something was asked that
    /// follows from its reply, which was on record by then.
    pub fn repeated(&self, times: &[u64], done: Option<u64>) -> (u64, u64) {
        repeated(&self.heard().kills, times, done)
    }

    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn repeated(kills: &[u64], times: &[u64], done: Option<u64>) -> (u64, u64) {
    let killed = |pair: &[u64]| kills.iter().any(|kill| pair[0] < *kill && *kill < pair[1]);
    let in_flight = |pair: &&[u64]| killed(pair) && done.is_none_or(|done| pair[1] < done);
    let excused = times.windows(2).filter(in_flight).count() as u64;
    (times.windows(2).len() as u64 - excused, excused)
}

fn serve(stream: TcpStream, heard: &Mutex<Heard>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let (mut key, mut length) = (String::new(), 0);
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            match name.to_ascii_lowercase().as_str() {
                "idempotency-key" => key = value.trim().to_owned(),
                "content-length" => length = value.trim().parse().unwrap_or(0),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.count += 1;
            let now = heard.count;
            heard.times.entry(key.clone()).or_default().push(now);
        }
        let mixed = key.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        std::thread::sleep(Duration::from_millis(mixed % DELAY_MS_MAX));
        // The exchange ends with the second turn at the latest.
        let says = if String::from_utf8_lossy(&body).contains("Agent-to-agent turn 2") { "REPLY_SKIP" } else { "done" };
        let events = format!(
            "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"{says}\"}},\"finish_reason\":null}}]}}\n\n\
             data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}],\"usage\":{{\"prompt_tokens\":5,\"completion_tokens\":1,\"total_tokens\":6}}}}\n\n\
             data: [DONE]\n\n"
        );
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: ";
        write!(writer, "{head}{}\r\n\r\n{events}", events.len())?;
        writer.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_again_is_excused_only_for_what_was_in_flight_at_a_kill() {
        let kills = [10, 20];
        assert_eq!(repeated(&kills, &[5], None), (0, 0));
        assert_eq!(repeated(&kills, &[5, 15, 25], None), (0, 2), "once for each kill");
        assert_eq!(repeated(&kills, &[5, 15, 17], None), (1, 1), "nobody was killed between");
        assert_eq!(repeated(&kills, &[5, 15], Some(16)), (0, 1));
        assert_eq!(repeated(&kills, &[5, 15], Some(8)), (1, 0), "its reply was on record before the kill");
        assert_eq!(repeated(&kills, &[5, 15, 25], Some(18)), (1, 1), "and before the second");
    }
}
