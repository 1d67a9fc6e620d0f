//! What authors of plugins are given: a new project in their language, the form of their test cases, and what every plugin of a world
//! is asked besides. Keeps true: a project needs nothing of this repository. Never: touches a disk, runs a tool or a component.

mod case;
mod compare;
mod conformance;
mod name;
mod project;
mod sources;
mod template;

pub use case::{BadCase, Case, Expected, cases};
pub use compare::difference;
pub use conformance::{Asked, Must, conformance};
pub use name::{BadName, Name};
pub use project::{BadProject, Language, Project, World};
pub use template::{File, files};

/// A path of JSON as far as it is known: where a text ends early, its last part is not.
fn known(path: &str) -> String {
    path.trim_end_matches('?').trim_end_matches('.').to_owned()
}
