//! Replays the readings of files: a JSON array, one JSON object a line, or CSV with the columns time and value.

use std::{
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::value::RawValue;

use super::{Kind, Record, Source, locate::locate, replay_time::FileTime, shape::Shape};
use crate::semantics::InputSection;

/// A file that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It is neither of the known kinds, or a record of it is broken.
    #[error("{} record {number}: {what}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Which record, from 1.
        number: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is nothing in it.
    #[error("{} holds no readings; it must be a JSON array, one JSON object a line, or CSV (time,value)", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// How fast records are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// So many times as fast as they were measured.
    Speed(f64),
    /// So many a second.
    Rate(f64),
}

/// Where device and time stand in the records of a file, and how CSV is written.
#[derive(Clone, Debug, Default)]
pub struct Mapping {
    device: Option<String>,
    time: Option<String>,
    shape: Shape,
}

impl Mapping {
    /// As this configuration reads them.
    #[must_use]
    pub fn of(input: &InputSection, shape: Shape) -> Self {
        Self { device: input.device.pointer.clone(), time: input.time.pointer.clone(), shape }
    }

    fn device(&self) -> &str {
        self.device.as_deref().unwrap_or("/device_id")
    }

    fn time(&self) -> &str {
        self.time.as_deref().unwrap_or("/ts")
    }
}

#[derive(Clone, Debug)]
struct Reading {
    text: String,
    device: Option<Range<usize>>,
    name: String,
    time: Range<usize>,
    at: FileTime,
    at_ms: i64,
}

/// The readings of files, in the order of their times.
#[derive(Clone, Debug, Default)]
pub struct Readings(Vec<Reading>);

impl Readings {
    /// Reads files. Readings of one file keep their order; those of several are merged by time.
    ///
    /// # Errors
    /// See [`ReplayError`].
    pub fn load(paths: &[PathBuf], mapping: &Mapping) -> Result<Self, ReplayError> {
        let mut all = Vec::new();
        for path in paths {
            let text = fs::read_to_string(path).map_err(|source| ReplayError::Read { path: path.clone(), source })?;
            let readings = parse(path, &text, mapping)?;
            if readings.is_empty() {
                return Err(ReplayError::Empty { path: path.clone() });
            }
            all.extend(readings);
        }
        if paths.len() > 1 {
            all.sort_by_key(|reading: &Reading| reading.at_ms);
        }
        Ok(Self(all))
    }

    /// Number of readings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// From the first time to the last, in milliseconds.
    #[must_use]
    pub fn span_ms(&self) -> i64 {
        let times = || self.0.iter().map(|reading| reading.at_ms);
        times().max().unwrap_or(0) - times().min().unwrap_or(0)
    }
}

/// A replay of readings.
pub struct Replay {
    readings: Readings,
    pace: Pace,
    copies: u32,
    is_endless: bool,
    begin_ms: i64,
    pass_ms: i64,
    /// Next reading, copy and pass.
    at: (usize, u32, i64),
    sent: u64,
}

impl Replay {
    /// A replay at its beginning. Each reading is sent by so many devices, named after its own with a number; one copy
    /// leaves it as it is. An endless one goes on with the first reading after the last, with times that go on too.
    #[must_use]
    pub fn new(readings: Readings, pace: Pace, copies: u32, is_endless: bool) -> Self {
        let begin_ms = readings.0.iter().map(|reading| reading.at_ms).min().unwrap_or(0);
        let span_ms = readings.span_ms();
        // From the last reading to the first of the next pass: as between two readings on average.
        let gap_ms = (span_ms / i64::try_from(readings.len().max(1)).unwrap_or(1)).max(1);
        let pass_ms = span_ms + gap_ms;
        Self { readings, pace, copies: copies.max(1), is_endless, begin_ms, pass_ms, at: (0, 0, 0), sent: 0 }
    }

    fn step(&mut self) {
        let (reading, copy, pass) = self.at;
        self.at = if copy + 1 < self.copies {
            (reading, copy + 1, pass)
        } else if reading + 1 < self.readings.len() || !self.is_endless {
            (reading + 1, 0, pass)
        } else {
            (0, 0, pass + 1)
        };
        self.sent += 1;
    }
}

impl Source for Replay {
    fn next(&mut self, record: &mut Record) -> bool {
        let (index, copy, pass) = self.at;
        let Some(reading) = self.readings.0.get(index) else { return false };
        let moved_ms = self.pass_ms.saturating_mul(pass);
        record.due = match self.pace {
            Pace::Rate(rate) => Duration::from_secs_f64(self.sent as f64 / rate.max(1e-6)),
            Pace::Speed(speed) => {
                let after_ms = (reading.at_ms - self.begin_ms).saturating_add(moved_ms).max(0);
                Duration::from_secs_f64(after_ms as f64 / 1000.0 / speed.max(1e-6))
            }
        };
        record.kind = Kind::Good;
        record.device.clone_from(&reading.name);
        if self.copies > 1 {
            record.device.push_str(&format!("-{copy:03}"));
        }
        write(reading, (self.copies > 1).then_some(record.device.as_str()), moved_ms, &mut record.value);
        self.step();
        true
    }
}

/// The reading's text with another device and another time.
fn write(reading: &Reading, device: Option<&str>, moved_ms: i64, out: &mut Vec<u8>) {
    out.clear();
    let device = match (device, &reading.device) {
        (Some(device), Some(place)) => Some((place, serde_json::Value::from(device).to_string())),
        _ => None,
    };
    let time = (moved_ms != 0).then(|| (&reading.time, reading.at.moved(moved_ms)));
    let mut places: Vec<_> = device.into_iter().chain(time).collect();
    places.sort_unstable_by_key(|(place, _)| place.start);
    let text = reading.text.as_bytes();
    let mut at = 0;
    for (place, new) in places {
        out.extend_from_slice(text.get(at..place.start).unwrap_or_default());
        out.extend_from_slice(new.as_bytes());
        at = place.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
}

fn parse(path: &Path, text: &str, mapping: &Mapping) -> Result<Vec<Reading>, ReplayError> {
    let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    let broken = |number, what| ReplayError::Broken { path: path.to_owned(), number, what };
    let begin = text.trim_start_matches('\u{feff}').trim_start();
    let of = |(number, record): (usize, &str)| {
        reading(record, &stem, mapping)
            .ok_or_else(|| broken(number, "it has no time that can be read where one should be"))
    };
    if begin.starts_with('[') {
        let array: Vec<&RawValue> = serde_json::from_str(begin).map_err(|_| broken(1, "the file is no JSON array"))?;
        return (1..).zip(array.into_iter().map(RawValue::get)).map(of).collect();
    }
    let lines = || (1..).zip(begin.lines()).filter(|(_, line)| !line.trim().is_empty());
    if begin.starts_with('{') {
        return lines().map(of).collect();
    }
    let csv = |(number, line)| {
        let what = "the line is not: time,value";
        csv_line(line, &stem, mapping).ok_or_else(|| broken(number, what))
    };
    // The first line names the columns.
    lines().skip(1).map(csv).collect()
}

fn reading(text: &str, stem: &str, mapping: &Mapping) -> Option<Reading> {
    let text = text.trim();
    let device = locate(text, mapping.device());
    let name = match &device {
        None => stem.to_owned(),
        Some(place) => {
            let json = text.get(place.clone())?;
            serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
        }
    };
    let time = locate(text, mapping.time())?;
    let at = FileTime::of(text.get(time.clone())?)?;
    let at_ms = at.ms();
    Some(Reading { text: text.to_owned(), device, name, time, at, at_ms })
}

fn csv_line(line: &str, stem: &str, mapping: &Mapping) -> Option<Reading> {
    let (time, value) = line.trim_end().split_once(',')?;
    let at = FileTime::of(&serde_json::Value::from(time).to_string())?;
    let value: f64 = value.parse().ok()?;
    let device = serde_json::Value::from(mapping.shape.device(stem)).to_string();
    let mut out = Vec::new();
    mapping.shape.write(&mut out, &device, &mapping.shape.time(at.ms()), |_, out| {
        out.extend_from_slice(value.to_string().as_bytes());
    });
    reading(std::str::from_utf8(&out).ok()?, stem, mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARRAY: &str = r#"[{"device_id":"a","ts":1000.5,"v":1}, {"v":2,"ts":1004,"device_id":"b"}]"#;

    fn readings(name: &str, text: &str) -> Result<Readings, ReplayError> {
        parse(Path::new(name), text, &Mapping::default()).map(Readings)
    }

    fn texts(mut replay: Replay, count: usize) -> Vec<(String, String, u64)> {
        let mut record = Record::default();
        let mut all = Vec::new();
        while all.len() < count && replay.next(&mut record) {
            let text = String::from_utf8(record.value.clone()).expect("UTF-8");
            all.push((record.device.clone(), text, record.due.as_millis() as u64));
        }
        all
    }

    #[test]
    fn a_file_is_replayed_byte_for_byte_at_its_own_pace() {
        let replay = Replay::new(readings("x.json", ARRAY).unwrap(), Pace::Speed(2.0), 1, false);
        let wanted =
            [("a", r#"{"device_id":"a","ts":1000.5,"v":1}"#, 0), ("b", r#"{"v":2,"ts":1004,"device_id":"b"}"#, 1750)];
        assert_eq!(texts(replay, 9), wanted.map(|(device, text, due)| (device.to_owned(), text.to_owned(), due)));
    }

    #[test]
    fn in_a_loop_event_time_goes_on_and_copies_have_names_of_their_own() {
        let replay = Replay::new(readings("x.json", ARRAY).unwrap(), Pace::Rate(10.0), 2, true);
        let all = texts(replay, 6);
        assert_eq!(all[1], ("a-001".to_owned(), r#"{"device_id":"a-001","ts":1000.5,"v":1}"#.to_owned(), 100));
        // The pass takes 3.5 s, and 1.75 s lie between two readings on average.
        assert_eq!(all[4].1, r#"{"device_id":"a-000","ts":1005.75,"v":1}"#);
        assert_eq!(all[4].2, 400);
    }

    #[test]
    fn lines_of_json_and_csv_are_read() {
        let lines = readings("x.jsonl", "{\"device_id\":7,\"ts\":1}\n\n{\"ts\":\"2020-01-01T00:00:00Z\"}\n").unwrap();
        assert_eq!((lines.0[0].name.as_str(), lines.0[1].name.as_str()), ("7", "x"));
        let csv =
            readings("speed_6005.csv", "timestamp,value\n2015-08-31 18:22:00,90\n2015-08-31 18:32:00,80.5\n").unwrap();
        let all = texts(Replay::new(csv, Pace::Speed(600.0), 1, false), 9);
        assert_eq!(all[1].1, r#"{"device_id":"speed_6005","ts":1441045920000,"value":80.5}"#);
        assert_eq!((all[1].0.as_str(), all[1].2), ("speed_6005", 1000));
    }

    #[test]
    fn a_broken_record_is_named() {
        let error = readings("x.jsonl", "{\"ts\":1}\n{\"ts\":null}\n").unwrap_err();
        assert_eq!(error.to_string(), "x.jsonl record 2: it has no time that can be read where one should be");
        assert!(readings("x.csv", "time,value\nnow,1\n").is_err());
        assert!(readings("x.json", "[{]").is_err());
    }

    #[test]
    fn the_real_readings_that_are_shipped_can_be_replayed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/iot-telemetry/raw_data_large.json");
        let readings = Readings::load(&[path], &Mapping::default()).unwrap();
        assert_eq!(readings.len(), 9995);
        assert!(readings.span_ms() > 3_600_000);
    }
}
