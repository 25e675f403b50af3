//! Why a candidate had its outcome, in words, for `hotspare try --explain`.

use super::active::{Active, Closed};
use crate::reading::{Candidate, Outcome, Reading};
use crate::semantics::Semantics;

/// So many windows of a reading are shown.
const WINDOWS_SHOWN_MAX: usize = 10;

/// A candidate that has just got its outcome.
pub(super) struct Judged<'a> {
    pub(super) semantics: &'a Semantics,
    /// As the outcome left it.
    pub(super) active: &'a Active,
    pub(super) candidate: &'a Candidate<'a>,
    pub(super) outcome: Outcome,
}

impl Judged<'_> {
    /// What was read and what became of it, the outcome and its reason last.
    pub(super) fn in_words(&self) -> String {
        let mut text = self.candidate.describe();
        if !text.is_empty() {
            text += "; ";
        }
        if let Outcome::Rejected(_) = self.outcome {
            text += "rejected ";
        }
        text += self.outcome.label();
        text += ": ";
        text += &match &self.candidate.reading {
            Ok(reading) => self.why(reading),
            Err(_) => self.candidate.why_no_reading().unwrap_or_default(),
        };
        text
    }

    fn why(&self, reading: &Reading<'_>) -> String {
        match self.outcome {
            Outcome::Duplicate => self.why_duplicate(reading),
            Outcome::Late => self.why_late(reading),
            _ => {
                let windows = self.active.taken().map(|(start_ms, end_ms)| format!("[{start_ms}, {end_ms})"));
                format!("in {}", listed(windows))
            }
        }
    }

    fn why_duplicate(&self, reading: &Reading<'_>) -> String {
        let since_ms = self.active.copied_at(reading).unwrap_or(i64::MIN);
        let keep_ms = self.semantics.dedup_keep_ms().unwrap_or(0);
        let identity: String = reading.identity.iter().flat_map(|it| it.0).map(|byte| format!("{byte:02x}")).collect();
        format!(
            "a reading with the identity {identity} was counted at log time {since_ms} and is kept for {keep_ms} ms, log time is {}",
            self.active.log_time_ms()
        )
    }

    fn why_late(&self, reading: &Reading<'_>) -> String {
        let mut refusals = Vec::new();
        self.active.why_late(self.semantics, reading, &mut |start_ms, end_ms, closed| {
            refusals.push(format!("window [{start_ms}, {end_ms}): {}", closed_in_words(closed)));
        });
        listed(refusals.into_iter())
    }
}

fn closed_in_words(closed: Closed) -> String {
    match closed {
        Closed::Watermark { watermark_ms, end_ms, grace_ms } => {
            format!("the watermark {watermark_ms} has reached its end {end_ms} + grace of {grace_ms} ms")
        }
        Closed::FinalOutputs { closed_end_ms } => {
            format!("windows up to {closed_end_ms} have given their final outputs")
        }
        Closed::Retention { oldest_end_ms, log_time_ms, retention_ms } => {
            format!("it is not after {oldest_end_ms}, log time {log_time_ms} - retention of {retention_ms} ms")
        }
    }
}

fn listed(mut items: impl Iterator<Item = String>) -> String {
    let mut text = items.by_ref().take(WINDOWS_SHOWN_MAX).collect::<Vec<_>>().join(", ");
    let more = items.count();
    if more > 0 {
        text += &format!(" and {more} more");
    }
    text
}
