//! Sections whose doc comments are also the texts of `evenkeel config`: written once, so that they cannot differ.

/// A key and its documentation.
pub(crate) type KeyText = (&'static str, &'static str);

/// A section that knows the documentation of its keys.
pub(crate) trait Documented {
    /// Every key of the section, in its order.
    const KEYS: &'static [KeyText];
}

/// Declares a section: the struct, its defaults, its documentation.
macro_rules! section {
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $( $(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr, )+ }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $( $(#[doc = $doc])+ pub $field: $type, )+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }

        impl $crate::settings::Documented for $name {
            const KEYS: &'static [$crate::settings::KeyText] =
                &[ $( (stringify!($field), concat!($($doc),+)) ),+ ];
        }
    };
}
pub(crate) use section;
