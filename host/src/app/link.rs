//! The link that `chela serve` prints for people.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::App;
use crate::port::Port;

impl App {
    /// A link to the hub that signs its owner in, once; none where the hub is off.
    pub fn hub_link(&self) -> Option<String> {
        let address = (*self.addresses.get(Port::Hub))?;
        let name = self.settings.current().tokens.owner_name();
        let code = self.codes.mint(name, self.clock.elapsed())?;
        let (scheme, address) = (self.scheme(Port::Hub), reachable(address));
        Some(format!("{scheme}://{address}/login?code={code}"))
    }

    /// How a listener is spoken to by a browser.
    pub fn scheme(&self, port: Port) -> &'static str {
        match self.settings.current().identity_of(port) {
            Some(_) => "https",
            None => "http",
        }
    }
}

/// Where a browser of this machine gets to: every address is none that can be called.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_names_an_address_that_can_be_called() {
        let check = |given: &str, named: &str| {
            assert_eq!(reachable(given.parse().expect("an address")).to_string(), named);
        };
        check("0.0.0.0:3102", "127.0.0.1:3102");
        check("[::]:3102", "[::1]:3102");
        check("192.0.2.7:3102", "192.0.2.7:3102");
    }
}
