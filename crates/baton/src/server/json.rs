//! JSON from outside, read with bounds: a document that is too deep, too wide or says a key twice
//! never becomes a value.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::problem::Problem;

use super::limits::{JSON_DEPTH_MAX, JSON_KEYS_MAX, JSON_LIST_MAX, JSON_TEXT_BYTES_MAX};

/// Reads one document.
pub fn read(bytes: &[u8]) -> Result<Value, Problem> {
    let reading = Reading::default();
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let value = Part { reading: &reading, depth: 0 }.deserialize(&mut source);
    let value = value.and_then(|value| source.end().map(|()| value));
    value.map_err(|error| {
        let broken = reading.broken.take();
        broken.unwrap_or_else(|| {
            let detail =
                format!("the body is not JSON: line {}, column {}", error.line(), error.column());
            Problem::new("malformed", detail)
        })
    })
}

/// What is known of the document so far.
#[derive(Default)]
struct Reading {
    keys: Cell<usize>,
    /// The bound that was broken; the parser itself only learns that something was.
    broken: RefCell<Option<Problem>>,
}

/// A value at some depth.
struct Part<'a> {
    reading: &'a Reading,
    depth: usize,
}

impl Part<'_> {
    fn refuse<E: serde::de::Error>(&self, code: &str, detail: String) -> E {
        self.reading.broken.replace(Some(Problem::new(code, detail)));
        E::custom("refused")
    }

    fn deeper<E: serde::de::Error>(&self) -> Result<Part<'_>, E> {
        if self.depth >= JSON_DEPTH_MAX {
            let detail = format!("lists and objects go at most {JSON_DEPTH_MAX} levels deep");
            return Err(self.refuse("too_large", detail));
        }
        Ok(Part { reading: self.reading, depth: self.depth + 1 })
    }

    fn text<E: serde::de::Error>(&self, text: &str) -> Result<(), E> {
        if text.len() > JSON_TEXT_BYTES_MAX {
            let detail = format!("a text has at most {JSON_TEXT_BYTES_MAX} bytes");
            return Err(self.refuse("too_large", detail));
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Value, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("no such number"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value, E> {
        self.text(text)?;
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Value, E> {
        self.text(&text)?;
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self.deeper()?)? {
            if list.len() >= JSON_LIST_MAX {
                let detail = format!("a list has at most {JSON_LIST_MAX} entries");
                return Err(self.refuse("too_large", detail));
            }
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        // An empty object is a level, too.
        self.deeper()?;
        while let Some(key) = items.next_key::<String>()? {
            self.text(&key)?;
            let keys = self.reading.keys.get() + 1;
            if keys > JSON_KEYS_MAX {
                let detail = format!("a document has at most {JSON_KEYS_MAX} keys");
                return Err(self.refuse("too_large", detail));
            }
            self.reading.keys.set(keys);
            if object.contains_key(&key) {
                let shown: String = key.chars().take(64).collect();
                let detail = format!("the key {shown:?} stands twice in one object");
                return Err(self.refuse("malformed", detail));
            }
            let value = items.next_value_seed(self.deeper()?)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
