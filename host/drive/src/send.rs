//! A prompt on its way: counted once it is in its lane, in whatever order that is heard of.

use crate::agent::{Asked, Sending};
use crate::step::{Effect, Layer, Send, Step};
use crate::why::Why;

impl Step<'_> {
    pub(crate) fn send(&mut self, asked: Asked, prompt: String) {
        let Asked { round, layer, task, session } = asked;
        let now = self.now;
        let counts = self.counts_of(&task).continued(layer, now);
        let key = format!("continuation:{task}:{}", counts.sent);
        let send = Box::new(Send { round, layer, task, session, key, prompt, counts });
        self.agent.sending = Some(Sending { send: send.clone(), withdrawn: false });
        self.effects.push(Effect::Send(send));
    }

    pub(crate) fn sent(&mut self, round: u64) {
        if let Some(sending) = self.agent.sending.take_if(|sending| sending.send.round == round) {
            self.apply_sent(sending);
        }
    }

    /// A prompt whose run is heard of was sent, whatever else is heard first.
    pub(crate) fn sent_as(&mut self, run: &str) {
        if let Some(sending) = self.agent.sending.take_if(|sending| sending.send.key == run) {
            self.apply_sent(sending);
        }
    }

    fn apply_sent(&mut self, Sending { send, withdrawn }: Sending) {
        let Send { layer, task, session, key, counts, .. } = *send;
        self.agent.active_at = self.now;
        self.agent.waits_for_change = false;
        self.agent.timer = None;
        self.agent.saved.0.insert(task.clone(), counts.clone());
        let at = counts.continued_at.unwrap_or(self.now);
        let known = self.counts_of(&task);
        *known = known.continued(layer, at);
        let counts = known.clone();
        self.did(&task, layer, "sent", String::new());
        self.effects.push(Effect::TellSent { task, layer, counts });
        if withdrawn {
            self.effects.push(Effect::Withdraw { session, key });
        }
    }

    pub(crate) fn refused(&mut self, round: u64, busy: bool, why: &str) {
        let Some(sending) = self.agent.sending.take_if(|sending| sending.send.round == round) else { return };
        let Send { layer, task, .. } = *sending.send;
        match (busy, layer) {
            // What came first has an end of its own.
            (true, _) => self.note(&task, layer, Why::Runs),
            (false, Layer::SelfDriving) if self.agent.aborted.is_none() => {
                self.second_try(&task, layer, why.to_owned())
            }
            (false, _) => self.end_round(&task, layer, "failed", why.to_owned()),
        }
    }
}
