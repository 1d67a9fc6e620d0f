//! Where spans are sent, and what with.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Config, Secret};
use crate::schema::Problem;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Traces {
    /// A collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; none for no traces.
    #[schemars(extend("pattern" = r"^https?://[^/?#@\s]+(/[^?#\s]*)?$", "x-advice" = "write the collector's address, such as http://127.0.0.1:4318, without /v1/traces"))]
    pub endpoint: Option<String>,
    /// Headers that it asks for, such as `authorization`.
    pub headers: BTreeMap<String, Secret>,
}

pub(super) fn problems(config: &Config) -> Option<Problem> {
    let good = |name: &str| {
        !name.is_empty() && name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let bad = config.traces.headers.keys().find(|name| !good(name))?;
    Some(Problem::new("traces.headers", format!("`{bad}` is no name of a header")))
}
