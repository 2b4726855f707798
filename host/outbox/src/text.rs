//! Text of a guest or a rail, made safe for the database.

use std::borrow::Cow;

use payment::plain;

pub(super) const SHORT_TEXT_CHARS_MAX: usize = 256;

pub(super) const MESSAGE_CHARS_MAX: usize = 2000;

/// What a guest or a rail says is shown to people one day: no control characters, and not more than a history can bear.
pub(super) fn clean(text: &Option<String>, chars_max: usize) -> Option<Cow<'_, str>> {
    text.as_deref().map(|text| clean_text(text, chars_max))
}

pub(super) fn clean_text(text: &str, chars_max: usize) -> Cow<'_, str> {
    let text = plain(text);
    // No more bytes than that are no more characters either.
    match text.len() <= chars_max {
        true => text,
        false => text.chars().take(chars_max).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_guest_loses_its_control_characters_and_its_surplus() {
        assert_eq!(clean_text("a\0b\u{1b}[31mc", 3), "a\u{fffd}b");
        assert_eq!(clean(&Some("äöü".to_owned()), 3).as_deref(), Some("äöü"));
        assert_eq!(clean(&None, 2), None);
    }
}
