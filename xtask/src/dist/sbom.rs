//! The bill of materials in the format CycloneDX 1.5, from what cargo says is in the binary. Keeps true: a crate whose licence is not one
//! that `deny.toml` allows makes no release.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cargo::{cargo, printed, root};

pub fn bill(version: &str) -> Result<Value> {
    let mut ask = cargo();
    ask.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"]);
    let metadata: Value = serde_json::from_str(&printed(&mut ask).context("cargo metadata failed")?)?;
    let allowed = allowed_licences()?;
    let sums = checksums()?;
    let packages: BTreeMap<&str, &Value> =
        list(&metadata["packages"]).map(|package| (text(&package["id"]), package)).collect();
    let inside = reachable(&metadata)?;
    let mut components = Vec::new();
    for id in &inside {
        let package = packages.get(id.as_str()).context("cargo names a crate that it does not describe")?;
        let (name, of) = (text(&package["name"]), text(&package["version"]));
        if name == "chela" {
            continue;
        }
        let licence = package["license"].as_str().unwrap_or_default();
        if !is_allowed(licence, &allowed) {
            bail!("{name} {of} has the licence {licence:?}, which deny.toml does not allow");
        }
        let mut component = json!({
            "type": "library", "name": name, "version": of, "bom-ref": format!("{name}@{of}"),
            "licenses": [{ "expression": licence }],
        });
        if package["source"].is_string() {
            component["purl"] = json!(format!("pkg:cargo/{name}@{of}"));
        }
        if let Some(sum) = sums.get(&(name.to_owned(), of.to_owned())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        components.push(component);
    }
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": { "type": "application", "name": "chela", "version": version, "bom-ref": "chela" } },
        "components": components,
    }))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Every crate that the binary is made of: what it needs to run, and what that needs; not what builds or tests it.
fn reachable(metadata: &Value) -> Result<BTreeSet<String>> {
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), node)).collect();
    let host = list(&metadata["packages"]).find(|package| package["name"] == "chela").context("the host is a crate")?;
    let mut left = vec![text(&host["id"])];
    let mut inside = BTreeSet::new();
    while let Some(id) = left.pop() {
        if !inside.insert(id.to_owned()) {
            continue;
        }
        for dependency in nodes.get(id).into_iter().flat_map(|node| list(&node["deps"])) {
            if list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null()) {
                left.push(text(&dependency["pkg"]));
            }
        }
    }
    Ok(inside)
}

/// SHA-256 of each crate's archive, by name and version, as the lock file has them.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let lock = fs::read_to_string(root().join("Cargo.lock"))?;
    let mut sums = BTreeMap::new();
    for part in lock.split("[[package]]") {
        let of = |key: &str| {
            let line = part.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
            line.strip_suffix('"').map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(sum)) = (of("name"), of("version"), of("checksum")) {
            sums.insert((name, version), sum);
        }
    }
    Ok(sums)
}

/// The list under `[licenses] allow` of deny.toml.
fn allowed_licences() -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join("deny.toml")).context("deny.toml is missing")?;
    let list = text.split("[licenses]").nth(1).and_then(|rest| rest.split("allow = [").nth(1));
    let list = list.and_then(|rest| rest.split(']').next()).context("deny.toml lists no licences")?;
    Ok(list.split('"').skip(1).step_by(2).map(str::to_owned).collect())
}

/// Whether an expression can be met with allowed licences: one of each choice, all of each demand.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    // `A OR B AND C` without brackets is rare; with every AND met it is allowed either way.
    let choice = |part: &str| part.split(" OR ").any(|one| allowed.iter().any(|licence| licence == one.trim()));
    !plain.trim().is_empty() && plain.split(" AND ").all(choice)
}
