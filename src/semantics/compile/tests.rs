use crate::semantics::{Semantics, SemanticsError};

fn errors(text: &str) -> Vec<SemanticsError> {
    Semantics::from_toml(text).err().unwrap_or_default()
}

fn with_topic(text: &str) -> String {
    format!("[input]\ntopic = \"t\"\n{text}")
}

/// The keys of what is refused.
fn refused(text: &str) -> Vec<String> {
    errors(&with_topic(text)).into_iter().map(|error| error.key).collect()
}

#[test]
fn the_smallest_configuration_is_a_topic() {
    let semantics = Semantics::from_toml("[input]\ntopic = \"iot\"\n").expect("a configuration");
    assert_eq!(semantics.topic(), "iot");
    assert_eq!(semantics.windows().len(), 1);
}

#[test]
fn other_tables_are_ignored() {
    let text = "[cluster]\nname = \"plant\"\n[kafka.properties]\na = \"b\"\n[input]\ntopic = \"iot\"\n";
    assert!(Semantics::from_toml(text).is_ok());
}

#[test]
fn unknown_keys_are_refused_by_name() {
    for text in [
        "formats = \"json\"\n",
        "[input.device]\nform = \"key\"\n",
        "[input.time]\nunits = \"s\"\n",
        "[[input.value]]\nname = \"a\"\npointer = \"/a\"\nbool = true\n",
        "[input.limits]\nmax = 1\n",
        "[input.dedup]\nkeeps = \"1h\"\n",
        "[window]\nsizes = \"1h\"\n",
        "[output]\nemits = \"final\"\n",
    ] {
        let found = errors(&with_topic(text));
        assert!(found.len() == 1 && found[0].message.contains("unknown field"), "{text}: {found:?}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (text, key) in [
        ("records = \"r\"\n", "input.records"),
        ("decode = \"r\"\n", "input.decode"),
        ("[input.device]\nfrom = \"record\"\n", "input.device.from"),
        ("[input.device]\nfrom = \"header:\"\n", "input.device.from"),
        ("[input.device]\nfrom = \"key:x\"\n", "input.device.from"),
        ("[input.device]\nfrom = \"key\"\npointer = \"/a\"\n", "input.device.pointer"),
        ("[input.device]\npointer = \"a\"\n", "input.device.pointer"),
        ("[input.time]\nfrom = \"records\"\n", "input.time.from"),
        ("[input.time]\nfrom = \"record\"\npointer = \"/a\"\n", "input.time.pointer"),
        ("[input.time]\nzone = \"Europe/Atlantis\"\n", "input.time.zone"),
        ("[[input.value]]\npointer = \"/a\"\n", "input.value[0].name"),
        ("[[input.value]]\nname = \"a\"\n", "input.value[0].pointer"),
        ("[[input.value]]\nname = \"a\"\npointer = \"/a\"\nmetric = \"b\"\n", "input.value[0].metric"),
        ("[input.senml]\nsplit = \"/\"\n", "input.senml"),
        ("[input.limits]\nmax_future = \"5 m\"\n", "input.limits.max_future"),
        ("[input.limits]\nmin_time = \"2000-01-01T00:00:00\"\n", "input.limits.min_time"),
        ("[input.limits]\nmax_device_id = 0\n", "input.limits.max_device_id"),
        ("[input.dedup]\nkeep = \"0s\"\n", "input.dedup.keep"),
        ("[window]\nsize = \"0s\"\n", "window.size"),
        ("[window]\ngrace = \"1 hour\"\n", "window.grace"),
        ("[window]\ngap = \"1m\"\n", "window.gap"),
        ("[window]\nadvance = \"1m\"\n", "window.advance"),
        ("[window]\nunit = \"day\"\n", "window.unit"),
        ("[window]\nzone = \"UTC\"\n", "window.zone"),
    ] {
        assert_eq!(refused(text), [key], "{text}");
    }
    for (text, key) in [
        ("records = \"/r\"\n", "input.records"),
        ("decode = \"/r\"\n", "input.decode"),
        ("[input.device]\npointer = \"/a\"\n", "input.device.pointer"),
        ("[input.device]\nfrom = \"document\"\n", "input.device.from"),
        ("[input.device]\nfrom = \"key\"\npointer = \"/a\"\n", "input.device.pointer"),
        ("[input.time]\npointer = \"/a\"\n", "input.time.pointer"),
        ("[input.time]\nunit = \"s\"\n", "input.time.unit"),
        ("[input.time]\nzone = \"UTC\"\n", "input.time.zone"),
        ("[input.time]\nfrom = \"key\"\n", "input.time.from"),
        ("[[input.value]]\nname = \"a\"\npointer = \"/a\"\n", "input.value[0].pointer"),
        ("[[input.value]]\nname = \"a\"\nmetric = \"\"\n", "input.value[0].metric"),
        ("[[input.value]]\nmetric = \"a\"\n", "input.value[0].name"),
        ("[input.senml]\nsplit = \"\"\n", "input.senml.split"),
    ] {
        assert_eq!(refused(&format!("format = \"senml\"\n{text}")), [key], "senml {text}");
    }
    for (text, key) in [
        ("records = \"/r\"\n", "input.records"),
        ("[input.device]\nfrom = \"document\"\n", "input.device.from"),
        ("[input.time]\nfrom = \"document\"\n", "input.time.from"),
        ("[[input.value]]\nname = \"a\"\n", "input.value[0].pointer"),
        ("[[input.value]]\nname = \"a\"\npointer = \"/a\"\nmetric = \"a\"\n", "input.value[0].metric"),
        ("[input.senml]\nsplit = \"/\"\n", "input.senml"),
    ] {
        assert_eq!(refused(&format!("format = \"influx\"\n{text}")), [key], "influx {text}");
    }
    let twice = "[[input.value]]\nname = \"a\"\npointer = \"/a\"\n[[input.value]]\nname = \"a\"\npointer = \"/b\"\n";
    assert_eq!(refused(twice), ["input.value[1].name"]);
    assert_eq!(errors("")[0].key, "input.topic");
}

#[test]
fn windows_have_what_their_kind_needs_and_nothing_else() {
    for (text, key) in [
        ("kind = \"hopping\"\n", "window.advance"),
        ("kind = \"hopping\"\nadvance = \"0s\"\n", "window.advance"),
        ("kind = \"hopping\"\nadvance = \"61m\"\n", "window.advance"),
        ("kind = \"hopping\"\nadvance = \"3599ms\"\n", "window.advance"),
        ("kind = \"hopping\"\nadvance = \"1m\"\nsize = \"0s\"\n", "window.size"),
        ("kind = \"hopping\"\nadvance = \"1m\"\ngap = \"1m\"\n", "window.gap"),
        ("kind = \"session\"\n", "window.gap"),
        ("kind = \"session\"\ngap = \"0s\"\n", "window.gap"),
        ("kind = \"session\"\ngap = \"1m\"\nsize = \"1h\"\n", "window.size"),
        ("kind = \"session\"\ngap = \"1m\"\n[output]\nemit = \"changes\"\n", "output.emit"),
        ("kind = \"calendar\"\n", "window.unit"),
        ("kind = \"calendar\"\nunit = \"day\"\nzone = \"Europe/Atlantis\"\n", "window.zone"),
        ("kind = \"calendar\"\nunit = \"day\"\nsize = \"1h\"\n", "window.size"),
        (
            "kind = \"calendar\"\nunit = \"day\"\n[input.limits]\nmin_time = \"1969-12-31T23:59:59Z\"\n",
            "input.limits.min_time",
        ),
        ("idle_close = \"0s\"\n", "window.idle_close"),
        ("idle_close = \"never\"\n", "window.idle_close"),
        ("retention = \"0s\"\n", "window.retention"),
        ("idle_close = \"61s\"\nretention = \"1m\"\n", "window.retention"),
    ] {
        assert_eq!(refused(&format!("[window]\n{text}")), [key], "{text}");
    }
    for text in [
        "kind = \"hopping\"\nadvance = \"1h\"\n",
        "kind = \"hopping\"\nadvance = \"3600ms\"\n",
        "kind = \"session\"\ngap = \"1ms\"\n",
        "kind = \"calendar\"\nunit = \"month\"\n[input.limits]\nmin_time = \"1970-01-01T00:00:00Z\"\n",
        "idle_close = \"1m\"\nretention = \"60s\"\n",
    ] {
        assert_eq!(refused(&format!("[window]\n{text}")), [""; 0], "{text}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let found = refused("records = \"r\"\n[input.time]\nzone = \"x\"\n[window]\nsize = \"x\"\nretention = \"x\"\n");
    assert_eq!(found, ["input.records", "input.time.zone", "window.size", "window.retention"]);
}
