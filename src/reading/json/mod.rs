//! JSON by the strict rules of RFC 8259, into a flat list of nodes that is used again for every record.
//!
//! Own code, because no well-kept crate is faithful to SEMANTICS 3.2 in one pass. serde_json checks neither the depth
//! nor lone surrogates in what it skips, and keeps numbers as written only with `arbitrary_precision`, which would hold
//! for every user of serde_json in the workspace. sonic-rs and simd-json convert numbers, take the first of equal names
//! in lazy reading, and leave unvisited parts unchecked. Here every byte is checked, numbers and texts stay where they
//! are in the record, and nothing is allocated for a record that is not larger than those before it.

mod parser;

use std::borrow::Cow;

use crate::semantics::Pointer;
use parser::parse_text;

/// A list of nodes that grew beyond this is not kept for the next record: 1 MiB.
const KEPT_NODES_MAX: usize = 65_536;

/// The bytes are not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadJson {
    /// The byte at which the text does not go on as JSON must.
    pub(crate) at: usize,
    /// Of the text that `decode` leads to, not of the record.
    pub(crate) is_inner: bool,
}

/// What stands somewhere in a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content<'d> {
    Null,
    Bool(bool),
    /// As it is written.
    Number(&'d str),
    Text(Cow<'d, str>),
    /// An array or object.
    Container,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Null,
    True,
    False,
    Number,
    Text,
    EscapedText,
    Array,
    Object,
    /// What the text at this place held; `start` is its node.
    Decoded,
}

/// A value, or the name of a member right before its value. Texts are without their quotes.
#[derive(Clone, Copy, Debug)]
struct Node {
    kind: Kind,
    start: u32,
    end: u32,
    /// The node after this one and all that is in it.
    next: u32,
}

/// Room that is used again from record to record.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    nodes: Vec<Node>,
    decoded: String,
}

/// A parsed record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Document<'d> {
    text: &'d str,
    nodes: &'d [Node],
    decoded: &'d str,
    /// Nodes from here on are of `decoded`.
    decoded_at: usize,
}

/// A place in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(usize);

impl Place {
    /// The whole document.
    pub(crate) const ROOT: Place = Place(0);
}

impl Scratch {
    /// Parses a record. If `decode` leads to a text, what that holds takes its place.
    pub(crate) fn parse<'d>(&'d mut self, bytes: &'d [u8], decode: Option<&Pointer>) -> Result<Document<'d>, BadJson> {
        if self.nodes.capacity() > KEPT_NODES_MAX {
            *self = Self::default();
        }
        self.nodes.clear();
        self.decoded.clear();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|error| BadJson { at: error.valid_up_to(), is_inner: false })?;
        parse_text(text, &mut self.nodes).map_err(|at| BadJson { at, is_inner: false })?;
        let decoded_at = self.nodes.len();
        if let Some(pointer) = decode {
            self.decode(text, pointer)?;
        }
        Ok(Document { text, nodes: &self.nodes, decoded: &self.decoded, decoded_at })
    }

    fn decode(&mut self, text: &str, pointer: &Pointer) -> Result<(), BadJson> {
        let inner_at = self.nodes.len();
        let document = Document { text, nodes: &self.nodes, decoded: "", decoded_at: inner_at };
        let Some(place) = document.resolve(Place::ROOT, pointer) else {
            return Ok(());
        };
        let Content::Text(inner) = document.content(place) else {
            return Ok(());
        };
        self.decoded = inner.into_owned();
        let bad_at = |at| BadJson { at, is_inner: true };
        parse_text(&self.decoded, &mut self.nodes).map_err(bad_at)?;
        let start = u32::try_from(inner_at).map_err(|_| bad_at(0))?;
        let node = self.nodes.get_mut(place.0).ok_or(bad_at(0))?;
        *node = Node { kind: Kind::Decoded, start, end: start, next: node.next };
        Ok(())
    }
}

impl<'d> Document<'d> {
    /// Where the pointer leads, from a place.
    pub(crate) fn resolve(&self, from: Place, pointer: &Pointer) -> Option<Place> {
        let mut at = self.follow(from.0)?;
        for token in pointer.tokens() {
            at = match self.nodes.get(at)?.kind {
                Kind::Object => self.member(at, &token.name)?,
                Kind::Array => self.elements(Place(at)).nth(token.index?)?.0,
                _ => return None,
            };
            at = self.follow(at)?;
        }
        Some(Place(at))
    }

    /// The members of an object in order, of equal names all; none if it is no object.
    pub(crate) fn members(&self, place: Place) -> impl Iterator<Item = (Cow<'d, str>, Place)> + use<'d> {
        let document = *self;
        let object = self.nodes.get(place.0).filter(|node| node.kind == Kind::Object);
        let (mut at, end) = object.map_or((0, 0), |node| (place.0 + 1, node.next as usize));
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let name = document.nodes.get(at)?;
            let value = at + 1;
            let written = document.written(at, name);
            at = document.nodes.get(value)?.next as usize;
            let name = if name.kind == Kind::Text { Cow::Borrowed(written) } else { Cow::Owned(unescape(written)) };
            Some((name, Place(value)))
        })
    }

    /// Whether an object stands there.
    pub(crate) fn is_object(&self, place: Place) -> bool {
        self.nodes.get(place.0).is_some_and(|node| node.kind == Kind::Object)
    }

    /// Whether an array stands there.
    pub(crate) fn is_array(&self, place: Place) -> bool {
        self.nodes.get(place.0).is_some_and(|node| node.kind == Kind::Array)
    }

    /// The places of an array's elements, in order; none if it is no array.
    pub(crate) fn elements(&self, place: Place) -> impl Iterator<Item = Place> + use<'d> {
        let nodes = self.nodes;
        let array = nodes.get(place.0).filter(|node| node.kind == Kind::Array);
        let (mut at, end) = array.map_or((0, 0), |node| (place.0 + 1, node.next as usize));
        std::iter::from_fn(move || {
            let element = at;
            if element >= end {
                return None;
            }
            at = nodes.get(element)?.next as usize;
            Some(Place(element))
        })
    }

    /// What stands at a place.
    pub(crate) fn content(&self, place: Place) -> Content<'d> {
        let at = self.follow(place.0).unwrap_or(place.0);
        let Some(node) = self.nodes.get(at) else {
            return Content::Null;
        };
        match node.kind {
            Kind::Null => Content::Null,
            Kind::True => Content::Bool(true),
            Kind::False => Content::Bool(false),
            Kind::Number => Content::Number(self.written(at, node)),
            Kind::Text => Content::Text(Cow::Borrowed(self.written(at, node))),
            Kind::EscapedText => Content::Text(Cow::Owned(unescape(self.written(at, node)))),
            Kind::Array | Kind::Object | Kind::Decoded => Content::Container,
        }
    }

    /// From a text that was decoded to what it held.
    fn follow(&self, at: usize) -> Option<usize> {
        let node = self.nodes.get(at)?;
        Some(if node.kind == Kind::Decoded { node.start as usize } else { at })
    }

    /// Of equal names the last counts.
    fn member(&self, object: usize, name: &str) -> Option<usize> {
        let end = self.nodes.get(object)?.next as usize;
        let (mut at, mut found) = (object + 1, None);
        while at < end {
            let node = self.nodes.get(at)?;
            let written = self.written(at, node);
            if if node.kind == Kind::Text { written == name } else { unescape(written) == name } {
                found = Some(at + 1);
            }
            at = self.nodes.get(at + 1)?.next as usize;
        }
        found
    }

    fn written(&self, at: usize, node: &Node) -> &'d str {
        let text = if at < self.decoded_at { self.text } else { self.decoded };
        text.get(node.start as usize..node.end as usize).unwrap_or("")
    }
}

/// The text that valid escapes stand for.
fn unescape(written: &str) -> String {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        let mut length = 2;
        match escape {
            b'b' => text.push('\u{8}'),
            b'f' => text.push('\u{c}'),
            b'n' => text.push('\n'),
            b'r' => text.push('\r'),
            b't' => text.push('\t'),
            b'u' => {
                let units = [hex(rest, at + 2), hex(rest, at + 8)];
                length = if is_high_surrogate(units[0]) { 12 } else { 6 };
                let units = units.into_iter().take(length / 6);
                text.extend(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
            }
            other => text.push(char::from(other)),
        }
        rest = rest.get(at + length..).unwrap_or("");
    }
    text.push_str(rest);
    text
}

fn hex(text: &str, at: usize) -> u16 {
    text.get(at..at + 4).and_then(|digits| u16::from_str_radix(digits, 16).ok()).unwrap_or(0)
}

fn is_high_surrogate(unit: u16) -> bool {
    (0xD800..0xDC00).contains(&unit)
}

#[cfg(test)]
mod tests;
