//! Readings as fleets send them: mostly in order, some late, some broken. The same seed gives the same records.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::records::Rec;

/// Settings under which every outcome of [`Workload`] occurs; for `Plan::config`.
pub const MESSY: &str = r#"
[window]
size = "10s"
grace = "5s"
[active]
commit_interval = "20ms"
[failover]
antiflap_base = "1ms"
antiflap_max = "1ms"
[node]
shutdown_linger = "10ms"
"#;

/// 2024-01-01T00:00:00Z.
const BEGIN_MS: i64 = 1_704_067_200_000;
/// Event time from one record of a partition to the next.
const STEP_MS: i64 = 250;

/// Makes records.
#[derive(Debug)]
pub struct Workload {
    random: ChaCha8Rng,
    /// Event time of each partition.
    now_ms: Vec<i64>,
}

impl Workload {
    /// A fleet whose records are spread over so many partitions.
    pub fn new(seed: u64, partitions: i32) -> Self {
        Self::beginning(seed, partitions, BEGIN_MS)
    }

    /// The same with another begin of its event time, in milliseconds since 1970.
    pub fn beginning(seed: u64, partitions: i32, begin_ms: i64) -> Self {
        let partitions = usize::try_from(partitions).expect("partitions");
        Self { random: ChaCha8Rng::seed_from_u64(seed), now_ms: vec![begin_ms; partitions] }
    }

    /// The next records, one candidate for a reading in each.
    pub fn chunk(&mut self, records: usize) -> Vec<Rec> {
        (0..records).map(|_| self.record()).collect()
    }

    fn record(&mut self) -> Rec {
        let place = self.random.random_range(0..self.now_ms.len());
        self.now_ms[place] += STEP_MS;
        let now_ms = self.now_ms[place];
        let device = format!("d{}", self.random.random_range(0..7));
        let value = self.random.random_range(-1.0e6..1.0e6_f64);
        let near_ms = now_ms - self.random.random_range(0..4_000);
        let far_ms = now_ms - self.random.random_range(20_000..90_000);
        let body = |time_ms: i64, value: &str| {
            format!(r#"{{"device":"{device}","ts":{}.{:03},"value":{value}}}"#, time_ms / 1000, time_ms % 1000)
                .into_bytes()
        };
        let partition = i32::try_from(place).expect("few partitions");
        let mut record = Rec::new(partition, device.clone(), Vec::new());
        record.timestamp = now_ms;
        record.value = match self.random.random_range(0..100) {
            0..3 => None,
            3..6 => Some(b"\xff{no json".to_vec()),
            6..8 => Some(body(near_ms, "\"warm\"")),
            8..11 => Some(body(near_ms, "null")),
            11..16 => Some(body(far_ms, &value.to_string())),
            16..18 => Some(body(now_ms + 86_400_000, &value.to_string())),
            _ => Some(body(near_ms, &value.to_string())),
        };
        if self.random.random_range(0..10) == 0 {
            record.key = None;
            record.headers = vec![("unit".to_owned(), Some(b"C".to_vec())), ("site".to_owned(), None)];
        }
        record
    }
}
