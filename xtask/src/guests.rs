//! Builds guests for wasm and turns each into a component in `target/components`, where the host's build finds it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use wit_component::ComponentEncoder;

use crate::cargo::{cargo, is_on_path, printed, root, succeed, target};

const WASM: &str = "wasm32-unknown-unknown";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Toolchain {
    /// rustup's if it is there or can be added, else Debian's
    Auto,
    /// Only rustup's ready-made standard library
    Rustup,
    /// Only the standard library built from Debian's Rust sources
    Debian,
}

/// How cargo is made to build for wasm on this machine.
enum Way {
    /// The toolchain in use has the target.
    Ready,
    /// Another compiler with its own library sources builds the library too.
    FromSource { rustc: PathBuf, linker: PathBuf },
}

/// Guests that are components of the binary, and guests that only tests load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Shipped,
    All,
}

/// Brings `target/components`, and for the tests `target/guests`, up to date.
pub fn build(toolchain: Toolchain, set: Set) -> Result<()> {
    let way = find_way(toolchain)?;
    let mut command = cargo();
    command.args(["build", "--profile", "guest", "--target", WASM]);
    // A hash table of `script` would take its seed from chance, and every clean build would be another component.
    command.env("CONST_RANDOM_SEED", "chela");
    let mut guests = names("plugins", "components")?;
    if set == Set::All {
        guests.extend(names("tests/guests", "guests")?);
    }
    for guest in &guests {
        command.args(["--package", &guest.name]);
    }
    if let Way::FromSource { rustc, linker } = &way {
        // Of a directory of their own: two compilers would otherwise rebuild each other's work for ever.
        command.arg("--target-dir").arg(modules_of(&way));
        command.args(["-Zbuild-std=std,panic_abort"]);
        command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
        command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
    }
    succeed(&mut command)?;
    for guest in &guests {
        // A package's name may have dashes, its module's has none.
        let module = format!("{}.wasm", guest.name.replace('-', "_"));
        make_component(guest, &modules_of(&way).join(WASM).join("guest").join(module))?;
    }
    Ok(())
}

/// A guest, and the folder of `target` that its component goes to.
struct Guest {
    name: String,
    folder: &'static str,
}

/// Every directory of `plugins` is a component, but for the kit that they share. The binary embeds those that do not say otherwise.
fn names(from: &str, folder: &'static str) -> Result<Vec<Guest>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(from)).with_context(|| format!("cannot read {from}"))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| name != "sdk");
    names.sort();
    Ok(names.into_iter().map(|name| Guest { name, folder }).collect())
}

fn modules_of(way: &Way) -> PathBuf {
    match way {
        Way::Ready => target(),
        Way::FromSource { .. } => target().join("guests-from-source"),
    }
}

fn make_component(Guest { name, folder }: &Guest, module: &PathBuf) -> Result<()> {
    let bytes = fs::read(module).with_context(|| format!("cannot read {}", module.display()))?;
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&bytes)
        .and_then(|mut encoder| encoder.encode())
        .with_context(|| format!("cannot turn the guest `{name}` into a component"))?;
    let folder = target().join(folder);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{name}.wasm"));
    // Left alone when nothing changed, so that the host is not built again.
    if fs::read(&path).is_ok_and(|before| before == component) {
        return Ok(());
    }
    fs::write(&path, component).with_context(|| format!("cannot write {}", path.display()))
}

fn find_way(toolchain: Toolchain) -> Result<Way> {
    let by_rustup = toolchain != Toolchain::Debian && rustup_has_target();
    match (by_rustup, toolchain) {
        (true, _) => Ok(Way::Ready),
        (false, Toolchain::Rustup) => bail!("the target {WASM} cannot be had from rustup; try `--guests debian`"),
        (false, Toolchain::Auto | Toolchain::Debian) => from_debian(),
    }
}

fn rustup_has_target() -> bool {
    if !is_on_path("rustup") {
        // A distribution's Rust may have the target without rustup.
        return library_is_there();
    }
    if library_is_there() {
        return true;
    }
    println!("xtask: adding the target {WASM} with rustup");
    succeed(Command::new("rustup").args(["target", "add", WASM])).is_ok() && library_is_there()
}

/// Whether the compiler in use has a standard library for wasm.
fn library_is_there() -> bool {
    let folder = printed(Command::new("rustc").args(["--print", "target-libdir", "--target", WASM]));
    let folder = folder.map(|text| PathBuf::from(text.trim()));
    folder.and_then(|folder| fs::read_dir(folder).ok()).is_some_and(|mut entries| entries.next().is_some())
}

/// Debian's packages `rustc-web` and `rust-web-src` carry a compiler and the library sources that match it.
fn from_debian() -> Result<Way> {
    if debian_rustc().is_none() {
        println!(
            "xtask: installing Debian's packages rustc-web and rust-web-src, to build the library of {WASM} from source"
        );
        let install = "apt-get update -q && apt-get install -y -q --no-install-recommends rustc-web rust-web-src";
        succeed(Command::new("sh").args(["-c", install]))
            .context("no wasm target: neither rustup nor Debian's packages could provide one; `rustup target add wasm32-unknown-unknown` on a machine with network access is the simplest way")?;
    }
    let rustc = debian_rustc().context("the package rustc-web is installed but its rustc was not found")?;
    let linker = rust_lld().context("no linker for wasm: neither the toolchain's rust-lld nor an lld was found")?;
    Ok(Way::FromSource { rustc, linker })
}

fn debian_rustc() -> Option<PathBuf> {
    let files = printed(Command::new("dpkg").args(["-L", "rustc-web"]))?;
    // The sources must be there too.
    printed(Command::new("dpkg").args(["-L", "rust-web-src"]))?;
    files.lines().filter(|line| line.ends_with("/bin/rustc")).map(PathBuf::from).find(|path| path.is_file())
}

fn rust_lld() -> Option<PathBuf> {
    let sysroot = PathBuf::from(printed(Command::new("rustc").args(["--print", "sysroot"]))?.trim());
    let host = printed(Command::new("rustc").arg("-vV"))?;
    let host = host.lines().find_map(|line| line.strip_prefix("host: "))?.to_owned();
    let own = sysroot.join("lib/rustlib").join(host).join("bin/rust-lld");
    let others = ["/usr/bin/rust-lld", "/usr/bin/wasm-ld", "/usr/bin/lld"].map(PathBuf::from);
    std::iter::once(own).chain(others).find(|path| path.is_file())
}
