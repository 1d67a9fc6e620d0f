//! The hub's pages: typed views in, HTML out.
//! Keeps true: whatever people, agents or other systems wrote is shown as text or as a few safe elements, never as HTML of theirs; every
//! word of ours is there in both languages; a page stays small however long a text is. Never: touches a disk, reads a clock, opens a socket.

mod agent;
mod assets;
mod canvas;
pub mod caps;
mod channels;
mod chart;
mod chat;
mod conversation;
mod conversations;
mod events;
mod jobs;
mod layout;
mod login;
mod long;
mod markdown;
mod milestones;
mod moves;
mod overview;
mod parts;
mod plugins;
mod problem;
mod questions;
mod schedule;
mod settings;
mod slot;
mod task;
mod task_tabs;
mod tasks;
mod time;
mod views;
mod why;
mod words;
mod workspace;

pub use agent::agent;
pub use assets::{Asset, SCRIPT, STYLE, asset, mark_of};
pub use canvas::canvas;
pub use channels::channels;
pub use chat::chat;
pub use conversation::conversation;
pub use conversations::{UNCATEGORISED, conversations};
pub use events::events;
pub use jobs::{job, jobs};
pub use layout::{Fragment, Notice, Page, Shell, Theme, Who};
pub use login::login;
pub use markdown::markdown;
pub use milestones::{milestones, todos};
pub use moves::{Column, Move, moves};
pub use overview::overview;
pub use parts::{clip, encode, title_of};
pub use plugins::plugins;
pub use problem::{Said, problem, refused};
pub use questions::questions;
pub use schedule::schedule;
pub use settings::settings;
pub use slot::slot;
pub use task::task;
pub use tasks::tasks;
pub use time::iso;
pub use views::*;
pub use words::{Lang, Words};
pub use workspace::workspace;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod weights;
