//! Names of the choices: one canonical name each, the aliases that users of other systems know, and the names of those
//! systems that stand for a formula which is not one of ours. Hyphens, underscores and case do not matter.

use crate::Error;

/// A choice with its canonical name and its aliases.
pub(crate) type Named<T> = (T, &'static str, &'static [&'static str]);

/// A name known elsewhere, refused: the names, what they mean there, what to use here.
pub(crate) type Refused = (&'static [&'static str], &'static str, &'static str);

fn canonical(value: &str) -> String {
    value.trim().chars().map(|c| if c == '_' || c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// Finds the choice that a name stands for.
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
    Err(Error::UnknownName { field, value: value.to_owned(), allowed: allowed.join(", ") })
}

fn listed(name: &str, aliases: &[&str]) -> String {
    if aliases.is_empty() { name.to_owned() } else { format!("{name} ({})", aliases.join(", ")) }
}

/// Defines an enum whose values are read and written by name: `ALL`, `name`, `aliases`, `FromStr`, `Display`, serde.
macro_rules! named {
    (
        $(#[$meta:meta])*
        $enum:ident, field $field:literal, refused $refused:expr,
        { $( $(#[$doc:meta])* $variant:ident = $name:literal $([ $($alias:literal),+ ])? ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $enum { $( $(#[$doc])* $variant ),+ }

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
