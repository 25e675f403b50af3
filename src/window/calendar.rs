//! Hours, days, weeks and months of a time zone, through every change of its offset. SEMANTICS 5.

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::semantics::CalendarUnit;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Windows of the local clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Calendar {
    pub(crate) unit: CalendarUnit,
    pub(crate) zone: TimeZone,
    /// The zone's name, for the hash.
    pub(crate) zone_name: String,
}

impl Calendar {
    /// Start and end of the window that holds the time; None outside of the years that a clock can show.
    pub(crate) fn window_of(&self, time_ms: i64) -> Option<(i64, i64)> {
        match self.unit {
            CalendarUnit::Hour => self.hour_of(time_ms),
            CalendarUnit::Day | CalendarUnit::Week | CalendarUnit::Month => self.dates_of(time_ms),
        }
    }

    /// Cut at every whole hour of the local clock and at every change of its offset.
    fn hour_of(&self, time_ms: i64) -> Option<(i64, i64)> {
        let offset_ms = self.offset_ms(time_ms)?;
        let mut start_ms = time_ms - (time_ms + offset_ms).rem_euclid(HOUR_MS);
        let mut end_ms = start_ms + HOUR_MS;
        if self.offset_ms(start_ms)? != offset_ms {
            start_ms = self.change_between(start_ms, time_ms)?;
        }
        if self.offset_ms(end_ms - 1)? != offset_ms {
            end_ms = self.change_between(time_ms, end_ms - 1)?;
        }
        Some((start_ms, end_ms))
    }

    /// From the first instant at which the local clock shows the unit's first date to that of the next.
    fn dates_of(&self, time_ms: i64) -> Option<(i64, i64)> {
        let mut date = self.first_date(self.date_at(time_ms)?)?;
        // A clock that is set back over midnight shows a date again after the next one began.
        while self.begin_ms(date)? > time_ms {
            date = self.first_date(date.yesterday().ok()?)?;
        }
        loop {
            let next = self.next_date(date)?;
            let end_ms = self.begin_ms(next)?;
            if end_ms > time_ms {
                return Some((self.begin_ms(date)?, end_ms));
            }
            date = next;
        }
    }

    fn first_date(&self, date: Date) -> Option<Date> {
        match self.unit {
            CalendarUnit::Hour | CalendarUnit::Day => Some(date),
            CalendarUnit::Week => {
                let days = i64::from(date.weekday().to_monday_zero_offset());
                date.checked_sub(jiff::Span::new().days(days)).ok()
            }
            CalendarUnit::Month => Some(date.first_of_month()),
        }
    }

    fn next_date(&self, date: Date) -> Option<Date> {
        match self.unit {
            CalendarUnit::Hour | CalendarUnit::Day => date.tomorrow().ok(),
            CalendarUnit::Week => date.checked_add(jiff::Span::new().days(7)).ok(),
            CalendarUnit::Month => date.last_of_month().tomorrow().ok(),
        }
    }

    /// The first instant at which the local clock shows 00:00 of the date or later.
    fn begin_ms(&self, date: Date) -> Option<i64> {
        let midnight = date.to_datetime(Time::midnight());
        // Of a midnight that comes twice the first; one that is skipped is read with the offset before the change.
        let ambiguous = self.zone.to_ambiguous_timestamp(midnight);
        let is_skipped = matches!(ambiguous.offset(), AmbiguousOffset::Gap { .. });
        let instant_ms = ambiguous.compatible().ok()?.as_millisecond();
        if is_skipped { self.change_between(instant_ms - DAY_MS, instant_ms) } else { Some(instant_ms) }
    }

    /// The first instant with the offset of the later one; the offset changes once in between.
    fn change_between(&self, before_ms: i64, after_ms: i64) -> Option<i64> {
        let (mut before_ms, mut after_ms) = (before_ms, after_ms);
        let offset_ms = self.offset_ms(after_ms)?;
        while after_ms - before_ms > 1 {
            let middle_ms = before_ms.midpoint(after_ms);
            if self.offset_ms(middle_ms)? == offset_ms {
                after_ms = middle_ms;
            } else {
                before_ms = middle_ms;
            }
        }
        Some(after_ms)
    }

    fn offset_ms(&self, time_ms: i64) -> Option<i64> {
        let instant = Timestamp::from_millisecond(time_ms).ok()?;
        Some(i64::from(self.zone.to_offset(instant).seconds()) * 1000)
    }

    fn date_at(&self, time_ms: i64) -> Option<Date> {
        let instant = Timestamp::from_millisecond(time_ms).ok()?;
        Some(self.zone.to_offset(instant).to_datetime(instant).date())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use jiff::tz::TimeZoneDatabase;
    use proptest::prelude::*;

    use super::{Calendar, CalendarUnit, HOUR_MS};

    fn calendar(unit: CalendarUnit, zone: &str) -> Calendar {
        let rules = TimeZoneDatabase::bundled().get(zone).expect("a zone");
        Calendar { unit, zone: rules, zone_name: zone.to_owned() }
    }

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().expect("a time").as_millisecond()
    }

    fn window(unit: CalendarUnit, zone: &str, time: &str) -> String {
        let (start_ms, end_ms) = calendar(unit, zone).window_of(ms(time)).expect("a window");
        let show = |time_ms| Timestamp::from_millisecond(time_ms).expect("a time").to_string();
        format!("{} {}", show(start_ms), show(end_ms))
    }

    #[test]
    fn days_weeks_and_months_follow_the_local_clock() {
        use CalendarUnit::{Day, Month, Week};
        for (unit, zone, time, wanted) in [
            // 23 and 25 hours
            (Day, "Europe/Berlin", "2024-03-31T12:00:00Z", "2024-03-30T23:00:00Z 2024-03-31T22:00:00Z"),
            (Day, "Europe/Berlin", "2024-10-27T12:00:00Z", "2024-10-26T22:00:00Z 2024-10-27T23:00:00Z"),
            // midnight is skipped: the day begins at 01:00
            (Day, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z 2018-11-05T02:00:00Z"),
            // the clock shows 23:00 of the 17th again after the 18th would have begun
            (Day, "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z 2018-02-18T03:00:00Z"),
            // midnight comes twice: the second one belongs to the day that began with the first
            (Day, "America/Havana", "2024-11-03T05:30:00Z", "2024-11-03T04:00:00Z 2024-11-04T05:00:00Z"),
            // the 30th never was
            (Day, "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z 2011-12-30T10:00:00Z"),
            (Day, "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z 2011-12-31T10:00:00Z"),
            (Week, "UTC", "2024-01-07T23:59:59.999Z", "2024-01-01T00:00:00Z 2024-01-08T00:00:00Z"),
            (Week, "UTC", "2024-01-08T00:00:00Z", "2024-01-08T00:00:00Z 2024-01-15T00:00:00Z"),
            (Month, "Asia/Kathmandu", "2024-02-29T18:14:59Z", "2024-01-31T18:15:00Z 2024-02-29T18:15:00Z"),
            (Month, "UTC", "9998-12-31T00:00:00Z", "9998-12-01T00:00:00Z 9999-01-01T00:00:00Z"),
        ] {
            assert_eq!(window(unit, zone, time), wanted, "{unit:?} {zone} {time}");
        }
    }

    #[test]
    fn hours_are_cut_where_the_clock_is_set() {
        for (zone, time, wanted) in [
            ("Asia/Kathmandu", "2024-01-01T00:20:00Z", "2024-01-01T00:15:00Z 2024-01-01T01:15:00Z"),
            ("Europe/Berlin", "2024-10-27T00:30:00Z", "2024-10-27T00:00:00Z 2024-10-27T01:00:00Z"),
            ("Europe/Berlin", "2024-10-27T01:30:00Z", "2024-10-27T01:00:00Z 2024-10-27T02:00:00Z"),
            // half an hour forth at 02:00 local, back at 02:00: the hours about it are half as long
            ("Australia/Lord_Howe", "2024-10-05T15:40:00Z", "2024-10-05T15:30:00Z 2024-10-05T16:00:00Z"),
            ("Australia/Lord_Howe", "2024-04-06T14:50:00Z", "2024-04-06T14:00:00Z 2024-04-06T15:00:00Z"),
            ("Australia/Lord_Howe", "2024-04-06T15:10:00Z", "2024-04-06T15:00:00Z 2024-04-06T15:30:00Z"),
        ] {
            assert_eq!(window(CalendarUnit::Hour, zone, time), wanted, "{zone} {time}");
        }
    }

    #[test]
    fn what_no_clock_can_show_has_no_window() {
        for unit in [CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month] {
            for time_ms in [i64::MIN, i64::MAX, ms("-009999-01-02T01:59:59Z"), ms("9999-12-30T22:00:00Z")] {
                let _ = calendar(unit, "Asia/Kathmandu").window_of(time_ms);
            }
            assert_eq!(calendar(unit, "UTC").window_of(i64::MIN), None);
        }
    }

    proptest! {
        #[test]
        fn windows_hold_their_times_and_follow_one_another(
            time_ms in 0i64..4_102_444_800_000,
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/Havana", "Pacific/Apia", "Australia/Lord_Howe",
                "Africa/Monrovia", "America/Scoresbysund", "Asia/Amman", "Antarctica/Troll"]),
            unit in prop::sample::select(vec![CalendarUnit::Hour, CalendarUnit::Day, CalendarUnit::Week, CalendarUnit::Month])
        ) {
            let calendar = calendar(unit, zone);
            let (start_ms, end_ms) = calendar.window_of(time_ms).expect("a window");
            prop_assert!(start_ms <= time_ms && time_ms < end_ms && end_ms - start_ms <= 32 * 24 * HOUR_MS);
            prop_assert_eq!(calendar.window_of(start_ms), Some((start_ms, end_ms)));
            prop_assert_eq!(calendar.window_of(end_ms - 1), Some((start_ms, end_ms)));
            prop_assert_eq!(calendar.window_of(end_ms).expect("a window").0, end_ms);
        }
    }
}
