//! `hotspare try`: runs a file of records through the pure rooms and shows what comes out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotspare_cluster::{Epoch, Offset, PartitionId};

use crate::changelog::Counters;
use crate::reading::InputRecord;
use crate::record_file::Line;
use crate::semantics::{Semantics, SemanticsError};
use crate::store::{DeadLetter, Store};

/// So many records make a batch, as a transaction would: it keeps the undo log short.
const BATCH_RECORDS_MAX: u64 = 1000;

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TryError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The configuration is refused.
    #[error("{} is refused:{}", path.display(), list(errors))]
    Config {
        /// The file.
        path: PathBuf,
        /// All that is wrong.
        errors: Vec<SemanticsError>,
    },
    /// A line is neither a record nor a log-time fact.
    #[error("{} line {line}: {message}", path.display())]
    Line {
        /// The file of records.
        path: PathBuf,
        /// The line's number, from 1.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
    /// The result cannot be written.
    #[error("cannot write the result: {0}")]
    Write(#[from] io::Error),
}

fn read_error(path: &Path) -> impl Fn(io::Error) -> TryError {
    let path = path.to_path_buf();
    move |source| TryError::Read { path: path.clone(), source }
}

fn list(errors: &[SemanticsError]) -> String {
    errors.iter().map(|error| format!("\n  {error}")).collect()
}

/// Runs the records of a file (one JSON object a line: `partition`, `offset`, `timestamp`, `key` or `key_base64`,
/// `value` or `value_base64`, perhaps `headers`) and writes outputs, dead letters, counters and open windows as JSON
/// lines, partition by partition. Of the configuration only `[input]`, `[window]` and `[output]` are looked at. With
/// `emit = "changes"` only the final outputs are shown: the others depend on commits, which a file does not have.
///
/// # Errors
/// [`TryError`]; nothing is written unless the whole file was read.
pub fn run(config: &Path, records: &Path, out: &mut impl Write) -> Result<(), TryError> {
    let mut run = Run::new(config)?;
    run.read(records, |partition, record| {
        partition.store.apply(record);
        Ok(())
    })?;
    Ok(run.finish(out)?)
}

/// Runs the records of a file as [`run`] does, and writes, in the order of the file, one line for each candidate for a
/// reading: `pPARTITION oOFFSET body N: ` (without `body N` for the record as a whole), what was read and where it
/// stood, and at the end the outcome and why, all parted by `; `. Texts of the data are JSON strings, cut after 120
/// characters.
///
/// # Errors
/// [`TryError`]; the lines before that error are written.
pub fn explain(config: &Path, records: &Path, out: &mut impl Write) -> Result<(), TryError> {
    let mut run = Run::new(config)?;
    run.read(records, |partition, record| {
        let (id, offset) = (partition.store.partition(), record.offset);
        let mut written = Ok(());
        partition.store.apply_explained(record, |body, text| {
            let body = body.map_or(String::new(), |body| format!(" body {body}"));
            if written.is_ok() {
                written = writeln!(out, "p{id} o{offset}{body}: {text}");
            }
        });
        written
    })
}

struct Run {
    semantics: Arc<Semantics>,
    partitions: BTreeMap<PartitionId, Partition>,
}

struct Partition {
    store: Store,
    next_offset: Offset,
    outputs: Vec<bytes::Bytes>,
    dead_letters: Vec<Arc<DeadLetter>>,
}

impl Run {
    fn new(config: &Path) -> Result<Self, TryError> {
        let text = std::fs::read_to_string(config).map_err(read_error(config))?;
        let semantics =
            Semantics::from_toml(&text).map_err(|errors| TryError::Config { path: config.to_path_buf(), errors })?;
        Ok(Self { semantics: Arc::new(semantics), partitions: BTreeMap::new() })
    }

    /// Calls the function with each record of the file and its partition.
    fn read(
        &mut self,
        records: &Path,
        mut apply: impl FnMut(&mut Partition, &InputRecord<'_>) -> io::Result<()>,
    ) -> Result<(), TryError> {
        let file = BufReader::new(File::open(records).map_err(read_error(records))?);
        for (line, text) in (1..).zip(file.split(b'\n')) {
            let text = text.map_err(read_error(records))?;
            let bad = |message| TryError::Line { path: records.to_path_buf(), line, message };
            match Line::parse(&text).map_err(bad)? {
                Line::Blank => {}
                Line::LogTime(id, log_time_ms) => {
                    let partition = self.partition(id);
                    partition.store.log_time_fact(partition.next_offset, log_time_ms, usize::MAX);
                }
                Line::Record(id, record) => {
                    let partition = self.partition(id);
                    apply(partition, &record.borrowed())?;
                    partition.next_offset = Offset(record.offset.0.saturating_add(1));
                    if partition.store.pending().records >= BATCH_RECORDS_MAX {
                        partition.commit();
                    }
                }
            }
        }
        Ok(())
    }

    fn partition(&mut self, id: PartitionId) -> &mut Partition {
        self.partitions.entry(id).or_insert_with(|| Partition {
            store: Store::new(Arc::clone(&self.semantics), id),
            next_offset: Offset(0),
            outputs: Vec::new(),
            dead_letters: Vec::new(),
        })
    }

    fn finish(mut self, out: &mut impl Write) -> io::Result<()> {
        for partition in self.partitions.values_mut() {
            partition.commit();
        }
        for output in self.partitions.values().flat_map(|partition| &partition.outputs) {
            out.write_all(b"{\"output\":")?;
            out.write_all(output)?;
            out.write_all(b"}\n")?;
        }
        for (id, partition) in &self.partitions {
            for letter in &partition.dead_letters {
                let DeadLetter { offset, reasons, readings, .. } = &**letter;
                writeln!(
                    out,
                    "{{\"dead_letter\":{{\"partition\":{id},\"offset\":{offset},\"reasons\":\"{reasons}\",\"readings\":{readings}}}}}"
                )?;
            }
        }
        let counters: Vec<_> = self.partitions.values().map(|partition| partition.store.counters()).collect();
        writeln!(out, "{{\"counters\":{}}}", counters_text(&counters))?;
        for window in self.partitions.values().flat_map(|partition| partition.store.open_windows()) {
            writeln!(out, "{{\"open\":{window}}}")?;
        }
        Ok(())
    }
}

impl Partition {
    fn commit(&mut self) {
        let batch = self.store.batch(Epoch(0), self.next_offset);
        let is_final = |output: &&crate::store::Output| output.value.ends_with(b",\"final\":true}");
        self.outputs.extend(batch.outputs.iter().filter(is_final).map(|output| output.value.clone()));
        self.dead_letters.extend(batch.dead_letters);
        self.store.committed();
    }
}

/// The counters of all partitions, rejections in byte order of their names without zeros.
fn counters_text(partitions: &[&Counters]) -> String {
    let sum = |counter: fn(&Counters) -> u64| partitions.iter().map(|counters| counter(counters)).sum::<u64>();
    let mut rejected = BTreeMap::new();
    for (reason, count) in partitions.iter().flat_map(|counters| counters.rejected.by_name()) {
        *rejected.entry(reason.name()).or_insert(0) += count;
    }
    rejected.retain(|_, count| *count > 0u64);
    let rejected: Vec<_> = rejected.iter().map(|(reason, count)| format!("\"{reason}\":{count}")).collect();
    format!(
        "{{\"records\":{},\"counted\":{},\"late\":{},\"missing\":{},\"duplicate\":{},\"null_record\":{},\"rejected\":{{{}}}}}",
        sum(|counters| counters.records),
        sum(|counters| counters.counted),
        sum(|counters| counters.late),
        sum(|counters| counters.missing),
        sum(|counters| counters.duplicate),
        sum(|counters| counters.null_record),
        rejected.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::run;
    use std::io::Write;

    const CONFIG: &str = "[cluster]\nname = \"plant\"\n[input]\ntopic = \"t\"\n";

    fn tried(config: &str, records: &str) -> Result<String, String> {
        let file = |text: &str| {
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(text.as_bytes()).expect("written");
            file
        };
        let (config, records) = (file(config), file(records));
        let mut out = Vec::new();
        run(config.path(), records.path(), &mut out).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn a_bad_line_is_named_with_what_is_wrong() {
        let good = "{\"partition\":0,\"offset\":0,\"timestamp\":0,\"value\":null}\n";
        for (line, wanted) in [
            ("{\"partition\":0}", "line 3: no record: missing field `offset`"),
            ("{\"offset\":0}", "line 3: no record: missing field `partition`"),
            ("{", "line 3: no record: EOF"),
            (
                "{\"partition\":0,\"offset\":1,\"timestamp\":0,\"value_base64\":\"?\"}",
                "line 3: value_base64 is not base64",
            ),
        ] {
            let error = tried(CONFIG, &format!("{good}\n{line}\n{good}")).expect_err(line);
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_bad_configuration_is_named_with_what_is_wrong() {
        let config = "[input]\ntopic = \"t\"\nformat = \"senml\"\nrecords = \"/r\"\n";
        let error = tried(config, "").expect_err("refused");
        assert!(error.contains("input.records: is only for format = \"json\"; remove it"), "{error}");
    }

    #[test]
    fn log_time_facts_are_no_records() {
        let text = tried(CONFIG, "{\"partition\":0,\"log_time\":5}\n").expect("a result");
        assert!(text.starts_with("{\"counters\":{\"records\":0,"), "{text}");
    }

    #[test]
    fn changes_are_left_out() {
        let config = format!("{CONFIG}[output]\nemit = \"changes\"\n");
        let value = r#"{\"device_id\":\"a\",\"ts\":1704067200,\"value\":1}"#;
        let records = format!("{{\"partition\":0,\"offset\":0,\"timestamp\":-1,\"value\":\"{value}\"}}\n");
        let text = tried(&config, &records).expect("a result");
        assert!(text.contains("{\"open\":{\"device\":\"a\"") && !text.contains("{\"output\":"), "{text}");
    }
}
