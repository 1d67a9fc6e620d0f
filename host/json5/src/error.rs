//! Everything that can be refused, said so that the reader knows what to change.

use crate::lines;
use crate::node::{DEPTH_MAX, TEXT_BYTES_MAX};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("line {line}, column {column}: {what}")]
    Syntax { line: usize, column: usize, what: &'static str },
    #[error("the text has {bytes} bytes; keep it within {TEXT_BYTES_MAX}")]
    TooLong { bytes: usize },
    #[error("line {line}, column {column}: values are nested deeper than {DEPTH_MAX}; flatten them")]
    TooDeep { line: usize, column: usize },
    #[error("the new value is nested deeper than {DEPTH_MAX}; flatten it")]
    ValueTooDeep,
    #[error("a patch must be an object that holds the keys to change")]
    PatchNotObject,
    #[error(
        "entries of {path:?} would be removed; name it in the replace paths if that is meant, else send all its entries"
    )]
    WouldRemove { path: String },
    #[error("path {path:?}, column {column}: {what}")]
    BadPath { path: String, column: usize, what: &'static str },
    #[error("line {line}, column {column}: {path:?} is not an object; set it to one before a key in it")]
    NotAnObject { path: String, line: usize, column: usize },
    #[error("line {line}, column {column}: {path:?} is not an array; set it to one before an entry of it")]
    NotAnArray { path: String, line: usize, column: usize },
    #[error("line {line}, column {column}: {path:?} has {entries} entries; use an index up to {entries}")]
    NoSuchEntry { path: String, entries: usize, line: usize, column: usize },
    #[error("the whole text cannot be removed; remove its keys, or delete the file")]
    RootRemoved,
    /// A fault of this crate, found before the text was handed out.
    #[error("the change cannot be written safely into this text; make it by hand and report the text")]
    NotKept,
}

impl Error {
    pub(crate) fn syntax(text: &str, at: usize, what: &'static str) -> Self {
        let (line, column) = lines::position(text, at);
        Self::Syntax { line, column, what }
    }

    pub(crate) fn too_deep(text: &str, at: usize) -> Self {
        let (line, column) = lines::position(text, at);
        Self::TooDeep { line, column }
    }
}
