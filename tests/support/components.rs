//! Components made on the spot: of another WIT than ours, or of a core module in text, down to the byte of an answer.

use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve, SourceMap, WorldId};

const WIT: [(&str, &str); 8] = [
    ("classification.wit", include_str!("../../wit/policy/classification.wit")),
    ("lifecycle.wit", include_str!("../../wit/policy/lifecycle.wit")),
    ("log.wit", include_str!("../../wit/policy/log.wit")),
    ("prompts.wit", include_str!("../../wit/policy/prompts.wit")),
    ("tasks.wit", include_str!("../../wit/policy/tasks.wit")),
    ("tool-guard.wit", include_str!("../../wit/policy/tool-guard.wit")),
    ("types.wit", include_str!("../../wit/policy/types.wit")),
    ("world.wit", include_str!("../../wit/policy/world.wit")),
];

/// A component of our WIT after `edit`, and of a world of its own; every function of it traps.
pub fn dummy(world: &str, edit: impl Fn(&str) -> String) -> Vec<u8> {
    let (resolve, world) = resolved(world, edit);
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("embedded");
    component(&module)
}

/// A component that exports the lifecycle and imports an interface besides.
pub fn importing(package: &str, interface: &str, function: &str) -> Vec<u8> {
    let (name, version) = package.split_once('@').map_or((package, String::new()), |(n, v)| (n, format!("@{v}")));
    let used = format!("import {name}/{interface}{version}; export lifecycle; export classification;");
    let outside = format!("package {package} {{ interface {interface} {{ {function} }} }}");
    let mut sources = SourceMap::new();
    for (file, text) in WIT {
        let text =
            if file == "world.wit" { format!("{text}\nworld asking {{ {used} }}\n{outside}") } else { text.into() };
        sources.push_str(file, text);
    }
    let (resolve, world) = resolve(sources, "asking");
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("embedded");
    component(&module)
}

fn resolved(world: &str, edit: impl Fn(&str) -> String) -> (Resolve, WorldId) {
    let mut sources = SourceMap::new();
    for (file, text) in WIT {
        sources.push_str(file, edit(text));
    }
    resolve(sources, world)
}

fn resolve(sources: SourceMap, world: &str) -> (Resolve, WorldId) {
    let group = sources.parse().map_err(|(_, error)| error).expect("it parses");
    let mut resolve = Resolve::default();
    let package = resolve.push_group(group).expect("it resolves");
    let world = resolve.select_world(&[package], Some(world)).expect("a world of it");
    (resolve, world)
}

fn component(module: &[u8]) -> Vec<u8> {
    let encoder = ComponentEncoder::default().validate(true).module(module);
    encoder.and_then(|mut encoder| encoder.encode()).expect("a component")
}

/// The same component under another hash: with a section that nothing looks at.
pub fn stamped(component: &[u8], stamp: &str) -> Vec<u8> {
    let content = [&[5_u8][..], b"stamp", stamp.as_bytes()].concat();
    let length = u8::try_from(content.len()).ok().filter(|length| *length < 128).expect("a short stamp");
    [component, &[0, length], &content].concat()
}

/// A classifier written by hand. What is left as it is answers well.
pub struct Handmade<'a> {
    pub name: &'a str,
    pub version: &'a str,
    /// Imported functions, and the world's item that goes with them.
    pub imports: &'a str,
    pub import: &'a str,
    /// Beside the memory: a start function, a table.
    pub items: &'a str,
    pub pages: u32,
    /// Run before the answers of `describe`, `configure` and `categories`.
    pub describe: &'a str,
    pub configure: &'a str,
    pub categories: &'a str,
    pub category: &'a str,
    pub reason: &'a [u8],
}

impl Default for Handmade<'_> {
    fn default() -> Self {
        Self {
            name: "handmade",
            version: "1.0.0",
            imports: "",
            import: "",
            items: "",
            pages: 64,
            describe: "",
            configure: "",
            categories: "",
            category: "qa_validation",
            reason: b"by hand",
        }
    }
}

/// Where the texts lie in the memory of a handmade component.
const TEXTS: u32 = 8_192;
const RANDOM: &str = "package wasi:random@0.2.0 { interface random { get-random-u64: func() -> u64; } }";

impl Handmade<'_> {
    pub fn component(&self) -> Vec<u8> {
        component(&self.module())
    }

    /// The core module with the metadata that makes a component of it.
    pub fn module(&self) -> Vec<u8> {
        let mut module = self.bare_module();
        let mut sources = SourceMap::new();
        for (file, text) in WIT {
            let own =
                format!("world handmade {{ {} export lifecycle; export classification; }}\n{RANDOM}", self.import);
            sources.push_str(file, if file == "world.wit" { format!("{text}\n{own}") } else { text.into() });
        }
        let (resolve, world) = resolve(sources, "handmade");
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("embedded");
        module
    }

    /// The core module alone.
    pub fn bare_module(&self) -> Vec<u8> {
        let texts = [self.name.as_bytes(), self.version.as_bytes(), self.category.as_bytes(), self.reason];
        let mut at = TEXTS;
        let places = texts.map(|text| {
            let length = u32::try_from(text.len()).expect("a short text");
            at += length;
            [at - length, length]
        });
        let [name, version, category, reason] = places;
        let description = [name, version, [0, 0], [0, 0], [0, 0]].concat();
        let answer = [0, 4_096, 1, 0, 0];
        // primary, secondary, sub-tags; then the confidence, which is aligned to 8, the source and the reason.
        let classification = [1, category[0], category[1], 0, 0, 0, 0, 0, 0, 0x3fe0_0000, 0, reason[0], reason[1], 0];
        let call = "(param i64 i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)";
        let Self { imports, items, pages, describe, configure, categories, .. } = self;
        let text = format!(
            r#"(module {imports}
                (memory (export "memory") {pages})
                (global $next (mut i32) (i32.const 65536))
                {items}
                (data (i32.const 1024) "{}") (data (i32.const 2048) "{}") (data (i32.const 4096) "{}") (data (i32.const {TEXTS}) "{}")
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
                    global.get $next i32.const 7 i32.add i32.const -8 i32.and
                    global.set $next global.get $next global.get $next local.get 3 i32.add global.set $next)
                (func (export "chela:policy/lifecycle@0.1.0#describe") (result i32) {describe} i32.const 1024)
                (func (export "chela:policy/lifecycle@0.1.0#configure") (param i32 i32) (result i32)
                    {configure} i32.const 0)
                (func (export "chela:policy/classification@0.1.0#roles") {call} unreachable)
                (func (export "chela:policy/classification@0.1.0#categories") {call}
                    (local $n i32) {categories} i32.const 65536 global.set $next i32.const 2048))"#,
            escaped(&words(&description)),
            escaped(&words(&answer)),
            escaped(&words(&classification)),
            escaped(&texts.concat()),
        );
        wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"))
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:02x}")).collect()
}
