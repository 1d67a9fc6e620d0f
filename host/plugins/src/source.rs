//! Where a component comes from: out of the binary, or a file.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use rustix::fs::OFlags;

use super::signature::FILE_BYTES_MAX;

mod builtin {
    use super::Held;

    include!(concat!(env!("OUT_DIR"), "/builtin.rs"));
}

/// A component as the binary holds it.
#[derive(Clone, Copy)]
enum Held {
    Plain(&'static [u8]),
    /// As a Zstandard frame.
    Packed(&'static [u8]),
}

impl Held {
    fn bytes(self) -> std::io::Result<Bytes> {
        let packed = match self {
            Self::Plain(bytes) => return Ok(Bytes::from_static(bytes)),
            Self::Packed(packed) => packed,
        };
        let mut bytes = Vec::new();
        let mut unpacking = ruzstd::decoding::StreamingDecoder::new(packed).map_err(std::io::Error::other)?;
        unpacking.read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }
}

/// No configuration may allow a larger file.
pub(super) const FILE_BYTES_CEILING: u64 = 256 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Builtin(String),
    File(PathBuf),
}

/// The bytes of a component, as they were when they were read.
#[derive(Clone)]
pub(super) struct Material {
    pub(super) bytes: Bytes,
    /// Our own name for the content.
    pub(super) hash: String,
    /// The name of a component of the binary.
    pub(super) builtin: Option<String>,
    /// What lay beside it as `NAME.wasm.sig`.
    pub(super) signature: Option<Bytes>,
}

impl Material {
    pub(super) fn read(source: &Source, limit: u64) -> Result<Self, Error> {
        let bytes = read(source, limit)?;
        let (builtin, signature) = match source {
            Source::Builtin(name) => (Some(name.clone()), None),
            Source::File(path) => (None, read_signature(path)?),
        };
        Ok(Self { hash: hash(&bytes), bytes, builtin, signature })
    }

    pub(super) fn of_bytes(bytes: Bytes, signature: Option<Bytes>) -> Self {
        Self { hash: hash(&bytes), bytes, builtin: None, signature }
    }
}

/// The signature of a component's file, beside it.
pub(super) fn signature_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".sig");
    path.with_file_name(name)
}

fn read_signature(path: &Path) -> Result<Option<Bytes>, Error> {
    let path = signature_of(path);
    if !path.exists() {
        return Ok(None);
    }
    read_file(&path, FILE_BYTES_MAX).map(|bytes| Some(bytes.into()))
}

/// The name under which a component's content is kept.
pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..32].to_owned()
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no component named {name:?} is built in; there is {known}")]
    NotBuiltIn { name: String, known: String },
    #[error("the component builtin:{name} cannot be unpacked ({cause}); the binary is damaged, install it again")]
    Packed { name: String, cause: std::io::Error },
    #[error("cannot read {} ({cause})", path.display())]
    Read { path: PathBuf, cause: std::io::Error },
    #[error("{} is larger than {limit} bytes; raise `plugins.fileBytes` if it should be", path.display())]
    TooLarge { path: PathBuf, limit: u64 },
}

impl Source {
    /// Reads `builtin:NAME`, an absolute path, or a path within `dir`.
    pub(super) fn parse(text: &str, dir: &Path) -> Self {
        match text.strip_prefix("builtin:") {
            Some(name) => Self::Builtin(name.to_owned()),
            None => Self::File(dir.join(text)),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin(name) => write!(f, "builtin:{name}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The names of the components inside the binary.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    builtin::BUILTIN.iter().map(|(name, _)| *name)
}

/// The bytes of a component, at most `limit` of them.
fn read(source: &Source, limit: u64) -> Result<Bytes, Error> {
    match source {
        Source::Builtin(name) => {
            let found = builtin::BUILTIN.iter().find(|(known, _)| known == name);
            let known = || builtin_names().map(|name| format!("builtin:{name}")).collect::<Vec<_>>().join(", ");
            let found = found.ok_or_else(|| Error::NotBuiltIn { name: name.clone(), known: known() })?;
            found.1.bytes().map_err(|cause| Error::Packed { name: name.clone(), cause })
        }
        Source::File(path) => read_file(path, limit).map(Into::into),
    }
}

/// Opens a file that is one. A pipe in its place would be waited for without end.
pub(super) fn open(path: &Path) -> Result<File, Error> {
    let failed = |cause| Error::Read { path: path.to_owned(), cause };
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag of open");
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path).map_err(failed)?;
    match file.metadata().map_err(failed)?.is_file() {
        true => Ok(file),
        false => Err(failed(std::io::Error::other("not a regular file"))),
    }
}

pub(super) fn read_file(path: &Path, limit: u64) -> Result<Vec<u8>, Error> {
    let failed = |cause| Error::Read { path: path.to_owned(), cause };
    let file = open(path)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(Error::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}
