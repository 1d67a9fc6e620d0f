//! Puts the default components, which `cargo xtask` leaves in `target/components`, into the binary; packed, unless every start reads them.

use std::path::{Path, PathBuf};
use std::{env, fs};

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// What a new deployment has in its slots.
const READ_AT_EVERY_START: [&str; 3] = ["continuation", "rules", "stop-guard"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let mut rows = String::new();
    for name in guests() {
        match find(&out, &name) {
            Some(path) => {
                println!("cargo::rerun-if-changed={}", path.display());
                let (kind, path) = match READ_AT_EVERY_START.contains(&name.as_str()) {
                    true => ("Plain", path),
                    false => ("Packed", packed(&out, &name, &path)),
                };
                rows.push_str(&format!("    ({name:?}, Held::{kind}(include_bytes!({path:?}))),\n"));
            }
            None => {
                println!(
                    "cargo::error=the component {name:?} is not built; run `cargo xtask build` (or `test`, or `serve`)"
                );
                return;
            }
        }
    }
    let table = format!("pub(super) static BUILTIN: &[(&str, Held)] = &[\n{rows}];\n");
    fs::write(out.join("builtin.rs"), table).expect("OUT_DIR is writable");
}

/// Every directory of `plugins` is a default component, but for the kit that they share and those whose manifest says `builtin = false`.
fn guests() -> Vec<String> {
    let folder = Path::new("../../plugins");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = fs::read_dir(folder).expect("plugins is a directory of the repository");
    let names = entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name != "sdk" && is_builtin(&folder.join(name))).collect();
    names.sort();
    names
}

fn is_builtin(plugin: &Path) -> bool {
    let manifest = fs::read_to_string(plugin.join("Cargo.toml")).expect("every plugin has a manifest");
    !manifest.lines().any(|line| line.trim() == "builtin = false")
}

/// The target directory is some levels above OUT_DIR, however it is named.
fn find(out: &Path, name: &str) -> Option<PathBuf> {
    out.ancestors().map(|dir| dir.join("components").join(format!("{name}.wasm"))).find(|path| path.is_file())
}

fn packed(out: &Path, name: &str, path: &Path) -> PathBuf {
    let bytes = fs::read(path).expect("the component is readable");
    let packed = out.join(format!("{name}.wasm.zst"));
    fs::write(&packed, compress_to_vec(bytes.as_slice(), CompressionLevel::Fastest)).expect("OUT_DIR is writable");
    packed
}
