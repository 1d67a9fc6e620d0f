//! `chela plugin build`: from an author's source to a component, with the tools of its language.
//! Keeps true: a tool that is missing is named with what to install; what was built before stays until something whole replaces it.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, bail};
use chela_kit::Language;
use clap::Args;
use serde_json::{Map, Value, json};

use super::project::Found;
use crate::cli::Output;
use crate::cli::output::word;
use crate::layout::StateDir;
use crate::plugins;

const WASM: &str = "wasm32-unknown-unknown";

#[derive(Args)]
pub(in crate::cli) struct Build {
    /// The project's directory
    #[arg(default_value = ".")]
    project: PathBuf,
}

impl Build {
    pub(super) fn run(&self, dir: &StateDir, output: Output) -> anyhow::Result<()> {
        let found = Found::at(&self.project)?;
        let built = build(&found, dir)?;
        output.show(&built, || {
            let seconds = built["tookMs"].as_u64().unwrap_or(0) as f64 / 1000.0;
            let size = built["bytes"].as_u64().unwrap_or(0) as f64 / 1e3;
            format!("built {} in {seconds:.1} s: {size:.1} kB, {}", word(&built["name"]), word(&built["file"]))
        });
        Ok(())
    }
}

/// Builds a project; gives what was built as a document.
pub(super) fn build(found: &Found, dir: &StateDir) -> anyhow::Result<Value> {
    let since = Instant::now();
    let file = found.component();
    if found.project.language != Language::Script {
        let folder = found.dir.join("build");
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    match found.project.language {
        Language::Rust => rust(found, &file)?,
        Language::Js => javascript(found, &file)?,
        Language::Python => python(found, &file)?,
        Language::Script => {}
    }
    let (source, config) = found.source(Map::new())?;
    // Scripts have no other way to be wrong than to be refused; components may want a configuration that is not known here.
    if found.project.language == Language::Script {
        let (bench, _temporary) = found.workbench(dir)?;
        bench.open(&source, config, found.limits())?;
    } else {
        check(found, &file)?;
    }
    let bytes = fs::metadata(&file).map_or(0, |found| found.len());
    let took = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(json!({ "name": found.project.name, "file": file, "bytes": bytes, "tookMs": took }))
}

/// Whether what was built is of the project's world; it is not compiled yet.
fn check(found: &Found, file: &Path) -> anyhow::Result<()> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let (inspection, _) = plugins::inspect(&bytes).with_context(|| format!("{} is no plugin", file.display()))?;
    let world = found.project.world.as_str();
    if inspection.worlds.iter().any(|known| known.as_str() == world) {
        return Ok(());
    }
    let worlds: Vec<&str> = inspection.worlds.iter().map(|known| known.as_str()).collect();
    let worlds = if worlds.is_empty() { "no world of ours".to_owned() } else { worlds.join(", ") };
    bail!("it is a component of {worlds}, and plugin.json says {world}; export that world, or change plugin.json")
}

fn rust(found: &Found, to: &Path) -> anyhow::Result<()> {
    need("cargo", "install Rust with rustup or from your system's packages")?;
    let library = printed(Command::new("rustc").args(["--print", "target-libdir", "--target", WASM]));
    let is_there = library.is_some_and(|path| fs::read_dir(path.trim()).is_ok_and(|mut found| found.next().is_some()));
    if !is_there {
        bail!("the Rust here has no target {WASM}; run `rustup target add {WASM}`");
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--target", WASM, "--message-format=json-render-diagnostics"]);
    let mut building = cargo
        .current_dir(&found.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let manifest = fs::canonicalize(found.dir.join("Cargo.toml")).context("the project has no Cargo.toml")?;
    let mut module: Option<PathBuf> = None;
    for line in BufReader::new(building.stdout.take().context("cargo's output")?).lines() {
        let told: Value = serde_json::from_str(&line?).unwrap_or_default();
        if told["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest) {
            let files = told["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
            module = files.filter(|file| file.ends_with(".wasm")).map(PathBuf::from).next_back().or(module);
        }
    }
    if !building.wait()?.success() {
        bail!("cargo could not build it; what it says is above");
    }
    let module = module.context("cargo built no .wasm; Cargo.toml needs `[lib] crate-type = [\"cdylib\"]`")?;
    let bytes = fs::read(&module).with_context(|| format!("cannot read {}", module.display()))?;
    let (_, component) = plugins::inspect(&bytes).with_context(|| format!("{} is no plugin", module.display()))?;
    put(to, component.as_deref().unwrap_or(&bytes))
}

fn javascript(found: &Found, to: &Path) -> anyhow::Result<()> {
    need("node", "install Node.js 20 or later")?;
    need("npm", "install npm, which comes with Node.js or as a package of its own")?;
    if !found.dir.join("node_modules/@bytecodealliance/componentize-js").is_dir() {
        Output::note("installing what package.json names, once");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-fund", "--no-audit", "--loglevel=error"]);
        succeed(npm.current_dir(&found.dir), "npm could not install what package.json names")?;
    }
    let new = beside(to);
    let mut node = Command::new("node");
    node.args(["build.mjs", "plugin.js", found.project.world.wit(), found.project.world.as_str()]).arg(relative(&new));
    succeed(node.current_dir(&found.dir), "the component could not be made of plugin.js")?;
    fs::rename(&new, to).with_context(|| format!("cannot write {}", to.display()))
}

fn python(found: &Found, to: &Path) -> anyhow::Result<()> {
    need("python3", "install Python 3.10 or later")?;
    let tool = found.dir.join(".venv/bin/componentize-py");
    if !tool.is_file() {
        Output::note("making .venv and installing what requirements.txt names, once");
        let advice = "python3 could not make .venv; install its module venv (Debian: python3-venv)";
        succeed(Command::new("python3").args(["-m", "venv", ".venv"]).current_dir(&found.dir), advice)?;
        let mut pip = Command::new(fs::canonicalize(found.dir.join(".venv/bin/pip")).context(advice)?);
        pip.args(["install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"]);
        succeed(pip.current_dir(&found.dir), "pip could not install what requirements.txt names")?;
    }
    let new = beside(to);
    let tool = std::path::absolute(&tool).context("the project's directory")?;
    let mut componentize = Command::new(tool);
    componentize.args([
        "-d",
        found.project.world.wit(),
        "-w",
        found.project.world.as_str(),
        "componentize",
        "--stub-wasi",
        "plugin",
    ]);
    componentize.arg("-o").arg(relative(&new));
    succeed(componentize.current_dir(&found.dir), "the component could not be made of plugin.py")?;
    fs::rename(&new, to).with_context(|| format!("cannot write {}", to.display()))
}

fn need(program: &str, advice: &str) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
        true => Ok(()),
        false => bail!("`{program}` is not here; {advice}"),
    }
}

fn printed(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs a tool to its end; what it prints goes beside our own answer.
fn succeed(command: &mut Command, advice: &str) -> anyhow::Result<()> {
    command.stdin(Stdio::null()).stdout(Stdio::from(io::stderr()));
    let program = command.get_program().to_owned();
    let status = command.status().with_context(|| format!("cannot run {}", program.display()))?;
    if status.success() { Ok(()) } else { bail!("{advice}; what it says is above") }
}

/// The name under which a component is made before it takes its place.
fn beside(file: &Path) -> PathBuf {
    file.with_extension("wasm.new")
}

/// A file of `build/` as a tool in the project's directory names it.
fn relative(file: &Path) -> PathBuf {
    Path::new("build").join(file.file_name().unwrap_or(OsStr::new("plugin.wasm")))
}

fn put(to: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let new = beside(to);
    let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, to));
    written.with_context(|| format!("cannot write {}", to.display()))
}
