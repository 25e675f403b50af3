//! JSON Pointers, RFC 6901.

/// A pointer that was cut into its tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    text: String,
    tokens: Vec<Token>,
}

/// One step of a pointer: the name of an object's member, which may be the index of an array's element too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) name: String,
    pub(crate) index: Option<usize>,
}

impl Pointer {
    /// None when the text is neither empty nor begins with `/`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let tokens = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(Token::parse).collect(),
            None if text.is_empty() => Vec::new(),
            None => return None,
        };
        Some(Self { text: text.to_owned(), tokens })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }
}

impl Token {
    fn parse(escaped: &str) -> Self {
        let name = escaped.replace("~1", "/").replace("~0", "~");
        let is_index = name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
        let index = if is_index { name.parse().ok() } else { None };
        Self { name, index }
    }
}

#[cfg(test)]
mod tests {
    use super::Pointer;

    fn tokens(text: &str) -> Vec<(String, Option<usize>)> {
        let pointer = Pointer::parse(text).expect("a pointer");
        pointer.tokens().iter().map(|token| (token.name.clone(), token.index)).collect()
    }

    #[test]
    fn tokens_are_unescaped_in_the_order_of_the_rfc() {
        assert_eq!(tokens(""), []);
        assert_eq!(tokens("/a~1b/m~0n/~01"), [("a/b".into(), None), ("m~n".into(), None), ("~1".into(), None)]);
    }

    #[test]
    fn only_plain_numbers_are_indices() {
        let indices: Vec<_> =
            tokens("/0/12/012/-/1a//99999999999999999999999").into_iter().map(|token| token.1).collect();
        assert_eq!(indices, [Some(0), Some(12), None, None, None, None, None]);
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!(Pointer::parse("value"), None);
    }
}
