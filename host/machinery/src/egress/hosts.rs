//! The list of hosts that may be reached, and what their names mean.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::Error;
use super::target::{Host, Target};

/// Hosts by the rules of a list: a name, all names below one, or an address; with a port, or else the scheme's own.
#[derive(Clone, Debug)]
pub struct Hosts {
    rules: Vec<Rule>,
    /// Where the list stands, for whoever is to add to it.
    place: &'static str,
    names: Names,
}

#[derive(Clone, Debug)]
struct Rule {
    /// By TLS alone, or never by it; none for both.
    is_secure: Option<bool>,
    host: Named,
    port: Option<u16>,
}

/// Who says what a name means.
#[derive(Clone, Debug)]
enum Names {
    System,
    /// One answer after the other.
    #[cfg(test)]
    Told(std::sync::Arc<std::sync::Mutex<std::collections::VecDeque<IpAddr>>>),
}

#[derive(Clone, Debug)]
enum Named {
    Name(String),
    /// `.example.org`: what lies below, never the name itself.
    Below(String),
    Address(IpAddr),
}

impl Rule {
    /// What is no rule allows nothing.
    fn parse(text: &str) -> Option<Self> {
        let (is_secure, text) = match text.split_once("://") {
            Some(("https" | "wss", rest)) => (Some(true), rest),
            Some(("http" | "ws", rest)) => (Some(false), rest),
            Some(_) => return None,
            None => (None, text),
        };
        let bare = |text: &str| text.parse::<IpAddr>().ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port.parse().ok()?)),
            _ => (text, None),
        };
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => Named::Address(bare(address)?),
            None => match (bare(host), host.strip_prefix('*')) {
                (Some(address), _) => Named::Address(address),
                (None, Some(below)) => Named::Below(below.to_ascii_lowercase()),
                (None, None) => Named::Name(host.to_ascii_lowercase()),
            },
        };
        Some(Self { is_secure, host, port })
    }

    fn has_port(&self, target: &Target) -> bool {
        let by_scheme = self.is_secure.is_none_or(|is_secure| is_secure == target.is_secure());
        by_scheme && self.port.unwrap_or_else(|| target.own_port()) == target.port
    }

    fn fits(&self, target: &Target) -> bool {
        self.has_port(target)
            && match (&self.host, &target.host) {
                (Named::Name(name), Host::Name(host)) => name == host,
                (Named::Below(end), Host::Name(host)) => host.len() > end.len() && host.ends_with(end.as_str()),
                (Named::Address(address), Host::Address(host)) => address == host,
                (Named::Name(_) | Named::Below(_), Host::Address(_)) | (Named::Address(_), Host::Name(_)) => false,
            }
    }
}

impl Hosts {
    pub fn new<'a>(rules: impl Iterator<Item = &'a str>, place: &'static str) -> Self {
        Self { rules: rules.filter_map(Rule::parse).collect(), place, names: Names::System }
    }

    /// The same, where a name that says no scheme is reached by TLS alone: what goes there may be a secret.
    pub fn by_tls<'a>(rules: impl Iterator<Item = &'a str>, place: &'static str) -> Self {
        let mut hosts = Self::new(rules, place);
        for rule in &mut hosts.rules {
            if !matches!(rule.host, Named::Address(_)) {
                rule.is_secure = rule.is_secure.or(Some(true));
            }
        }
        hosts
    }

    /// One whose names mean these addresses, one after the other.
    #[cfg(test)]
    pub(super) fn told(self, answers: &[IpAddr]) -> Self {
        let answers = answers.iter().copied().collect();
        Self { names: Names::Told(std::sync::Arc::new(std::sync::Mutex::new(answers))), ..self }
    }

    /// What a name means now.
    pub(super) async fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match &self.names {
            Names::System => Ok(tokio::net::lookup_host((name, port)).await?.collect()),
            #[cfg(test)]
            Names::Told(answers) => {
                let next = answers.lock().expect("nobody panicked").pop_front();
                Ok(next.map(|address| SocketAddr::new(address, port)).into_iter().collect())
            }
        }
    }

    /// Why a target may not be reached, and what to add so that it may.
    pub(super) fn unlisted(&self, target: &Target) -> Error {
        let named = |is_secure: bool| {
            let like = |rule: &&Rule| rule.is_secure == Some(is_secure);
            self.rules.iter().filter(like).any(|rule| Rule { is_secure: None, ..rule.clone() }.fits(target))
        };
        let host = match (target.is_secure(), named(!target.is_secure())) {
            (false, true) => format!("http://{}", target.host_text()),
            (true, true) => format!("https://{}", target.host_text()),
            (_, false) => target.host_text(),
        };
        Error::NotListed { host, place: self.place }
    }

    /// Whether the list has the host of an address, of the web or of a socket.
    pub fn allows(&self, url: &str) -> bool {
        let as_web = match url.split_once("://") {
            Some(("wss", rest)) => format!("https://{rest}"),
            Some(("ws", rest)) => format!("http://{rest}"),
            _ => url.to_owned(),
        };
        Target::parse(&as_web).is_ok_and(|target| self.has(&target))
    }

    pub(super) fn place(&self) -> &'static str {
        self.place
    }

    /// Whether the list has this host.
    pub(super) fn has(&self, target: &Target) -> bool {
        self.rules.iter().any(|rule| rule.fits(target))
    }

    /// Whether the list names this very address for the target's port, so that it may be an inner one.
    pub(super) fn names(&self, address: IpAddr, target: &Target) -> bool {
        let is_it = |rule: &&Rule| matches!(rule.host, Named::Address(named) if named == address);
        self.rules.iter().filter(is_it).any(|rule| rule.has_port(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rules: &[&str], url: &str, expected: bool) {
        let hosts = Hosts::new(rules.iter().copied(), "a.list");
        let target = Target::parse(url).expect("an address");
        assert_eq!(hosts.has(&target), expected, "{url} by {rules:?}");
    }

    #[test]
    fn the_list_says_which_hosts_and_which_ports() {
        check(&[], "https://api.example.com/", false);
        check(&["api.example.com"], "https://api.example.com/x?y", true);
        check(&["api.example.com"], "http://API.Example.COM./", true);
        check(&["API.example.com"], "http://api.example.com/", true);
        check(&["api.example.com"], "https://api.example.com:8443/", false);
        check(&["api.example.com:8443"], "https://api.example.com:8443/", true);
        check(&["api.example.com:8443"], "https://api.example.com/", false);
        check(&["api.example.com"], "http://api.example.com:443/", false);
        check(&["api.example.com"], "https://api.example.com:443/", true);
        check(&["api.example.com"], "https://xapi.example.com/", false);
        check(&["api.example.com"], "https://api.example.com.evil.example/", false);
        check(&["*.example.org"], "https://a.example.org/", true);
        check(&["*.example.org"], "https://a.b.example.org/", true);
        check(&["*.example.org"], "https://example.org/", false);
        check(&["*.example.org"], "https://evilexample.org/", false);
        check(&["*.example.org:81"], "http://a.example.org:81/", true);
        check(&["127.0.0.1:8080"], "http://127.0.0.1:8080/", true);
        check(&["127.0.0.1:8080"], "http://127.0.0.1:8081/", false);
        check(&["127.0.0.1:8080"], "http://[::ffff:127.0.0.1]:8080/", false);
        check(&["127.0.0.1:8080"], "http://localhost:8080/", false);
        check(&["[::1]:8080"], "http://[::1]:8080/", true);
        check(&["[::1]:8080"], "http://[0:0:0:0:0:0:0:1]:8080/", true);
        check(&["[::1]"], "http://[::1]/", true);
        check(&["*.0.0.1"], "http://127.0.0.1/", false);
        check(&["a:70000"], "http://a/", false);
        check(&["https://api.example.com"], "https://api.example.com/", true);
        check(&["wss://api.example.com"], "https://api.example.com/", true);
        check(&["https://api.example.com"], "http://api.example.com/", false);
        check(&["http://api.example.com"], "https://api.example.com/", false);
        check(&["ws://127.0.0.1:8080"], "http://127.0.0.1:8080/", true);
        check(&["wss://[::1]:8080"], "http://[::1]:8080/", false);
        check(&["ftp://api.example.com"], "https://api.example.com/", false);
    }

    #[test]
    fn where_secrets_go_a_name_without_a_scheme_is_reached_by_tls_alone() {
        let check = |rule: &str, url: &str, expected: Result<(), &str>| {
            let hosts = Hosts::by_tls(std::iter::once(rule), "a.list");
            let target = Target::parse(url).expect("an address");
            let listed = if hosts.has(&target) { Ok(()) } else { Err(hosts.unlisted(&target).to_string()) };
            match expected {
                Ok(()) => assert_eq!(listed, Ok(()), "{url} by {rule}"),
                Err(named) => assert!(listed.clone().is_err_and(|said| said.contains(named)), "{listed:?}"),
            }
        };
        check("api.example.com", "https://api.example.com/", Ok(()));
        check("api.example.com", "http://api.example.com/", Err("\"http://api.example.com\""));
        check("*.example.com", "http://a.example.com/", Err("\"http://a.example.com\""));
        check("http://api.example.com", "http://api.example.com/", Ok(()));
        check("http://api.example.com", "https://api.example.com/", Err("\"https://api.example.com\""));
        check("127.0.0.1:8080", "http://127.0.0.1:8080/", Ok(()));
        check("api.example.com", "https://other.example.com/", Err("\"other.example.com\""));
    }

    #[test]
    fn an_inner_address_is_named_by_itself_or_not_at_all() {
        let named = |rules: &[&str], address: &str, url: &str| {
            let hosts = Hosts::new(rules.iter().copied(), "a.list");
            hosts.names(address.parse().expect("an address"), &Target::parse(url).expect("an address"))
        };
        assert!(named(&["127.0.0.1:8080", "localhost:8080"], "127.0.0.1", "http://localhost:8080/"));
        assert!(!named(&["localhost:8080"], "127.0.0.1", "http://localhost:8080/"));
        assert!(!named(&["127.0.0.1"], "127.0.0.1", "http://localhost:8080/"));
    }
}
