//! What tells a reading apart from others of its series. SEMANTICS 4, "Duplicate".

use sha2::{Digest, Sha256};

use super::InputRecord;
use super::body::Body;
use super::json::Content;
use crate::semantics::{DedupBy, DedupRules};

/// What is compared: equal identities of one series are copies. Of `by = "reading"` the time in milliseconds and the
/// bits of the value, both big-endian; else the first 16 bytes of the SHA-256 of the text at the pointer, or of the
/// body's position (u32, big-endian) and the header's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity(pub(crate) [u8; 16]);

impl Identity {
    fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        let digest: [u8; 32] = hash.finalize().into();
        Self(*digest.first_chunk().unwrap_or(&[0; 16]))
    }

    fn of_reading(time_ms: i64, value: f64) -> Self {
        let mut bytes = [0; 16];
        let (time, bits) = bytes.split_at_mut(8);
        time.copy_from_slice(&time_ms.to_be_bytes());
        bits.copy_from_slice(&value.to_bits().to_be_bytes());
        Self(bytes)
    }
}

/// The identity that a body gives to its readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyIdentity {
    None,
    Same(Identity),
    /// Each reading has its own.
    OfReading,
}

impl BodyIdentity {
    pub(super) fn of<'d>(
        rules: Option<&DedupRules>,
        record: &InputRecord<'d>,
        index: u32,
        body: &impl Body<'d>,
    ) -> Self {
        let Some(rules) = rules else {
            return Self::None;
        };
        let identity = match &rules.by {
            DedupBy::Reading => return Self::OfReading,
            DedupBy::Header(name) => record
                .header(name)
                .filter(|bytes| !bytes.is_empty())
                .map(|bytes| Identity::of_parts(&[&index.to_be_bytes(), bytes])),
            DedupBy::Id(pointer) => match body.look(pointer) {
                // A number and a text that show the same are the same.
                Some(Content::Number(written)) => Some(Identity::of_parts(&[written.as_bytes()])),
                Some(Content::Text(text)) if !text.is_empty() => Some(Identity::of_parts(&[text.as_bytes()])),
                _ => None,
            },
        };
        identity.map_or(Self::None, Self::Same)
    }

    /// None: the reading is no copy of any other.
    pub(super) fn of_reading(self, time_ms: i64, value: f64) -> Option<Identity> {
        match self {
            Self::None => None,
            Self::Same(identity) => Some(identity),
            Self::OfReading => Some(Identity::of_reading(time_ms, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Identity;
    use crate::reading::{InputRecord, Reader};
    use crate::semantics::{DedupBy, DedupRules, Pointer, Semantics};
    use hotspare_cluster::Offset;

    const TIME: &str = "\"device_id\":\"a\",\"ts\":1704067200000";

    /// The identities of a record's readings; `id` stands in the header `id`.
    fn identities(by: DedupBy, config: &str, value: &str, id: Option<&[u8]>) -> Vec<Option<Identity>> {
        let semantics = Semantics::from_toml(&format!("[input]\ntopic = \"t\"\n{config}")).expect("a configuration");
        let mut rules = semantics.input().clone();
        rules.dedup = Some(DedupRules { by, keep_ms: 1 });
        let headers = vec![("id".into(), Some(&b"an older one"[..])), ("id".into(), id)];
        let value = Some(value.as_bytes());
        let record = InputRecord { offset: Offset(0), timestamp_ms: 1_704_067_200_000, key: None, value, headers };
        let mut found = Vec::new();
        Reader::default().read(&rules, &record, |candidate| {
            found.push(candidate.reading.expect("a reading").identity);
        });
        found
    }

    fn by_id(config: &str, value: &str) -> Vec<Option<Identity>> {
        identities(DedupBy::Id(Pointer::parse("/id").expect("a pointer")), config, value, None)
    }

    fn of_body(id: &str) -> Option<Identity> {
        by_id("", &format!("{{{TIME},\"value\":1{id}}}")).pop().expect("a reading")
    }

    #[test]
    fn a_reading_is_its_time_and_value() {
        let found = identities(DedupBy::Reading, "", &format!("{{{TIME},\"value\":-0.0}}"), None);
        let mut wanted = [0; 16];
        wanted[..8].copy_from_slice(&1_704_067_200_000i64.to_be_bytes());
        assert_eq!(found, [Some(Identity(wanted))]);
        let found = identities(DedupBy::Reading, "", &format!("{{{TIME},\"value\":\"1\"}}"), None);
        wanted[8..].copy_from_slice(&1f64.to_bits().to_be_bytes());
        assert_eq!(found, [Some(Identity(wanted))]);
    }

    #[test]
    fn ids_that_show_the_same_are_the_same() {
        // printf 7 | sha256sum
        let seven = [0x79, 0x02, 0x69, 0x9b, 0xe4, 0x2c, 0x8a, 0x8e, 0x46, 0xfb, 0xbb, 0x45, 0x01, 0x72, 0x65, 0x17];
        for id in [",\"id\":7", ",\"id\":\"7\"", ",\"id\":\"\\u0037\"", ",\"id\":8,\"id\":7"] {
            assert_eq!(of_body(id), Some(Identity(seven)), "{id}");
        }
        assert_ne!(of_body(",\"id\":7.0"), Some(Identity(seven)));
        assert_ne!(of_body(",\"id\":\" 7\""), Some(Identity(seven)));
    }

    #[test]
    fn without_an_id_nothing_is_a_copy() {
        for id in ["", ",\"id\":null", ",\"id\":\"\"", ",\"id\":true", ",\"id\":[7]", ",\"id\":{}"] {
            assert_eq!(of_body(id), None, "{id}");
        }
        let header = |id| identities(DedupBy::Header("id".to_owned()), "", &format!("{{{TIME},\"value\":1}}"), id);
        assert_eq!(header(None), [None]);
        assert_eq!(header(Some(b"")), [None]);
    }

    #[test]
    fn a_header_names_each_body_of_its_record() {
        let two = format!("[{{{TIME},\"value\":1}},{{{TIME},\"value\":1}}]");
        let header = |id| identities(DedupBy::Header("id".to_owned()), "records = \"\"\n", &two, Some(id));
        let (found, other) = (header(b"7"), header(b"\xff"));
        assert!(found.iter().chain(&other).all(Option::is_some));
        assert_ne!(found[0], found[1]);
        assert_ne!(found, other);
        assert_eq!(found, header(b"7"));
    }

    #[test]
    fn packs_and_lines_have_ids_too() {
        let pack =
            "[{\"bn\":\"d-\",\"n\":\"t\",\"v\":1,\"id\":7},{\"n\":\"h\",\"v\":1,\"id\":\"7\"},{\"n\":\"h\",\"v\":1}]";
        let found = by_id("format = \"senml\"\n", pack);
        assert!(found[0].is_some() && found[0] == found[1] && found[2].is_none(), "{found:?}");
        let by = DedupBy::Id(Pointer::parse("/tags/id").expect("a pointer"));
        let lines = "m,device_id=a,id=7 v=1,w=2\nm,device_id=a v=1\n";
        let found = identities(by, "format = \"influx\"\n", lines, None);
        assert!(found[0].is_some() && found[0] == found[1] && found[2].is_none(), "{found:?}");
    }
}
