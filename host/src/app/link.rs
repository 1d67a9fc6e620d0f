//! The link that `chela serve` prints for people.

use super::App;
use crate::port::Port;

impl App {
    /// A link to the hub that signs its owner in, once; none where the hub is off.
    pub fn hub_link(&self) -> Option<String> {
        let address = (*self.addresses.get(Port::Hub))?;
        let name = self.settings.current().tokens.owner_name();
        let code = self.codes.mint(name, self.clock.elapsed())?;
        let scheme = self.scheme(Port::Hub);
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
