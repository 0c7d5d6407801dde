//! Values of a metric's label as an enum: what is recorded and what [`Values::Of`](crate::Values::Of) lists are the
//! same names.

/// Defines enums of few values, each with its label: `ALL`, `LABELS` (in the same order) and `label`.
///
/// ```
/// evenkeel_telemetry::labels! {
///     /// What a request came to.
///     pub enum Outcome {
///         /// It was answered.
///         Answered = "answered",
///         /// There was no room for it.
///         Refused = "refused",
///     }
/// }
///
/// assert_eq!(Outcome::LABELS, ["answered", "refused"]);
/// assert_eq!(Outcome::ALL[1].label(), "refused");
/// ```
#[macro_export]
macro_rules! labels {
    ($($(#[$doc:meta])* $vis:vis enum $name:ident { $($(#[$what:meta])* $value:ident = $label:literal),+ $(,)? })+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis enum $name {
            $($(#[$what])* $value),+
        }

        #[allow(dead_code, reason = "not every enum is listed or iterated over")]
        impl $name {
            /// Every value, in the order of the variants.
            $vis const ALL: &'static [Self] = &[$(Self::$value),+];

            /// Labels of all values, in the order of `ALL`.
            $vis const LABELS: &'static [&'static str] = &[$($label),+];

            /// Name of the value in metrics and in messages.
            $vis const fn label(self) -> &'static str {
                match self {
                    $(Self::$value => $label),+
                }
            }
        }
    )+};
}
