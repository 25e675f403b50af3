//! Exact sums of doubles.
//!
//! Every finite double is a whole number of units of 2^-1074, so a sum of doubles is a whole number of them too. It is
//! kept as such, in two's complement, and rounded only when it is shown. The canonical bytes are a function of that
//! number alone: the same readings give the same bytes in any order and batching, whatever form the sum has in memory.

use std::cmp::Ordering;

/// Limbs of 64 bits for every sum: a double needs 2098 bits, a count up to 2^64 another 64, the sign one.
const LIMBS: usize = 35;
/// Limbs of the small form: enough while the readings' sizes are within some 2^64 of each other.
const SMALL_LIMBS: usize = 4;
/// The largest double has its 53 bits this far up; its exponent field is one more.
const SHIFT_MAX: usize = 2045;
/// Longest canonical bytes.
const BYTES_MAX: usize = LIMBS * 8;

/// A sum of doubles without any rounding.
#[derive(Clone, Debug)]
pub(crate) struct ExactSum(Form);

#[derive(Clone, Debug)]
enum Form {
    /// Limbs, least first, of which the first has the index `base` in the large form; below are zeros, above is the sign.
    Small {
        base: u8,
        limbs: [u64; SMALL_LIMBS],
    },
    Large(Box<[u64; LIMBS]>),
}

impl ExactSum {
    pub(crate) const ZERO: ExactSum = ExactSum(Form::Small { base: 0, limbs: [0; SMALL_LIMBS] });

    /// Adds a finite double.
    pub(crate) fn add(&mut self, value: f64) {
        let part = Part::of(value);
        match &mut self.0 {
            Form::Large(limbs) => {
                part.add_to(&mut limbs[..], part.limb);
            }
            Form::Small { base, limbs } => {
                let lowest = usize::from(*base);
                let mut sum = *limbs;
                if part.limb >= lowest
                    && part.limb + 1 < lowest + SMALL_LIMBS
                    && part.add_to(&mut sum, part.limb - lowest)
                {
                    *limbs = sum;
                } else {
                    self.add_elsewhere(&part);
                }
            }
        }
    }

    /// Adds what the small form cannot take as it stands: moves it, or goes over to the large form.
    fn add_elsewhere(&mut self, part: &Part) {
        let mut limbs = self.all_limbs();
        part.add_to(&mut limbs, part.limb);
        *self = Self::from_limbs(&limbs);
    }

    /// Adds another sum.
    pub(crate) fn merge(&mut self, other: &ExactSum) {
        let (mut limbs, mut carry) = (self.all_limbs(), false);
        for (limb, other) in limbs.iter_mut().zip(other.all_limbs()) {
            (*limb, carry) = add_with_carry(*limb, other, carry);
        }
        *self = Self::from_limbs(&limbs);
    }

    /// The nearest double of sum / divisor, ties to even, never -0.0; None when it is beyond the doubles.
    /// The divisor is above 0.
    pub(crate) fn rounded(&self, divisor: u64) -> Option<f64> {
        let mut limbs = self.all_limbs();
        let is_negative = is_negative(&limbs);
        if is_negative {
            negate(&mut limbs);
        }
        let remainder = divide(&mut limbs, divisor.max(1));
        let size = round(&limbs, remainder, divisor.max(1))?;
        Some(if is_negative && size > 0.0 { -size } else { size })
    }

    /// Calls the function with the canonical bytes: those of the two's complement, least first, without the zeros at
    /// the lower and the repeated signs at the upper end, and how many zeros were left out. No bytes are zero.
    pub(crate) fn with_canonical<R>(&self, take: impl FnOnce(usize, &[u8]) -> R) -> R {
        match &self.0 {
            Form::Small { base, limbs } => {
                let mut bytes = [0; SMALL_LIMBS * 8];
                to_bytes(limbs, &mut bytes);
                trimmed(usize::from(*base) * 8, &bytes, take)
            }
            Form::Large(limbs) => {
                let mut bytes = [0; BYTES_MAX];
                to_bytes(&limbs[..], &mut bytes);
                trimmed(0, &bytes, take)
            }
        }
    }

    /// The sum of canonical bytes; None when they are not canonical or too large.
    pub(crate) fn from_canonical(zeros: usize, bytes: &[u8]) -> Option<Self> {
        let Some(last) = bytes.last().copied() else {
            return if zeros == 0 { Some(Self::ZERO) } else { None };
        };
        let is_negative = last & 0x80 != 0;
        let mut all = [if is_negative { 0xFF } else { 0 }; BYTES_MAX];
        all.get_mut(..zeros)?.fill(0);
        all.get_mut(zeros..zeros.checked_add(bytes.len())?)?.copy_from_slice(bytes);
        let mut limbs = [0; LIMBS];
        for (limb, bytes) in limbs.iter_mut().zip(all.chunks_exact(8)) {
            *limb = bytes.iter().rev().fold(0, |limb, byte| limb << 8 | u64::from(*byte));
        }
        let sum = Self::from_limbs(&limbs);
        let is_canonical = sum.with_canonical(|own_zeros, own| own_zeros == zeros && own == bytes);
        if is_canonical { Some(sum) } else { None }
    }

    fn all_limbs(&self) -> [u64; LIMBS] {
        match &self.0 {
            Form::Large(limbs) => **limbs,
            Form::Small { base, limbs } => {
                let sign = if is_negative(limbs) { u64::MAX } else { 0 };
                let (mut all, base) = ([0; LIMBS], usize::from(*base).min(LIMBS - SMALL_LIMBS));
                let (low, high) = all.split_at_mut(base + SMALL_LIMBS);
                low[base..].copy_from_slice(limbs);
                high.fill(sign);
                all
            }
        }
    }

    /// In the small form if it fits, with room to both sides if there is some.
    fn from_limbs(all: &[u64; LIMBS]) -> Self {
        let sign = if is_negative(all) { u64::MAX } else { 0 };
        let lowest = all.iter().position(|limb| *limb != 0).unwrap_or(0);
        let mut used = LIMBS - all.iter().rev().take_while(|limb| **limb == sign).count();
        if used == 0 || (all[used - 1] ^ sign) >> 63 != 0 {
            used += 1; // the sign needs a bit of its own
        }
        let spare = (lowest + SMALL_LIMBS).checked_sub(used.max(lowest + 1));
        let base = lowest.saturating_sub(usize::from(spare.is_some_and(|spare| spare > 1)));
        let base = base.min(LIMBS - SMALL_LIMBS);
        let limbs = all.get(base..base + SMALL_LIMBS).and_then(|limbs| <[u64; SMALL_LIMBS]>::try_from(limbs).ok());
        match (spare, limbs, u8::try_from(base)) {
            (Some(_), Some(limbs), Ok(base)) => Self(Form::Small { base, limbs }),
            _ => Self(Form::Large(Box::new(*all))),
        }
    }
}

impl PartialEq for ExactSum {
    fn eq(&self, other: &Self) -> bool {
        self.all_limbs() == other.all_limbs()
    }
}

/// A double as two limbs at a place.
struct Part {
    is_negative: bool,
    limb: usize,
    low: u64,
    high: u64,
}

impl Part {
    fn of(value: f64) -> Self {
        let (mantissa, shift) = magnitude(value);
        let wide = u128::from(mantissa) << (shift % 64);
        #[allow(clippy::cast_possible_truncation, reason = "the halves of 128 bits")]
        Self { is_negative: value.is_sign_negative(), limb: shift / 64, low: wide as u64, high: (wide >> 64) as u64 }
    }

    /// Adds it at the limb; false when the sum does not fit, which the limbs then do not hold.
    fn add_to(&self, limbs: &mut [u64], at: usize) -> bool {
        let was_negative = is_negative(limbs);
        let mut carry = false;
        for (index, limb) in limbs.iter_mut().enumerate().skip(at) {
            let part = match index - at {
                0 => self.low,
                1 => self.high,
                _ if carry => 0,
                _ => break,
            };
            (*limb, carry) = if self.is_negative {
                subtract_with_borrow(*limb, part, carry)
            } else {
                add_with_carry(*limb, part, carry)
            };
        }
        was_negative != self.is_negative || is_negative(limbs) == was_negative
    }
}

/// The size of a finite double: a whole number below 2^53 and how far it is shifted up, in units of 2^-1074.
pub(super) fn magnitude(value: f64) -> (u64, usize) {
    let bits = value.to_bits();
    let (exponent, fraction) = (bits >> 52 & 0x7FF, bits & ((1 << 52) - 1));
    // Source: IEEE 754, binary64. Subnormals have the exponent of the smallest normals and no leading one.
    #[allow(clippy::cast_possible_truncation, reason = "below 2048")]
    if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent as usize - 1) }
}

fn add_with_carry(limb: u64, other: u64, carry: bool) -> (u64, bool) {
    let (sum, first) = limb.overflowing_add(other);
    let (sum, second) = sum.overflowing_add(u64::from(carry));
    (sum, first || second)
}

fn subtract_with_borrow(limb: u64, other: u64, borrow: bool) -> (u64, bool) {
    let (difference, first) = limb.overflowing_sub(other);
    let (difference, second) = difference.overflowing_sub(u64::from(borrow));
    (difference, first || second)
}

fn is_negative(limbs: &[u64]) -> bool {
    limbs.last().is_some_and(|limb| limb >> 63 != 0)
}

fn negate(limbs: &mut [u64]) {
    let mut carry = true;
    for limb in limbs {
        (*limb, carry) = add_with_carry(!*limb, 0, carry);
    }
}

/// Divides in place and gives the remainder.
fn divide(limbs: &mut [u64], divisor: u64) -> u64 {
    if divisor == 1 {
        return 0;
    }
    let mut remainder = 0;
    for limb in limbs.iter_mut().rev() {
        let dividend = u128::from(remainder) << 64 | u128::from(*limb);
        #[allow(clippy::cast_possible_truncation, reason = "the remainder is below the divisor, so the quotient fits")]
        {
            *limb = (dividend / u128::from(divisor)) as u64;
            remainder = (dividend % u128::from(divisor)) as u64;
        }
    }
    remainder
}

/// The nearest double of limbs + remainder / divisor units; None when it is beyond the doubles.
pub(super) fn round(limbs: &[u64], remainder: u64, divisor: u64) -> Option<f64> {
    let bits = limbs
        .iter()
        .rposition(|limb| *limb != 0)
        .map_or(0, |top| (top + 1) * 64 - usize::try_from(limbs[top].leading_zeros()).unwrap_or(0));
    let shift = bits.saturating_sub(53);
    let mut mantissa = bits_from(limbs, shift);
    // What is cut off, compared with half a unit in the last place.
    let rest = if shift == 0 {
        (u128::from(remainder) * 2).cmp(&u128::from(divisor))
    } else if bits_from(limbs, shift - 1) & 1 == 0 {
        Ordering::Less
    } else if remainder == 0 && is_zero_below(limbs, shift - 1) {
        Ordering::Equal
    } else {
        Ordering::Greater
    };
    if rest == Ordering::Greater || (rest == Ordering::Equal && mantissa & 1 == 1) {
        mantissa += 1;
    }
    if shift == 0 {
        return Some(f64::from_bits(mantissa)); // up to 2^53 units the bits are the number itself
    }
    if shift > SHIFT_MAX {
        return None;
    }
    // A mantissa that was rounded up to 2^53 carries into the exponent, as it must, and may make it infinite.
    let value = f64::from_bits((u64::try_from(shift).ok()? << 52).checked_add(mantissa)?);
    if value.is_finite() { Some(value) } else { None }
}

/// 64 bits from a position on.
fn bits_from(limbs: &[u64], position: usize) -> u64 {
    let (limb, shift) = (position / 64, position % 64);
    let limb_at = |index| limbs.get(index).copied().unwrap_or(0);
    let low = limb_at(limb) >> shift;
    if shift == 0 { low } else { low | limb_at(limb + 1) << (64 - shift) }
}

fn is_zero_below(limbs: &[u64], position: usize) -> bool {
    let (whole, rest) = (position / 64, position % 64);
    let is_rest_zero = limbs.get(whole).is_none_or(|limb| limb & ((1 << rest) - 1) == 0);
    is_rest_zero && limbs.iter().take(whole).all(|limb| *limb == 0)
}

fn to_bytes(limbs: &[u64], bytes: &mut [u8]) {
    for (bytes, limb) in bytes.chunks_exact_mut(8).zip(limbs) {
        bytes.copy_from_slice(&limb.to_le_bytes());
    }
}

fn trimmed<R>(zeros_before: usize, bytes: &[u8], take: impl FnOnce(usize, &[u8]) -> R) -> R {
    let Some(zeros) = bytes.iter().position(|byte| *byte != 0) else {
        return take(0, &[]);
    };
    let mut rest = &bytes[zeros..];
    while let [.., below, top] = rest {
        // The top byte only repeats the sign of the one below.
        if *top != if below & 0x80 == 0 { 0 } else { 0xFF } {
            break;
        }
        rest = &rest[..rest.len() - 1];
    }
    take(zeros_before + zeros, rest)
}

#[cfg(test)]
mod tests;
