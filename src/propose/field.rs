//! What stands at each place of the bodies: how often, of which type, from where to where.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::reading::number;

/// More different texts than these are not told apart.
pub(super) const TEXTS_MAX: usize = 1000;
/// Elements of arrays after this one are not looked at.
const ELEMENTS_MAX: usize = 8;

/// Numbers that devices are known to send when they measured nothing.
const SENTINELS: [f64; 19] = [
    -1.0, -99.0, -100.0, -127.0, -200.0, -999.0, -999.9, -9999.0, -9999.9, -32768.0, 85.0, 999.0, 999.9, 9999.0,
    9999.9, 99999.0, 32767.0, 65535.0, 1e20,
];

/// What stood at one place.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Field {
    /// By first appearance.
    pub(super) order: usize,
    /// In so many bodies; null counts.
    pub(super) present: usize,
    pub(super) nulls: usize,
    pub(super) booleans: usize,
    /// Numbers, also those in texts.
    pub(super) numbers: Vec<f64>,
    /// So many of the numbers stood in texts.
    pub(super) numbers_in_texts: usize,
    /// As written, with how often: of numbers too, as far as there is room.
    pub(super) texts: BTreeMap<String, usize>,
}

impl Field {
    pub(super) fn is_numeric(&self) -> bool {
        !self.numbers.is_empty() && self.numbers.len() * 2 >= self.present - self.nulls - self.empty_texts()
    }

    fn empty_texts(&self) -> usize {
        self.texts.iter().filter(|(text, _)| text.trim().is_empty()).map(|(_, count)| count).sum()
    }

    /// Texts beside the numbers that are neither numbers nor empty.
    pub(super) fn odd_texts(&self) -> Vec<&str> {
        let texts = self.texts.keys().map(|text| text.trim());
        texts.filter(|text| !text.is_empty() && !number::is_number_text(text)).collect()
    }

    /// Least and greatest of the numbers without those.
    pub(super) fn range(&self, without: &[f64]) -> Option<(f64, f64)> {
        let rest = || self.numbers.iter().copied().filter(|number| !without.contains(number));
        let (least, greatest) = (rest().reduce(f64::min)?, rest().reduce(f64::max)?);
        Some((least, greatest))
    }

    /// Numbers known to mean "nothing was measured" that are far from all others.
    pub(super) fn sentinels(&self) -> Vec<f64> {
        let there: Vec<_> = SENTINELS.into_iter().filter(|sentinel| self.numbers.contains(sentinel)).collect();
        let Some((least, greatest)) = self.range(&there) else { return Vec::new() };
        let span = (greatest - least).max(1.0);
        there.into_iter().filter(|sentinel| *sentinel < least - span || *sentinel > greatest + span).collect()
    }
}

/// All places of some bodies.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) bodies: usize,
    pub(super) by_pointer: BTreeMap<String, Field>,
}

impl Fields {
    pub(super) fn of<'v>(bodies: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut fields = Self::default();
        for body in bodies {
            fields.bodies += 1;
            fields.add(String::new(), body);
        }
        fields
    }

    fn add(&mut self, pointer: String, value: &Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    let token = name.replace('~', "~0").replace('/', "~1");
                    self.add(format!("{pointer}/{token}"), value);
                }
            }
            Value::Array(elements) => {
                for (index, value) in elements.iter().take(ELEMENTS_MAX).enumerate() {
                    self.add(format!("{pointer}/{index}"), value);
                }
            }
            leaf => self.add_leaf(pointer, leaf),
        }
    }

    fn add_leaf(&mut self, pointer: String, leaf: &Value) {
        let order = self.by_pointer.len();
        let field = self.by_pointer.entry(pointer).or_insert_with(|| Field { order, ..Field::default() });
        field.present += 1;
        let text = match leaf {
            Value::Null => {
                field.nulls += 1;
                return;
            }
            Value::Bool(_) => {
                field.booleans += 1;
                return;
            }
            Value::String(text) => {
                let is_number = number::is_number_text(text.trim());
                field.numbers_in_texts += usize::from(is_number);
                text.clone()
            }
            other => other.to_string(),
        };
        if number::is_number_text(text.trim()) {
            field.numbers.extend(number::to_double(text.trim()).filter(|number| number.is_finite()));
        }
        if field.texts.len() < TEXTS_MAX || field.texts.contains_key(&text) {
            *field.texts.entry(text).or_default() += 1;
        }
    }

    /// By first appearance.
    pub(super) fn in_order(&self) -> Vec<(&str, &Field)> {
        let mut all: Vec<_> = self.by_pointer.iter().map(|(pointer, field)| (pointer.as_str(), field)).collect();
        all.sort_by_key(|(_, field)| field.order);
        all
    }
}

/// The last part of a pointer, unescaped.
pub(super) fn last_token(pointer: &str) -> String {
    let token = pointer.rsplit('/').next().unwrap_or(pointer);
    token.replace("~1", "/").replace("~0", "~")
}

/// A name without what names are spelled with differently: `Device_ID` is `deviceid`.
pub(super) fn plain(name: &str) -> String {
    name.chars().filter(|character| character.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
