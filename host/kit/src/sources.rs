//! The WIT of plugins and the sources of the SDK, as they are in this repository; a project carries its own copy.

/// `wit/policy/`, file by file.
pub const WIT: [(&str, &str); 8] = [
    ("classification.wit", include_str!("../../../wit/policy/classification.wit")),
    ("lifecycle.wit", include_str!("../../../wit/policy/lifecycle.wit")),
    ("log.wit", include_str!("../../../wit/policy/log.wit")),
    ("prompts.wit", include_str!("../../../wit/policy/prompts.wit")),
    ("tasks.wit", include_str!("../../../wit/policy/tasks.wit")),
    ("tool-guard.wit", include_str!("../../../wit/policy/tool-guard.wit")),
    ("types.wit", include_str!("../../../wit/policy/types.wit")),
    ("world.wit", include_str!("../../../wit/policy/world.wit")),
];

/// `wit/channel/`, file by file; it uses the other.
pub const CHANNEL_WIT: [(&str, &str); 2] = [
    ("adapter.wit", include_str!("../../../wit/channel/adapter.wit")),
    ("world.wit", include_str!("../../../wit/channel/world.wit")),
];

/// `plugins/sdk/src/`, file by file.
pub const SDK: [(&str, &str); 14] = [
    ("channel.rs", include_str!("../../../plugins/sdk/src/channel.rs")),
    ("channel/calls.rs", include_str!("../../../plugins/sdk/src/channel/calls.rs")),
    ("channel/chunks.rs", include_str!("../../../plugins/sdk/src/channel/chunks.rs")),
    ("channel/deliveries.rs", include_str!("../../../plugins/sdk/src/channel/deliveries.rs")),
    ("channel/keep.rs", include_str!("../../../plugins/sdk/src/channel/keep.rs")),
    ("channel/turn.rs", include_str!("../../../plugins/sdk/src/channel/turn.rs")),
    ("channel/wire.rs", include_str!("../../../plugins/sdk/src/channel/wire.rs")),
    ("classifier.rs", include_str!("../../../plugins/sdk/src/classifier.rs")),
    ("continuation.rs", include_str!("../../../plugins/sdk/src/continuation.rs")),
    ("guard.rs", include_str!("../../../plugins/sdk/src/guard.rs")),
    ("lib.rs", include_str!("../../../plugins/sdk/src/lib.rs")),
    ("log.rs", include_str!("../../../plugins/sdk/src/log.rs")),
    ("roles.rs", include_str!("../../../plugins/sdk/src/roles.rs")),
    ("worlds.rs", include_str!("../../../plugins/sdk/src/worlds.rs")),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The files below a folder of the repository, by their paths within it.
    fn files(folder: &std::path::Path, within: &str) -> Vec<String> {
        let entries = std::fs::read_dir(folder).expect("a folder of the repository");
        let of_entry = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.expect("readable");
            let name = format!("{within}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() { files(&entry.path(), &format!("{name}/")) } else { vec![name] }
        };
        entries.flat_map(of_entry).collect()
    }

    fn check(folder: &str, carried: &[(&str, &str)]) {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let mut names = files(&folder, "");
        names.sort();
        let mut carried: Vec<&str> = carried.iter().map(|(name, _)| *name).collect();
        carried.sort_unstable();
        assert_eq!(names, carried);
    }

    #[test]
    fn nothing_of_them_is_left_behind() {
        check("wit/policy", &WIT);
        check("wit/channel", &CHANNEL_WIT);
        check("plugins/sdk/src", &SDK);
    }

    #[test]
    fn the_sdk_of_a_project_takes_the_versions_of_this_workspace() {
        let workspace = include_str!("../../../Cargo.toml");
        let own = include_str!("../templates/rust/sdk.toml.txt");
        let line = |text: &str, name: &str| {
            let found = text.lines().find(|line| line.starts_with(&format!("{name} = ")));
            found.map(str::to_owned).unwrap_or_else(|| panic!("{name} is not there"))
        };
        let sdk = include_str!("../../../plugins/sdk/Cargo.toml");
        let names: Vec<&str> = sdk.lines().filter_map(|line| line.strip_suffix(".workspace = true")).collect();
        let names = names
            .into_iter()
            .filter(|name| !["version", "edition", "rust-version", "license", "publish"].contains(name));
        for name in names {
            assert_eq!(line(own, name), line(workspace, name));
        }
    }
}
