//! Task files: markdown that agents, people and the gateway edit together.
//! Keeps true: a file that is read and written unchanged has the same bytes; a change touches only the lines it means; what nobody here
//! knows is kept. Never: touches the disk, knows the time, or runs a thread.

mod document;
mod history;
mod labels;
mod merge;
#[cfg(test)]
mod properties;
mod read;
mod steps;
mod task;
mod write;

pub use document::Document;
pub use history::{History, archived, month_file, month_of};
pub use merge::{Merged, distance, merge};
pub use read::Problem;
pub use steps::{Change, Moved, StepError, Told, name_all};
pub use task::{Blocked, Outcome, Priority, Status, Step, StepStatus, StepsProgress, Task, is_good_id, one_line};
