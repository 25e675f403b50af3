//! Metrics, rules and dashboards, against a cluster whose nodes are killed.

#![allow(missing_docs, unreachable_pub, reason = "a test")]

#[path = "metrics/counters.rs"]
mod counters;
#[path = "metrics/expressions.rs"]
mod expressions;
mod harness;
#[path = "metrics/prometheus.rs"]
mod prometheus;
#[path = "metrics/scrape.rs"]
mod scrape;
