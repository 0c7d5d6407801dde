//! Evaluations: accuracies, their errors, and what else is known of the answers.

use super::{EVALUATION, rows};
use crate::metric::row::{Metric, Unit};
use crate::metric::{Gauge, Shown};

const ACCURACY_GAUGE: Gauge = Gauge::by_parts(
    "evenkeel_run_evaluation_accuracy_ratio",
    &["benchmark", "metric"],
    &["benchmarks of the recipe", "`mean@k`, `best@k`, `pass@n`, `maj@k` of the recipe's k"],
    "accuracy in the newest evaluation, 0 to 1",
);

const MEAN_REWARD_GAUGE: Gauge = Gauge::by_parts(
    "evenkeel_run_evaluation_reward",
    &["benchmark", "metric"],
    &["benchmarks of the recipe", "`mean@k`, `best@k` of the recipe's k"],
    "mean raw reward in the newest evaluation",
)
.only("evaluations without an accuracy");

const SOURCES: &str = "the benchmark has two or more data sources";

rows! {
    ACCURACY = Metric::value(
        "val-core/{benchmark}/acc/{metric}",
        Unit::Share,
        "[accuracy](glossary.md#reward-correct-and-accuracy) by `mean@k`, `best@k`, `best@k/mean`, `pass@n`, `maj@k`, and under `average` the mean over \
        benchmarks ([evaluation.md](evaluation.md#accuracies))",
    )
    .of_lines(EVALUATION)
    .shown(&[Shown::by(&ACCURACY_GAUGE)]);
    ACCURACY_ERROR = Metric::value(
        "val-aux/{benchmark}/acc/{metric}/standard_error",
        Unit::None,
        "standard error of an accuracy over problems",
    )
    .of_lines(EVALUATION);
    MEAN_REWARD = Metric::value(
        "val-core/{benchmark}/reward/{metric}",
        Unit::None,
        "mean raw reward by `mean@k` and `best@k`, in place of the accuracy",
    )
    .of_lines(EVALUATION)
    .only("nobody says which answers are correct")
    .shown(&[Shown::by(&MEAN_REWARD_GAUGE)]);
    REWARD_BESIDE = Metric::value(
        "val-aux/{benchmark}/reward/{metric}",
        Unit::None,
        "mean raw reward by `mean@k`, beside the accuracy",
    )
    .of_lines(EVALUATION);
    MEAN_REWARD_ERROR = Metric::value(
        "val-aux/{benchmark}/reward/{metric}/standard_error",
        Unit::None,
        "standard error of a mean reward over problems",
    )
    .of_lines(EVALUATION);
    MEAN_REWARD_NOISE = Metric::value(
        "val-aux/{benchmark}/reward/{metric}/sampling_error",
        Unit::None,
        "standard error of a mean reward over repeated sampling",
    )
    .of_lines(EVALUATION)
    .only("problems have two or more samples");
    ACCURACY_NOISE = Metric::value(
        "val-aux/{benchmark}/acc/{metric}/sampling_error",
        Unit::None,
        "standard error of an accuracy over repeated sampling",
    )
    .of_lines(EVALUATION)
    .only("problems have two or more samples");
    ACCURACY_WITH_COPIED = Metric::value(
        "val-aux/{benchmark}/acc/{metric}/with_copied",
        Unit::Share,
        "the accuracy if answers [copied from the prompt](math.md#copied-answers) were accepted",
    )
    .of_lines(EVALUATION);
    MAJORITY_TIES =
        Metric::value("val-aux/{benchmark}/acc/{metric}/ties", Unit::Share, "share of problems whose vote is tied")
            .of_lines(EVALUATION);
    EVALUATED_LENGTH =
        Metric::value("val-aux/{benchmark}/response_length/{mean,max,min}", Unit::Tokens, "length of the responses")
            .of_lines(EVALUATION);
    EVALUATED_TRUNCATED = Metric::value(
        "val-aux/{benchmark}/response_length/clip_ratio",
        Unit::Share,
        "share of responses that were cut off",
    )
    .of_lines(EVALUATION);
    EVALUATED_PROBLEMS =
        Metric::value("val-aux/{benchmark}/problems", Unit::None, "problems that were evaluated").of_lines(EVALUATION);
    EVALUATED_INVALID = Metric::value("val-aux/{benchmark}/invalid_samples", Unit::None, "samples without a verdict")
        .of_lines(EVALUATION);
    SOURCE_MEAN = Metric::value(
        "val-source/{benchmark}/{source}/{acc,reward}/{metric}",
        Unit::None,
        "accuracy over the problems of one data source, or their mean reward where nobody says which answers are \
        correct: of the row's column `data_source`, or of the name of its \
        source (at most 32)",
    )
    .of_lines(EVALUATION)
    .only(SOURCES);
    SOURCE_MEAN_ERROR = Metric::value(
        "val-source/{benchmark}/{source}/standard_error/{metric}",
        Unit::None,
        "standard error of that value over problems",
    )
    .of_lines(EVALUATION)
    .only(SOURCES);
    SOURCE_EVALUATED_LENGTH = Metric::value(
        "val-source/{benchmark}/{source}/response_length/mean",
        Unit::Tokens,
        "mean length of the responses to problems of one data source",
    )
    .of_lines(EVALUATION)
    .only(SOURCES);
    SOURCE_PROBLEMS = Metric::value(
        "val-source/{benchmark}/{source}/problems",
        Unit::None,
        "problems of one data source that were evaluated",
    )
    .of_lines(EVALUATION)
    .only(SOURCES);
    EVALUATED_COPIED = Metric::value(
        "val-aux/{benchmark}/copied_samples",
        Unit::None,
        "samples whose answer was refused because it is copied from the prompt",
    )
    .of_lines(EVALUATION);
}
