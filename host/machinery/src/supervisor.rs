//! What a service manager is told: that we are ready, that we read the configuration again, that we stop, and that we still live.
//! Speaks the protocol of `sd_notify` over the socket that `NOTIFY_SOCKET` names. Keeps true: without a manager nothing is said, and what
//! cannot be said stops nothing. Never: says that we live when we did not look.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Of a state that people read, no more than this is told.
const STATUS_CHARS_MAX: usize = 400;

/// The way to the manager that started us, if there is one; cheap to clone.
#[derive(Clone)]
pub struct Supervisor(Option<Arc<Line>>);

struct Line {
    socket: UnixDatagram,
    manager: SocketAddr,
    /// It wants to hear from us within this time.
    patience: Option<Duration>,
}

impl Supervisor {
    /// The one that the environment names. A name that is none is said in the log.
    pub fn of_environment() -> Self {
        let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return Self(None) };
        let usec = std::env::var("WATCHDOG_USEC").ok();
        // Where the variable names a process, it may be our parent's and not ours.
        let meant = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
        let patience = usec.filter(|_| meant).and_then(|usec| patience_of(&usec));
        Self::at(name.as_bytes(), patience).unwrap_or_else(|error| {
            tracing::warn!(%error, "NOTIFY_SOCKET cannot be used; the service manager is told nothing");
            Self(None)
        })
    }

    /// Whether there is one; then what is printed goes to its journal.
    pub fn is_there(&self) -> bool {
        self.0.is_some()
    }

    fn at(name: &[u8], patience: Option<Duration>) -> std::io::Result<Self> {
        let manager = match name {
            [b'@', rest @ ..] => SocketAddr::from_abstract_name(rest)?,
            _ => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that does not read must not hold up who serves.
        socket.set_nonblocking(true)?;
        Ok(Self(Some(Arc::new(Line { socket, manager, patience }))))
    }

    /// We serve. Also the end of a reload.
    pub fn ready(&self, status: &str) {
        self.say(&format!("READY=1\nSTATUS={}", one_line(status)));
    }

    /// The configuration is being read again; `ready` says when that is over.
    pub fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let usec = now.tv_sec.saturating_mul(1_000_000).saturating_add(now.tv_nsec / 1_000);
        self.say(&format!("RELOADING=1\nMONOTONIC_USEC={usec}"));
    }

    /// We stop, and that may take so long.
    pub fn stopping(&self, at_most: Duration) {
        self.say(&format!("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC={}", at_most.as_micros()));
    }

    /// How we are, for people.
    pub fn status(&self, status: &str) {
        self.say(&format!("STATUS={}", one_line(status)));
    }

    /// Tells the manager that we live, as often as it wants to hear it, each time after `pulse` came back; for ever.
    pub async fn keep_watched<F: Future<Output = ()>>(self, pulse: impl Fn() -> F) {
        let Some(patience) = self.0.as_ref().and_then(|line| line.patience) else { return };
        loop {
            pulse().await;
            self.say("WATCHDOG=1");
            tokio::time::sleep(patience / 2).await;
        }
    }

    fn say(&self, words: &str) {
        let Some(line) = &self.0 else { return };
        if let Err(error) = line.socket.send_to_addr(words.as_bytes(), &line.manager) {
            tracing::debug!(%error, "the service manager took no word");
        }
    }
}

/// How long the manager waits, of the text of its variable; less than a millisecond is no time to answer in.
fn patience_of(usec: &str) -> Option<Duration> {
    let usec: u64 = usec.parse().ok()?;
    (usec >= 1_000).then(|| Duration::from_micros(usec))
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(STATUS_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn heard(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let read = socket.recv(&mut bytes).expect("a message");
        String::from_utf8(bytes[..read].to_vec()).expect("UTF-8")
    }

    #[tokio::test]
    async fn a_pulse_that_does_not_come_back_is_the_last_thing_that_is_heard() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = temp.path().join("notify");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        manager.set_read_timeout(Some(Duration::from_secs(120))).expect("a limit");
        let supervisor = Supervisor::at(path.as_os_str().as_bytes(), Some(Duration::from_millis(2))).expect("a line");
        let beats = Arc::new(AtomicU32::new(0));
        let pulse = {
            let beats = beats.clone();
            move || {
                let nth = beats.fetch_add(1, Ordering::Relaxed);
                async move {
                    if nth == 3 {
                        std::future::pending::<()>().await;
                    }
                }
            }
        };
        let watched = tokio::spawn(supervisor.clone().keep_watched(pulse));
        while beats.load(Ordering::Relaxed) < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!([heard(&manager), heard(&manager), heard(&manager)], ["WATCHDOG=1"; 3]);
        supervisor.status("after\nthe last");
        assert_eq!(heard(&manager), "STATUS=after the last", "no beat stands between");
        assert!(!watched.is_finished());
        watched.abort();
    }

    #[test]
    fn a_patience_is_a_number_of_microseconds() {
        assert_eq!(patience_of("30000000"), Some(Duration::from_secs(30)));
        for none in ["", "0", "999", "-1", "soon", "1.5"] {
            assert_eq!(patience_of(none), None, "{none:?}");
        }
    }

    #[test]
    fn an_abstract_name_is_heard_like_a_path_and_nobody_there_is_no_error() {
        let name = format!("chela-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a name");
        let manager = UnixDatagram::bind_addr(&address).expect("a socket");
        let supervisor = Supervisor::at(format!("@{name}").as_bytes(), None).expect("a line");
        supervisor.reloading();
        let said = heard(&manager);
        assert!(said.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{said}");
        supervisor.stopping(Duration::from_secs(40));
        assert_eq!(heard(&manager), "STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=40000000");
        drop(manager);
        supervisor.ready("unheard");
        Supervisor(None).ready("to nobody");
    }
}
