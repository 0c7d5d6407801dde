//! Evaluations: accuracies, their errors, and what else is known of the answers.

use super::{EVALUATION, rows};
use crate::metric::{Metric, Unit};
use crate::{Gauge, Shown};

const ACCURACY_GAUGE: Gauge = Gauge::by_parts(
    "evenkeel_run_evaluation_accuracy_ratio",
    &["benchmark", "metric"],
    &["benchmarks of the recipe", "`mean@k`, `best@k`, `pass@n`, `maj@k` of the recipe's k"],
    "accuracy in the newest evaluation, 0 to 1",
);

rows! {
    ACCURACY = Metric::value(
        "val-core/{benchmark}/acc/{metric}",
        Unit::Share,
        "accuracy by `mean@k`, `best@k`, `best@k/mean`, `pass@n`, `maj@k`, and under `average` the mean over benchmarks \
         ([evaluation.md](evaluation.md#accuracies))",
    )
    .of_lines(EVALUATION)
    .shown(&[Shown::by(&ACCURACY_GAUGE)]);
    ACCURACY_ERROR = Metric::value("val-aux/{benchmark}/acc/{metric}/standard_error", Unit::None, "standard error of an accuracy over problems").of_lines(EVALUATION);
    ACCURACY_NOISE = Metric::value("val-aux/{benchmark}/acc/{metric}/sampling_error", Unit::None, "standard error of an accuracy over repeated sampling")
        .of_lines(EVALUATION)
        .only("problems have two or more samples");
    ACCURACY_WITH_COPIED = Metric::value(
        "val-aux/{benchmark}/acc/{metric}/with_copied",
        Unit::Share,
        "the accuracy if answers [copied from the prompt](math.md#copied-answers) were accepted",
    )
    .of_lines(EVALUATION);
    MAJORITY_TIES = Metric::value("val-aux/{benchmark}/acc/{metric}/ties", Unit::Share, "share of problems whose vote is tied").of_lines(EVALUATION);
    EVALUATED_LENGTH = Metric::value("val-aux/{benchmark}/response_length/{mean,max,min}", Unit::Tokens, "length of the responses").of_lines(EVALUATION);
    EVALUATED_TRUNCATED = Metric::value("val-aux/{benchmark}/response_length/clip_ratio", Unit::Share, "share of responses that were cut off").of_lines(EVALUATION);
    EVALUATED_PROBLEMS = Metric::value("val-aux/{benchmark}/problems", Unit::None, "problems that were evaluated").of_lines(EVALUATION);
    EVALUATED_INVALID = Metric::value("val-aux/{benchmark}/invalid_samples", Unit::None, "samples without a verdict").of_lines(EVALUATION);
    EVALUATED_COPIED = Metric::value("val-aux/{benchmark}/copied_samples", Unit::None, "samples whose answer was refused because it is copied from the prompt").of_lines(EVALUATION);
}
