//! The question of a run as a form, and the sealed state with which a client brings its answer.

use std::collections::BTreeMap;

use baton_domain::time::{Millis, Timestamp};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest, InputRequests,
    InputRequiredResult, InputResponses, RequestStateCodec, SealOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use crate::identity::Caller;
use crate::views::stripped;

/// How long a client may take to bring an answer.
const GOOD_FOR: Millis = Millis::minutes(5);
/// The only field of the form.
const FIELD: &str = "answer";
/// Bytes of a question that are shown; the whole of it is in the run.
const SHOWN_MAX: usize = 4_096;

/// What a run waits to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Names this question among all that the run ever had.
    pub key: String,
    /// In the words of its agent.
    pub words: String,
    run: String,
}

/// What a client decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// This is the answer.
    Answer(String),
    /// There is none, now or for good; the question stays.
    None,
}

/// What travels to the client and back.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    run: String,
    question: String,
    /// By the clock of the store, as everything that ends.
    good_until: Timestamp,
}

/// What seals a state, what it is bound to besides its question, and what time it is.
pub struct Seal<'a> {
    /// By a key that only servers of this store have.
    pub codec: &'a RequestStateCodec,
    /// To whoever asked, by which tool, for what.
    pub bound: Vec<u8>,
    /// Now.
    pub now: Timestamp,
}

impl Question {
    /// The question of a run, if it waits for one to be answered.
    #[must_use]
    pub fn of(run: &Value) -> Option<Self> {
        let (since, words) = match run["state"].as_str()? {
            "waiting_input" => (&run["question"]["asked_at"], &run["question"]["text"]),
            "blocked" if run["block"]["kind"] == "needs_input" => {
                (&run["block"]["since"], &run["block"]["reason"])
            }
            _ => return None,
        };
        Some(Self {
            key: format!("question-{}", since.as_str()?),
            words: words.as_str().unwrap_or("It says no more.").to_owned(),
            run: run["id"].as_str()?.to_owned(),
        })
    }

    /// The question in words that are safe to show, with where they come from.
    #[must_use]
    pub fn shown(&self) -> String {
        let words = stripped(&self.words);
        let words = &words[..words.floor_char_boundary(SHOWN_MAX)];
        format!("The agent of {} asks, in its own words: {words}", self.run)
    }

    /// As a form with one text.
    #[must_use]
    pub fn requests(&self) -> InputRequests {
        let form = ElicitationSchema::builder()
            .required_string_with(FIELD, |text| text.description("Your answer to the agent."))
            .build_unchecked();
        let params = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.shown(),
            requested_schema: form,
        };
        let request = InputRequest::Elicitation(ElicitRequest::new(params));
        BTreeMap::from([(self.key.clone(), request)])
    }

    /// The reply to this question among what a client sent; none if it says nothing of it.
    pub fn reply(&self, responses: &InputResponses) -> Option<Reply> {
        let given = responses.get(&self.key)?;
        let text = given["content"][FIELD].as_str().filter(|text| !text.trim().is_empty());
        Some(match text {
            Some(text) if given["action"] == "accept" => Reply::Answer(text.to_owned()),
            Some(_) | None => Reply::None,
        })
    }

    /// The question as the result of a call that must be repeated with its answer.
    #[must_use]
    pub fn result(&self, seal: &Seal<'_>) -> Option<InputRequiredResult> {
        let good_until = seal.now + GOOD_FOR;
        let state = State { run: self.run.clone(), question: self.key.clone(), good_until };
        let options = SealOptions::new().associated_data(&seal.bound);
        let sealed = seal.codec.seal_json_with(&state, &options).ok()?;
        Some(InputRequiredResult::new(Some(self.requests()), Some(sealed)))
    }

    /// Whether a state that a client brings is of this question and of nothing else.
    #[must_use]
    pub fn opens(&self, seal: &Seal<'_>, sealed: &str) -> bool {
        let state: Result<State, _> = seal.codec.open_json_with(sealed, &seal.bound);
        let own = |state: &State| state.run == self.run && state.question == self.key;
        state.is_ok_and(|state| own(&state) && seal.now < state.good_until)
    }
}

/// What a state is bound to besides its question: who asked, by which tool, for what.
#[must_use]
pub fn bound(caller: &Caller, tool: &str, arguments: &Map<String, Value>) -> Vec<u8> {
    let mut hash = Sha256::new();
    let arguments = Value::Object(arguments.clone()).to_string();
    for part in [caller.tenant.as_str(), caller.principal.as_str(), "tools/call", tool, &arguments]
    {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().to_vec()
}
