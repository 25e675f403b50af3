//! What the rooms need of the configuration.

use std::sync::Arc;

use hotspare_cluster::{Options, Settings, Slot};

use crate::{
    checkpoint,
    config::Config,
    log::Log,
    partition::{active::ActiveRules, restore::Restore, snapshot::CheckpointRules, status::Statuses},
};

/// A changelog record has about so many bytes; the bound in bytes is kept by counting records.
const CHANGELOG_RECORD_BYTES: u64 = 128;

pub(super) fn cluster(config: &Config) -> Options {
    let (failover, raft, planner) = (&config.failover, &config.raft, &config.planner);
    let settings = Settings {
        heartbeat_interval: failover.heartbeat_interval.get(),
        probe_timeout: failover.probe_timeout.get(),
        confirm_timeout: failover.confirm_timeout.get(),
        suspect_after: failover.suspect_after.get(),
        stalled_after: failover.stalled_after.get(),
        promote_timeout: failover.promote_timeout.get(),
        antiflap_base: failover.antiflap_base.get(),
        antiflap_max: failover.antiflap_max.get(),
        antiflap_window: failover.antiflap_window.get(),
        raft_heartbeat_interval: raft.heartbeat_interval.get(),
        raft_election_timeout_min: raft.election_timeout_min.get(),
        raft_election_timeout_max: raft.election_timeout_max.get(),
        proof_election: raft.proof_election,
        proof_election_gap: raft.proof_election_gap.get(),
        quorum_loss_probe_interval: raft.quorum_loss_probe_interval.get(),
        snapshot_entries: raft.snapshot_entries,
        fsync_warn: raft.fsync_warn.get(),
        rpc_timeout: config.peers.rpc_timeout.get(),
        frame_bytes_max: usize::try_from(config.peers.frame_bytes_max.get()).unwrap_or(usize::MAX),
        rebalance: planner.rebalance,
        rebalance_after: planner.rebalance_after.get(),
        moves_max: planner.moves_max as usize,
        replace_after: planner.replace_after.get(),
        history_events_max: usize::try_from(config.cluster.history_events_max).unwrap_or(usize::MAX),
        slot_takeover_after: config.cluster.slot_takeover_after.get(),
        ..Settings::default()
    };
    Options {
        cluster_name: config.cluster.name.clone(),
        slot: Slot(config.node.slot.clone()),
        zone: config.node.zone.clone(),
        expected_slots: config.cluster.expected_slots.iter().cloned().map(Slot).collect(),
        seeds: config.cluster.seeds.clone(),
        listen: config.peers.listen.clone(),
        advertise: config.peers.advertise.clone(),
        data_dir: config.node.data_dir.clone(),
        standbys: config.replication.standbys,
        settings,
        replicas_here: config.node.replicas,
        nofailover: config.node.nofailover,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

pub(super) fn active(config: &Config) -> ActiveRules {
    ActiveRules {
        commit_interval: config.active.commit_interval.get(),
        commit_entries_max: usize::try_from(config.active.commit_entries_max).unwrap_or(usize::MAX),
        commit_bytes_max: usize::try_from(config.active.commit_bytes_max.get()).unwrap_or(usize::MAX),
        promote_timeout: config.failover.promote_timeout.get(),
        transaction_timeout: config.active.transaction_timeout.get(),
    }
}

pub(super) fn restore(config: &Config, log: &Arc<dyn Log>, statuses: &Statuses) -> Restore {
    let rules = CheckpointRules {
        folder: config.node.data_dir.join("checkpoints"),
        cluster: config.cluster.name.clone(),
        interval: config.checkpoint.interval.get(),
        changelog_records: i64::try_from(config.checkpoint.changelog_bytes.get() / CHANGELOG_RECORD_BYTES)
            .unwrap_or(i64::MAX),
        files: checkpoint::Settings {
            keep: config.checkpoint.keep as usize,
            bytes_per_s_max: config.checkpoint.bytes_per_s_max.get(),
            read_back: true,
        },
        age_max: config.topics.changelog_delete_retention.get(),
    };
    Restore { log: Arc::clone(log), semantics: Arc::clone(config.semantics()), rules, statuses: statuses.clone() }
}
