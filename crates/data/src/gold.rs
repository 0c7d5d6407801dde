//! Gold answers in the columns of published data sets.

use evenkeel_math::extract::{self, Extracted};

use crate::row::refused;
use crate::{Reason, RowError};

/// The gold answer in a column of that name.
pub(crate) fn gold(name: &str, written: String) -> Result<String, RowError> {
    match name.rsplit('.').next() {
        // GSM8K writes the whole working before its answer.
        Some("answer") => match written.rsplit_once("####") {
            Some((_, answer)) => Ok(answer.trim().to_owned()),
            None => Ok(written),
        },
        // MATH has its answer in the solution alone.
        Some("solution") => last_box(&written).ok_or_else(|| {
            let error = refused(name, "without a boxed answer", "a solution that ends in \\boxed{...}");
            RowError::field(Reason::UnreadableGold, error)
        }),
        _ => Ok(written),
    }
}

fn last_box(solution: &str) -> Option<String> {
    match extract::last_box(solution)? {
        Extracted::One(answer) => Some(answer.to_owned()),
        Extracted::Several { answers, .. } => Some(answers.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use crate::{DataRow, Fields};

    fn row(json: &str) -> DataRow {
        DataRow::parse(1, json).unwrap()
    }

    fn golds(json: &str) -> Result<Vec<String>, String> {
        Fields::default().golds(&row(json)).map_err(|error| error.to_string())
    }

    #[test]
    fn gold_answers_are_read_where_published_data_sets_have_them() {
        for (json, gold) in [
            (r#"{"gold": "1/2", "answer": "x"}"#, "1/2"),
            (r#"{"reward_model": {"style": "rule", "ground_truth": 34}}"#, "34"),
            (r#"{"final_answer": "2", "solution": "\\boxed{3}"}"#, "2"),
            (r#"{"answer": "5"}"#, "5"),
            (r#"{"answer": "She sold 48/2 = <<48/2=24>>24 clips.\n#### 72"}"#, "72"),
            (r#"{"answer": "1 #### 2 #### 3,000 "}"#, "3,000"),
            (r#"{"label": 7.5}"#, "7.5"),
            (r#"{"solution": "First \\boxed{1}. Then $\\boxed{\\frac{1}{2}}$."}"#, "\\frac{1}{2}"),
            (r#"{"solution": "7 is not an answer. The only answer that is not $\\boxed{7}$"}"#, "7"),
            (r#"{"gold": null, "answer": "2"}"#, "2"),
        ] {
            assert_eq!(golds(json).unwrap(), [gold], "{json}");
        }
        assert_eq!(golds(r#"{"gold": ["2", 3]}"#).unwrap(), ["2", "3"]);
        let named = Fields::named("", "extra.solution", "", "");
        assert_eq!(named.golds(&row(r#"{"gold": "1", "extra": {"solution": "\\boxed{2}"}}"#)).unwrap(), ["2"]);
    }

    #[test]
    fn a_gold_answer_that_cannot_be_read_is_refused_by_its_field() {
        for (json, words) in [
            (r#"{"q": "2"}"#, "no gold answer, allowed: one of gold, reward_model.ground_truth"),
            (r#"{"gold": null}"#, "`gold` is null"),
            (r#"{"gold": {}}"#, "`gold` is an object, allowed: a text or a number"),
            (r#"{"solution": "so 3"}"#, "`solution` is without a boxed answer"),
        ] {
            let error = golds(json).unwrap_err();
            assert!(error.contains(words), "{json}: {error}");
        }
        let error = Fields::named("", "a", "", "").golds(&row(r#"{"b": 1}"#)).unwrap_err();
        assert_eq!(error.to_string(), "has no field `a`, it has: b");
    }

    #[test]
    fn numbers_and_truth_values_are_golds_as_they_are_written() {
        assert_eq!(golds(r#"{"label": 7.50}"#).unwrap(), ["7.50"]);
        assert_eq!(golds(r#"{"answer": true}"#).unwrap(), ["true"]);
        assert_eq!(golds(r#"{"reward_model": {"ground_truth": ["1.0", 1.0, null]}}"#).unwrap(), ["1.0", "1.0"]);
        assert!(golds(r#"{"gold": [[1]]}"#).unwrap_err().starts_with("`gold` is a list"));
    }
}
