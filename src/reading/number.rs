//! Decimal text, exactly: to the nearest double, and to whole numbers without passing through a double.

/// Texts up to this length are left to the standard library, whose reading of exponents is exact for them.
const PLAIN_BYTES_MAX: usize = 300;
/// More significant digits than this cannot change which double is nearest, beyond being zero or not.
const DIGITS_MAX: usize = 800;
/// Exponents beyond this are as good as infinite: no text is long enough to make up for them.
const EXPONENT_MAX: i64 = 1_000_000_000_000_000;
/// Whole numbers with more digits than this are beyond every time.
const WHOLE_DIGITS_MAX: i64 = 30;

/// Number text, `[+-]?(D+(\.D*)?|\.D+)([eE][+-]?D+)?`, cut into its parts.
struct Decimal<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let bytes = text.as_bytes();
        let (negative, rest) = match bytes.first() {
            Some(b'-') => (true, &bytes[1..]),
            Some(b'+') => (false, &bytes[1..]),
            _ => (false, bytes),
        };
        let (whole, rest) = split_digits(rest);
        let (fraction, rest) = match rest.split_first() {
            Some((b'.', rest)) => split_digits(rest),
            _ => (&[][..], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let exponent = match rest.split_first() {
            None => 0,
            Some((b'e' | b'E', exponent)) => parse_exponent(exponent)?,
            Some(_) => return None,
        };
        Some(Self { negative, whole, fraction, exponent })
    }

    /// The digits without leading zeros, and where the point stands: the size is `0.DIGITS * 10^point`.
    fn significant(&self) -> (impl Iterator<Item = u8> + Clone + use<'a>, i64) {
        let digits = self.whole.iter().chain(self.fraction).copied();
        let zeros = digits.clone().take_while(|digit| *digit == b'0').count();
        (digits.skip(zeros), signed(self.whole.len()) - signed(zeros) + self.exponent)
    }
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX / 4)
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

fn parse_exponent(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, bytes),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits.iter().fold(0, |size, digit| (size * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    Some(if negative { -size } else { size })
}

/// Whether the text is number text.
pub(crate) fn is_number_text(text: &str) -> bool {
    Decimal::parse(text).is_some()
}

/// Whether the text is `nan`, `inf` or `infinity` in any case, with or without sign.
pub(crate) fn is_non_finite_text(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    ["nan", "inf", "infinity"].iter().any(|name| unsigned.eq_ignore_ascii_case(name))
}

/// The nearest double of number text, ties to even; infinite when beyond the doubles; never -0.0.
/// None when it is no number text.
pub(crate) fn to_double(text: &str) -> Option<f64> {
    let decimal = Decimal::parse(text)?;
    let value = if text.len() <= PLAIN_BYTES_MAX { text.parse::<f64>().ok()? } else { long_to_double(&decimal)? };
    Some(value + 0.0)
}

/// The standard library gives up on exact exponents when a text is longer than they can make up for, so long texts
/// are brought to the form `0.DIGITSe±NNN` first.
fn long_to_double(decimal: &Decimal<'_>) -> Option<f64> {
    let (mut digits, point) = decimal.significant();
    if digits.clone().next().is_none() || point < -400 {
        return Some(0.0);
    }
    if point > 400 {
        return Some(if decimal.negative { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let mut text = String::with_capacity(DIGITS_MAX + 16);
    text.push_str(if decimal.negative { "-0." } else { "0." });
    text.extend(digits.by_ref().take(DIGITS_MAX).map(char::from));
    if digits.any(|digit| digit != b'0') {
        text.push('1');
    }
    text.push_str(&format!("e{point}"));
    text.parse().ok()
}

/// `floor(number * 10^shift)`, exactly; None when it has more than 30 digits or the text is no number text.
pub(crate) fn floor_shifted(text: &str, shift: i64) -> Option<i128> {
    let decimal = Decimal::parse(text)?;
    let (mut digits, point) = decimal.significant();
    if digits.clone().next().is_none() {
        return Some(0);
    }
    let whole_digits = point + shift;
    if whole_digits > WHOLE_DIGITS_MAX {
        return None;
    }
    let mut size: i128 = 0;
    for _ in 0..whole_digits {
        size = size * 10 + digits.next().map_or(0, |digit| i128::from(digit - b'0'));
    }
    let is_whole = digits.all(|digit| digit == b'0');
    Some(match (decimal.negative, is_whole) {
        (false, _) => size,
        (true, true) => -size,
        (true, false) => -size - 1,
    })
}

/// The text without sign.
pub(crate) fn unsigned(text: &str) -> &str {
    text.strip_prefix(['+', '-']).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::{floor_shifted, is_non_finite_text, is_number_text, to_double};

    #[test]
    fn number_text_is_what_the_page_says() {
        for text in ["1", "+1", "-1.", ".5", "0001", "1e5", "1.E+05", "-.5e-05"] {
            assert!(is_number_text(text), "{text}");
        }
        for text in ["", ".", "+", "1e", "1e+", "e5", "1 ", "0x1", "1_0", "1.2.3", "--1", "nan", "inf", "١"] {
            assert!(!is_number_text(text), "{text}");
        }
        assert!(["nan", "-Inf", "+INFINITY"].into_iter().all(is_non_finite_text));
        assert!(!is_non_finite_text("infinit"));
    }

    #[test]
    fn doubles_are_the_nearest_ones_however_long_the_text_is() {
        let zeros = "0".repeat(1_000_000);
        for (text, wanted) in [
            ("9007199254740993".to_owned(), 9_007_199_254_740_992.0),
            (format!("9007199254740993.{}1", "0".repeat(900)), 9_007_199_254_740_994.0),
            (format!("0.{zeros}15e1000001"), 1.5),
            (format!("15{zeros}e-1000001"), 1.5),
            (format!("{zeros}7"), 7.0),
            (format!("0.{zeros}"), 0.0),
            (format!("1{zeros}"), f64::INFINITY),
            (format!("-1e{zeros}400"), f64::NEG_INFINITY),
            (format!("1e-{}", "9".repeat(400)), 0.0),
            ("1e999999999999999999999".to_owned(), f64::INFINITY),
            ("2.4703282292062327208e-324".to_owned(), 0.0),
            ("2.4703282292062327209e-324".to_owned(), 5e-324),
        ] {
            assert_eq!(to_double(&text), Some(wanted), "{}", &text[..text.len().min(40)]);
        }
        assert_eq!(to_double("-0.0").map(f64::to_bits), Some(0));
    }

    #[test]
    fn shifted_numbers_are_floored() {
        for (text, shift, wanted) in [
            ("1577898000.3", 3, Some(1_577_898_000_300)),
            ("1.0009", 3, Some(1000)),
            ("-1.0009", 3, Some(-1001)),
            ("-1.000", 3, Some(-1000)),
            ("-0.0001", 3, Some(-1)),
            ("-0", 3, Some(0)),
            ("-5e-100000000000000000000000", 0, Some(-1)),
            ("1.7040672e9", 0, Some(1_704_067_200)),
            ("17e29", 0, None),
            ("17e28", 0, Some(170_000_000_000_000_000_000_000_000_000)),
        ] {
            assert_eq!(floor_shifted(text, shift), wanted, "{text}");
        }
    }
}
