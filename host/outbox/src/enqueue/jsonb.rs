//! A payload as PostgreSQL prints it once it is `jsonb`: that is what it measures, and what makes two requests the same.

use serde_json::Value;

const PAYLOAD_BYTES_MAX: usize = 65_536;

/// What `numeric` keeps behind the point, and up to where it reads an exponent.
const DECIMALS_MAX: i64 = 16_383;
const EXPONENT_MAX: i64 = i32::MAX as i64 / 2;

/// Members in the order of their length and then their bytes, a blank after each colon and comma, numbers without exponents.
/// The error says why the database would not take it.
pub(super) fn text(value: &Value) -> Result<String, String> {
    let mut text = String::new();
    write(value, &mut text)?;
    Ok(text)
}

fn write(value: &Value, text: &mut String) -> Result<(), String> {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| (name.len(), *name));
            text.push('{');
            for (place, (name, value)) in members.into_iter().enumerate() {
                text.push_str(if place == 0 { "" } else { ", " });
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push_str(": ");
                write(value, text)?;
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                text.push_str(if place == 0 { "" } else { ", " });
                write(item, text)?;
            }
            text.push(']');
        }
        Value::Number(number) => text.push_str(&decimal(&number.to_string())?),
        // Both escape the same characters in the same way.
        Value::Null | Value::Bool(_) | Value::String(_) => text.push_str(&value.to_string()),
    }
    // Looked at again and again: a few digits of an exponent would fill any memory.
    match text.len() > PAYLOAD_BYTES_MAX {
        true => Err(too_long()),
        false => Ok(()),
    }
}

/// All digits of a number, and as many decimals as it was written with.
fn decimal(number: &str) -> Result<String, String> {
    let unsigned = number.strip_prefix('-').unwrap_or(number);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i64 = exponent.parse().unwrap_or(i64::MAX);
    if !(-EXPONENT_MAX + 1..EXPONENT_MAX).contains(&exponent) {
        return Err(too_precise());
    }
    let shift = exponent - fraction.len() as i64;
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let (zeros, decimals) = (if digits.is_empty() { 0 } else { shift.max(0) }, (-shift).max(0));
    if decimals > DECIMALS_MAX {
        return Err(too_precise());
    }
    if zeros > PAYLOAD_BYTES_MAX as i64 {
        return Err(too_long());
    }
    let sign = if number.starts_with('-') && !digits.is_empty() { "-" } else { "" };
    let (zeros, decimals) = (zeros as usize, decimals as usize);
    // At least one digit before the point.
    let digits = format!("{digits}{}", "0".repeat(zeros));
    let digits = format!("{digits:0>width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    Ok(match decimals {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    })
}

fn too_long() -> String {
    format!(
        "has more than {PAYLOAD_BYTES_MAX} bytes as PostgreSQL prints it, expected {PAYLOAD_BYTES_MAX} at most"
    )
}

fn too_precise() -> String {
    "has a number that PostgreSQL cannot keep".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(json: &str) -> Result<String, String> {
        text(&serde_json::from_str(json).expect("JSON"))
    }

    #[test]
    fn a_payload_is_printed_as_postgresql_does() {
        for (json, expected) in [
            (r#"{"bb":1,"a":2,"ab":3,"é":1,"":0}"#, r#"{"": 0, "a": 2, "ab": 3, "bb": 1, "é": 1}"#),
            (r#"[1,[2,{"a":null}],true,false,[],{}]"#, r#"[1, [2, {"a": null}], true, false, [], {}]"#),
            (
                "\"a\\u0001\\u001f\\u007f\\b\\f\\n\\r\\t\\\"\\\\\\/é\"",
                "\"a\\u0001\\u001f\u{7f}\\b\\f\\n\\r\\t\\\"\\\\/é\"",
            ),
            ("[0.10,12.500e1,1.50e1,1e2,1E+2]", "[0.10, 125.00, 15.0, 100, 100]"),
            ("[-0,-0.0,0e5,0.0e1,0e-5,-0e-3]", "[0, 0.0, 0, 0, 0.00000, 0.000]"),
            ("[1.5e-3,-1e-2,100e-2,9007199254740993.01]", "[0.0015, -0.01, 1.00, 9007199254740993.01]"),
        ] {
            assert_eq!(printed(json).as_deref(), Ok(expected), "{json}");
        }
    }

    #[test]
    fn what_would_fill_the_memory_or_is_beyond_a_number_is_refused() {
        for json in ["1e65536", "[1e40000,1e40000]", "1e131072"] {
            assert_eq!(printed(json), Err(too_long()), "{json}");
        }
        for json in ["1e-16384", "0e-16384", "1e9999999999", "-1e-99999999999999999999"] {
            assert_eq!(printed(json), Err(too_precise()), "{json}");
        }
        assert_eq!(printed("1e-16383").map(|text| text.len()), Ok(16_385));
        assert_eq!(printed("1e65535").map(|text| text.len()), Ok(65_536));
    }
}
