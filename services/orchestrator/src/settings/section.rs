//! Sections: a struct, its defaults and its documentation, written once. `evenkeel config` prints the doc comments.

/// Declares a section.
macro_rules! section {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])+ $(#[serde($serde:meta)])? $field:ident: $type:ty = $default:expr, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize, ::schemars::JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name { $( $(#[doc = $doc])+ $(#[serde($serde)])? pub $field: $type, )+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )+ }
            }
        }
    };
}
pub(crate) use section;
