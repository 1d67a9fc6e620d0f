//! What the final text of a run asks of people. An orchestrator's question is on record with the end of its run; anybody else's goes to
//! its orchestrator, as a message like any other.

use chela_question::{Ask, Parsed, numbered, parse_human_query};

use super::Handle;
use super::store::{Forward, INBOX, Inbox};
use crate::config::{Agent, AgentRole};
use crate::session_key::SessionKey;
use crate::sessions::{Accepted, Further, HumanQuery, OriginKind, Step, Turn};

/// The end of a run as it is to be recorded.
pub struct Ending {
    pub steps: Vec<Step>,
    pub reply: String,
    pub further: Further,
    left: Option<Inbox>,
}

impl Handle {
    /// Looks at the last words of a run: what they ask is taken out of what is shown, and recorded beside it.
    pub fn at_end(&self, agent: &Agent, turn: &Turn, steps: Vec<Step>, reply: String) -> Ending {
        let plain = |steps, reply| Ending { steps, reply, further: Further::default(), left: None };
        if agent.role == AgentRole::Agent {
            return plain(steps, reply);
        }
        let parsed = parse_human_query(&reply);
        let (count, why) = (parsed.malformed.count, &parsed.malformed.why);
        if count > 0 && agent.role == AgentRole::Orchestrator {
            let why: Vec<&str> = why.iter().map(|why| why.as_str()).collect();
            tracing::warn!(agent = %agent.id, run = turn.id(), count, why = why.join("; "), "a question to people is malformed and stays text");
        }
        if parsed.questions.is_empty() {
            return plain(steps, reply);
        }
        match agent.role {
            AgentRole::Orchestrator => self.asked(turn, steps, parsed),
            _ => {
                let left = self.forwarded(agent, turn.message(), &parsed);
                let mut further = Further::default();
                left.iter().for_each(|left| further.put(INBOX, left.id(), left));
                Ending { steps, reply, further, left }
            }
        }
    }

    fn asked(&self, turn: &Turn, mut steps: Vec<Step>, parsed: Parsed) -> Ending {
        let message = turn.message();
        let task = self.0.options.dialogues.task_of(&turn.session().agent, message);
        let question = numbered(&parsed.questions, parsed.left_out);
        let ask = self.ask_of(turn.session(), task, message.part.as_ref(), parsed.questions.clone());
        let part = HumanQuery {
            id: ask.id.clone(),
            task_id: ask.task.as_ref().map(|task| task.task_id.clone()),
            question: question.clone(),
            questions: parsed.questions,
        };
        if let Some(Step::Answered { answer, asked, .. }) = steps.last_mut() {
            answer.text.clone_from(&parsed.visible);
            *asked = Some(part);
        }
        let message_id = Some(turn.message_id(&steps));
        let ask = Ask { run_id: Some(turn.id().to_owned()), message_id, left_out: parsed.left_out, ..ask };
        let reply = match parsed.visible.is_empty() {
            true => question,
            false => format!("{}\n{question}", parsed.visible),
        };
        let left = Inbox::Ask(ask);
        let mut further = Further::default();
        further.put(INBOX, left.id(), &left);
        Ending { steps, reply, further, left: Some(left) }
    }

    /// What an agent's orchestrator is told, unless it reads the answer anyway.
    fn forwarded(&self, agent: &Agent, message: &Accepted, parsed: &Parsed) -> Option<Inbox> {
        let settings = self.0.options.settings.current();
        let orchestrator = settings.config.orchestrator_of(agent)?;
        let sender = message.origin.source_session_key.as_deref().and_then(|key| SessionKey::parse(key).ok());
        let of_job = message.part.as_ref().is_some_and(|part| part.job_id.is_some());
        let reads = of_job && sender.is_some_and(|sender| sender.agent == *orchestrator);
        if reads && message.origin.kind == OriginKind::InterSession {
            return None;
        }
        Some(Inbox::Forward(Forward {
            id: format!("{}:need-human", message.id),
            from: message.session.clone(),
            to: orchestrator.to_string(),
            text: format!(
                "I cannot go on without an answer that I may not ask people for:\n{}",
                numbered(&parsed.questions, parsed.left_out)
            ),
            chain: message.chain.clone(),
            part: message.part.clone(),
        }))
    }

    /// The end is on record: what it asks is taken up.
    pub fn ended(&self, ending: Left) {
        if let Some(left) = ending.0 {
            self.0.state().inbox.push_back(left);
            self.0.left.notify_one();
        }
    }
}

/// What a run left to be taken up once its end is on record.
pub struct Left(Option<Inbox>);

impl Ending {
    /// Takes out what is to be taken up afterwards.
    pub fn take_left(&mut self) -> Left {
        Left(self.left.take())
    }
}
