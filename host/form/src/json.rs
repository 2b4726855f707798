//! JSON, read strictly: what a member means must not depend on who reads it. No parser at hand keeps both what stands twice and
//! numbers as they were written, so this one is our own; it takes no text that `serde_json` refuses (tested).

use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

/// A value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Json {
    /// `null`. What reads a value takes it as not there.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Digit for digit.
    Number(String),
    /// What the text means: its escapes are resolved.
    Text(String),
    /// In the order of the text.
    List(Vec<Json>),
    /// In the order of the text.
    Object(Vec<(String, Json)>),
}

/// Deeper documents are refused: nobody's reply is.
const DEPTH_MAX: usize = 64;

/// Why a text is not read, and at which byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJson {
    at: usize,
    problem: String,
    /// It is JSON, and two readers could read it differently.
    pub is_ambiguous: bool,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "is not valid JSON at byte {}: {}", self.at, self.problem)
    }
}

impl Json {
    /// Reads a whole document. An object that names a member twice is refused, also where the two differ in nothing but case:
    /// readers disagree on which of them counts.
    pub fn read(bytes: &[u8]) -> Result<Self, NotJson> {
        let text = str::from_utf8(bytes).map_err(|error| NotJson {
            at: error.valid_up_to(),
            problem: "not UTF-8".to_owned(),
            is_ambiguous: false,
        })?;
        let mut reader = JsonReader { text, at: 0 };
        reader.skip_space();
        let value = reader.value(0)?;
        reader.skip_space();
        match reader.at == text.len() {
            true => Ok(value),
            false => Err(reader.wrong("expected the end")),
        }
    }

    /// The value at a JSON pointer (RFC 6901), if there is one.
    pub fn at(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        let mut found = self;
        for part in pointer.strip_prefix('/')?.split('/') {
            let name = part.replace("~1", "/").replace("~0", "~");
            found = match found {
                Self::Object(members) => {
                    members.iter().find(|(member, _)| *member == name).map(|(_, v)| v)?
                }
                Self::List(entries) => entries.get(index(&name)?)?,
                _ => return None,
            };
        }
        Some(found)
    }
}

fn index(text: &str) -> Option<usize> {
    let plain = text == "0" || !text.starts_with(['0', '+']);
    plain.then(|| text.parse().ok()).flatten()
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            // Kept as it is, not made a float of.
            Self::Number(digits) => {
                serde_json::Number::from_string_unchecked(digits.clone()).serialize(serializer)
            }
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(entries) => {
                let mut list = serializer.serialize_seq(Some(entries.len()))?;
                for entry in entries {
                    list.serialize_element(entry)?;
                }
                list.end()
            }
            Self::Object(members) => {
                let mut object = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    object.serialize_entry(name, value)?;
                }
                object.end()
            }
        }
    }
}

struct JsonReader<'t> {
    text: &'t str,
    at: usize,
}

impl JsonReader<'_> {
    fn wrong(&self, problem: impl Into<String>) -> NotJson {
        NotJson { at: self.at, problem: problem.into(), is_ambiguous: false }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, NotJson> {
        if depth > DEPTH_MAX {
            return Err(self.wrong(format!("deeper than {DEPTH_MAX}")));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json, NotJson> {
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.wrong("expected a value"))
    }

    fn object(&mut self, depth: usize) -> Result<Json, NotJson> {
        self.at += 1;
        let mut members: Vec<(String, Json)> = Vec::new();
        self.skip_space();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.wrong("expected a member's name"));
            }
            let name = self.string()?;
            if members.iter().any(|(known, _)| folded(known) == folded(&name)) {
                return Err(NotJson { is_ambiguous: true, ..self.wrong("a member appears twice") });
            }
            self.skip_space();
            if !self.take(b':') {
                return Err(self.wrong("expected a colon"));
            }
            self.skip_space();
            let value = self.value(depth + 1)?;
            members.push((name, value));
            self.skip_space();
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.wrong("expected a comma or the end of the object"));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json, NotJson> {
        self.at += 1;
        let mut entries = Vec::new();
        self.skip_space();
        if self.take(b']') {
            return Ok(Json::List(entries));
        }
        loop {
            self.skip_space();
            entries.push(self.value(depth + 1)?);
            self.skip_space();
            if self.take(b']') {
                return Ok(Json::List(entries));
            }
            if !self.take(b',') {
                return Err(self.wrong("expected a comma or the end of the list"));
            }
        }
    }

    fn number(&mut self) -> Result<Json, NotJson> {
        let from = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(Json::Number(self.text[from..self.at].to_owned()))
    }

    fn digits(&mut self) -> Result<(), NotJson> {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        match self.at > from {
            true => Ok(()),
            false => Err(self.wrong("expected a digit")),
        }
    }

    /// From one quote to the next. Its escapes are left to `serde_json`.
    fn string(&mut self) -> Result<String, NotJson> {
        let (from, bytes) = (self.at, self.text.as_bytes());
        self.at += 1;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Err(NotJson { at: from, ..self.wrong("a text without an end") }),
            }
        }
        self.at += 1;
        serde_json::from_str(&self.text[from..self.at])
            .map_err(|_| NotJson { at: from, ..self.wrong("not a JSON text") })
    }
}

fn folded(name: &str) -> String {
    name.to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Json, NotJson> {
        Json::read(text.as_bytes())
    }

    #[test]
    fn numbers_stay_as_they_are_written_and_members_in_their_order() {
        let read = read(r#" {"b": 10.00, "a": [1e3, -0.5, "x\u00e9\n"], "c": {"": null}} "#).expect("JSON");
        assert_eq!(
            serde_json::to_string(&read).expect("written"),
            r#"{"b":10.00,"a":[1e3,-0.5,"xé\n"],"c":{"":null}}"#
        );
        assert_eq!(read.at("/a/1"), Some(&Json::Number("-0.5".to_owned())));
        assert_eq!(read.at("/c/"), Some(&Json::Null));
        for nowhere in ["/a/01", "/a/3", "/a/-1", "/b/x", "/d", "a"] {
            assert_eq!(read.at(nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for text in [
            r#"{"value": 1, "value": 2}"#,
            r#"{"value": 1, "Value": 2}"#,
            r#"{"value": 1, "v\u0061lue": 2}"#,
            r#"{"a": {"k": 1, "\u212a": 2}}"#,
            "{\"a\": 01}",
            "{\"a\": 1.}",
            "{\"a\": .5}",
            "{\"a\": +1}",
            "{\"a\": NaN}",
            "{'a': 1}",
            "{\"a\": 1,}",
            "[1,]",
            "{\"a\": 1} x",
            "{\"a\": \"\\x\"}",
            "{\"a\": \"\\ud800\"}",
            "{\"a\": \"line\nline\"}",
            "\u{feff}{}",
            "",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(Json::read(b"{\"a\": \"\xff\"}").is_err(), "not UTF-8");
        assert!(read(&format!("{}{}", "[".repeat(200), "]".repeat(200))).is_err(), "too deep");
        let reserved = read(r#"{"$serde_json::private::Number": "10.00"}"#).expect("an object");
        assert!(matches!(reserved, Json::Object(_)), "it does not become a number");
    }

    proptest! {
        #[test]
        fn no_text_is_taken_that_serde_json_refuses(text in r#"[\{\}\[\]",:0-9eE.+\-a-c \\u"tfn]{0,24}"#) {
            if let Ok(value) = read(&text) {
                let other: serde_json::Value = serde_json::from_str(&text).expect("it takes it too");
                let again: serde_json::Value =
                    serde_json::from_str(&serde_json::to_string(&value).expect("written")).expect("JSON");
                prop_assert_eq!(again, other);
            }
        }

        #[test]
        fn what_serde_json_writes_is_read_back(name in "\\PC{0,6}", text in any::<String>(), number in any::<i64>()) {
            let written = serde_json::json!({ &name: [text, number, null, true] }).to_string();
            let again = serde_json::to_string(&read(&written).expect("JSON")).expect("written");
            prop_assert_eq!(again, written);
        }
    }
}
