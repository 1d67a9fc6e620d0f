//! A plugin's project on disk: made, found, and what the commands of authors need of it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use chela_kit::{Language, Name, Project, World};
use clap::Args;
use serde_json::{Map, Value, json};

use super::{Temporary, is_for_us, read_input, workbench, workbench_with};
use crate::cli::Output;
use crate::cli::exit::WrongArgument;
use crate::config::{ChannelLimits, PluginLimits};
use crate::layout::StateDir;
use crate::plugins::{self, Workbench};

#[derive(Args)]
pub(in crate::cli) struct New {
    /// What the plugin is called: a-z, 0-9 and `-`
    name: String,
    /// What it decides: `classifier`, `guard` or `continuation`; or `channel`, which speaks to a chat network
    #[arg(long, value_parser = world)]
    world: World,
    /// What it is written in: `rust`, `js`, `python` or `script`
    #[arg(long, value_parser = language)]
    lang: Language,
    /// Where the project goes; else a directory of its name, here
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

fn world(text: &str) -> Result<World, String> {
    match text {
        "classifier" => Ok(World::Classifier),
        "guard" => Ok(World::Guard),
        "continuation" => Ok(World::Continuation),
        "channel" => Ok(World::Channel),
        _ => Err("write classifier, guard, continuation or channel".into()),
    }
}

fn language(text: &str) -> Result<Language, String> {
    let found = Language::ALL.into_iter().find(|language| language.as_str() == text);
    found.ok_or_else(|| "write rust, js, python or script".into())
}

impl New {
    pub(super) fn run(&self, output: Output) -> anyhow::Result<()> {
        if (self.world, self.lang) == (World::Channel, Language::Script) {
            let said =
                "a script is a policy, and a channel needs a state of its own; write rust, js or python".to_owned();
            return Err(WrongArgument { flag: "--lang", said }.into());
        }
        let name = Name::parse(&self.name, plugins::builtin_names())?;
        let dir = self.into.clone().unwrap_or_else(|| PathBuf::from(name.as_str()));
        let taken = fs::read_dir(&dir).is_ok_and(|mut entries| entries.next().is_some()) || dir.is_file();
        if taken {
            bail!("{} is there already; choose another name, or --into an empty directory", dir.display());
        }
        let files = chela_kit::files(&name, self.world, self.lang, env!("CARGO_PKG_VERSION"));
        for file in &files {
            let path = dir.join(&file.path);
            let folder = path.parent().unwrap_or(&dir);
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            fs::write(&path, &file.text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        output.show(&json!({ "name": name.as_str(), "directory": dir, "files": paths }), || {
            format!("made {}; next:\n  cd {}\n  chela plugin build\n  chela plugin test", dir.display(), dir.display())
        });
        Ok(())
    }
}

/// A project that was found.
pub(super) struct Found {
    pub(super) dir: PathBuf,
    pub(super) project: Project,
}

impl Found {
    pub(super) fn at(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("plugin.json");
        if !path.is_file() {
            bail!(
                "{} has no plugin.json; `chela plugin new` makes a project, or go to the directory of one",
                dir.display()
            );
        }
        let project = Project::read(&read_input(&path)?).with_context(|| format!("cannot use {}", dir.display()))?;
        Ok(Self { dir: dir.to_owned(), project })
    }

    /// What a gateway would load: the built component, or the script.
    pub(super) fn component(&self) -> PathBuf {
        let name = &self.project.name;
        match self.project.language {
            Language::Script => self.dir.join(format!("{name}.rhai")),
            Language::Rust | Language::Js | Language::Python => self.dir.join(format!("build/{name}.wasm")),
        }
    }

    pub(super) fn slot(&self) -> String {
        self.project.world.slot(&self.project.name)
    }

    pub(super) fn limits(&self) -> PluginLimits {
        let default = match self.project.world {
            World::Channel => ChannelLimits::default().into(),
            World::Classifier | World::Guard | World::Continuation => PluginLimits::default(),
        };
        PluginLimits { memory_mb: self.project.memory_mb.unwrap_or(default.memory_mb), ..default }
    }

    /// The source and the configuration that stand for the component under a configuration of its own.
    pub(super) fn source(&self, config: Map<String, Value>) -> anyhow::Result<(String, Map<String, Value>)> {
        let component = self.component();
        if !component.is_file() {
            bail!("{} is not there; run `chela plugin build` first", component.display());
        }
        resolved(&component.display().to_string(), config, Some(self.project.world.as_str()))
    }

    /// A workbench that keeps compiled code: with the gateway's, or else in the project, since some take long to compile.
    pub(super) fn workbench(&self, dir: &StateDir) -> anyhow::Result<(Workbench, Option<Temporary>)> {
        if is_for_us(&dir.plugin_cache()) || self.project.language == Language::Script {
            return workbench(dir);
        }
        workbench_with(self.dir.join("build/cache")).map(|bench| (bench, None))
    }

    /// The cases of `tests/*.json`, each with its file's name.
    pub(super) fn cases(&self) -> anyhow::Result<Vec<(String, chela_kit::Case)>> {
        let folder = self.dir.join("tests");
        let mut files: Vec<PathBuf> = match fs::read_dir(&folder) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
        };
        files.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
        files.sort();
        let mut cases = Vec::new();
        for path in files {
            let name = format!("tests/{}", path.file_name().unwrap_or_default().to_string_lossy());
            let read = chela_kit::cases(&read_input(&path)?);
            let read = read.map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
            cases.extend(read.into_iter().map(|case| (name.clone(), case)));
        }
        Ok(cases)
    }
}

/// A script's file is `builtin:script` with its text; what is configured are the script's settings then. Everything else is what it is.
pub(super) fn resolved(
    source: &str,
    config: Map<String, Value>,
    world: Option<&str>,
) -> anyhow::Result<(String, Map<String, Value>)> {
    if !source.ends_with(".rhai") {
        return Ok((source.to_owned(), config));
    }
    let path = Path::new(source);
    let text = read_input(path)?;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let mut script = Map::from_iter([("script".to_owned(), json!(text)), ("file".to_owned(), json!(file))]);
    if let Some(world) = world {
        script.insert("world".into(), json!(world));
    }
    if !config.is_empty() {
        script.insert("settings".into(), Value::Object(config));
    }
    Ok(("builtin:script".to_owned(), script))
}
