//! JSON in which every member has one meaning: an object that names a member twice is refused, for readers disagree on which
//! of the two counts.

use std::collections::HashSet;

use serde_json::Value;

/// Reads a text, and names the first member that stands twice in its object, with the path to it.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|error| format!("is not valid JSON: {error}"))?;
    match ambiguous_member(text) {
        Some(problem) => Err(problem),
        None => Ok(value),
    }
}

/// Where the scan is: inside one object or list.
enum Inside {
    Object {
        seen: HashSet<String>,
        /// The member whose value comes, once its name is read.
        member: Option<String>,
    },
    List(usize),
}

/// Under such names the parser keeps what it read as a number; a member that is called so would become one.
const RESERVED: &str = "$serde_json::private::";

/// Of a text that is valid JSON.
fn ambiguous_member(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut path: Vec<Inside> = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'{' => path.push(Inside::Object { seen: HashSet::new(), member: None }),
            b'[' => path.push(Inside::List(0)),
            b'}' | b']' => drop(path.pop()),
            b',' => match path.last_mut() {
                Some(Inside::Object { member, .. }) => *member = None,
                Some(Inside::List(index)) => *index += 1,
                None => {}
            },
            b'"' => {
                let end = end_of_string(bytes, at);
                if let Some(Inside::Object { seen, member }) = path.last_mut()
                    && member.is_none()
                {
                    let name: String = serde_json::from_str(&text[at..=end]).unwrap_or_default();
                    let problem = if name.starts_with(RESERVED) {
                        Some("has a reserved name")
                    } else {
                        (!seen.insert(name.clone())).then_some("appears twice")
                    };
                    if let Some(problem) = problem {
                        path.pop();
                        return Some(format!("member {name:?}{} {problem}", place(&path)));
                    }
                    *member = Some(name);
                }
                at = end;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The closing quote of the string that opens here.
fn end_of_string(bytes: &[u8], open: usize) -> usize {
    let mut at = open + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len() - 1)
}

fn place(path: &[Inside]) -> String {
    let steps: Vec<String> = path
        .iter()
        .map(|inside| match inside {
            Inside::Object { member, .. } => member.clone().unwrap_or_default(),
            Inside::List(index) => index.to_string(),
        })
        .collect();
    if steps.is_empty() { String::new() } else { format!(" of {}", steps.join(".")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_stands_twice_is_named_at_any_depth() {
        for (text, problem) in [
            (r#"{"amount":"5.00","amount":"900.00"}"#, r#"member "amount" appears twice"#),
            (r#"{"a":{"b":[{},{"c":1,"d":{},"c":2}]}}"#, r#"member "c" of a.b.1 appears twice"#),
            (r#"{"amount":1,"\u0061mount":2}"#, r#"member "amount" appears twice"#),
            (r#"{"x":"\"}","x":1}"#, r#"member "x" appears twice"#),
            (
                r#"{"amount":{"$serde_json::private::Number":"900.00"}}"#,
                r#"member "$serde_json::private::Number" of amount has a reserved name"#,
            ),
        ] {
            assert_eq!(read(text).expect_err(text), problem);
        }
    }

    #[test]
    fn the_same_name_in_different_objects_is_no_ambiguity() {
        for text in [
            r#"{"a":{"x":1},"b":{"x":"x"},"x":["a","a"]}"#,
            r#"[{"x":1},{"x":2}]"#,
            r#""x""#,
            r#"{"a":"{\"a\":1,\"a\":2}"}"#,
        ] {
            assert_eq!(read(text).expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_number_keeps_its_digits() {
        assert_eq!(read(r#"{"amount":10.10}"#).expect("it is good").to_string(), r#"{"amount":10.10}"#);
        assert!(read("{").expect_err("it ends too early").starts_with("is not valid JSON: "));
    }
}
