//! A reply's body, and what stands where in it. What is there twice, or is not a plain text, is not read.

use payment::{Instruction, KeyForm};
use roxmltree::{Document, Node};

use crate::json::Json;
use crate::reply_file::Format;

/// A JSON pointer, or a path of element names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Path {
    Json(String),
    Xml { anywhere: bool, names: Vec<String> },
}

pub(crate) fn is_blank(body: &[u8]) -> bool {
    body.trim_ascii().is_empty()
}

pub(crate) fn is_key(text: &str, payment: &Instruction, form: KeyForm) -> bool {
    let key = payment.key.form(form);
    match form {
        KeyForm::Uuid | KeyForm::Hex | KeyForm::Hex32 => text.eq_ignore_ascii_case(&key),
        _ => text == key,
    }
}

impl Path {
    pub(crate) fn parse(format: Format, text: &str) -> Result<Self, String> {
        match format {
            Format::Json if text.is_empty() || text.starts_with('/') => Ok(Self::Json(text.to_owned())),
            Format::Json => Err(format!("{text:?} is not a JSON pointer; example: /status/code")),
            Format::Xml => {
                let (anywhere, names) = match text.strip_prefix("//") {
                    Some(names) => (true, names),
                    None => (false, text.strip_prefix('/').unwrap_or(text)),
                };
                let names: Vec<String> = names.split('/').map(str::to_owned).collect();
                let sound = |name: &String| !name.is_empty() && !name.contains(['@', ':', '*', '[']);
                match names.iter().all(sound) {
                    true => Ok(Self::Xml { anywhere, names }),
                    false => Err(format!("{text:?} is not a path; example: /Document/Status or //Status")),
                }
            }
            Format::Text | Format::None => {
                Err(format!("{text:?} is a path, but this kind of body has no paths"))
            }
        }
    }
}

pub(crate) enum Doc<'d> {
    Nothing,
    Json(&'d Json),
    Xml(&'d Document<'d>),
    Text(&'d str),
}

impl<'d> Doc<'d> {
    /// The one value there, if there is one.
    pub(crate) fn one(&self, path: &Path) -> Result<Option<String>, String> {
        let mut all = self.all(path)?.into_iter();
        match (all.next(), all.next()) {
            (_, Some(_)) => Err(format!("{} appears more than once", path.last())),
            (found, None) => Ok(found),
        }
    }

    pub(crate) fn all(&self, path: &Path) -> Result<Vec<String>, String> {
        match (self, path) {
            (Self::Json(json), Path::Json(pointer)) => match json.at(pointer) {
                Some(found) => Ok(scalar(pointer, found)?.into_iter().collect()),
                None if crosses_list(json, pointer) => Err(format!("{pointer} leads into a list")),
                None => Ok(Vec::new()),
            },
            (Self::Xml(document), path @ Path::Xml { .. }) => {
                elements(document, path).into_iter().map(text_of).collect()
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Texts and numbers there: a truth value in the place of a key says that there is none.
    pub(crate) fn keys(&self, path: &Path) -> Result<Vec<String>, String> {
        match (self, path) {
            (Self::Json(json), Path::Json(pointer)) if matches!(json.at(pointer), Some(Json::Bool(_))) => {
                Ok(Vec::new())
            }
            _ => self.all(path),
        }
    }

    pub(crate) fn count(&self, path: &Path) -> Result<Option<usize>, String> {
        match (self, path) {
            (Self::Json(json), Path::Json(pointer)) => match json.at(pointer) {
                Some(Json::List(entries)) => Ok(Some(entries.len())),
                Some(_) => Err(format!("{pointer} is not a list")),
                None => Ok(None),
            },
            (Self::Xml(document), path @ Path::Xml { .. }) => Ok(Some(elements(document, path).len())),
            _ => Ok(None),
        }
    }

    pub(crate) fn whole(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    pub(crate) fn pick(
        &self,
        from: &Path,
        by: &Path,
        form: KeyForm,
        payment: &Instruction,
    ) -> Result<Option<&'d Json>, String> {
        let (Self::Json(json), Path::Json(from), Path::Json(by)) = (self, from, by) else {
            return Err("there is no list".to_owned());
        };
        let Some(Json::List(entries)) = json.at(from) else { return Err(format!("{from} is not a list")) };
        let mut ours = Vec::new();
        for entry in entries {
            let key = entry.at(by).map(|found| scalar(by, found)).transpose()?.flatten();
            if key.is_some_and(|key| is_key(&key, payment, form)) {
                ours.push(entry);
            }
        }
        match ours[..] {
            [] if entries.is_empty() => Ok(None),
            [] => Err("no entry of the list is clearly this payment's".to_owned()),
            [entry] => Ok(Some(entry)),
            _ => Err("the list has more than one entry for this payment".to_owned()),
        }
    }

    /// Elements that decide stand only where the file looks for them.
    pub(crate) fn only_at(&self, paths: &[Path]) -> Result<(), String> {
        let Self::Xml(document) = self else { return Ok(()) };
        for path in paths {
            let (found, name) = (elements(document, path), path.last());
            let named =
                document.descendants().filter(|node| node.is_element() && node.tag_name().name() == name);
            if found.len() > 1 {
                return Err(format!("{name} appears more than once"));
            }
            if named.count() > found.len() {
                return Err(format!("{name} is in the wrong place"));
            }
        }
        Ok(())
    }
}

impl Path {
    pub(crate) fn last(&self) -> &str {
        match self {
            Self::Json(pointer) => pointer,
            Self::Xml { names, .. } => names.last().map_or("", String::as_str),
        }
    }
}

/// Several entries stand where the file expects one object.
fn crosses_list(json: &Json, pointer: &str) -> bool {
    pointer.match_indices('/').any(|(at, _)| {
        let next = pointer[at + 1..].split('/').next().unwrap_or_default();
        let is_index = !next.is_empty() && next.bytes().all(|byte| byte.is_ascii_digit());
        !is_index && matches!(json.at(&pointer[..at]), Some(Json::List(entries)) if !entries.is_empty())
    })
}

/// A text, a number or a truth value, as it is written. Null, and what is empty, is not there.
fn scalar(pointer: &str, json: &Json) -> Result<Option<String>, String> {
    Ok(match json {
        Json::Null => None,
        Json::Bool(value) => Some(value.to_string()),
        Json::Number(digits) => Some(digits.clone()),
        Json::Text(text) => Some(text.clone()).filter(|text| !text.is_empty()),
        Json::List(entries) if entries.is_empty() => None,
        Json::Object(members) if members.is_empty() => None,
        Json::List(_) | Json::Object(_) => return Err(format!("{pointer} is not a text or a number")),
    })
}

/// Whatever their prefix, in the namespace of the root.
fn elements<'d>(document: &'d Document<'d>, path: &Path) -> Vec<Node<'d, 'd>> {
    let Path::Xml { anywhere, names } = path else { return Vec::new() };
    let root = document.root_element();
    let named = |node: &Node<'_, '_>, name: &str| {
        node.is_element()
            && node.tag_name().name() == name
            && node.tag_name().namespace() == root.tag_name().namespace()
    };
    let Some((first, rest)) = names.split_first() else { return Vec::new() };
    let mut found: Vec<Node<'d, 'd>> = match anywhere {
        true => root.descendants().filter(|node| named(node, first)).collect(),
        false => Some(root).filter(|node| named(node, first)).into_iter().collect(),
    };
    for name in rest {
        found = found.iter().flat_map(Node::children).filter(|node| named(node, name)).collect();
    }
    found
}

/// All of it in one piece: other parsers read differently what a comment divides.
fn text_of(node: Node<'_, '_>) -> Result<String, String> {
    let name = node.tag_name().name();
    let mut children = node.children();
    let (only, None) = (children.next(), children.next()) else {
        return Err(format!("{name} is not a plain text"));
    };
    let text = only.filter(Node::is_text).and_then(|only| only.text()).map(str::trim).unwrap_or_default();
    match text.is_empty() {
        true => Err(format!("{name} is empty")),
        false => Ok(text.to_owned()),
    }
}
