//! Variance and standard deviation, rounded once. SEMANTICS 6.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint};

use super::exact_sum::round;
use super::{ExactSquares, ExactSum};

/// Exponent of the units of a sum: 2^-1074.
const UNIT_EXPONENT: u64 = 1074;

/// Variance and its root; None where it is beyond the doubles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) variance: Option<f64>,
    pub(crate) stddev: Option<f64>,
}

/// Of `count` readings with that sum and sum of squares; the sum of the squared distances from the mean is divided by
/// `divisor`. None when there cannot be such sums, or the divisor is 0.
pub(super) fn spread(count: u64, sum: &ExactSum, squares: &ExactSquares, divisor: u64) -> Option<Spread> {
    if divisor == 0 {
        return None;
    }
    // count * sum of squares - sum^2, in units of 2^-2148, is count times the sum of the squared distances.
    let sum = sum.with_canonical(|zeros, bytes| BigInt::from_signed_bytes_le(bytes) << (zeros * 8));
    let square_of_sum = sum.magnitude() * sum.magnitude();
    let numerator = BigUint::from(count) * squares.units();
    if numerator < square_of_sum {
        return None;
    }
    let numerator = numerator - square_of_sum;
    let denominator = BigUint::from(count) * BigUint::from(divisor);
    Some(Spread {
        variance: nearest(&numerator, &(&denominator << UNIT_EXPONENT)),
        stddev: root(&numerator, &denominator),
    })
}

/// The nearest double of a fraction in units of 2^-1074.
fn nearest(numerator: &BigUint, denominator: &BigUint) -> Option<f64> {
    let (units, rest) = (numerator / denominator, numerator % denominator);
    let quarters = quarters(rest == BigUint::ZERO, (rest << 1u32).cmp(denominator));
    round(&units.to_u64_digits(), quarters, 4)
}

/// The nearest double of the root of a fraction in units of 2^-2148.
fn root(numerator: &BigUint, denominator: &BigUint) -> Option<f64> {
    let units = (numerator / denominator).sqrt();
    let is_exact = &units * &units * denominator == *numerator;
    // The root against units + 1/2, both doubled and squared.
    let middle: BigUint = (&units << 1u32) + 1u32;
    let quarters = quarters(is_exact, (numerator << 2u32).cmp(&(&middle * &middle * denominator)));
    round(&units.to_u64_digits(), quarters, 4)
}

/// What is left below a unit, as far as rounding has to know it: none, less than half, half, more, in quarters.
fn quarters(is_zero: bool, to_half: Ordering) -> u64 {
    match to_half {
        _ if is_zero => 0,
        Ordering::Less => 1,
        Ordering::Equal => 2,
        Ordering::Greater => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Aggregate;
    use super::Spread;
    use crate::semantics::Variance;

    fn spread(values: &[f64], kind: Variance) -> Option<Spread> {
        let mut aggregate = Aggregate::of(0, values[0], true);
        values[1..].iter().for_each(|value| aggregate.add(0, *value));
        aggregate.spread(kind)
    }

    fn found(values: &[f64], kind: Variance) -> (f64, f64) {
        let Spread { variance, stddev } = spread(values, kind).expect("a variance");
        (variance.expect("a double"), stddev.expect("a double"))
    }

    #[test]
    fn small_numbers_are_as_by_hand() {
        assert_eq!(found(&[1.0, 2.0, 3.0, 4.0], Variance::Population), (1.25, 1.25f64.sqrt()));
        assert_eq!(found(&[2.0, 4.0], Variance::Sample), (2.0, 2f64.sqrt()));
        assert_eq!(found(&[7.5], Variance::Population), (0.0, 0.0));
        assert_eq!(spread(&[7.5], Variance::Sample), None);
    }

    #[test]
    fn nothing_is_lost_where_the_mean_is_far_from_zero() {
        // With doubles, the difference of two squares near 1e30 is noise.
        let far = 1_000_000_000_000_000.0;
        assert_eq!(found(&[far, far + 1.0, far + 2.0], Variance::Sample), (1.0, 1.0));
        assert_eq!(found(&[0.1; 10], Variance::Population), (0.0, 0.0));
    }

    #[test]
    fn what_is_beyond_the_doubles_is_told_apart() {
        let Spread { variance, stddev } = spread(&[1e200, -1e200], Variance::Population).expect("a variance");
        assert_eq!((variance, stddev), (None, Some(1e200)));
        let all = spread(&[f64::MAX, f64::MIN], Variance::Sample).expect("a variance");
        assert_eq!(all, Spread { variance: None, stddev: None });
        // Below the doubles both are 0, or the root alone is not.
        assert_eq!(found(&[5e-324, -5e-324], Variance::Population), (0.0, 5e-324));
    }
}
