//! JSON5 that people write: read as a value, and changed as a text without touching what is not meant.
//! Keeps true: what is not changed keeps its bytes (comments, order, blank lines, quotes, trailing commas, line ends); a text that is handed
//! out reads as the values that were asked for. Never: touches the disk, formats a file anew, or fails loudly on any input.
//!
//! In reading order: a text becomes spans and values (`scan`), the values become other values (`merge`, `path`), and the difference of the
//! two becomes edits of the text (`change`, `layout`, `write`).

mod error;
mod lines;
mod node;
mod scan;
mod literal;
mod path;
mod merge;
mod change;
mod layout;
mod write;
mod read;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod generate;
#[cfg(test)]
mod properties;

pub use error::Error;
pub use node::{DEPTH_MAX, TEXT_BYTES_MAX};
pub use read::{READ_DEPTH_MAX, Unread, read};

use serde_json::Value;

/// What a patch may do beyond merging.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Arrays from which entries may be removed, such as `agents.list` or `agents.list[0].tools`; `[]` stands for every index.
    pub replace_paths: Vec<String>,
}

/// A text after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patched {
    pub text: String,
    /// Dotted paths that differ, in the order of the text; an array that lost entries is named as a whole.
    pub changed: Vec<String>,
}

/// JSON merge patch: objects merge, `null` deletes a key, arrays of objects with an `id` merge by it, all else is replaced.
/// A comment stays unless it stands inside what is removed, or ends the line of an entry that is removed with its whole line: comments on
/// the lines above a removed entry stay, since nobody can tell whether they speak of that entry or of the ones below.
pub fn patch(text: &str, patch: &Value, options: &Options) -> Result<Patched, Error> {
    let (node, old) = scan::document(text)?;
    let Value::Object(members) = patch else { return Err(Error::PatchNotObject) };
    if !merge::fits(patch, DEPTH_MAX) {
        return Err(Error::ValueTooDeep);
    }
    let replace = options.replace_paths.iter().map(|path| path::pattern(path)).collect::<Result<Vec<_>, _>>()?;
    let new = merge::merged(&old, members, &replace)?;
    change::written(text, &node, &old, &new)
}

/// Sets or removes (`None`) the value at a path such as `agents.list[2].name`; objects that are missing on the way are made.
/// The empty path is the whole text, and the index after the last appends.
pub fn set(text: &str, path: &str, value: Option<&Value>) -> Result<Patched, Error> {
    let (node, old) = scan::document(text)?;
    let steps = path::parse(path)?;
    let mut new = old.clone();
    match value {
        Some(value) if !merge::fits(value, DEPTH_MAX.saturating_sub(steps.len())) => return Err(Error::ValueTooDeep),
        Some(value) => path::put(&mut new, &steps, value.clone()).map_err(|refusal| refusal.at(text, &node, &steps))?,
        None => path::remove(&mut new, &steps)?,
    }
    change::written(text, &node, &old, &new)
}

/// The line, from one, on which the value at a path stands; none where the text has no such value.
pub fn line_of(text: &str, path: &str) -> Option<usize> {
    let (node, value) = scan::document(text).ok()?;
    let steps = path::parse(path).ok().filter(|steps| !steps.is_empty())?;
    path::find(&value, &steps)?;
    Some(lines::position(text, node.nearest(&steps).start).0)
}

/// The value at a path, or nothing if there is none. `Infinity` and `NaN` read as null, as serde_json has no word for them.
pub fn get(text: &str, path: &str) -> Result<Option<Value>, Error> {
    let (_, value) = scan::document(text)?;
    Ok(path::find(&value, &path::parse(path)?).cloned())
}
