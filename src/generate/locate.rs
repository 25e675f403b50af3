//! Where a value stands in a JSON text, so that it can be replaced without touching the rest.

use std::{borrow::Cow, collections::HashMap, ops::Range};

use serde::Deserialize;
use serde_json::value::RawValue;

/// A name in an object, borrowed where it has no escapes.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The bytes of the value that the pointer (RFC 6901) leads to.
pub(super) fn locate(text: &str, pointer: &str) -> Option<Range<usize>> {
    let mut value: &str = serde_json::from_str::<&RawValue>(text).ok()?.get();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        value = if value.starts_with('{') {
            let object: HashMap<Name<'_>, &RawValue> = serde_json::from_str(value).ok()?;
            object.get(&Name(Cow::Owned(token)))?.get()
        } else {
            let array: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            array.get(token.parse::<usize>().ok()?)?.get()
        };
    }
    // Both are parts of one text.
    let begin = (value.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    Some(begin..begin + value.len())
}

#[cfg(test)]
mod tests {
    use super::locate;

    #[test]
    fn values_are_found_in_objects_and_arrays() {
        let text = r#" {"a": [1, {"b/c": "x"}], "t" :12.50 } "#;
        let found = |pointer| locate(text, pointer).map(|range| &text[range]);
        assert_eq!(found("/a/1/b~1c"), Some("\"x\""));
        assert_eq!(found("/t"), Some("12.50"));
        assert_eq!(found(""), Some(text.trim()));
        assert_eq!((found("/b"), found("/a/7"), found("/t/x")), (None, None, None));
        assert_eq!(locate("{", "/a"), None);
    }
}
