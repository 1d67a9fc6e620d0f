//! Strings and numbers as JSON5 writes them, read as the json5 crate reads them.
//! Keeps true: what serde_json cannot hold (`Infinity`, `NaN`) is null, and whole numbers past 64 bits are floating, as through serde.

use crate::error::Error;
use crate::lines;
use crate::scan::Scanner;
use serde_json::{Number, Value};

const BAD_ESCAPE: &str = "this escape is unknown; write `\\\\` for a backslash";
const BAD_NUMBER: &str = "this is no number; texts need quotes";

impl Scanner<'_> {
    /// The string that begins here with this quote.
    pub fn string(&mut self, quote: char) -> Result<String, Error> {
        let start = self.at;
        let mut string = String::new();
        self.at += 1;
        loop {
            let at = self.at;
            match self.next() {
                None => return Err(self.wrong_at(start, "the string is not closed; add its quote")),
                Some('\n' | '\r') => {
                    return Err(self.wrong_at(at, "a string ends on its line; close it, or end the line with `\\`"));
                }
                Some('\\') => string.extend(self.escape(at)?),
                Some(c) if c == quote => return Ok(string),
                Some(c) => string.push(c),
            }
        }
    }

    /// What follows a backslash; nothing for a line that goes on.
    fn escape(&mut self, at: usize) -> Result<Option<char>, Error> {
        let Some(c) = self.next() else { return Err(self.wrong_at(at, BAD_ESCAPE)) };
        Ok(Some(match c {
            '\r' => {
                self.take("\n");
                return Ok(None);
            }
            _ if lines::is_line_end(c) => return Ok(None),
            'b' => '\u{8}',
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            '0' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => '\0',
            '0'..='9' => return Err(self.wrong_at(at, BAD_ESCAPE)),
            'x' => char::from_u32(self.hex_digits(2, at)?).ok_or_else(|| self.wrong_at(at, BAD_ESCAPE))?,
            'u' => self.unicode_escape(at)?,
            other => other,
        }))
    }

    /// The digits after `\u`, and those of a second `\u` if the two are one character.
    pub fn unicode_escape(&mut self, at: usize) -> Result<char, Error> {
        let first = self.hex_digits(4, at)?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        let half = "this escape is half a character; write both halves, the first one first";
        if !(0xd800..0xdc00).contains(&first) || !self.take("\\u") {
            return Err(self.wrong_at(at, half));
        }
        let second = self.hex_digits(4, at)?;
        let low = second.checked_sub(0xdc00).filter(|low| *low < 0x400).ok_or_else(|| self.wrong_at(at, half))?;
        char::from_u32(0x10000 + ((first - 0xd800) << 10) + low).ok_or_else(|| self.wrong_at(at, half))
    }

    fn hex_digits(&mut self, count: usize, at: usize) -> Result<u32, Error> {
        let mut number = 0;
        for _ in 0..count {
            let digit = self.next().and_then(|c| c.to_digit(16)).ok_or_else(|| self.wrong_at(at, BAD_ESCAPE))?;
            number = number * 16 + digit;
        }
        Ok(number)
    }

    pub fn number(&mut self) -> Result<Value, Error> {
        let start = self.at;
        let negative = self.peek() == Some('-');
        if negative || self.peek() == Some('+') {
            self.at += 1;
        }
        if self.take("Infinity") || self.take("NaN") {
            return Ok(Value::Null);
        }
        if self.take("0x") || self.take("0X") {
            return self.hex_number(negative, start);
        }
        let digits = self.at;
        while self.peek().is_some_and(|c| matches!(c, '+' | '-' | '.' | 'e' | 'E' | '0'..='9')) {
            self.at += 1;
        }
        let mut begin = self.text[digits..self.at].chars();
        match (begin.next(), begin.next()) {
            (Some('0'), Some('0'..='9')) => {
                return Err(self.wrong_at(start, "a number begins with no extra zero; remove it"));
            }
            (Some('.' | '0'..='9'), _) => (),
            _ => return Err(self.wrong_at(start, BAD_NUMBER)),
        }
        let word = &self.text[start..self.at];
        match word.parse::<i128>() {
            Ok(whole) => Ok(number(whole)),
            Err(_) => word.parse::<f64>().map(floating).map_err(|_| self.wrong_at(start, BAD_NUMBER)),
        }
    }

    fn hex_number(&mut self, negative: bool, start: usize) -> Result<Value, Error> {
        let digits = self.at;
        while self.peek().is_some_and(|c| c.is_ascii_hexdigit()) {
            self.at += 1;
        }
        let whole = u128::from_str_radix(&self.text[digits..self.at], 16)
            .map_err(|_| self.wrong_at(start, "a hexadecimal number has 1 to 32 digits after `0x`"))?;
        match i128::try_from(whole) {
            Ok(whole) => Ok(number(if negative { -whole } else { whole })),
            Err(_) => Ok(floating(if negative { -(whole as f64) } else { whole as f64 })),
        }
    }
}

fn number(whole: i128) -> Value {
    match (u64::try_from(whole), i64::try_from(whole)) {
        (Ok(whole), _) => Value::from(whole),
        (_, Ok(whole)) => Value::from(whole),
        _ => floating(whole as f64),
    }
}

fn floating(float: f64) -> Value {
    Number::from_f64(float).map_or(Value::Null, Value::Number)
}
