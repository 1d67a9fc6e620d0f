//! Compiled code on disk, by content and engine, so that a restart compiles nothing.
//! Keeps true: looking at a component and compiling it happen in a child process under limits, for a hostile one may bring down whoever
//! looks at it, and compiling leaves a hundred megabytes behind; only code that this binary compiled, whole and unchanged, is ever loaded.

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use chela_storage::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use wasmtime::Engine;
use wasmtime::component::Component;

use super::engine;
use super::inspect::{Inspection, Refused, inspect};
use super::source::{self, Material, Source};

/// What compiling one component may take.
const COMPILE_BYTES_MAX: u64 = 1024 * 1024 * 1024;
const COMPILE_TIME_MAX: Duration = Duration::from_secs(60);
/// Compiled components that are kept; the ones compiled longest ago go first.
const FILES_MAX: usize = 64;
const SAID_BYTES_MAX: u64 = 16 * 1024;
const FACTS_BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot start the compiler {} ({cause})", program.display())]
    Spawn { program: PathBuf, cause: std::io::Error },
    #[error(transparent)]
    Refused(Refused),
    #[error("it cannot be compiled: {said}")]
    Failed { said: String },
    #[error("compiling it took longer than {} s; make it smaller, or compile it ahead with `chela plugin compile FILE`", COMPILE_TIME_MAX.as_secs())]
    TooSlow,
    #[error("the gateway is stopping")]
    Stopping,
    #[error("cannot keep its compiled code in {} ({cause}); check the directory's owner and rights, and the disk", path.display())]
    Write { path: PathBuf, cause: std::io::Error },
    #[error("others can write in {}, where compiled code lies; run `chmod 700 {}`", path.display(), path.display())]
    Rights { path: PathBuf },
    #[error("its compiled code {} does not load: {said}", path.display())]
    Load { path: PathBuf, said: String },
}

impl Error {
    /// The error of a component that people know under `source_name`.
    pub(super) fn named(self, source_name: String) -> super::Error {
        match self {
            Self::Refused(refused) => super::Error::Refused { source_name, refused },
            Self::Stopping => super::Error::Stopping,
            cause => super::Error::Compile { source_name, cause },
        }
    }
}

#[derive(Clone)]
pub(super) struct Cache {
    engine: Engine,
    fingerprint: String,
    dir: PathBuf,
    /// Compiled with the binary or when it was installed; only read.
    shipped: Option<PathBuf>,
    compiler: PathBuf,
    compile_time_max: Duration,
    /// Set once no more is to be compiled.
    stopping: Arc<AtomicBool>,
    /// What is mapped and in use, by the name of its file.
    mapped: Arc<Mutex<HashMap<String, Weak<Mapped>>>>,
}

/// Compiled code in memory. Slots with the same component share it: each mapping of its own would lie in memory once more.
pub(super) struct Mapped {
    pub(super) component: Component,
    pub(super) inspection: Inspection,
}

/// What lies beside compiled code.
#[derive(Serialize, Deserialize)]
struct Facts {
    /// Of the compiled code: a flipped bit in it would run.
    checksum: String,
    inspection: Inspection,
}

impl Cache {
    pub(super) fn new(
        engine: Engine,
        dir: PathBuf,
        shipped: Option<PathBuf>,
        compiler: PathBuf,
        stopping: Arc<AtomicBool>,
    ) -> Self {
        let shipped = shipped.filter(|dir| is_ours_alone(dir));
        let (fingerprint, compile_time_max) = (engine::fingerprint(&engine), COMPILE_TIME_MAX);
        Self { engine, fingerprint, dir, shipped, compiler, compile_time_max, stopping, mapped: Arc::default() }
    }

    /// The compiled component and what it is, from memory or disk if they are there. Compiling takes seconds: not for an async thread.
    pub(super) fn component(&self, material: &Material) -> Result<Arc<Mapped>, Error> {
        let name = file_name(&material.hash, &self.fingerprint);
        let in_use = || self.mapped.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = in_use().get(&name).and_then(Weak::upgrade) {
            return Ok(found);
        }
        // Not under the lock: whoever wants another component does not wait while this one is compiled.
        let made = Arc::new(self.found_on_disk(material, &name)?);
        let mut mapped = in_use();
        // Somebody else was sooner: then there is one of them all the same.
        if let Some(found) = mapped.get(&name).and_then(Weak::upgrade) {
            return Ok(found);
        }
        mapped.retain(|_, known| known.strong_count() > 0);
        mapped.insert(name, Arc::downgrade(&made));
        Ok(made)
    }

    fn found_on_disk(&self, material: &Material, name: &str) -> Result<Mapped, Error> {
        if let Some(shipped) = &self.shipped
            && let Ok(found) = load(&self.engine, &shipped.join(name))
        {
            return Ok(found);
        }
        chela_storage::make_own_dir(&self.dir).map_err(|cause| Error::Write { path: self.dir.clone(), cause })?;
        if !is_ours_alone(&self.dir) {
            return Err(Error::Rights { path: self.dir.clone() });
        }
        let path = self.dir.join(name);
        if path.is_file() {
            match load(&self.engine, &path) {
                Ok(found) => return Ok(found),
                Err(error) => tracing::warn!(%error, "compiled again"),
            }
        }
        self.compile(material, &path)?;
        self.keep_few();
        load(&self.engine, &path)
    }

    fn compile(&self, material: &Material, path: &Path) -> Result<(), Error> {
        if let Some(name) = &material.builtin {
            return self.run_compiler(&format!("builtin:{name}"), path);
        }
        // A file may change between being read and being compiled, so the child gets the bytes that were read.
        let beside = path.with_extension("wasm");
        chela_storage::replace(&beside, &material.bytes, Mode::Private)
            .map_err(|cause| Error::Write { path: beside.clone(), cause })?;
        let outcome = self.run_compiler(&beside.display().to_string(), path);
        // What is left of it is swept away by the next start.
        let _ = fs::remove_file(beside);
        outcome
    }

    fn run_compiler(&self, source: &str, path: &Path) -> Result<(), Error> {
        tracing::info!(source, "compiling");
        let mut command = Command::new(&self.compiler);
        // The state directory is named so that the child looks for no home.
        command.args(["plugin", "compile", source, "--to"]).arg(path).arg("--state-dir").arg(&self.dir);
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut child = spawned.map_err(|cause| Error::Spawn { program: self.compiler.clone(), cause })?;
        let ended = self.wait(&mut child);
        let (told, said) = (first_of(child.stdout.take()), first_of(child.stderr.take()));
        let status = ended?;
        if status.success() {
            return Ok(());
        }
        if let Ok(refused) = serde_json::from_str(&told) {
            return Err(Error::Refused(refused));
        }
        let said = said.trim().trim_start_matches("chela: ").lines().next().unwrap_or_default().to_owned();
        match status.code() {
            Some(1) => Err(Error::Failed { said }),
            Some(_) => Err(Error::Refused(Refused::Broken { said: format!("looking at it failed: {said}") })),
            None => Err(Error::Failed { said: "the compiler was ended; it may need more than 1 GiB".into() }),
        }
    }

    /// Waits for the child, but not for ever, and not once the gateway stops.
    fn wait(&self, child: &mut Child) -> Result<ExitStatus, Error> {
        let since = Instant::now();
        loop {
            let stopping = self.stopping.load(Ordering::Relaxed);
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if since.elapsed() < self.compile_time_max && !stopping => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => {
                    // It may have ended by itself this very moment, which is as good.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(if stopping { Error::Stopping } else { Error::TooSlow });
                }
            }
        }
    }

    /// Removes what was compiled longest ago.
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
            let _ = fs::remove_file(facts_of(&path));
            let _ = fs::remove_file(path);
        }
    }
}

fn first_of(stream: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // What cannot be read was not said.
        let _ = stream.take(SAID_BYTES_MAX).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn file_name(hash: &str, fingerprint: &str) -> String {
    format!("{hash}-{fingerprint}.cwasm")
}

fn facts_of(path: &Path) -> PathBuf {
    path.with_extension("json")
}

fn load(engine: &Engine, path: &Path) -> Result<Mapped, Error> {
    let bad = |said: String| Error::Load { path: path.to_owned(), said };
    let facts = source::read_file(&facts_of(path), FACTS_BYTES_MAX).map_err(|error| bad(error.to_string()))?;
    let facts: Facts = serde_json::from_slice(&facts).map_err(|error| bad(error.to_string()))?;
    // Piece by piece: it is mapped afterwards, so nobody needs a copy of it.
    let code = source::open(path).map_err(|error| bad(error.to_string()))?;
    let found = blake3::Hasher::new().update_reader(code).map_err(|error| bad(error.to_string()))?.finalize();
    if found.to_hex().as_str() != facts.checksum {
        return Err(bad("it is not what was compiled".into()));
    }
    let component = map(engine, path).map_err(|error| bad(super::failure::chain(&error)))?;
    Ok(Mapped { component, inspection: facts.inspection })
}

/// Mapped rather than copied, so that the machine can share it and forget it.
#[expect(
    unsafe_code,
    reason = "compiled code is machine code: its directory is ours alone, its checksum was just compared"
)]
fn map(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    unsafe { Component::deserialize_file(engine, path) }
}

/// Nobody but root and us can put code into the directory.
fn is_ours_alone(dir: &Path) -> bool {
    let Ok(facts) = fs::metadata(dir) else { return false };
    let own = rustix::process::getuid().as_raw();
    (facts.uid() == own || facts.uid() == 0) && facts.mode() & 0o022 == 0
}

/// What this process has asked the system for, used or not; nothing where that cannot be told.
fn taken_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|pages| pages.split(' ').nth(5)?.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// The work of the child: looks at `source`, compiles it to `to`, or into `dir`, under limits of its own.
pub fn compile(source: &str, to: Option<&Path>, dir: &Path) -> Result<PathBuf, CompileError> {
    // Where memory runs out, the system ends the compiler and not the gateway. Where it cannot be said, nothing is lost but that.
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
    // One that compiles several has its limit from the first: it can be lowered, not raised again.
    let had = getrlimit(Resource::Data).maximum.unwrap_or(u64::MAX);
    let bytes_max = Some(had.min(taken_bytes() + COMPILE_BYTES_MAX));
    let limit = Rlimit { current: bytes_max, maximum: bytes_max };
    // Without the limit a hostile file could take all memory, so a system that refuses it is told of.
    setrlimit(Resource::Data, limit).map_err(|cause| CompileError::Limit { cause: cause.into() })?;
    let material = Material::read(&Source::parse(source, Path::new("")), source::FILE_BYTES_CEILING)?;
    let failed = |error: wasmtime::Error| CompileError::Engine { said: super::failure::chain(&error) };
    let engine = engine::engine().map_err(failed)?;
    let path = match to {
        Some(path) => path.to_owned(),
        None => dir.join(file_name(&material.hash, &engine::fingerprint(&engine))),
    };
    if to.is_none() && load(&engine, &path).is_ok() {
        return Ok(path);
    }
    let (inspection, made) = inspect(&material.bytes)?;
    let code = engine.precompile_component(made.as_deref().unwrap_or(&material.bytes)).map_err(failed)?;
    let facts = Facts { checksum: blake3::hash(&code).to_hex().to_string(), inspection };
    let facts = serde_json::to_vec(&facts).expect("facts are plain JSON");
    let write = |cause| CompileError::Write { path: path.clone(), cause };
    if let Some(dir) = path.parent() {
        chela_storage::make_private_dir(dir).map_err(write)?;
    }
    chela_storage::replace(&facts_of(&path), &facts, Mode::Private).map_err(write)?;
    chela_storage::replace(&path, &code, Mode::Private).map_err(write)?;
    Ok(path)
}

#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    #[error(transparent)]
    Source(#[from] source::Error),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error("{said}")]
    Engine { said: String },
    #[error("cannot limit the compiler's memory ({cause})")]
    Limit { cause: std::io::Error },
    #[error("cannot write {} ({cause})", path.display())]
    Write { path: PathBuf, cause: std::io::Error },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of a compiler that does this within so many seconds; and the number of its process.
    fn compiled_by(script: &str, seconds_max: u64) -> (Error, u32) {
        let temp = tempfile::tempdir().expect("a directory");
        let (compiler, pid) = (temp.path().join("compiler"), temp.path().join("pid"));
        let text = format!("#!/bin/sh\necho $$ > {}\n{script}\n", pid.display());
        // By another process: a child of some other test could hold the file open for writing, and then it cannot be run.
        let mut writing = Command::new("sh");
        writing.args(["-c", "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", &text]).arg(&compiler);
        assert!(writing.status().expect("a shell").success());
        let engine = engine::engine().expect("an engine");
        let mut cache = Cache::new(engine, temp.path().join("cache"), None, compiler, Arc::default());
        cache.compile_time_max = Duration::from_secs(seconds_max);
        let material = Material::of_bytes(b"\0asm".to_vec().into(), None);
        let Err(error) = cache.component(&material) else { panic!("it is not compiled") };
        assert_eq!(fs::read_dir(temp.path().join("cache")).expect("a directory").count(), 0, "nothing of it is left");
        (error, fs::read_to_string(pid).expect("it ran").trim().parse().expect("a number"))
    }

    #[test]
    fn a_compiler_that_does_not_end_is_ended() {
        // Time enough for a busy machine to start it.
        let (error, pid) = compiled_by("exec sleep 600", 5);
        assert!(matches!(error, Error::TooSlow), "{error}");
        assert!(error.to_string().starts_with("compiling it took longer than 60 s; make it smaller, or "), "{error}");
        assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it is gone");
    }

    #[test]
    fn a_compiler_that_dies_is_an_error_like_any_other() {
        // As the system ends one that takes more memory than it may have.
        let (error, _) = compiled_by("kill -9 $$", 600);
        assert_eq!(error.to_string(), "it cannot be compiled: the compiler was ended; it may need more than 1 GiB");
        let (error, _) = compiled_by("echo 'chela: no space' >&2; exit 1", 600);
        assert_eq!(error.to_string(), "it cannot be compiled: no space");
        let (error, _) = compiled_by("echo 'a fault' >&2; exit 101", 600);
        assert!(error.to_string().contains("looking at it failed: a fault"), "{error}");
    }
}
