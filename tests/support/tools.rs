//! Programs that some tests need and a machine may lack.

use std::io::Write;
use std::path::PathBuf;

/// Whether a tool is here. If not, the test may skip, unless `CHELA_REQUIRE` says that it must be here; what was skipped is
/// listed at the end of `cargo xtask test`.
pub fn have(tool: &str) -> bool {
    let here = match tool {
        "python" => on_path("python3"),
        // `cargo xtask languages` installs them.
        "componentize-js" => language_tools("js").join("node_modules/@bytecodealliance/componentize-js").is_dir(),
        "axe" => crate::target().join("axe/node_modules/axe-core/axe.min.js").is_file(),
        "componentize-py" => language_tools("python").join("bin/componentize-py").is_file(),
        // Guests may have been built without it, from the sources of the standard library.
        "wasm-target" => {
            let library = std::process::Command::new("rustc")
                .args(["--print", "target-libdir", "--target", "wasm32-unknown-unknown"])
                .output();
            let folder = library.map(|found| String::from_utf8_lossy(&found.stdout).trim().to_owned());
            folder.is_ok_and(|folder| std::fs::read_dir(folder).is_ok_and(|mut found| found.next().is_some()))
        }
        "root" => rustix::process::geteuid().is_root(),
        // A file system of its own that no other process sees.
        "mounts" => {
            let tried =
                std::process::Command::new("unshare").args(["-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
            tried.is_ok_and(|tried| tried.status.success())
        }
        program => on_path(program),
    };
    if !here {
        let required = std::env::var("CHELA_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|one| one == tool), "CHELA_REQUIRE names `{tool}`, which is not here");
        note_skipped(tool);
    }
    here
}

/// Where `cargo xtask languages` installs what makes components of a language.
pub fn language_tools(language: &str) -> PathBuf {
    crate::target().join("corpus").join(language)
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn note_skipped(tool: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    eprintln!("skipped: {test} needs {tool}");
    let Some(path) = std::env::var_os("CHELA_SKIPPED") else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let noted = file.and_then(|mut file| writeln!(file, "{test} (needs {tool})"));
    noted.expect("the list of skipped tests can be written");
}
