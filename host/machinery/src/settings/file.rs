//! Reads and first writes `chela.json`.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use chela_storage::Mode;
use rustix::fs::OFlags;

use super::{Error, Settings, Tokens, identity, secret_text};
use crate::config::{self, Starter};
use crate::layout::StateDir;

/// Reads and checks the configuration of `dir`, and finds its secrets.
pub fn load(dir: &StateDir) -> Result<Settings, Error> {
    let path = dir.config();
    let file = open(&path)?;
    let mode = file.metadata().map_err(|cause| Error::Read { path: path.clone(), cause })?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Error::Rights { path, mode: mode & 0o777 });
    }
    settings_of(file, path, dir)
}

/// Like `load`, with the certificate of our listeners: for who serves.
pub fn load_serving(dir: &StateDir) -> Result<Settings, Error> {
    let mut settings = load(dir)?;
    settings.identity =
        identity(&settings.config.tls, dir).map_err(|problems| Error::Invalid { path: dir.config(), problems })?;
    Ok(settings)
}

/// The owner's token, also of a configuration that cannot be used otherwise: a gateway goes on with the one before, and can be asked.
pub fn owner_token(dir: &StateDir) -> Result<String, Error> {
    match load(dir) {
        Ok(settings) => Ok(settings.tokens.owner().to_owned()),
        Err(error @ Error::Invalid { .. }) => token_alone(dir).ok_or(error),
        Err(error) => Err(error),
    }
}

fn token_alone(dir: &StateDir) -> Option<String> {
    let path = dir.config();
    let text = read(open(&path).ok()?, &path, config::BYTES_MAX).ok()?;
    let token = chela_json5::get(&text, "gateway.auth.token").ok()??;
    secret_text(&serde_json::from_value(token).ok()?, dir).ok()
}

/// Checks a file that is not in place yet as if it were the configuration of `dir`; its rights do not matter.
pub fn check(path: &Path, dir: &StateDir) -> Result<Settings, Error> {
    settings_of(open(path)?, path.to_owned(), dir)
}

fn settings_of(file: File, path: PathBuf, dir: &StateDir) -> Result<Settings, Error> {
    let text = read(file, &path, config::BYTES_MAX)?;
    checked(&text, &path, dir)
}

pub(super) fn checked(text: &str, path: &Path, dir: &StateDir) -> Result<Settings, Error> {
    let invalid = |problems| Error::Invalid { path: path.to_owned(), problems };
    let config = config::parse(text).map_err(invalid)?;
    let tokens = Tokens::of(&config.gateway.auth, dir).map_err(|missing| match missing.all_elsewhere {
        true => Error::SecretsElsewhere { path: path.to_owned(), problems: missing.problems },
        false => invalid(missing.problems),
    })?;
    Ok(Settings { revision: revision(text), config, tokens, identity: None })
}

/// Changes the text of the configuration; what does not pass every check is not written. Gives the paths that changed.
pub fn edit(
    dir: &StateDir,
    change: impl FnOnce(&str) -> Result<chela_json5::Patched, Error>,
) -> Result<Vec<String>, Error> {
    let path = dir.config();
    let text = read(open(&path)?, &path, config::BYTES_MAX)?;
    let chela_json5::Patched { text: changed, changed: paths } = change(&text)?;
    if changed != text {
        checked(&changed, &path, dir)?;
        // Checking takes a while, and people edit this file.
        if read(open(&path)?, &path, config::BYTES_MAX)? != text {
            return Err(Error::Changed { path });
        }
        chela_storage::replace(&path, changed.as_bytes(), Mode::Private)
            .map_err(|cause| Error::Write { path, cause })?;
    }
    Ok(paths)
}

/// Writes a first configuration with a new token; never over one that is there.
pub fn create(dir: &StateDir, choices: &Starter) -> Result<(), Error> {
    put(dir, &config::starter(choices, &fresh_token()))
}

/// Puts a first configuration in place, whole; never over one that is there.
pub(super) fn put(dir: &StateDir, text: &str) -> Result<(), Error> {
    let path = dir.config();
    chela_storage::create_new(&path, text.as_bytes(), Mode::Private).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::AlreadyExists => Error::Exists { path },
        _ => Error::Write { path, cause },
    })
}

/// Makes sure that every agent has its workspace.
pub fn make_workspaces(dir: &StateDir, settings: &Settings) -> Result<(), Error> {
    for agent in &settings.config.agents.list {
        let path = dir.path().join(agent.workspace_path());
        chela_storage::make_private_dir(&path).map_err(|cause| Error::Write { path, cause })?;
    }
    Ok(())
}

/// 256 bits from the operating system, in hex.
pub(super) fn fresh_token() -> String {
    random_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Opens a file that is one. A pipe in its place would be waited for without end.
pub(super) fn open_regular(path: &Path) -> std::io::Result<File> {
    let nonblocking = i32::try_from(OFlags::NONBLOCK.bits()).expect("a flag of open");
    let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("not a regular file")),
    }
}

pub(super) fn open(path: &Path) -> Result<File, Error> {
    open_regular(path).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::NotFound => Error::Missing { path: path.to_owned() },
        _ => Error::Read { path: path.to_owned(), cause },
    })
}

pub(super) fn read(file: File, path: &Path, bytes_max: u64) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = file.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|cause| Error::Read { path: path.to_owned(), cause })?;
    if bytes.len() as u64 > bytes_max {
        return Err(Error::TooLarge { path: path.to_owned(), bytes_max });
    }
    String::from_utf8(bytes)
        .map_err(|error| Error::NotUtf8 { path: path.to_owned(), at: error.utf8_error().valid_up_to() })
}

/// Tells one text from another. Keyed anew by each process, since the text holds a token and a reader sees the fingerprint.
pub(super) fn revision(text: &str) -> String {
    static KEY: OnceLock<[u8; 32]> = OnceLock::new();
    let key = KEY.get_or_init(random_bytes);
    blake3::keyed_hash(key, text.as_bytes()).to_hex()[..32].to_owned()
}

fn random_bytes() -> [u8; 32] {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes
}
