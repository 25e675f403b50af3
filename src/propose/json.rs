//! The shape of JSON records: a text that holds JSON, an array of bodies.

use serde_json::Value;

/// Objects are looked into for arrays and texts down to this depth.
const DEPTH_MAX: usize = 4;

/// Documents and the bodies in them.
#[derive(Debug)]
pub(super) struct Shape {
    /// The documents, decoded.
    pub(super) documents: Vec<Value>,
    pub(super) decode: Option<Found>,
    pub(super) records: Option<Found>,
}

/// A place that was found in so many documents.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) pointer: String,
    pub(super) documents: usize,
}

impl Shape {
    pub(super) fn of(mut documents: Vec<Value>) -> Self {
        let decode = find(&documents, |value| decoded(value).is_some());
        if let Some(Found { pointer, .. }) = &decode {
            for document in &mut documents {
                if let Some(text) = document.pointer_mut(pointer)
                    && let Some(value) = decoded(text)
                {
                    *text = value;
                }
            }
        }
        let is_array = |value: &Value| value.as_array().is_some_and(|it| it.iter().any(Value::is_object));
        let records = find(&documents, is_array);
        Self { documents, decode, records }
    }

    pub(super) fn bodies(&self) -> Vec<&Value> {
        let Some(Found { pointer, .. }) = &self.records else {
            return self.documents.iter().collect();
        };
        let arrays = self.documents.iter().filter_map(|document| document.pointer(pointer)?.as_array());
        arrays.flatten().collect()
    }
}

fn decoded(value: &Value) -> Option<Value> {
    let value: Value = serde_json::from_str(value.as_str()?).ok()?;
    (value.is_object() || value.is_array()).then_some(value)
}

/// The first place at which at least a third of the documents have such a value: samples hold damaged ones too.
fn find(documents: &[Value], is_such: impl Fn(&Value) -> bool) -> Option<Found> {
    let mut pointers = Vec::new();
    for document in documents {
        add_pointers(document, String::new(), &is_such, &mut pointers);
    }
    let found = pointers.into_iter().find(|(_, count)| count * 3 >= documents.len());
    found.map(|(pointer, documents)| Found { pointer, documents })
}

fn add_pointers(
    value: &Value,
    pointer: String,
    is_such: &impl Fn(&Value) -> bool,
    pointers: &mut Vec<(String, usize)>,
) {
    if is_such(value) {
        match pointers.iter_mut().find(|(known, _)| *known == pointer) {
            Some((_, count)) => *count += 1,
            None => pointers.push((pointer.clone(), 1)),
        }
    }
    let depth = pointer.matches('/').count();
    for (name, member) in value.as_object().filter(|_| depth < DEPTH_MAX).into_iter().flatten() {
        let token = name.replace('~', "~0").replace('/', "~1");
        add_pointers(member, format!("{pointer}/{token}"), is_such, pointers);
    }
}
