//! `hotspare try`: runs a file of records through the pure rooms and shows what comes out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use hotspare_cluster::{Epoch, Offset, PartitionId};
use serde::Deserialize;

use crate::changelog::Counters;
use crate::reading::InputRecord;
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

fn list(errors: &[SemanticsError]) -> String {
    errors.iter().map(|error| format!("\n  {error}")).collect()
}

/// A line of the file: a record, or the fact that log time is `log_time`.
#[derive(Debug, Deserialize)]
struct Line<'a> {
    partition: u32,
    log_time: Option<i64>,
    offset: Option<i64>,
    timestamp: Option<i64>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    key_base64: Option<Cow<'a, str>>,
    value: Option<Cow<'a, str>>,
    value_base64: Option<Cow<'a, str>>,
    #[serde(default)]
    headers: Vec<(String, Option<String>)>,
}

/// Runs the records of a file (one JSON object a line: `partition`, `offset`, `timestamp`, `key` or `key_base64`,
/// `value` or `value_base64`, perhaps `headers`) and writes outputs, dead letters, counters and open windows as JSON
/// lines, partition by partition. Of the configuration only `[input]`, `[window]` and `[output]` are looked at. With
/// `emit = "changes"` only the final outputs are shown: the others depend on commits, which a file does not have.
///
/// # Errors
/// [`TryError`]; nothing is written unless the whole file was read.
pub fn run(config: &Path, records: &Path, out: &mut impl Write) -> Result<(), TryError> {
    let read_error = |path: &Path| {
        let path = path.to_path_buf();
        move |source| TryError::Read { path, source }
    };
    let text = std::fs::read_to_string(config).map_err(read_error(config))?;
    let semantics =
        Semantics::from_toml(&text).map_err(|errors| TryError::Config { path: config.to_path_buf(), errors })?;
    let mut run = Run { semantics: Arc::new(semantics), partitions: BTreeMap::new() };
    let file = BufReader::new(File::open(records).map_err(read_error(records))?);
    for (number, line) in (1..).zip(file.split(b'\n')) {
        let line = line.map_err(read_error(records))?;
        run.line(&line).map_err(|message| TryError::Line { path: records.to_path_buf(), line: number, message })?;
    }
    Ok(run.finish(out)?)
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
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let line: Line<'_> = serde_json::from_slice(line).map_err(|error| format!("no record: {error}"))?;
        let id = PartitionId(line.partition);
        let partition = self.partitions.entry(id).or_insert_with(|| Partition {
            store: Store::new(Arc::clone(&self.semantics), id),
            next_offset: Offset(0),
            outputs: Vec::new(),
            dead_letters: Vec::new(),
        });
        if let Some(log_time_ms) = line.log_time {
            partition.store.log_time_fact(partition.next_offset, log_time_ms, usize::MAX);
            return Ok(());
        }
        partition.record(&line)
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
    fn record(&mut self, line: &Line<'_>) -> Result<(), String> {
        let missing = |name: &str| format!("no record: missing field `{name}`");
        let offset = Offset(line.offset.ok_or_else(|| missing("offset"))?);
        let timestamp_ms = line.timestamp.ok_or_else(|| missing("timestamp"))?;
        let key = bytes_of("key_base64", line.key.as_deref(), line.key_base64.as_deref())?;
        let value = bytes_of("value_base64", line.value.as_deref(), line.value_base64.as_deref())?;
        let headers = line
            .headers
            .iter()
            .map(|(name, text)| (Cow::Borrowed(name.as_str()), text.as_deref().map(str::as_bytes)))
            .collect();
        let record = InputRecord { offset, timestamp_ms, key: key.as_deref(), value: value.as_deref(), headers };
        self.store.apply(&record);
        self.next_offset = Offset(offset.0.saturating_add(1));
        if self.store.pending().records >= BATCH_RECORDS_MAX {
            self.commit();
        }
        Ok(())
    }

    fn commit(&mut self) {
        let batch = self.store.batch(Epoch(0), self.next_offset);
        let is_final = |output: &&crate::store::Output| output.value.ends_with(b",\"final\":true}");
        self.outputs.extend(batch.outputs.iter().filter(is_final).map(|output| output.value.clone()));
        self.dead_letters.extend(batch.dead_letters);
        self.store.committed();
    }
}

fn bytes_of<'a>(name: &str, text: Option<&'a str>, base64: Option<&str>) -> Result<Option<Cow<'a, [u8]>>, String> {
    match base64 {
        None => Ok(text.map(|text| Cow::Borrowed(text.as_bytes()))),
        Some(base64) => base64::engine::general_purpose::STANDARD
            .decode(base64)
            .map(|bytes| Some(Cow::Owned(bytes)))
            .map_err(|error| format!("{name} is not base64: {error}")),
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
