//! The bill of materials in the format CycloneDX 1.5, from what cargo says is in the binary. Keeps true: a crate whose licence is not one
//! that `deny.toml` allows makes no release.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cargo::{cargo, printed, root};

/// Guests whose components the binary carries or a release brings as files.
const GUESTS: [&str; 9] =
    ["continuation", "discord", "probe", "rules", "script", "slack", "stop-guard", "telegram", "webhook"];

pub fn bill(version: &str) -> Result<Value> {
    let (allowed, sums) = (allowed_licences()?, checksums()?);
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut components: BTreeMap<(String, String), Value> = BTreeMap::new();
    // The components are built for another machine than the binary around them.
    for (platform, roots) in [(host.as_str(), &["chela"][..]), ("wasm32-unknown-unknown", &GUESTS)] {
        let mut ask = cargo();
        ask.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", platform]);
        let metadata: Value = serde_json::from_str(&printed(&mut ask).context("cargo metadata failed")?)?;
        let packages: BTreeMap<&str, &Value> =
            list(&metadata["packages"]).map(|package| (text(&package["id"]), package)).collect();
        for id in reachable(&metadata, roots)? {
            let package = packages.get(id.as_str()).context("cargo names a crate that it does not describe")?;
            let (name, of) = (text(&package["name"]).to_owned(), text(&package["version"]).to_owned());
            if name != "chela" {
                let component = component(package, &allowed, sums.get(&(name.clone(), of.clone())))?;
                components.insert((name, of), component);
            }
        }
    }
    let components: Vec<Value> = components.into_values().collect();
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": { "type": "application", "name": "chela", "version": version, "bom-ref": "chela" } },
        "components": components,
    }))
}

/// One crate; refused where its licence is not allowed.
fn component(package: &Value, allowed: &Licences, sum: Option<&String>) -> Result<Value> {
    let (name, of) = (text(&package["name"]), text(&package["version"]));
    // Some still write a choice with a slash, which is no expression.
    let licence = text(&package["license"]).replace('/', " OR ");
    if !is_allowed(name, &licence, allowed) {
        bail!("{name} {of} has the licence {licence:?}, which deny.toml does not allow");
    }
    let mut component = json!({
        "type": "library", "name": name, "version": of, "bom-ref": format!("{name}@{of}"),
        "licenses": [{ "expression": licence }],
    });
    if package["source"].is_string() {
        component["purl"] = json!(format!("pkg:cargo/{name}@{of}"));
    }
    if let Some(sum) = sum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    Ok(component)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Every crate that these are made of: what they need to run, and what that needs; not what builds or tests them.
fn reachable(metadata: &Value, roots: &[&str]) -> Result<BTreeSet<String>> {
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), node)).collect();
    let own = list(&metadata["packages"]).filter(|package| package["source"].is_null());
    let mut left: Vec<&str> =
        own.filter(|package| roots.contains(&text(&package["name"]))).map(|package| text(&package["id"])).collect();
    if left.len() != roots.len() {
        bail!("not every one of {roots:?} is a crate of this workspace");
    }
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

/// What deny.toml says about licences.
struct Licences {
    all: Vec<String>,
    /// Further ones, of one crate each.
    exceptions: Vec<(String, String)>,
}

fn allowed_licences() -> Result<Licences> {
    let text = fs::read_to_string(root().join("deny.toml")).context("deny.toml is missing")?;
    let part = text.split("[licenses]").nth(1).and_then(|rest| rest.split("\n[").next());
    let part = part.context("deny.toml says nothing of licences")?;
    let words = |text: &str| -> Vec<String> { text.split('"').skip(1).step_by(2).map(str::to_owned).collect() };
    let list = part.split("allow = [").nth(1).and_then(|rest| rest.split(']').next());
    let all = words(list.context("deny.toml lists no licences")?);
    let exceptions =
        part.lines().filter_map(|line| line.strip_prefix("exceptions = ")).flat_map(|line| line.split('}'));
    let pair = |one: &str| <[String; 2]>::try_from(words(one)).ok().map(|[licence, name]| (name, licence));
    Ok(Licences { all, exceptions: exceptions.filter_map(pair).collect() })
}

/// Whether an expression can be met with allowed licences: one of each choice, all of each demand.
fn is_allowed(name: &str, expression: &str, allowed: &Licences) -> bool {
    let own = allowed.exceptions.iter().filter(|(of, _)| of == name).map(|(_, licence)| licence);
    let good: Vec<&String> = allowed.all.iter().chain(own).collect();
    let plain = expression.replace(['(', ')'], " ");
    // `A OR B AND C` without brackets is rare; with every AND met it is allowed either way.
    let choice = |part: &str| {
        part.split(" OR ").any(|one| good.iter().any(|licence| *licence == one.trim().trim_end_matches('+')))
    };
    !plain.trim().is_empty() && plain.split(" AND ").all(choice)
}
