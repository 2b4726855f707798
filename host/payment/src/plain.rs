use std::borrow::Cow;

/// Stands where a character was that must not be shown.
const REPLACEMENT: char = '\u{fffd}';

/// A text as it may be shown and stored: without characters that a terminal would obey, that turn the direction of what
/// follows, or that end a line. Each becomes U+FFFD.
pub fn plain(text: &str) -> Cow<'_, str> {
    match text.contains(is_unsafe) {
        true => Cow::Owned(text.replace(is_unsafe, REPLACEMENT.encode_utf8(&mut [0; 4]))),
        false => Cow::Borrowed(text),
    }
}

/// A control character, one that changes the direction of the text after it, or a separator of lines.
pub fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(
            char,
            '\u{061c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_control_characters_stays_as_it_is() {
        assert!(matches!(plain("Zürich, 12.50 ZMW, ናይሮቢ"), Cow::Borrowed("Zürich, 12.50 ZMW, ናይሮቢ")));
    }

    #[test]
    fn control_and_bidi_characters_are_replaced() {
        let hostile = "\u{1b}[31mred\u{7}\u{9b}2J\r\n\u{202e}lanigiro\u{2066}\u{200f}\u{7f}\u{2028}";
        assert_eq!(
            plain(hostile),
            "\u{fffd}[31mred\u{fffd}\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}lanigiro\u{fffd}\u{fffd}\u{fffd}\u{fffd}"
        );
    }
}
