//! Where a request goes: an address of the web taken apart, and where a redirect leads from it. Pure.

use std::net::IpAddr;

use hyper::Uri;

/// The longest address that is taken.
const URL_BYTES_MAX: usize = 8 * 1024;

#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) uri: Uri,
    pub(super) host: Host,
    pub(super) port: u16,
    is_secure: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// In small letters and without a dot at the end.
    Name(String),
    Address(IpAddr),
}

impl Target {
    pub(super) fn parse(url: &str) -> Result<Self, &'static str> {
        if url.len() > URL_BYTES_MAX {
            return Err("it is longer than 8 KiB");
        }
        let uri: Uri =
            url.parse().map_err(|_| "it is no web address; write https://HOST/PATH, other letters as %XX")?;
        let is_secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("only https and http are spoken"),
        };
        let authority = uri.authority().ok_or("it names no host")?.as_str();
        if authority.contains('@') {
            return Err("it has a name or a password before the host; send an Authorization header instead");
        }
        let host = uri.host().ok_or("it names no host")?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => Host::Address(address.parse().map_err(|_| "what stands in brackets is no IPv6 address")?),
            None => match host.parse() {
                Ok(address) => Host::Address(address),
                Err(_) => Host::Name(host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()),
            },
        };
        if host == Host::Name(String::new()) {
            return Err("it names no host");
        }
        let port = match (uri.port_u16(), uri.port().is_some() || authority.ends_with(':')) {
            (Some(0), _) | (None, true) => return Err("its port is none"),
            (Some(port), _) => port,
            (None, false) => own_port(is_secure),
        };
        Ok(Self { uri, host, port, is_secure })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// The port that the scheme means.
    pub(super) fn own_port(&self) -> u16 {
        own_port(self.is_secure)
    }

    /// Whether both lead to the same door, so that one may hear what was meant for the other.
    pub(super) fn is_same_door(&self, other: &Self) -> bool {
        (&self.host, self.port, self.is_secure) == (&other.host, other.port, other.is_secure)
    }

    /// The host as it is said.
    pub(super) fn host_text(&self) -> String {
        let host = match &self.host {
            Host::Name(name) => name.clone(),
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            Host::Address(IpAddr::V4(address)) => address.to_string(),
        };
        if self.port == self.own_port() { host } else { format!("{host}:{}", self.port) }
    }

    /// Where a redirect leads.
    pub(super) fn follow(&self, location: &str) -> Result<Self, &'static str> {
        let location = location.split('#').next().unwrap_or_default();
        let scheme = if self.is_secure { "https" } else { "http" };
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let (path, query) = (self.uri.path(), self.uri.query());
        let url = if has_scheme(location) {
            location.to_owned()
        } else if let Some(rest) = location.strip_prefix("//") {
            format!("{scheme}://{rest}")
        } else if location.starts_with('/') {
            format!("{scheme}://{authority}{location}")
        } else if location.starts_with('?') {
            format!("{scheme}://{authority}{path}{location}")
        } else if location.is_empty() {
            format!("{scheme}://{authority}{path}{}", query.map(|query| format!("?{query}")).unwrap_or_default())
        } else {
            let folder = path.rfind('/').map_or("/", |at| &path[..=at]);
            let (name, query) = location.find('?').map_or((location, ""), |at| location.split_at(at));
            format!("{scheme}://{authority}{}{query}", without_dots(&format!("{folder}{name}")))
        };
        Self::parse(&url)
    }
}

fn own_port(is_secure: bool) -> u16 {
    if is_secure { 443 } else { 80 }
}

fn has_scheme(location: &str) -> bool {
    let Some((scheme, _)) = location.split_once(':') else { return false };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// A path whose `.` and `..` have been gone.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        parts.push("");
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_web_address_is_refused() {
        let check = |url: &str, expected: &str| {
            let said = Target::parse(url).expect_err(url);
            assert!(said.contains(expected), "{url}: {said}");
        };
        check("ftp://a/", "only https and http");
        check("file:///etc/passwd", "no web address");
        check("/path", "only https and http");
        check("a.example", "only https and http");
        check("https://user:secret@a.example/", "a name or a password");
        check("https://a.example@evil.example/", "a name or a password");
        check("http://a:0/", "its port is none");
        check("http://a b/", "no web address");
        check("http://[::1%25eth0]/", "no IPv6 address");
        check("http://[fe80::zz]/", "no");
        check(&format!("http://a/{}", "x".repeat(9_000)), "longer than 8 KiB");
    }

    #[test]
    fn a_redirect_leads_where_a_browser_would_go() {
        let check = |location: &str, expected: &str| {
            let base = Target::parse("https://a.example:8443/b/c/d?q=1").expect("an address");
            let led = base.follow(location).map(|target| target.uri.to_string());
            assert_eq!(led.as_deref(), Ok(expected), "{location}");
        };
        check("http://other.example/x", "http://other.example/x");
        check("//other.example/x", "https://other.example/x");
        check("/x?y#z", "https://a.example:8443/x?y");
        check("x", "https://a.example:8443/b/c/x");
        check("../x?../y", "https://a.example:8443/b/x?../y");
        check("./..", "https://a.example:8443/b/");
        check("../../../x", "https://a.example:8443/x");
        check("?r=2", "https://a.example:8443/b/c/d?r=2");
        check("", "https://a.example:8443/b/c/d?q=1");
        let base = Target::parse("https://a.example/").expect("an address");
        assert!(base.follow("javascript:alert(1)").is_err() && base.follow("x:y").is_err());
    }
}
