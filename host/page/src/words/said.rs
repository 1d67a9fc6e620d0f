//! Words that depend on what they speak of.

use super::*;

impl Words {
    /// A word of a task's life; another system's stays as it is.
    pub fn task_status<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "backlog" => self.backlog,
            "pending" => self.pending,
            "pending_approval" => self.pending_approval,
            "in_progress" => self.in_progress,
            "blocked" => self.blocked,
            "completed" => self.completed,
            "cancelled" => self.cancelled,
            "failed" => self.failed,
            "abandoned" => self.abandoned,
            other => other,
        }
    }

    pub fn priority<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "urgent" => self.urgent,
            "high" => self.high,
            "medium" => self.medium,
            "low" => self.low,
            other => other,
        }
    }

    pub fn job_status<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "PENDING" => self.job_pending,
            "RUNNING" => self.job_running,
            "COMPLETED" => self.job_completed,
            "FAILED" => self.job_failed,
            "ABANDONED" => self.job_abandoned,
            "CANCELLED" => self.job_cancelled,
            other => other,
        }
    }

    pub fn session_status<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "ACTIVE" => self.session_active,
            "QUIET" => self.session_quiet,
            "ARCHIVED" => self.session_archived,
            other => other,
        }
    }

    pub fn thread_state<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "active" => self.thread_active,
            "blocked" => self.thread_blocked,
            "resolved" => self.thread_resolved,
            other => other,
        }
    }

    /// What stands in a task's way.
    pub fn blocker_kind<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "input" => self.blocked_input,
            "dependency" => self.blocked_dependency,
            "external" => self.blocked_external,
            "error" => self.blocked_error,
            "limit" => self.blocked_limit,
            "other" => self.blocked_other,
            other => other,
        }
    }

    /// How far the call for help has come.
    pub fn escalation<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "requested" => self.help_requested,
            "escalated" => self.help_escalated,
            "failed" => self.help_failed,
            other => other,
        }
    }

    /// Where a job is.
    pub fn job_phase<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "send" => self.phase_send,
            "wait" => self.phase_wait,
            "pingpong" => self.phase_pingpong,
            "announce" => self.phase_announce,
            "done" => self.phase_done,
            other => other,
        }
    }

    /// How far a message of a job has come.
    pub fn turn_state<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "waiting" => self.turn_waiting,
            "stored" => self.turn_stored,
            "delivered" => self.turn_delivered,
            "answered" => self.turn_answered,
            "failed" => self.turn_failed,
            other => other,
        }
    }

    /// What notices that an agent has stopped.
    pub fn layer<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "self-driving" => self.layer_driving,
            "event-based" => self.layer_events,
            "polling" => self.layer_polling,
            "backlog" => self.layer_backlog,
            "zombie" => self.layer_zombie,
            "unblock" => self.layer_unblock,
            other => other,
        }
    }

    /// What was done to keep an agent at work.
    pub fn kept_action<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "sent" => self.action_sent,
            "skip" => self.action_skip,
            "backoff" => self.action_backoff,
            "failed" => self.action_failed,
            "stopped" => self.action_stopped,
            other => other,
        }
    }

    /// A field of a form.
    pub fn field<'a>(&self, name: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match name {
            "answer" => self.answer,
            "text" => self.try_text,
            "content" => self.step,
            "message" => self.message,
            "rules" => self.rules,
            "config" => self.config_of_plugin,
            "title" => self.title,
            "description" => self.description,
            "source" => self.source,
            "task" => self.for_task,
            "due" => self.due,
            other => other,
        }
    }

    /// What an address asked for.
    pub fn thing<'a>(&self, word: &'a str) -> &'a str
    where
        'static: 'a,
    {
        match word {
            "task" => self.for_task,
            "agent" => self.agent,
            "agent to chat with" => self.agent,
            "work session" => self.work_session,
            "job" => self.job,
            "slot" => self.slots,
            other => other,
        }
    }
}
