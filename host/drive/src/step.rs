//! What is done about an agent next. Everything that happens to it comes in as an [`Input`]; what is to be done goes out as [`Effect`]s.
//! What was seen of the agent's surroundings comes along as a [`Look`], fresh each time: nothing here is counted that others know better.

use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::counts::Counts;
use crate::rules::Rules;
use crate::why::Why;

/// What notices that an agent has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    SelfDriving,
    EventBased,
    Polling,
    Backlog,
    Zombie,
}

impl Layer {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SelfDriving => "self-driving",
            Self::EventBased => "event-based",
            Self::Polling => "polling",
            Self::Backlog => "backlog",
            Self::Zombie => "zombie",
        }
    }
}

/// Why a task is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    Limit,
    Error,
}

impl Stop {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Error => "error",
        }
    }
}

/// Whose message a run is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Person,
    Agent,
    Gateway,
}

/// A task as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub id: String,
    pub open_steps: usize,
    /// Another one for every other state of its steps.
    pub mark: u64,
    pub activity_at: u64,
    /// Where it was started.
    pub session: String,
}

/// The surroundings of an agent at one moment; its sub-agents' sessions are not its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub running: bool,
    /// One of the runs is about a person's message.
    pub by_person: bool,
    pub waiting: usize,
    pub subagents: usize,
    /// The task in progress.
    pub task: Option<Facts>,
    /// A task is blocked until a person answers.
    pub waits_for_person: bool,
}

/// How a run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Ok,
    /// `lasting`: another run does not mend it, as with a wrong key or a conversation that is too long.
    Failed {
        said: String,
        lasting: bool,
    },
    Aborted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub run: String,
    pub by: By,
    pub at: u64,
    pub outcome: Outcome,
    pub tokens: u64,
    /// A call of a tool succeeded.
    pub acted: bool,
    /// It began with summing the conversation up.
    pub compacted: bool,
}

/// A blocked task, for polls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub id: String,
    /// It waits for a person, who is not asked by agents.
    pub by_person: bool,
    pub requests: u32,
    pub escalated: bool,
    pub failed: bool,
    pub activity_at: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Poll {
    pub look: Look,
    pub blocked: Vec<Blocked>,
    /// The next task of the backlog that could start.
    pub backlog: Option<Facts>,
    /// Of the tasks that something is kept of, those that are over.
    pub gone: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    pub look: Look,
    /// The agent has run, ever.
    pub has_run: bool,
    pub last_run_at: u64,
    /// Messages so far, of all agents.
    pub order: u64,
    /// The last message of a person to this agent that waits or runs.
    pub spoke: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Send(String),
    Skip(String),
    Backoff(u64),
    /// No component answered, or not with what can be used; `plain` is what the gateway would say by itself.
    Failed {
        why: String,
        plain: Option<String>,
    },
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The gateway starts, or has missed what happened.
    Begun(Begun),
    /// A message was taken into a lane. `order` counts messages: what was said before an abort does not lift it.
    Accepted {
        run: String,
        by: By,
        order: u64,
    },
    Started {
        run: String,
        by: By,
        order: u64,
    },
    Ended {
        end: End,
        look: Look,
    },
    /// A person stopped the agent, after so many messages.
    Aborted {
        order: u64,
    },
    /// A person types.
    Typed,
    /// Questions of the agent to people that have no task and no answer.
    Questions {
        open: u32,
    },
    TaskChanged {
        look: Look,
    },
    /// The configuration is another.
    RulesChanged {
        look: Look,
    },
    /// The time of the timer has come.
    Due {
        look: Look,
    },
    /// The policy has answered.
    Answered {
        round: u64,
        answer: Answer,
        look: Look,
    },
    /// The prompt is in its lane.
    Sent {
        round: u64,
    },
    /// It is not. `busy`: something else came first.
    Refused {
        round: u64,
        busy: bool,
        why: String,
    },
    /// A task is blocked as was wanted.
    Stopped {
        task: String,
    },
    /// The event of a prompt is on the disk.
    Told {
        task: String,
        sent: u64,
    },
    Poll(Poll),
}

/// What a policy is told of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// This one included.
    pub in_a_row: u32,
    pub in_a_row_max: u32,
    pub without_progress: u32,
    pub in_all: u32,
    pub today: u32,
    pub tokens: u64,
}

/// A question to the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    pub round: u64,
    pub layer: Layer,
    pub task: String,
    /// Where the prompt would go.
    pub session: String,
    pub counters: Counters,
    pub idle_ms: u64,
    pub last_error: String,
    pub same_error: u32,
    pub earlier: String,
}

/// A prompt, to be on record together with the counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Send {
    pub round: u64,
    pub layer: Layer,
    pub task: String,
    pub session: String,
    /// The same for the same prompt, over crashes.
    pub key: String,
    pub prompt: String,
    pub counts: Counts,
}

/// How far the requests to unblock a task are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Whoever can is asked, for the so manyth time.
    Request(u32),
    /// The orchestrator is told to ask a person.
    Escalate,
    /// Nothing has helped.
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    Ask(Ask),
    /// Unless something runs or waits by now. With the layer [`Layer::Backlog`] the task is picked first.
    Send(Box<Send>),
    /// Takes a prompt back that came after a person's abort.
    Withdraw {
        session: String,
        key: String,
    },
    Stop {
        task: String,
        stop: Stop,
        reason: String,
    },
    /// A task that nobody works on leaves the list.
    GiveUp {
        task: String,
        to_backlog: bool,
        idle_ms: u64,
    },
    Unblock {
        task: String,
        stage: Stage,
    },
    /// The counts of a task, or whether a person aborted the agent, are to be on record.
    Keep {
        task: String,
        counts: Counts,
    },
    KeepAborted(Option<u64>),
    Forget {
        task: String,
    },
    TellSent {
        task: String,
        layer: Layer,
        counts: Counts,
    },
    TellBackoff {
        task: String,
        layer: Layer,
        ms: u64,
        reason: String,
    },
    /// For whoever asks why nothing happened.
    Note {
        task: String,
        layer: Layer,
        why: Why,
    },
}

/// What is done about something that happened.
pub fn step(agent: Agent, input: Input, now: u64, rules: &Rules) -> (Agent, Vec<Effect>) {
    let mut step = Step { agent, effects: Vec::new(), now, rules };
    match input {
        Input::Begun(begun) => step.begun(&begun),
        Input::Accepted { run, by, order } => step.accepted(&run, by, order),
        Input::Started { run, by, order } => step.started(&run, by, order),
        Input::Ended { end, look } => step.ended(&end, &look),
        Input::Aborted { order } => step.aborted(order),
        Input::Typed => step.agent.typing_until = now.saturating_add(rules.typing_ms),
        Input::Questions { open } => step.agent.questions = open,
        Input::TaskChanged { look } => step.task_changed(&look),
        Input::RulesChanged { look } => step.rules_changed(&look),
        Input::Due { look } => step.due(&look),
        Input::Answered { round, answer, look } => step.answered(round, answer, &look),
        Input::Sent { round } => step.sent(round),
        Input::Refused { round, busy, why } => step.refused(round, busy, &why),
        Input::Stopped { task } => step.stopped(&task),
        Input::Told { task, sent } => step.told(&task, sent),
        Input::Poll(poll) => step.poll(poll),
    }
    step.keep();
    (step.agent, step.effects)
}

/// A step on its way.
pub(crate) struct Step<'a> {
    pub(crate) agent: Agent,
    pub(crate) effects: Vec<Effect>,
    pub(crate) now: u64,
    pub(crate) rules: &'a Rules,
}

impl Step<'_> {
    /// What has changed of what is kept goes on record; the counts of a prompt that is on its way are on the way with it.
    fn keep(&mut self) {
        let agent = &mut self.agent;
        let on_its_way = agent.sending.as_ref().map(|sending| sending.send.task.as_str());
        for (task, counts) in agent.counts.iter().filter(|(task, _)| Some(task.as_str()) != on_its_way) {
            if agent.saved.0.get(task) != Some(counts) {
                agent.saved.0.insert(task.clone(), counts.clone());
                self.effects.push(Effect::Keep { task: task.clone(), counts: counts.clone() });
            }
        }
        let gone: Vec<String> =
            agent.saved.0.keys().filter(|task| !agent.counts.contains_key(*task)).cloned().collect();
        for task in gone {
            agent.saved.0.remove(&task);
            self.effects.push(Effect::Forget { task });
        }
        if agent.aborted != agent.saved.1 {
            agent.saved.1 = agent.aborted;
            self.effects.push(Effect::KeepAborted(agent.aborted));
        }
    }
}
