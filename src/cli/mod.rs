//! The commands, one file each.

pub mod client;
pub mod config_init;
pub mod demo;
pub mod generate;
pub mod history;
pub mod history_report;
pub mod members;
pub mod operate;
pub mod status;
pub mod topics;
pub mod try_;
pub mod verify;
