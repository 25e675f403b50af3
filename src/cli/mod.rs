//! The commands, one file each.

pub mod topics;
pub mod try_;
