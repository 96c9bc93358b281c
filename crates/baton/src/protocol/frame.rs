//! Frames are declared once: as structs whose sentences are their documentation.

use serde_json::Value;

use crate::shape::Shape;

/// Everything that one of the two may say.
pub trait Side: Sized {
    /// Who says it.
    const WHO: &'static str;

    /// Every frame, in the order in which people read them: its word and what it looks like.
    fn frames() -> Vec<(&'static str, Shape)>;

    /// The word of this one.
    fn word(&self) -> &'static str;

    /// The frame of that word with these fields, which have the shape of one; none if no frame has
    /// that word.
    fn of(
        word: &str,
        fields: Value,
    ) -> Option<Result<Self, serde_path_to_error::Error<serde_json::Error>>>;

    /// Its fields.
    fn fields(&self) -> serde_json::Result<Value>;
}

/// Declares frames. A field may have a bound of its own: `#[at_most(SLOTS_MAX)]`.
macro_rules! frames {
    (
        $(#[doc = $doc:literal])*
        $who:literal: pub enum $side:ident {
            $(
                $(#[doc = $frame_doc:literal])*
                $frame:ident = $word:literal {
                    $( $(#[doc = $field_doc:literal])* $(#[at_most($most:expr)])? $field:ident: $type:ty, )*
                }
            )*
        }
    ) => {
        $(
            $(#[doc = $frame_doc])*
            #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
            pub struct $frame {
                $(
                    $(#[doc = $field_doc])*
                    #[serde(skip_serializing_if = "crate::shape::Shaped::is_absent")]
                    pub $field: $type,
                )*
            }

            impl crate::shape::Shaped for $frame {
                fn shape() -> crate::shape::Shape {
                    crate::shape::Shape::Record(crate::shape::Record {
                        name: stringify!($frame),
                        doc: concat!($($frame_doc),*).trim().to_owned(),
                        fields: vec![$(
                            crate::shape::Field {
                                name: stringify!($field),
                                doc: concat!($($field_doc),*).trim().to_owned(),
                                shape: <$type as crate::shape::Shaped>::shape()$(.at_most($most as u64))?,
                                required: !<$type as crate::shape::Shaped>::OPTIONAL,
                            },
                        )*],
                    })
                }
            }

            impl From<$frame> for $side {
                fn from(frame: $frame) -> Self {
                    Self::$frame(Box::new(frame))
                }
            }
        )*

        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        pub enum $side {
            $( $(#[doc = $frame_doc])* $frame(Box<$frame>), )*
        }

        impl crate::protocol::Side for $side {
            const WHO: &'static str = $who;

            fn frames() -> Vec<(&'static str, crate::shape::Shape)> {
                vec![$( ($word, <$frame as crate::shape::Shaped>::shape()), )*]
            }

            fn word(&self) -> &'static str {
                match self {
                    $( Self::$frame(_) => $word, )*
                }
            }

            fn of(
                word: &str,
                fields: serde_json::Value,
            ) -> Option<Result<Self, serde_path_to_error::Error<serde_json::Error>>> {
                Some(match word {
                    $( $word => serde_path_to_error::deserialize(fields).map(Self::$frame), )*
                    _ => return None,
                })
            }

            fn fields(&self) -> serde_json::Result<serde_json::Value> {
                match self {
                    $( Self::$frame(frame) => serde_json::to_value(frame), )*
                }
            }
        }
    };
}

pub(super) use frames;
