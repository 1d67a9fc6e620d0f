//! A release as `cargo xtask dist` makes it: everything an operator needs is in it and works, and its package comes and goes without a trace.

mod systemd;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;
use support::{Binary, TestDir, built, eventually, have};

/// Made once for all, of the binary of the tests.
static RELEASE: LazyLock<PathBuf> = LazyLock::new(|| {
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("release");
    // None is left where this is the first run.
    let _ = fs::remove_dir_all(&into);
    let mut dist = Command::new(built("xtask"));
    dist.args(["dist", "--quick", "--binary"]).arg(built("chela")).arg("--into").arg(&into);
    run(&mut dist);
    into
});

fn run(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&stderr));
    said
}

fn named(folder: &Path, begin: &str, end: &str) -> PathBuf {
    let entries = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("an entry").path());
    let is = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(begin) && name.ends_with(end)
    };
    entries.into_iter().find(is).unwrap_or_else(|| panic!("no {begin}…{end} in {}", folder.display()))
}

#[test]
fn a_release_has_all_that_an_operator_needs_and_each_part_works() {
    let folder = named(&RELEASE, "chela-", "-linux");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    for name in [
        "README.md",
        "CHANGELOG.md",
        "SECURITY.md",
        "LICENSE",
        "Containerfile",
        "docs/operating.md",
        "docs/grafana.json",
    ] {
        assert!(!read(name).is_empty(), "{name}");
    }
    for component in ["rules", "stop-guard", "continuation", "script", "discord", "slack", "telegram", "webhook"] {
        let bytes = fs::read(folder.join(format!("components/{component}.wasm"))).expect("a component");
        assert!(bytes.starts_with(b"\0asm"), "{component}");
    }
    for (completion, said) in
        [("chela", "complete "), ("_chela", "#compdef chela"), ("chela.fish", "complete -c chela")]
    {
        assert!(read(&format!("completions/{completion}")).contains(said), "{completion}");
    }
    for page in ["chela.1", "chela-serve.1", "chela-service-install.1", "chela-backup.1", "chela-plugin-load.1"] {
        assert!(read(&format!("man/man1/{page}")).contains(".TH "), "{page}");
    }
    let unit = read("systemd/chela.service");
    assert!(unit.contains("ExecStart=\"/usr/bin/chela\" serve --state-dir \"/var/lib/chela\"\n"), "{unit}");
    assert!(!unit.contains(&folder.display().to_string()), "{unit}");
    if have("systemd-analyze") {
        let security = ["security", "--offline=true", "--threshold=20", "--no-pager"];
        run(Command::new("systemd-analyze").args(security).arg(folder.join("systemd/chela.service")));
    }

    let own = folder.join("bin/chela");
    let sections = run(Command::new("readelf").arg("-S").arg(&own));
    assert!(!sections.contains(".symtab") && !sections.contains(".debug_info"), "it is stripped");
    let sample = read("chela.json");
    assert!(!sample.contains("\"token\": \"") && sample.contains("owner.token"), "{sample}");
    let dir = TestDir::empty();
    fs::create_dir(dir.state.path()).expect("made");
    let token = dir.state.path().join("owner.token");
    fs::write(&token, "a-token-of-whoever-installs-it\n").expect("written");
    run(Command::new("chmod").arg("600").arg(&token));
    run(Command::new("install").arg("-m600").arg(folder.join("chela.json")).arg(dir.state.config()));
    let mut serve = Command::new(&own);
    serve.args(["serve", "--gateway", "0", "--monitor", "0", "--hub", "0", "--state-dir"]).arg(dir.state.path());
    let mut serving = Binary::spawn_command(&dir, serve);
    serving.wait_until_ready();
    eventually("its components serve", || {
        let listed = run(Command::new(&own).args(["plugin", "list", "--json", "--state-dir"]).arg(dir.state.path()));
        (listed.contains("\"serving\"") && !listed.contains("\"loading\"")).then_some(())
    });
    serving.signal(rustix::process::Signal::TERM);
    assert_eq!(serving.finished().code, Some(0));
    let cached = fs::read_dir(dir.state.plugin_cache()).map_or(0, Iterator::count);
    assert_eq!(cached, 0, "its components are compiled for it");
}

#[test]
fn what_the_documentation_of_a_release_links_to_is_in_it() {
    let folder = named(&RELEASE, "chela-", "-linux");
    let plugins = fs::read_dir(folder.join("plugins")).expect("readable").map(|entry| entry.expect("an entry").path());
    let guides = plugins.map(|plugin| plugin.join("README.md"));
    let docs = fs::read_dir(folder.join("docs")).expect("readable").map(|entry| entry.expect("an entry").path());
    let docs = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut missing = Vec::new();
    for page in guides.chain(docs).chain([folder.join("README.md"), folder.join("SECURITY.md")]) {
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next()) {
            let is_file = !link.is_empty() && !link.contains("://");
            if is_file && !page.parent().expect("a directory").join(link).exists() {
                missing.push(format!("{} -> {link}", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

#[test]
fn the_containerfile_is_whole_and_names_what_the_release_has() {
    let folder = named(&RELEASE, "chela-", "-linux");
    let text = fs::read_to_string(folder.join("Containerfile")).expect("readable");
    let joined = text.replace("\\\n", " ");
    let lines: Vec<&str> = joined.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let all = |word: &str| -> Vec<&str> {
        lines.iter().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' ')).map(str::trim).collect()
    };
    let known = ["ARG", "FROM", "RUN", "COPY", "USER", "ENV", "VOLUME", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD"];
    for line in &lines {
        assert!(known.iter().any(|word| line.starts_with(&format!("{word} "))), "{line}");
    }
    assert_eq!(
        (all("FROM"), all("USER"), all("STOPSIGNAL")),
        (vec!["debian:${DEBIAN}"], vec!["chela"], vec!["SIGTERM"])
    );
    for copy in all("COPY") {
        let words: Vec<&str> = copy.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        let (to, from) = words.split_last().expect("from and to");
        let is_known = ["/usr/local/bin/", "/usr/share/chela/components/"].contains(to);
        assert!(is_known && from.iter().all(|one| folder.join(one).exists()), "{copy}");
    }
    for run in all("RUN") {
        let checked = Command::new("sh").args(["-n", "-c", run]).status().expect("sh runs");
        assert!(checked.success(), "{run}");
    }
    // What it starts is a command line that the binary takes, on the ports that are exposed.
    let of = |word: &str| -> Vec<String> { serde_json::from_str(all(word)[0]).expect("a list of words") };
    assert_eq!(of("ENTRYPOINT"), ["chela"]);
    let command = of("CMD");
    for port in all("EXPOSE")[0].split(' ') {
        assert!(command.iter().any(|word| *word == format!("0.0.0.0:{port}")), "{port} in {command:?}");
    }
    let state = TestDir::empty();
    fs::write(state.state.path(), "in the way").expect("written");
    let refused =
        Command::new(folder.join("bin/chela")).args(&command).arg("--state-dir").arg(state.state.path()).output();
    assert_eq!(refused.expect("runs").status.code(), Some(73), "refused for the directory, not for its arguments");
}

#[test]
fn what_is_handed_out_is_summed_up_and_says_what_is_in_it() {
    let sums = fs::read_to_string(RELEASE.join("SHA256SUMS")).expect("sums");
    assert_eq!(sums.lines().count(), 3, "archive, package and bill: {sums}");
    run(Command::new("sha256sum").args(["--check", "--strict", "SHA256SUMS"]).current_dir(&*RELEASE));
    let bill = fs::read(named(&RELEASE, "chela-", ".cdx.json")).expect("a bill");
    let bill: Value = serde_json::from_slice(&bill).expect("JSON");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let parts = bill["components"].as_array().expect("components");
    let part = |name: &str| parts.iter().find(|part| part["name"] == name);
    for name in ["wasmtime", "tokio", "rustls"] {
        let part = part(name).unwrap_or_else(|| panic!("{name} is in the binary"));
        assert!(part["hashes"][0]["content"].as_str().is_some_and(|sum| sum.len() == 64), "{part}");
        assert!(part["purl"].as_str().is_some_and(|purl| purl.starts_with("pkg:cargo/")), "{part}");
    }
    assert!(part("rhai").is_some() && part("talc").is_some(), "what the components are made of is in it too");
    assert!(part("chela-tests").is_none() && part("xtask").is_none(), "what only tests need is not");
    assert!(parts.iter().all(|part| part["licenses"][0]["expression"].as_str().is_some_and(|said| !said.is_empty())));
    let archive = named(&RELEASE, "chela-", ".tar.gz");
    let listed = run(Command::new("tar").arg("-tzvf").arg(archive));
    assert!(listed.lines().all(|line| line.contains(" 0/0 ") || line.contains(" root/root ")), "{listed}");
}

/// `dpkg` on a root of its own, as root of a namespace where this user is none.
fn dpkg(root: &Path, arguments: &[&str]) -> String {
    let mut command = match rustix::process::geteuid().is_root() {
        true => Command::new("dpkg"),
        false => {
            let mut command = Command::new("unshare");
            command.args(["-r", "dpkg"]);
            command
        }
    };
    command.arg("--root").arg(root).args(["--force-depends", "--force-script-chrootless", "--log=/dev/null"]);
    run(command.args(arguments))
}

/// The files of a root, but for dpkg's own.
fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder).expect("readable") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root).expect("below it").display().to_string();
            if path.is_dir() && !path.is_symlink() {
                left.push(path);
            } else if !name.starts_with("var/lib/dpkg/") {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn the_package_installs_upgrades_and_goes_without_a_trace() {
    if !have("dpkg-deb") {
        return;
    }
    let dir = TestDir::empty();
    let package = named(&RELEASE, "chela_", ".deb");
    let fields = run(Command::new("dpkg-deb").arg("--field").arg(&package));
    assert!(fields.contains("Package: chela\n") && fields.contains("Depends: libc6 (>= 2."), "{fields}");
    let listed = run(Command::new("dpkg-deb").arg("--contents").arg(&package));
    assert!(listed.lines().all(|line| line.contains("root/root")), "{listed}");
    // The next version: the same with another number.
    let (tree, next) = (dir.scratch().join("tree"), dir.scratch().join("next.deb"));
    run(Command::new("dpkg-deb").arg("--raw-extract").arg(&package).arg(&tree));
    let control = fs::read_to_string(tree.join("DEBIAN/control")).expect("readable");
    let version = control.lines().find_map(|line| line.strip_prefix("Version: ")).expect("a version").to_owned();
    fs::write(tree.join("DEBIAN/control"), control.replace(&version, "99.0.0")).expect("written");
    let building = ["-Znone", "--root-owner-group", "--build"];
    run(Command::new("dpkg-deb").args(building).arg(&tree).arg(&next));

    let root = dir.scratch().join("root");
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/chela"] {
        fs::create_dir_all(root.join(folder)).expect("made");
    }
    fs::write(root.join("var/lib/dpkg/status"), "").expect("written");
    let (kept, text) = (root.join("var/lib/chela/chela.json"), |path: &Path| path.to_str().expect("UTF-8").to_owned());
    fs::write(&kept, "{}").expect("written");
    dpkg(&root, &["--install", &text(&package)]);
    assert!(run(Command::new(root.join("usr/bin/chela")).arg("--version")).contains(&version));
    let installed = files(&root);
    for name in [
        "usr/lib/systemd/system/chela.service",
        "usr/share/man/man1/chela.1.gz",
        "usr/share/bash-completion/completions/chela",
        "usr/share/doc/chela/copyright",
        "usr/share/doc/chela/changelog.gz",
        "usr/share/doc/chela/docs/operating.md",
        "usr/share/doc/chela/docs/pictures/overview.webp",
        "usr/share/doc/chela/plugins/slack/README.md",
        "usr/share/chela/components/discord.wasm",
    ] {
        assert!(installed.iter().any(|found| found == name), "no {name} in {installed:#?}");
    }
    dpkg(&root, &["--verify", "chela"]);
    dpkg(&root, &["--install", &text(&next)]);
    assert!(dpkg(&root, &["--status", "chela"]).contains("Version: 99.0.0"));
    assert_eq!(files(&root), installed, "an upgrade leaves nothing of the version before");
    dpkg(&root, &["--remove", "chela"]);
    assert_eq!(files(&root), ["var/lib/chela/chela.json"], "the state stays");
    dpkg(&root, &["--purge", "chela"]);
    assert_eq!(files(&root), Vec::<String>::new());
    assert!(!root.join("usr/lib/chela").exists() && !root.join("var/lib/chela").exists());
}
