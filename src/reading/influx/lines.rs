//! A text to lines.

use std::ops::Range;

use super::{NAMES, STRINGS};

/// Where the lines stand that are neither blank nor comments, without leading spaces and line ends.
pub(super) fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            while bytes.get(at) == Some(&b' ') {
                at += 1;
            }
            let start = at;
            let is_comment = bytes.get(at) == Some(&b'#');
            let end = if is_comment { next_newline(bytes, at) } else { line_end(bytes, at) };
            at = end + 1;
            let has_return = end > start && bytes.get(end - 1) == Some(&b'\r');
            let end = end - usize::from(has_return);
            if start < end && !is_comment {
                return Some(start..end);
            }
        }
        None
    })
}

fn next_newline(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or(&[]);
    rest.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| from + length)
}

/// The first newline outside a quoted string.
fn line_end(bytes: &[u8], from: usize) -> usize {
    let (mut at, mut is_in_fields, mut is_in_string) = (from, false, false);
    let mut previous = 0; // the last byte that no backslash escaped
    while let Some(byte) = bytes.get(at).copied() {
        let escapable = if is_in_string { STRINGS } else { NAMES };
        if byte == b'\\' && bytes.get(at + 1).is_some_and(|next| escapable.contains(next)) {
            previous = 0;
            at += 2;
            continue;
        }
        if is_in_string {
            is_in_string = byte != b'"';
        } else {
            match byte {
                b'\n' => return at,
                b'"' if previous == b'=' && is_in_fields => is_in_string = true,
                b' ' => is_in_fields = true,
                _ => {}
            }
        }
        previous = byte;
        at += 1;
    }
    bytes.len()
}
