"""The dashboards of hotspare, written to JSON by typed builders. Run by deploy/grafana/generate."""

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.builders import common, heatmap, stat, statetimeline, timeseries
from grafana_foundation_sdk.builders import dashboard as db
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as types
from grafana_foundation_sdk.models.dashboard import (
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
C = 'cluster=~"$cluster"'
CS = C + ',slot=~"$slot"'


def query(expr, legend="", instant=False, form=None):
    target = Dataquery().datasource(SOURCE).expr(expr).legend_format(legend)
    if instant:
        target = target.instant()
    return target.format(form) if form else target


def thresholds(*steps):
    """Steps of (value, colour); the first value is None."""
    return db.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps([Threshold(value, colour) for value, colour in steps])


def put(panel, title, width, height, text, *targets):
    panel = panel.title(title).description(text).datasource(SOURCE).span(width).height(height)
    for target in targets:
        panel = panel.with_target(target)
    return panel


def tile(title, text, expr, unit="none", steps=((None, "green"),), width=4):
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"])
    panel = stat.Panel().unit(unit).thresholds(thresholds(*steps)).reduce_options(reduce)
    return put(panel, title, width, 4, text, query(expr))


def lines(title, text, *targets, unit="none", width=12, stack=False):
    panel = timeseries.Panel().unit(unit).min(0).fill_opacity(20 if stack else 5).show_points(types.VisibilityMode.NEVER)
    if stack:
        panel = panel.stacking(common.StackingConfig().mode(types.StackingMode.NORMAL))
    return put(panel, title, width, 8, text, *[query(expr, legend) for expr, legend in targets])


def board(uid, title):
    failovers = (
        db.AnnotationQuery()
        .name("failovers")
        .datasource(SOURCE)
        .enable(True)
        .icon_color("red")
        .expr(f'sum by (reason) (max by (cluster, kind, reason, result) (increase(hotspare_failovers_total{{{C},kind="failover"}}[$__rate_interval]))) > 0')
    )
    link = db.DashboardLink("hotspare").type(DashboardLinkType.DASHBOARDS).tags(["hotspare"]).include_vars(True).keep_time(True)
    variable = lambda name, q: (
        db.QueryVariable(name).datasource(SOURCE).query(q).refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).include_all(True).multi(True).all_value(".*")
    )
    return (
        db.Dashboard(title)
        .uid(uid)
        .tags(["hotspare"])
        .refresh("10s")
        .time("now-1h", "now")
        .tooltip(1)
        .link(link)
        .annotation(failovers)
        .with_variable(db.DatasourceVariable("datasource").type("prometheus"))
        .with_variable(variable("cluster", "label_values(hotspare_build_info, cluster)"))
        .with_variable(variable("slot", f'label_values(hotspare_build_info{{{C}}}, slot)'))
    )


def overview():
    roles = (
        put(statetimeline.Panel().show_value(types.VisibilityMode.AUTO), "Who is active", 24, 8,
            "One row a partition and node: 1 while that node is the active.",
            query(f'max by (partition, slot) (hotspare_replica_role{{{CS},role="active"}})', "{{partition}} on {{slot}}"))
    )
    durations = put(
        heatmap.Panel().unit("s").color(heatmap.HeatmapColorOptions().scheme("Oranges")), "Failover durations", 12, 9,
        "Failovers by duration; objectives are 0.1 s in the median, 0.25 s after a death and 0.6 s after silence.",
        query(f'sum by (le) (max by (cluster, reason, le) (increase(hotspare_failover_duration_seconds_bucket{{{C},kind="failover"}}[$__rate_interval])))', "{{le}}", form="heatmap"))
    objectives = lines(
        "Slowest failover against objectives", "Percentiles of the last 30 days by reason.",
        (f'cluster_reason:hotspare_failover_duration_seconds:p50_30d{{{C}}}', "{{reason}} p50"),
        (f'cluster_reason:hotspare_failover_duration_seconds:p99_30d{{{C}}}', "{{reason}} p99"), unit="s")
    objectives = objectives.height(9).thresholds(thresholds((None, "green"), (0.1, "yellow"), (0.25, "orange"), (0.6, "red")))
    objectives = objectives.thresholds_style(common.GraphThresholdsStyleConfig().mode(types.GraphThresholdsStyleMode.DASHED))
    phases = lines(
        "Where the time of failovers goes", "Mean of each phase of the last hour, stacked.",
        (f'max by (phase) (increase(hotspare_failover_phase_seconds_sum{{{C},kind="failover"}}[1h])) / (max by (phase) (increase(hotspare_failover_phase_seconds_count{{{C},kind="failover"}}[1h])) > 0)', "{{phase}}"),
        unit="s", stack=True)
    availability = lines("Availability, 30 days", "Partition-time with a working active.",
                         (f'cluster:hotspare_availability:ratio30d{{{C}}}', "{{cluster}}"), unit="percentunit").min(0.999).max(1)
    return (
        board("hotspare-overview", "hotspare: Overview")
        .with_panel(tile("Partitions without active", "Must be 0.", f'max by (cluster) (hotspare_partitions{{{C},state="no_active"}})', steps=((None, "green"), (1, "red"))))
        .with_panel(tile("Nodes not live", "Dead or suspect.", f'sum by (cluster) (hotspare_nodes{{{C},state=~"dead|suspect"}})', steps=((None, "green"), (1, "orange"))))
        .with_panel(tile("Survives failures", "How many nodes may die, whichever they are.", f'max by (cluster) (hotspare_failure_tolerance{{{C}}})', steps=((None, "red"), (1, "green"))))
        .with_panel(tile("Fewest promotable standbys", "Of all partitions.", f'min by (cluster) (hotspare_promotable_standbys{{{C}}})', steps=((None, "red"), (1, "green"))))
        .with_panel(tile("Last failover took", "The newest that succeeded.", f'max by (cluster) (hotspare_failover_last_duration_seconds{{{C},kind="failover"}})', "s", ((None, "green"), (0.25, "orange"), (0.6, "red"))))
        .with_panel(tile("Last failover", "Since it was decided.", f'time() - max by (cluster) (hotspare_failover_last_timestamp_seconds{{{C},kind="failover"}})', "s"))
        .with_panel(roles)
        .with_panel(durations)
        .with_panel(objectives)
        .with_panel(phases)
        .with_panel(availability)
        .with_panel(lines("Failovers and switchovers in the last hour", "By kind and reason.", (f'cluster_kind_reason:hotspare_failovers:increase1h{{{C}}}', "{{kind}} {{reason}}")))
        .with_panel(lines("Withheld and false", "Failovers decided and not done, and needless ones, in the last hour.",
                          (f'max by (reason) (increase(hotspare_failovers_withheld_total{{{C}}}[1h]))', "withheld: {{reason}}"),
                          (f'max by (reason) (increase(hotspare_false_failovers_total{{{C}}}[1h]))', "false: {{reason}}")))
    )


def partitions():
    by = "{{partition}} on {{slot}}"
    return (
        board("hotspare-partitions", "hotspare: Partitions")
        .with_row(db.Row("Replicas"))
        .with_panel(lines("Standby lag", "Age of the oldest committed record that is not applied.", (f'hotspare_standby_lag_seconds{{{CS}}}', by), unit="s"))
        .with_panel(lines("Standby lag in records", "Changelog records not applied.", (f'hotspare_standby_lag_records{{{CS}}}', by)))
        .with_panel(lines("State", "Entries and series of the state.", (f'max by (partition) (hotspare_state_entries{{{CS}}})', "entries of {{partition}}"), (f'max by (partition) (hotspare_state_series{{{CS}}})', "series of {{partition}}")))
        .with_panel(lines("Digest comparisons", "A difference means that a replica has another state than the active.", (f'sum by (result) (rate(hotspare_digest_checks_total{{{CS}}}[$__rate_interval]))', "{{result}}"), unit="ops"))
        .with_panel(lines("Epochs", "Each step is a change of the active.", (f'max by (partition) (hotspare_replica_epoch{{{CS}}})', "{{partition}}")))
        .with_panel(lines("Fenced tenures", "By cause.", (f'sum by (cause) (increase(hotspare_fenced_total{{{CS}}}[$__rate_interval]))', "{{cause}}")))
        .with_row(db.Row("Checkpoints"))
        .with_panel(lines("Age of the newest checkpoint", "Of each partition, on any node.", (f'time() - max by (partition) (hotspare_checkpoint_last_timestamp_seconds{{{C}}})', "{{partition}}"), unit="s"))
        .with_panel(lines("Failed and discarded", "By stage and reason.", (f'sum by (stage) (increase(hotspare_checkpoint_failures_total{{{CS}}}[$__rate_interval]))', "failed: {{stage}}"), (f'sum by (reason) (increase(hotspare_checkpoints_discarded_total{{{CS}}}[$__rate_interval]))', "discarded: {{reason}}")))
        .with_panel(lines("Size", "Of the newest checkpoint.", (f'hotspare_checkpoint_bytes{{{CS}}}', by), unit="bytes"))
        .with_panel(lines("Restore time", "Mean by source.", (f'sum by (source) (hotspare_restore_seconds_sum{{{CS}}}) / (sum by (source) (hotspare_restore_seconds_count{{{CS}}}) > 0)', "{{source}}"), unit="s"))
        .with_row(db.Row("Raft and peers"))
        .with_panel(lines("Raft leader", "1 on the leader.", (f'hotspare_raft_is_leader{{{CS}}}', "{{slot}}")))
        .with_panel(lines("fsync of the Raft log, p99", "Above 10 ms it costs elections.", (f'histogram_quantile(0.99, sum by (slot, le) (rate(hotspare_raft_fsync_seconds_bucket{{{CS}}}[$__rate_interval])))', "{{slot}}"), unit="s"))
        .with_panel(lines("Elections", "Candidacies by cause and result.", (f'sum by (cause, result) (increase(hotspare_raft_elections_total{{{CS}}}[$__rate_interval]))', "{{cause}} {{result}}")))
        .with_panel(lines("Round trips to peers, p99", "The peer's work included.", (f'histogram_quantile(0.99, sum by (slot, peer, le) (rate(hotspare_peer_rtt_seconds_bucket{{{CS}}}[$__rate_interval])))', "{{slot}} to {{peer}}"), unit="s"))
    )


def pipeline():
    return (
        board("hotspare-pipeline", "hotspare: Pipeline")
        .with_row(db.Row("Readings"))
        .with_panel(lines("Input records", "Exact, from progress records.", (f'max by (partition) (rate(hotspare_input_records_total{{{C}}}[$__rate_interval]))', "{{partition}}"), unit="ops"))
        .with_panel(lines("Readings by outcome", "Each candidate has one.", (f'sum by (outcome) (cluster_partition_outcome:hotspare_readings:rate1m{{{C}}})', "{{outcome}}"), unit="ops", stack=True))
        .with_panel(lines("Rejections by reason", "They are in the dead-letter topic.", (f'sum by (reason) (max by (partition, reason) (rate(hotspare_readings_rejected_total{{{C}}}[$__rate_interval])))', "{{reason}}"), unit="ops"))
        .with_panel(tile("Readings unaccounted", "Must be 0: every candidate has an outcome.", f'max by (cluster) (abs(hotspare_readings_unaccounted{{{C}}}))', steps=((None, "green"), (1, "red"))))
        .with_panel(tile("Devices on two partitions", "Their windows are split.", f'max by (cluster) (hotspare_devices_on_two_partitions{{{C}}})', steps=((None, "green"), (1, "orange"))))
        .with_panel(lines("Final windows", "A second.", (f'max by (partition) (rate(hotspare_windows_final_total{{{C}}}[$__rate_interval]))', "{{partition}}"), unit="ops"))
        .with_row(db.Row("Commits"))
        .with_panel(lines("Transactions", "By result.", (f'sum by (result) (rate(hotspare_commits_total{{{CS}}}[$__rate_interval]))', "{{result}}"), unit="ops"))
        .with_panel(lines("Commit time", "Writing and committing a transaction.", *[(f'histogram_quantile({q}, sum by (le) (rate(hotspare_commit_seconds_bucket{{{CS}}}[$__rate_interval])))', f"p{int(q * 100)}") for q in (0.5, 0.99)], unit="s"))
        .with_panel(lines("From a record to its commit", "Of the oldest record of each commit.", *[(f'histogram_quantile({q}, sum by (le) (rate(hotspare_end_to_end_seconds_bucket{{{CS}}}[$__rate_interval])))', f"p{int(q * 100)}") for q in (0.5, 0.99)], unit="s"))
        .with_panel(lines("Input lag", "Of the actives.", (f'max by (partition) (hotspare_input_lag_seconds{{{C}}})', "{{partition}}"), unit="s"))
        .with_row(db.Row("Kafka and process"))
        .with_panel(lines("Since a broker answered", "Each node asks once a second.", (f'time() - hotspare_kafka_last_contact_timestamp_seconds{{{CS}}}', "{{slot}}"), unit="s"))
        .with_panel(lines("Errors of Kafka clients", "By client and class.", (f'sum by (client, class) (increase(hotspare_kafka_errors_total{{{CS}}}[$__rate_interval]))', "{{client}} {{class}}")))
        .with_panel(lines("Age of the runtime's last turn", "High values mean throttling or a frozen host.", (f'hotspare_runtime_tick_age_seconds{{{CS}}}', "{{slot}}"), unit="s"))
        .with_panel(lines("HTTP requests", "By route.", (f'sum by (route, code) (rate(hotspare_http_requests_total{{{CS}}}[$__rate_interval]))', "{{route}} {{code}}"), unit="reqps"))
    )


def main(folder):
    for name, build in (("overview", overview), ("partitions", partitions), ("pipeline", pipeline)):
        text = JSONEncoder(sort_keys=True, indent=2).encode(build().build())
        json.loads(text)
        Path(folder, f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
