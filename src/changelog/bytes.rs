//! Reading and writing of bytes. Every method of the reader gives None when the bytes do not go on as they must.

/// Writes a number of variable length.
pub(super) fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        #[allow(clippy::cast_possible_truncation, reason = "the lowest seven bits")]
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    #[allow(clippy::cast_possible_truncation, reason = "below 128")]
    out.push(number as u8);
}

/// Writes a signed number of variable length: 0, -1, 1, -2, ... as 0, 1, 2, 3, ...
pub(super) fn write_signed(out: &mut Vec<u8>, number: i64) {
    write_varint(out, ((number << 1) ^ (number >> 63)).cast_unsigned());
}

/// Writes bytes with their length before them.
pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads bytes from their beginning.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(super) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// A finite double that is not -0.0.
    pub(super) fn double(&mut self) -> Option<f64> {
        let value = f64::from_bits(self.u64()?);
        if value.is_finite() && value.to_bits() != (-0.0f64).to_bits() { Some(value) } else { None }
    }

    /// In its shortest form.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn signed(&mut self) -> Option<i64> {
        let number = self.varint()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::{Reader, write_signed, write_varint};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back_and_have_one_form(number in any::<u64>(), shift in 0u32..64, bytes in prop::collection::vec(any::<u8>(), 1..12)) {
            let number = number >> shift;
            let mut out = Vec::new();
            write_varint(&mut out, number);
            write_signed(&mut out, number.cast_signed());
            let mut reader = Reader::new(&out);
            prop_assert_eq!((reader.varint(), reader.signed()), (Some(number), Some(number.cast_signed())));
            prop_assert!(reader.is_at_end());

            let mut reader = Reader::new(&bytes);
            if let Some(number) = reader.varint() {
                let mut again = Vec::new();
                write_varint(&mut again, number);
                prop_assert_eq!(&bytes[..again.len()], &again[..]);
            }
        }
    }
}
