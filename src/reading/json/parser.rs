//! Text to nodes, checking every byte of it.

use super::{Kind, Node, is_high_surrogate};

/// Deepest nesting of arrays and objects.
const DEPTH_MAX: u32 = 127;

/// The text does not go on as JSON must.
struct Stop;

/// Adds the nodes of a text that is one JSON value. An error is the byte at which it does not go on as it must.
pub(super) fn parse_text(text: &str, nodes: &mut Vec<Node>) -> Result<(), usize> {
    if u32::try_from(text.len()).is_err() {
        return Err(0); // positions are 32 bits wide; Kafka's records are smaller
    }
    let mut parser = Parser { bytes: text.as_bytes(), at: 0, nodes };
    match parser.document() {
        Ok(()) if parser.at == text.len() => Ok(()),
        _ => Err(parser.at),
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: &'a mut Vec<Node>,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<(), Stop> {
        self.skip_blanks();
        self.value(0)?;
        self.skip_blanks();
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Eats the byte if it is next.
    fn eat(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), Stop> {
        if self.eat(byte) { Ok(()) } else { Err(Stop) }
    }

    #[allow(clippy::cast_possible_truncation, reason = "texts are shorter than 4 GiB, and nodes fewer than bytes")]
    fn push(&mut self, kind: Kind, start: usize, end: usize) -> usize {
        let at = self.nodes.len();
        self.nodes.push(Node { kind, start: start as u32, end: end as u32, next: at as u32 + 1 });
        at
    }

    #[allow(clippy::cast_possible_truncation, reason = "there are fewer nodes than bytes")]
    fn close(&mut self, container: usize) {
        let next = self.nodes.len() as u32;
        if let Some(node) = self.nodes.get_mut(container) {
            node.next = next;
        }
    }

    fn value(&mut self, depth: u32) -> Result<(), Stop> {
        match self.peek() {
            Some(b'"') => self.text(),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'n') => self.word(b"null", Kind::Null),
            Some(b't') => self.word(b"true", Kind::True),
            Some(b'f') => self.word(b"false", Kind::False),
            _ => Err(Stop),
        }
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<(), Stop> {
        let end = self.at + word.len();
        if self.bytes.get(self.at..end) != Some(word) {
            return Err(Stop);
        }
        self.push(kind, self.at, end);
        self.at = end;
        Ok(())
    }

    fn object(&mut self, depth: u32) -> Result<(), Stop> {
        let object = self.open(Kind::Object, depth)?;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(Stop);
            }
            self.text()?;
            self.skip_blanks();
            self.expect(b':')?;
            self.skip_blanks();
            self.value(depth)?;
            self.skip_blanks();
            if self.eat(b'}') {
                self.close(object);
                return Ok(());
            }
            self.expect(b',')?;
            self.skip_blanks();
        }
    }

    fn array(&mut self, depth: u32) -> Result<(), Stop> {
        let array = self.open(Kind::Array, depth)?;
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.skip_blanks();
            if self.eat(b']') {
                self.close(array);
                return Ok(());
            }
            self.expect(b',')?;
            self.skip_blanks();
        }
    }

    fn open(&mut self, kind: Kind, depth: u32) -> Result<usize, Stop> {
        if depth > DEPTH_MAX {
            return Err(Stop);
        }
        let container = self.push(kind, self.at, self.at);
        self.at += 1;
        self.skip_blanks();
        Ok(container)
    }

    fn number(&mut self) -> Result<(), Stop> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _ = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        self.push(Kind::Number, start, self.at);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(Stop) }
    }

    fn text(&mut self) -> Result<(), Stop> {
        self.at += 1;
        let start = self.at;
        let mut kind = Kind::Text;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    kind = Kind::EscapedText;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                _ => return Err(Stop),
            }
        }
        self.push(kind, start, self.at);
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Stop> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let unit = self.unit()?;
                let is_alone = is_low_surrogate(unit) || (is_high_surrogate(unit) && !is_low_surrogate(self.unit()?));
                if is_alone {
                    return Err(Stop);
                }
            }
            _ => return Err(Stop),
        }
        Ok(())
    }

    /// Eats `\uXXXX`.
    fn unit(&mut self) -> Result<u16, Stop> {
        let escape = self.bytes.get(self.at..self.at + 6).ok_or(Stop)?;
        let digits = escape.strip_prefix(b"\\u").ok_or(Stop)?;
        let mut unit = 0;
        for digit in digits {
            let digit = char::from(*digit).to_digit(16).ok_or(Stop)?;
            unit = unit << 4 | digit;
        }
        self.at += 6;
        u16::try_from(unit).map_err(|_| Stop)
    }
}

fn is_low_surrogate(unit: u16) -> bool {
    (0xDC00..0xE000).contains(&unit)
}
