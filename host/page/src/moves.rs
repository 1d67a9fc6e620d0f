//! The columns of the board, and where a task may go from where it is.

/// A column of the board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Backlog,
    Pending,
    InProgress,
    Blocked,
    Completed,
    Closed,
}

impl Column {
    pub const ALL: [Self; 6] =
        [Self::Backlog, Self::Pending, Self::InProgress, Self::Blocked, Self::Completed, Self::Closed];

    /// Where a status stands; another system's word waits.
    pub fn of(status: &str) -> Self {
        match status {
            "backlog" => Self::Backlog,
            "in_progress" => Self::InProgress,
            "blocked" => Self::Blocked,
            "completed" => Self::Completed,
            "cancelled" | "failed" | "abandoned" => Self::Closed,
            _ => Self::Pending,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backlog => "backlog",
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Blocked => "blocked",
            Self::Completed => "completed",
            Self::Closed => "closed",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.as_str() == word)
    }

    /// Whether its tasks are over.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Closed)
    }
}

/// Something that a person may do to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Out of the backlog; it starts when nothing is in the way.
    Pick,
    Approve,
    Resume,
    ToBacklog,
    Block,
    Complete,
    Cancel,
}

impl Move {
    pub const ALL: [Self; 7] =
        [Self::Pick, Self::Approve, Self::Resume, Self::ToBacklog, Self::Block, Self::Complete, Self::Cancel];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pick => "pick",
            Self::Approve => "approve",
            Self::Resume => "resume",
            Self::ToBacklog => "backlog",
            Self::Block => "block",
            Self::Complete => "complete",
            Self::Cancel => "cancel",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }

    /// The columns that a card is dropped on to do it.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Pick | Self::Resume => &[Column::InProgress, Column::Pending],
            Self::Approve => &[Column::InProgress],
            Self::ToBacklog => &[Column::Backlog],
            Self::Block => &[Column::Blocked],
            Self::Complete => &[Column::Completed],
            Self::Cancel => &[Column::Closed],
        }
    }

    /// Whether something is asked before it is done.
    pub fn asks(self) -> bool {
        matches!(self, Self::Block | Self::Complete | Self::Cancel)
    }
}

/// What may be done to a task of this status, as its state machine has it.
pub fn moves(status: &str) -> &'static [Move] {
    match status {
        "backlog" => &[Move::Pick, Move::Cancel],
        "pending_approval" => &[Move::Approve, Move::Cancel],
        "in_progress" => &[Move::Complete, Move::Block, Move::ToBacklog, Move::Cancel],
        "blocked" => &[Move::Resume, Move::Cancel],
        "completed" | "cancelled" | "failed" | "abandoned" => &[],
        _ => &[Move::Resume, Move::Cancel],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_is_over_goes_nowhere_and_any_other_can_be_cancelled() {
        for status in ["completed", "cancelled", "failed", "abandoned"] {
            assert!(moves(status).is_empty() && Column::of(status).is_over(), "{status}");
        }
        for status in ["backlog", "pending", "pending_approval", "in_progress", "blocked", "a word of others"] {
            assert!(moves(status).contains(&Move::Cancel) && !Column::of(status).is_over(), "{status}");
        }
    }

    #[test]
    fn no_two_moves_of_a_task_lead_to_one_column() {
        for status in ["backlog", "pending", "pending_approval", "in_progress", "blocked"] {
            let targets: Vec<Column> = moves(status).iter().flat_map(|one| one.columns()).copied().collect();
            let twice = targets.iter().any(|one| targets.iter().filter(|other| *other == one).count() > 1);
            assert!(!twice, "{status}: {targets:?}");
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        assert!(Move::ALL.iter().all(|one| Move::parse(one.as_str()) == Some(*one)));
        assert!(Column::ALL.iter().all(|one| Column::parse(one.as_str()) == Some(*one)));
    }
}
