//! JSON from outside, read with bounds: a document that is too deep, too wide or says a key twice
//! never becomes a value.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How deep, wide and long a document may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Levels of lists and objects.
    pub depth_max: usize,
    /// Keys of all objects of one document together.
    pub keys_max: usize,
    /// Keys of one object.
    pub fields_max: usize,
    /// Bytes of one text, keys included.
    pub text_bytes_max: usize,
    /// Entries of one list.
    pub items_max: usize,
}

/// Why a document is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// It is not JSON.
    #[error("not JSON: line {line}, column {column}")]
    NotJson {
        /// Counted from one.
        line: usize,
        /// Counted from one.
        column: usize,
    },
    /// It says a key twice.
    #[error("the key {key:?} stands twice in one object")]
    Twice {
        /// The beginning of the key.
        key: String,
    },
    /// It is beyond a bound.
    #[error("{0}")]
    TooLarge(String),
}

/// Reads one document.
pub fn read(bytes: &[u8], bounds: &Bounds) -> Result<Value, Broken> {
    let reading = Reading { bounds, keys: Cell::new(0), broken: RefCell::new(None) };
    let mut source = serde_json::Deserializer::from_slice(bytes);
    let value = Part { reading: &reading, depth: 0 }.deserialize(&mut source);
    let value = value.and_then(|value| source.end().map(|()| value));
    value.map_err(|error| {
        let broken = reading.broken.take();
        broken.unwrap_or(Broken::NotJson { line: error.line(), column: error.column() })
    })
}

/// What is known of the document so far.
struct Reading<'a> {
    bounds: &'a Bounds,
    keys: Cell<usize>,
    /// The bound that was broken; the parser itself only learns that something was.
    broken: RefCell<Option<Broken>>,
}

/// A value at some depth.
struct Part<'a> {
    reading: &'a Reading<'a>,
    depth: usize,
}

impl Part<'_> {
    fn refuse<E: serde::de::Error>(&self, broken: Broken) -> E {
        self.reading.broken.replace(Some(broken));
        E::custom("refused")
    }

    fn too_large<E: serde::de::Error>(&self, detail: String) -> E {
        self.refuse(Broken::TooLarge(detail))
    }

    fn bounds(&self) -> &Bounds {
        self.reading.bounds
    }

    fn deeper<E: serde::de::Error>(&self) -> Result<Part<'_>, E> {
        let depth_max = self.bounds().depth_max;
        if self.depth >= depth_max {
            let detail = format!("lists and objects go at most {depth_max} levels deep");
            return Err(self.too_large(detail));
        }
        Ok(Part { reading: self.reading, depth: self.depth + 1 })
    }

    fn text<E: serde::de::Error>(&self, text: &str) -> Result<(), E> {
        let bytes_max = self.bounds().text_bytes_max;
        if text.len() > bytes_max {
            return Err(self.too_large(format!("a text has at most {bytes_max} bytes")));
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
            let items_max = self.bounds().items_max;
            if list.len() >= items_max {
                return Err(self.too_large(format!("a list has at most {items_max} entries")));
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
            let Bounds { keys_max, fields_max, .. } = *self.bounds();
            if keys > keys_max {
                return Err(self.too_large(format!("a document has at most {keys_max} keys")));
            }
            self.reading.keys.set(keys);
            if object.len() >= fields_max {
                return Err(self.too_large(format!("an object has at most {fields_max} keys")));
            }
            if object.contains_key(&key) {
                return Err(self.refuse(Broken::Twice { key: key.chars().take(64).collect() }));
            }
            let value = items.next_value_seed(self.deeper()?)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
