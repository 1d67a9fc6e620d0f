//! Why an agent is not told to go on.

use std::fmt;

/// A reason of the gateway's own; the policy is not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Disabled,
    Runs,
    Waits,
    SubagentRuns,
    Aborted,
    Question,
    Person,
    NoTask,
    NoOpenSteps,
    Held,
    Resting,
    Typing,
    Zombie,
}

impl Why {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Disabled => "continuation is switched off",
            Self::Runs => "a run of the agent goes on",
            Self::Waits => "messages wait in the agent's lanes",
            Self::SubagentRuns => "a sub-agent of the agent works",
            Self::Aborted => "a person aborted the agent and has not spoken since",
            Self::Question => "a question of the agent to a person is open",
            Self::Person => "the task waits for a person",
            Self::NoTask => "no task is in progress",
            Self::NoOpenSteps => "no step of the task is open",
            Self::Held => "the last run ended with an error that another run does not mend",
            Self::Resting => "the same error came again; it is waited longer each time",
            Self::Typing => "a person is typing",
            Self::Zombie => "the task showed no activity since it was asked for some; the next poll decides",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
