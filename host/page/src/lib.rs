//! The hub's pages: typed views in, HTML out.
//! Keeps true: whatever people, agents or other systems wrote is shown as text or as a few safe elements, never as HTML of theirs; every
//! word of ours is there in both languages; a page stays small however long a text is. Never: touches a disk, reads a clock, opens a socket.

mod agent;
mod assets;
mod chart;
mod chat;
mod conversation;
mod conversations;
mod layout;
mod login;
mod markdown;
mod moves;
mod overview;
mod parts;
mod problem;
mod questions;
mod task;
mod task_tabs;
mod tasks;
mod time;
mod views;
mod words;

pub use agent::agent;
pub use assets::{Asset, SCRIPT, STYLE, asset};
pub use chat::chat;
pub use conversation::conversation;
pub use conversations::conversations;
pub use layout::{Fragment, Notice, Page, Shell, Theme, Who};
pub use login::login;
pub use markdown::markdown;
pub use moves::{Column, Move, moves};
pub use overview::overview;
pub use parts::{clip, encode, title_of};
pub use problem::{problem, refused};
pub use questions::questions;
pub use task::task;
pub use tasks::tasks;
pub use time::iso;
pub use views::*;
pub use words::{Lang, Words};

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
