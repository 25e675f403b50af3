//! The progress record: how far the input was consumed, and what the state is then.

use hotspare_cluster::{Epoch, Offset, invariants::Commit};

use super::bytes::{Reader, write_varint};
use super::{ChangelogError, Counters, VERSION, kind, versioned};
use crate::reading::Reason;

/// No counter of any input reaches this; larger ones are damage, and adding to them could overflow.
const COUNTER_MAX: u64 = 1 << 56;

/// What a transaction says about itself. The newest one in the changelog is what counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Version of the format.
    pub format: u8,
    /// Tenure of the active that wrote it.
    pub epoch: Epoch,
    /// Number of the commit, from 1, without gaps over all tenures.
    pub commit: u64,
    /// The first input record that is not part of the state.
    pub next_input_offset: Offset,
    /// Log time in milliseconds since 1970 (SEMANTICS 1).
    pub log_time_ms: i64,
    /// Exact counters since the first record.
    pub counters: Counters,
    /// Sum of the hashes of all entries.
    pub digest: u128,
    /// Number of entries.
    pub entries: u64,
    /// [`crate::semantics::Semantics::hash`] of the configuration.
    pub semantics_hash: u64,
}

impl Progress {
    /// What invariants look at.
    #[must_use]
    pub fn as_commit(&self) -> Commit {
        let Self { epoch, commit, next_input_offset, log_time_ms, .. } = self;
        Commit { epoch: *epoch, number: *commit, next_input: *next_input_offset, log_time_ms: *log_time_ms }
    }

    /// The one key of all progress records.
    #[must_use]
    pub fn key() -> &'static [u8] {
        &[kind::PROGRESS]
    }

    /// The value: version; epoch, commit, next input offset, log time, digest, entries and semantics hash of fixed
    /// size; then the counters of variable length, the rejections as pairs of number and count without zeros.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.push(VERSION);
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.extend_from_slice(&self.commit.to_be_bytes());
        out.extend_from_slice(&self.next_input_offset.0.to_be_bytes());
        out.extend_from_slice(&self.log_time_ms.to_be_bytes());
        out.extend_from_slice(&self.digest.to_be_bytes());
        out.extend_from_slice(&self.entries.to_be_bytes());
        out.extend_from_slice(&self.semantics_hash.to_be_bytes());
        let counters = &self.counters;
        for counter in [
            counters.records,
            counters.counted,
            counters.late,
            counters.missing,
            counters.duplicate,
            counters.null_record,
            counters.windows_final,
            counters.dead_letters,
        ] {
            write_varint(&mut out, counter);
        }
        let rejected: Vec<_> = counters.rejected.in_order().filter(|(_, count)| *count > 0).collect();
        write_varint(&mut out, rejected.len() as u64);
        for (reason, count) in rejected {
            out.push(reason.code());
            write_varint(&mut out, count);
        }
        out
    }

    /// Reads a value that [`Progress::encode`] wrote.
    ///
    /// # Errors
    /// [`ChangelogError::Newer`] when a later version wrote it, [`ChangelogError::Corrupt`] when none did.
    pub fn decode(value: &[u8]) -> Result<Self, ChangelogError> {
        let rest = versioned(Self::key(), value)?;
        decode_payload(&mut Reader::new(rest))
            .ok_or_else(|| ChangelogError::corrupt(Self::key(), Some(value), "it is no progress record"))
    }
}

fn decode_payload(reader: &mut Reader<'_>) -> Option<Progress> {
    let mut progress = Progress {
        format: VERSION,
        epoch: Epoch(reader.u64()?),
        commit: reader.u64()?,
        next_input_offset: Offset(reader.i64()?),
        log_time_ms: reader.i64()?,
        counters: Counters::default(),
        digest: reader.u128()?,
        entries: reader.u64()?,
        semantics_hash: reader.u64()?,
    };
    let counters = &mut progress.counters;
    for counter in [
        &mut counters.records,
        &mut counters.counted,
        &mut counters.late,
        &mut counters.missing,
        &mut counters.duplicate,
        &mut counters.null_record,
        &mut counters.windows_final,
        &mut counters.dead_letters,
    ] {
        *counter = reader.varint().filter(|count| *count <= COUNTER_MAX)?;
    }
    let mut before = None;
    for _ in 0..reader.varint()? {
        let reason = Reason::from_code(reader.byte()?).filter(|reason| before < Some(*reason))?;
        let count = reader.varint().filter(|count| (1..=COUNTER_MAX).contains(count))?;
        counters.rejected.set(reason, count);
        before = Some(reason);
    }
    if reader.is_at_end() { Some(progress) } else { None }
}

#[cfg(test)]
mod tests {
    use super::Progress;
    use crate::changelog::{ChangelogError, Counters, VERSION};
    use crate::reading::{Outcome, Reason};
    use hotspare_cluster::{Epoch, Offset};
    use proptest::prelude::*;

    fn progress() -> Progress {
        let mut counters =
            Counters { records: 7, counted: 300, late: 2, windows_final: 4, dead_letters: 3, ..Counters::default() };
        counters.count(Outcome::Rejected(Reason::BadJson));
        counters.count(Outcome::Rejected(Reason::InternalError));
        Progress {
            format: VERSION,
            epoch: Epoch(3),
            commit: 9,
            next_input_offset: Offset(258),
            log_time_ms: 1_704_067_200_000,
            counters,
            digest: 0x0102_0304_0506_0708_090A_0B0C_0D0E_0F10,
            entries: 5,
            semantics_hash: 0x1122_3344_5566_7788,
        }
    }

    const GOLDEN: &str = "01 0000000000000003 0000000000000009 0000000000000102 0000018cc251f400 \
        0102030405060708090a0b0c0d0e0f10 0000000000000005 1122334455667788 \
        07 ac02 02 00 00 00 04 03 02 0101 1201";

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<_> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).expect("a byte")).collect()
    }

    #[test]
    fn the_bytes_of_version_1_stay() {
        assert_eq!(Progress::key(), [0]);
        assert_eq!(progress().encode(), hex(GOLDEN));
        assert_eq!(Progress::decode(&hex(GOLDEN)), Ok(progress()));
    }

    #[test]
    fn newer_and_corrupt_records_are_told_apart() {
        let mut bytes = progress().encode();
        bytes[0] = 2;
        assert_eq!(Progress::decode(&bytes), Err(ChangelogError::Newer { kind: 0, version: 2 }));
        bytes[0] = 0;
        assert!(matches!(Progress::decode(&bytes), Err(ChangelogError::Corrupt { .. })));
        bytes[0] = 1;
        bytes.push(0);
        assert!(matches!(Progress::decode(&bytes), Err(ChangelogError::Corrupt { .. })));
        // The last reason's number is none; 255 once made the reader panic.
        bytes.pop();
        for code in [0, 1, 19, 255] {
            let at = bytes.len() - 2;
            bytes[at] = code;
            let is_sound = Progress::decode(&bytes).is_ok();
            assert!(!is_sound, "{code}");
        }
        bytes = progress().encode();
        for length in 0..bytes.len() {
            assert!(matches!(Progress::decode(&bytes[..length]), Err(ChangelogError::Corrupt { .. })));
        }
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..150), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let _ = Progress::decode(&bytes);
            bytes.insert(0, 1);
            let _ = Progress::decode(&bytes);
            let mut bytes = progress().encode();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(progress) = Progress::decode(&bytes) {
                prop_assert_eq!(progress.encode(), bytes);
            }
        }
    }
}
