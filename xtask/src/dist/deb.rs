//! The Debian package: files where Debian keeps such files, a unit, and scripts that leave nothing behind and lose nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::ADAPTERS;
use crate::cargo::{is_on_path, printed, succeed};

/// Who answers for it, as Debian wants that written.
const MAINTAINER: &str = "The Chela authors <maintainers@chela.invalid>";

/// After files are there: systemd is told, and a service that ran goes on with the new version. A first installation starts nothing: the
/// operator looks at the configuration first. Nothing is asked of a systemd that does not run, nor of another root's.
const POSTINST: &str = r#"#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ -n "$2" ]; then
        systemctl try-restart chela.service || true
    fi
fi
"#;

/// Before files go: the service stops, and drains; an upgrade restarts it afterwards instead.
const PRERM: &str = r#"#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    systemctl disable --now chela.service || true
fi
"#;

/// After files are gone. The state stays until the package is purged.
const POSTRM: &str = r#"#!/bin/sh
set -e
if [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
    rm -rf "$DPKG_ROOT/var/lib/chela" "$DPKG_ROOT/var/lib/private/chela"
    rm -f "$DPKG_ROOT/etc/systemd/system/multi-user.target.wants/chela.service"
fi
"#;

/// None where this machine has no `dpkg-deb`.
pub fn build(dist: &Path, folder: &Path, version: &str, quick: bool) -> Result<Option<PathBuf>> {
    if !is_on_path("dpkg-deb") {
        eprintln!("xtask: dpkg-deb is not here; no Debian package is made");
        return Ok(None);
    }
    let arch = printed(Command::new("dpkg").arg("--print-architecture")).context("cannot run dpkg")?;
    let arch = arch.trim();
    let tree = dist.join("deb");
    let put = |from: &str, to: &str, mode: u32| -> Result<()> {
        let to = tree.join(to);
        fs::create_dir_all(to.parent().context("a file lies in a directory")?)?;
        fs::copy(folder.join(from), &to).with_context(|| format!("{from} is missing"))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    // The binary finds its compiled components beside itself, also through the link.
    put("bin/chela", "usr/lib/chela/chela", 0o755)?;
    fs::create_dir_all(tree.join("usr/bin"))?;
    std::os::unix::fs::symlink("../lib/chela/chela", tree.join("usr/bin/chela"))?;
    for (from, to) in [
        ("bin/components", "usr/lib/chela/components"),
        ("components", "usr/share/chela/components"),
        // As in the directory of a release, so that what links to each other does here.
        ("docs", "usr/share/doc/chela/docs"),
        ("docs/pictures", "usr/share/doc/chela/docs/pictures"),
        ("wit/policy", "usr/share/doc/chela/wit/policy"),
        ("wit/channel", "usr/share/doc/chela/wit/channel"),
    ] {
        for entry in fs::read_dir(folder.join(from))? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                let name = entry.file_name().to_string_lossy().into_owned();
                put(&format!("{from}/{name}"), &format!("{to}/{name}"), 0o644)?;
            }
        }
    }
    for name in ADAPTERS {
        let guide = format!("plugins/{name}/README.md");
        put(&guide, &format!("usr/share/doc/chela/{guide}"), 0o644)?;
    }
    put("systemd/chela.service", "usr/lib/systemd/system/chela.service", 0o644)?;
    put("completions/chela", "usr/share/bash-completion/completions/chela", 0o644)?;
    put("completions/_chela", "usr/share/zsh/vendor-completions/_chela", 0o644)?;
    put("completions/chela.fish", "usr/share/fish/vendor_completions.d/chela.fish", 0o644)?;
    for name in ["README.md", "CHANGELOG.md", "SECURITY.md", "chela.json", "sbom.cdx.json"] {
        put(name, &format!("usr/share/doc/chela/{name}"), 0o644)?;
    }
    for (text, to) in [
        (COPYRIGHT, "usr/share/doc/chela/copyright"),
        (&changelog(version)?, "usr/share/doc/chela/changelog"),
        (OVERRIDES, "usr/share/lintian/overrides/chela"),
    ] {
        let to = tree.join(to);
        fs::create_dir_all(to.parent().context("a file lies in a directory")?)?;
        fs::write(&to, text)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o644))?;
    }
    pack(&tree.join("usr/share/doc/chela/changelog"))?;
    for entry in fs::read_dir(folder.join("man/man1"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        put(&format!("man/man1/{name}"), &format!("usr/share/man/man1/{name}"), 0o644)?;
        pack(&tree.join("usr/share/man/man1").join(&name))?;
    }
    open_to_all(&tree.join("usr"))?;
    control(&tree, version, arch)?;
    let package = dist.join(format!("chela_{version}_{arch}.deb"));
    let mut build = Command::new("dpkg-deb");
    build.args(if quick { ["-Zgzip", "-z1"] } else { ["-Zxz", "-z6"] });
    build.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package).stdout(std::process::Stdio::null());
    succeed(&mut build)?;
    fs::remove_dir_all(&tree)?;
    Ok(Some(package))
}

fn pack(file: &Path) -> Result<()> {
    succeed(Command::new("gzip").arg("-9n").arg(file))
}

/// Directories that everybody may enter, whatever the rights of whoever packs.
fn open_to_all(folder: &Path) -> Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_to_all(&entry.path())?;
        }
    }
    Ok(())
}

/// Debian's own account of the licence, whose text every Debian has.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: chela
Comment: The licences of the crates in the binary are in sbom.cdx.json.

Files: *
Copyright: 2026 The Chela authors
License: Apache-2.0
 On Debian systems the text of this licence is in /usr/share/common-licenses/Apache-2.0.
";

/// What Debian's checker would have otherwise, and why not.
const OVERRIDES: &str = "\
# Compiled components are objects that wasmtime maps as they are; stripped, they are damaged.
chela: unstripped-binary-or-object [usr/lib/chela/components/*]
# Guarded by whether systemd runs; the helpers would start the service at the first installation.
chela: maintainer-script-calls-systemctl [*]
";

/// One entry, of the day of the last commit: the same sources give the same package.
fn changelog(version: &str) -> Result<String> {
    let day = printed(crate::cargo::git().args(["log", "-1", "--format=%aD"])).map(|day| day.trim().to_owned());
    let day = match day.filter(|day| !day.is_empty()) {
        Some(day) => day,
        None => printed(Command::new("date").arg("-R")).context("cannot run date")?.trim().to_owned(),
    };
    let told = "  * See CHANGELOG.md beside this file.";
    Ok(format!("chela ({version}) unstable; urgency=medium\n\n{told}\n\n -- {MAINTAINER}  {day}\n"))
}

/// The packages that the binary needs to start, from what it says itself.
fn depends(binary: &Path) -> Result<String> {
    let bytes = fs::read(binary)?;
    let mark = b"GLIBC_2.";
    let minor = |at: usize| {
        let digits: Vec<u8> = bytes[at + mark.len()..].iter().copied().take_while(u8::is_ascii_digit).collect();
        String::from_utf8(digits).ok()?.parse::<u32>().ok()
    };
    let found = bytes.windows(mark.len()).enumerate().filter(|(_, window)| window == mark);
    let newest = found.filter_map(|(at, _)| minor(at)).max().context("the binary names no version of the C library")?;
    let gcc = bytes.windows(11).any(|window| window == b"libgcc_s.so");
    let gcc = if gcc { ", libgcc-s1" } else { "" };
    Ok(format!("libc6 (>= 2.{newest}){gcc}, ca-certificates"))
}

/// The sum of every file, for `dpkg --verify`.
fn md5sums(tree: &Path) -> Result<String> {
    let find = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
    printed(Command::new("sh").args(["-c", find]).current_dir(tree)).context("cannot run md5sum")
}

fn control(tree: &Path, version: &str, arch: &str) -> Result<()> {
    let folder = tree.join("DEBIAN");
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let kilobytes = printed(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree.join("usr")));
    let kilobytes = kilobytes.and_then(|said| said.split_whitespace().next().map(str::to_owned)).unwrap_or_default();
    let depends = depends(&tree.join("usr/lib/chela/chela"))?;
    let text = format!(
        "Package: chela\nVersion: {version}\nArchitecture: {arch}\nMaintainer: {MAINTAINER}\nInstalled-Size: {kilobytes}\n\
         Depends: {depends}\nSuggests: systemd\nSection: net\nPriority: optional\n\
         Description: gateway for teams of AI agents whose policies are WebAssembly components\n \
         One process keeps sessions, durable work between agents, task files,\n questions to people, an event log with its monitor, and a web page. What a\n team wants to change is a component that is loaded while it runs.\n"
    );
    fs::write(folder.join("control"), text)?;
    fs::write(folder.join("md5sums"), md5sums(tree)?)?;
    for name in ["control", "md5sums"] {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o644))?;
    }
    for (name, script) in [("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)] {
        let path = folder.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
