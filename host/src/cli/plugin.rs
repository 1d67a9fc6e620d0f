//! `chela plugin`: what serves in each slot, changing it, and looking at components without a gateway.

mod argument;
mod bench;
mod build;
mod compare;
mod dev;
mod gateway;
mod project;
mod sign;
mod test;

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::Output;
use super::exit::WrongArgument;
use super::output::table;
use crate::config::{self, ChannelLimits, PluginLimits};
use crate::layout::StateDir;
use crate::plugins::{self, Workbench};
use crate::policy::World;

/// An input larger than this is refused unread.
const INPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(Subcommand)]
pub(super) enum Plugin {
    /// Show every slot: what serves in it, since when it fails, what waits
    List,
    /// Show what a component is, imports and wants, without binding it
    Inspect(Inspect),
    /// Put a component into a slot of the running gateway
    Load(gateway::Load),
    /// Give a slot back to what chela.json binds
    Unload(gateway::OfSlot),
    /// Take a component out of service, also over restarts
    Disable(gateway::OfSlot),
    /// End `disable`
    Enable(gateway::OfSlot),
    /// Let a waiting update have what it asks for beyond the version it replaces
    Accept(gateway::OfSlot),
    /// Go back to the version before
    Rollback(gateway::OfSlot),
    /// End the quarantine of a slot
    Release(gateway::OfSlot),
    /// Show what the plugins of a slot have logged
    Logs(gateway::Logs),
    /// Compile components ahead of time; without SOURCE, all that are built in
    Compile(Compile),
    /// Call one function of a component with one input
    Try(Try),
    /// Make a project of a new plugin, in a directory of its own
    New(project::New),
    /// Make the component of a project
    Build(build::Build),
    /// Run a project's cases, and what every plugin of its world is asked
    Test(test::Test),
    /// Tell what a project's cases cost
    Bench(bench::Bench),
    /// Build, test and load a project whenever it is saved
    Dev(dev::Dev),
    /// Tell which recorded decisions two components would make differently
    Compare(compare::Compare),
    /// Vouch for a component with a key
    Sign(sign::Sign),
    /// Tell who vouches for a component
    Verify(sign::Verify),
}

#[derive(Args)]
pub(super) struct Inspect {
    /// `builtin:NAME` or a file
    #[arg(value_name = "FILE", value_parser = argument::source)]
    source: String,
}

#[derive(Args)]
pub(super) struct Compile {
    /// `builtin:NAME` or a file
    #[arg(value_parser = argument::source)]
    source: Option<String>,
    /// The compiled file; else one in the state directory's cache
    #[arg(long, value_name = "FILE", requires = "source")]
    to: Option<PathBuf>,
    /// The directory for compiled files, instead of the state directory's cache
    #[arg(long, value_name = "DIR", conflicts_with = "to")]
    into: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct Try {
    /// `builtin:NAME`, a component or a script
    #[arg(value_parser = argument::source)]
    source: String,
    /// `roles`, `categories`, `before-tool-call`, `instructions`, `next`, or `handle` of a channel
    #[arg(value_parser = argument::export)]
    export: String,
    /// A JSON file with the input; `-` is standard input
    #[arg(long, value_name = "FILE|-")]
    input: PathBuf,
    /// A JSON5 file with the component's configuration
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Memory that it may use, in MB
    #[arg(long, value_name = "MB", default_value_t = PluginLimits::default().memory_mb)]
    memory: u32,
}

impl Plugin {
    pub(super) fn run(self, dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
        match self {
            Self::List => gateway::list(dir, output)?,
            Self::Inspect(inspect) => inspect.run(dir, output)?,
            Self::Load(load) => load.run(dir, output)?,
            Self::Unload(of) => of.run(dir, output, "unload")?,
            Self::Disable(of) => of.run(dir, output, "disable")?,
            Self::Enable(of) => of.run(dir, output, "enable")?,
            Self::Accept(of) => of.run(dir, output, "accept")?,
            Self::Rollback(of) => of.run(dir, output, "rollback")?,
            Self::Release(of) => of.run(dir, output, "release")?,
            Self::Logs(logs) => logs.run(dir, output)?,
            Self::Compile(compile) => compile.run(dir, output)?,
            Self::Try(attempt) => return attempt.run(dir, output),
            Self::New(new) => new.run(output)?,
            Self::Build(build) => build.run(dir, output)?,
            Self::Test(test) => return test.run(dir, output),
            Self::Bench(bench) => bench.run(dir, output)?,
            Self::Dev(dev) => dev.run(dir, output)?,
            Self::Compare(compare) => compare.run(dir, output)?,
            Self::Sign(sign) => sign.run(dir, output)?,
            Self::Verify(verify) => verify.run(dir, output)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Inspect {
    fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let (bench, _temporary) = workbench(dir)?;
        let found = bench.inspect(&self.source)?;
        output.show(&found, || inspection_in_words(&found));
        Ok(())
    }
}

fn inspection_in_words(found: &Value) -> String {
    let words = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".into(),
        Value::Array(items) => items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    let row = |name: &str, key: &str| vec![name.to_owned(), words(&found[key])];
    let mut text = table(&[
        row("name", "name"),
        row("version", "version"),
        row("summary", "summary"),
        row("worlds", "worlds"),
        row("interface", "interfaceVersion"),
        row("imports", "imports"),
        row("exports", "exports"),
        row("grants", "grants"),
        row("form", "form"),
        row("bytes", "bytes"),
        row("sha256", "sha256"),
    ]);
    if !found["configSchema"].is_null() {
        text.push_str("\nIts configuration's schema: `chela plugin inspect … --json`");
    }
    text
}

impl Compile {
    fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let into = self.into.clone().unwrap_or_else(|| dir.plugin_cache());
        let sources = match &self.source {
            Some(source) => vec![source.clone()],
            None => plugins::builtin_names().map(|name| format!("builtin:{name}")).collect(),
        };
        let mut rows = Vec::new();
        for source in sources {
            let since = std::time::Instant::now();
            let compiled = plugins::compile(&source, self.to.as_deref(), &into);
            if let (Err(plugins::CompileError::Refused(refused)), Some(_)) = (&compiled, &self.to) {
                // For the gateway, which asked for exactly this file.
                Output { json: true }.show(&json!(refused), String::new);
            }
            let path = compiled.with_context(|| format!("cannot compile {source}"))?;
            rows.push(json!({ "source": source, "file": path, "tookMs": since.elapsed().as_millis() }));
        }
        output.show(&json!({ "compiled": rows }), || {
            let row = |row: &Value| {
                vec![
                    row["source"].as_str().unwrap_or_default().to_owned(),
                    format!("{} ms", row["tookMs"]),
                    row["file"].as_str().unwrap_or_default().to_owned(),
                ]
            };
            table(&rows.iter().map(row).collect::<Vec<_>>())
        });
        Ok(())
    }
}

impl Try {
    fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<ExitCode> {
        let text = read_input(&self.input)?;
        let wrong = |said: String| WrongArgument { flag: "--input", said };
        let input: Value = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("{} is not JSON: {error}", self.input.display())))?;
        if !input.is_object() {
            let said = "the input must be a JSON object, such as {\"texts\": [\"…\"]} for categories";
            return Err(wrong(said.to_owned()).into());
        }
        plugins::check_input(&self.export, &input).map_err(|error| wrong(error.to_string()))?;
        let config = self.config.as_deref().map(|path| read_config("--config", path)).transpose()?.unwrap_or_default();
        let world = plugins::EXPORTS.iter().find(|(name, _)| *name == self.export).map(|(_, world)| world.as_str());
        let (source, config) = project::resolved(&self.source, config, world)?;
        let default = match world == Some(World::Channel.as_str()) {
            true => ChannelLimits::default().into(),
            false => PluginLimits::default(),
        };
        let limits = PluginLimits { memory_mb: self.memory, ..default };
        let (bench, _temporary) = workbench(dir)?;
        let (answer, lines) =
            bench.call(&source, &self.export, input, config, limits).map_err(|error| match error {
                plugins::TryError::Load(error) => anyhow::Error::from(error),
                plugins::TryError::Call(error) => anyhow::Error::from(error),
            })?;
        for line in lines {
            Output::note(&line);
        }
        output.show(&answer, || format!("{answer:#}"));
        Ok(ExitCode::SUCCESS)
    }
}

fn read_input(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().lock().take(INPUT_BYTES_MAX + 1).read_to_string(&mut text),
        false => std::fs::File::open(path).and_then(|file| file.take(INPUT_BYTES_MAX + 1).read_to_string(&mut text)),
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    if text.len() as u64 > INPUT_BYTES_MAX {
        bail!("{} is larger than {INPUT_BYTES_MAX} bytes", path.display());
    }
    Ok(text)
}

/// A JSON5 file with an object in it, given with a flag.
pub(super) fn read_config(flag: &'static str, path: &Path) -> anyhow::Result<Map<String, Value>> {
    let text = read_input(path)?;
    let wrong = |said: String| WrongArgument { flag, said: format!("{} {said}", path.display()) };
    match config::json5_value(&text).map_err(|problem| wrong(format!("is not JSON5: {problem}")))? {
        Value::Object(map) => Ok(map),
        _ => Err(wrong("must hold an object".into()).into()),
    }
}

/// A workbench on the state directory's cache if that is for us, else on one of its own that ends with the command.
fn workbench(dir: &StateDir) -> anyhow::Result<(Workbench, Option<Temporary>)> {
    match dir.plugin_cache() {
        cache if is_for_us(&cache) => workbench_with(cache).map(|bench| (bench, None)),
        _ => {
            let temporary = Temporary::new()?;
            workbench_with(temporary.0.clone()).map(|bench| (bench, Some(temporary)))
        }
    }
}

/// Whether there is a cache that nobody else could have put code into: what lies there is run. The one of a service is its user's, and root
/// does without it.
fn is_for_us(cache: &Path) -> bool {
    let own = rustix::process::getuid().as_raw();
    std::fs::metadata(cache).is_ok_and(|facts| facts.is_dir() && (facts.uid() == own || facts.uid() == 0))
}

/// A workbench that keeps compiled code in a directory.
fn workbench_with(cache: PathBuf) -> anyhow::Result<Workbench> {
    let compiler = std::env::current_exe().context("cannot find this program's own file")?;
    let shipped = plugins::shipped_beside(&compiler);
    Ok(Workbench::new(cache, shipped, compiler)?)
}

/// A directory that goes with the command.
struct Temporary(PathBuf);

impl Temporary {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("chela-{}", uuid::Uuid::now_v7()));
        chela_storage::make_own_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // The system's own cleaning takes what is left.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
