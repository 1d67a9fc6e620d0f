//! Files of an agent's own workspace. Keeps true: the kernel itself resolves every path beneath the workspace; a write is whole or not there.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::bus::data;
use crate::clock::Timestamp;
use crate::id;
use crate::schema::Schema;
use crate::tasks::ToolSpec;

/// With its quoting a part fits into what a model is given of a result.
const READ_BYTES: u64 = 16 * 1024;
pub(super) const READ_BYTES_MAX: u64 = 32 * 1024;
const WRITE_BYTES_MAX: usize = 1024 * 1024;
pub(super) const LISTED_MAX: usize = 1_000;
/// Entries of a folder that are put in order.
const SEEN_MAX: usize = 100_000;

pub(super) const TOOLS: &[ToolSpec] = &[
    ToolSpec {
        name: "files_read",
        description: "Read a text file of your workspace.",
        schema: Schema::of::<ReadFile>,
        reads: true,
    },
    ToolSpec {
        name: "files_write",
        description: "Write a text file of your workspace, whole.",
        schema: Schema::of::<WriteFile>,
        reads: false,
    },
    ToolSpec {
        name: "files_list",
        description: "List a directory of your workspace.",
        schema: Schema::of::<ListFiles>,
        reads: true,
    },
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ReadFile {
    #[schemars(length(min = 1, max = 1000))]
    pub(super) path: String,
    /// Where to begin, in bytes
    #[serde(default)]
    pub(super) offset: u64,
    #[serde(default)]
    #[schemars(range(max = READ_BYTES_MAX))]
    pub(super) limit: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WriteFile {
    #[schemars(length(min = 1, max = 1000))]
    path: String,
    #[schemars(length(max = WRITE_BYTES_MAX))]
    content: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ListFiles {
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub(super) path: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(
        "{path:?} leads out of the workspace; write a path relative to it, without `..` and past no link out of it"
    )]
    Outside { path: String },
    #[error("there is no {path:?} in the workspace; `files_list` tells what there is")]
    Missing { path: String },
    #[error("{path} is written by the gateway; use `{tool}` for it")]
    Owned { path: &'static str, tool: &'static str },
    #[error("{path:?} holds your instructions, which people change; write another file")]
    Instructions { path: String },
    #[error("{path:?} is not a file of text")]
    NotText { path: String },
    #[error("{path:?} cannot be used ({cause})")]
    Io { path: String, cause: std::io::Error },
    #[error("a file has at most {WRITE_BYTES_MAX} bytes here; this is {0}")]
    TooLong(usize),
}

/// `instructions` is the file of the workspace that the agent is told by, which it does not change itself.
pub(super) fn run(
    workspace: &Path,
    instructions: &Path,
    tool: &str,
    args: Map<String, Value>,
    now: Timestamp,
) -> Result<Map<String, Value>, Error> {
    let root = rustix::fs::open(workspace, OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|cause| failed(".", cause))?;
    let args = Value::Object(args);
    let bad = |error: serde_json::Error| Error::Io { path: String::new(), cause: error.into() };
    match tool {
        "files_read" => read(&root, serde_json::from_value(args).map_err(bad)?),
        "files_write" => write(&root, instructions, serde_json::from_value(args).map_err(bad)?, now),
        _ => list(&root, serde_json::from_value(args).map_err(bad)?),
    }
}

pub(super) fn read(root: &OwnedFd, args: ReadFile) -> Result<Map<String, Value>, Error> {
    let file = open(root, &args.path, OFlags::RDONLY | OFlags::NONBLOCK)?;
    let mut file = File::from(file);
    let io = |cause| Error::Io { path: args.path.clone(), cause };
    let found = file.metadata().map_err(io)?;
    if !found.is_file() {
        return Err(Error::NotText { path: args.path });
    }
    file.seek(SeekFrom::Start(args.offset)).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(args.limit.unwrap_or(READ_BYTES)).read_to_end(&mut bytes).map_err(io)?;
    // A character that the limit has cut stays for the next reading.
    let whole = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => return Err(Error::NotText { path: args.path }),
    };
    bytes.truncate(whole);
    let next = args.offset + whole as u64;
    let mut answer = data(json!({ "success": true, "size": found.len(), "content": String::from_utf8_lossy(&bytes) }));
    if next < found.len() {
        answer.insert("nextOffset".into(), json!(next));
    }
    Ok(answer)
}

/// Files of a workspace that the gateway writes, and what changes them.
fn owner(path: &Path) -> Option<(&'static str, &'static str)> {
    let first = path.components().find_map(|part| match part {
        Component::Normal(name) => name.to_str(),
        _ => None,
    })?;
    match first {
        "tasks" => Some(("tasks/", "task_update")),
        "task-history" => Some(("task-history/", "task_complete")),
        "plans" => Some(("plans/", "plan_submit")),
        "CURRENT_TASK.md" => Some(("CURRENT_TASK.md", "task_update")),
        _ => None,
    }
}

fn write(root: &OwnedFd, instructions: &Path, args: WriteFile, now: Timestamp) -> Result<Map<String, Value>, Error> {
    let path = Path::new(&args.path);
    let plain =
        |path: &Path| path.components().filter(|part| *part != Component::CurDir).collect::<std::path::PathBuf>();
    if plain(path) == Path::new("AGENTS.md") || plain(path) == plain(instructions) {
        return Err(Error::Instructions { path: args.path });
    }
    if let Some((path, tool)) = owner(path) {
        return Err(Error::Owned { path, tool });
    }
    if args.content.len() > WRITE_BYTES_MAX {
        return Err(Error::TooLong(args.content.len()));
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::Outside { path: args.path.clone() })?;
    let dir = directory(root, path.parent().unwrap_or(Path::new("")), &args.path)?;
    let io = |cause: Errno| failed(&args.path, cause);
    let beside = format!(".{}.tmp", id::fresh(now));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&dir, &beside, flags, Mode::from_bits_truncate(0o600)).map_err(io)?;
    let mut file = File::from(file);
    let written = file
        .write_all(args.content.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| rustix::fs::renameat(&dir, &beside, &dir, name).map_err(Into::into))
        .and_then(|()| rustix::fs::fsync(&dir).map_err(Into::into));
    if let Err(cause) = written {
        // What is left of it is not worth a second error.
        let _ = rustix::fs::unlinkat(&dir, &beside, AtFlags::empty());
        return Err(Error::Io { path: args.path, cause });
    }
    Ok(data(json!({ "success": true, "path": args.path, "bytes": args.content.len() })))
}

/// The directory of a file, made where it is missing.
fn directory(root: &OwnedFd, path: &Path, shown: &str) -> Result<OwnedFd, Error> {
    let mut dir = open(root, ".", OFlags::DIRECTORY | OFlags::RDONLY)?;
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::CurDir => continue,
            _ => return Err(Error::Outside { path: shown.to_owned() }),
        };
        match rustix::fs::mkdirat(&dir, name, Mode::from_bits_truncate(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(cause) => return Err(failed(shown, cause)),
        }
        let name = name.to_str().ok_or_else(|| Error::Outside { path: shown.to_owned() })?;
        dir = open(&dir, name, OFlags::DIRECTORY | OFlags::RDONLY)?;
    }
    Ok(dir)
}

pub(super) fn list(root: &OwnedFd, args: ListFiles) -> Result<Map<String, Value>, Error> {
    let (entries, more) = listed(root, &args.path, LISTED_MAX)?;
    let entries: Vec<Value> = entries.into_iter().map(|(name, kind)| json!({ "name": name, "kind": kind })).collect();
    Ok(data(json!({ "success": true, "entries": entries, "more": more })))
}

/// What lies in a folder: its name, and what it is.
type Entry = (String, &'static str);

/// The first entries of a folder by their names, each with its kind, and whether there are more.
pub(super) fn listed(root: &OwnedFd, path: &str, most: usize) -> Result<(Vec<Entry>, bool), Error> {
    let path = if path.is_empty() { "." } else { path };
    let dir = open(root, path, OFlags::DIRECTORY | OFlags::RDONLY)?;
    let io = |cause| failed(path, cause);
    let (mut entries, mut more, mut seen) = (Vec::new(), false, 0);
    for entry in Dir::read_from(dir.as_fd()).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "." || name == ".." || (name.starts_with('.') && name.ends_with(".tmp")) {
            continue;
        }
        if seen == SEEN_MAX {
            more = true;
            break;
        }
        seen += 1;
        let kind = match entry.file_type() {
            FileType::Directory => "directory",
            FileType::Symlink => "link",
            _ => "file",
        };
        entries.push((name, kind));
    }
    entries.sort();
    more |= entries.len() > most;
    entries.truncate(most);
    Ok((entries, more))
}

/// Opens beneath `root`: the kernel refuses what leads out of it, links included.
fn open(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Error> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
        .map_err(|cause| failed(path, cause))
}

pub(super) fn failed(path: &str, cause: Errno) -> Error {
    let path = path.to_owned();
    match cause {
        Errno::XDEV | Errno::LOOP => Error::Outside { path },
        Errno::NOENT => Error::Missing { path },
        cause => Error::Io { path, cause: cause.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(workspace: &Path, tool: &str, args: Value) -> Result<Value, String> {
        run(workspace, Path::new("ME.md"), tool, data(args), Timestamp(1))
            .map(Value::Object)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn files_are_written_read_in_parts_and_listed() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path();
        call(root, "files_write", json!({ "path": "notes/a.md", "content": "안녕 world" })).expect("written");
        let part = call(root, "files_read", json!({ "path": "notes/a.md", "limit": 4 })).expect("read");
        assert_eq!((&part["content"], &part["nextOffset"]), (&json!("안"), &json!(3)));
        let rest = call(root, "files_read", json!({ "path": "notes/a.md", "offset": 3 })).expect("read");
        assert_eq!(rest["content"], "녕 world");
        let listed = call(root, "files_list", json!({ "path": "notes" })).expect("listed");
        assert_eq!(listed["entries"], json!([{ "name": "a.md", "kind": "file" }]));
    }

    #[test]
    fn nothing_outside_the_workspace_and_nothing_of_the_gateway_is_touched() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path().join("workspace");
        std::fs::create_dir(&root).expect("made");
        std::fs::write(temp.path().join("secret"), "s").expect("written");
        std::os::unix::fs::symlink("..", root.join("up")).expect("linked");
        std::os::unix::fs::symlink("/etc/passwd", root.join("passwd")).expect("linked");
        let check = |tool: &str, args: Value, expected: &str| {
            let said = call(&root, tool, args).expect_err("refused");
            assert!(said.contains(expected), "{said}");
        };
        for path in ["../secret", "up/secret", "/etc/passwd", "passwd", "a/../../secret"] {
            check(
                "files_read",
                json!({ "path": path }),
                if path.starts_with("a/") { "there is no" } else { "leads out" },
            );
            if path != "passwd" {
                check("files_write", json!({ "path": path, "content": "" }), "leads out");
            }
        }
        // A link is replaced by the file, never followed.
        call(&root, "files_write", json!({ "path": "passwd", "content": "mine" })).expect("written");
        assert_eq!(std::fs::read_to_string(root.join("passwd")).expect("a file"), "mine");
        for path in ["tasks/x.md", "./plans/p.md", "CURRENT_TASK.md", "task-history/2026-11.md"] {
            check("files_write", json!({ "path": path, "content": "" }), "is written by the gateway");
        }
        for path in ["AGENTS.md", "./ME.md"] {
            check("files_write", json!({ "path": path, "content": "" }), "holds your instructions");
        }
        check("files_read", json!({ "path": "gone" }), "there is no");
    }
}
