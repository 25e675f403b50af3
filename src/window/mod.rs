//! Windows: where they begin and end, what is in them, and how that is shown.

mod aggregate;
mod exact_sum;
mod output;
mod shape;
pub(crate) mod text;

pub(crate) use aggregate::Aggregate;
pub(crate) use exact_sum::ExactSum;
pub(crate) use output::{Shown, write_output};
pub(crate) use shape::Shape;
