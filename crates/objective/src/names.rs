//! Names of choices: one canonical name each, aliases from other systems, and refused names of other systems for
//! formulas that this crate does not have. Hyphens, underscores and case are ignored.

use crate::Error;

/// A choice with its canonical name and its aliases.
pub(crate) type Named<T> = (T, &'static str, &'static [&'static str]);

/// Refused names of other systems: the names, what they mean there, and what to use here.
pub(crate) type Refused = (&'static [&'static str], &'static str, &'static str);

/// The normal form in which names are compared: lower case, with hyphens.
fn canonical(value: &str) -> String {
    value.trim().chars().map(|c| if c == '_' || c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Finds the choice of a name.
pub(crate) fn parse<T: Copy>(
    field: &'static str,
    value: &str,
    named: &[Named<T>],
    refused: &[Refused],
) -> Result<T, Error> {
    let wanted = canonical(value);
    for (choice, name, aliases) in named {
        if *name == wanted || aliases.contains(&wanted.as_str()) {
            return Ok(*choice);
        }
    }
    if let Some((_, meaning, instead)) = refused.iter().find(|(names, ..)| names.contains(&wanted.as_str())) {
        return Err(Error::OtherFormula { field, value: value.to_owned(), meaning, instead });
    }
    let allowed: Vec<String> = named.iter().map(|(_, name, aliases)| listed(name, aliases)).collect();
    Err(Error::refused(field, format_args!("'{value}'"), allowed.join(", ")))
}

fn listed(name: &str, aliases: &[&str]) -> String {
    if aliases.is_empty() { name.to_owned() } else { format!("{name} ({})", aliases.join(", ")) }
}

/// The JSON schema of a choice: each canonical name with its formula, its documentation and its aliases.
#[cfg(feature = "schema")]
pub(crate) fn schema<T: Copy>(named: &[Named<T>], docs: &[&str], formula: Option<fn(T) -> String>) -> schemars::Schema {
    let described = named.iter().zip(docs).map(|((choice, name, aliases), doc)| {
        let formula = formula.map_or_else(String::new, |formula| format!("`{}`: ", formula(*choice)));
        let doc = format!("{formula}{}", doc.trim());
        let also = if aliases.is_empty() { String::new() } else { format!(" Also {}.", aliases.join(", ")) };
        [("const", (*name).to_owned()), ("description", format!("{doc}{also}"))]
    });
    let choices: Vec<std::collections::BTreeMap<_, _>> = described.map(std::collections::BTreeMap::from).collect();
    schemars::json_schema!({ "oneOf": choices })
}

/// Defines an enum whose values are read and written by name: `ALL`, `name`, `aliases`, `FromStr`, `Display`, serde and
/// a JSON schema, with the formulas of choices whose documentation has none.
macro_rules! named {
    (@formula) => { None };
    (@formula $formula:expr) => { Some($formula) };
    (
        $(#[$meta:meta])*
        $enum:ident, field $field:literal, refused $refused:expr, $(formula $formula:expr,)?
        { $( $(#[doc = $doc:literal])* $variant:ident = $name:literal $([ $($alias:literal),+ ])? ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $enum { $( $(#[doc = $doc])* $variant ),+ }

        impl $enum {
            const NAMED: &'static [$crate::names::Named<Self>] =
                &[ $( (Self::$variant, $name, &[ $( $($alias),+ )? ]) ),+ ];

            /// Every choice, in the order of the documentation.
            pub const ALL: &'static [Self] = &[ $( Self::$variant ),+ ];

            /// The canonical name, as it is written to logs and files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name ),+ }
            }

            /// Other names that are read as this one.
            #[must_use]
            pub const fn aliases(self) -> &'static [&'static str] {
                match self { $( Self::$variant => &[ $( $($alias),+ )? ] ),+ }
            }
        }

        impl ::std::fmt::Display for $enum {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $enum {
            type Err = $crate::Error;

            fn from_str(value: &str) -> Result<Self, Self::Err> {
                $crate::names::parse($field, value, Self::NAMED, $refused)
            }
        }

        #[cfg(feature = "schema")]
        impl ::schemars::JsonSchema for $enum {
            fn schema_name() -> ::std::borrow::Cow<'static, str> {
                stringify!($enum).into()
            }

            fn json_schema(_: &mut ::schemars::SchemaGenerator) -> ::schemars::Schema {
                let formula: Option<fn(Self) -> String> = $crate::names::named!(@formula $($formula)?);
                $crate::names::schema(Self::NAMED, &[ $( concat!($($doc),*) ),+ ], formula)
            }
        }

        impl ::serde::Serialize for $enum {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $enum {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <::std::borrow::Cow<'de, str> as ::serde::Deserialize>::deserialize(deserializer)?;
                name.parse().map_err(::serde::de::Error::custom)
            }
        }
    };
}
pub(crate) use named;
