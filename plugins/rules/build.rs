//! Turns the built-in rules, written for people, into the JSON that the component reads.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=rules.json5");
    let readable = fs::read_to_string("rules.json5").expect("rules.json5 is beside build.rs");
    let rules: serde_json::Value = json5::from_str(&readable).expect("rules.json5 is JSON5");
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&folder).join("rules.json"), rules.to_string()).expect("OUT_DIR can be written");
}
