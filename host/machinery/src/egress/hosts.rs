//! The list of hosts that may be reached. Pure.

use std::net::IpAddr;

use super::target::{Host, Target};

/// Hosts by the rules of a list: a name, all names below one, or an address; with a port, or else the scheme's own.
#[derive(Clone, Debug)]
pub struct Hosts {
    rules: Vec<Rule>,
    /// Where the list stands, for whoever is to add to it.
    place: &'static str,
}

#[derive(Clone, Debug)]
struct Rule {
    host: Named,
    port: Option<u16>,
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
        Some(Self { host, port })
    }

    fn has_port(&self, target: &Target) -> bool {
        self.port.unwrap_or_else(|| target.own_port()) == target.port
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
        Self { rules: rules.filter_map(Rule::parse).collect(), place }
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
