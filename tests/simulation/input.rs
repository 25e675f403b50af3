//! What the nodes are configured to do, and the records that they get.

use std::path::Path;

use base64::Engine as _;
use hotspare::config::{self, Config};
use hotspare::log::model::NewRecord;
use hotspare_system::simulation::faults::Dice;

use crate::{
    kafka::{BEGIN_MS, PARTITIONS},
    messy::Messy,
};

/// Of the hosts, in the order of their names.
pub const ADDRESSES: [&str; 3] = ["10.0.0.1", "10.0.0.2", "10.0.0.3"];
const DAY_MS: i64 = 86_400_000;

/// Records for one seed.
pub enum Input {
    /// Readings of few devices, most of them sound: many windows open and close.
    Plain(Dice),
    /// Everything that devices send when things go wrong, under settings of any kind.
    Messy(Messy),
}

impl Input {
    pub fn new(seed: u64) -> Self {
        match seed % 4 {
            0 | 1 => Self::Plain(Dice::new(seed, 2)),
            2 => Self::Messy(Messy::new("json", seed)),
            _ => Self::Messy(Messy::new(["influx", "senml"][usize::from(seed % 8 > 3)], seed)),
        }
    }

    /// The sections `[input]`, `[window]` and `[output]`.
    pub fn semantics(&mut self) -> String {
        match self {
            Self::Messy(messy) => messy.config(),
            Self::Plain(dice) => {
                let window = dice.pick(&[
                    "size = \"10s\"",
                    "size = \"10s\"\ngrace = \"20s\"\nretention = \"90s\"",
                    "kind = \"hopping\"\nsize = \"20s\"\nadvance = \"5s\"",
                    "kind = \"session\"\ngap = \"4s\"\nidle_close = \"6s\"",
                    "size = \"10s\"\nidle_close = \"12s\"",
                ]);
                // Sessions are shown when they are final only.
                let emit = if window.contains("session") { "final" } else { dice.pick(&["final", "changes"]) };
                let dedup = dice.pick(&["", "[input.dedup]\nby = \"reading\"\nkeep = \"30s\"\n"]);
                format!(
                    "[input]\ntopic = \"t\"\n{dedup}[window]\n{window}\n[output]\nemit = \"{emit}\"\ndead_letter = [\"late\", \"rejected\"]\n"
                )
            }
        }
    }

    /// The next record and its partition; none where there is nothing to send.
    pub fn next(&mut self, number: usize) -> Option<(u32, NewRecord)> {
        match self {
            Self::Plain(dice) => Some(plain(dice, number)),
            Self::Messy(messy) => read(&messy.record(number)),
        }
    }
}

fn plain(dice: &mut Dice, number: usize) -> (u32, NewRecord) {
    let device = dice.below(6);
    let now_ms = BEGIN_MS - DAY_MS + i64::try_from(number).expect("few") * 400;
    let late_ms = if dice.chance(100) { i64::try_from(dice.below(60_000)).expect("small") } else { 0 };
    let ts = (now_ms - late_ms) as f64 / 1000.0;
    let value = if dice.chance(30) { "\"?\"".to_owned() } else { format!("{}.{}", dice.below(200), dice.below(10)) };
    let text = format!("{{\"device_id\":\"d{device}\",\"ts\":{ts},\"value\":{value}}}");
    let key = Some(format!("d{device}").into());
    let record = NewRecord { timestamp_ms: now_ms, key, value: Some(text.into()), headers: Vec::new() };
    (u32::try_from(device).expect("few") % PARTITIONS, record)
}

/// A line of a file of records.
fn read(line: &str) -> Option<(u32, NewRecord)> {
    let json: serde_json::Value = serde_json::from_str(line).expect("the generator writes JSON");
    let partition = u32::try_from(json.get("partition")?.as_u64()?).ok()?;
    let bytes = |name: &str| {
        let text = json.get(name).and_then(|text| text.as_str()).map(|text| text.as_bytes().to_vec());
        let coded = json.get(format!("{name}_base64")).and_then(|text| text.as_str());
        coded.map(|coded| base64::prelude::BASE64_STANDARD.decode(coded).expect("the generator's own")).or(text)
    };
    let headers = json.get("headers")?.as_array()?.iter().map(|header| {
        let text = |index: usize| header.get(index).and_then(|text| text.as_str());
        (text(0).unwrap_or_default().to_owned(), text(1).map(|text| text.as_bytes().to_vec()))
    });
    let record = NewRecord {
        timestamp_ms: json.get("timestamp")?.as_i64()?,
        key: bytes("key").map(Into::into),
        value: bytes("value").map(Into::into),
        headers: headers.collect(),
    };
    Some((partition, record))
}

/// The configuration of a node.
pub fn config(names: &[&str], slot: &str, folder: &Path, semantics: &str) -> Config {
    let file = folder.join(format!("{slot}.toml"));
    let text = format!("{semantics}\n[kafka.properties]\n\"bootstrap.servers\" = \"modelled:9092\"\n");
    std::fs::write(&file, text).expect("the folder can be written");
    let listed = |text: fn(&str) -> String| names.iter().map(|name| text(name)).collect::<Vec<_>>().join(", ");
    let slots = listed(|name| format!("\"{name}\""));
    let seeds = ADDRESSES.map(|address| format!("\"{address}:7400\"")).join(", ");
    let address = names.iter().zip(ADDRESSES).find(|(name, _)| **name == slot).map(|(_, address)| address);
    let address = address.expect("one of the names");
    let sets = [
        "cluster.name=\"plant\"".to_owned(),
        format!("cluster.expected_slots=[{slots}]"),
        format!("cluster.seeds=[{seeds}]"),
        "cluster.slot_takeover_after=\"500ms\"".to_owned(),
        format!("node.slot=\"{slot}\""),
        format!("node.data_dir=\"{}\"", folder.join(slot).display()),
        format!("peers.listen=\"{address}:7400\""),
        format!("peers.advertise=\"{address}:7400\""),
        "peers.plaintext=true".to_owned(),
        "replication.standbys=2".to_owned(),
        "active.commit_interval=\"30ms\"".to_owned(),
        "checkpoint.interval=\"1s\"".to_owned(),
        "failover.promote_timeout=\"3s\"".to_owned(),
        "failover.antiflap_base=\"200ms\"".to_owned(),
        "failover.antiflap_max=\"2s\"".to_owned(),
        "raft.snapshot_entries=50".to_owned(),
    ];
    config::load(Some(&file), std::iter::empty(), &sets).unwrap_or_else(|errors| panic!("{errors}\n{semantics}"))
}
