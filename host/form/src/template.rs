//! Bodies with slots in them, parsed into trees when the file is loaded. Values are put in as values and well-known writers
//! write the tree: no text is ever pasted into text.

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use roxmltree::{Document, Node, NodeType};

use crate::json::Json;
use crate::slot::{Slot, Text};

/// Gives the value of a slot; none where it is optional and there is none.
pub(crate) type Fill<'f, E> = &'f mut dyn FnMut(&Slot) -> Result<Option<String>, E>;

/// What a body is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// The request has no body.
    None,
    /// `application/json`, unless the step has a `content-type` of its own.
    Json(JsonTemplate),
    /// `application/xml`, unless the step has a `content-type` of its own.
    Xml(XmlElement),
    /// `application/x-www-form-urlencoded`.
    Form(Vec<(String, Text)>),
}

/// A JSON value whose texts may have slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonTemplate {
    /// Anything without a slot.
    Const(Json),
    /// A text with slots. A number slot makes a JSON number of it.
    Text(Text),
    /// An entry without a value is left out.
    List(Vec<JsonTemplate>),
    /// In the order of the file. A member without a value is left out.
    Object(Vec<(String, JsonTemplate)>),
}

impl JsonTemplate {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match Json::read(text.as_bytes()).map_err(|error| error.to_string())? {
            object @ Json::Object(_) => Self::of(object),
            _ => Err("expected a JSON object".to_owned()),
        }
    }

    fn of(json: Json) -> Result<Self, String> {
        Ok(match json {
            Json::Text(text) => {
                let text = Text::parse(&text)?;
                text.constant()
                    .map_or(Self::Text(text.clone()), |constant| Self::Const(Json::Text(constant.to_owned())))
            }
            Json::List(entries) => {
                let entries = entries.into_iter().map(Self::of).collect::<Result<Vec<_>, _>>()?;
                let may_vanish = |entry: &Self| matches!(entry, Self::Text(text) if text.slots().any(|slot| slot.optional));
                match entries.len() > 1 && entries.iter().any(may_vanish) {
                    true => {
                        return Err(
                            "a list has an optional entry; without it the other entries would change position".to_owned()
                        );
                    }
                    false => Self::List(entries),
                }
            }
            Json::Object(members) => {
                if let Some((name, _)) = members.iter().find(|(name, _)| name.contains(['{', '}'])) {
                    return Err(format!("member {name:?} has a brace in its name, expected a constant"));
                }
                let member = |(name, value)| Ok::<_, String>((name, Self::of(value)?));
                Self::Object(members.into_iter().map(member).collect::<Result<_, _>>()?)
            }
            other => Self::Const(other),
        })
    }

    /// None where an optional value is all that it held.
    pub(crate) fn fill<E>(&self, value: Fill<'_, E>) -> Result<Option<Json>, E> {
        Ok(match self {
            Self::Const(json) => Some(json.clone()),
            Self::Text(text) => text.fill(value, str::to_owned)?.map(|filled| match text.is_number() {
                true => Json::Number(filled),
                false => Json::Text(filled),
            }),
            Self::List(entries) => {
                let mut filled = Vec::new();
                for entry in entries {
                    filled.extend(entry.fill(value)?);
                }
                (!filled.is_empty() || entries.is_empty()).then_some(Json::List(filled))
            }
            Self::Object(members) => {
                let mut filled = Vec::new();
                for (name, member) in members {
                    filled.extend(member.fill(value)?.map(|json| (name.clone(), json)));
                }
                (!filled.is_empty() || members.is_empty()).then_some(Json::Object(filled))
            }
        })
    }

    /// Every text with slots, and the path to it.
    pub(crate) fn all_texts(&self) -> Vec<(String, &Text)> {
        let mut texts = Vec::new();
        self.texts("json", &mut texts);
        texts
    }

    fn texts<'t>(&'t self, path: &str, into: &mut Vec<(String, &'t Text)>) {
        match self {
            Self::Const(_) => {}
            Self::Text(text) => into.push((path.to_owned(), text)),
            Self::List(entries) => {
                for (at, entry) in entries.iter().enumerate() {
                    entry.texts(&format!("{path}/{at}"), into);
                }
            }
            Self::Object(members) => {
                for (name, member) in members {
                    member.texts(&format!("{path}/{name}"), into);
                }
            }
        }
    }

    /// Every constant, and the path to it.
    fn constants(&self, path: &str, into: &mut Vec<(String, String)>) {
        match self {
            Self::Const(json) => {
                into.push((path.to_owned(), serde_json::to_string(json).unwrap_or_default()))
            }
            Self::Text(_) => {}
            Self::List(entries) => {
                for (at, entry) in entries.iter().enumerate() {
                    entry.constants(&format!("{path}/{at}"), into);
                }
            }
            Self::Object(members) => {
                for (name, member) in members {
                    member.constants(&format!("{path}/{name}"), into);
                }
            }
        }
    }
}

/// An element of a message. Its namespace is written wherever it differs from that of the element around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XmlElement {
    pub(crate) name: String,
    namespace: Option<String>,
    pub(crate) attributes: Vec<(String, Text)>,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content {
    Text(Text),
    Elements(Vec<XmlElement>),
}

impl XmlElement {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let document = Document::parse(text.trim()).map_err(|error| format!("is not valid XML: {error}"))?;
        if document.root().children().count() != 1 {
            return Err("expected one element and neither comments nor instructions".to_owned());
        }
        Self::of(document.root_element())
    }

    fn of(node: Node<'_, '_>) -> Result<Self, String> {
        let name = node.tag_name().name().to_owned();
        let wrong = |problem: &str| format!("element {name}: {problem}");
        let mut attributes = Vec::new();
        for attribute in node.attributes() {
            if attribute.namespace().is_some() {
                return Err(wrong("an attribute has a prefix, expected none"));
            }
            let text = Text::parse(attribute.value()).map_err(|problem| wrong(&problem))?;
            attributes.push((attribute.name().to_owned(), text));
        }
        let mut elements = Vec::new();
        let mut own = String::new();
        for child in node.children() {
            match child.node_type() {
                NodeType::Element => elements.push(Self::of(child)?),
                NodeType::Text => own.push_str(child.text().unwrap_or_default()),
                _ => return Err(wrong("a comment or an instruction, expected elements and texts")),
            }
        }
        let content = match (elements.is_empty(), own.trim()) {
            (false, "") => Content::Elements(elements),
            (false, _) => {
                return Err(wrong("an element has both text and child elements; expected one of the two"));
            }
            (true, text) => Content::Text(Text::parse(text).map_err(|problem| wrong(&problem))?),
        };
        let namespace = node.tag_name().namespace().map(str::to_owned);
        let element = Self { namespace, name: name.clone(), attributes, content };
        let has_values = element.attributes.iter().any(|(_, text)| text.constant().is_none());
        match element.may_vanish() && has_values {
            true => {
                Err(wrong("it is left out where it has no content, and values in its attributes with it"))
            }
            false => Ok(element),
        }
    }

    /// Nothing may be left of it.
    fn may_vanish(&self) -> bool {
        match &self.content {
            Content::Text(text) => text.slots().any(|slot| slot.optional),
            Content::Elements(elements) => elements.iter().all(Self::may_vanish),
        }
    }

    pub(crate) fn fill<E>(&self, value: Fill<'_, E>) -> Result<Vec<u8>, E> {
        let mut writer = Writer::new(Vec::new());
        let filled = self.filled(value)?;
        write(&mut writer, Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
        if let Some(filled) = filled {
            filled.write(&mut writer, None);
        }
        Ok(writer.into_inner())
    }

    /// None where optional values are all that it held.
    fn filled<E>(&self, value: Fill<'_, E>) -> Result<Option<Filled<'_>>, E> {
        let mut attributes = Vec::new();
        for (name, text) in &self.attributes {
            attributes.extend(text.fill(value, str::to_owned)?.map(|filled| (name.as_str(), filled)));
        }
        let content = match &self.content {
            Content::Text(text) => match text.fill(value, str::to_owned)? {
                Some(filled) => FilledContent::Text(filled),
                None => return Ok(None),
            },
            Content::Elements(elements) => {
                let mut filled = Vec::new();
                for element in elements {
                    filled.extend(element.filled(value)?);
                }
                if filled.is_empty() {
                    return Ok(None);
                }
                FilledContent::Elements(filled)
            }
        };
        Ok(Some(Filled { element: self, attributes, content }))
    }

    fn texts<'t>(&'t self, path: &str, into: &mut Vec<(String, &'t Text)>) {
        for (name, text) in &self.attributes {
            into.push((format!("{path}/@{name}"), text));
        }
        match &self.content {
            Content::Text(text) => into.push((path.to_owned(), text)),
            Content::Elements(elements) => {
                for (at, element) in elements.iter().enumerate() {
                    let before = elements[..at].iter().filter(|other| other.name == element.name).count();
                    let number = if before > 0 { format!("[{}]", before + 1) } else { String::new() };
                    element.texts(&format!("{path}/{}{number}", element.name), into);
                }
            }
        }
    }
}

struct Filled<'e> {
    element: &'e XmlElement,
    attributes: Vec<(&'e str, String)>,
    content: FilledContent<'e>,
}

enum FilledContent<'e> {
    Text(String),
    Elements(Vec<Filled<'e>>),
}

impl Filled<'_> {
    fn write(&self, writer: &mut Writer<Vec<u8>>, around: Option<&str>) {
        let namespace = self.element.namespace.as_deref();
        let mut start = BytesStart::new(self.element.name.as_str());
        if namespace != around {
            start.push_attribute(("xmlns", namespace.unwrap_or_default()));
        }
        for (name, value) in &self.attributes {
            start.push_attribute((*name, value.as_str()));
        }
        write(writer, Event::Start(start));
        match &self.content {
            FilledContent::Text(text) => write(writer, Event::Text(BytesText::new(text))),
            FilledContent::Elements(elements) => {
                elements.iter().for_each(|element| element.write(writer, namespace));
            }
        }
        write(writer, Event::End(BytesEnd::new(self.element.name.as_str())));
    }
}

/// Into memory, which takes everything.
fn write(writer: &mut Writer<Vec<u8>>, event: Event<'_>) {
    writer.write_event(event).expect("a vector takes all that is written");
}

impl Body {
    /// Every text with slots, and where it stands.
    pub(crate) fn texts(&self) -> Vec<(String, &Text)> {
        let mut texts = Vec::new();
        match self {
            Self::None => {}
            Self::Json(template) => template.texts("json", &mut texts),
            Self::Xml(element) => element.texts(&format!("xml/{}", element.name), &mut texts),
            Self::Form(pairs) => {
                texts.extend(pairs.iter().map(|(name, text)| (format!("form.{name}"), text)));
            }
        }
        texts
    }

    /// Every constant that is not a text with slots, and where it stands.
    pub(crate) fn constants(&self) -> Vec<(String, String)> {
        let mut constants = Vec::new();
        if let Self::Json(template) = self {
            template.constants("json", &mut constants);
        }
        constants
    }

    pub(crate) fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Json(_) => Some("application/json"),
            Self::Xml(_) => Some("application/xml"),
            Self::Form(_) => Some("application/x-www-form-urlencoded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(slot: &Slot) -> Result<Option<String>, String> {
        Ok(match slot.text.as_str() {
            "{currency}" => Some("Z\"M<W&>'".to_owned()),
            "{amount:number}" => Some("10.50".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn values_are_put_into_json_as_values() {
        let template = JsonTemplate::parse(
            r#"{"amount": "{amount:number}", "note": "{narrative?}", "payee": {"name": "{destination.name?}"},
                "currency": "in {currency}", "fixed": [1.0, null, "{{}}"], "empty": {}}"#,
        )
        .expect("a template");
        let filled = template.fill(&mut values).expect("filled").expect("not empty");
        assert_eq!(
            serde_json::to_string(&filled).expect("written"),
            r#"{"amount":10.50,"currency":"in Z\"M<W&>'","fixed":[1.0,null,"{}"],"empty":{}}"#
        );
    }

    #[test]
    fn values_are_put_into_xml_as_values() {
        let element = XmlElement::parse(
            "<Document xmlns=\"urn:x\"><Amt Ccy=\"{currency}\">{currency}</Amt>\n <Nm>{narrative?}</Nm>\
             <To><Id>{destination.name?}</Id></To><Other xmlns=\"urn:y\"><In>1</In></Other></Document>",
        )
        .expect("a template");
        assert_eq!(
            String::from_utf8(element.fill(&mut values).expect("filled")).expect("UTF-8"),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Document xmlns=\"urn:x\">\
             <Amt Ccy=\"Z&quot;M&lt;W&amp;&gt;&apos;\">Z&quot;M&lt;W&amp;&gt;&apos;</Amt>\
             <Other xmlns=\"urn:y\"><In>1</In></Other></Document>"
        );
    }

    #[test]
    fn a_template_that_is_not_plain_is_refused() {
        for (text, problem) in [
            ("[1]", "expected a JSON object"),
            ("{\"a\": 1, \"A\": 2}", "twice"),
            ("{\"{key:uuid}\": 1}", "brace in its name"),
            ("{\"a\": \"{unknown}\"}", "{unknown} is not a known slot"),
        ] {
            assert!(JsonTemplate::parse(text).expect_err(text).contains(problem), "{text}");
        }
        for (text, problem) in [
            ("<a><!-- x --></a>", "a comment"),
            ("<a>x<b/></a>", "an element has both text and child elements; expected one of the two"),
            ("<a xmlns:p=\"u\" p:b=\"1\"/>", "prefix"),
            ("<a>{unknown}</a>", "{unknown} is not a known slot"),
            ("<!DOCTYPE a><a/>", "not valid XML"),
            ("<a/><b/>", "not valid XML"),
        ] {
            assert!(XmlElement::parse(text).expect_err(text).contains(problem), "{text}");
        }
    }
}
