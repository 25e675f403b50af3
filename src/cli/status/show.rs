//! Numbers, ages and tables as people read them.

/// What is not known.
pub(crate) const UNKNOWN: &str = "?";

/// A count in at most five characters: `9999`, `912k`, `12M`.
pub(crate) fn count(count: u64) -> String {
    match count {
        0..10_000 => count.to_string(),
        10_000..10_000_000 => format!("{}k", count / 1000),
        10_000_000..10_000_000_000 => format!("{}M", count / 1_000_000),
        _ => format!("{}G", count / 1_000_000_000),
    }
}

/// An age: `12ms`, `1.2s`, `41s`, `11m`, `3h05m`, `3d04h`.
pub(crate) fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0 => format!("{ms}ms"),
        1..10 => format!("{}.{}s", seconds, ms % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m"),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// What is known, or `?`.
pub(crate) fn or_unknown<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| UNKNOWN.to_owned(), show)
}

/// How a column is aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Lines of a table, columns two spaces apart.
pub(crate) fn table(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let width = |index: usize, title: &str| {
        let cells = rows.iter().filter_map(|row| row.get(index)).map(|cell| cell.chars().count());
        cells.chain([title.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = columns.iter().enumerate().map(|(index, (title, _))| width(index, title)).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.zip(&widths).zip(columns) {
            match align {
                Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                Align::Right => line.push_str(&format!("{cell:>width$}  ")),
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    };
    let mut text = line(&mut columns.iter().map(|(title, _)| *title));
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_ages_are_short_and_never_blank() {
        for (value, shown) in [(0, "0"), (9999, "9999"), (10_000, "10k"), (912_345, "912k"), (12_000_000, "12M")] {
            assert_eq!(count(value), shown);
        }
        assert_eq!(count(u64::MAX), "18446744073G");
        for (ms, shown) in [
            (0, "0ms"),
            (999, "999ms"),
            (1000, "1.0s"),
            (9999, "9.9s"),
            (41_000, "41s"),
            (660_000, "11m"),
            (11_100_000, "3h05m"),
            (274_000_000, "3d04h"),
        ] {
            assert_eq!(age(ms), shown);
        }
    }
}
