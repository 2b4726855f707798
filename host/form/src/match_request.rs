//! The way back: which step a request is of, and which values stand in its slots. For whoever plays the rail.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use roxmltree::{Document, Node};

use crate::form::Form;
use crate::json::Json;
use crate::request::RequestTemplate;
use crate::slot::{Piece, Text};
use crate::step::Step;
use crate::template::{Body, Content, JsonTemplate, XmlElement};

/// A request as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived<'r> {
    /// HTTP method in capital letters.
    pub method: &'r str,
    /// Without its query.
    pub path: &'r str,
    /// What follows the question mark, still encoded. Empty where there is none.
    pub query: &'r str,
    /// Names in lower case.
    pub headers: &'r [(String, String)],
    /// Empty where there is none.
    pub body: &'r [u8],
}

/// The values of slots, by the slots as they are written.
pub type SlotValues = BTreeMap<String, String>;

impl Form {
    /// The step that a request is of, and what stands in its slots. None where it is of no step.
    pub fn recognise(&self, arrived: &Arrived<'_>) -> Option<(&Step, SlotValues)> {
        self.steps.values().find_map(|step| Some((step, step.request.as_ref()?.unfill(arrived)?)))
    }
}

impl RequestTemplate {
    fn unfill(&self, arrived: &Arrived<'_>) -> Option<SlotValues> {
        if self.method != arrived.method {
            return None;
        }
        let mut taken = SlotValues::new();
        let segments: Vec<&str> = arrived.path.strip_prefix('/')?.split('/').collect();
        if segments.len() != self.path.len() {
            return None;
        }
        for (text, segment) in self.path.iter().zip(segments) {
            text.unfill(&percent_decode_str(segment).decode_utf8().ok()?, &mut taken)?;
        }
        let given = pairs(arrived.query)?;
        for (name, text) in &self.query {
            optional(
                text,
                given.iter().find(|(known, _)| known == name).map(|(_, value)| value),
                &mut taken,
            )?;
        }
        for (name, text) in &self.headers {
            let value = arrived.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value);
            optional(text, value, &mut taken)?;
        }
        match &self.body {
            Body::None => {}
            Body::Json(template) => template.unfill(Some(&Json::read(arrived.body).ok()?), &mut taken)?,
            Body::Xml(element) => {
                let text = str::from_utf8(arrived.body).ok()?;
                let document = Document::parse(text).ok()?;
                element.unfill(Some(document.root_element()), &mut taken)?;
            }
            Body::Form(template) => {
                let given = pairs(str::from_utf8(arrived.body).ok()?)?;
                for (name, text) in template {
                    let value = given.iter().find(|(known, _)| known == name).map(|(_, value)| value);
                    optional(text, value, &mut taken)?;
                }
            }
        }
        Some(taken)
    }
}

/// Names and values of a query or a form.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned());
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((decoded(name)?, decoded(value)?))
    };
    text.split('&').filter(|text| !text.is_empty()).map(pair).collect()
}

/// What is not there may be left out where the template says so.
fn optional(text: &Text, value: Option<&String>, taken: &mut SlotValues) -> Option<()> {
    match value {
        Some(value) => text.unfill(value, taken),
        None => text.slots().any(|slot| slot.optional).then_some(()),
    }
}

impl Text {
    /// None where the constants are not those of the template.
    fn unfill(&self, filled: &str, taken: &mut SlotValues) -> Option<()> {
        let mut rest = filled;
        for (at, piece) in self.0.iter().enumerate() {
            match piece {
                Piece::Const(constant) => rest = rest.strip_prefix(constant.as_str())?,
                Piece::Slot(slot) => {
                    let until = match self.0.get(at + 1) {
                        Some(Piece::Const(next)) => rest.find(next.as_str())?,
                        Some(Piece::Slot(_)) => return None,
                        None => rest.len(),
                    };
                    taken.insert(slot.text.clone(), rest[..until].to_owned());
                    rest = &rest[until..];
                }
            }
        }
        rest.is_empty().then_some(())
    }
}

impl JsonTemplate {
    fn unfill(&self, json: Option<&Json>, taken: &mut SlotValues) -> Option<()> {
        match (self, json) {
            (_, None) => Some(()),
            (Self::Const(constant), Some(json)) => (constant == json).then_some(()),
            (Self::Text(text), Some(Json::Text(value) | Json::Number(value))) => text.unfill(value, taken),
            (Self::List(templates), Some(Json::List(entries))) => {
                (templates.len() >= entries.len()).then_some(())?;
                templates
                    .iter()
                    .zip(entries)
                    .try_for_each(|(template, entry)| template.unfill(Some(entry), taken).ok_or(()))
                    .ok()
            }
            (Self::Object(members), Some(Json::Object(given))) => {
                let is_known = |(name, _): &(String, Json)| members.iter().any(|(known, _)| known == name);
                given.iter().all(is_known).then_some(())?;
                let find =
                    |name: &String| given.iter().find(|(known, _)| known == name).map(|(_, value)| value);
                members
                    .iter()
                    .try_for_each(|(name, template)| template.unfill(find(name), taken).ok_or(()))
                    .ok()
            }
            _ => None,
        }
    }
}

impl XmlElement {
    fn unfill(&self, node: Option<Node<'_, '_>>, taken: &mut SlotValues) -> Option<()> {
        let Some(node) = node else { return Some(()) };
        if node.tag_name().name() != self.name {
            return None;
        }
        for (name, text) in &self.attributes {
            text.unfill(node.attribute(name.as_str())?, taken)?;
        }
        match &self.content {
            Content::Text(text) => text.unfill(node.text().unwrap_or_default(), taken),
            Content::Elements(elements) => {
                for element in elements {
                    let found = node.children().find(|child| child.tag_name().name() == element.name);
                    element.unfill(found, taken)?;
                }
                Some(())
            }
        }
    }
}
