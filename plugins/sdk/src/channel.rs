//! The world `channel`: a chat network as a state machine. What happened goes in, what the host is to do comes out.
//! The adapter has no socket, clock or chance of its own: time and seed are in the request, secrets are pieces that the host fills in.
//! What adapters have in common is here as well: a call's outputs, requests in lanes, deliveries in parts, texts in messages, lists with ends.

mod calls;
mod chunks;
mod deliveries;
pub mod keep;
mod turn;
pub mod wire;

use std::cell::RefCell;

use crate::{ConfigError, Failure, Plugin};

pub use calls::{Answered, Ask, CALLS_TIMER, Call, Calls};
pub use chunks::{Limit, chunks, spans};
pub use deliveries::{Asked, Deliveries, Delivery, Questions, Wanted};
pub use turn::Turn;

pub use crate::worlds::adapter::exports::chela::channel::adapter::{
    CloseSocket, Command, Compression, DeliveryResult, Encoding, Header, Health, HttpRequest, HttpResponse, Inbound,
    Input, Keepalive, Kind, OpenSocket, Outbound, Output, Piece, Place, Presence, Question, Request, SecretRef,
    SendSocket, SetTimer, Signature, Signed, SocketBinary, SocketClosed, SocketText, State, Status, WebhookRequest,
    WebhookResponse,
};

/// Text made of pieces.
pub type Text = Vec<Piece>;

pub trait Channel: Plugin {
    /// Takes what happened, in order, and says what to do about it. What it changes in itself is kept when the outputs have a
    /// [`Output::Checkpoint`]; an error is kept too, so change nothing before one.
    fn handle(&mut self, request: Request) -> Result<Vec<Output>, Failure>;

    /// All that the next instance must know, with the name and version of its form.
    fn snapshot(&self) -> State;

    /// Goes on from a snapshot, of this version or of an earlier one; refuses what it cannot read.
    fn restore(&mut self, state: State) -> Result<(), Failure>;
}

/// Text as it is.
pub fn literal(text: impl Into<String>) -> Piece {
    Piece::Literal(text.into())
}

/// A secret of the deployment, which only the host knows.
pub fn secret(name: impl Into<String>, encoding: Encoding) -> Piece {
    Piece::Secret(SecretRef { name: name.into(), encoding })
}

/// The name of a secret as a configuration gives it.
pub fn is_secret_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 128 && !name.chars().any(char::is_control)
}

/// HMAC-SHA-256 under a named key, in hexadecimal digits.
pub fn hmac_hex(key: impl Into<String>, over: Vec<Signed>) -> Piece {
    Piece::Hmac(Signature { key: key.into(), hex: true, over })
}

/// A header of plain text.
pub fn header(name: &str, value: impl Into<String>) -> Header {
    Header { name: name.to_owned(), value: vec![literal(value)] }
}

/// An adapter changes with every call, the other plugins never do; so the instance holds it in a cell.
impl<P: Plugin> Plugin for RefCell<P> {
    const CONFIG_SCHEMA: &'static str = P::CONFIG_SCHEMA;
    const LIMITS: &'static [(&'static str, u32)] = P::LIMITS;

    fn configure(json: &str) -> Result<Self, ConfigError> {
        P::configure(json).map(Self::new)
    }
}

/// Exports a type that implements [`Channel`] as a component of the world `channel`.
#[macro_export]
macro_rules! channel {
    ($plugin:ty) => {
        $crate::used!($plugin);
        #[cfg(target_family = "wasm")]
        const _: () = {
            use $crate::worlds::adapter::exports::chela::channel::adapter as wit;
            $crate::lifecycle!(::std::cell::RefCell<$plugin>);

            impl wit::Guest for Exported {
                fn handle(request: wit::Request) -> ::std::result::Result<wit::Answer, $crate::Failure> {
                    let plugin = HELD.with(|held| held.get())?;
                    let outputs = $crate::channel::Channel::handle(&mut *plugin.borrow_mut(), request)?;
                    Ok(wit::Answer { outputs, attrs: ::std::vec::Vec::new() })
                }

                fn snapshot() -> wit::State {
                    let plugin = HELD.with(|held| held.get()).expect("the host configures an instance before any call");
                    let state = $crate::channel::Channel::snapshot(&*plugin.borrow());
                    state
                }

                fn restore(state: wit::State) -> ::std::result::Result<(), $crate::Failure> {
                    let plugin = HELD.with(|held| held.get())?;
                    let restored = $crate::channel::Channel::restore(&mut *plugin.borrow_mut(), state);
                    restored
                }
            }

            $crate::worlds::adapter::export_adapter!(Exported);
        };
    };
}
