//! Where windows begin and end. SEMANTICS 5.

use super::calendar::Calendar;

/// A kind of windows with its lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One after the other.
    Tumbling { size_ms: i64 },
    /// Of one length, one beginning at each multiple of `advance_ms`.
    Hopping { size_ms: i64, advance_ms: i64 },
    /// As long as readings follow one another within the gap.
    Session { gap_ms: i64 },
    /// Hours, days, weeks or months of a time zone.
    Calendar(Calendar),
}

impl Shape {
    /// Calls the function with start and end of each window that holds the time, by start; for sessions with that of
    /// the reading alone.
    pub(crate) fn windows_of(&self, time_ms: i64, each: &mut impl FnMut(i64, i64)) {
        match self {
            Shape::Tumbling { size_ms } => {
                let start_ms = time_ms.saturating_sub(time_ms.rem_euclid(*size_ms));
                each(start_ms, start_ms.saturating_add(*size_ms));
            }
            Shape::Hopping { size_ms, advance_ms } => {
                let since_newest_ms = time_ms.rem_euclid(*advance_ms);
                for hops in (0..=(size_ms - 1 - since_newest_ms).div_euclid(*advance_ms)).rev() {
                    let start_ms = time_ms.saturating_sub(since_newest_ms + hops * advance_ms);
                    each(start_ms, start_ms.saturating_add(*size_ms));
                }
            }
            Shape::Session { gap_ms } => each(time_ms, time_ms.saturating_add(*gap_ms)),
            Shape::Calendar(calendar) => {
                if let Some((start_ms, end_ms)) = calendar.window_of(time_ms) {
                    each(start_ms, end_ms);
                }
            }
        }
    }

    /// The end of the window with that start, whose latest reading is of `last_ms`.
    pub(crate) fn end_of(&self, start_ms: i64, last_ms: i64) -> i64 {
        match self {
            Shape::Tumbling { size_ms } | Shape::Hopping { size_ms, .. } => start_ms.saturating_add(*size_ms),
            Shape::Session { gap_ms } => last_ms.saturating_add(*gap_ms),
            Shape::Calendar(calendar) => calendar.window_of(start_ms).map_or(start_ms, |(_, end_ms)| end_ms),
        }
    }

    /// Whether a window can begin there.
    pub(crate) fn is_start(&self, start_ms: i64) -> bool {
        match self {
            Shape::Tumbling { size_ms: step_ms } | Shape::Hopping { advance_ms: step_ms, .. } => {
                start_ms.rem_euclid(*step_ms) == 0
            }
            Shape::Session { .. } => true,
            Shape::Calendar(calendar) => calendar.window_of(start_ms).is_some_and(|(found_ms, _)| found_ms == start_ms),
        }
    }

    /// Whether windows grow with their readings.
    pub(crate) fn is_session(&self) -> bool {
        matches!(self, Shape::Session { .. })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Shape;

    fn windows_of(shape: &Shape, time_ms: i64) -> Vec<(i64, i64)> {
        let mut windows = Vec::new();
        shape.windows_of(time_ms, &mut |start_ms, end_ms| windows.push((start_ms, end_ms)));
        windows
    }

    #[test]
    fn windows_below_zero_begin_below_their_times() {
        assert_eq!(windows_of(&Shape::Tumbling { size_ms: 10 }, -1), [(-10, 0)]);
        assert_eq!(windows_of(&Shape::Tumbling { size_ms: 10 }, -10), [(-10, 0)]);
        assert_eq!(windows_of(&Shape::Hopping { size_ms: 10, advance_ms: 4 }, -1), [(-8, 2), (-4, 6)]);
        assert_eq!(windows_of(&Shape::Session { gap_ms: 7 }, -3), [(-3, 4)]);
    }

    #[test]
    fn an_advance_that_does_not_divide_the_size_gives_more_windows_to_some_times() {
        let shape = Shape::Hopping { size_ms: 10, advance_ms: 4 };
        assert_eq!(windows_of(&shape, 8), [(0, 10), (4, 14), (8, 18)]);
        assert_eq!(windows_of(&shape, 10), [(4, 14), (8, 18)]);
    }

    proptest! {
        #[test]
        fn hopping_windows_are_all_that_hold_the_time(time_ms in -5000i64..5000, advance_ms in 1i64..50, more_ms in 0i64..500) {
            let size_ms = advance_ms + more_ms;
            let shape = Shape::Hopping { size_ms, advance_ms };
            let all = (-6000i64 / advance_ms - 1..=5000 / advance_ms)
                .map(|hop| (hop * advance_ms, hop * advance_ms + size_ms))
                .filter(|(start_ms, end_ms)| (*start_ms..*end_ms).contains(&time_ms));
            let found = windows_of(&shape, time_ms);
            prop_assert_eq!(&found, &all.collect::<Vec<_>>());
            for (start_ms, end_ms) in found {
                prop_assert!(shape.is_start(start_ms));
                prop_assert_eq!(shape.end_of(start_ms, time_ms), end_ms);
            }
        }

        #[test]
        fn no_start_makes_a_shape_panic(start_ms in any::<i64>(), last_ms in any::<i64>()) {
            for shape in [
                Shape::Tumbling { size_ms: 3_600_000 },
                Shape::Hopping { size_ms: 7000, advance_ms: 3000 },
                Shape::Session { gap_ms: 1000 },
            ] {
                let _ = (shape.is_start(start_ms), shape.end_of(start_ms, last_ms), windows_of(&shape, start_ms));
            }
        }
    }
}
