"""Writes ../data/golden from ../data with the reference. See ../data/golden/README.md. Run: python3 golden.py"""

import gzip
from pathlib import Path

import config as configuration
import json_text
import windows
from instants import from_iso, from_number

DATA = Path(__file__).parent.parent / "data"
GOLDEN = DATA / "golden"
PLAIN_LIMIT = 1_500_000  # larger files are compressed


def iot_records(text):
    for offset, reading in enumerate(json_text.parse(text)):
        timestamp = from_number(reading["ts"], "s")
        yield record(offset, timestamp, reading["device_id"], json_text.write(reading))


def nab_records():
    offset = 0
    for path in sorted((DATA / "nab").glob("*.csv")):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            time, value = line.split(",")
            text = f'{{"device_id":"{path.stem}","ts":"{time}","value":{value}}}'
            yield record(offset, from_iso(time, "UTC"), path.stem, text)
            offset += 1


def record(offset, timestamp, key, value):
    return {"partition": 0, "offset": offset, "timestamp": timestamp, "key": key, "value": value}


def write(name, config_name, records):
    config = configuration.read((GOLDEN / f"{config_name}.toml").read_text(encoding="utf-8"))
    result = windows.run(config, records)
    content = "".join(line + "\n" for line in result.outputs + result.open).encode()
    if len(content) > PLAIN_LIMIT:
        (GOLDEN / f"{name}.jsonl.gz").write_bytes(gzip.compress(content, 9, mtime=0))
    else:
        (GOLDEN / f"{name}.jsonl").write_bytes(content)
    print(f"{name}: {len(result.outputs)} final, {len(result.open)} open, {result.counters}")
    return f"{json_text.write(name)}:{result.counters}"


def main():
    large = (DATA / "iot-telemetry/raw_data_large.json").read_text(encoding="utf-8")
    xlarge = gzip.decompress((DATA / "iot-telemetry/raw_data_xlarge.json.gz").read_bytes()).decode()
    counters = [
        write("iot-telemetry-large.hourly", "iot-telemetry.hourly", iot_records(large)),
        write("iot-telemetry-xlarge.hourly", "iot-telemetry.hourly", iot_records(xlarge)),
        write("nab.hourly", "nab.hourly", nab_records()),
        write("nab.5m.grace-0", "nab.5m.grace-0", nab_records()),
        write("nab.5m.grace-1h", "nab.5m.grace-1h", nab_records()),
    ]
    (GOLDEN / "counters.json").write_text("{\n" + ",\n".join(counters) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
