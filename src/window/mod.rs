//! Windows: where they begin and end, what is in them, and how that is shown.

mod aggregate;
mod calendar;
mod exact_sum;
mod output;
mod shape;
mod spread;
mod squares;
pub(crate) mod text;

pub(crate) use aggregate::Aggregate;
pub(crate) use calendar::Calendar;
pub(crate) use exact_sum::ExactSum;
pub(crate) use output::{Shown, write_output};
pub(crate) use shape::Shape;
pub(crate) use squares::ExactSquares;
