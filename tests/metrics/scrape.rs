//! Reading `/metrics`.

use std::collections::BTreeMap;

use crate::harness::node::Node;

/// A series: its name and labels, without the node's name.
pub type Series = String;

/// The samples of a node by series; none if it does not answer.
pub fn samples(node: &Node) -> Option<BTreeMap<Series, f64>> {
    let answer = node.http_get("/metrics").ok().filter(|answer| answer.status == 200)?;
    let slot = format!(",slot=\"{}\"", node.slot);
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        Some((series.replacen(&slot, "", 1), value.parse().ok()?))
    };
    Some(answer.body.lines().filter(|line| !line.starts_with('#')).filter_map(sample).collect())
}

/// The name of a series.
pub fn name(series: &str) -> &str {
    series.split_once('{').map_or(series, |(name, _)| name)
}
