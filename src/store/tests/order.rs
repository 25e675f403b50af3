//! The order of readings within the grace and how they are cut into batches do not matter.

use hotspare_cluster::{Epoch, Offset};
use proptest::prelude::*;

use super::{BASE_MS, MINUTE_MS, Record, reading, semantics, store};

/// Minutes over which the readings are spread; the grace is as long, so that none is late in any order.
const SPREAD: i64 = 180;

fn window() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "size = \"1h\"\n",
        "kind = \"hopping\"\nsize = \"1h\"\nadvance = \"25m\"\n",
        "kind = \"session\"\ngap = \"12m\"\n",
        "kind = \"calendar\"\nunit = \"hour\"\nzone = \"Asia/Kathmandu\"\n",
    ])
}

/// A device, a time in milliseconds and a value; all times differ, for of equal ones the first read is first.
fn readings() -> impl Strategy<Value = Vec<(u8, i64, f64)>> {
    let times = prop::collection::btree_set(0..SPREAD * MINUTE_MS, 1..60);
    let value = prop_oneof![
        (-500i32..500).prop_map(|tenths| f64::from(tenths) / 10.0),
        prop::sample::select(vec![1e300, -1e300, 1e-300, 0.1, f64::MAX]),
    ];
    times.prop_flat_map(move |times| {
        let count = times.len();
        let rest = (prop::collection::vec(0u8..3, count), prop::collection::vec(value.clone(), count));
        rest.prop_map(move |(devices, values)| {
            let times = times.iter().copied();
            devices
                .into_iter()
                .zip(times)
                .zip(values)
                .map(|((device, time_ms), value)| (device, time_ms, value))
                .collect()
        })
    })
}

/// All final outputs and the counters of the readings, committed now and then, and of one that closes all windows.
fn results(window: &str, readings: &[(u8, i64, f64)], batch: usize) -> (Vec<String>, u64) {
    let rules = semantics(&format!(
        "[input.limits]\nmax_future = \"off\"\n[window]\n{window}grace = \"{SPREAD}m\"\n[output]\nvariance = \"sample\"\n"
    ));
    let mut store = store(&rules);
    let records = readings.iter().map(|(device, time_ms, value)| Record {
        timestamp_ms: BASE_MS,
        value: Some(format!("{{\"device_id\":\"{device}\",\"ts\":{},\"a\":{value:e}}}", BASE_MS + time_ms)),
    });
    let ends = (0..3).map(|device| reading(&device.to_string(), 10 * SPREAD, "0"));
    let mut outputs = Vec::new();
    for (offset, record) in records.chain(ends).enumerate() {
        store.apply(&record.borrowed(offset));
        if offset % batch == batch - 1 || offset >= readings.len() {
            let next = Offset(i64::try_from(offset).expect("small") + 1);
            outputs.extend(store.batch(Epoch(1), next).outputs);
            store.committed();
        }
    }
    let texts = outputs.into_iter().map(|output| String::from_utf8(output.value.to_vec()).expect("text"));
    (texts.collect(), store.counters().counted)
}

proptest! {
    #[test]
    fn any_permutation_within_the_grace_and_any_batches_give_the_same_bytes(
        window in window(),
        (readings, permuted) in readings().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
        batches in (1usize..70, 1usize..70),
    ) {
        let (wanted, counted) = results(window, &readings, batches.0);
        prop_assert!(counted == readings.len() as u64 + 3 && !wanted.is_empty());
        prop_assert_eq!(results(window, &permuted, batches.1), (wanted, counted));
    }
}
