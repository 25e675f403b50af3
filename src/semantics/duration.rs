//! Durations as they are written in `[input]` and `[window]`.

/// The longest duration, about 10,000 years: sums of a time and two of these stay far inside an i64.
pub(crate) const DURATION_MAX_MS: i64 = 3_652_500 * 86_400_000;

const UNITS_MS: [(&str, i64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a whole number and one of `ms s m h d`, in milliseconds.
///
/// # Errors
/// What is wrong with the text, for the operator.
pub(crate) fn parse_ms(text: &str) -> Result<i64, String> {
    let wrong =
        || format!("{text:?} is not a duration: write a whole number and one of ms, s, m, h, d, such as \"5m\"");
    let digits_end = text.find(|character: char| !character.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits_end);
    let factor = UNITS_MS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?.1;
    if number.is_empty() {
        return Err(wrong());
    }
    let duration_ms = number.parse::<i64>().ok().and_then(|number| number.checked_mul(factor));
    duration_ms
        .filter(|duration_ms| *duration_ms <= DURATION_MAX_MS)
        .ok_or_else(|| format!("{text:?} is too long: at most 3652500d"))
}

#[cfg(test)]
mod tests {
    use super::parse_ms;

    #[test]
    fn each_unit_is_read() {
        let found: Vec<_> = ["7ms", "7s", "7m", "7h", "7d", "0s"].into_iter().map(parse_ms).collect();
        assert_eq!(found, [Ok(7), Ok(7000), Ok(420_000), Ok(25_200_000), Ok(604_800_000), Ok(0)]);
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "5", "m", "-5m", "+5m", "5 m", "5M", "1.5h", "1h30m", "off", "99999999999999999999s", "3652501d", "٣s"]
        {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
