//! A synthetic fleet: devices whose values walk at random, with disorder by share. A function of its options.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Kind, Record, Source, shape::Shape};

/// Values are counted in hundredths: no rounding, and quickly written.
const STEP_MAX: i32 = 50;

/// What the fleet is like.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// Number of devices, at least 1.
    pub devices: u32,
    /// Records a second, above 0.
    pub rate: f64,
    /// Number from which all chance comes.
    pub seed: u64,
    /// Event time of the first record, in milliseconds since 1970.
    pub begin_ms: i64,
    /// Share of records that are behind by `late_by` to twice that.
    pub late: f64,
    /// How far late records are behind.
    pub late_by: Duration,
    /// Share of records that are the last one of their device once more.
    pub duplicates: f64,
    /// Share of records that must be rejected.
    pub bad: f64,
    /// Share of records that are behind by up to `disorder`.
    pub out_of_order: f64,
    /// How far records that are out of order are behind at most.
    pub disorder: Duration,
    /// How readings are written.
    pub shape: Shape,
}

struct Device {
    name: String,
    /// The name as JSON.
    text: String,
    /// In hundredths.
    values: Vec<i32>,
    /// Of its last sound record.
    time_ms: Option<i64>,
}

/// The fleet; endless.
pub struct Fleet {
    options: FleetOptions,
    random: ChaCha8Rng,
    devices: Vec<Device>,
    sent: u64,
}

impl Fleet {
    /// A fleet at its beginning.
    #[must_use]
    pub fn new(options: FleetOptions) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(options.seed);
        let device = |number| {
            let name = options.shape.device(&format!("device-{number:05}"));
            let values = (0..options.shape.values()).map(|_| random.random_range(0..10_000)).collect();
            Device { text: format!("\"{name}\""), name, values, time_ms: None }
        };
        let devices = (0..options.devices.max(1)).map(device).collect();
        Self { options, random, devices, sent: 0 }
    }

    fn kind(&mut self) -> Kind {
        let FleetOptions { late, duplicates, bad, out_of_order, .. } = self.options;
        let mut chance: f64 = self.random.random();
        for (share, kind) in [
            (bad, Kind::Bad("bad_json")),
            (duplicates, Kind::Duplicate),
            (late, Kind::Late),
            (out_of_order, Kind::OutOfOrder),
        ] {
            if chance < share {
                return kind;
            }
            chance -= share;
        }
        Kind::Good
    }

    /// A way in which a record can be bad.
    fn flaw(&mut self) -> Kind {
        let (has_device, has_time) = self.options.shape.holds();
        match self.random.random_range(0..4) {
            0 => Kind::Bad("not_numeric"),
            1 if has_device => Kind::Bad("no_device"),
            2 if has_time => Kind::Bad("bad_time"),
            _ => Kind::Bad("bad_json"),
        }
    }
}

impl Source for Fleet {
    fn next(&mut self, record: &mut Record) -> bool {
        let due = Duration::from_secs_f64(self.sent as f64 / self.options.rate.max(1e-6));
        self.sent += 1;
        let now_ms = self.options.begin_ms.saturating_add(ms(due));
        let mut kind = self.kind();
        if matches!(kind, Kind::Bad(_)) {
            kind = self.flaw();
        }
        let index = self.random.random_range(0..self.devices.len());
        let behind_ms = match kind {
            Kind::Late => {
                let late_ms = ms(self.options.late_by).max(1);
                late_ms + self.random.random_range(0..late_ms)
            }
            Kind::OutOfOrder => self.random.random_range(1..=ms(self.options.disorder).max(1)),
            _ => 0,
        };
        let Some(device) = self.devices.get_mut(index) else { return false };
        let mut time_ms = now_ms.saturating_sub(behind_ms);
        match (kind, device.time_ms) {
            (Kind::Duplicate, Some(last_ms)) => time_ms = last_ms,
            (Kind::Bad(_), _) => {}
            _ => {
                if kind == Kind::Duplicate {
                    kind = Kind::Good; // there is none to repeat yet
                }
                device.time_ms = Some(time_ms);
                for value in &mut device.values {
                    *value += self.random.random_range(-STEP_MAX..=STEP_MAX);
                }
            }
        }
        (record.due, record.kind) = (due, kind);
        record.device.clone_from(&device.name);
        write(&self.options.shape, device, time_ms, kind, &mut record.value);
        true
    }
}

fn write(shape: &Shape, device: &Device, time_ms: i64, kind: Kind, out: &mut Vec<u8>) {
    out.clear();
    let Kind::Bad(reason) = kind else {
        let time = shape.time(time_ms);
        return shape.write(out, &device.text, &time, |number, out| {
            write_hundredths(out, device.values.get(number).copied().unwrap_or(0));
        });
    };
    let time = if reason == "bad_time" { "\"yesterday\"".to_owned() } else { shape.time(time_ms) };
    let name = if reason == "no_device" { "null" } else { &device.text };
    shape.write(out, name, &time, |_, out| {
        out.extend_from_slice(if reason == "not_numeric" { b"\"broken\"" } else { b"0" });
    });
    if reason == "bad_json" {
        out.truncate(out.len() / 2);
    }
}

fn write_hundredths(out: &mut Vec<u8>, value: i32) {
    if value < 0 {
        out.push(b'-');
    }
    let value = value.unsigned_abs();
    let (whole, tenths, hundredths) = (value / 100, value / 10 % 10, value % 10);
    let mut digits = [0; 10];
    let mut length = 0;
    let mut left = whole;
    loop {
        digits[length] = b'0' + u8::try_from(left % 10).unwrap_or(0);
        (length, left) = (length + 1, left / 10);
        if left == 0 {
            break;
        }
    }
    out.extend(digits[..length].iter().rev());
    let digit = |digit| b'0' + u8::try_from(digit).unwrap_or(0);
    out.extend_from_slice(&[b'.', digit(tenths), digit(hundredths)]);
}

fn ms(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn options(seed: u64) -> FleetOptions {
        FleetOptions {
            devices: 7,
            rate: 100.0,
            seed,
            begin_ms: 1_700_000_000_000,
            late: 0.1,
            late_by: Duration::from_secs(600),
            duplicates: 0.1,
            bad: 0.1,
            out_of_order: 0.1,
            disorder: Duration::from_secs(5),
            shape: Shape::default(),
        }
    }

    fn records(seed: u64, count: usize) -> Vec<Record> {
        let mut fleet = Fleet::new(options(seed));
        let mut record = Record::default();
        (0..count)
            .map(|_| {
                assert!(fleet.next(&mut record));
                record.clone()
            })
            .collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_records_and_another_one_others() {
        assert_eq!(records(1, 500), records(1, 500));
        assert_ne!(records(1, 500), records(2, 500));
    }

    #[test]
    fn records_are_due_at_their_rate_and_kinds_have_their_share() {
        let all = records(3, 10_000);
        assert_eq!(all[1000].due, Duration::from_secs(10));
        let mut kinds: BTreeMap<bool, u64> = BTreeMap::new();
        for kind in [Kind::Late, Kind::Duplicate, Kind::OutOfOrder] {
            let count = all.iter().filter(|record| record.kind == kind).count();
            assert!((800..1200).contains(&count), "{kind:?} {count}");
        }
        for record in &all {
            *kinds.entry(matches!(record.kind, Kind::Bad(_))).or_default() += 1;
        }
        assert!((800..1200).contains(&kinds[&true]), "{kinds:?}");
    }

    #[test]
    fn a_duplicate_has_the_bytes_of_the_last_sound_record_of_its_device() {
        let mut last: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        let mut duplicates = 0;
        for record in records(4, 2000) {
            match record.kind {
                Kind::Duplicate => {
                    assert_eq!(last.get(&record.device), Some(&record.value));
                    duplicates += 1;
                }
                Kind::Bad(_) => {}
                _ => drop(last.insert(record.device, record.value)),
            }
        }
        assert!(duplicates > 100);
    }

    #[test]
    fn sound_records_are_json_and_no_time_is_ahead_of_when_it_is_due() {
        for record in records(5, 2000) {
            let json: Result<serde_json::Value, _> = serde_json::from_slice(&record.value);
            match record.kind {
                Kind::Bad("bad_json") => assert!(json.is_err()),
                Kind::Bad(_) => assert!(json.is_ok()),
                _ => {
                    let json = json.expect("JSON");
                    assert_eq!(json["device_id"], record.device.as_str());
                    assert!(json["value"].is_f64(), "{json}");
                    let now_ms = 1_700_000_000_000 + ms(record.due);
                    assert!(json["ts"].as_i64().is_some_and(|ts| ts <= now_ms), "{json}");
                }
            }
        }
    }

    #[test]
    fn hundredths_are_written_as_decimals() {
        for (value, text) in [(0, "0.00"), (-5, "-0.05"), (12_345, "123.45"), (i32::MIN, "-21474836.48")] {
            let mut out = Vec::new();
            write_hundredths(&mut out, value);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(text));
        }
    }
}
