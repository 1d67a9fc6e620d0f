//! The corpus: components of every language, built when their world was frozen and kept for good. Builds what is missing; never builds again.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{Profile, build_host, is_on_path, root, succeed, target};
use crate::guests::{self, Set, Toolchain};

/// The frozen version whose corpus may still lack something.
const VERSION: &str = "0.1.0";
/// Versions that are known to build components of our WIT.
const COMPONENTIZE_JS: &str = "@bytecodealliance/componentize-js@0.23";
const COMPONENTIZE_PY: &str = "componentize-py==0.25.0";
/// What looks for faults of accessibility in the hub's pages; for tests alone.
const AXE: &str = "axe-core@4.10";

/// Builds every component that is missing.
pub fn run(toolchain: Toolchain) -> Result<()> {
    ensure!(is_on_path("zstd"), "`zstd` packs the corpus and is not here; install the package of that name");
    let wit = root().join(format!("wit/frozen/{VERSION}/policy"));
    let worlds = [("classifier", "words"), ("guard", "careful"), ("continuation", "firm")];
    for world in worlds.map(|(name, guest)| World { name, guest }) {
        for (language, build) in [("rust", rust as Build), ("js", javascript), ("python", python)] {
            keep(world.name, language, || build(toolchain, &wit, world))?;
        }
    }
    for language in ["rust", "js", "python"] {
        keep("channel", language, || by_kit("channel", language))?;
    }
    Ok(())
}

/// Builds a component that the corpus lacks, and packs it.
fn keep(world: &str, language: &str, build: impl FnOnce() -> Result<PathBuf>) -> Result<()> {
    let packed = path_of(&format!("{world}-{language}"));
    if packed.is_file() {
        println!("{} is there and stays as it is", packed.display());
        return Ok(());
    }
    let component = build()?;
    fs::create_dir_all(packed.parent().context("a folder")?)?;
    succeed(Command::new("zstd").args(["-q", "-19"]).arg(&component).arg("-o").arg(&packed))?;
    println!("built {}", packed.display());
    Ok(())
}

/// What the kit makes of a new project, as authors have it on their first day.
fn by_kit(world: &str, language: &str) -> Result<PathBuf> {
    let chela = build_host(Profile::Dev)?;
    let dir = tempfile::tempdir()?;
    let (name, project) = (format!("small-{language}"), dir.path().join("project"));
    let plugin = |arguments: &[&str]| succeed(Command::new(&chela).arg("plugin").args(arguments).arg(&project));
    plugin(&["new", &name, "--world", world, "--lang", language, "--into"])?;
    plugin(&["build"])?;
    let file = format!("{name}.wasm");
    let kept = target().join("corpus").join(&file);
    fs::copy(project.join("build").join(file), &kept).context("the kit left no component")?;
    Ok(kept)
}

/// Unpacks a component of the corpus to a file below `target`.
pub fn unpacked(name: &str) -> Result<PathBuf> {
    let packed = path_of(name);
    let file = fs::File::open(&packed).with_context(|| format!("cannot open {}", packed.display()))?;
    let mut bytes = Vec::new();
    ruzstd::decoding::StreamingDecoder::new(file)?.read_to_end(&mut bytes)?;
    let path = target().join("guests").join(format!("{name}.wasm"));
    fs::create_dir_all(target().join("guests"))?;
    fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn path_of(name: &str) -> PathBuf {
    root().join(format!("tests/corpus/{VERSION}/{name}.wasm.zst"))
}

/// A frozen world, and the guest that is its component in Rust; `tests/js` and `tests/python` have files of the world's name.
#[derive(Clone, Copy)]
struct World {
    name: &'static str,
    guest: &'static str,
}

/// Gives the file of a new component of a world.
type Build = fn(Toolchain, &Path, World) -> Result<PathBuf>;

fn rust(toolchain: Toolchain, _wit: &Path, world: World) -> Result<PathBuf> {
    guests::build(toolchain, Set::All)?;
    Ok(target().join("guests").join(format!("{}.wasm", world.guest)))
}

/// Installs what makes components of JavaScript and Python, and what looks at pages, where the suite looks for it.
pub fn install() -> Result<()> {
    let tools =
        [("npm", install_javascript as fn() -> Result<PathBuf>), ("npm", install_axe), ("python3", install_python)];
    for (program, tool) in tools {
        match is_on_path(program) {
            true => println!("installed into {}", tool()?.display()),
            false => println!("`{program}` is not here, so what it installs is left out"),
        }
    }
    Ok(())
}

fn install_javascript() -> Result<PathBuf> {
    install_package(target().join("corpus/js"), COMPONENTIZE_JS)
}

fn install_axe() -> Result<PathBuf> {
    install_package(target().join("axe"), AXE)
}

fn install_package(folder: PathBuf, package: &str) -> Result<PathBuf> {
    // Once: npm, asked again for what is there, takes out packages that it thinks nobody needs.
    let installed = folder.join("installed");
    if fs::read_to_string(&installed).is_ok_and(|known| known == package) {
        return Ok(folder);
    }
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let npm = ["install", "--silent", "--no-fund", "--no-audit", package];
    succeed(Command::new("npm").args(npm).current_dir(&folder))?;
    fs::write(installed, package)?;
    Ok(folder)
}

fn install_python() -> Result<PathBuf> {
    let folder = target().join("corpus/python");
    fs::create_dir_all(&folder)?;
    succeed(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    succeed(Command::new(folder.join("bin/pip")).args(["install", "--quiet", COMPONENTIZE_PY]))?;
    Ok(folder)
}

fn javascript(_: Toolchain, wit: &Path, World { name, .. }: World) -> Result<PathBuf> {
    let folder = install_javascript()?;
    // Beside its packages: that is where node looks for them.
    fs::copy(root().join("tests/js/build.mjs"), folder.join("build.mjs"))?;
    let mut node = Command::new("node");
    let component = folder.join(format!("{name}.wasm"));
    node.arg("build.mjs").arg(root().join(format!("tests/js/{name}.js"))).arg(wit).arg(name).arg(&component);
    succeed(node.current_dir(&folder))?;
    Ok(component)
}

fn python(_: Toolchain, wit: &Path, World { name, .. }: World) -> Result<PathBuf> {
    let folder = install_python()?;
    let source = format!("{name}.py");
    fs::copy(root().join("tests/python").join(&source), folder.join(&source))?;
    let component = folder.join(format!("{name}.wasm"));
    let mut tool = Command::new(folder.join("bin/componentize-py"));
    tool.arg("-d").arg(wit).args(["-w", name, "componentize", "--stub-wasi", name, "-o"]).arg(&component);
    succeed(tool.current_dir(&folder))?;
    Ok(component)
}
