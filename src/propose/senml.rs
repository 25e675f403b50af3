//! SenML packs: whether the base name is the device, and which metrics there are.

use std::collections::BTreeMap;

use serde_json::Value;

/// Texts at which full names are cut, tried in this order.
const SEPARATORS: [&str; 5] = ["::", "/", ":", "_", "-"];
/// Fields that make an object a record of a pack.
const FIELDS: [&str; 9] = ["bn", "bt", "bu", "bv", "v", "vb", "vs", "vd", "s"];

/// What is in some packs.
#[derive(Debug, Default)]
pub(super) struct Packs {
    pub(super) packs: usize,
    pub(super) with_base_name: usize,
    pub(super) with_time: usize,
    /// Names without a base name, with how often.
    pub(super) names: BTreeMap<String, usize>,
    pub(super) booleans: usize,
    pub(super) numbers: usize,
}

/// Whether that is a pack, and not another array.
pub(super) fn is_pack(document: &Value) -> bool {
    let is_field = |object: &Value, names: &[&str]| names.iter().any(|name| object.get(name).is_some());
    document.as_array().is_some_and(|records| {
        let objects = records.iter().all(Value::is_object) && !records.is_empty();
        objects
            && records
                .iter()
                .all(|it| is_field(it, &FIELDS) && is_field(it, &["n", "bn", "bt"]) || is_field(it, &["v"]))
    })
}

impl Packs {
    pub(super) fn of(documents: &[Value]) -> Self {
        let mut packs = Self { packs: documents.len(), ..Self::default() };
        for document in documents {
            let records = document.as_array().map_or(&[][..], Vec::as_slice);
            let has = |names: &[&str]| records.iter().any(|it| names.iter().any(|name| it.get(name).is_some()));
            packs.with_base_name += usize::from(has(&["bn"]));
            packs.with_time += usize::from(has(&["bt", "t"]));
            for record in records {
                packs.booleans += usize::from(record.get("vb").is_some());
                packs.numbers += usize::from(record.get("v").is_some());
                if let Some(name) = record.get("n").and_then(Value::as_str) {
                    *packs.names.entry(name.to_owned()).or_default() += 1;
                }
            }
        }
        packs
    }

    /// The text at which full names are to be cut; None: base names are the devices.
    pub(super) fn split(&self) -> Option<&'static str> {
        if self.with_base_name * 2 > self.packs {
            return None;
        }
        let is_cut = |separator: &&str| {
            let metrics: Option<Vec<_>> = self.names.keys().map(|name| Some(name.rsplit_once(*separator)?.1)).collect();
            metrics.is_some_and(|mut metrics| {
                metrics.sort_unstable();
                metrics.dedup();
                metrics.len() < self.names.len() && !metrics.contains(&"")
            })
        };
        SEPARATORS.into_iter().find(is_cut)
    }
}
