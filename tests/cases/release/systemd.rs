//! What the package's scripts ask of systemd, with dpkg itself calling them on a machine where systemd runs.
//! Keeps true: the machine of the tests does not change. The package has lost its files, and what its scripts could
//! reach is a directory of the test.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use support::{TestDir, have};

use super::{RELEASE, files, named, run};

const RELOAD: &str = "systemctl daemon-reload";
const RESTART: &str = "systemctl try-restart chela.service";
const STOP: &str = "systemctl disable --now chela.service";

/// Each step of a package's life, and all that is asked for at it.
const LIFE: [(&[&str], &[&str]); 8] = [
    // The operator looks at the configuration first, and then starts it.
    (&["--install", "1.0.0.deb"], &[RELOAD]),
    // The version before is asked first. What does not run is not started.
    (&["--install", "2.0.0.deb"], &[RELOAD, RELOAD, RESTART]),
    (&["--remove", "chela"], &[STOP, RELOAD]),
    // It was stopped, and so it stays.
    (&["--install", "2.0.0.deb"], &[RELOAD, RESTART]),
    (&["--purge", "chela"], &[STOP, RELOAD, RELOAD]),
    // Nothing is known of an earlier one any more.
    (&["--install", "1.0.0.deb"], &[RELOAD]),
    (&["--remove", "chela"], &[STOP, RELOAD]),
    (&["--purge", "chela"], &[RELOAD]),
];

/// Writes down what it is asked for, under whatever name it is called, and does nothing.
const FAKE: &str = "#!/bin/sh\necho \"${0##*/} $*\" >> \"${0%/*}.asked\"\ntest ! -e \"${0%/*}.fails\"\n";

/// What scripts of packages also call. Ours need no user made: systemd makes one while the service runs.
const OTHERS: [&str; 12] = [
    "adduser",
    "addgroup",
    "deluser",
    "delgroup",
    "useradd",
    "groupadd",
    "userdel",
    "groupdel",
    "deb-systemd-helper",
    "deb-systemd-invoke",
    "systemd-sysusers",
    "systemd-tmpfiles",
];

/// dpkg without `--root`: scripts that are told of one leave systemd alone. So what they could reach is covered before.
const DPKG: &str = r#"set -e
for one in run etc var/lib; do mount --bind "$0/seen/$one" "/$one"; done
export PATH="$0/bin:/usr/sbin:/usr/bin:/sbin:/bin"
exec dpkg --admindir="$0/admin" --force-depends --log=/dev/null "$@""#;

/// A machine on which systemd runs, as dpkg and the scripts see it.
struct Machine(TestDir);

impl Machine {
    /// None where this machine has not what it takes.
    fn new() -> Option<Self> {
        if !have("dpkg-deb") || !have("mounts") {
            return None;
        }
        let machine = Self(TestDir::empty());
        let wants = "seen/etc/systemd/system/multi-user.target.wants";
        for folder in ["seen/run/systemd/system", wants, "seen/var/lib/private", "admin/info", "admin/updates", "bin"] {
            fs::create_dir_all(machine.path(folder)).expect("made");
        }
        fs::write(machine.path("admin/status"), "").expect("written");
        // Put there by a process that has ended: nobody else holds it open while it is called.
        fs::write(machine.path("fake"), FAKE).expect("written");
        run(Command::new("install").arg("-m755").arg(machine.path("fake")).arg(machine.path("bin/systemctl")));
        for name in OTHERS {
            symlink("systemctl", machine.path("bin").join(name)).expect("made");
        }
        // A service that was enabled and has served, beside one that is none of ours.
        for name in ["chela", "other"] {
            let private = machine.path("seen/var/lib/private").join(name);
            fs::create_dir(&private).expect("made");
            fs::write(private.join("state"), "kept").expect("written");
            symlink(format!("private/{name}"), machine.path("seen/var/lib").join(name)).expect("made");
            let unit = format!("{name}.service");
            symlink(format!("/usr/lib/systemd/system/{unit}"), machine.path(wants).join(unit)).expect("made");
        }
        machine.pack("1.0.0");
        machine.pack("2.0.0");
        Some(machine)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.scratch().join(name)
    }

    /// The package of the release under another version, with nothing in it but its scripts.
    fn pack(&self, version: &str) {
        let tree = self.path(version);
        fs::create_dir(&tree).expect("made");
        let extracted = tree.join("DEBIAN");
        run(Command::new("dpkg-deb").arg("--control").arg(named(&RELEASE, "chela_", ".deb")).arg(&extracted));
        fs::remove_file(extracted.join("md5sums")).expect("sums of its files");
        let control = fs::read_to_string(extracted.join("control")).expect("readable");
        let own = control.lines().find(|line| line.starts_with("Version: ")).expect("a version");
        fs::write(extracted.join("control"), control.replace(own, &format!("Version: {version}"))).expect("written");
        let building = ["-Znone", "--root-owner-group", "--build"];
        run(Command::new("dpkg-deb").args(building).arg(&tree).arg(self.path(&format!("{version}.deb"))));
    }

    /// Runs dpkg, as root of a namespace of its own; what was asked for meanwhile.
    fn dpkg(&self, arguments: &[&str]) -> Vec<String> {
        let asked = self.path("bin.asked");
        // There is none where nothing was asked for before.
        let _ = fs::remove_file(&asked);
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", DPKG]).arg(self.0.scratch()).args(arguments);
        run(command.current_dir(self.0.scratch()));
        let text = fs::read_to_string(&asked).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What is in `/etc` and `/var`.
    fn left(&self) -> Vec<String> {
        [files(&self.path("seen/etc")), files(&self.path("seen/var"))].concat()
    }
}

#[test]
fn systemd_is_told_of_every_change_and_nothing_is_started_that_did_not_run() {
    let Some(machine) = Machine::new() else { return };
    let all = machine.left();
    let others: Vec<String> = all.iter().filter(|path| !path.contains("chela")).cloned().collect();
    assert_eq!((all.len(), others.len()), (6, 3), "{all:#?}");
    let mut is_purged = false;
    for (arguments, asked) in LIFE {
        assert_eq!(machine.dpkg(arguments), asked, "{arguments:?}");
        is_purged |= arguments.contains(&"--purge");
        let kept = if is_purged { &others } else { &all };
        assert_eq!(machine.left(), *kept, "the state goes with a purge alone: {arguments:?}");
    }
}

#[test]
fn a_systemd_that_refuses_holds_no_package_up_and_one_that_does_not_run_is_not_asked() {
    let Some(machine) = Machine::new() else { return };
    fs::write(machine.path("bin.fails"), "").expect("written");
    for (arguments, asked) in LIFE {
        assert_eq!(machine.dpkg(arguments), asked, "{arguments:?}");
    }
    fs::remove_dir(machine.path("seen/run/systemd/system")).expect("ours");
    for (arguments, _) in LIFE {
        assert_eq!(machine.dpkg(arguments), Vec::<String>::new(), "{arguments:?}");
    }
}
