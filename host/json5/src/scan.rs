//! Reads a JSON5 text into spans and values at once.
//! Keeps true: what the json5 crate reads is read as the same values; of a key that stands twice the last counts. After
//! the first letter of a bare key all of Unicode is taken, as no table of its marks is kept here. Never: reads past the limits.

use crate::error::Error;
use crate::lines;
use crate::node::{DEPTH_MAX, Entry, Key, Node, Shape, TEXT_BYTES_MAX};
use serde_json::{Map, Value};

pub fn document(text: &str) -> Result<(Node, Value), Error> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::TooLong { bytes: text.len() });
    }
    let mut scanner = Scanner { text, at: 0 };
    scanner.skip_gap()?;
    let read = scanner.value(0)?;
    scanner.skip_gap()?;
    match scanner.peek() {
        Some(_) => Err(scanner.wrong("nothing may follow the value; remove this")),
        None => Ok(read),
    }
}

pub struct Scanner<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl Scanner<'_> {
    pub fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    pub fn take(&mut self, word: &str) -> bool {
        let found = self.text[self.at..].starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    pub fn wrong(&self, what: &'static str) -> Error {
        self.wrong_at(self.at, what)
    }

    pub fn wrong_at(&self, at: usize, what: &'static str) -> Error {
        Error::syntax(self.text, at, what)
    }

    fn skip_gap(&mut self) -> Result<(), Error> {
        while let Some(c) = self.peek() {
            if lines::is_space(c) {
                self.at += c.len_utf8();
            } else if c == '/' {
                let end = lines::comment_end(self.text, self.at);
                self.at = end.ok_or_else(|| self.wrong("a comment is `// ...` or `/* ... */`; complete it"))?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn value(&mut self, depth: usize) -> Result<(Node, Value), Error> {
        let start = self.at;
        let value = match self.peek() {
            Some('{' | '[') if depth == DEPTH_MAX => return Err(Error::too_deep(self.text, start)),
            Some('{') => return self.object(depth),
            Some('[') => return self.array(depth),
            Some(quote @ ('"' | '\'')) => Value::String(self.string(quote)?),
            Some('n') if self.take("null") => Value::Null,
            Some('t') if self.take("true") => Value::Bool(true),
            Some('f') if self.take("false") => Value::Bool(false),
            Some('+' | '-' | '.' | '0'..='9' | 'I' | 'N') => self.number()?,
            Some(_) => return Err(self.wrong("a value is expected here; texts need quotes")),
            None => return Err(self.wrong("the text ends where a value is expected; add one")),
        };
        Ok((Node { start, end: self.at, shape: Shape::Scalar, entries: Vec::new() }, value))
    }

    fn object(&mut self, depth: usize) -> Result<(Node, Value), Error> {
        let start = self.at;
        let mut entries = Vec::new();
        let mut members = Map::new();
        self.at += 1;
        self.skip_gap()?;
        while !self.take("}") {
            let from = self.at;
            let key = self.key()?;
            self.skip_gap()?;
            if !self.take(":") {
                return Err(self.wrong("a `:` is expected after the key"));
            }
            self.skip_gap()?;
            let (value, read) = self.value(depth + 1)?;
            members.insert(key.name.clone(), read);
            let comma = self.comma('}', "a `,` or `}` is expected here")?;
            entries.push(Entry { start: from, key: Some(key), value, comma });
        }
        Ok((Node { start, end: self.at, shape: Shape::Object, entries }, Value::Object(members)))
    }

    fn array(&mut self, depth: usize) -> Result<(Node, Value), Error> {
        let start = self.at;
        let mut entries = Vec::new();
        let mut values = Vec::new();
        self.at += 1;
        self.skip_gap()?;
        while !self.take("]") {
            let (value, read) = self.value(depth + 1)?;
            values.push(read);
            let comma = self.comma(']', "a `,` or `]` is expected here")?;
            entries.push(Entry { start: value.start, key: None, value, comma });
        }
        Ok((Node { start, end: self.at, shape: Shape::Array, entries }, Value::Array(values)))
    }

    /// Moves to what follows an entry; without a comma that must be the closing bracket.
    fn comma(&mut self, close: char, what: &'static str) -> Result<Option<usize>, Error> {
        self.skip_gap()?;
        let comma = self.at;
        if self.take(",") {
            self.skip_gap()?;
            return Ok(Some(comma));
        }
        if self.peek() == Some(close) { Ok(None) } else { Err(self.wrong(what)) }
    }

    fn key(&mut self) -> Result<Key, Error> {
        match self.peek() {
            Some(quote @ ('"' | '\'')) => Ok(Key { name: self.string(quote)?, bare: false }),
            Some(_) => Ok(Key { name: self.identifier()?, bare: true }),
            None => Err(self.wrong("the object is not closed; add a `}`")),
        }
    }

    fn identifier(&mut self) -> Result<String, Error> {
        let mut name = String::new();
        while let Some(c) = self.peek() {
            let at = self.at;
            let mut letter = c;
            if c == '\\' {
                self.at += 1;
                if !self.take("u") {
                    return Err(self.wrong_at(at, "only `\\u` escapes are allowed in a key without quotes; quote it"));
                }
                letter = self.unicode_escape(at)?;
            }
            if !is_letter(letter) && (name.is_empty() || !is_inner(letter)) {
                self.at = at;
                break;
            }
            if c != '\\' {
                self.at += c.len_utf8();
            }
            name.push(letter);
        }
        match (name.is_empty(), self.peek()) {
            (true, _) => Err(self.wrong("a key is expected here; quote it if it is not a plain word")),
            (false, Some('\\')) => Err(self.wrong("this escape is no letter; quote the key")),
            (false, _) => Ok(name),
        }
    }
}

fn is_letter(c: char) -> bool {
    c.is_alphabetic() || c == '_' || c == '$'
}

fn is_inner(c: char) -> bool {
    is_letter(c) || c.is_ascii_digit() || (!c.is_ascii() && !lines::is_space(c))
}
