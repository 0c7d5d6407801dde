//! Matrices, their sums and products, and environments whose rows are items.

use std::ops::Range;

use super::{Context, Read, leaf, list, value};
use crate::expr::{Builder, Node};
use crate::parse::ParseError;
use crate::parse::structure::Tokens;
use crate::parse::token::TokenKind;
use crate::{Matrix, Value};

/// Most entries of a matrix.
const MAX_CELLS: usize = 1024;
/// Most scalar products in a product of matrices.
const MAX_PRODUCTS: usize = 4096;

/// Whether an environment is a matrix.
fn is_matrix(name: &str) -> bool {
    matches!(name, "matrix" | "pmatrix" | "bmatrix" | "Bmatrix" | "smallmatrix" | "array")
}

/// A matrix, a sum of products of matrices, or the rows of an environment as a list.
pub(super) fn read(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let Some(begin) = tokens.find(range.clone(), |kind| matches!(kind, TokenKind::Begin(_))) else {
        return Ok(None);
    };
    if begin == range.start && tokens.partner(begin, range.end) == Some(range.end - 1) {
        return environment(context, range);
    }
    let mut sum: Option<Matrix> = None;
    let mut start = range.start;
    loop {
        let is_sign = |kind: &TokenKind<'_>| matches!(kind, TokenKind::Symbol('+' | '-'));
        let from = if start < range.end && is_sign(tokens.kind(start)) { start + 1 } else { start };
        let end = tokens.find(from..range.end, is_sign).unwrap_or(range.end);
        let negative = from > start && matches!(tokens.kind(start), TokenKind::Symbol('-'));
        let Some(mut term) = product(context, from..end)? else { return Ok(None) };
        if negative {
            term = match scaled(&term, |cell| Builder::unary(&cell, Node::Negate)) {
                Some(term) => term,
                None => return Ok(None),
            };
        }
        sum = match sum {
            None => Some(term),
            Some(sum) => added(&sum, &term),
        };
        spend_nodes(context, &sum)?;
        if sum.is_none() || end == range.end {
            return Ok(sum.map(Value::Matrix));
        }
        start = end;
    }
}

/// Adjacent factors, at least one of them a matrix.
fn product(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read<Matrix> {
    let tokens = context.tokens();
    let range = tokens.stripped(range);
    let mut product: Option<Matrix> = None;
    let mut at = range.start;
    while at < range.end {
        let begin = tokens.find(at..range.end, |kind| matches!(kind, TokenKind::Begin(_))).unwrap_or(range.end);
        let factor = tokens.stripped(at..begin);
        let factor = without_dot(tokens, factor);
        if !factor.is_empty() {
            if matches!(tokens.kind(factor.start), TokenKind::Symbol('^')) {
                // Only transposes are supported.
                let is_transpose = factor.clone().skip(1).all(|at| {
                    matches!(
                        tokens.kind(at),
                        TokenKind::GroupOpen
                            | TokenKind::GroupClose
                            | TokenKind::Word("T")
                            | TokenKind::Label("T")
                            | TokenKind::Command("top" | "intercal")
                    )
                });
                product = product.filter(|_| is_transpose && factor.len() > 1).map(|matrix| transposed(&matrix));
            } else {
                let Some(scalar) = leaf::read(context, factor)?.and_then(|value| value.scalar()) else {
                    return Ok(None);
                };
                // A capital beside a matrix may be another one, `P D P^{-1}`; constants of integration are numbers.
                if !scalar.matrices().is_empty() || scalar.names().iter().any(|name| is_capital(name)) {
                    return Ok(None);
                }
                let one = |cell: crate::expr::Expr| Builder::binary(&scalar, &cell, Node::Multiply);
                let matrix = match product {
                    Some(matrix) => matrix,
                    None if begin < range.end => {
                        let Some(matrix) = cells_at(context, &mut at, begin, range.end)? else { return Ok(None) };
                        context.spend(scalar.len() * matrix.cells.len())?;
                        product = scaled(&matrix, one);
                        if product.is_none() {
                            return Ok(None);
                        }
                        continue;
                    }
                    None => return Ok(None),
                };
                context.spend(scalar.len() * matrix.cells.len())?;
                product = scaled(&matrix, one);
            }
            if product.is_none() {
                return Ok(None);
            }
        }
        if begin == range.end {
            break;
        }
        let Some(matrix) = cells_at(context, &mut at, begin, range.end)? else { return Ok(None) };
        product = match product {
            None => Some(matrix),
            Some(product) => multiplied(&product, &matrix),
        };
        if product.is_none() {
            return Ok(None);
        }
        spend_nodes(context, &product)?;
    }
    Ok(product)
}

fn is_capital(name: &str) -> bool {
    matches!(name.as_bytes(), [letter] if letter.is_ascii_uppercase() && !matches!(letter, b'C' | b'K'))
}

/// Spends a step for each copied node.
fn spend_nodes(context: &mut Context<'_, '_, '_>, matrix: &Option<Matrix>) -> Result<(), ParseError> {
    let nodes = |cell: &Value| if let Value::Expr(expr) = cell { expr.len() } else { 1 };
    let copied = matrix.iter().flat_map(|matrix| &matrix.cells).map(nodes).sum();
    Ok(context.spend(copied)?)
}

/// Parses the matrix at `begin` and moves `at` past it.
fn cells_at(context: &mut Context<'_, '_, '_>, at: &mut usize, begin: usize, end: usize) -> Read<Matrix> {
    let tokens = context.tokens();
    let Some(close) = tokens.partner(begin, end) else { return Ok(None) };
    *at = close + 1;
    match environment(context, begin..close + 1)? {
        Some(Value::Matrix(matrix)) => Ok(Some(matrix)),
        _ => Ok(None),
    }
}

fn without_dot(tokens: &Tokens<'_>, range: Range<usize>) -> Range<usize> {
    let is_dot = |at: usize| matches!(tokens.kind(at), TokenKind::Command("cdot" | "times") | TokenKind::Symbol('*'));
    let mut range = range;
    while !range.is_empty() && is_dot(range.end - 1) {
        range = tokens.stripped(range.start..range.end - 1);
    }
    while !range.is_empty() && is_dot(range.start) {
        range = tokens.stripped(range.start + 1..range.end);
    }
    range
}

/// The content between `\begin` and `\end`.
fn environment(context: &mut Context<'_, '_, '_>, range: Range<usize>) -> Read {
    let tokens = context.tokens();
    let TokenKind::Begin(name) = *tokens.kind(range.start) else { return Ok(None) };
    let mut inner = tokens.stripped(range.start + 1..range.end - 1);
    if name == "array"
        && !inner.is_empty()
        && matches!(tokens.kind(inner.start), TokenKind::GroupOpen)
        && let Some(close) = tokens.partner(inner.start, inner.end)
    {
        inner.start = close + 1;
    }
    let is_matrix = is_matrix(name);
    if !is_matrix && !matches!(name, "cases" | "aligned" | "align" | "gathered" | "split" | "equation") {
        return Ok(None);
    }
    let mut rows: Vec<Vec<Value>> = Vec::new();
    let mut cells = 0;
    for row in split_outside_brackets(tokens, inner, |kind| matches!(kind, TokenKind::Command("\\"))) {
        let columns = if is_matrix {
            split_outside_brackets(tokens, row, |kind| matches!(kind, TokenKind::Symbol('&')))
        } else {
            vec![row]
        };
        let mut values = Vec::with_capacity(columns.len());
        for column in columns {
            cells += 1;
            if cells > MAX_CELLS {
                return Ok(None);
            }
            values.push(match value(context, tokens.trimmed(column)) {
                Err(ParseError::Empty) if is_matrix => return Ok(None),
                value => value?,
            });
        }
        rows.push(values);
    }
    let columns = rows.first().map_or(0, Vec::len);
    if columns == 0 || rows.iter().any(|row| row.len() != columns) {
        return Ok(None);
    }
    let count = rows.len();
    let mut cells: Vec<Value> = rows.into_iter().flatten().collect();
    Ok(Some(match (is_matrix, count) {
        (true, _) => Value::Matrix(Matrix { columns, cells }),
        (false, 1) => cells.remove(0),
        (false, _) => list::conditions(cells, false),
    }))
}

/// The parts between separators outside of brackets, without an empty last one.
fn split_outside_brackets(
    tokens: &Tokens<'_>,
    range: Range<usize>,
    is: impl Fn(&TokenKind<'_>) -> bool,
) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = range.start;
    while let Some(at) = tokens.find(start..range.end, &is) {
        parts.push(start..at);
        start = at + 1;
    }
    parts.push(start..range.end);
    if parts.len() > 1 && parts.last().is_some_and(|last| tokens.stripped(last.clone()).is_empty()) {
        parts.pop();
    }
    parts
}

fn scaled(matrix: &Matrix, f: impl Fn(crate::expr::Expr) -> crate::expr::Expr) -> Option<Matrix> {
    let cells =
        matrix.cells.iter().map(|cell| cell.scalar().map(|cell| Value::Expr(f(cell)))).collect::<Option<_>>()?;
    Some(Matrix { columns: matrix.columns, cells })
}

fn added(a: &Matrix, b: &Matrix) -> Option<Matrix> {
    if a.columns != b.columns || a.cells.len() != b.cells.len() {
        return None;
    }
    let sum = |(a, b): (&Value, &Value)| Some(Value::Expr(Builder::binary(&a.scalar()?, &b.scalar()?, Node::Add)));
    let cells = a.cells.iter().zip(&b.cells).map(sum).collect::<Option<_>>()?;
    Some(Matrix { columns: a.columns, cells })
}

fn multiplied(a: &Matrix, b: &Matrix) -> Option<Matrix> {
    let inner = a.columns;
    let columns = b.columns.max(1);
    if b.cells.len() != inner * columns || a.cells.len() * columns > MAX_PRODUCTS {
        return None;
    }
    let mut cells = Vec::new();
    for row in a.cells.chunks(inner.max(1)) {
        for column in 0..columns {
            let mut sum: Option<crate::expr::Expr> = None;
            for (left, right) in row.iter().zip(b.cells.iter().skip(column).step_by(columns)) {
                let left = left.scalar()?;
                let right = right.scalar()?;
                // Bounds the growth of nested products.
                if left.len() + right.len() > 256 {
                    return None;
                }
                let product = Builder::binary(&left, &right, Node::Multiply);
                sum = Some(match sum {
                    None => product,
                    Some(sum) => Builder::binary(&sum, &product, Node::Add),
                });
            }
            cells.push(Value::Expr(sum?));
        }
    }
    Some(Matrix { columns, cells })
}

fn transposed(matrix: &Matrix) -> Matrix {
    let columns = matrix.columns.max(1);
    let cells = (0..columns).flat_map(|column| matrix.cells.iter().skip(column).step_by(columns).cloned()).collect();
    Matrix { columns: matrix.cells.len() / columns, cells }
}
