//! Makes a release: one directory with everything an operator needs, an archive of it, a Debian package, checksums and the bill of materials.
//! Keeps true: what is in it was built here, and an earlier release leaves nothing in it.

mod deb;
mod sbom;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::cargo::{Profile, build_host, printed, root, succeed, target};

/// What a release brings as files: every plugin but the one that only `chela doctor` asks.
const COMPONENTS: [&str; 8] =
    ["continuation", "discord", "rules", "script", "slack", "stop-guard", "telegram", "webhook"];
/// Those of them that have a guide of their own.
const ADAPTERS: [&str; 4] = ["discord", "slack", "telegram", "webhook"];
/// The interfaces that components are written against.
const INTERFACES: [&str; 2] = ["policy", "channel"];

#[derive(clap::Args)]
pub struct Arguments {
    /// Of the binary of `cargo build`, to try the way there
    #[arg(long)]
    debug: bool,
    /// Of a binary that is there already
    #[arg(long, value_name = "FILE", conflicts_with = "debug")]
    binary: Option<PathBuf>,
    /// Where to; a directory that is not there yet, or empty [default: target/dist, cleared first]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Pack for speed, not for size: to look at, not to hand out
    #[arg(long)]
    quick: bool,
}

impl Arguments {
    /// Whether anything is built first; a binary that is there has its components beside it.
    pub fn builds(&self) -> bool {
        self.binary.is_none()
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let binary = match (&arguments.binary, arguments.debug) {
        (Some(binary), _) => binary.clone(),
        (None, true) => build_host(Profile::Dev)?,
        (None, false) => build_host(Profile::Release)?,
    };
    let version = version(&binary)?;
    let release = Release { name: format!("chela-{version}-{}-linux", std::env::consts::ARCH), version };
    let dist = place(arguments)?;
    let folder = dist.join(&release.name);
    fill(&folder, &binary)?;
    let bill = sbom::bill(&release.version)?;
    fs::write(folder.join("sbom.cdx.json"), serde_json::to_string_pretty(&bill)?)?;
    let archive = dist.join(format!("{}.tar.gz", release.name));
    let mut pack = Command::new("tar");
    pack.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-cf"]).arg(&archive);
    pack.args(["-I", if arguments.quick { "gzip -1n" } else { "gzip -9n" }]);
    succeed(pack.arg("-C").arg(&dist).arg(&release.name))?;
    let package = deb::build(&dist, &folder, &release.version, arguments.quick)?;
    let bill_beside = dist.join(format!("{}.cdx.json", release.name));
    fs::copy(folder.join("sbom.cdx.json"), &bill_beside)?;
    let mut made = vec![archive, bill_beside];
    made.extend(package);
    let sums = sums(&made)?;
    fs::write(dist.join("SHA256SUMS"), &sums)?;
    print!("{sums}");
    println!("in {}", dist.display());
    Ok(())
}

/// The directory that the release goes to, with nothing in it: what an earlier one left must not be shipped with this one.
fn place(arguments: &Arguments) -> Result<PathBuf> {
    let Some(into) = &arguments.into else {
        let dist = target().join("dist");
        return match fs::remove_dir_all(&dist) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("cannot clear dist"),
            _ => Ok(dist),
        };
    };
    fs::create_dir_all(into).with_context(|| format!("cannot make {}", into.display()))?;
    if fs::read_dir(into)?.next().is_some() {
        bail!("{} is not empty; name another, or clear it", into.display());
    }
    fs::canonicalize(into).context("it was just made")
}

struct Release {
    name: String,
    version: String,
}

fn version(binary: &Path) -> Result<String> {
    let said = printed(Command::new(binary).arg("--version")).context("the binary does not say its version")?;
    let version = said.trim().strip_prefix("chela ").context("the binary is not chela")?;
    Ok(version.to_owned())
}

/// The directory of a release.
fn fill(folder: &Path, binary: &Path) -> Result<()> {
    for name in ["bin", "bin/components", "components", "completions", "man/man1", "systemd", "docs"] {
        fs::create_dir_all(folder.join(name))?;
    }
    let own = folder.join("bin/chela");
    fs::copy(binary, &own).with_context(|| format!("cannot copy {}", binary.display()))?;
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755))?;
    // A release is stripped already; without the tool the symbols stay.
    if crate::cargo::is_on_path("strip") {
        succeed(Command::new("strip").arg(&own))?;
    }
    // The default components and the adapters of chat networks as files; those that the binary carries also compiled for this very binary.
    let components = target().join("components");
    for name in COMPONENTS {
        let file = format!("{name}.wasm");
        fs::copy(components.join(&file), folder.join("components").join(&file))
            .with_context(|| format!("{file} is not built; run `cargo xtask build`"))?;
    }
    succeed(Command::new(&own).args(["plugin", "compile", "--into"]).arg(folder.join("bin/components")))?;
    for (shell, name) in [("bash", "chela"), ("zsh", "_chela"), ("fish", "chela.fish")] {
        let script = printed(Command::new(&own).args(["completions", shell])).context("no completions")?;
        fs::write(folder.join("completions").join(name), script)?;
    }
    succeed(Command::new(&own).arg("man").arg(folder.join("man/man1")).stdout(std::process::Stdio::null()))?;
    fs::write(folder.join("systemd/chela.service"), unit(&own)?)?;
    fs::write(folder.join("chela.json"), sample(&own)?)?;
    for name in ["LICENSE", "README.md", "CHANGELOG.md", "SECURITY.md", "Containerfile"] {
        fs::copy(root().join(name), folder.join(name)).with_context(|| format!("{name} is missing"))?;
    }
    copy_all(&root().join("docs"), &folder.join("docs"), &["md", "json"])?;
    copy_all(&root().join("docs/pictures"), &folder.join("docs/pictures"), &["webp"])?;
    // The guides of the adapters, where the documentation links to them.
    for name in ADAPTERS {
        copy_all(&root().join("plugins").join(name), &folder.join("plugins").join(name), &["md"])?;
    }
    for name in INTERFACES {
        copy_all(&root().join("wit").join(name), &folder.join("wit").join(name), &["wit"])?;
    }
    Ok(())
}

/// Copies the files of one directory that end so.
fn copy_all(from: &Path, to: &Path, endings: &[&str]) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("{} is missing", from.display()))? {
        let path = entry?.path();
        let kept = path.extension().is_some_and(|ending| endings.iter().any(|known| ending == *known));
        if let Some(name) = path.file_name().filter(|_| kept && path.is_file()) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

/// The unit that `chela service install` would write, for a binary in its usual place.
fn unit(binary: &Path) -> Result<String> {
    let mut print = Command::new(binary);
    print.args(["service", "install", "--system", "--print"]).env_remove("CHELA_STATE_DIR");
    let text = printed(&mut print).context("no unit")?;
    let own = binary.display().to_string();
    if !text.contains(&own) {
        bail!("the unit does not name the binary");
    }
    // It is the package's, not one that `chela service uninstall` may remove.
    let rest = text.split_once("\n\n").context("a unit begins with its comment")?.1;
    let text = format!("# The service of the package `chela`; `systemctl edit chela` changes it.\n\n{rest}");
    Ok(text.replace(&own, "/usr/bin/chela").replace("ProtectHome=read-only", "ProtectHome=yes"))
}

/// A configuration to look at, with no token in it: a first start writes one of its own.
fn sample(binary: &Path) -> Result<String> {
    let scratch = tempfile::tempdir()?;
    let state = scratch.path().join("state");
    succeed(
        Command::new(binary).args(["init", "--yes", "--state-dir"]).arg(&state).stdout(std::process::Stdio::null()),
    )?;
    let mut config: serde_json::Value = serde_json::from_slice(&fs::read(state.join("chela.json"))?)?;
    config["gateway"]["auth"]["token"] = json!({ "file": "owner.token" });
    Ok(serde_json::to_string_pretty(&config)? + "\n")
}

fn sums(files: &[PathBuf]) -> Result<String> {
    let folder = files.first().and_then(|file| file.parent()).context("nothing was made")?;
    let names = files.iter().filter_map(|file| file.file_name());
    printed(Command::new("sha256sum").current_dir(folder).args(names)).context("cannot run sha256sum")
}
