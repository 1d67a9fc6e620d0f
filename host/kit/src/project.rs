//! A project of a plugin: what its `plugin.json` says.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    Classifier,
    Guard,
    Continuation,
    Channel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    Rust,
    Js,
    Python,
    Script,
}

/// `plugin.json`, at the root of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Project {
    /// The component is `build/NAME.wasm`.
    pub name: String,
    pub world: World,
    pub language: Language,
    /// Memory of an instance; the deployment has to allow it with `limits.memoryMb`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "plugin.json{}: {said}; it holds name, world (classifier, guard, continuation, channel) and language (rust, js, python, script)",
    at(path)
)]
pub struct BadProject {
    pub path: String,
    pub said: String,
}

fn at(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" at {path}") }
}

impl World {
    pub const ALL: [Self; 4] = [Self::Classifier, Self::Guard, Self::Continuation, Self::Channel];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Classifier => "classifier",
            Self::Guard => "guard",
            Self::Continuation => "continuation",
            Self::Channel => "channel",
        }
    }

    /// The slot that a plugin of this name would serve in.
    pub fn slot(self, name: &str) -> String {
        match self {
            Self::Guard | Self::Channel => format!("{}:{name}", self.as_str()),
            Self::Classifier | Self::Continuation => self.as_str().to_owned(),
        }
    }

    /// The functions of the world.
    pub fn exports(self) -> &'static [&'static str] {
        match self {
            Self::Classifier => &["roles", "categories"],
            Self::Guard => &["before-tool-call"],
            Self::Continuation => &["instructions", "next"],
            Self::Channel => &["handle"],
        }
    }

    /// Where a project of it has the WIT that its component is made of.
    pub fn wit(self) -> &'static str {
        match self {
            Self::Classifier | Self::Guard | Self::Continuation => "wit/policy",
            Self::Channel => "wit/channel",
        }
    }
}

impl Language {
    pub const ALL: [Self; 4] = [Self::Rust, Self::Js, Self::Python, Self::Script];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Js => "js",
            Self::Python => "python",
            Self::Script => "script",
        }
    }

    /// Engines of JavaScript and Python do not fit into the default of 16 MB.
    pub fn memory_mb(self) -> Option<u32> {
        match self {
            Self::Js | Self::Python => Some(96),
            Self::Rust | Self::Script => None,
        }
    }
}

impl Project {
    pub fn read(text: &str) -> Result<Self, BadProject> {
        let mut json = serde_json::Deserializer::from_str(text);
        let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            BadProject { path: crate::known(&path), said: error.inner().to_string() }
        });
        let project: Self = read?;
        json.end().map_err(|error| BadProject { path: String::new(), said: error.to_string() })?;
        // It becomes part of a path.
        crate::Name::parse(&project.name, [])
            .map_err(|error| BadProject { path: "name".into(), said: error.to_string() })?;
        Ok(project)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_says_what_it_is_and_where_it_is_wrong() {
        let read = Project::read(r#"{"name": "mine", "world": "guard", "language": "js", "memoryMb": 96}"#);
        let expected =
            Project { name: "mine".into(), world: World::Guard, language: Language::Js, memory_mb: Some(96) };
        assert_eq!(read, Ok(expected));
        let refused = |text: &str, expected: &str| {
            let said = Project::read(text).expect_err("refused").to_string();
            assert!(said.starts_with(expected), "{said}");
        };
        refused(
            r#"{"name": "mine", "world": "gaurd", "language": "js"}"#,
            "plugin.json at world: unknown variant `gaurd`",
        );
        refused(r#"{"name": "../x", "world": "guard", "language": "js"}"#, "plugin.json at name: \"../x\" is no name");
        refused(r#"{"name": "mine"}"#, "plugin.json: missing field `world`");
        refused("{} {}", "plugin.json: missing field");
        refused("x", "plugin.json: expected value at line 1");
    }
}
