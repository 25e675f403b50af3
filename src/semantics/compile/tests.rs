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
    let twice = "[[input.value]]\nname = \"a\"\npointer = \"/a\"\n[[input.value]]\nname = \"a\"\npointer = \"/b\"\n";
    assert_eq!(refused(twice), ["input.value[1].name"]);
    assert_eq!(errors("")[0].key, "input.topic");
}

#[test]
fn what_a_later_version_brings_is_refused_as_not_supported_yet() {
    for (text, key) in [
        ("format = \"senml\"\n[input.senml]\nsplit = \"/\"\n", "input.format"),
        ("format = \"influx\"\n", "input.format"),
        ("[input.dedup]\nby = \"reading\"\n", "input.dedup.by"),
        ("[window]\nkind = \"hopping\"\nadvance = \"10m\"\n", "window.kind"),
        ("[window]\nkind = \"session\"\ngap = \"10m\"\n", "window.kind"),
        ("[window]\nkind = \"calendar\"\nunit = \"day\"\nzone = \"UTC\"\n", "window.kind"),
        ("[window]\nidle_close = \"1h\"\n", "window.idle_close"),
        ("[window]\nretention = \"1h\"\n", "window.retention"),
        ("[output]\nvariance = \"sample\"\n", "output.variance"),
    ] {
        let found = errors(&with_topic(text));
        assert!(found.len() == 1 && found[0].key == key, "{text}: {found:?}");
        assert!(found[0].message.contains("not supported yet by this version"), "{found:?}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let found = refused(
        "records = \"r\"\n[input.time]\nzone = \"x\"\n[window]\nsize = \"x\"\n[output]\nvariance = \"sample\"\n",
    );
    assert_eq!(found, ["input.records", "input.time.zone", "window.size", "output.variance"]);
}
