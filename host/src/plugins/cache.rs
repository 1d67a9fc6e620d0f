//! Compiled code on disk, by content and engine, so that a restart compiles nothing.
//! Keeps true: compiling happens in a child process under limits, for it leaves a hundred megabytes behind; only code that this binary
//! compiled is ever loaded. Never: loads a compiled file that came from outside.

use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use chela_storage::Mode;
use rustix::process::{Resource, Rlimit, setrlimit};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::engine;
use super::inspect::{hash, inspect};
use super::source::{self, Source};

/// What compiling one component may take.
const COMPILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
const COMPILE_TIME_MAX: Duration = Duration::from_secs(60);
/// Compiled components that are kept; the ones unused for longest go first.
const FILES_MAX: usize = 64;
const SAID_BYTES_MAX: u64 = 4 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start the compiler {} ({cause})", program.display())]
    Spawn { program: PathBuf, cause: std::io::Error },
    #[error("it cannot be compiled: {said}")]
    Failed { said: String },
    #[error("compiling it took longer than {} s", COMPILE_TIME_MAX.as_secs())]
    TooSlow,
    #[error("cannot keep its compiled code in {} ({cause}); check the directory's owner and rights, and the disk", path.display())]
    Write { path: PathBuf, cause: std::io::Error },
    #[error("others can write in {}, where compiled code lies; run `chmod 700 {}`", path.display(), path.display())]
    Rights { path: PathBuf },
    #[error("its compiled code {} does not load: {said}", path.display())]
    Load { path: PathBuf, said: String },
}

#[derive(Clone)]
pub(super) struct Cache {
    engine: Engine,
    fingerprint: String,
    dir: PathBuf,
    /// Compiled with the binary or when it was installed; only read.
    shipped: Option<PathBuf>,
    compiler: PathBuf,
}

impl Cache {
    pub(super) fn new(engine: Engine, dir: PathBuf, shipped: Option<PathBuf>, compiler: PathBuf) -> Self {
        let shipped = shipped.filter(|dir| is_ours_alone(dir));
        Self { fingerprint: engine::fingerprint(&engine), engine, dir, shipped, compiler }
    }

    /// The compiled component, from disk if it is there. Compiling takes seconds: not for an async thread.
    pub(super) fn component(&self, source: &Source, bytes: &[u8]) -> Result<Component, Error> {
        let name = file_name(&hash(bytes), &self.fingerprint);
        let shipped = self.shipped.as_ref().map(|dir| dir.join(&name)).filter(|path| path.is_file());
        if let Some(path) = shipped
            && let Ok(component) = load(&self.engine, &path)
        {
            return Ok(component);
        }
        chela_storage::make_private_dir(&self.dir).map_err(|cause| Error::Write { path: self.dir.clone(), cause })?;
        if !is_ours_alone(&self.dir) {
            return Err(Error::Rights { path: self.dir.clone() });
        }
        let path = self.dir.join(&name);
        if path.is_file() {
            match load(&self.engine, &path) {
                Ok(component) => return Ok(component),
                Err(error) => tracing::warn!(%error, "compiled again"),
            }
        }
        self.compile(source, bytes, &path)?;
        self.keep_few();
        load(&self.engine, &path)
    }

    fn compile(&self, source: &Source, bytes: &[u8], path: &Path) -> Result<(), Error> {
        // A file may change between being read and being compiled, so the child gets the bytes that were checked.
        let given = match source {
            Source::Builtin(name) => format!("builtin:{name}"),
            Source::File(_) => {
                let beside = path.with_extension("wasm");
                chela_storage::replace(&beside, bytes, Mode::Private)
                    .map_err(|cause| Error::Write { path: beside.clone(), cause })?;
                beside.display().to_string()
            }
        };
        let outcome = self.run_compiler(&given, path);
        if matches!(source, Source::File(_)) {
            let _ = fs::remove_file(path.with_extension("wasm"));
        }
        outcome
    }

    fn run_compiler(&self, source: &str, path: &Path) -> Result<(), Error> {
        tracing::info!(source, "compiling");
        let mut command = Command::new(&self.compiler);
        // The state directory is named so that the child looks for no home.
        command.args(["plugin", "compile", source, "--to"]).arg(path).arg("--state-dir").arg(&self.dir);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut child = spawned.map_err(|cause| Error::Spawn { program: self.compiler.clone(), cause })?;
        let success = wait(&mut child, COMPILE_TIME_MAX);
        let mut said = String::new();
        if let Some(stderr) = child.stderr.take() {
            let _ = stderr.take(SAID_BYTES_MAX).read_to_string(&mut said);
        }
        match success {
            Some(true) => Ok(()),
            Some(false) => {
                let said = said.trim().trim_start_matches("chela: ").to_owned();
                let said =
                    if said.is_empty() { "the compiler was ended; it may need more than 1 GiB".into() } else { said };
                Err(Error::Failed { said })
            }
            None => Err(Error::TooSlow),
        }
    }

    /// Removes what other builds left and what has not been used for longest.
    fn keep_few(&self) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut files: Vec<(std::time::SystemTime, PathBuf)> = entries
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .filter(|(_, path)| path.extension().is_some_and(|ending| ending == "cwasm"))
            .collect();
        files.sort();
        let surplus = files.len().saturating_sub(FILES_MAX);
        for (_, path) in files.into_iter().take(surplus) {
            // A mapped file stays with those who use it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Waits for a child, but not for ever; none when it had to be ended.
fn wait(child: &mut Child, patience: Duration) -> Option<bool> {
    let since = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.success()),
            Ok(None) if since.elapsed() < patience => std::thread::sleep(Duration::from_millis(2)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

fn file_name(hash: &str, fingerprint: &str) -> String {
    format!("{hash}-{fingerprint}.cwasm")
}

#[expect(
    unsafe_code,
    reason = "compiled code is machine code: its directory is ours alone, and only our compiler writes there"
)]
fn load(engine: &Engine, path: &Path) -> Result<Component, Error> {
    let loaded = unsafe { Component::deserialize_file(engine, path) };
    loaded.map_err(|error| Error::Load { path: path.to_owned(), said: super::failure::chain(&error) })
}

/// Nobody but root and us can put code into the directory.
fn is_ours_alone(dir: &Path) -> bool {
    let Ok(facts) = fs::metadata(dir) else { return false };
    let own = rustix::process::getuid().as_raw();
    (facts.uid() == own || facts.uid() == 0) && facts.mode() & 0o022 == 0
}

/// The work of the child: compiles `source` to `to` under limits of its own.
pub fn compile(source: &str, to: Option<&Path>, dir: &Path) -> Result<PathBuf, CompileError> {
    let limit = Rlimit { current: Some(COMPILE_BYTES_MAX), maximum: Some(COMPILE_BYTES_MAX) };
    // Without the limit a hostile file could take all memory, so a system that refuses it is told of.
    setrlimit(Resource::Data, limit).map_err(|cause| CompileError::Limit { cause: cause.into() })?;
    let source = Source::parse(source, Path::new(""));
    let bytes = source::read(&source, source::FILE_BYTES_CEILING)?;
    let (_, made) = inspect(&bytes)?;
    let engine = engine::engine().map_err(|error| CompileError::Engine { said: super::failure::chain(&error) })?;
    let path = match to {
        Some(path) => path.to_owned(),
        None => dir.join(file_name(&hash(&bytes), &engine::fingerprint(&engine))),
    };
    if to.is_none() && load(&engine, &path).is_ok() {
        return Ok(path);
    }
    let compiled = engine.precompile_component(made.as_deref().unwrap_or(&bytes));
    let compiled = compiled.map_err(|error| CompileError::Engine { said: super::failure::chain(&error) })?;
    let write = |cause| CompileError::Write { path: path.clone(), cause };
    if let Some(dir) = path.parent() {
        chela_storage::make_private_dir(dir).map_err(write)?;
    }
    chela_storage::replace(&path, &compiled, Mode::Private).map_err(write)?;
    Ok(path)
}

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error(transparent)]
    Source(#[from] source::Error),
    #[error(transparent)]
    Refused(#[from] super::inspect::Refused),
    #[error("{said}")]
    Engine { said: String },
    #[error("cannot limit the compiler's memory ({cause})")]
    Limit { cause: std::io::Error },
    #[error("cannot write {} ({cause})", path.display())]
    Write { path: PathBuf, cause: std::io::Error },
}
