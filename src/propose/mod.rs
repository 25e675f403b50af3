//! `hotspare config init`: a proposal for `[input]` from sample records, with how sure it is, tried on the sample.

mod choose;
mod field;
mod json;
mod sample;
mod senml;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;

use hotspare_cluster::{Epoch, Offset, PartitionId};
use serde_json::Value;

use crate::reading::influx_to_json;
use crate::semantics::{Format, Semantics};
use crate::store::Store;
use field::Fields;
use sample::Sample;

/// As many records as `hotspare try` commits at once.
const BATCH_RECORDS: u64 = 1000;

/// Why there is no proposal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// There is nothing to look at.
    #[error(
        "the sample has no record with a value; give some records as hotspare try reads them, or payloads one a line"
    )]
    Empty,
    /// No format reads most of the records.
    #[error(
        "of {records} records {json} are JSON and {influx} hold lines of line protocol; most must be of one format: json, senml or influx (CSV is not read)"
    )]
    UnknownFormat {
        /// Records with a value.
        records: usize,
        /// So many of them are JSON.
        json: usize,
        /// So many of them have lines of line protocol.
        influx: usize,
    },
    /// The proposal itself is refused: a defect, please report it with the sample.
    #[error("the proposal is refused: {0}")]
    Refused(String),
}

/// What the records of the sample are.
enum Documents {
    Json { documents: Vec<Value>, records: usize },
    Senml { documents: Vec<Value>, records: usize },
    Influx { lines: Vec<Value>, bad: usize },
}

/// Proposes a configuration from a file of samples: records as `hotspare try` reads them, payloads one a line, or one
/// JSON document. `topic` is the name of the input topic. The text is TOML with a comment at each line.
///
/// # Errors
/// [`ProposeError`] when the records are of no format.
pub fn propose(file: &[u8], topic: &str) -> Result<String, ProposeError> {
    let sample = Sample::read(file);
    let tables = match documents(&sample)? {
        Documents::Json { documents, records } => {
            let shape = json::Shape::of(documents);
            let body = Fields::of(shape.bodies());
            let document = shape.records.as_ref().map(|_| Fields::of(&shape.documents));
            text::json(topic, records, &sample, &shape, &body, document.as_ref())
        }
        Documents::Senml { documents, records } => text::senml(topic, records, &senml::Packs::of(&documents)),
        Documents::Influx { lines, bad } => text::influx(topic, bad, &sample, &Fields::of(&lines)),
    };
    let outcomes = tried(&tables, &sample)?;
    Ok(text::head(&sample, &outcomes) + &tables)
}

fn documents(sample: &Sample) -> Result<Documents, ProposeError> {
    let values: Vec<_> = sample.records.iter().filter_map(|record| record.value.as_deref()).collect();
    if values.is_empty() {
        return Err(ProposeError::Empty);
    }
    let of_json = |value: &&[u8]| serde_json::from_slice(value.strip_prefix(b"\xef\xbb\xbf").unwrap_or(value)).ok();
    let documents: Vec<Value> = values.iter().filter_map(of_json).collect();
    let (records, json) = (values.len(), documents.len());
    if json * 2 > records {
        let packs = documents.iter().filter(|document| senml::is_pack(document)).count();
        return Ok(if packs * 2 > json {
            Documents::Senml { documents, records }
        } else {
            Documents::Json { documents, records }
        });
    }
    let (mut lines, mut bad, mut influx) = (Vec::new(), 0, 0);
    for (good, bad_lines) in values.iter().filter_map(|value| influx_to_json(value)) {
        influx += usize::from(!good.is_empty());
        bad += bad_lines;
        lines.extend(good);
    }
    if influx * 2 > records && lines.len() > bad {
        return Ok(Documents::Influx { lines, bad });
    }
    Err(ProposeError::UnknownFormat { records, json, influx })
}

/// What became of the sample's readings under the proposal.
struct Outcomes {
    records: u64,
    /// By name.
    counts: BTreeMap<&'static str, u64>,
}

fn tried(tables: &str, sample: &Sample) -> Result<Outcomes, ProposeError> {
    let refused = |errors: Vec<crate::semantics::SemanticsError>| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        ProposeError::Refused(errors.join("; "))
    };
    let semantics = Semantics::from_toml(tables).map_err(refused)?;
    let mut store = Store::new(Arc::new(semantics), PartitionId(0));
    for (offset, record) in (0..).zip(&sample.records) {
        store.apply(&record.at(offset));
        if store.pending().records >= BATCH_RECORDS {
            store.batch(Epoch(0), Offset(offset + 1));
            store.committed();
        }
    }
    let counters = store.counters();
    let mut counts: BTreeMap<_, _> =
        counters.rejected.by_name().into_iter().map(|(reason, count)| (reason.name(), count)).collect();
    counts.extend([
        ("counted", counters.counted),
        ("late", counters.late),
        ("missing", counters.missing),
        ("duplicate", counters.duplicate),
        ("null_record", counters.null_record),
    ]);
    counts.retain(|_, count| *count > 0);
    Ok(Outcomes { records: counters.records, counts })
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Senml => "senml",
        Format::Influx => "influx",
    }
}
