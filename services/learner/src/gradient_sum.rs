//! What was accumulated for the next update: by a step, or by a caller that trains in operations.

use std::fmt::Display;

use candle_core::Tensor;

use crate::error::Result;

/// The gradient since the last update: of several ranks the part of this one's parameters.
#[derive(Debug, Default)]
pub(crate) enum GradientSum {
    /// Nothing was accumulated.
    #[default]
    Empty,
    /// The sum, in the order of the trained parameters.
    Sum(Vec<Tensor>),
    /// Part of it is missing.
    Incomplete(String),
}

impl GradientSum {
    /// Notes that something else used the model: what was accumulated must not be applied after it.
    pub(crate) fn interrupt(&mut self, by: &str) {
        if !matches!(self, Self::Empty) {
            *self = Self::Incomplete(format!("{by} came between, and what was accumulated before it is lost"));
        }
    }

    /// Notes that a part could not be accumulated. The first reason counts.
    pub(crate) fn fail(&mut self, reason: impl Display) {
        if !matches!(self, Self::Incomplete(_)) {
            *self = Self::Incomplete(reason.to_string());
        }
    }

    /// Adds a gradient; one that is incomplete stays so.
    pub(crate) fn add(&mut self, gradient: Vec<Tensor>) -> Result<()> {
        *self = match std::mem::take(self) {
            Self::Empty => Self::Sum(gradient),
            Self::Sum(sum) => {
                let added = sum.iter().zip(&gradient).map(|(sum, gradient)| sum + gradient);
                Self::Sum(added.collect::<Result<_, _>>()?)
            }
            incomplete @ Self::Incomplete(_) => incomplete,
        };
        Ok(())
    }
}
