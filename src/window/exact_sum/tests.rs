use proptest::prelude::*;

use super::{ExactSum, Form};

fn sum_of(values: &[f64]) -> ExactSum {
    let mut sum = ExactSum::ZERO;
    values.iter().for_each(|value| sum.add(*value));
    sum
}

fn bytes_of(sum: &ExactSum) -> (usize, Vec<u8>) {
    sum.with_canonical(|zeros, bytes| (zeros, bytes.to_vec()))
}

/// A slow integer in base 2^32 with sign, in units of 2^-1074: another way to the same sums.
#[derive(Clone, Default)]
struct Slow {
    positive: Vec<u64>,
    negative: Vec<u64>,
}

impl Slow {
    fn add(&mut self, value: f64) {
        let size = value.abs();
        let side = if value < 0.0 { &mut self.negative } else { &mut self.positive };
        side.resize(90, 0);
        // Bit by bit: whether the size has the bit 2^(position - 1074).
        let exponent = i32::try_from(size.to_bits() >> 52).expect("small").max(1) - 1;
        let mantissa = (size.to_bits() & ((1 << 52) - 1)) | if size.to_bits() >> 52 == 0 { 0 } else { 1 << 52 };
        for bit in (0..53).filter(|bit| mantissa >> bit & 1 == 1) {
            let mut position = usize::try_from(exponent + bit).expect("positive");
            while side[position / 32] >> (position % 32) & 1 == 1 {
                side[position / 32] &= !(1 << (position % 32));
                position += 1;
            }
            side[position / 32] |= 1 << (position % 32);
        }
    }

    /// Compares sum * factor with other * (divisor times units), by digits of 32 bits.
    fn cmp_scaled(&self, factor: u64, other: &Slow, divisor: u64) -> std::cmp::Ordering {
        // self.positive * factor + other.negative * divisor against self.negative * factor + other.positive * divisor
        let left = weighted(&self.positive, factor, &other.negative, divisor);
        let right = weighted(&self.negative, factor, &other.positive, divisor);
        left.iter().rev().cmp(right.iter().rev())
    }
}

fn weighted(a: &[u64], by: u64, b: &[u64], times: u64) -> Vec<u64> {
    let mut carry = 0u128;
    (0..100)
        .map(|index| {
            let digit = |digits: &[u64]| u128::from(digits.get(index).copied().unwrap_or(0));
            let total = digit(a) * u128::from(by) + digit(b) * u128::from(times) + carry;
            carry = total >> 32;
            u64::try_from(total & 0xFFFF_FFFF).expect("32 bits")
        })
        .collect()
}

fn slow(values: &[f64]) -> Slow {
    let mut sum = Slow::default();
    values.iter().for_each(|value| sum.add(*value));
    sum
}

/// Whether the double is the nearest of sum / divisor: at most as far away as both its neighbours, even in ties.
fn is_nearest(values: &[f64], divisor: u64, found: Option<f64>) -> bool {
    let sum = slow(values);
    // The middle between two doubles a, b: compare 2 * sum with (a + b) * divisor.
    let against = |a: f64, b: f64| sum.cmp_scaled(2, &slow(&[a, b]), divisor);
    let Some(found) = found else {
        let edge = 2f64.powi(970); // half of the last place of the largest double
        let beyond = |sign: f64| sum.cmp_scaled(1, &slow(&[sign * f64::MAX, sign * edge]), divisor);
        return beyond(1.0).is_ge() || beyond(-1.0).is_le();
    };
    let is_even = found.to_bits() & 1 == 0;
    let (below, above) = (found.next_down(), found.next_up());
    let is_above_lower =
        !below.is_finite() || against(below, found).is_gt() || (is_even && against(below, found).is_eq());
    let is_below_upper =
        !above.is_finite() || against(found, above).is_lt() || (is_even && against(found, above).is_eq());
    is_above_lower && is_below_upper && found.to_bits() != (-0.0f64).to_bits()
}

fn any_double() -> impl Strategy<Value = f64> {
    let bits = any::<u64>().prop_map(f64::from_bits).prop_filter("finite", |value| value.is_finite());
    let special = prop::sample::select(vec![
        0.0,
        1.0,
        -1.0,
        0.1,
        -0.1,
        5e-324,
        -5e-324,
        f64::MAX,
        -f64::MAX,
        f64::MIN_POSITIVE,
        1e100,
        -1e100,
        2.225_073_858_507_201e-308,
        9_007_199_254_740_993.0,
        0.5,
        1.5,
        3e-324,
        1e16,
        -1e16,
    ]);
    prop_oneof![bits, special, -1e6..1e6f64, (-1000..1000i32).prop_map(|value| f64::from(value) / 10.0)]
}

#[test]
fn sums_are_exact() {
    for (values, wanted) in [
        (vec![], Some(0.0)),
        (vec![1e100, 1.0, -1e100], Some(1.0)),
        (vec![0.1; 10], Some(1.0)),
        (vec![5e-324, -5e-324], Some(0.0)),
        (vec![f64::MAX, 5e-324], Some(f64::MAX)),
        (vec![f64::MAX, 2f64.powi(970)], None),
        (vec![f64::MAX, 2f64.powi(970).next_down()], Some(f64::MAX)),
        (vec![f64::MAX, f64::MAX, -f64::MAX], Some(f64::MAX)),
        (vec![-f64::MAX, -f64::MAX], None),
        (vec![f64::MAX, f64::MAX, 2e292], None), // rounding up once carried into the sign
        (vec![9_007_199_254_740_992.0, 1.0], Some(9_007_199_254_740_992.0)),
        (vec![9_007_199_254_740_992.0, 1.0, 5e-324], Some(9_007_199_254_740_994.0)),
        (vec![9_007_199_254_740_994.0, 1.0], Some(9_007_199_254_740_996.0)),
    ] {
        assert_eq!(sum_of(&values).rounded(1), wanted, "{values:?}");
    }
}

#[test]
fn means_are_rounded_once() {
    for (values, wanted) in [
        (vec![f64::MAX, f64::MAX], Some(f64::MAX)),
        (vec![5e-324, 0.0], Some(0.0)),
        (vec![5e-324, 1e-323], Some(1e-323)),
        (vec![5e-324, 0.0, 5e-324], Some(5e-324)),
        (vec![-5e-324, 0.0, 0.0], Some(0.0)),
        (vec![1.0, 0.0, 0.0], Some(1.0 / 3.0)),
    ] {
        let mean = sum_of(&values).rounded(values.len() as u64);
        assert_eq!(mean, wanted, "{values:?}");
        assert_ne!(mean.map(f64::to_bits), Some((-0.0f64).to_bits()));
    }
}

#[test]
fn canonical_bytes_are_golden() {
    for (values, zeros, bytes) in [
        (vec![], 0, vec![]),
        (vec![5e-324], 0, vec![1]),
        (vec![-5e-324], 0, vec![0xFF]),
        (vec![1.0], 134, vec![4]),
        (vec![-1.0], 134, vec![0xFC]),
        (vec![21.5], 134, vec![0x56]),
        (vec![32.0], 134, vec![0x80, 0]),
        (vec![-32.0], 134, vec![0x80]),
        (vec![64.0], 135, vec![1]),
        (vec![0.1], 127, vec![0x68, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66]),
    ] {
        assert_eq!(bytes_of(&sum_of(&values)), (zeros, bytes), "{values:?}");
    }
}

#[test]
fn readings_of_a_sensor_stay_in_the_small_form() {
    let values: Vec<f64> = (0..100_000).map(|index| f64::from(index % 977) / 10.0 - 40.0).collect();
    assert!(matches!(sum_of(&values).0, Form::Small { .. }));
}

#[test]
fn bytes_that_are_not_canonical_are_refused() {
    for (zeros, bytes) in [
        (1, &[][..]),
        (0, &[0]),
        (0, &[0, 1]),
        (0, &[1, 0]),
        (0, &[0xFF, 0xFF]),
        (280, &[1]),
        (279, &[1, 1]),
        (usize::MAX, &[1]),
    ] {
        assert!(ExactSum::from_canonical(zeros, bytes).is_none(), "{zeros} {bytes:?}");
    }
    assert!(ExactSum::from_canonical(279, &[1]).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn any_order_batching_and_merging_gives_the_same_bytes(
        values in prop::collection::vec(any_double(), 1..40), cut in any::<prop::sample::Index>(), seed in any::<u64>()
    ) {
        let whole = sum_of(&values);
        let mut shuffled = values.clone();
        shuffled.sort_by_key(|value| value.to_bits().wrapping_mul(seed | 1).rotate_left(17));
        prop_assert_eq!(bytes_of(&sum_of(&shuffled)), bytes_of(&whole));

        let (left, right) = values.split_at(cut.index(values.len()));
        let mut merged = sum_of(left);
        merged.merge(&sum_of(right));
        prop_assert_eq!(bytes_of(&merged), bytes_of(&whole));

        let (zeros, bytes) = bytes_of(&sum_of(left));
        let mut restored = ExactSum::from_canonical(zeros, &bytes).expect("canonical bytes");
        right.iter().for_each(|value| restored.add(*value));
        prop_assert_eq!(bytes_of(&restored), bytes_of(&whole));
        prop_assert!(restored == whole);
    }

    #[test]
    fn sums_and_means_are_the_nearest_doubles(values in prop::collection::vec(any_double(), 1..30), divisor in 1u64..1000) {
        let sum = sum_of(&values);
        prop_assert!(is_nearest(&values, 1, sum.rounded(1)), "{:?}", sum.rounded(1));
        prop_assert!(is_nearest(&values, divisor, sum.rounded(divisor)), "{:?}", sum.rounded(divisor));
        prop_assert!(is_nearest(&values, u64::from(u32::MAX), sum.rounded(u64::from(u32::MAX))));
    }

    #[test]
    fn what_goes_out_again_leaves_no_trace(values in prop::collection::vec(any_double(), 0..30), other in prop::collection::vec(any_double(), 0..30)) {
        let mut sum = sum_of(&values);
        other.iter().for_each(|value| sum.add(*value));
        other.iter().rev().for_each(|value| sum.add(-*value));
        prop_assert_eq!(bytes_of(&sum), bytes_of(&sum_of(&values)));
    }

    #[test]
    fn any_bytes_are_read_or_refused(zeros in 0usize..300, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Some(mut sum) = ExactSum::from_canonical(zeros, &bytes) {
            prop_assert_eq!(bytes_of(&sum), (zeros, bytes));
            sum.add(f64::MAX);
            let _ = sum.rounded(3);
        }
    }
}
