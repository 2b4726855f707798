//! What stands where in a request. Pure functions; two answers are no answer.

use std::cell::OnceCell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A place in a message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// By name, whatever its case.
    Header(String),
    /// A JSON pointer into the body.
    Json(String),
    /// Local names from the root of an XML body, such as `Document/GrpHdr/MsgId`; `@name` at the end means an attribute.
    Xml(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header {name}"),
            Self::Json(pointer) => write!(f, "json {pointer}"),
            Self::Xml(path) => write!(f, "xml {path}"),
        }
    }
}

/// A request as the rules see it.
#[derive(Debug)]
pub(crate) struct Message<'m> {
    pub method: &'m str,
    pub headers: &'m [(String, String)],
    pub body: &'m [u8],
    json: OnceCell<Result<Value, String>>,
}

impl<'m> Message<'m> {
    pub(crate) fn new(method: &'m str, headers: &'m [(String, String)], body: &'m [u8]) -> Self {
        Self { method, headers, body, json: OnceCell::new() }
    }

    fn json(&self) -> Result<&Value, String> {
        self.json.get_or_init(|| json(self.body)).as_ref().map_err(String::clone)
    }
}

/// The one text at a place.
pub(crate) fn find(place: &Place, message: &Message<'_>) -> Result<String, String> {
    let none = || format!("nothing at {place}");
    match place {
        Place::Header(name) => {
            let mut found = message.headers.iter().filter(|(header, _)| header.eq_ignore_ascii_case(name));
            match (found.next(), found.next()) {
                (Some((_, value)), None) => Ok(value.clone()),
                (Some(_), Some(_)) => Err(format!("more than one {place}")),
                (None, _) => Err(none()),
            }
        }
        Place::Json(pointer) => match message.json()?.pointer(pointer) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            _ => Err(none()),
        },
        Place::Xml(path) => in_xml(path, message.body)?.ok_or_else(none),
    }
}

/// A JSON body. One that says a thing twice is refused: host and rail might read different ones of the two.
pub(crate) fn json(body: &[u8]) -> Result<Value, String> {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value =
        Once.deserialize(&mut reader).map_err(|error| format!("the body is no plain JSON: {error}"))?;
    reader.end().map_err(|error| format!("the body is no plain JSON: {error}"))?;
    Ok(value)
}

/// Reads a JSON value in which no object has the same key twice.
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated keys")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Once)? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = serde_json::Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            // With arbitrary precision a number arrives as a map of one entry, whose key no message uses.
            let value = entries.next_value_seed(Once)?;
            if key == "$serde_json::private::Number" {
                let digits = value.as_str().unwrap_or_default();
                return digits.parse().map(Value::Number).map_err(A::Error::custom);
            }
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("{key:?} stands there twice")));
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

fn in_xml(path: &str, body: &[u8]) -> Result<Option<String>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the body is no UTF-8".to_owned())?;
    // Document types, and with them entities, are not read at all.
    let document =
        roxmltree::Document::parse(text).map_err(|error| format!("the body is no plain XML: {error}"))?;
    let (path, attribute) = match path.split_once("/@") {
        Some((path, attribute)) => (path, Some(attribute)),
        None => (path, None),
    };
    let mut nodes = vec![document.root()];
    for name in path.split('/') {
        nodes = nodes
            .iter()
            .flat_map(|node| node.children())
            .filter(|child| child.is_element() && child.tag_name().name() == name)
            .collect();
    }
    match nodes[..] {
        [] => Ok(None),
        [node] => Ok(match attribute {
            Some(name) => node.attribute(name).map(str::to_owned),
            None => node.text().map(|text| text.trim().to_owned()),
        }),
        _ => Err(format!("more than one element at xml {path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(place: Place, body: &str) -> Result<String, String> {
        find(&place, &Message::new("POST", &[], body.as_bytes()))
    }

    #[test]
    fn json_is_read_exactly_and_only_if_it_says_each_thing_once() {
        let at = |pointer: &str, body: &str| found(Place::Json(pointer.into()), body);
        assert_eq!(at("/a/b", r#"{"a": {"b": 10.50}}"#).as_deref(), Ok("10.50"));
        assert_eq!(at("/a", r#"{"a": 12345678901234567890.123}"#).as_deref(), Ok("12345678901234567890.123"));
        assert_eq!(at("/a/1", r#"{"a": ["x", "y"]}"#).as_deref(), Ok("y"));
        assert!(at("/a", r#"{"a": "1", "a": "1000"}"#).expect_err("twice").contains("twice"));
        assert!(
            at("/a", r#"{"a": "1", "b": {"c": 1, "c": 2}}"#).expect_err("twice, deeper").contains("twice")
        );
        assert!(at("/a", r#"{"a": "1"} {"a": "2"}"#).is_err());
        assert!(at("/a", "not json").is_err() && at("/a", r#"{"a": null}"#).is_err());
    }

    #[test]
    fn xml_is_read_by_local_names_and_only_if_there_is_one() {
        let at = |path: &str, body: &str| found(Place::Xml(path.into()), body);
        let body =
            r#"<d:Doc xmlns:d="urn:x"><d:Amt Ccy="ZMW"> 10.50 </d:Amt><d:Id>1</d:Id><d:Id>2</d:Id></d:Doc>"#;
        assert_eq!(at("Doc/Amt", body).as_deref(), Ok("10.50"));
        assert_eq!(at("Doc/Amt/@Ccy", body).as_deref(), Ok("ZMW"));
        assert!(at("Doc/Id", body).expect_err("two").contains("more than one"));
        assert!(at("Doc/None", body).is_err() && at("Amt", body).is_err());
        assert!(at("Doc/Amt", "<!DOCTYPE a [<!ENTITY b \"c\">]><Doc><Amt>&b;</Amt></Doc>").is_err());
    }

    #[test]
    fn a_header_that_stands_twice_is_no_answer() {
        let headers = [("X-Key".to_owned(), "1".to_owned()), ("x-key".to_owned(), "2".to_owned())];
        let message = Message::new("POST", &headers, b"");
        assert!(find(&Place::Header("x-key".into()), &message).expect_err("two").contains("more than one"));
        let message = Message::new("POST", &headers[..1], b"");
        assert_eq!(find(&Place::Header("X-KEY".into()), &message).as_deref(), Ok("1"));
    }
}
