//! JSON-RPC over lines: who asks whom, and what is still unanswered.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::seen::Seen;

/// Requests of a program that may be open at once.
const OPEN_MAX: usize = 64;
/// Bytes of an id that can be given back.
const ID_BYTES_MAX: usize = 256;
/// The method is not served here.
const NOT_SERVED: i32 = -32_601;

/// A message, by what it is.
pub(super) enum Message<'a> {
    /// Somebody wants an answer.
    Request { id: &'a Value, method: &'a str, params: &'a Value },
    /// Somebody says something.
    Notice { method: &'a str, params: &'a Value },
    /// An answer to one of ours.
    Result { id: &'a Value, result: &'a Value },
    /// A refusal of one of ours.
    Error { id: &'a Value, error: &'a Value },
}

impl<'a> Message<'a> {
    /// Reads one; none if it is no message at all.
    pub(super) fn read(message: &'a Value) -> Option<Self> {
        let (method, params) = (message["method"].as_str(), &message["params"]);
        match (message.get("id").filter(|id| !id.is_null()), method) {
            (Some(id), Some(method)) => Some(Self::Request { id, method, params }),
            (None, Some(method)) => Some(Self::Notice { method, params }),
            (Some(id), None) => match message.get("error") {
                Some(error) => Some(Self::Error { id, error }),
                None => message.get("result").map(|result| Self::Result { id, result }),
            },
            (None, None) => None,
        }
    }
}

/// The name of a request: its id as it is written, so that it can be given back as it came.
pub(super) fn key(id: &Value) -> Option<String> {
    let key = match id {
        Value::String(_) | Value::Number(_) => id.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    (key.len() <= ID_BYTES_MAX).then_some(key)
}

/// Requests of a program that nobody has answered.
#[derive(Default)]
pub(super) struct Open {
    wishes: BTreeMap<String, Wish>,
    /// Those that are refused because nobody here serves them, and the answer that says so.
    unserved: BTreeMap<String, Value>,
}

/// What a program asked for.
pub(super) struct Wish {
    pub(super) method: String,
    pub(super) params: Value,
}

impl Open {
    /// Keeps a request until it is answered; says whether there was room.
    pub(super) fn keep(&mut self, key: &str, method: &str, params: &Value) -> bool {
        let room = self.wishes.len() < OPEN_MAX;
        if room {
            let wish = Wish { method: method.to_owned(), params: params.clone() };
            self.wishes.insert(key.to_owned(), wish);
        }
        room
    }

    /// Owes this answer, which needs nobody.
    pub(super) fn owe(&mut self, key: String, mut answer: Value) {
        if self.unserved.len() < OPEN_MAX {
            answer["id"] = id(&key);
            self.unserved.insert(key, answer);
        }
    }

    /// Owes the answer that this is not served.
    pub(super) fn refuse(&mut self, key: String) {
        let error = json!({ "code": NOT_SERVED, "message": "this is not served here" });
        self.owe(key, json!({ "error": error }));
    }

    /// Owes all that is open this answer.
    pub(super) fn give_up(&mut self, answer: &Value) {
        let open: Vec<_> = self.wishes.keys().cloned().collect();
        for key in open {
            self.owe(key, answer.clone());
        }
    }

    /// The next answer that is owed.
    pub(super) fn owed(&self) -> Option<Value> {
        self.unserved.first_key_value().map(|(_, answer)| answer.clone())
    }

    /// What was asked for under this name.
    pub(super) fn find(&self, key: &str) -> Option<&Wish> {
        self.wishes.get(key)
    }

    /// It is answered, or no longer wanted.
    pub(super) fn settle(&mut self, id: &Value, seen: &mut Vec<Seen>) {
        let Some(key) = key(id) else { return };
        self.unserved.remove(&key);
        if self.wishes.remove(&key).is_some() {
            seen.push(Seen::Settled { id: key });
        }
    }
}

/// The id as it came.
pub(super) fn id(key: &str) -> Value {
    serde_json::from_str(key).unwrap_or(Value::Null)
}
