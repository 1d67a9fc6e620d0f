//! The text of a unit: what the gateway needs of systemd, and all that it does not need taken away.
//! Keeps true: whatever names and paths stand in it, it says what is meant. Never: reads or writes a file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// The first line of a unit of ours.
pub(super) const MARK: &str = "# Written by `chela service install`";

/// Who the gateway runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// The user whose unit it is.
    Own,
    /// One that systemd makes for it alone, with a directory below `/var/lib`.
    Made,
    Named(String),
}

/// A secret that systemd hands over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credential {
    name: String,
    file: PathBuf,
}

impl Credential {
    /// `NAME=FILE`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, file) = text.split_once('=').ok_or("write NAME=FILE")?;
        let file = PathBuf::from(file);
        match (is_name(name), file.is_absolute()) {
            (false, _) => Err(format!("{name:?} is no name of a credential")),
            (true, false) => Err("the file is named by its whole path".into()),
            (true, true) => Ok(Self { name: name.to_owned(), file }),
        }
    }
}

pub(super) struct Unit {
    pub(super) name: String,
    pub(super) program: PathBuf,
    pub(super) dir: PathBuf,
    pub(super) user: User,
    pub(super) memory_max: String,
    pub(super) credentials: Vec<Credential>,
    /// It listens on a port that only the privileged may have.
    pub(super) low_port: bool,
}

pub(super) fn is_name(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=64).contains(&text.len()) && text.chars().all(good) && text.starts_with(|c: char| c.is_ascii_alphabetic())
}

pub(super) fn is_user(text: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=32).contains(&text.len())
        && text.chars().all(good)
        && text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

pub(super) fn is_size(text: &str) -> bool {
    let Some((number, unit)) = text.split_at_checked(text.len().saturating_sub(1)) else { return false };
    matches!(unit, "K" | "M" | "G" | "T")
        && (1..=9).contains(&number.len())
        && number.bytes().all(|b| b.is_ascii_digit())
}

impl Unit {
    pub(super) fn text(&self) -> anyhow::Result<String> {
        let system = self.user != User::Own;
        let mut text = format!(
            "{MARK}; `chela service uninstall` removes it.\n# Settings of your own belong into `systemctl edit {}`, which this one leaves alone.\n",
            self.name
        );
        text.push_str(&self.head(system));
        text.push_str(&self.start()?);
        text.push_str(&self.rights(system)?);
        text.push_str(&format!(
            "\n[Install]\nWantedBy={}\n",
            if system { "multi-user.target" } else { "default.target" }
        ));
        Ok(text)
    }

    fn head(&self, system: bool) -> String {
        let network = if system { "Wants=network-online.target\nAfter=network-online.target\n" } else { "" };
        format!(
            "\n[Unit]\nDescription=Chela, a gateway for teams of AI agents\nDocumentation=man:chela(1)\n{network}# A full disk, a taken port or an address that is not there yet may last for hours: it is tried until that is over.\nStartLimitIntervalSec=0\n"
        )
    }

    fn start(&self) -> anyhow::Result<String> {
        let (program, dir) = (quoted(&self.program)?, quoted(&self.dir)?);
        let mut text = format!(
            "\n[Service]\nType=notify\nNotifyAccess=main\nExecStart={program} serve --state-dir {dir}\nExecReload=/bin/kill -HUP $MAINPID\n"
        );
        for Credential { name, file } in &self.credentials {
            text.push_str(&format!("LoadCredential={name}:{}\n", escaped(file)?));
        }
        text.push_str(
            "# A gateway that hangs is killed and started anew; what it was doing goes on.
WatchdogSec=60
Restart=on-failure
RestartSec=5
# Wrong arguments, a refused token, a configuration or a file that must be mended: starting again does not help.
RestartPreventExitStatus=2 77 78
TimeoutStartSec=300
# A drain that may take longer says so itself.
TimeoutStopSec=60
KillMode=mixed
# A component that takes too much while it is compiled must not take the gateway along.
OOMPolicy=continue
",
        );
        Ok(text)
    }

    fn rights(&self, system: bool) -> anyhow::Result<String> {
        let mut text = format!(
            "\n# What it may take.\nMemoryMax={}\nTasksMax=512\nLimitNOFILE=65536\nUMask=0077\n\n# What it may do.\nNoNewPrivileges=yes\n",
            self.memory_max
        );
        if system {
            text.push_str(&self.walls()?);
        }
        text.push_str(
            "LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged
SystemCallErrorNumber=EPERM
# Compiled components are mapped as code, so that memory must be allowed to become executable.
MemoryDenyWriteExecute=no
",
        );
        Ok(text)
    }

    /// What only the manager of the whole machine can put up.
    fn walls(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        match &self.user {
            User::Made => {
                text.push_str(&format!("DynamicUser=yes\nStateDirectory={}\nStateDirectoryMode=0700\n", self.name));
            }
            User::Named(user) => text.push_str(&format!("User={user}\nReadWritePaths={}\n", quoted(&self.dir)?)),
            User::Own => {}
        }
        let at_home = [&self.dir, &self.program]
            .iter()
            .any(|path| ["/home", "/root", "/run/user"].iter().any(|home| path.starts_with(home)));
        text.push_str(&format!("ProtectHome={}\n", if at_home { "read-only" } else { "yes" }));
        match self.low_port {
            true => text.push_str(
                "# A listener below 1024.\nCapabilityBoundingSet=CAP_NET_BIND_SERVICE\nAmbientCapabilities=CAP_NET_BIND_SERVICE\n",
            ),
            false => text.push_str("CapabilityBoundingSet=\nAmbientCapabilities=\nPrivateUsers=yes\n"),
        }
        text.push_str(
            "ProtectSystem=strict
PrivateTmp=yes
PrivateDevices=yes
PrivateIPC=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProcSubset=pid
RemoveIPC=yes
KeyringMode=private
",
        );
        Ok(text)
    }
}

/// A path as one word of a command or a list.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = escaped(path)?.replace('\\', "\\\\").replace('"', "\\\"").replace('$', "$$");
    Ok(format!("\"{text}\""))
}

/// A path as a value that systemd looks for `%` in.
fn escaped(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8, as a unit must be", path.display()))?;
    if text.chars().any(char::is_control) {
        bail!("{text:?} has a control character, which no unit can hold; choose another path");
    }
    Ok(text.replace('%', "%%"))
}

/// The state directory that a unit of ours serves.
pub(super) fn served_by(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("ExecStart="))?;
    let rest = line.split_once(" serve --state-dir \"")?.1.strip_suffix('"')?;
    let (mut path, mut chars) = (String::new(), rest.chars());
    while let Some(c) = chars.next() {
        match c {
            '\\' | '%' | '$' => path.push(chars.next()?),
            other => path.push(other),
        }
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(dir: &str, user: User) -> Unit {
        Unit {
            name: "chela".into(),
            program: "/usr/bin/chela".into(),
            dir: dir.into(),
            user,
            memory_max: "2G".into(),
            credentials: Vec::new(),
            low_port: false,
        }
    }

    #[test]
    fn a_path_says_what_is_meant_whatever_is_in_it() {
        for dir in ["/var/lib/chela", "/srv/a b", "/srv/50%", "/srv/$HOME", "/srv/a\"b\\c", "/srv/팀"] {
            let text = unit(dir, User::Own).text().expect("a unit");
            assert_eq!(served_by(&text).as_deref(), Some(dir), "{text}");
        }
        assert!(unit("/srv/a\nUser=root", User::Own).text().is_err());
        let text = unit("/srv/a b%\"", User::Own).text().expect("a unit");
        assert!(text.contains(r#"serve --state-dir "/srv/a b%%\"""#), "{text}");
    }

    #[test]
    fn what_passes_by_itself_is_tried_for_ever_and_what_must_be_mended_is_not() {
        for user in [User::Own, User::Made, User::Named("eden".into())] {
            let text = unit("/var/lib/chela", user).text().expect("a unit");
            let (head, service) = text.split_once("\n[Service]\n").expect("both parts");
            assert!(head.contains("\nStartLimitIntervalSec=0\n") && !head.contains("StartLimitBurst"), "{text}");
            for line in ["Restart=on-failure", "RestartSec=5", "RestartPreventExitStatus=2 77 78"] {
                assert!(service.lines().any(|found| found == line), "no {line} in {text}");
            }
        }
    }

    #[test]
    fn only_the_walls_that_hold_are_put_up() {
        let own = unit("/home/eden/.chela", User::Own).text().expect("a unit");
        assert!(!own.contains("ProtectSystem") && own.contains("NoNewPrivileges=yes"), "{own}");
        let made = unit("/var/lib/chela", User::Made).text().expect("a unit");
        assert!(made.contains("DynamicUser=yes\nStateDirectory=chela\n") && made.contains("ProtectHome=yes"), "{made}");
        let named = unit("/home/eden/team", User::Named("eden".into())).text().expect("a unit");
        assert!(named.contains("User=eden\nReadWritePaths=\"/home/eden/team\"\nProtectHome=read-only\n"), "{named}");
        let low = Unit { low_port: true, ..unit("/var/lib/chela", User::Made) }.text().expect("a unit");
        assert!(low.contains("AmbientCapabilities=CAP_NET_BIND_SERVICE") && !low.contains("PrivateUsers"), "{low}");
    }

    #[test]
    fn names_sizes_and_credentials_are_checked() {
        assert!(is_name("chela-2") && !is_name("") && !is_name("../chela") && !is_name("a b") && !is_name("2a"));
        assert!(
            is_size("512M") && is_size("2G") && !is_size("2") && !is_size("G") && !is_size("2GB") && !is_size("-1G")
        );
        assert!(is_user("_chela") && !is_user("a b") && !is_user(""));
        let key = Credential::parse("key=/etc/chela/key").expect("a credential");
        let text = Unit { credentials: vec![key], ..unit("/var/lib/chela", User::Made) }.text().expect("a unit");
        assert!(text.contains("LoadCredential=key:/etc/chela/key\n"), "{text}");
        for bad in ["key", "key=relative", "a/b=/etc/key", "=/etc/key"] {
            assert!(Credential::parse(bad).is_err(), "{bad}");
        }
    }
}
