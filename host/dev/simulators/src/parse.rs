//! What arrives, read with other parsers than the host writes and reads with: where the two disagree a test shows it.

use std::borrow::Cow;

use hifijson::value::{Value, parse_unbounded};
use hifijson::{SliceLexer, token::Lex};
use xml::reader::{EventReader, ParserConfig, XmlEvent};

/// A JSON value as it was written: numbers keep their digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// None where it is not valid JSON, or a member stands there twice, whatever its case.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let value = SliceLexer::new(bytes).exactly_one(Lex::ws_peek, parse_unbounded).ok()?;
        Self::of(&value)
    }

    fn of(value: &Value<&str, Cow<'_, str>>) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number((digits, _)) => Self::Number((*digits).to_owned()),
            Value::String(text) => Self::Text(text.to_string()),
            Value::Array(entries) => Self::List(entries.iter().map(Self::of).collect::<Option<_>>()?),
            Value::Object(members) => {
                let mut read: Vec<(String, Self)> = Vec::new();
                for (name, value) in members {
                    if read.iter().any(|(known, _)| known.to_lowercase() == name.to_lowercase()) {
                        return None;
                    }
                    read.push((name.to_string(), Self::of(value)?));
                }
                Self::Object(read)
            }
        })
    }

    /// The member at a path of names.
    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |json, name| match json {
            Self::Object(members) => members.iter().find(|(known, _)| known == name).map(|(_, value)| value),
            _ => None,
        })
    }

    pub(crate) fn text(&self, path: &[&str]) -> Option<&str> {
        match self.at(path)? {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The digits of a number.
    pub(crate) fn number(&self, path: &[&str]) -> Option<&str> {
        match self.at(path)? {
            Self::Number(digits) => Some(digits),
            _ => None,
        }
    }
}

/// An element of an XML document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub name: String,
    pub namespace: Option<String>,
    pub attributes: Vec<(String, String)>,
    /// All of its own text, in one piece.
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    /// The root. The error says what is wrong.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, String> {
        let config = ParserConfig::new()
            .cdata_to_characters(true)
            .ignore_comments(false)
            .max_entity_expansion_depth(1);
        let mut open: Vec<Self> = Vec::new();
        for event in EventReader::new_with_config(bytes, config) {
            match event.map_err(|error| error.to_string())? {
                XmlEvent::StartElement { name, attributes, .. } => open.push(Self {
                    name: name.local_name,
                    namespace: name.namespace,
                    attributes: attributes.into_iter().map(|one| (one.name.local_name, one.value)).collect(),
                    ..Self::default()
                }),
                XmlEvent::Characters(text) | XmlEvent::Whitespace(text) => {
                    if let Some(element) = open.last_mut() {
                        element.text.push_str(&text);
                    }
                }
                XmlEvent::EndElement { .. } => {
                    let Some(ended) = open.pop() else {
                        return Err("an element ends that never began".to_owned());
                    };
                    match open.last_mut() {
                        Some(around) => around.children.push(ended),
                        None => return Ok(ended),
                    }
                }
                XmlEvent::Comment(_) | XmlEvent::ProcessingInstruction { .. } | XmlEvent::Doctype { .. } => {
                    return Err("a comment, an instruction or a DTD, expected none".to_owned());
                }
                XmlEvent::StartDocument { .. } | XmlEvent::EndDocument | XmlEvent::CData(_) => {}
            }
        }
        Err("there is no element".to_owned())
    }

    pub(crate) fn child(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name == name)
    }

    /// The text of the element at a path of names.
    pub(crate) fn text_at(&self, path: &[&str]) -> Option<&str> {
        path.iter().try_fold(self, |element, name| element.child(name)).map(|element| element.text.as_str())
    }

    pub(crate) fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Itself and all within it.
    pub(crate) fn all(&self) -> Vec<&Self> {
        let mut all = vec![self];
        for child in &self.children {
            all.extend(child.all());
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_digits_of_its_numbers_and_has_no_member_twice() {
        let read = Json::read(br#" {"a": {"b": 10.50}, "t": "\u00e4\n"} "#).expect("JSON");
        assert_eq!((read.number(&["a", "b"]), read.text(&["t"])), (Some("10.50"), Some("\u{e4}\n")));
        for bad in [&br#"{"a": 1, "A": 2}"#[..], br#"{"a": 1} x"#, b"{\"a\": 01}", b"", b"{\"a\": \"\xff\"}"]
        {
            assert_eq!(Json::read(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn xml_is_read_with_its_namespaces_and_without_what_hides_in_it() {
        let read = Element::read(b"<a xmlns=\"urn:x\"><b c=\"1\">1<![CDATA[0]]>&amp;</b></a>").expect("XML");
        assert_eq!((read.namespace.as_deref(), read.text_at(&["b"])), (Some("urn:x"), Some("10&")));
        for bad in ["<a><b>1<!-- -->0</b></a>", "<a><?x?></a>", "<!DOCTYPE a><a/>", "<a>", "", "<a></b>"] {
            assert!(Element::read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
