//! Input records for trials, demonstrations and load: a synthetic fleet, or a replay of a file.
//!
//! [`fleet`], [`replay`] and [`shape`] are pure: the same options give the same records. [`feed`] produces them to Kafka
//! when they are due.

pub mod feed;
pub mod fleet;
mod locate;
pub mod replay;
mod replay_time;
pub mod shape;

use std::time::Duration;

/// What a record is meant to be. Whether a late one is late in the end depends on the windows and their grace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// In order and sound.
    #[default]
    Good,
    /// Behind its series by more than the grace.
    Late,
    /// A little behind its series.
    OutOfOrder,
    /// The last record of its device once more.
    Duplicate,
    /// Rejected for this reason (SEMANTICS 4).
    Bad(&'static str),
}

impl Kind {
    /// Its name in ledgers and summaries.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Late => "late",
            Self::OutOfOrder => "out_of_order",
            Self::Duplicate => "duplicate",
            Self::Bad(reason) => reason,
        }
    }
}

/// One record to be sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When, after the beginning.
    pub due: Duration,
    /// What it is meant to be.
    pub kind: Kind,
    /// Device: the record's key.
    pub device: String,
    /// The record's value.
    pub value: Vec<u8>,
}

/// Gives one record after the other, by when they are due.
pub trait Source: Send {
    /// Puts the next one in place of the last one; false at the end.
    fn next(&mut self, record: &mut Record) -> bool;
}
