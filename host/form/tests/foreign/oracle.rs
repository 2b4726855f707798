//! What the approved body says with a payment in it, worked out without the host's own code.

use payment::Instruction;
use serde_json::Value;

use crate::case::Case;
use crate::rail::Rail;

/// Place and text, as the readers tell them. No text: nobody here can know it.
pub(crate) type Places = Vec<(String, Option<String>)>;

/// What the approved body says with this payment in it.
pub(crate) fn approved(rail: &Rail, step: &toml::Value, case: &Case, payment: &Instruction) -> Places {
    let mut places = Vec::new();
    let mut put = |place: String, text: &str| match case.filled(text, payment, rail) {
        Ok(Some(filled)) => places.push((place, Some(filled))),
        Ok(None) => {}
        Err(()) => places.push((place, None)),
    };
    if let Some(text) = step.get("json") {
        let tree: Value = serde_json::from_str(text.as_str().expect("a text")).expect("JSON");
        json_places(&tree, String::new(), &mut put);
    } else if let Some(text) = step.get("xml") {
        let document = roxmltree::Document::parse(text.as_str().expect("a text").trim()).expect("XML");
        xml_places(document.root_element(), "", &mut put);
    } else if let Some(pairs) = step.get("form") {
        for (name, text) in pairs.as_table().expect("a table") {
            put(format!("/{name}"), text.as_str().expect("a text"));
        }
    }
    places.sort();
    places
}

fn json_places(tree: &Value, place: String, put: &mut impl FnMut(String, &str)) {
    match tree {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| json_places(member, format!("{place}/{name}"), put))
        }
        Value::Array(entries) => {
            entries
                .iter()
                .enumerate()
                .for_each(|(at, entry)| json_places(entry, format!("{place}/{at}"), put));
        }
        Value::String(text) => put(place, text),
        other => put(place, &other.to_string()),
    }
}

fn xml_places(node: roxmltree::Node<'_, '_>, around: &str, put: &mut impl FnMut(String, &str)) {
    let place = format!("{around}/{}", node.tag_name().name());
    for attribute in node.attributes() {
        put(format!("{place}/@{}", attribute.name()), attribute.value());
    }
    let mut children = node.children().filter(roxmltree::Node::is_element).peekable();
    if children.peek().is_none() {
        put(place.clone(), node.text().unwrap_or_default().trim());
    }
    children.for_each(|child| xml_places(child, &place, put));
}

/// Whether what a reader found is what was approved.
pub(crate) fn agrees(found: &Value, approved: &Places) -> bool {
    let Some(found) = found.as_array() else { return false };
    let mut found: Vec<(String, Value)> =
        found.iter().map(|pair| (pair[0].as_str().unwrap_or_default().to_owned(), pair[1].clone())).collect();
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found.len() == approved.len()
        && found.iter().zip(approved).all(|((place, text), (wanted_place, wanted))| {
            let same = |wanted: &String| match text {
                Value::String(text) => text == wanted,
                Value::Number(number) => number.as_f64() == wanted.parse().ok(),
                _ => false,
            };
            place == wanted_place && wanted.as_ref().is_none_or(same)
        })
}
