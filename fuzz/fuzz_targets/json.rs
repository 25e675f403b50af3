#![no_main]

#[path = "../../tests/fuzz/targets.rs"]
#[allow(dead_code, reason = "it holds all targets")]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::json(bytes));
