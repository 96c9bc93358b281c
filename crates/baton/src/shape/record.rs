//! Records are written once: as a struct whose sentences are its documentation everywhere.

/// Declares structs that go over the wire, with their shapes. A field may have a bound of its own:
/// `#[at_most(LABELS_MAX)]`, say what counts without it: `#[usual(5)]`, and be `#[is_line(true)]`.
macro_rules! record {
    ($(
        $(#[doc = $doc:literal])*
        pub struct $name:ident {
            $( $(#[doc = $field_doc:literal])* $(#[at_most($most:expr)])? $(#[usual($usual:expr)])? $(#[is_line($line:literal)])? $field:ident: $type:ty, )*
        }
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $field_doc])*
                #[serde(skip_serializing_if = "crate::shape::Shaped::is_absent")]
                pub $field: $type,
            )*
        }

        impl crate::shape::Shaped for $name {
            fn shape() -> crate::shape::Shape {
                crate::shape::Shape::Record(crate::shape::Record {
                    name: stringify!($name),
                    doc: concat!($($doc),*).trim().to_owned(),
                    fields: vec![$(
                        crate::shape::Field {
                            name: stringify!($field),
                            doc: concat!($($field_doc),*).trim().to_owned(),
                            shape: <$type as crate::shape::Shaped>::shape()$(.at_most($most as u64))?$(.usually($usual as u64))?$(.in_one_line($line))?,
                            required: !<$type as crate::shape::Shaped>::OPTIONAL,
                        },
                    )*],
                })
            }
        }
    )*};
}

pub(crate) use record;
