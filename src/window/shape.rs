//! Where windows begin and end. SEMANTICS 5.

/// The shape of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One after the other, `size_ms` > 0 long, one of them beginning at 1970-01-01T00:00Z.
    Tumbling { size_ms: i64 },
}

impl Shape {
    /// The start of the window that holds a time.
    pub(crate) fn start_of(self, time_ms: i64) -> i64 {
        let Shape::Tumbling { size_ms } = self;
        time_ms.saturating_sub(time_ms.rem_euclid(size_ms.max(1)))
    }

    /// The end of the window that begins there; it is outside.
    pub(crate) fn end_of(self, start_ms: i64) -> i64 {
        let Shape::Tumbling { size_ms } = self;
        start_ms.saturating_add(size_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn windows_are_floored_below_zero_too() {
        let hour = Shape::Tumbling { size_ms: 3_600_000 };
        assert_eq!([-1, 0, 3_599_999, 3_600_000].map(|time_ms| hour.start_of(time_ms)), [-3_600_000, 0, 0, 3_600_000]);
        assert_eq!(hour.end_of(-3_600_000), 0);
    }
}
