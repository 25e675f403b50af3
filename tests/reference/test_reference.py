"""Tests of the parts, and of the whole on every case. Run: python3 -m unittest"""

import itertools
import math
import random
import unittest
from fractions import Fraction
from pathlib import Path

import config as configuration
import instants
import json_text
import line_protocol
import shapes
import windows
from aggregate import OVERFLOW, Aggregate, nearest_root
from decimals import floor_shifted, is_number_text, shortest, to_double

HOUR = 3_600_000
BASE = 1_704_067_200_000  # 2024-01-01T00:00:00Z


class Decimals(unittest.TestCase):
    def test_shortest_has_the_forms_of_ecmascript(self):
        for text in ("0", "1", "-12.5", "0.000001", "1e-7", "1.5e-7", "5e-324", "100000000000000000000", "1e+21",
                     "1.7976931348623157e+308", "123456789.125", "9007199254740992"):
            self.assertEqual(shortest(float(text)), text)

    def test_shortest_reads_back(self):
        source = random.Random(1)
        for _ in range(2000):
            value = math.ldexp(source.uniform(-1, 1), source.randint(-1000, 1000))
            self.assertEqual(float(shortest(value)), value)

    def test_floor_shifted_is_exact(self):
        for text, shift, wanted in (("1577898000.3", 3, 1577898000300), ("1.663842E12", 0, 1663842000000), ("-0.5", 0, -1),
                                    ("-1001", -3, -2), ("1e-99999999", 3, 0), ("-1e-99999999", 3, -1), ("1e99999999", 0, None),
                                    ("0.29999999999999999999", 3, 299), ("-0.0", 3, 0), ("5.", 1, 50), (".5", 1, 5)):
            self.assertEqual(floor_shifted(text, shift), wanted, text)

    def test_number_text(self):
        for text in ("1", "+1", "1.", ".5", "1e5", "-1.5E-3", "007"):
            self.assertTrue(is_number_text(text), text)
        for text in ("", ".", "1e", "1_0", "0x1", "nan", "1,5", "--1", " 1", "\u0661"):
            self.assertFalse(is_number_text(text), text)

    def test_no_negative_zero(self):
        self.assertEqual(math.copysign(1, to_double("-0.0")), 1)


class Json(unittest.TestCase):
    def test_strictness(self):
        for text in ("nan", "[1,]", "{} {}", '"\\ud800"', '"\\udc00\\ud800"', '"\\ud800x\\n"', "[" * 128 + "]" * 128, "01", '"\t"', ""):
            with self.assertRaises(json_text.BadJson, msg=text):
                json_text.parse(text)
        for text in ('"\\ud83c\\udf21"', '"\\\\ud800"', "[" * 127 + "]" * 127, "1e999", '"' + "[" * 200 + '"'):
            json_text.parse(text)

    def test_pointers(self):
        document = json_text.parse('{"a/b":{"m~n":[1,{"":2}]},"01":3}')
        for pointer, wanted in (("/a~1b/m~0n/0", "1"), ("/a~1b/m~0n/1/", "2"), ("/01", "3")):
            self.assertEqual(json_text.resolve(document, pointer), wanted)
        for pointer in ("/x", "/a~1b/m~0n/00", "/a~1b/m~0n/-", "/a~1b/m~0n/2", "/01/0"):
            self.assertIs(json_text.resolve(document, pointer), json_text.ABSENT)

    def test_numbers_keep_their_text(self):
        text = '{"a":1.0,"b":[1E3,-0],"c":"é\\n"}'
        self.assertEqual(json_text.write(json_text.parse(text)), text)


class Instants(unittest.TestCase):
    def test_iso_forms_of_one_instant(self):
        for text in ("2024-01-01T00:00:00Z", "2024-01-01t00:00z", "2024-01-01 05:30+05:30", "2023-12-31T19:00:00.0-0500",
                     "2023-12-31T23:59:60Z", "2024-01-01T01:00:00,000999+01"):
            self.assertEqual(instants.from_iso(text, None), BASE, text)

    def test_local_times_that_come_twice_or_never(self):
        zone = "America/New_York"
        self.assertEqual(instants.from_iso("2024-11-03T01:30:00", zone), instants.from_iso("2024-11-03T05:30:00Z", None))
        self.assertEqual(instants.from_iso("2024-03-10T02:30:00", zone), instants.from_iso("2024-03-10T07:30:00Z", None))

    def test_what_is_no_time(self):
        for text in ("2024-01-01", "2024-02-30T00:00Z", "2024-01-01T24:00Z", "2024-01-01T00:00:61Z", "0000-01-01T00:00Z", "now"):
            with self.assertRaises(instants.BadTime, msg=text):
                instants.from_iso(text, "UTC")
        with self.assertRaises(instants.NoZone):
            instants.from_iso("2024-01-01T00:00", None)

    def test_units_by_size(self):
        for text in ("1704067200", "1704067200000", "1704067200000000", "1704067200000000000", "1.7040672e9"):
            self.assertEqual(instants.from_number(text, "auto"), BASE)


class LineProtocol(unittest.TestCase):
    def test_escapes_and_types(self):
        body = line_protocol.parse(r'm\,\ n,a\=b=c\ d\e f\ g=-1i,h=2u,i=1.5e3,j="x \"y\" \\ \z",k=T 17')
        self.assertEqual(body["name"], "m, n")
        self.assertEqual(body["tags"], {"a=b": r"c d\e"})
        self.assertEqual(body["fields"], {"f g": "-1", "h": "2", "i": "1.5e3", "j": r'x "y" \ \z', "k": True})
        self.assertEqual(body["timestamp"], "17")

    def test_lines(self):
        text = ' # c ="\n\nm f="a\nb\\"c"\r\n m g=1\n'
        self.assertEqual(list(line_protocol.lines(text)), ['m f="a\nb\\"c"', "m g=1"])

    def test_bad_lines(self):
        for line in ("m", "m f", "m f=", ",a=b f=1", "m,a f=1", "m,a= f=1", "m,a=b=c f=1", "m,a=1,a=2 f=1", "m f=1,f=2", "m f=1 x",
                     'm f="a"b', 'm f="a', "m f=1,", "m =1", "m f=1i1", "m f=-1u", "m f=9223372036854775808i", "m f=tRUE", "m f=1 1.5"):
            with self.assertRaises(line_protocol.BadLine, msg=line):
                line_protocol.parse(line)

    def test_metric_names_do_not_collide(self):
        self.assertNotEqual(line_protocol.metric_name("a.b", "c"), line_protocol.metric_name("a", "b.c"))


class Shapes(unittest.TestCase):
    def test_below_zero(self):
        self.assertEqual(shapes.hopping(-1, HOUR, HOUR), [(-HOUR, 0)])
        self.assertEqual(shapes.hopping(-1, 3, 2), [(-2, 1)])
        self.assertEqual(shapes.hopping(0, 3, 2), [(-2, 1), (0, 3)])

    def test_calendar_windows_tile_the_time_line(self):
        starts = {"America/New_York": "2024-11-01", "Asia/Beirut": "2022-03-25", "Australia/Lord_Howe": "2024-04-05",
                  "Pacific/Apia": "2011-12-28", "America/St_Johns": "2010-11-05", "Asia/Kolkata": "2024-01-01"}
        for (zone, date), unit in itertools.product(starts.items(), ("hour", "day", "week", "month")):
            time_ms = instants.from_iso(date + "T00:00:00Z", None)
            last = time_ms + 4 * 24 * HOUR
            find = shapes.local_hour if unit == "hour" else lambda t, z, unit=unit: shapes.local_dates(t, unit, z)
            end = find(time_ms, zone)[0]
            while end < last:
                start, before = end, find(end, zone)
                self.assertEqual(before[0], start)
                end = before[1]
                self.assertGreater(end, start)
                self.assertEqual(find(end - 1, zone), before)
                self.assertEqual(find((start + end) // 2, zone), before)
                self.assertLessEqual(end - start, HOUR if unit == "hour" else 31 * 25 * HOUR)


class Aggregates(unittest.TestCase):
    def test_sums_agree_with_fsum_in_any_order(self):
        source = random.Random(2)
        values = [math.ldexp(source.uniform(-1, 1), source.randint(-60, 60)) for _ in range(200)]
        for _ in range(5):
            source.shuffle(values)
            aggregate = aggregate_of(values)
            self.assertEqual(aggregate.sum(), math.fsum(values))

    def test_merged_parts_are_the_whole(self):
        values = [0.1, 1e100, 3.0, -1e100, 5e-324]
        for cut in range(1, len(values)):
            part = aggregate_of(values[:cut])
            part.merge(aggregate_of(values[cut:], first_ms=cut))
            whole = aggregate_of(values)
            for name in ("count", "sum_units", "square_units", "min", "max", "first", "last"):
                self.assertEqual(getattr(part, name), getattr(whole, name), name)

    def test_overflow(self):
        aggregate = aggregate_of([1.7e308, 1.7e308])
        self.assertIs(aggregate.sum(), OVERFLOW)
        self.assertEqual(aggregate.mean(), 1.7e308)

    def test_variance(self):
        aggregate = aggregate_of([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])
        self.assertEqual((aggregate.variance("population"), aggregate.stddev("population")), (4.0, 2.0))
        self.assertEqual(aggregate.variance("sample"), 32 / 7)
        self.assertIsNone(aggregate_of([1.0]).variance("sample"))

    def test_roots_are_the_nearest_doubles(self):
        source = random.Random(3)
        for _ in range(500):
            exact = Fraction(source.getrandbits(source.randint(1, 200)) + 1, source.getrandbits(source.randint(1, 200)) + 1)
            root = nearest_root(exact)
            below, above = (Fraction(math.nextafter(root, end)) for end in (0.0, math.inf))
            self.assertLessEqual(((below + Fraction(root)) / 2) ** 2, exact)
            self.assertLessEqual(exact, ((above + Fraction(root)) / 2) ** 2)


class Whole(unittest.TestCase):
    def test_order_of_arrival_does_not_matter_within_the_grace(self):
        for window in ('size = "1h"', 'kind = "hopping"\nadvance = "20m"', 'kind = "session"\ngap = "7m"',
                       'kind = "calendar"\nunit = "hour"\nzone = "Asia/Kolkata"'):
            self.check_orders(configuration.read(f'[input]\ntopic = "t"\n[window]\n{window}\ngrace = "2d"\n'))

    def check_orders(self, config):
        source = random.Random(4)
        readings = [(BASE + 61_000 * source.randint(0, 100) + i, math.ldexp(source.random(), 40)) for i in range(60)]
        found = set()
        for _ in range(4):
            source.shuffle(readings)
            result = windows.run(config, map(entry, itertools.count(), *zip(*readings)))
            found.add(tuple(result.open))
        self.assertEqual(len(found), 1)

    def test_every_reading_is_in_a_window_once(self):
        config = configuration.read('[input]\ntopic = "t"\n[window]\ngrace = "5m"\nidle_close = "2h"\n')
        source = random.Random(5)
        times = [BASE + 60_000 * i - 60_000 * source.choice((0, 0, 3, 30, 90)) for i in range(500)]
        result = windows.run(config, map(entry, itertools.count(), times, itertools.repeat(1.0)))
        counted = sum(int(json_text.parse(text)["count"]) for text in result.outputs + result.open)
        self.assertEqual(counted, int(json_text.parse(result.counters)["counted"]))
        starts = [json_text.parse(text)["window_start_ms"] for text in result.outputs + result.open]
        self.assertEqual(len(starts), len(set(starts)))

    def test_cases(self):
        for path in sorted(Path(__file__).parent.parent.glob("cases/*.json")):
            with self.subTest(path.name):
                self.assertEqual(windows.differences(path.read_text(encoding="utf-8")), [])

    def test_defaults_are_those_of_the_page(self):
        path = Path(__file__).parent.parent.parent / "docs" / "SEMANTICS.md"
        if not path.exists():
            self.skipTest(f"{path} is not there")
        page = path.read_text(encoding="utf-8")
        block = page.split("```toml\n")[1].split("```")[0]
        self.assertEqual(configuration.read(block), configuration.read('[input]\ntopic = "iot"\n'))

    def test_configuration_is_checked(self):
        for text in ("[input]\n", '[input]\ntopic = "t"\nformats = "json"\n', '[input]\ntopic = "t"\n[window]\ngap = "1m"\n',
                     '[input]\ntopic = "t"\n[window]\nkind = "hopping"\n', '[input]\ntopic = "t"\n[window]\nsize = "0s"\n',
                     '[input]\ntopic = "t"\n[window]\nidle_close = "2h"\nretention = "1h"\n',
                     '[input]\ntopic = "t"\nformat = "senml"\nrecords = "/r"\n', '[input]\ntopic = "t"\n[window]\ngrace = "1 hour"\n'):
            with self.assertRaises(configuration.BadConfig, msg=text):
                configuration.read(text)


def aggregate_of(values, first_ms=0):
    aggregate = Aggregate()
    for index, value in enumerate(values):
        aggregate.add(first_ms + index, value)
    return aggregate


def entry(offset, time_ms, value):
    text = f'{{"device_id":"a","ts":{time_ms},"value":{value!r}}}'
    return {"partition": 0, "offset": offset, "timestamp": max(time_ms, BASE + 60_000 * offset), "key": "a", "value": text}


if __name__ == "__main__":
    unittest.main()
