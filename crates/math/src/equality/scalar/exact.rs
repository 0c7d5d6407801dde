//! Exact values of closed expressions.

use crate::evaluate::{EvalError, Surd, exact};
use crate::expr::Expr;
use crate::{Fuel, Magnitude, Notation, Number, Value};

/// The exact value of a closed expression.
pub(super) enum ExactForm {
    Number(Number),
    Surd(Surd),
}

impl ExactForm {
    pub(super) fn number(&self) -> Option<&Number> {
        match self {
            Self::Number(number) => Some(number),
            Self::Surd(_) => None,
        }
    }

    pub(super) fn surd(&self) -> Option<&Surd> {
        match self {
            Self::Surd(surd) => Some(surd),
            Self::Number(_) => None,
        }
    }
}

pub(super) fn exact_form(value: &Value, expr: &Expr, fuel: &mut Fuel) -> Result<Option<ExactForm>, EvalError> {
    if let Value::Number(number) = value {
        return Ok(Some(ExactForm::Number(number.clone())));
    }
    if !expr.is_closed() {
        return Ok(None);
    }
    let Some(surd) = exact(expr, fuel)? else { return Ok(None) };
    Ok(Some(match surd.as_rational() {
        Some(value) => {
            let notation = if value.is_int() { Notation::Integer } else { Notation::Fraction };
            ExactForm::Number(Number::plain(Magnitude::Exact(value), notation))
        }
        None => ExactForm::Surd(surd),
    }))
}
