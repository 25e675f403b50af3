//! How a reading is written as JSON, so that a configuration's pointers find it again.

use serde_json::{Map, Value};

use crate::semantics::{Format, InputSection, TimeUnit};

/// Stand for what is filled in; no pointer can lead to them, for they are values.
const DEVICE: &str = "\u{1}device";
const TIME: &str = "\u{1}time";
const VALUE: &str = "\u{1}value";

/// A configuration for which no records can be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot write records for {key} = \"{value}\": {why}")]
pub struct ShapeError {
    key: &'static str,
    value: String,
    why: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Device,
    Time,
    Value,
}

/// A document with places for device, time and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pieces: Vec<Piece>,
    /// Goes before each device: the pieces that `input.device.segment` leaves out.
    prefix: String,
    unit: TimeUnit,
}

impl Shape {
    /// The shape that this input configuration reads.
    ///
    /// # Errors
    /// It is one that is not written: only `format = "json"` without `decode`, nothing from headers.
    pub fn of(input: &InputSection) -> Result<Self, ShapeError> {
        let refuse = |key, value: &str, why| Err(ShapeError { key, value: value.to_owned(), why });
        if input.format != Format::Json {
            return refuse("input.format", &format!("{:?}", input.format).to_lowercase(), "only json is written");
        }
        if let Some(decode) = &input.decode {
            return refuse("input.decode", decode, "JSON within JSON is not written");
        }
        let mut body = Value::Object(Map::new());
        let mut document = Value::Object(Map::new());
        let pointer = |pointer: &Option<String>, default: &str| pointer.as_deref().unwrap_or(default).to_owned();
        let device = pointer(&input.device.pointer, "/device_id");
        match input.device.from.as_str() {
            "body" => put(&mut body, &device, DEVICE)?,
            "document" => put(&mut document, &device, DEVICE)?,
            "key" => {}
            other => return refuse("input.device.from", other, "headers are not written"),
        }
        let time = pointer(&input.time.pointer, "/ts");
        match input.time.from.as_str() {
            "body" => put(&mut body, &time, TIME)?,
            "document" => put(&mut document, &time, TIME)?,
            "record" => {}
            other => return refuse("input.time.from", other, "times stand in the body, the document or the record"),
        }
        if input.value.is_empty() {
            put(&mut body, "/value", VALUE)?;
        }
        for value in &input.value {
            put(&mut body, &pointer(&value.pointer, "/value"), VALUE)?;
        }
        let whole = match &input.records {
            None => merge(document, body),
            Some(records) => around(document, records, body)?,
        };
        let segments = input.device.segment.unwrap_or(0) as usize;
        Ok(Self {
            pieces: pieces(&whole.to_string()),
            prefix: "fleet/".repeat(segments.min(16)),
            unit: input.time.unit.unwrap_or(TimeUnit::Auto),
        })
    }

    /// Whether the document holds the device and the time.
    #[must_use]
    pub fn holds(&self) -> (bool, bool) {
        (self.pieces.contains(&Piece::Device), self.pieces.contains(&Piece::Time))
    }

    /// The name by which a device goes.
    #[must_use]
    pub fn device(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A time as it is written.
    #[must_use]
    pub fn time(&self, time_ms: i64) -> String {
        match self.unit {
            TimeUnit::S => format!("{}.{:03}", time_ms.div_euclid(1000), time_ms.rem_euclid(1000)),
            TimeUnit::Ms | TimeUnit::Auto => time_ms.to_string(),
            TimeUnit::Us => format!("{time_ms}000"),
            TimeUnit::Ns => format!("{time_ms}000000"),
        }
    }

    /// Writes the document with these JSON texts in its places; `value` is called for each value, with its number.
    pub fn write(&self, out: &mut Vec<u8>, device: &str, time: &str, mut value: impl FnMut(usize, &mut Vec<u8>)) {
        let mut values = 0;
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
                Piece::Device => out.extend_from_slice(device.as_bytes()),
                Piece::Time => out.extend_from_slice(time.as_bytes()),
                Piece::Value => {
                    value(values, out);
                    values += 1;
                }
            }
        }
    }

    /// Number of values.
    #[must_use]
    pub fn values(&self) -> usize {
        self.pieces.iter().filter(|piece| **piece == Piece::Value).count()
    }
}

impl Default for Shape {
    /// What the defaults of `[input]` read: `{"device_id":…,"ts":…,"value":…}`.
    fn default() -> Self {
        let text = |text: &str| Piece::Text(text.to_owned());
        Self {
            pieces: vec![
                text("{\"device_id\":"),
                Piece::Device,
                text(",\"ts\":"),
                Piece::Time,
                text(",\"value\":"),
                Piece::Value,
                text("}"),
            ],
            prefix: String::new(),
            unit: TimeUnit::Auto,
        }
    }
}

/// Puts a text where the pointer leads, making objects on the way.
fn put(document: &mut Value, pointer: &str, text: &str) -> Result<(), ShapeError> {
    put_value(document, pointer, Value::from(text))
}

fn put_value(document: &mut Value, pointer: &str, value: Value) -> Result<(), ShapeError> {
    let error =
        || ShapeError { key: "pointer", value: pointer.to_owned(), why: "it leads to where another value stands" };
    let mut place = document;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let Value::Object(object) = place else { return Err(error()) };
        place = object.entry(token).or_insert_with(|| Value::Object(Map::new()));
    }
    match place {
        Value::Object(object) if object.is_empty() => {
            *place = value;
            Ok(())
        }
        _ => Err(error()),
    }
}

fn around(mut document: Value, records: &str, body: Value) -> Result<Value, ShapeError> {
    put_value(&mut document, records, Value::Array(vec![body]))?;
    Ok(document)
}

fn merge(document: Value, body: Value) -> Value {
    match (document, body) {
        (Value::Object(mut document), Value::Object(body)) => {
            for (name, value) in body {
                let place = document.remove(&name);
                document.insert(name, place.map_or(value.clone(), |place| merge(place, value)));
            }
            Value::Object(document)
        }
        (_, body) => body,
    }
}

fn pieces(text: &str) -> Vec<Piece> {
    let places = [(DEVICE, Piece::Device), (TIME, Piece::Time), (VALUE, Piece::Value)]
        .map(|(name, piece)| (Value::from(name).to_string(), piece));
    let (mut pieces, mut rest) = (Vec::new(), text);
    loop {
        let next = places
            .iter()
            .filter_map(|(name, piece)| Some((rest.find(name.as_str())?, name.len(), piece)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, length, piece)) = next else { break };
        pieces.push(Piece::Text(rest[..at].to_owned()));
        pieces.push(piece.clone());
        rest = &rest[at + length..];
    }
    pieces.push(Piece::Text(rest.to_owned()));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(toml: &str) -> Result<String, ShapeError> {
        let input: InputSection = toml::from_str(toml).expect("an input section");
        let shape = Shape::of(&input)?;
        let mut out = Vec::new();
        let device = Value::from(shape.device("d")).to_string();
        shape.write(&mut out, &device, &shape.time(-1), |number, out| {
            out.extend_from_slice(number.to_string().as_bytes())
        });
        Ok(String::from_utf8(out).expect("UTF-8"))
    }

    #[test]
    fn records_are_written_where_the_configuration_looks() {
        assert_eq!(written("").unwrap(), r#"{"device_id":"d","ts":-1,"value":0}"#);
        let nested = "[device]\npointer = '/meta/id~1x'\nsegment = 1\n[time]\nunit = 's'\npointer = '/t'\n\
            [[value]]\nname = 'a'\npointer = '/data/a'\n[[value]]\nname = 'b'\npointer = '/data/b'";
        assert_eq!(written(nested).unwrap(), r#"{"data":{"a":0,"b":1},"meta":{"id/x":"fleet/d"},"t":-1.999}"#);
        let array = "records = '/list'\n[device]\nfrom = 'document'\n[time]\nfrom = 'record'";
        assert_eq!(written(array).unwrap(), r#"{"device_id":"d","list":[{"value":0}]}"#);
        assert_eq!(written("records = ''\n[device]\nfrom = 'key'").unwrap(), r#"[{"ts":-1,"value":0}]"#);
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        for wrong in
            ["format = 'senml'", "decode = '/x'", "[device]\nfrom = 'header:a'", "[time]\npointer = '/device_id'"]
        {
            assert!(written(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_default_shape_is_that_of_the_default_configuration() {
        assert_eq!(Shape::of(&InputSection::default()), Ok(Shape::default()));
    }
}
