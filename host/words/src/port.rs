//! The three listeners of a gateway, and one of anything for each of them.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Port {
    Gateway,
    Monitor,
    Hub,
}

impl Port {
    pub const ALL: [Self; 3] = [Self::Gateway, Self::Monitor, Self::Hub];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Monitor => "monitor",
            Self::Hub => "hub",
        }
    }
}

/// One `T` for each listener, in JSON under its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerPort<T> {
    pub gateway: T,
    pub monitor: T,
    pub hub: T,
}

impl<T> PerPort<T> {
    pub fn get(&self, port: Port) -> &T {
        match port {
            Port::Gateway => &self.gateway,
            Port::Monitor => &self.monitor,
            Port::Hub => &self.hub,
        }
    }

    pub fn get_mut(&mut self, port: Port) -> &mut T {
        match port {
            Port::Gateway => &mut self.gateway,
            Port::Monitor => &mut self.monitor,
            Port::Hub => &mut self.hub,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Port, &T)> {
        Port::ALL.into_iter().map(|port| (port, self.get(port)))
    }
}
