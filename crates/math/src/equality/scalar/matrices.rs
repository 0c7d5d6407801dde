//! Products of matrices: `\mathbf{A}\mathbf{B}` is not `\mathbf{B}\mathbf{A}`.

use crate::Fuel;
use crate::evaluate::{Ordered, evaluate};
use crate::expr::Expr;

/// The names of both whose products have an order. Empty where the order of one product makes no difference: polynomials
/// in a single matrix commute.
pub(super) fn of<'e>(gold: &'e Expr, answer: &'e Expr) -> Vec<&'e str> {
    let mut matrices = gold.matrices();
    matrices.extend(answer.matrices());
    matrices.sort_unstable();
    matrices.dedup();
    let has_transpose = gold.has_transpose() || answer.has_transpose();
    if matrices.len() < 2 && !has_transpose {
        matrices.clear();
    }
    matrices
}

/// Whether both have the same value in matrices, where the order of products counts. Otherwise true.
pub(in crate::equality) fn same(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    let matrices = of(gold, answer);
    if matrices.is_empty() {
        return true;
    }
    let mut value_of = |expr| evaluate(expr, &mut Ordered { matrices: &matrices }, fuel);
    matches!((value_of(gold), value_of(answer)), (Ok(gold), Ok(answer)) if gold.equals(&answer))
}
