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
pub const SDK: [(&str, &str); 8] = [
    ("channel.rs", include_str!("../../../plugins/sdk/src/channel.rs")),
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

    /// The files of a folder of the repository.
    fn check(folder: &str, carried: &[(&str, &str)]) {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
        let entries = std::fs::read_dir(folder).expect("a folder of the repository");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        assert_eq!(names, carried.iter().map(|(name, _)| *name).collect::<Vec<_>>());
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
