//! The Debian package: files where Debian keeps such files, a unit, and scripts that leave nothing behind and lose nothing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cargo::{is_on_path, printed, succeed};

/// After files are there: systemd is told, and a service that ran goes on with the new version. A first installation starts nothing: the
/// operator looks at the configuration first.
const POSTINST: &str = r#"#!/bin/sh
set -e
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ -n "$2" ]; then
        systemctl try-restart chela.service || true
    fi
fi
"#;

/// Before files go: the service stops, and drains; an upgrade restarts it afterwards instead.
const PRERM: &str = r#"#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now chela.service || true
fi
"#;

/// After files are gone. The state stays until the package is purged, and what was purged is said.
const POSTRM: &str = r#"#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "$1" = purge ]; then
    rm -rf /var/lib/chela /var/lib/private/chela
fi
"#;

/// None where this machine has no `dpkg-deb`.
pub fn build(dist: &Path, folder: &Path, version: &str) -> Result<Option<PathBuf>> {
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
        ("docs", "usr/share/doc/chela"),
    ] {
        for entry in fs::read_dir(folder.join(from))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            put(&format!("{from}/{name}"), &format!("{to}/{name}"), 0o644)?;
        }
    }
    put("systemd/chela.service", "usr/lib/systemd/system/chela.service", 0o644)?;
    put("completions/chela", "usr/share/bash-completion/completions/chela", 0o644)?;
    put("completions/_chela", "usr/share/zsh/vendor-completions/_chela", 0o644)?;
    put("completions/chela.fish", "usr/share/fish/vendor_completions.d/chela.fish", 0o644)?;
    for name in ["README.md", "CHANGELOG.md", "SECURITY.md", "chela.json", "sbom.cdx.json"] {
        put(name, &format!("usr/share/doc/chela/{name}"), 0o644)?;
    }
    put("LICENSE", "usr/share/doc/chela/copyright", 0o644)?;
    for entry in fs::read_dir(folder.join("man/man1"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        put(&format!("man/man1/{name}"), &format!("usr/share/man/man1/{name}"), 0o644)?;
        succeed(Command::new("gzip").args(["-9n"]).arg(tree.join("usr/share/man/man1").join(&name)))?;
    }
    control(&tree, version, arch)?;
    let package = dist.join(format!("chela_{version}_{arch}.deb"));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package).stdout(std::process::Stdio::null());
    succeed(&mut pack)?;
    fs::remove_dir_all(&tree)?;
    Ok(Some(package))
}

fn control(tree: &Path, version: &str, arch: &str) -> Result<()> {
    let folder = tree.join("DEBIAN");
    fs::create_dir_all(&folder)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
    let kilobytes = printed(Command::new("du").args(["-sk", "--apparent-size"]).arg(tree.join("usr")));
    let kilobytes = kilobytes.and_then(|said| said.split_whitespace().next().map(str::to_owned)).unwrap_or_default();
    let text = format!(
        "Package: chela\nVersion: {version}\nArchitecture: {arch}\nMaintainer: The Chela authors <maintainers@chela.invalid>\nInstalled-Size: {kilobytes}\n\
         Depends: libc6 (>= 2.34), ca-certificates\nSuggests: systemd\nSection: net\nPriority: optional\n\
         Description: gateway for teams of AI agents whose policies are WebAssembly components\n \
         One process keeps sessions, durable work between agents, task files, questions to\n people, an event log with its monitor, and a web page. What a team wants to change\n is a component that is loaded while it runs.\n"
    );
    fs::write(folder.join("control"), text)?;
    for (name, script) in [("postinst", POSTINST), ("prerm", PRERM), ("postrm", POSTRM)] {
        let path = folder.join(name);
        fs::write(&path, script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
