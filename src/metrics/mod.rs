//! All metrics: the one list of them, and what threads count. How they are shown is in `http/metrics`.

pub mod catalogue;
mod meters;
mod page;

pub use catalogue::{Kind, Label, Metric, Source};
pub use meters::{Meters, Tally};
pub use page::markdown;
