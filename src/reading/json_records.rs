//! Records in JSON, read by pointers. SEMANTICS 3.2.

use super::body::{Body, BodyOf, Shared, count_pointed};
use super::evidence::Fault;
use super::json::{Content, Document, Place, Scratch};
use super::{Candidate, InputRecord};
use crate::semantics::{InputRules, Pointer, ValueRules};

/// The document, or a part of it that is read on its own.
#[derive(Clone, Copy)]
pub(super) struct JsonBody<'a, 'd> {
    pub(super) document: &'a Document<'d>,
    pub(super) place: Place,
}

impl<'d> Body<'d> for JsonBody<'_, 'd> {
    fn look(&self, pointer: &Pointer) -> Option<Content<'d>> {
        self.document.resolve(self.place, pointer).map(|place| self.document.content(place))
    }

    fn look_in_document(&self, pointer: &Pointer) -> Option<Content<'d>> {
        JsonBody { place: Place::ROOT, ..*self }.look(pointer)
    }
}

/// The settings of the format.
#[derive(Clone, Copy)]
pub(super) struct JsonRules<'r> {
    pub(super) decode: Option<&'r Pointer>,
    pub(super) records: Option<&'r Pointer>,
    pub(super) values: &'r [ValueRules<Pointer>],
}

/// An error means that the whole record is one rejection; no candidate was given then.
pub(super) fn read(
    scratch: &mut Scratch,
    (rules, json): (&InputRules, JsonRules<'_>),
    record: &InputRecord<'_>,
    value: &[u8],
    each: &mut impl FnMut(Candidate<'_>),
) -> Result<(), Fault> {
    let document = &scratch.parse(value, json.decode).map_err(Fault::Json)?;
    let array = array(document, json.records)?;
    check_candidates(rules.readings_max, json.values, document, array)?;
    let mut read_body = |index, place| {
        let of = BodyOf { rules, record, body: JsonBody { document, place } };
        Shared::of(&of, index).give_pointed(json.values, &of.body, each);
    };
    match array {
        None => read_body(0, Place::ROOT),
        Some(array) => (0..).zip(document.elements(array)).for_each(|(index, body)| read_body(index, body)),
    }
    Ok(())
}

/// The array whose elements are the bodies; None if the document is the only one.
pub(super) fn array(document: &Document<'_>, records: Option<&Pointer>) -> Result<Option<Place>, Fault> {
    let Some(pointer) = records else {
        return Ok(None);
    };
    let place = document.resolve(Place::ROOT, pointer).filter(|place| document.is_array(*place));
    place.map(Some).ok_or(Fault::NoRecords)
}

/// A record must hold a candidate, and not too many.
fn check_candidates(
    readings_max: usize,
    values: &[ValueRules<Pointer>],
    document: &Document<'_>,
    array: Option<Place>,
) -> Result<(), Fault> {
    let candidates_of = |place| count_pointed(values, &JsonBody { document, place });
    let Some(array) = array else {
        if values.len() <= readings_max {
            return Ok(());
        }
        let candidates = candidates_of(Place::ROOT);
        return if candidates <= readings_max { Ok(()) } else { Err(Fault::TooMany { candidates }) };
    };
    let bodies = document.elements(array).count();
    if bodies == 0 {
        return Err(Fault::Empty);
    }
    // Counting exactly is needed only where the record could hold too many.
    if bodies.saturating_mul(values.len()) <= readings_max {
        return Ok(());
    }
    let candidates = document.elements(array).map(candidates_of).sum();
    if candidates <= readings_max { Ok(()) } else { Err(Fault::TooMany { candidates }) }
}
