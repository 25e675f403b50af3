//! Exact sums of the squares of doubles, for the variance.
//!
//! A square is a whole number of units of 2^-2148, and never negative. Only the limbs that are not zero are kept: a few
//! for sensors, 67 at most.

use num_bigint::BigUint;

use super::exact_sum::magnitude;

/// A square needs 4196 bits, a count up to 2^64 another 64.
const BYTES_MAX: usize = 67 * 8;

/// A sum of squares without any rounding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExactSquares {
    /// How many zero limbs of 64 bits there are below.
    base: usize,
    /// Least first; neither the first nor the last is zero.
    limbs: Vec<u64>,
}

impl ExactSquares {
    /// Adds the square of a finite double.
    pub(crate) fn add(&mut self, value: f64) {
        let (mantissa, shift) = magnitude(value);
        let square = u128::from(mantissa) * u128::from(mantissa);
        let (limb, bits) = (2 * shift / 64, 2 * shift as u32 % 64);
        let (low, high) = (square << bits, square.checked_shr(128 - bits).unwrap_or(0));
        #[allow(clippy::cast_possible_truncation, reason = "the limbs of 192 bits")]
        self.add_limbs(limb, &[low as u64, (low >> 64) as u64, high as u64]);
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: &ExactSquares) {
        self.add_limbs(other.base, &other.limbs);
    }

    fn add_limbs(&mut self, at: usize, limbs: &[u64]) {
        let zeros = limbs.iter().take_while(|limb| **limb == 0).count();
        let used = limbs.len() - limbs.iter().rev().take_while(|limb| **limb == 0).count();
        let Some(limbs) = limbs.get(zeros..used).filter(|limbs| !limbs.is_empty()) else { return };
        let at = at + zeros;
        if self.limbs.is_empty() {
            self.base = at;
        } else if at < self.base {
            self.limbs.splice(0..0, std::iter::repeat_n(0, self.base - at));
            self.base = at;
        }
        let skipped = at - self.base;
        if self.limbs.len() < skipped + limbs.len() {
            self.limbs.resize(skipped + limbs.len(), 0);
        }
        let mut carry = false;
        for (index, limb) in self.limbs.iter_mut().enumerate().skip(skipped) {
            let part = limbs.get(index - skipped).copied();
            if part.is_none() && !carry {
                break;
            }
            (*limb, carry) = limb.carrying_add(part.unwrap_or(0), carry);
        }
        if carry {
            self.limbs.push(1);
        }
        let zeros = self.limbs.iter().take_while(|limb| **limb == 0).count();
        self.limbs.drain(..zeros);
        self.base += zeros;
    }

    /// The sum in units of 2^-2148.
    pub(super) fn units(&self) -> BigUint {
        let bytes: Vec<u8> = self.limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect();
        BigUint::from_bytes_le(&bytes) << (self.base * 64)
    }

    /// Calls the function with the canonical bytes: the sum's, least first, without the zeros at both ends, and how
    /// many zeros were left out at the lower end.
    pub(crate) fn with_canonical<R>(&self, take: impl FnOnce(usize, &[u8]) -> R) -> R {
        let bytes: Vec<u8> = self.limbs.iter().flat_map(|limb| limb.to_le_bytes()).collect();
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        match bytes.get(zeros..used) {
            Some(rest) if !rest.is_empty() => take(self.base * 8 + zeros, rest),
            _ => take(0, &[]),
        }
    }

    /// The sum of canonical bytes; None when they are not canonical or too large.
    pub(crate) fn from_canonical(zeros: usize, bytes: &[u8]) -> Option<Self> {
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else {
            return if zeros == 0 { Some(Self::default()) } else { None };
        };
        if *first == 0 || *last == 0 || zeros.checked_add(bytes.len())? > BYTES_MAX {
            return None;
        }
        let mut padded = vec![0; zeros % 8];
        padded.extend_from_slice(bytes);
        padded.resize(padded.len().next_multiple_of(8), 0);
        let (limbs, _) = padded.as_chunks();
        Some(Self { base: zeros / 8, limbs: limbs.iter().map(|limb| u64::from_le_bytes(*limb)).collect() })
    }
}

#[cfg(test)]
mod tests {
    use num_bigint::BigUint;
    use proptest::prelude::*;

    use super::ExactSquares;

    fn any_finite() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>().prop_filter("finite", |value| value.is_finite()),
            (-2000i32..2000).prop_map(|tenths| f64::from(tenths) / 10.0),
            prop::sample::select(vec![0.0, f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -1.0, 4_294_967_296.0]),
        ]
    }

    /// By way of the decimal-free definition: the value as an integer of units of 2^-1074, times itself.
    fn slow(values: &[f64]) -> BigUint {
        values.iter().fold(BigUint::ZERO, |sum, value| {
            let bits = value.abs().to_bits();
            let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
            let units = if exponent == 0 {
                BigUint::from(fraction)
            } else {
                BigUint::from(fraction | 1 << 52) << (exponent - 1)
            };
            sum + &units * &units
        })
    }

    proptest! {
        #[test]
        fn sums_are_exact_in_any_order_and_batching(values in prop::collection::vec(any_finite(), 0..20), cut in any::<prop::sample::Index>()) {
            let sum_of = |values: &[f64]| {
                let mut sum = ExactSquares::default();
                values.iter().for_each(|value| sum.add(*value));
                sum
            };
            let whole = sum_of(&values);
            prop_assert_eq!(whole.units(), slow(&values));
            let (some, others) = values.split_at(cut.index(values.len() + 1));
            let mut joined = sum_of(others);
            joined.merge(&sum_of(some));
            prop_assert_eq!(&joined, &whole);
            whole.with_canonical(|zeros, bytes| {
                assert_eq!(ExactSquares::from_canonical(zeros, bytes).as_ref(), Some(&whole));
            });
        }

        #[test]
        fn bytes_are_canonical_or_refused(zeros in 0usize..600, bytes in prop::collection::vec(any::<u8>(), 0..20)) {
            if let Some(sum) = ExactSquares::from_canonical(zeros, &bytes) {
                sum.with_canonical(|own_zeros, own| assert_eq!((own_zeros, own), (zeros, &bytes[..])));
            }
        }
    }
}
