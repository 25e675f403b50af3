//! Numbers and strings in JSON, as RFC 8785 (JSON Canonicalization Scheme) writes them. The one place that does.

use std::fmt::Write;

/// A finite double: the fewest digits that read back as the same one, as ECMAScript writes them.
pub(crate) fn write_double(text: &mut String, value: f64) {
    text.push_str(ryu_js::Buffer::new().format_finite(value));
}

/// A whole number.
pub(crate) fn write_integer(text: &mut String, number: impl Into<i128>) {
    // Writing to a String cannot fail.
    let _ = write!(text, "{}", number.into());
}

/// A string with its quotes.
pub(crate) fn write_string(text: &mut String, content: &str) {
    text.push('"');
    let mut rest = content;
    while let Some(at) = rest.find(|character: char| character == '"' || character == '\\' || character < ' ') {
        let (plain, special) = rest.split_at(at);
        text.push_str(plain);
        let mut characters = special.chars();
        write_escaped(text, characters.next().unwrap_or('"'));
        rest = characters.as_str();
    }
    text.push_str(rest);
    text.push('"');
}

fn write_escaped(text: &mut String, character: char) {
    match character {
        '"' => text.push_str("\\\""),
        '\\' => text.push_str("\\\\"),
        '\u{8}' => text.push_str("\\b"),
        '\t' => text.push_str("\\t"),
        '\n' => text.push_str("\\n"),
        '\u{c}' => text.push_str("\\f"),
        '\r' => text.push_str("\\r"),
        other => {
            let _ = write!(text, "\\u{:04x}", u32::from(other));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{write_double, write_string};

    #[test]
    fn doubles_are_as_in_ecmascript() {
        for (value, wanted) in [
            (0.0, "0"),
            (21.5, "21.5"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (1e20, "100000000000000000000"),
            (1.5e21, "1.5e+21"),
            (5e-324, "5e-324"),
            (-0.1, "-0.1"),
            (9_007_199_254_740_993.0, "9007199254740992"),
        ] {
            let mut text = String::new();
            write_double(&mut text, value);
            assert_eq!(text, wanted);
        }
    }

    #[test]
    fn strings_escape_only_what_they_must() {
        let mut text = String::new();
        write_string(&mut text, "a\"\\\u{8}\t\n\u{c}\r\u{0}\u{1f}\u{7f}é🌡/");
        assert_eq!(text, "\"a\\\"\\\\\\b\\t\\n\\f\\r\\u0000\\u001f\u{7f}é🌡/\"");
    }
}
