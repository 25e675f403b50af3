//! What was found to be lost, doubled or wrong: counted, with the first examples.

use hotspare_cluster::PartitionId;
use serde::Serialize;

/// So many examples of each kind are kept.
const EXAMPLES_MAX: usize = 5;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// The partition.
    pub partition: PartitionId,
    /// `final`, `change`, `dead_letter`, `entry`, `progress`, `counters` or `digest`.
    pub what: &'static str,
    /// Where it stands in its topic, if it does.
    pub offset: Option<i64>,
    /// What the clean run gives, if it gives anything.
    pub expected: Option<String>,
    /// What is there, as far as it was kept.
    pub found: Option<String>,
    /// What is wrong with it.
    pub note: &'static str,
}

/// The first examples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examples {
    /// Of what is missing.
    pub lost: Vec<Example>,
    /// Of what is there more than once.
    pub duplicated: Vec<Example>,
    /// Of what is different.
    pub wrong: Vec<Example>,
}

/// All that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What should be there and is not.
    pub lost: u64,
    /// What is there more than once.
    pub duplicated: u64,
    /// What is there and should not be, or is different.
    pub wrong: u64,
    /// The first few of each.
    pub examples: Examples,
}

impl Findings {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        (self.lost, self.duplicated, self.wrong) == (0, 0, 0)
    }

    pub(super) fn lost(&mut self, example: impl FnOnce() -> Example) {
        self.lost += 1;
        keep(&mut self.examples.lost, example);
    }

    pub(super) fn duplicated(&mut self, example: impl FnOnce() -> Example) {
        self.duplicated += 1;
        keep(&mut self.examples.duplicated, example);
    }

    pub(super) fn wrong(&mut self, example: impl FnOnce() -> Example) {
        self.wrong += 1;
        keep(&mut self.examples.wrong, example);
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.wrong += other.wrong;
        let Examples { lost, duplicated, wrong } = other.examples;
        for (kept, more) in [
            (&mut self.examples.lost, lost),
            (&mut self.examples.duplicated, duplicated),
            (&mut self.examples.wrong, wrong),
        ] {
            let room = EXAMPLES_MAX.saturating_sub(kept.len());
            kept.extend(more.into_iter().take(room));
        }
    }
}

fn keep(examples: &mut Vec<Example>, example: impl FnOnce() -> Example) {
    if examples.len() < EXAMPLES_MAX {
        examples.push(example());
    }
}

/// Bytes as text, for an example.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
