//! One line to its parts.

use std::ops::Range;

use super::{Kind, LineNode, NAMES, Pair, STRINGS, Span, unescaped, written};
use crate::reading::number;

/// More pairs than this are sorted to find equal ones.
const COMPARED_MAX: usize = 16;

/// Reads a line from its beginning; every method gives None when the line does not go on as it must.
pub(super) struct Parser<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// The byte that is looked at.
    pub(super) at: usize,
    pairs: &'a mut Vec<Pair>,
    /// Why the line cannot be read.
    pub(super) expected: &'static str,
}

impl<'a> Parser<'a> {
    /// The range must end before the text's last 4 GiB, and not inside a character.
    pub(super) fn new(text: &'a str, range: Range<usize>, pairs: &'a mut Vec<Pair>) -> Self {
        let bytes = text.as_bytes().get(..range.end).unwrap_or(&[]);
        Self { text, bytes, at: range.start, pairs, expected: "" }
    }

    /// Adds the line's pairs to the list; after None some may have been added.
    pub(super) fn parse(&mut self) -> Option<LineNode> {
        let tags = self.next_pair();
        let name = self.name(b", ", "a measurement")?;
        while self.eat(b',') {
            let key = self.key("the name of a tag")?;
            let value = self.name(b",= ", "the text of a tag")?;
            self.pairs.push(Pair { key, value, kind: Kind::Tag });
        }
        self.check_unique(tags)?;
        let fields = self.next_pair();
        self.spaces()?;
        loop {
            let key = self.key("the name of a field")?;
            let (value, kind) = self.field_value()?;
            self.pairs.push(Pair { key, value, kind });
            if !self.eat(b',') {
                break;
            }
        }
        self.check_unique(fields)?;
        let timestamp = self.timestamp()?;
        Some(LineNode { bad: None, name, tags, fields, end: self.next_pair(), timestamp })
    }

    #[allow(clippy::cast_possible_truncation, reason = "there are fewer pairs than bytes")]
    fn next_pair(&self) -> u32 {
        self.pairs.len() as u32
    }

    fn fail<T>(&mut self, expected: &'static str) -> Option<T> {
        self.expected = expected;
        None
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn spaces(&mut self) -> Option<()> {
        if !self.eat(b' ') {
            return self.fail("a comma or a space, then a field");
        }
        while self.eat(b' ') {}
        Some(())
    }

    fn key(&mut self, what: &'static str) -> Option<Span> {
        let key = self.name(b"=, ", what)?;
        if self.eat(b'=') { Some(key) } else { self.fail("\"=\" after a name") }
    }

    /// Unescaped text up to one of the bytes in `ends`; it must not be empty.
    fn name(&mut self, ends: &[u8], what: &'static str) -> Option<Span> {
        let start = self.at;
        let is_escaped = self.skip(ends, NAMES);
        if self.at == start { self.fail(what) } else { Some(self.span(start, is_escaped)) }
    }

    /// Goes on to one of the bytes in `ends` that is not escaped; whether anything was.
    fn skip(&mut self, ends: &[u8], escapable: &[u8]) -> bool {
        let mut is_escaped = false;
        while let Some(byte) = self.peek().filter(|byte| !ends.contains(byte)) {
            let escapes = byte == b'\\' && self.bytes.get(self.at + 1).is_some_and(|next| escapable.contains(next));
            is_escaped |= escapes;
            self.at += 1 + usize::from(escapes);
        }
        is_escaped
    }

    #[allow(clippy::cast_possible_truncation, reason = "texts are shorter than 4 GiB")]
    fn span(&self, start: usize, is_escaped: bool) -> Span {
        Span { start: start as u32, end: self.at as u32, is_escaped }
    }

    fn field_value(&mut self) -> Option<(Span, Kind)> {
        if self.eat(b'"') {
            let start = self.at;
            let is_escaped = self.skip(b"\"", STRINGS);
            let span = self.span(start, is_escaped);
            return if self.eat(b'"') { Some((span, Kind::Text)) } else { self.fail("the closing quote of a text") };
        }
        let start = self.at;
        let mut span = self.name(b", ", "the value of a field")?;
        let kind = match written(self.text, span) {
            "t" | "T" | "true" | "True" | "TRUE" => Kind::True,
            "f" | "F" | "false" | "False" | "FALSE" => Kind::False,
            text if number::is_number_text(text) => Kind::Number,
            text if number::is_non_finite_text(text) => Kind::NonFinite,
            text if is_integer(text) => {
                span.end -= 1; // without its i or u
                Kind::Number
            }
            _ => {
                self.at = start;
                return self.fail("a number, an integer with i or u, true or false, or a text in quotes");
            }
        };
        Some((span, kind))
    }

    fn timestamp(&mut self) -> Option<Option<Span>> {
        if self.at < self.bytes.len() && self.peek() != Some(b' ') {
            return self.fail("a comma or a space after a field");
        }
        while self.eat(b' ') {}
        let start = self.at;
        self.eat(b'-');
        let digits = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let span = self.span(start, false);
        let has_digits = self.at > digits;
        while self.eat(b' ') {}
        if self.at < self.bytes.len() || (!has_digits && start < digits) {
            return self.fail("a timestamp of digits, perhaps with \"-\", or the end of the line");
        }
        Some(has_digits.then_some(span))
    }

    /// No two of the pairs from there on have the same key.
    fn check_unique(&mut self, from: u32) -> Option<()> {
        let pairs = self.pairs.get(from as usize..).unwrap_or(&[]);
        let key = |pair: &Pair| unescaped(self.text, pair.key, NAMES);
        let is_unique = if pairs.len() <= COMPARED_MAX {
            (0..).zip(pairs).all(|(index, pair)| pairs.iter().take(index).all(|other| key(other) != key(pair)))
        } else {
            let mut keys: Vec<_> = pairs.iter().map(key).collect();
            keys.sort_unstable();
            keys.windows(2).all(|two| two.first() != two.last())
        };
        if is_unique { Some(()) } else { self.fail("each tag and field once") }
    }
}

/// Digits with an optional `-` and `i`, or digits and `u`, in the range of 64 bits.
fn is_integer(text: &str) -> bool {
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(number) = text.strip_suffix('i') {
        return is_digits(number.strip_prefix('-').unwrap_or(number)) && number.parse::<i64>().is_ok();
    }
    text.strip_suffix('u').is_some_and(|number| is_digits(number) && number.parse::<u64>().is_ok())
}
