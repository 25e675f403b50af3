"""Checks the golden files by another way than the reference: plain dictionaries, math.fsum, naive UTC times.

Run: python3 check.py
"""

import csv
import gzip
import json
import math
from collections import defaultdict
from datetime import datetime, timezone
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from pathlib import Path

GOLDEN = Path(__file__).parent
HOUR = 3_600_000


def iot(text):
    for reading in json.loads(text, parse_float=Decimal):
        time_ms = int((reading["ts"] * 1000).to_integral_value(ROUND_FLOOR))
        for metric, value in reading["data"].items():
            yield reading["device_id"], metric, time_ms, float(value)


def nab():
    for path in sorted((GOLDEN.parent / "nab").glob("*.csv")):
        with open(path, newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                time = datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc)
                yield path.stem, "value", int(time.timestamp()) * 1000, float(row["value"])


def windows(readings, size, grace):
    """(device, metric, start) -> [(time, value)], and the number of late readings."""
    kept, late, watermarks = defaultdict(list), 0, {}
    for device, metric, time, value in readings:
        start, watermark = time - time % size, watermarks.get((device, metric), time)
        if watermark >= start + size + grace:
            late += 1
            continue
        watermarks[device, metric] = max(watermark, time)
        kept[device, metric, start].append((time, value))
    return kept, late, watermarks


def row(key, readings, size, grace, watermarks):
    device, metric, start = key
    values = [value for _, value in readings]
    mean = sum(map(Fraction, values)) / len(values)
    first, last = min(readings, key=lambda r: r[0]), max(reversed(readings), key=lambda r: r[0])
    return {"device": device, "metric": metric, "partition": 0, "window_start_ms": start, "window_end_ms": start + size,
            "count": len(values), "sum": math.fsum(values), "mean": mean.numerator / mean.denominator, "min": min(values),
            "max": max(values), "first": first[1], "first_ms": first[0], "last": last[1], "last_ms": last[0],
            "final": watermarks[device, metric] >= start + size + grace}


def lines_of(name):
    plain = GOLDEN / f"{name}.jsonl"
    content = plain.read_bytes() if plain.exists() else gzip.decompress((GOLDEN / f"{name}.jsonl.gz").read_bytes())
    return [json.loads(line) for line in content.splitlines()]


def check(name, readings, size, grace=0):
    kept, late, watermarks = windows(readings, size, grace)
    wanted = {key: row(key, group, size, grace, watermarks) for key, group in kept.items()}
    lines = lines_of(name)
    found = {(line["device"], line["metric"], line["window_start_ms"]): line for line in lines}
    counters = json.loads((GOLDEN / "counters.json").read_text())[name]
    assert len(found) == len(lines) and found == wanted, name
    assert counters["late"] == late and counters["counted"] == sum(map(len, kept.values())), name
    print(f"{name}: {len(lines)} windows agree, {late} late")


def main():
    source = GOLDEN.parent / "iot-telemetry"
    check("iot-telemetry-large.hourly", iot((source / "raw_data_large.json").read_text()), HOUR)
    xlarge = gzip.decompress((source / "raw_data_xlarge.json.gz").read_bytes()).decode()
    check("iot-telemetry-xlarge.hourly", iot(xlarge), HOUR)
    check("nab.hourly", nab(), HOUR)
    check("nab.5m.grace-0", nab(), HOUR // 12)
    check("nab.5m.grace-1h", nab(), HOUR // 12, HOUR)


if __name__ == "__main__":
    main()
