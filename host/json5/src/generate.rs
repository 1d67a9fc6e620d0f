//! Random JSON5 texts of all manners, and random patches for them, by seed. Only for tests.
//! Keeps true: every comment has a name that stands nowhere else, and is known by where it stands.

use crate::lines::has_line_end;
use crate::path::Step;
use fastrand::Rng;
use serde_json::{Map, Value, json};

/// Where a comment stands.
#[derive(Clone, Debug)]
pub enum Home {
    /// Between the entries of a container, or outside of everything.
    Gap(Vec<Step>),
    /// Between the key and the value of an entry, or on its line behind it.
    Entry(Vec<Step>),
}

pub struct Document {
    pub text: String,
    pub comments: Vec<(String, Home)>,
}

const KEYS: &[&str] = &["a", "b", "$c", "_d1", "\"e\"", "'f g'", "'x.y'", "\\u0061b", "null", "소라", "'it\\'s'", "''"];
const SCALARS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "+1",
    "0x1F",
    "-0XaB",
    ".5",
    "5.",
    "-1e3",
    "12345678901234567890123",
    "Infinity",
    "-NaN",
    "''",
    "'x'",
    "\"y\"",
    "'a\\\nb'",
    "\"q\\\r\nr\"",
    "'\\x41\\u00e9\\ud83d\\ude00\\0\\v'",
    "\"it's // no comment /* nor this\"",
    "'he said \"no\" \\''",
    "'\u{2028}'",
    "18446744073709551615",
];

#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Lines,
    OneLine,
    Wild,
}

struct Writer<'a> {
    rng: &'a mut Rng,
    newline: &'static str,
    unit: &'static str,
    document: Document,
    path: Vec<Step>,
}

pub fn document(rng: &mut Rng) -> Document {
    let newline = if rng.u8(..4) == 0 { "\r\n" } else { "\n" };
    let unit = ["  ", "    ", "\t", ""][rng.usize(..4)];
    let document = Document { text: String::new(), comments: Vec::new() };
    let mut writer = Writer { rng, newline, unit, document, path: Vec::new() };
    if writer.rng.u8(..20) == 0 {
        writer.document.text.push('\u{feff}');
    }
    writer.wild(&Home::Gap(Vec::new()));
    writer.container(true, 0);
    writer.wild(&Home::Gap(Vec::new()));
    writer.document
}

impl Writer<'_> {
    fn put(&mut self, text: &str) {
        self.document.text.push_str(text);
    }

    fn put_one(&mut self, pieces: &[&str]) {
        let piece = pieces[self.rng.usize(..pieces.len())];
        self.put(piece);
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }

    fn comment(&mut self, lines: bool, home: &Home) {
        let name = format!("c{};", self.document.comments.len());
        let text = match (lines && self.chance(50), lines && self.chance(20)) {
            (true, _) => format!("// {name} \" ' {{,{}", self.newline),
            (false, true) => format!("/* {name}{}\t*/", self.newline),
            (false, false) => format!("/*{name}, */"),
        };
        self.put(&text);
        self.document.comments.push((name, home.clone()));
    }

    /// Any white space and comments. Once a line has ended, what follows is no longer the tail of an entry.
    fn wild(&mut self, home: &Home) {
        let mut home = home.clone();
        for _ in 0..self.rng.usize(..4) {
            match self.rng.u8(..5) {
                0 => self.put_one(&[" ", "\t", "\u{a0}", "   "]),
                1 => {
                    self.put_one(&["\u{2028}", "\r", self.newline, self.newline, self.newline]);
                    home = self.gap(home);
                }
                2 => {
                    let before = self.document.text.len();
                    self.comment(true, &home);
                    if self.document.text[before..].contains('\n') {
                        home = self.gap(home);
                    }
                }
                _ => (),
            }
        }
    }

    fn gap(&self, home: Home) -> Home {
        match home {
            Home::Entry(_) => Home::Gap(self.path.clone()),
            gap @ Home::Gap(_) => gap,
        }
    }

    fn container(&mut self, object: bool, depth: usize) {
        let manner = [Manner::Lines, Manner::Lines, Manner::OneLine, Manner::Wild][self.rng.usize(..4)];
        let entries = self.rng.usize(..5);
        let by_id = !object && self.chance(50);
        let here = Home::Gap(self.path.clone());
        let mut tail: Option<(usize, Home)> = None;
        self.put(if object { "{" } else { "[" });
        for index in 0..entries {
            let is_tail = |(end, _): &(usize, Home)| !has_line_end(&self.document.text[*end..]);
            let home = tail.filter(is_tail).map_or(here.clone(), |(_, home)| home);
            self.before(manner, depth, &home);
            let step = if object { self.key() } else { Step::Index(index) };
            self.path.push(step);
            let entry = Home::Entry(self.path.clone());
            if object {
                self.inside(manner, &entry);
                self.put(":");
                self.inside(manner, &entry);
            }
            self.value(by_id.then_some(index), depth + 1);
            self.path.pop();
            tail = Some((self.document.text.len(), entry.clone()));
            self.behind(manner, &entry);
            if index + 1 < entries || self.chance(40) {
                self.put(",");
                self.behind(manner, &entry);
            }
        }
        if manner == Manner::Lines {
            self.before(manner, depth.saturating_sub(1), &here);
        }
        self.put(if object { "}" } else { "]" });
    }

    fn key(&mut self) -> Step {
        let word = KEYS[self.rng.usize(..KEYS.len())];
        self.put(word);
        let object: Value = json5::from_str(&format!("{{{word}: 1}}")).expect("read");
        Step::Key(object.as_object().expect("an object").keys().next().expect("an object").clone())
    }

    fn before(&mut self, manner: Manner, depth: usize, here: &Home) {
        match manner {
            Manner::Wild => self.wild(here),
            Manner::OneLine if self.chance(50) => self.put(" "),
            Manner::OneLine => (),
            Manner::Lines => {
                let here = &self.gap(here.clone());
                for _ in 0..1 + self.rng.usize(..3) / 2 {
                    self.put(self.newline);
                }
                let indent = self.unit.repeat(depth + 1);
                self.put(&indent);
                if self.chance(15) {
                    self.comment(false, here);
                    self.put(self.newline);
                    self.put(&indent);
                }
            }
        }
    }

    fn inside(&mut self, manner: Manner, entry: &Home) {
        match manner {
            Manner::Wild => {
                if self.chance(30) {
                    self.comment(true, entry);
                }
            }
            Manner::Lines | Manner::OneLine => self.put_one(&["", " "]),
        }
    }

    fn behind(&mut self, manner: Manner, entry: &Home) {
        match manner {
            Manner::Wild => self.wild(entry),
            Manner::Lines | Manner::OneLine if self.chance(10) => {
                self.put(" ");
                self.comment(false, entry);
            }
            Manner::Lines | Manner::OneLine => (),
        }
    }

    fn value(&mut self, id: Option<usize>, depth: usize) {
        if let Some(id) = id {
            let start = self.document.text.len();
            self.container(true, depth);
            self.document.text.insert_str(start + 1, &format!("id: 'n{id}',"));
        } else if depth < 4 && self.chance(40) {
            let object = self.rng.bool();
            self.container(object, depth);
        } else {
            self.put_one(SCALARS);
        }
    }
}

/// A patch that touches some of what is there and adds some.
pub fn patch(rng: &mut Rng, old: &Value) -> Value {
    let mut patch = Map::new();
    for (name, value) in old.as_object().into_iter().flatten() {
        match rng.u8(..8) {
            0 => patch.insert(name.clone(), Value::Null),
            1 => patch.insert(name.clone(), value_of(rng, 2)),
            2 => patch.insert(name.clone(), value.clone()),
            3..=5 if value.is_object() => patch.insert(name.clone(), self::patch(rng, value)),
            3..=6 if value.is_array() => patch.insert(name.clone(), array_patch(rng, value)),
            _ => None,
        };
    }
    for _ in 0..rng.usize(..3) {
        let name = ["new", "n-1", "b", "z"][rng.usize(..4)];
        patch.insert(name.to_owned(), value_of(rng, 2));
    }
    Value::Object(patch)
}

fn array_patch(rng: &mut Rng, old: &Value) -> Value {
    let mut new = old.as_array().cloned().unwrap_or_default();
    if new.iter().all(|entry| entry.get("id").is_some()) {
        new.retain(|_| rng.bool());
        for entry in &mut new {
            let id = entry["id"].clone();
            *entry = patch(rng, entry);
            entry["id"] = id;
        }
        for number in 0..rng.usize(..3) {
            new.push(json!({"id": format!("m{number}"), "x": value_of(rng, 1)}));
        }
        return Value::Array(new);
    }
    new.retain(|_| rng.u8(..4) > 0);
    for entry in &mut new {
        if rng.u8(..4) == 0 {
            *entry = value_of(rng, 1);
        }
    }
    for _ in 0..rng.usize(..3) {
        new.push(value_of(rng, 1));
    }
    Value::Array(new)
}

pub fn value_of(rng: &mut Rng, depth: usize) -> Value {
    let scalars = [
        json!(null),
        json!(1),
        json!(-2.5),
        json!(1e300),
        json!(true),
        json!("x"),
        json!("it's \"q\"\\\u{2029}\u{1}\n소"),
    ];
    match rng.u8(..10) {
        0..=1 if depth > 0 => (0..rng.usize(..4)).map(|_| value_of(rng, depth - 1)).collect(),
        2..=4 if depth > 0 => {
            let names = ["a", "k k", "b", "new"];
            Value::Object(
                (0..rng.usize(..4)).map(|index| (names[index].to_owned(), value_of(rng, depth - 1))).collect(),
            )
        }
        _ => scalars[rng.usize(..scalars.len())].clone(),
    }
}
