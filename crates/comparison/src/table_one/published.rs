//! The numbers of the paper's Table 1 (arXiv 2605.04077): averages over six benchmarks of one run each, Acc@8 and
//! Best@8 at the peak and at the last step. It gives no seeds and no intervals.

use serde::{Deserialize, Serialize};

use super::Columns;
use crate::run::Setting;

/// What the paper reports of a run.
pub type Published = Columns<f64>;

/// A model, the beginning of the name of its data, and the rows of the rules.
struct Cell {
    model: &'static str,
    data: &'static str,
    rows: [(PaperRule, [f64; 4]); 3],
}

/// The rules of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PaperRule {
    Sequence,
    Token,
    Balanced,
}

impl PaperRule {
    /// The paper's rule of a rule of this program. verl's token mean is likely what the paper ran as token; both
    /// balanced rules stand beside its balanced one, of which it gives two formulas.
    pub(super) fn of(rule: &str) -> Option<Self> {
        match rule {
            "sequence" => Some(Self::Sequence),
            "token" | "batch-token" => Some(Self::Token),
            "balanced-count" | "balanced" => Some(Self::Balanced),
            _ => None,
        }
    }
}

use PaperRule::{Balanced, Sequence, Token};

const CELLS: [Cell; 4] = [
    Cell {
        model: "Qwen2.5-Math-7B",
        data: "dapo-math-17k",
        rows: [
            (Sequence, [0.3578, 0.4821, 0.3446, 0.4598]),
            (Token, [0.3595, 0.4869, 0.3364, 0.4434]),
            (Balanced, [0.3634, 0.4896, 0.3424, 0.4627]),
        ],
    },
    Cell {
        model: "Qwen3-1.7B",
        data: "dapo-math-17k",
        rows: [
            (Sequence, [0.4947, 0.5990, 0.4481, 0.5522]),
            (Token, [0.4876, 0.6058, 0.4360, 0.5608]),
            (Balanced, [0.4928, 0.6086, 0.4695, 0.5861]),
        ],
    },
    Cell {
        model: "Qwen2.5-Math-7B",
        data: "polaris",
        rows: [
            (Sequence, [0.3405, 0.4697, 0.3172, 0.4360]),
            (Token, [0.3539, 0.4768, 0.3292, 0.4527]),
            (Balanced, [0.3423, 0.4750, 0.3319, 0.4443]),
        ],
    },
    Cell {
        model: "Qwen3-1.7B",
        data: "polaris",
        rows: [
            (Sequence, [0.4812, 0.5950, 0.4614, 0.5730]),
            (Token, [0.4842, 0.6053, 0.4349, 0.5557]),
            (Balanced, [0.4879, 0.6094, 0.4640, 0.5550]),
        ],
    },
];

/// What the paper reports of a model on its data under a rule of this program; `None` for what it did not run.
pub(super) fn published(setting: &Setting, rule: &str) -> Option<Published> {
    let rule = PaperRule::of(rule)?;
    let is_cell = |cell: &&Cell| {
        let has_data = setting.data.to_ascii_lowercase().starts_with(cell.data);
        setting.model.eq_ignore_ascii_case(cell.model) && has_data
    };
    let (_, values) = CELLS.iter().find(is_cell)?.rows.iter().find(|(known, _)| *known == rule)?;
    let [peak_accuracy, peak_best, last_accuracy, last_best] = *values;
    Some(Columns { peak_accuracy, peak_best, last_accuracy, last_best })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The differences that docs/paper.md tells of the table.
    #[test]
    fn balanced_is_best_in_ten_of_sixteen_cells_and_falls_more_than_sequence_in_best_at_8() {
        let rule = |cell: &Cell, wanted: PaperRule| cell.rows.iter().find(|(rule, _)| *rule == wanted).unwrap().1;
        let mut best = 0;
        let mut margins = Vec::new();
        for cell in &CELLS {
            for column in 0..4 {
                let mut values = [Sequence, Token, Balanced].map(|of| rule(cell, of)[column]);
                best += u32::from(values[2] > values[0].max(values[1]));
                values.sort_by(f64::total_cmp);
                margins.push(values[2] - values[1]);
            }
        }
        assert_eq!(best, 10);
        assert_eq!(margins.iter().filter(|margin| **margin < 0.00415).count(), 11, "{margins:?}");
        let drop = |of: PaperRule, peak: usize| {
            let drops = CELLS.iter().map(|cell| rule(cell, of)[peak] - rule(cell, of)[peak + 2]);
            (250.0 * drops.sum::<f64>()).round() / 10.0
        };
        assert_eq!([Sequence, Token, Balanced].map(|of| drop(of, 0)), [2.6, 3.7, 2.0]);
        assert_eq!([Sequence, Token, Balanced].map(|of| drop(of, 1)), [3.1, 4.1, 3.4]);
    }

    #[test]
    fn a_run_is_set_beside_the_papers_by_its_model_its_data_and_its_rule() {
        let last_accuracy = |model: &str, data: &str, rule: &str| {
            published(&Setting { model: model.to_owned(), data: data.to_owned() }, rule).map(|row| row.last_accuracy)
        };
        assert_eq!(last_accuracy("Qwen3-1.7B", "dapo-math-17k", "balanced-count"), Some(0.4695));
        assert_eq!(last_accuracy("qwen3-1.7b", "polaris-53k", "batch-token"), Some(0.4349));
        assert_eq!(last_accuracy("Qwen3-1.7B", "dapo-math-17k", "vl-norm"), None);
        assert_eq!(last_accuracy("Qwen3-1.7B-Base", "dapo-math-17k", "token"), None);
        assert_eq!(last_accuracy("Qwen3-1.7B", "sums", "token"), None);
    }
}
