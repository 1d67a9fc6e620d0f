//! Replies that one person alone is to read: by the address of a command while that is good, then by a direct message.
//! Keeps true: whatever becomes of an address, no word of a private reply is said to all; where the person cannot be reached, that alone is.

use chela_sdk::channel::keep::push;
use chela_sdk::channel::{Delivery, Turn};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::place::{Place, message_of};
use crate::state::State;

/// Commands and messages that are remembered as private.
pub const PRIVATE_MAX: usize = 1_000;
/// What is said to all where a private reply reaches nobody.
const NOTE: &str = "A private reply could not be delivered; allow this app to write to you and ask again.\n비공개 답변을 전달하지 못했습니다. 이 앱이 보내는 DM을 허용하고 다시 물어봐 주세요.";

/// A command whose replies, or a message whose changes, one person alone reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Private {
    pub name: String,
    pub sender: String,
}

/// A delivery that one person alone is to read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Secret {
    pub sender: String,
    /// Where it was to go.
    pub target: String,
    pub way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// By the address of its command, or by changing a message that the person alone has.
    Reply,
    Direct,
    /// Only that there was one.
    Note,
}

impl State {
    pub fn remember_private(&mut self, name: &str, sender: &str) {
        if !self.private.iter().any(|known| known.name == name) {
            let private = Private { name: name.to_owned(), sender: sender.to_owned() };
            push(&mut self.private, private, PRIVATE_MAX);
        }
    }

    /// Who alone reads what is said to this command or message; empty where that is not known any more.
    fn private(&self, name: &str) -> Option<&str> {
        self.private.iter().find(|known| known.name == name).map(|known| known.sender.as_str())
    }
}

impl Machine {
    /// Chooses the way of a private delivery before its next part is asked for. False when it has come to its end.
    pub fn keep_private(&mut self, turn: &mut Turn, id: &str) -> bool {
        let Some(delivery) = self.state.deliveries.get(id) else { return false };
        if !self.state.secrets.contains_key(id) {
            let names = std::iter::once(&delivery.reply_to).chain(&delivery.edits);
            let Some(sender) = names.into_iter().find_map(|name| self.state.private(name)) else { return true };
            let secret = Secret { sender: sender.to_owned(), target: delivery.target.clone(), way: Way::Reply };
            // Those of deliveries that are over are of no use any more.
            let mut secrets = std::mem::take(&mut self.state.secrets);
            secrets.retain(|id, _| self.state.deliveries.get(id).is_some());
            secrets.insert(id.to_owned(), secret);
            self.state.secrets = secrets;
        }
        let Some(delivery) = self.state.deliveries.get(id) else { return false };
        let is_reply = self.state.secrets.get(id).is_some_and(|secret| secret.way == Way::Reply);
        if !is_reply || delivery.is_over() || self.has_private_way(delivery, turn.now_ms) {
            return true;
        }
        self.send_to_person(turn, id)
    }

    fn has_private_way(&self, delivery: &Delivery, now_ms: u64) -> bool {
        match delivery.edited() {
            Some(name) => message_of(name).is_some(),
            None => delivery.nth() == 0 && self.pending(&delivery.reply_to, now_ms).is_some(),
        }
    }

    fn send_to_person(&mut self, turn: &mut Turn, id: &str) -> bool {
        let Some(secret) = self.state.secrets.get_mut(id) else { return true };
        secret.way = Way::Direct;
        let person = Place::of(&format!("direct:{}", secret.sender)).map(|place| place.target());
        let Some(delivery) = self.state.deliveries.get_mut(id) else { return false };
        // What was changed, or could not be, is new to the person.
        delivery.edits.clear();
        match person {
            Some(person) => {
                delivery.target = person;
                true
            }
            None => self.only_note(turn, id),
        }
    }

    /// The person cannot be reached: nothing of it is said, but that. False when even that is of no use.
    pub fn only_note(&mut self, turn: &mut Turn, id: &str) -> bool {
        let secret = self.state.secrets.get_mut(id);
        let Some((delivery, secret)) = self.state.deliveries.get_mut(id).zip(secret) else { return false };
        let is_direct = matches!(Place::of(&secret.target), None | Some(Place::Person(_)));
        if is_direct || secret.way == Way::Note || delivery.nth() > 0 {
            self.end_private(id);
            self.state.deliveries.refuse(turn, id, "Slack lets nobody write to this person, who alone may read it");
            return false;
        }
        secret.way = Way::Note;
        delivery.target.clone_from(&secret.target);
        delivery.parts = vec![NOTE.to_owned()];
        delivery.question = None;
        true
    }

    /// How a private delivery goes; none for one that all may read.
    pub fn way_of(&self, id: &str) -> Option<Way> {
        self.state.secrets.get(id).map(|secret| secret.way)
    }

    /// A part of a delivery is there under this name: what is said of it later is as private.
    pub fn note_private(&mut self, id: &str, name: &str) {
        let secret = self.state.secrets.get(id).filter(|secret| secret.way != Way::Note);
        if let Some(sender) = secret.map(|secret| secret.sender.clone()) {
            self.state.remember_private(name, &sender);
        }
    }

    pub fn end_private(&mut self, id: &str) {
        self.state.secrets.remove(id);
    }
}
